"""Answer a scenario: from names and settings to what there is to see, with the sources it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from inference_econ import _work
from inference_econ._types import Progress
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.closed_models import scenario as closed_models
from inference_econ.extras.closed_models.asks import InferAsk
from inference_econ.extras.papers import families, kv_runahead, latent_attention, sampling_rule, steps
from inference_econ.extras.papers.asks import ClaimsAsk
from inference_econ.extras.papers.claims import answered
from inference_econ.extras.sweeps.asks import SweepAsk
from inference_econ.extras.sweeps.combinations import check_work, combinations_of
from inference_econ.extras.sweeps.stored import Sweep
from inference_econ.extras.sweeps.workers import answers
from inference_econ.extras.uncertainty.asks import UncertaintyAsk
from inference_econ.formulas import roofline
from inference_econ.inputs import (
    AssessAsk,
    FamilyAsk,
    FrontierAsk,
    LatentVariantsAsk,
    PanelsAsk,
    RunaheadAsk,
    SamplingRuleAsk,
    Scenario,
    Settings,
    SquareRootAsk,
    StepsAsk,
    ToyAsk,
    catalog,
    check_of_one_kind,
)
from inference_econ.records.sources import UsedSource, priced_sources, setup_sources, spec_sources
from inference_econ.studies import uncertainty
from inference_econ.studies.exhibits import Compared
from inference_econ.studies.results import BesideSeries, Curve, Exhibit, Result, SquareRootLaw, beside
from inference_econ.studies.settings import assessment_of, shared_frontier
from inference_econ.studies.toy import toy_curve


def run(
    scenario: Scenario | catalog.Name,
    *,
    changes: Sequence[str] = (),
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Answer a scenario.

    Parameters
    ----------
    scenario : Scenario or str
        Or its name or path.
    changes : sequence of str
        What-ifs for all series: ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.
    keep_going : bool
        A series that fits nowhere goes into :attr:`Result.missing`, as long as one fits.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Returns
    -------
    Result
        Curves, comparison, tables or panels, by the kind of question.

    Raises
    ------
    InputError
        If a name, setting or what-if cannot be used.
    NothingFitsError
        If a series has no feasible plan.
    """
    spec = scenario if isinstance(scenario, Scenario) else catalog.scenario(scenario)
    changed = spec.changed(changes)
    return _ANSWERS[type(changed.ask)](_Run(changed, tuple(changes), keep_going, progress), changed.ask)


@dataclass(frozen=True, slots=True)
class _Run:
    """A scenario that is being answered; see :func:`run` for the fields."""

    scenario: Scenario
    changes: tuple[str, ...]
    keep_going: bool
    progress: Progress | None

    def frontiers(self, ask: FrontierAsk) -> Result:
        table = self.scenario.table
        shown = () if table is None else (column.key for column in table.columns)
        check_of_one_kind((series.settings.over(ask.common) for series in ask.series), shown)
        return self._drawn(ask, _curve)

    def toy(self, ask: ToyAsk) -> Result:
        return self._drawn(ask, partial(toy_curve, ask))

    def _drawn(self, ask: FrontierAsk | ToyAsk, curve: Callable[[str, Settings], Curve]) -> Result:
        """A curve per series."""
        curves, missing = [], {}
        for index, series in enumerate(ask.series):
            if self.progress is not None:
                self.progress(index / len(ask.series), series.label)
            try:
                curves.append(curve(series.label, series.settings.over(ask.common)))
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
        return self._result([*curves, *offers], used, missing)

    def _offers(self, labels: Iterable[str]) -> tuple[BesideSeries, ...]:
        """Offers that the figure of the scenario draws beside some series."""
        figure = self.scenario.figure
        return () if figure is None else beside(figure.offers, tuple(labels))

    def assessment(self, ask: AssessAsk) -> Result:
        """The measured deployment under its own preset, and under the further ones."""
        further = (ask.replace(common=ask.common.replace(assumptions=preset)) for preset in ask.presets)
        assessments = [assessment_of(wanted, progress=self.progress) for wanted in (ask, *further)]
        return self._result(assessments, (used for item in assessments for used in priced_sources(item.setup)))

    def square_root_law(self, ask: SquareRootAsk) -> Result:
        parameters = np.array([float(model.parameters) for model in ask.measured])
        measured = np.array([model.latency for model in ask.measured])
        predicted = roofline.square_root_law(parameters, parameters[0], measured[0])
        labels = tuple(model.label for model in ask.measured)
        return self._result([SquareRootLaw(labels, parameters, measured, predicted)])

    def uncertainty(self, ask: UncertaintyAsk) -> Result:
        study = uncertainty.answer.answer(self.scenario, ask, progress=self.progress)
        return self._result([study], study.used)

    def sweep(self, ask: SweepAsk) -> Result:
        """All combinations, held in memory; :func:`inference_econ.sweep` writes larger ones as they are answered."""
        combinations = combinations_of(ask)
        check_work(combinations, range(combinations.parts))
        contents = []
        try:
            for index, part in answers(combinations, range(combinations.parts)):
                contents.append(part.content)
                if self.progress is not None:
                    self.progress((index + 1) / combinations.parts, f"{index + 1} of {combinations.parts} parts")
        except KeyboardInterrupt:
            _work.stop(f"{len(contents)} of {combinations.parts} parts" if contents else "")
        missing = sum(len(combinations.numbers(index)) for index in range(len(contents), combinations.parts))
        return self._result([Sweep(self.scenario, contents, missing).summary()])

    def claims(self, _: ClaimsAsk) -> Result:
        return self._result([answered(self.scenario, progress=self.progress)])

    def compared(self, answer: Compared, sources_of: Callable[[Any], Iterable[UsedSource]]) -> Result:
        """Tables and charts, with the sources of what they rest on."""
        used = (source for spec in answer.basis for source in sources_of(spec))
        return self._result([*answer.tables, *answer.charts], used)

    def panels(self, ask: PanelsAsk) -> Result:
        """Other scenarios, whose sources are those of the whole, with the offers that are drawn beside all of them."""
        answers = (run(_panel(name), changes=self.changes, progress=self.progress) for name in ask.scenarios)
        panels = tuple(map(self._with_offers, answers))
        # Refuse offers that no panel has the series of.
        labels = {curve.label for panel in panels for curve in panel.curves}
        points = () if self.scenario.figure is None else self.scenario.figure.offers
        odd = next((label for wanted in points for label in wanted.series if label not in labels), None)
        if odd is not None:
            raise InputError(f"offers of {odd!r}: no panel has such a series; series: {', '.join(sorted(labels))}")
        return Result(self.scenario, panels, tuple(dict.fromkeys(used for panel in panels for used in panel.sources)))

    def _with_offers(self, panel: Result) -> Result:
        offers = self._offers(curve.label for curve in panel.curves)
        used = (*panel.sources, *(beside.source for beside in offers))
        return replace(panel, exhibits=(*panel.exhibits, *offers), sources=tuple(dict.fromkeys(used)))

    def _result(
        self, exhibits: Iterable[Exhibit], used: Iterable[UsedSource] = (), missing: Mapping[str, str] | None = None
    ) -> Result:
        """A result with the sources of what it shows, each once, before those of the scenario itself."""
        sources = spec_sources("scenario", self.scenario)
        return Result(self.scenario, tuple(exhibits), (*dict.fromkeys(used), *sources), missing or {})


#: What answers each kind of question.
_ANSWERS: Mapping[type, Callable[[_Run, Any], Result]] = {
    FrontierAsk: _Run.frontiers,
    ToyAsk: _Run.toy,
    SquareRootAsk: _Run.square_root_law,
    AssessAsk: _Run.assessment,
    LatentVariantsAsk: lambda run, ask: run.compared(latent_attention.compare(ask), setup_sources),
    RunaheadAsk: lambda run, ask: run.compared(kv_runahead.compare(ask), partial(spec_sources, "model")),
    UncertaintyAsk: _Run.uncertainty,
    SweepAsk: _Run.sweep,
    ClaimsAsk: _Run.claims,
    FamilyAsk: lambda run, ask: run.compared(families.compare(ask, run.progress), priced_sources),
    SamplingRuleAsk: lambda run, ask: run.compared(sampling_rule.compare(ask), lambda _: ()),
    StepsAsk: lambda run, ask: run.compared(steps.compare(ask), setup_sources),
    InferAsk: lambda run, ask: run.compared(closed_models.compare(ask, run.progress), partial(spec_sources, "priors")),
    PanelsAsk: _Run.panels,
}


def _curve(label: str, settings: Settings) -> Curve:
    front = shared_frontier(settings)
    return Curve(label, front.tokens_per_second, front.dollars, front.accelerators, front.batch, front, front.sources)


def _panel(name: str) -> Scenario:
    """A scenario that can be a panel of another: one with curves."""
    spec = catalog.scenario(name)
    if not isinstance(spec.ask, (FrontierAsk, ToyAsk)):
        raise InputError(f"{name} cannot be a panel: a panel shows frontiers, and it is of the kind {spec.ask.kind!r}")
    return spec
