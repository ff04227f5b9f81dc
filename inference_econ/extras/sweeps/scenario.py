"""Sweeps as scenarios, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference_econ import _work
from inference_econ.extras.sweeps.combinations import check_work, combinations_of
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from inference_econ.extras.sweeps.stored import Sweep
from inference_econ.extras.sweeps.workers import answers

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


def answer(run: ScenarioRun, ask: SweepAsk) -> Result:
    """Run a scenario of this kind; :func:`inference_econ.sweep` writes larger sweeps to disk."""
    combinations = combinations_of(ask)
    check_work(combinations, range(combinations.parts))
    contents = []
    try:
        for index, part in answers(combinations, range(combinations.parts)):
            contents.append(part.content)
            if run.progress is not None:
                run.progress((index + 1) / combinations.parts, f"{index + 1} of {combinations.parts} parts")
    except KeyboardInterrupt:
        _work.stop(f"{len(contents)} of {combinations.parts} parts" if contents else "")
    missing = sum(len(combinations.numbers(index)) for index in range(len(contents), combinations.parts))
    return run.result(study=Sweep(run.scenario, contents, missing).summary())
