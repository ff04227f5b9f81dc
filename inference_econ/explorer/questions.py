"""Questions as data: options with their kinds, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from inference_econ.report.page import Page

#: Options of a question by name, as JSON has them.
Fields: TypeAlias = Mapping[str, Any]

#: A question whose answer loads what others need too.
WARM_UP: tuple[str, Fields] = ("frontier", {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a question.

    Attributes
    ----------
    name : str
        In requests.
    kind : type
        What JSON may hold: a type or a union of types.
    description : str
        What it says, with its unit.
    default : object
        Where it is not given; None says that nothing is.
    required : bool
        Whether it must be given.
    limits : mapping of str to float
        ``ge``, ``gt``, ``le``, ``lt`` of numbers, in the words of pydantic.
    many : bool
        Whether it is a list of such.
    group : str
        Heading that the command line lists it under.
    catalogue : str
        The kind of entries whose names it takes; empty of others.
    """

    name: str
    kind: Any
    description: str
    default: object = None
    required: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    many: bool = False
    group: str = "Options"
    catalogue: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Question that can be asked.

    Attributes
    ----------
    name : str
        As the command line has it.
    summary : str
        In one sentence.
    description : str
        All that is said of it.
    options : tuple of Option
        Required ones first.
    """

    name: str
    summary: str
    description: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question: a page, or the text of a file to run.

    Attributes
    ----------
    command : str
        What one types to ask the same.
    page : Page or None
        What can be shown of it.
    remarks : sequence of str
        What names were taken for, where that is not plain.
    text : str
        A script or manifest, where that is the answer.
    question : mapping
        What was asked, for answers that other commands take up.
    scenario : callable or None
        Gives the file of the same question; None of questions that files do not hold.
    """

    command: str
    page: Page | None = None
    text: str = ""
    remarks: Sequence[str] = ()
    question: Mapping[str, object] = field(default_factory=dict)
    scenario: Callable[[], str] | None = None


#: Answers a question by its name; a function of a module, so that other processes can call it.
Answering: TypeAlias = Callable[[str, Fields], Answer]


class RefusedError(InputError):
    """A question that cannot be answered, with the option that caused it."""
