"""Public functions of questions, which take names and options or objects; ``_questions.pyi`` has their types."""

from inference_econ.requests.by_name import question


def __getattr__(name: str) -> object:
    """Make the function of a question."""
    return question(name)
