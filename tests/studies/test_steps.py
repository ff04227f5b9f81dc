"""Comparisons of steps: without a cache, with shared prefixes, and rejected inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inference_econ.answers.explain import explain
from inference_econ.engine import Pins, Setup
from inference_econ.errors import InputError, NothingFitsError, SpecError
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests.reading import tables

Write = Callable[[str], str]
STUDY: str = tables(Path(__file__))["STUDY"]


def _run(
    write: Write, over: str = "context", values: str = "[100, 1000]", common: str = "", settings: str = ""
) -> Result:
    return run(write(STUDY.format(over=over, values=values, common=common, settings=settings)))


def test_steps_are_those_of_explain(write: Write) -> None:
    result = _run(write)
    times, amounts = result.tables
    step = explain(Setup.of("llama_3_8b", "h100_sxm"), Pins(), context=1000)
    assert times.columns == ("kept ms", "none ms", "none x")
    kept, none, more = times.rows[1].values
    assert kept == pytest.approx(1e3 * step.seconds, rel=1e-12)
    assert more == pytest.approx(float(none) / float(kept), rel=1e-12)
    assert amounts.rows[1].values[0] == pytest.approx(step.dollars, rel=1e-12)
    assert [chart.title for chart in result.charts] == ["Speed of a user", "Cost"]


def test_a_token_without_a_cache_costs_more_with_every_token_before_it() -> None:
    times = run("seeds/no_kv_cache").tables[0]
    ratios = [float(row.values[2]) for row in times.rows]
    assert ratios == sorted(ratios)
    assert ratios[0] > 1.0
    assert ratios[-1] > 100.0


def test_shared_prefixes_save_room_and_reads() -> None:
    result = run("seeds/shared_prefix")
    times, amounts = result.tables
    each, held, read = (float(cell) for cell in times.rows[-2].values[:3])
    assert each == held > 1.5 * read
    assert times.rows[-1].values[0] == "does not fit"
    room = [float(cell) for cell in amounts.rows[-2].values[3:]]
    assert room[1] == room[2] < room[0] / 5.0
    assert len(result.charts[0].lines[0].x) == len(result.charts[0].lines[1].x) - 1


@pytest.mark.rows
def test_files_that_cannot_be(write: Write, words: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _run(write, **words)


def test_settings_that_say_nothing_of_a_step(write: Write) -> None:
    with pytest.raises(InputError, match="kept: ttft says nothing of a single decode step; leave it out"):
        _run(write, common=", ttft: 1 s")
    with pytest.raises(NothingFitsError, match="none of the steps fits, from batch 90000 on"):
        _run(write, over="batch", values="[90000]", common=", context: 9000, tp: 1, kv: bf16", settings=", tp: 1")
