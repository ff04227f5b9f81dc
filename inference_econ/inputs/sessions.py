"""Sessions of agents and users: turns that wait for each other, and whose prompts carry on what was said before."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from inference_econ.inputs._base import Seconds, Spec, in_file
from inference_econ.inputs.length import Length, Tokens

#: A length, as :meth:`~inference_econ.inputs.Length.parse` reads it.
Lengths = Annotated[Length, BeforeValidator(in_file(Length.parse))]


class Step(Spec):
    """Turns of an agent one after the other: each prompt is all that was said before, and something new.

    Examples
    --------
    >>> Step(name="work", new_tokens=800, answer_tokens="lognormal:300:1", turns=20, pause=4).pause
    4.0
    """

    name: str = Field(min_length=1)
    """Name by which later steps refer to it."""
    turns: Lengths = Length(values=(1.0,))
    """Turns, drawn anew for every session and rounded to whole ones [1]."""
    new_tokens: Lengths
    """Tokens that a turn adds to the prompt: a question, or what tools gave [tokens]."""
    first_tokens: Lengths | None = None
    """Tokens that the first turn adds, if it is another length: a task, files to begin with [tokens]."""
    answer_tokens: Lengths
    """Answer of a turn, which stays in the prompts of those that follow [tokens]."""
    pause: Seconds = 0.0
    """Mean time from an answer to the turn that follows it: tools that run, somebody who thinks [s]."""
    pause_variation: Annotated[int | float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    """Coefficient of variation of these times, which are lognormal [1]."""
    after: tuple[str, ...] = Field(default=(), strict=False)
    """Steps above it that must have ended before it begins."""
    continues: str | None = None
    """The one of these whose prompts it carries on; without it, it begins with the shared prompt alone."""
    agents: Annotated[int, Field(ge=1, le=1000)] = 1
    """Agents that do the step at the same time, each with prompts of its own [1]."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class SessionSpec(Spec):
    """Session of one user or agent from a task to its end: steps that wait for each other, without a circle.

    Examples
    --------
    >>> chat = SessionSpec(steps=[Step(name="chat", turns=5, new_tokens=100, answer_tokens=200, pause=30)])
    >>> chat.longest_context
    1500.0
    """

    shared_tokens: Tokens = 0
    """Tokens that the prompts of all sessions begin with: instructions, and descriptions of tools [tokens]."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1, strict=False)]
    """Each is written below those that it waits for."""
    rest: Seconds = 0.0
    """Mean time between a session and the next one of the same agent [s]."""
    compacts_at: Annotated[int, Field(ge=1)] | None = None
    """Where a prompt with its answer would be longer, an agent goes on with a summary; what is new is cut [tokens]."""
    summary_tokens: Annotated[int, Field(ge=0)] = 2000
    """Of such a summary [tokens]."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @field_validator("steps")
    @classmethod
    def _no_circle(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Refuse steps that wait for themselves or for what is not there, or carry on what they do not wait for."""
        mistakes: list[InitErrorDetails] = []
        above: dict[str, Step] = {}

        def refuse(field: str, value: object, problem: str) -> None:
            error = PydanticCustomError("sessions", "{problem}", {"problem": problem})
            mistakes.append(InitErrorDetails(type=error, loc=(len(above), field), input=value))

        for step in steps:
            listed = ", ".join(above) or "none"
            if not set(step.after) <= set(above):
                refuse("after", list(step.after), f"steps can wait for steps above them alone, here {listed}, so that "
                       "they never wait in a circle")  # fmt: skip
            elif step.continues is not None and step.continues not in step.after:
                refuse("continues", step.continues, "what a step carries on must be in its 'after'")
            elif step.continues is not None and above[step.continues].agents > 1:
                refuse("continues", step.continues, "a step of several agents has no single prompt to carry on")
            if step.name in above:
                refuse("name", step.name, "every step needs a name of its own")
            above[step.name] = step
        if mistakes:
            raise ValidationError.from_exception_data("steps", mistakes)
        return steps

    @property
    def longest_context(self) -> float:
        """Tokens of the longest session's last prompt with its answer, as far as lengths have a longest [tokens]."""
        ends: dict[str | None, float] = {None: float(self.shared_tokens)}
        for step in self.steps:
            first = step.new_tokens if step.first_tokens is None else step.first_tokens
            further = max(round(step.turns.longest), 1) - 1
            answers = (further + 1) * step.answer_tokens.mean
            ends[step.name] = ends[step.continues] + first.longest + further * step.new_tokens.mean + answers
        longest = max(ends.values())
        return longest if self.compacts_at is None else min(longest, float(self.compacts_at))
