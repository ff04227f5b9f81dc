"""Several frontiers side by side: hardware, models, formats or assumptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from inference_econ._types import Progress
from inference_econ.errors import InputError
from inference_econ.inputs import Scenario, Settings, catalog, prices
from inference_econ.studies.results import COMPARISON, Result
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
) -> Result:
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
    Result
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
    return run(scenario, keep_going=True, progress=progress)


def asked_scenario(
    models: str | Sequence[str],
    hardware: str | Sequence[str],
    price: Rate | Mapping[str, Rate] | None,
    series: Mapping[str, Settings] | None,
    settings: Mapping[str, Any],
) -> Scenario:
    """The scenario that :func:`compare` answers; see there."""
    compared = {"model": models, "hardware": hardware, **{name: settings.get(name, ()) for name in _COMPARED}}
    axes = {name: _values(given) for name, given in compared.items()}
    common = {name: value for name, value in settings.items() if name not in _COMPARED}
    return comparison_scenario(axes, price, {} if series is None else series, common)


def comparison_scenario(
    axes: Mapping[str, Sequence[Any]],
    price: Rate | Mapping[str, Rate] | None,
    series: Mapping[str, Settings],
    common: Mapping[str, object],
) -> Scenario:
    """The scenario that compares every combination of some settings, and further series.

    Parameters
    ----------
    axes : mapping of str to sequence
        Names, formats or lengths [tokens] by field of the settings: with one it is common, with several it is compared.
    price : float or str, or mapping of str to these, optional
        For all hardware or by its name, as in :func:`compare`.
    series : mapping of str to Settings
        Further series by label.
    common : mapping of str to object
        Other settings of all series.

    Returns
    -------
    Scenario
        Of the kind ``frontier``.

    Raises
    ------
    InputError
        If a value is given twice or cannot be used, or there is nothing to compare.
    """
    for name, values in axes.items():
        twice = next((value for value in values if list(values).count(value) > 1), None)
        if twice is not None:
            raise InputError(f"{name}: {twice} is given twice")
    shared: dict[str, object] = {name: values[0] for name, values in axes.items() if len(values) == 1}
    rates = price if isinstance(price, Mapping) else {}
    for name in rates:
        if name not in axes["hardware"]:
            compared = ", ".join(axes["hardware"]) or "none"
            raise InputError(f"price: {name!r} is not among the hardware that is compared: {compared}")
    if not isinstance(price, Mapping):
        unpriced = (
            setting.hardware for setting in series.values() if setting.hardware is not None and setting.price is None
        )
        chips = dict.fromkeys((*axes["hardware"], *unpriced))
        common_price = prices.compared(map(catalog.hardware, chips), price)
        shared |= {} if common_price is None else {"price": common_price}
    listed = [_series(label, settings.model_dump(exclude_unset=True)) for label, settings in series.items()]
    if axes["model"] and axes["hardware"]:
        listed = _product(axes, rates) + listed
    if not listed:
        raise InputError("nothing to compare: name models and hardware, or series that name their own")
    settings: dict[str, object] = {**common, **shared}
    data: dict[str, object] = {
        "name": COMPARISON,
        "description": "Cost-speed frontiers side by side.",
        "ask": {"kind": "frontier", "common": settings, "series": listed},
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
    combined = []
    for combination in itertools.product(*several.values()):
        settings: dict[str, object] = dict(zip(several, combination, strict=True))
        chip = str(settings.get("hardware", axes["hardware"][0]))
        if chip in rates:
            settings["price"] = rates[chip]
        label = ", ".join(map(_short, several, combination)) or " on ".join(
            _short(name, axes[name][0]) for name in ("model", "hardware")
        )
        combined.append(_series(label, settings))
    return combined


def _series(label: str, settings: Mapping[str, object]) -> dict[str, object]:
    return {"label": label, "settings": dict(settings)}


def _short(axis: str, value: str | float) -> str:
    """A length with the name of its axis, a path as its last part."""
    if not isinstance(value, str):
        return f"{axis} {value:g}"
    return PurePath(value).stem if value.endswith((".yaml", ".yml", ".json")) else value
