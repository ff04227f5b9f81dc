"""Python functions of the commands, such as ``inference_econ.frontier``.

Each function accepts names and options, or objects. ``_questions.pyi`` declares the types of the arguments.
"""

from inference_econ.requests.by_name import question


def __getattr__(name: str) -> object:
    """Create the Python function of a command when it is first used."""
    return question(name)
