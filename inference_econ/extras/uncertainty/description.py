"""Uncertainty studies from one function call: chips to compare, and distributions as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference_econ._types import Progress
from inference_econ.errors import InputError
from inference_econ.extras.uncertainty.answer import Uncertainty, answer
from inference_econ.extras.uncertainty.scenario_kinds import PROFILE
from inference_econ.inputs import HELD_OUT, FrontierAsk, Scenario, parsed_value
from inference_econ.studies.compare import Rate, asked_scenario

#: Distribution as text, ``"lognorm(s=0.2, relative)"``, or as an equivalent mapping.
Given = str | Mapping[str, object]
_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
#: Name of studies that are created by one call.
_NAME = "Uncertainty"


def uncertainty(
    model: str,
    hardware: str | Sequence[str],
    vary: Mapping[str, Given],
    *,
    speed: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    price: Rate | Mapping[str, Rate] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Uncertainty:
    """Compute the uncertainty of costs, and of the choice between chips (``inference_econ.uncertainty``).

    Parameters
    ----------
    model : str
        Name or path.
    hardware : str or sequence of str
        Names or paths; several are compared.
    vary : mapping of str to str or mapping
        Distributions by input. ``{"price": "lognorm(s=0.2, relative)"}`` applies to all chips, and ``{"b200: price":
        ...}`` to one. ``{"profile": "held_out"}`` uses the cross-validated errors of the profile.
    speed : float, optional
        Speed at which chips are compared [tokens/s per user]; by default, a round number that all chips reach.
    samples : int, optional
        Points of the design, a power of two [1].
    seed : int
        Seed of the scrambling.
    price : float or str, or mapping of str to these, optional
        See :func:`inference_econ.compare`.
    progress : callable, optional
        Receives the completed share.
    **settings
        Fields of :class:`inference_econ.inputs.scenario_kinds.Settings`, for all chips.

    Returns
    -------
    Uncertainty
        Intervals, probabilities, Sobol shares, and the value of knowing an input.

    Raises
    ------
    InputError
        If a name, setting or distribution is invalid, or no result depends on an input.
    NothingFitsError
        If a chip has no nominal frontier.

    Examples
    --------
    >>> study = uncertainty("llama_3_8b", "h100_sxm", {"price": "lognorm(s=0.2, relative)"}, tp=1, dp=1, pp=1)
    >>> low, middle, high = study.bands[:, study.at, 0] / study.present[study.at, 0]
    >>> print(f"{low:.3f} {middle:.3f} {high:.3f}")
    0.774 1.000 1.292
    """
    choices = {name: value for name, value in (("speed", speed), ("samples", samples)) if value is not None}
    scenario = asked(model, hardware, vary, price, {**choices, "seed": seed}, settings)
    return answer(scenario, scenario.ask, progress=progress)


def asked(
    model: str,
    hardware: str | Sequence[str],
    vary: Mapping[str, Given],
    price: Rate | Mapping[str, Rate] | None,
    choices: Mapping[str, object],
    settings: Mapping[str, Any],
) -> Scenario:
    """Scenario behind :func:`uncertainty`, with its parameters; ``choices`` are fields of the query."""
    compared = asked_scenario(model, hardware, price, None, settings).ask
    assert isinstance(compared, FrontierAsk)
    series = [curve.model_dump(exclude_unset=True) for curve in compared.series]
    shared, inputs_of = _inputs(vary, [curve.label for curve in compared.series])
    data = {
        "name": _NAME,
        "ask": {
            "kind": "uncertainty",
            "common": compared.common.model_dump(exclude_unset=True),
            "series": [{**curve, "inputs": inputs_of.get(str(curve["label"]), {})} for curve in series],
            "inputs": shared,
            **choices,
        },
        "sources": {"ask": {"ref": "user", "where": "the study that was asked for", "kind": "assumed"}},
    }
    return Scenario.build(data, origin="vary")


def _inputs(vary: Mapping[str, Given], labels: Sequence[str]) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """Inputs that all series share, and inputs of single series by label."""
    shared: dict[str, object] = {}
    inputs_of: dict[str, dict[str, object]] = {}
    for key, text in vary.items():
        label, colon, name = (part.strip() for part in key.rpartition(":"))
        if colon and label not in labels:
            raise InputError(f"vary {key!r}: {label!r} is none of what is compared: {', '.join(labels)}")
        inputs = inputs_of.setdefault(label, {}) if colon else shared
        inputs[name] = parsed(text) if isinstance(text, str) else dict(text)
    return shared, inputs_of


def parsed(text: str) -> object:
    """Parse a distribution.

    Parameters
    ----------
    text : str
        For example ``lognorm(s=0.2, scale=2.5 USD/h)``, with ``relative`` for factors; ``held_out`` for profile errors.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> parsed("lognorm(s=0.2, relative)")
    {'distribution': 'lognorm', 's': 0.2, 'relative': True}
    """
    if text.strip() == HELD_OUT:
        return HELD_OUT
    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} is not a distribution; write NAME(PARAMETER=VALUE, ...) as in scipy.stats, for example "
            f"'lognorm(s=0.2, relative)', or for {PROFILE} {HELD_OUT!r}"
        )
    arguments: dict[str, object] = {"distribution": match[1]}
    for part in filter(None, (part.strip() for part in match[2].split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name in arguments or not (value or (name == "relative" and not sign)):
            raise InputError(f"{text!r}: write each parameter once, as NAME=VALUE; got {part!r}")
        arguments[name] = parsed_value(value, name) if sign else True
    return arguments
