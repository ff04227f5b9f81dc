"""The ``sensitivity`` command with distributions of inputs."""

from __future__ import annotations

from collections.abc import Mapping

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, refuse, subject, tables


def uncertainty(
    request: Request,
    names: tuple[str, ...],
    vary: tuple[str, ...],
    speeds: tuple[float, ...],
    samples: int | None,
    seed: int | None,
) -> ie.Uncertainty:
    """Show cost intervals, the probability that one GPU is cheaper than another GPU, and the decisive inputs."""
    from inference_econ.extras.uncertainty import answer as description
    from inference_econ.extras.uncertainty.answer import answer

    refuse(filter(request.is_given, ("inputs", "span")), "{} varies inputs one by one; leave it out with --vary")
    if len(speeds) > 1:
        raise InputError("with --vary give one --speed, that the choice is made for", option="speeds")
    own = {"speed": speeds[0] if speeds else None, "samples": samples, "seed": seed}
    overrides = {name: value for name, value in own.items() if value is not None}
    if len(names) == 1:
        scenario = _study(request, names[0], vary, overrides)
    else:
        model = subject.meant(request, "model", names[0])
        chips = [subject.meant(request, "hardware", name) for name in names[1:]]
        price = prices.of_compared(request.price, chips)
        settings = subject.shared_settings(request)
        scenario = description.asked(model, chips, _varied(vary), price, overrides, settings)
    return answer(scenario, scenario.ask, progress=request.progress)


def _study(request: Request, name: str, vary: tuple[str, ...], overrides: Mapping[str, object]) -> ie.Scenario:
    """Read an uncertainty study from the catalog or a file, with samples, seed and speed from the options.

    Raises
    ------
    InputError
        If the scenario is of another kind, or an option is given that the scenario file determines.
    """
    from inference_econ.extras.uncertainty.scenario_kinds import UncertaintyAsk

    if name in inputs.catalog.names("models"):
        raise InputError(f"{name} is a model; name its HARDWARE behind it, and what is uncertain with --vary")
    assert request.asked is not None
    shown = (*tables.SHOWN, "names", "vary", "speeds", "inputs", "span", "samples", "seed", "yes")
    typed = [key for key in request.asked.values if key not in shown and request.is_given(key)]
    if vary or typed:
        option = "--vary" if vary else f"--{typed[0].replace('_', '-')}"
        raise InputError(f"{option} is for MODEL HARDWARE...; {name!r} alone is a study, whose file says it")
    study = inputs.catalog.scenario(subject.meant(request, "scenarios", name))
    if not isinstance(study.ask, UncertaintyAsk):
        raise InputError(
            f"{name} is a scenario of the kind {study.ask.kind!r}, not uncertainty; 'paper run' answers it"
        )
    return study.replace(ask=study.ask.replace(**overrides)) if overrides else study


def _varied(texts: tuple[str, ...]) -> dict[str, str]:
    """Distributions by input; ``profile`` alone means the cross-validated errors of the profile."""
    distributions: dict[str, str] = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign and key.rpartition(":")[2].strip() == "profile":
            value = "held_out"
        if not key or not value or key in distributions:
            raise InputError(f"--vary {text!r}: write INPUT=DISTRIBUTION, or 'profile', each input once")
        distributions[key] = value
    return distributions
