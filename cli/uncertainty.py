"""The command that says how sure an answer is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

import inference_econ as ie
from inference_econ import inputs, studies
from inference_econ.errors import InputError

from . import compare, options
from .help import question
from .parameters import Name


@question("uncertainty")
def uncertainty(names: tuple[str, ...], progress: options.Progress | None, **choices: Any) -> ie.Uncertainty:
    """How sure costs are: bands, the chance that one chip is cheaper than another, and what that hangs on.

    STUDY is a scenario of the kind 'uncertainty', a name or a path; or name a MODEL and its HARDWARE, with --vary.
    """
    overrides = {name: value for name in ("speed", "samples", "seed") if (value := choices.pop(name)) is not None}
    vary = choices.pop("vary")
    if len(names) > 1 and not vary:
        raise InputError(
            "say what is uncertain: --vary profile (how far predictions are off), or for example --vary "
            "'price=uniform(loc=2, scale=2)', 'h100_sxm: price=lognorm(s=0.2, relative)'; repeat it for each input",
            option="vary",
        )
    scenario = (
        _study(names[0], overrides, vary, choices) if len(names) == 1 else _question(names, overrides, vary, choices)
    )
    return studies.uncertainty.answer.answer(scenario, scenario.ask, progress=progress)  # type: ignore[arg-type]


def _study(name: str, overrides: Mapping[str, object], vary: tuple[str, ...], choices: options.Choices) -> ie.Scenario:
    """A study of the catalogue or of a file, with samples, seed and speed in the place of its own.

    Raises
    ------
    InputError
        If it asks something else, or an option says what its file says.
    """
    context = click.get_current_context()
    if name in inputs.catalog.names("models"):
        raise InputError(f"{name} is a model; name its HARDWARE behind it, and what is uncertain with --vary")
    typed = [key for key in choices if options.is_given(key)]
    if vary or typed:
        option = "--vary" if vary else f"--{typed[0].replace('_', '-')}"
        raise InputError(f"{option} is for MODEL HARDWARE...; {name!r} alone is a study, whose file says it")
    study = inputs.catalog.scenario(Name("scenarios").convert(name, None, context))
    if not isinstance(study.ask, inputs.UncertaintyAsk):
        raise InputError(f"{name} is a scenario of the kind {study.ask.kind!r}, not uncertainty; 'run' answers it")
    return study.replace(ask=study.ask.replace(**overrides)) if overrides else study


def _question(
    names: tuple[str, ...], overrides: Mapping[str, object], vary: tuple[str, ...], choices: options.Choices
) -> ie.Scenario:
    """The study of one model on some chips."""
    context = click.get_current_context()
    model = Name("models").convert(names[0], None, context)
    chips = [Name("hardware").convert(name, None, context) for name in names[1:]]
    settings = compare.settings(choices)
    price = compare.prices_of(settings.pop("price", None), chips)
    return studies.one_line.asked(model, chips, _varied(vary), price, overrides, settings)


def _varied(texts: tuple[str, ...]) -> dict[str, str]:
    """Distributions by input, ``profile`` alone for its own errors."""
    distributions: dict[str, str] = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign and key.rpartition(":")[2].strip() == "profile":
            value = "held_out"
        if not key or not value or key in distributions:
            raise InputError(f"--vary {text!r}: write INPUT=DISTRIBUTION, or 'profile', each input once")
        distributions[key] = value
    return distributions
