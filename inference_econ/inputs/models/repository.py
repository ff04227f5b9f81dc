"""Names of published weights and of container images. Names become part of command lines, so they are checked."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

#: Allowed characters of a name, for messages.
REPOSITORY_LETTERS = "letters, digits and . / : @ _ -, beginning with no dash"
_NAME = re.compile(r"[\w./:@][\w./:@-]*", re.ASCII)


def is_repository(name: str) -> bool:
    """True if a text is a valid name of weights, of a folder with weights, or of a container image.

    Examples
    --------
    >>> is_repository("meta-llama/Llama-3.1-8B"), is_repository("a/b$(touch c)"), is_repository("--trust-remote-code")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def _check(name: str) -> str:
    if not is_repository(name):
        problem = f"write ORGANISATION/NAME in {REPOSITORY_LETTERS}"
        raise PydanticCustomError("repository", "{problem}", {"problem": problem})
    return name


#: Hugging Face id: ``organisation/name``.
Repository = Annotated[str, AfterValidator(_check)]
