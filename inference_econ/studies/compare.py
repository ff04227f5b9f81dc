"""Comparison of several frontiers, for example for different hardware, models, formats or assumptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.slo import chance_below
from inference_econ.engine import bounds, lacks_engine
from inference_econ.errors import InputError
from inference_econ.inputs import Scenario, Settings, catalog, prices
from inference_econ.records.facts import price_record, without_unknown_costs
from inference_econ.records.plain import Frame, frame_of
from inference_econ.records.sources import source_records
from inference_econ.studies.results import Curve, Result, common_speeds
from inference_econ.studies.scenario import run

#: Smallest probability of being cheaper than the cheapest frontier with which another frontier is a rival [1].
_MAY_BE = 0.2


@dataclass(frozen=True)
class Winner:
    """Cheapest of several compared frontiers at a speed, with its rivals."""

    speed: float
    """Speed of one user [tokens/s]."""
    label: str
    """Label of the cheapest frontier."""
    second: str
    """Label of the second cheapest frontier."""
    chance: float | None
    """Probability that the cheapest frontier is cheaper than the second cheapest [1]; None if unknown."""
    rivals: tuple[str, ...]
    """Labels of frontiers that are cheaper than the cheapest with a probability of at least :data:`_MAY_BE`."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Result):
    """Comparison of frontiers: a :class:`.results.Result` that also names the cheapest frontier at each speed."""

    page = "report.questions.compare:ComparisonPage"

    @property
    def about(self) -> str:
        """Labels of the compared frontiers, as one text."""
        return ", ".join(self.labels)

    @property
    def labels(self) -> list[str]:
        """Labels of the compared frontiers, in the requested order."""
        return [series.label for series in getattr(self.scenario.ask, "series", ())]

    @property
    def bounds(self) -> list[str]:
        """Labels of the frontiers whose costs are only lower bounds.

        Costs are lower bounds if no server with the GPU was measured, or if no engine supports the layouts.
        """
        fronts = {curve.label: curve.frontier for curve in self.curves if isinstance(curve.frontier, ServiceFrontier)}
        return [label for label, front in fronts.items() if front.setup.is_bound or lacks_engine(front.setup)]

    @property
    def speeds(self) -> list[float]:
        """Round speeds in the range that API providers offer and that the frontiers cover [tokens/s per user]."""
        return common_speeds([curve.tokens_per_second for curve in self.curves])

    @property
    def price_order(self) -> int:
        """Rank of the kind of price that ranked frontiers have (:attr:`inference_econ.inputs.prices.HourPrice.order`).

        Frontiers with lower-bound costs do not count, unless all frontiers have such costs.
        """
        return min(curve.front.setup.hour_price.order for curve in self._competing)

    @property
    def _competing(self) -> Sequence[Curve]:
        """Frontiers without lower-bound costs; all frontiers if all costs are lower bounds."""
        return [curve for curve in self.curves if curve.label not in self.bounds] or self.curves

    def winners(self, speeds: Sequence[float]) -> list[Winner]:
        """Return the cheapest frontier at each speed that at least two frontiers reach.

        The list is empty if the frontiers have different requests. Frontiers with lower-bound costs (:attr:`bounds`)
        are ranked only if all frontiers have lower-bound costs. Only frontiers with the preferred kind of price
        (:attr:`inference_econ.inputs.prices.HourPrice.order`) are ranked.

        Parameters
        ----------
        speeds : sequence of float
            Speeds [tokens/s per user].
        """
        fronts = (curve.frontier for curve in self.curves)
        if len({front.requests for front in fronts if isinstance(front, ServiceFrontier)}) > 1:
            return []
        order = self.price_order
        competing = [curve for curve in self._competing if curve.front.setup.hour_price.order == order]
        best = []
        for speed in speeds:
            costs = {curve.label: likely for curve in competing if (likely := curve.likely_at(speed)) is not None}
            if len(costs) < 2:
                continue
            first, second, *_ = sorted(costs, key=lambda label: costs[label].dollars)
            beaten = {label: chance_below(costs[first], costs[label]) for label in costs if label != first}
            rivals = [label for label, chance in beaten.items() if chance is not None and chance <= 1.0 - _MAY_BE]
            best.append(Winner(speed, first, second, beaten[second], tuple(rivals)))
        return best

    def record(self, speeds: Sequence[float] | None = None, costs: Sequence[float] = ()) -> dict[str, Any]:
        """Return each frontier as plain data, with its costs at some speeds and its fastest points at some costs.

        If no deployment of a frontier is feasible, its entry has the reason instead.

        Parameters
        ----------
        speeds : sequence of float, optional
            Speeds [tokens/s per user]; by default :attr:`speeds`.
        costs : sequence of float
            Costs [USD per 1e6 output tokens].
        """
        by_label, shown = {curve.label: curve for curve in self.curves}, self.speeds if speeds is None else speeds
        series: list[dict[str, object]] = []
        for label in self.labels:
            if label not in by_label:
                series.append({"label": label, "points": [], "reason": self.missing[label]})
                continue
            front = by_label[label].front
            record = without_unknown_costs(front.record(), front.setup)
            record.pop("sources")
            at_speeds = list[dict[str, object]]()
            for speed in shown:
                # The cost is null if no point is as fast.
                cost = {"tokens_per_second_per_user": speed, "dollars": by_label[label].dollars_at(speed)}
                if isinstance(front, ServiceFrontier):
                    likely = by_label[label].likely_at(speed)
                    ends = (None, None) if likely is None else (likely.low, likely.high)
                    at_speeds.append({**cost, "dollars_low": ends[0], "dollars_high": ends[1]})
                else:
                    off = front.ends()["dollars_per_million_output_tokens"]
                    at_speeds.append(bounds.bounded(cost, {"dollars": off}))
            record["costs"] = at_speeds
            fastest = ((dollars, front.fastest_at(dollars)) for dollars in costs)
            record["at_costs"] = [{"dollars": dollars, "point": point and point.record()} for dollars, point in fastest]
            best = bounds.bounded(front.preferred().record(), front.ends_each[front.preferred_index()])
            series.append({"label": label, **record, "preferred": without_unknown_costs(best, front.setup)})
        return {
            "series": series,
            "cheapest": [asdict(winner) for winner in self.winners(shown)],
            "sources": source_records(self.sources),
        }

    def records(self) -> list[dict[str, Any]]:
        """Return one record per point of each frontier; a frontier without points has one record with the reason."""
        points = [
            {**row, "usd_per_gpu_hour": price.get("usd_per_gpu_hour"), "price_kind": price.get("kind"), "reason": ""}
            for curve in self.curves
            for price in [price_record(curve.front.setup) or {}]
            for row in curve.records()
        ]
        if not self.missing:
            return points
        return [*points, *({"series": label, "reason": reason} for label, reason in self.missing.items())]

    def to_frame(self, *, drawn: bool = True) -> Frame:
        """Return a data frame with one row per record of :meth:`records`, unrounded."""
        del drawn  # the table shows the same points
        return frame_of(self.records())


#: A name, or several names to compare.
Names = str | Sequence[str]
#: Price of a GPU [USD/h]; a text is a kind of price (``on_demand``) or a price per node (``23.60/node``).
Rate = float | str
#: Settings that may be lists of values to compare, in addition to models and hardware.
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
    """Compute one frontier per combination of the inputs, and additional frontiers (``inference_econ.compare``).

    Parameters
    ----------
    models, hardware : str or sequence of str
        Names or paths of models, and of GPUs.
    price : float or str, or mapping of str to these, optional
        Price of one GPU [USD/h], of a node (``23.60/node``), or a kind of price (``on_demand``). A single price applies
        to all hardware; a mapping has one price by hardware name. ``alike`` selects prices from one source. By default,
        each GPU has its default price.
    series : mapping of str to Settings, optional
        Settings of additional frontiers by label, which override the common settings. A list of values in these
        settings gives one frontier per value.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current step.
    **settings
        Fields of :class:`inference_econ.inputs.scenario_kinds.Settings`, for all frontiers. These fields may be lists
        of values to compare: number formats (``weights``, ``activations``, ``kv``), ``assumptions``, ``engine``, and
        lengths (``context``, ``isl``, ``osl``).

    Returns
    -------
    Comparison
        Result with one curve per frontier. ``missing`` has the reason for each frontier without a feasible deployment.

    Raises
    ------
    InputError
        If a name or setting is invalid, or there is nothing to compare.
    NothingFitsError
        If no frontier has a feasible deployment.

    Examples
    --------
    >>> result = compare("llama_3_8b", ["h100_sxm", "h200_sxm"], weights="fp8", max_instance_gpus=2)
    >>> [curve.label for curve in result.curves]
    ['h100_sxm', 'h200_sxm']
    """
    scenario = asked_scenario(models, hardware, price, series, settings)
    result = run(scenario, keep_going=True, progress=progress)
    return Comparison(result.scenario, result.curves, result.offers, sources=result.sources, missing=result.missing)


def asked_scenario(
    models: str | Sequence[str],
    hardware: str | Sequence[str],
    price: Rate | Mapping[str, Rate] | None,
    series: Mapping[str, Settings] | None,
    settings: Mapping[str, Any],
) -> Scenario:
    """Build the scenario of kind ``frontier`` that :func:`compare` runs.

    Raises
    ------
    InputError
        If a value is given twice or is invalid, or there is nothing to compare.
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
        own_chips = (own.hardware for own in further.values() if own.hardware is not None and own.price is None)
        shared = prices.priced_alike(map(catalog.hardware, (*axes["hardware"], *own_chips)), price)
        common |= {} if shared is None else {"price": shared}
    listed = _product(axes, rates) if axes["model"] and axes["hardware"] else []
    for label, own in further.items():
        given = own.model_dump(exclude_unset=True)
        listed += _product(
            {name: () if name in given else values for name, values in axes.items()}, rates, label, given
        )
    if not listed:
        raise InputError("nothing to compare: name models and hardware, or series that name their own")
    alike = [_short(name, values[0]) for name, values in axes.items() if len(values) == 1]
    data: dict[str, object] = {
        "name": "Comparison",
        "description": "Cost-speed frontiers side by side.",
        "ask": {"kind": "frontier", "common": common, "series": listed},
        # Settings with the same value in all combinations.
        "figure": {"title": ", ".join(alike) or "Comparison"},
        "sources": {"ask": {"ref": "user", "where": "the comparison that was asked for", "kind": "assumed"}},
    }
    return Scenario.build(data, origin="comparison")


def _values(value: object) -> list[Any]:
    """List of the values of a compared input; a single value becomes a list, and None an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _product(
    axes: Mapping[str, Sequence[Any]], rates: Mapping[str, Rate], label: str = "", own: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """Create one settings mapping per combination of compared values; its label names these values.

    Each combination includes the settings ``own``, and its label starts with ``label``.
    """
    several = {name: values for name, values in axes.items() if len(values) > 1}
    combined: list[dict[str, object]] = []
    for combination in itertools.product(*several.values()):
        settings: dict[str, object] = {**dict(zip(several, combination, strict=True)), **(own or {})}
        chip = str(settings.get("hardware", next(iter(axes["hardware"]), "")))
        if chip in rates:
            settings.setdefault("price", rates[chip])
        names = [*filter(None, [label]), *map(_short, several, combination)]
        names = names or [" on ".join(_short(name, axes[name][0]) for name in ("model", "hardware"))]
        combined.append({"label": ", ".join(names), "settings": settings})
    return combined


def _short(axis: str, value: str | float) -> str:
    """Short label of an input value: a number with its input's name, or the name of a file without extension."""
    if not isinstance(value, str):
        return f"{axis} {value:g}"
    return PurePath(value).stem if value.endswith((".yaml", ".yml", ".json")) else value
