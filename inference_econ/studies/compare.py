"""Several frontiers side by side: hardware, models, formats or assumptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from inference_econ._types import Progress
from inference_econ.errors import InputError
from inference_econ.inputs import Scenario, Settings, catalog, prices
from inference_econ.studies.comparison import Comparison
from inference_econ.studies.scenario import run

#: A name, or several to compare.
Names = str | Sequence[str]
#: A price of an accelerator [USD/h], or in words: a kind, or one of a node.
Rate = float | str
#: Settings that may be lists, beside models and hardware.
_COMPARED = ("weights", "activations", "kv", "assumptions", "engine", "context", "isl", "osl")


def compare(
    models: Names = (),
    hardware: Names = (),
    *,
    price: Rate | Mapping[str, Rate] | None = None,
    series: Mapping[str, Settings] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Comparison:
    """Frontiers of every combination of what is given, and of further series (``inference_econ.compare``).

    Parameters
    ----------
    models, hardware : str or sequence of str
        Names or paths.
    price : float or str, or mapping of str to these, optional
        Of one accelerator [USD/h], of a node (``23.60/node``) or a kind (``on_demand``), of all hardware or of some;
        otherwise of the kind and seller that all files list, or the best of each file.
    series : mapping of str to Settings, optional
        Further series by label; what they leave out is common to all.
    progress : callable, optional
        Told the share of the work done.
    **settings
        Fields of :class:`inference_econ.inputs.asks.Settings`, for all series. Number formats (``weights``,
        ``activations``, ``kv``), ``assumptions``, ``engine`` and lengths (``context``, ``isl``, ``osl``) may be lists,
        all of which are compared.

    Returns
    -------
    Comparison
        One curve per series; series that fit nowhere are in ``missing``, with the reason.

    Raises
    ------
    InputError
        If a name or setting cannot be used, or there is nothing to compare.
    NothingFitsError
        If no series fits.

    Examples
    --------
    >>> result = compare("llama_3_8b", ["h100_sxm", "h200_sxm"], weights="fp8", max_instance_gpus=2)
    >>> [curve.label for curve in result.curves]
    ['h100_sxm', 'h200_sxm']
    """
    scenario = asked_scenario(models, hardware, price, series, settings)
    result = run(scenario, keep_going=True, progress=progress)
    return Comparison(result.scenario, result.exhibits, result.sources, result.missing)


def asked_scenario(
    models: str | Sequence[str],
    hardware: str | Sequence[str],
    price: Rate | Mapping[str, Rate] | None,
    series: Mapping[str, Settings] | None,
    settings: Mapping[str, Any],
) -> Scenario:
    """The scenario of the kind ``frontier`` that :func:`compare` answers; see there.

    Raises
    ------
    InputError
        If a value is given twice or cannot be used, or there is nothing to compare.
    """
    compared = {"model": models, "hardware": hardware, **{name: settings.get(name, ()) for name in _COMPARED}}
    axes = {name: _values(value) for name, value in compared.items()}
    for name, values in axes.items():
        twice = next((value for value in values if list(values).count(value) > 1), None)
        if twice is not None:
            raise InputError(f"{name}: {twice} is given twice")
    common: dict[str, object] = {name: value for name, value in settings.items() if name not in _COMPARED}
    common |= {name: values[0] for name, values in axes.items() if len(values) == 1}
    rates, further = price if isinstance(price, Mapping) else {}, series or {}
    for name in rates:
        if name not in axes["hardware"]:
            chips = ", ".join(axes["hardware"]) or "none"
            raise InputError(f"price: {name!r} is not among the hardware that is compared: {chips}")
    if not isinstance(price, Mapping):
        unpriced = (own.hardware for own in further.values() if own.hardware is not None and own.price is None)
        priced = map(catalog.hardware, dict.fromkeys((*axes["hardware"], *unpriced)))
        common_price = prices.compared(priced, price)
        common |= {} if common_price is None else {"price": common_price}
    listed = _product(axes, rates) if axes["model"] and axes["hardware"] else []
    listed += [{"label": label, "settings": own.model_dump(exclude_unset=True)} for label, own in further.items()]
    if not listed:
        raise InputError("nothing to compare: name models and hardware, or series that name their own")
    data: dict[str, object] = {
        "name": "Comparison",
        "description": "Cost-speed frontiers side by side.",
        "ask": {"kind": "frontier", "common": common, "series": listed},
        "figure": {"title": _title(axes)},
        "sources": {"ask": {"ref": "user", "where": "the comparison that was asked for", "kind": "assumed"}},
    }
    return Scenario.build(data, origin="comparison")


def _values(value: object) -> list[Any]:
    """One value, several or none of an axis."""
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _title(axes: Mapping[str, Sequence[Any]]) -> str:
    """Title of what all combinations have in common."""
    return ", ".join(_short(name, values[0]) for name, values in axes.items() if len(values) == 1) or "Comparison"


def _product(axes: Mapping[str, Sequence[Any]], rates: Mapping[str, Rate]) -> list[dict[str, object]]:
    """Every combination of the axes that have several values, labelled by what differs."""
    several = {name: values for name, values in axes.items() if len(values) > 1}
    combined: list[dict[str, object]] = []
    for combination in itertools.product(*several.values()):
        settings: dict[str, object] = dict(zip(several, combination, strict=True))
        chip = str(settings.get("hardware", axes["hardware"][0]))
        if chip in rates:
            settings["price"] = rates[chip]
        label = ", ".join(map(_short, several, combination)) or " on ".join(
            _short(name, axes[name][0]) for name in ("model", "hardware")
        )
        combined.append({"label": label, "settings": settings})
    return combined


def _short(axis: str, value: str | float) -> str:
    """A length with the name of its axis, a path as its last part."""
    if not isinstance(value, str):
        return f"{axis} {value:g}"
    return PurePath(value).stem if value.endswith((".yaml", ".yml", ".json")) else value
