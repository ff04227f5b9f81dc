"""The command that says how sure an answer is."""

from __future__ import annotations

from collections.abc import Mapping

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError
from inference_econ.requests import Request, kinds, prices, subject, tables


def uncertainty(
    request: Request,
    names: tuple[str, ...],
    vary: tuple[str, ...],
    speed: float | None,
    samples: int | None,
    seed: int | None,
) -> ie.Uncertainty:
    """How sure costs are: bands, the chance that one chip is cheaper than another, and what that hangs on.

    STUDY is a scenario of the kind 'uncertainty', a name or a path; or name a MODEL and its HARDWARE, with --vary.
    """
    from inference_econ.extras.uncertainty import description
    from inference_econ.extras.uncertainty.answer import answer

    own = {"speed": speed, "samples": samples, "seed": seed}
    overrides = {name: value for name, value in own.items() if value is not None}
    if len(names) > 1 and not vary:
        raise InputError(
            "say what is uncertain: --vary profile (how far predictions are off), or for example --vary "
            "'price=uniform(loc=2, scale=2)', 'h100_sxm: price=lognorm(s=0.2, relative)'; repeat it for each input",
            option="vary",
        )
    if len(names) == 1:
        scenario = _study(request, names[0], vary, overrides)
    else:
        model = _meant(request, "model", names[0])
        chips = [_meant(request, "hardware", name) for name in names[1:]]
        price = prices.of_compared(request.price, chips)
        settings = subject.shared_settings(request)
        scenario = description.asked(model, chips, _varied(vary), price, overrides, settings)
    return answer(scenario, scenario.ask, progress=request.progress)


def _meant(request: Request, kind: str, text: str) -> str:
    """The name of the catalog that a text means; what that is is told where it is not plain."""
    read = kinds.kind(kind)
    remark = read.remark(text)
    if remark:
        request.tell(remark)
    return str(read.read(text))


def _study(request: Request, name: str, vary: tuple[str, ...], overrides: Mapping[str, object]) -> ie.Scenario:
    """A study of the catalogue or of a file, with samples, seed and speed in the place of its own.

    Raises
    ------
    InputError
        If it asks something else, or an option says what its file says.
    """
    from inference_econ.extras.uncertainty.scenario_kinds import UncertaintyAsk

    if name in inputs.catalog.names("models"):
        raise InputError(f"{name} is a model; name its HARDWARE behind it, and what is uncertain with --vary")
    assert request.asked is not None
    shown = (*tables.SHOWN, "names", "vary", "speed", "samples", "seed", "yes")
    typed = [key for key in request.asked.values if key not in shown and request.is_given(key)]
    if vary or typed:
        option = "--vary" if vary else f"--{typed[0].replace('_', '-')}"
        raise InputError(f"{option} is for MODEL HARDWARE...; {name!r} alone is a study, whose file says it")
    study = inputs.catalog.scenario(_meant(request, "scenarios", name))
    if not isinstance(study.ask, UncertaintyAsk):
        raise InputError(f"{name} is a scenario of the kind {study.ask.kind!r}, not uncertainty; 'run' answers it")
    return study.replace(ask=study.ask.replace(**overrides)) if overrides else study


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
