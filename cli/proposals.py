"""Options that say who proposes tokens, and how often proposals are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from inference_econ import answers, inputs
from inference_econ.errors import InputError
from inference_econ.inputs.options import GROUPS

from . import options
from .refusals import named_options, refuse

if TYPE_CHECKING:
    from inference_econ.answers.market import Proposer
    from inference_econ.engine import Speculation

_PROPOSERS: tuple[inputs.ProposerName, ...] = ("draft", "mtp", "eagle", "ngram")
_DETAILS = [option.name for option in GROUPS["Speculation"] if option.name not in (*_PROPOSERS, "no_speculation")]


def speculation(choices: options.Choices, hardware: str | None = None) -> Speculation | None:
    """Speculation that the options for proposers ask for, perhaps on other hardware; None without a proposer.

    Raises
    ------
    InputError
        If they contradict each other, or cannot be used.
    """
    if _only_proposer(choices) is None:
        return None
    from inference_econ.answers.settings import speculation_of

    _longest(choices)
    return speculation_of(options.settings(settings(choices), hardware), options.setup(choices, hardware))


def proposed(choices: options.Choices, hardware: str | None = None) -> Proposer:
    """Proposer where that may be left to recipes: whoever is asked for, nobody, or whom recipes have.

    Raises
    ------
    InputError
        See :func:`speculation`.
    """
    from inference_econ.answers.market import RECIPE

    named = speculation(choices, hardware)
    return named if named is not None or choices.get("no_speculation") else RECIPE


def settings(choices: options.Choices) -> dict[str, Any]:
    """Return the options, with those for proposers as fields of ``Settings``.

    Raises
    ------
    InputError
        If they contradict each other, or cannot be used.
    """
    proposing = (*_PROPOSERS, *_DETAILS, "no_speculation")
    others = {name: value for name, value in choices.items() if name not in proposing}
    if _only_proposer(choices) is None:
        return {**others, "speculate": False} if choices.get("no_speculation") else others
    named = {
        name: choices[name] for name in (*_PROPOSERS, "draft_weights", "max_draft", "draft_length") if choices[name]
    }
    return {**others, **named, "acceptance": _acceptance(choices)}


def _only_proposer(choices: options.Choices) -> inputs.ProposerName | None:
    """The proposer that is named, if one is; details without one mean nothing."""
    named = [name for name in _PROPOSERS if choices[name]]
    if len(named) > 1:
        listed = " and ".join(f"--{name}" for name in named)
        raise InputError(f"give one of --draft, --mtp, --eagle and --ngram, got {listed}", option="draft")
    if named and choices.get("no_speculation"):
        raise InputError(f"--no-speculation contradicts --{named[0]}; leave one of them out", option="no_speculation")
    text = "{} says something of proposals; give --draft MODEL, --mtp, --eagle or --ngram as well"
    refuse([] if named else named_options(choices, _DETAILS), text)
    return named[0] if named else None


def _acceptance(choices: options.Choices) -> float | list[float] | None:
    """The probabilities that were given, or that a file tells."""
    if choices["acceptance"] is not None and choices["acceptance_file"] is not None:
        raise InputError("give either --acceptance or --acceptance-file, not both", option="acceptance")
    if choices["acceptance_file"] is not None:
        return answers.speculate.measured_acceptance(choices["acceptance_file"], _longest(choices))
    return None if choices["acceptance"] is None else _rates(choices["acceptance"])


def _longest(choices: options.Choices) -> int | None:
    """Proposals of a round at most, if that is given [1].

    Raises
    ------
    InputError
        If it is given in two ways.
    """
    if choices["draft_length"] is None:
        return cast("int | None", choices["max_draft"])
    if choices["max_draft"] is not None:
        raise InputError(
            "give either --max-draft, of which each batch has the best, or --draft-length, which all rounds have",
            option="max_draft",
        )
    return cast("int", choices["draft_length"])


def _rates(text: str) -> float | list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--acceptance {text!r}: write one probability for all proposals, or one for each, as 0.9,0.8,0.7",
            option="acceptance",
        ) from None
    return rates[0] if len(rates) == 1 else rates
