"""Public functions of the commands.

Public functions take names and options, or objects. ``_questions.pyi`` has their types.
"""

from inference_econ.requests.by_name import question


def __getattr__(name: str) -> object:
    """Create the function of a command."""
    return question(name)
