"""Run scenario files: compute their frontiers, comparisons and tables, with sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inference_econ._named import named
from inference_econ._types import Progress
from inference_econ.engine.pricing import or_unpriced
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import (
    AssessAsk,
    FrontierAsk,
    PanelsAsk,
    Scenario,
    Settings,
    ToyAsk,
    catalog,
    check_of_one_kind,
)
from inference_econ.inputs.scenarios.scenario import KINDS
from inference_econ.records.sources import UsedSource, priced_sources, spec_sources
from inference_econ.studies.exhibits import Compared
from inference_econ.studies.results import BesideSeries, Curve, Result, beside
from inference_econ.studies.settings import assessment_of, computed_ahead, shared_frontier

if TYPE_CHECKING:
    from concurrent.futures import Executor


def run(
    scenario: Scenario | catalog.Name,
    *,
    changes: Sequence[str] = (),
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run a scenario.

    Parameters
    ----------
    scenario : Scenario or str
        Scenario, or the name or path of its file.
    changes : sequence of str
        Changed inputs for all frontiers: ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or
        ``assumptions.FIELD=VALUE``.
    keep_going : bool
        True to list frontiers without a feasible deployment in :attr:`Result.missing` instead of raising an error. At
        least one frontier must be feasible.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current step.

    Returns
    -------
    Result
        Result with curves, a comparison, tables or panels, depending on the kind of scenario.

    Raises
    ------
    InputError
        If a name, a setting or an entry of ``changes`` is invalid.
    NothingFitsError
        If a frontier has no feasible deployment, unless ``keep_going`` is True.
    """
    spec = scenario if isinstance(scenario, Scenario) else catalog.scenario(scenario)
    changed = spec.changed(changes)
    kind = type(changed.ask)
    answer = named(KINDS[f"{kind.__module__.removeprefix('inference_econ.')}:{kind.__name__}"])
    result: Result = answer(ScenarioRun(changed, tuple(changes), keep_going, progress), changed.ask)
    return result


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """Runs one scenario; its fields are the parameters of :func:`run`."""

    scenario: Scenario
    changes: tuple[str, ...]
    keep_going: bool
    progress: Progress | None

    def frontiers(self, ask: FrontierAsk) -> Result:
        """Run a scenario of frontiers."""
        table = self.scenario.table
        shown = () if table is None else (column.key for column in table.columns)
        check_of_one_kind((series.settings.over(ask.common) for series in ask.series), shown)
        return self.drawn(ask, _curve)

    def drawn(self, ask: FrontierAsk | ToyAsk, curve: Callable[[str, Settings], Curve]) -> Result:
        """Compute one curve per frontier of the scenario."""
        curves, missing = [], {}
        for index, series in enumerate(ask.series):
            if self.progress is not None:
                self.progress(index / len(ask.series), series.label)
            try:
                settings = series.settings.over(ask.common)
                if self.keep_going and len(ask.series) > 1 and settings.hardware is not None:
                    settings = settings.replace(price=or_unpriced(settings.hardware, settings.price))
                curves.append(curve(series.label, settings))
            except NothingFitsError as error:
                if not self.keep_going:
                    raise
                missing[series.label] = str(error)
            except InputError as error:
                if len(ask.series) == 1 or type(error) is not InputError:
                    raise
                raise InputError(f"{series.label}: {error}", error.option) from error
        if not curves:
            raise NothingFitsError("\n".join(f"{label}: {reason}" for label, reason in missing.items()))
        offers = self._offers(curve.label for curve in curves)
        used = (*(used for curve in curves for used in curve.sources), *(beside.source for beside in offers))
        return self.result(used, curves=tuple(curves), offers=offers, missing=missing)

    def _offers(self, labels: Iterable[str]) -> tuple[BesideSeries, ...]:
        """Hosted APIs that the figure of the scenario shows next to its frontiers."""
        figure = self.scenario.figure
        return () if figure is None else beside(figure.offers, tuple(labels))

    def assessment(self, ask: AssessAsk) -> Result:
        """Compare a measured deployment with predictions under its own assumptions, and under other assumptions."""
        further = (ask.replace(common=ask.common.replace(assumptions=preset)) for preset in ask.presets)
        assessments = [assessment_of(wanted, progress=self.progress) for wanted in (ask, *further)]
        used = (used for item in assessments for used in priced_sources(item.setup))
        return self.result(used, assessments=tuple(assessments))

    def compared(self, answer: Compared, sources_of: Callable[[Any], Iterable[UsedSource]]) -> Result:
        """Convert reproduced tables and charts to a result with sources."""
        used = (source for spec in answer.basis for source in sources_of(spec))
        return self.result(used, tables=answer.tables, charts=answer.charts)

    def panels(self, ask: PanelsAsk) -> Result:
        """Combine the results of several scenarios as panels of one figure."""
        answers = (run(_panel(name), changes=self.changes, progress=self.progress) for name in ask.scenarios)
        panels = tuple(map(self._with_offers, answers))
        # Offers for a label that no panel has are rejected.
        labels = {curve.label for panel in panels for curve in panel.curves}
        points = () if self.scenario.figure is None else self.scenario.figure.offers
        odd = next((label for wanted in points for label in wanted.series if label not in labels), None)
        if odd is not None:
            raise InputError(f"offers of {odd!r}: no panel has such a series; series: {', '.join(sorted(labels))}")
        used = dict.fromkeys(used for panel in panels for used in panel.sources)
        return Result(self.scenario, panels=panels, sources=tuple(used))

    def _with_offers(self, panel: Result) -> Result:
        offers = self._offers(curve.label for curve in panel.curves)
        used = (*panel.sources, *(beside.source for beside in offers))
        return replace(panel, offers=(*panel.offers, *offers), sources=tuple(dict.fromkeys(used)))

    def result(self, used: Iterable[UsedSource] = (), **shown: Any) -> Result:
        """Create the result of the scenario with its sources.

        Sources are listed without duplicates: first ``used``, then the sources of the scenario file.
        """
        sources = spec_sources("scenario", self.scenario)
        return Result(self.scenario, **shown, sources=(*dict.fromkeys(used), *sources))


def _curve(label: str, settings: Settings) -> Curve:
    front = shared_frontier(settings)
    dollars = front.dollars * (1.0 if front.setup.is_priced else np.nan)
    return Curve(label, front.tokens_per_second, dollars, front.accelerators, front.batch, front, front.sources)


def computing(pool: Executor, names: Iterable[str]) -> AbstractContextManager[None]:
    """Let worker processes compute the frontiers of scenarios; :func:`run` then waits for their results."""
    scenarios = map(catalog.scenario, names)
    return computed_ahead(pool, dict.fromkeys(settings for spec in scenarios for settings in _settings_of(spec)))


def _settings_of(scenario: Scenario) -> list[Settings]:
    """Settings of all frontiers of a scenario and of its panels."""
    ask = scenario.ask
    if isinstance(ask, PanelsAsk):
        return [settings for name in ask.scenarios for settings in _settings_of(_panel(name))]
    return [series.settings.over(ask.common) for series in ask.series] if isinstance(ask, FrontierAsk) else []


def _panel(name: str) -> Scenario:
    """Load a scenario for a panel; reject scenarios without curves."""
    spec = catalog.scenario(name)
    if not isinstance(spec.ask, (FrontierAsk, ToyAsk)):
        raise InputError(f"{name} cannot be a panel: a panel shows frontiers, and it is of the kind {spec.ask.kind!r}")
    return spec
