"""Costs at the speed of the best measured servers: their selection, the comparison, and the errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.components.report import Report
from benchmarks.validation import costs, document
from benchmarks.validation.cost_tables import points_of
from benchmarks.validation.costs import Combination, CostPoint, Curves, combinations, cost_score, dollars_of
from benchmarks.validation.costs import stages as cost_stages
from data.measurements.__main__ import TABLES
from inference_econ.answers.deployments.serving_frontier import frontier
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.engine import Setup, Speculation
from inference_econ.errors import InputError
from inference_econ.extras.servers import Measurement, Servers, measurements
from inference_econ.extras.servers.measurements import RecordedPool
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.validation.servers import of_hardware
from inference_econ.inputs import Traffic, catalog
from tests import offered
from tests.measured import small_server
from tests.reading import csv_rows, present, tables, write_csv

ASKED = Combination("llama_3_8b", "h100_sxm", "fp8", 1000.0, 101.0)
SERVER = small_server()
#: Cost of one chip at one dollar per hour, in dollars per million output tokens [s].
PER_TOKEN = 1e6 / 3600.0


def _rated(row: Measurement, speed: float, rate: float, **changes: object) -> Measurement:
    """Return a server with a speed and a throughput per chip [tokens/s]."""
    return replace(row, tpot_seconds=1.0 / speed, output_tokens_per_second_per_accelerator=rate, **changes)  # type: ignore[arg-type]


def _market(*parts: tuple[Sequence[float], Sequence[float], bool]) -> costs.Market:
    """Return candidates of one layout each: speeds, tokens/s per chip, and speculation."""

    def market(asked: Combination, assumptions: str | None, arrangement: Arrangement) -> list[Curves]:
        assert (assumptions, arrangement) == (None, "aggregated")
        plain = offered.curves_of(asked, assumptions, arrangement)[0]
        made = []
        for speeds, rates, speculates in parts:
            services = replace(
                plain.services.take(np.array([0])), speculation=Speculation.of("ngram", 0.5, 3) if speculates else None
            )
            values = [np.array([row]) for row in (speeds, [PER_TOKEN / rate for rate in rates])]
            flights = np.array([[8.0] * len(speeds)])
            made.append(Curves(services, values[0], values[1], np.ones(flights.shape), flights))
        return made

    return market


def _points(rows: Sequence[Measurement], market: costs.Market) -> dict[str, CostPoint]:
    (servers,) = combinations(rows).values()
    return {point.id: point for point in costs._points(ASKED, servers, "profile", market)}


def test_the_bill_of_a_closed_loop_is_that_of_its_requests() -> None:
    # Four requests, each of 0.1 s + 100 x 0.01 s = 1.1 s for 101 tokens: 367.3 tokens/s.
    assert dollars_of(SERVER) == pytest.approx(PER_TOKEN / (4 * 101 / 1.1), rel=1e-12)
    assert dollars_of(replace(SERVER, accelerators=2)) == pytest.approx(2 * dollars_of(SERVER), rel=1e-12)
    assert dollars_of(_rated(SERVER, 100.0, 500.0)) == pytest.approx(PER_TOKEN / 500.0, rel=1e-12)


def test_closed_loops_complete_what_their_times_say() -> None:
    """For rows with both values, throughput is 2% below that of the times, as the notes state."""
    path = catalog.server_files()["inferencemax_aggregated"]
    rows = [row for row in measurements.read_measurements(path) if isinstance(row, Measurement)]
    ratios = [dollars_of(row) / dollars_of(replace(row, output_tokens_per_second_per_accelerator=None)) for row in rows]
    assert len(ratios) > 100
    assert statistics.median(ratios) == pytest.approx(1.02, abs=0.01)
    # Five rows of SGLang on B200 average runs that differ.
    assert sorted(ratios)[-6] < 1.1


def test_servers_that_count() -> None:
    """Repeats, invalid runs, guessed speculation, other loads and explained errors are excluded."""
    usable = [replace(SERVER, id=str(requests), concurrency=float(requests)) for requests in (1, 2, 4)]
    odd = [replace(SERVER, **changes) for changes in tables(Path(__file__))["ODD"]]
    too_few = [replace(row, hardware="h200_sxm") for row in usable[:2]]
    assert combinations([*usable, replace(usable[0], id="again", dataset="other"), *odd, *too_few]) == {ASKED: usable}


def test_every_best_server_is_compared_with_the_least_cost_at_its_speed() -> None:
    rows = [
        _rated(SERVER, 100.0, 40.0, id="fast", concurrency=1.0),
        _rated(SERVER, 50.0, 100.0, id="cheap", concurrency=8.0),
        _rated(SERVER, 40.0, 90.0, id="beaten", concurrency=9.0),
        _rated(SERVER, 200.0, 80.0, id="drafted", concurrency=10.0, speculation="MTP1"),
        _rated(SERVER, 300.0, 8.0, id="fastest", concurrency=11.0, speculation="MTP1"),
    ]
    plain, drafting = ([25.0, 100.0], [200.0, 50.0], False), ([10.0, 160.0, 200.0], [400.0, 200.0, 100.0], True)
    points = _points(rows, _market(plain, drafting))
    assert list(points) == ["fast", "cheap", "fastest", "drafted"]
    # Servers with draft tokens are not compared with others: 50 of measured 40 tokens/s; half way between 200 and 50.
    expected = {"fast": 50.0 / 40.0, "cheap": 100.0 / 100.0, "drafted": 100.0 / 80.0}
    for name, ratio in expected.items():
        assert points[name].log_error == pytest.approx(-math.log(ratio), abs=1e-12)
    assert points["fastest"].predicted is None
    assert not points["fastest"].out_of_reach, "only those below the fastest are"
    assert [points[name].series for name in ("fast", "drafted")] == ["aggregated", "aggregated, speculating"]
    assert points["fast"].tried, "tp1 ran one to nine requests"
    assert points["fast"].answer.startswith("tp1 by ")
    assert points["drafted"].answer.endswith(", NGRAM 3)")
    assert all(point.own is None for point in points.values()), "nobody offers the engine of the server"
    assert points["fast"].subject == "llama_3_8b fp8 on h100_sxm, 1000/101: vllm 0.12 tp1 at 100.0 tokens/s"


def test_the_layout_of_the_server_itself_is_compared_too() -> None:
    """The comparison uses the same engine in the same layout, even if another layout is cheaper."""
    rows = [_rated(SERVER, speed, 4000.0 / speed, id=str(speed), engine="sglang") for speed in (50, 100, 200)]
    points = _points(rows, _market(([10.0, 400.0], [800.0, 20.0], False), ([10.0, 150.0], [3000.0, 200.0], False)))
    own = points["100"].own
    assert own is not None and points["100"].predicted is not None
    assert own == pytest.approx(points["100"].predicted), "both are of one engine in one layout"
    others = [replace(row, tp=2, accelerators=2) for row in rows]
    assert _points(others, _market(([10.0, 400.0], [800.0, 20.0], False)))["100"].own is None
    score = cost_score(points.values())
    assert score.own == 3
    assert score.own_ratio is not None and score.own_ratio == pytest.approx(score.ratio)


def test_what_an_error_is_made_of() -> None:
    """Parts lead from the server's ordinary prediction to the complete result, and the means of the parts add up."""
    rows = [replace(SERVER, id=str(requests), engine="sglang", concurrency=float(requests)) for requests in (1, 4, 16)]
    predicted = predict(rows, lambda row: of_hardware(row.hardware, row.engine))
    rows = [
        replace(row, tpot_seconds=known.tpot_seconds, ttft_seconds=2.0 * (known.ttft_seconds or 0.0))
        for row, known in zip(rows, predicted, strict=True)
    ]
    points = _points(rows, _market(([1.0, 9e3], [900.0, 9.0], False), ([1.0, 9e3], [9e3, 90.0], True)))
    for expected in predicted:
        point = points[expected.measurement.id]
        rate = present(expected.output_tokens_per_second_per_accelerator)
        assert point.at_load == pytest.approx(PER_TOKEN / rate)
        # It has that speed with the requests that it had.
        assert point.at_speed == pytest.approx(point.at_load, rel=0.02)
        assert point.own == point.own_engine == point.predicted
    parts = cost_stages(points.values())
    errors = [abs(point.log_error) for point in points.values() if point.log_error is not None]
    adds = [parts[name].adds for name in costs.STAGES]
    assert sum(part for part in adds if part is not None) == pytest.approx(statistics.mean(errors))
    assert adds[3:] == [0.0, 0.0], "one layout of one engine is all there is"
    assert [part.servers for part in parts.values()] == [3, 3, 3, 3, 3, 3, 0]
    assert cost_stages([])["any engine: the answer"] == (0, None, None, None, None, None)


def test_pools_are_compared_in_the_layout_of_theirs_that_decodes() -> None:
    asked = Combination("deepseek_v3", "h200_sxm", None, 7372.8, 921.6)
    curves = next(each for each in offered.curves_of(asked, None) if each.apart and "trtllm" in each.label)
    alone = curves.of_layout("tp1dp8")
    kept = np.flatnonzero(np.isfinite(alone.dollars).any(axis=1))
    assert {curves.layouts[place].partition("ep")[0] for place in kept} == {"tp1dp8"}
    assert np.array_equal(alone.dollars[kept], curves.dollars[kept], equal_nan=True)
    pools = RecordedPool(workers=5, tp=8, dp=1, pp=1, ep=8), RecordedPool(workers=3, tp=1, dp=8, pp=1, ep=8)
    row = replace(
        SERVER, engine="trtllm", engine_version="", model="deepseek_v3", hardware="h200_sxm", weights=None, isl=7372.8,
        osl=921.6, concurrency=768.0, accelerators=64, tp=None, prefill=pools[0], decode=pools[1], tpot_seconds=0.044,
        ttft_seconds=8.8,
    )  # fmt: skip
    (point,) = costs._points(asked, [row], "profile", lambda *_: [curves])
    assert point.series == "disaggregated"
    least = present(costs._least([alone], point.tokens_per_second))
    assert point.own == least.dollars
    assert point.own_engine is not None
    assert point.own_engine <= least.dollars


def test_whoever_is_faster_than_all_candidates_is_out_of_reach() -> None:
    rows = [_rated(SERVER, speed, 4000.0 / speed, id=str(speed), concurrency=speed) for speed in (50, 100, 200, 400)]
    points = _points(rows, _market(([10.0, 100.0], [400.0, 20.0], False)))
    assert {name for name, point in points.items() if point.out_of_reach} == {"200"}
    assert points["400"].note == costs.FASTEST
    score = cost_score(points.values())
    assert (score.servers, score.compared) == (4, 2)
    assert score.out_of_reach == pytest.approx(1 / 3)
    # 20 of measured 40 tokens/s at 100; at 50, interpolation from 400 at 10 to 20 at 100, of measured 80.
    at_50 = 400.0 * 5.0 ** math.log10(20.0 / 400.0)
    assert score.ratio == pytest.approx(math.sqrt(80.0 / at_50 * 40.0 / 20.0))
    assert score.dearer == pytest.approx(2 / 3)
    assert score.cheaper == 0.0


def test_the_band_moves_speed_and_cost_of_the_frontier() -> None:
    """A point at half the frontier's speed and twice its cost is outside every interval; the frontier is inside."""
    rows = [_rated(SERVER, speed, 4000.0 / speed, id=str(speed), concurrency=speed) for speed in (50, 100, 200)]
    exact = ([10.0, 400.0], [400.0, 10.0], False)
    inside = _points(rows, _market(exact))["100"]
    assert inside.low is not None and inside.high is not None and inside.measured is not None
    assert inside.low < inside.measured < inside.high
    assert inside.inside
    assert inside.log_error == pytest.approx(0.0, abs=1e-12)
    far = _points([replace(row, tpot_seconds=8.0 / float(row.id)) for row in rows], _market(exact))["100"]
    assert far.inside is False


def test_a_combination_that_nobody_can_answer_says_why() -> None:
    rows = [replace(SERVER, id=str(n), hardware="h100_sxm", concurrency=float(n)) for n in (1, 2, 4)]

    def market(asked: Combination, assumptions: str | None, arrangement: Arrangement) -> list[Curves]:
        del arrangement
        raise InputError(f"no {asked.model} under {assumptions}")

    points = _points(rows, market).values()
    assert {point.note for point in points} == {"no llama_3_8b under None"}
    assert cost_score(points) == (len(points), 0, *[None] * 8, 0, None, 0, None, None)
    drafting = _points(rows, _market(([10.0, 100.0], [400.0, 20.0], True))).values()
    assert {point.note for point in drafting} == {costs.NOBODY}


def test_the_market_of_default_answers_is_compared() -> None:
    """The candidates include every engine, plain and speculative, aggregated and disaggregated."""
    asked = Combination("deepseek_v3", "h200_sxm", None, 1000.0, 100.0)
    together = offered.curves_of(asked, None, "aggregated")
    assert {(each.speculates, each.apart) for each in together} == {(False, False), (True, False)}
    assert {each.label.partition(" ")[0] for each in together} == {"sglang", "trtllm", "vllm"}
    curves = offered.curves_of(ASKED, None)
    assert {each.apart for each in curves} == {False, True}
    setup = Setup.of(ASKED.model, ASKED.hardware, weights=ASKED.weights, price=1.0)
    front = frontier(setup, Traffic(isl=ASKED.isl, osl=ASKED.osl))
    for point in front.points([0, len(front) // 4, len(front) // 2]):
        least = present(costs._least(curves, point.tokens_per_second_per_user * (1.0 - 1e-9)))
        # Between two batches something can be cheaper than at either.
        assert 0.9 < least.dollars / point.dollars_per_million_output_tokens < 1.0 + 1e-6
    alike = offered.curves_of(ASKED, "deployable", "aggregated")
    assert {each.services.setup.assumptions.name for each in alike} == {"deployable"}


COMBINATIONS = (
    ("meta-llama/Llama-3.1-70B", "h200_sxm", "8192"),
    ("openai/gpt-oss-120b", "h200_sxm", "8192"),
    ("deepseek-ai/DeepSeek-R1", "b200_sxm", "8192"),
)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write rows of a few combinations from serving_points.csv."""
    published, lines = (
        csv_rows(path.read_text(encoding="utf-8"))
        for path in (TABLES["serving_points"], catalog.server_files()["serving_points"])
    )
    path = tmp_path_factory.mktemp("costs") / "few.csv"
    named = [(row["model_path"], row["system"], row["isl"]) for row in published]
    return write_csv(path, [row for row, its in zip(lines, named, strict=True) if its in COMBINATIONS])


@pytest.fixture(scope="module")
def shown(few: Path) -> Report:
    """Return the report on these rows."""
    return costs.report([few])


@pytest.mark.long
def test_the_floor(shown: Report) -> None:
    """Check several models, engines and chips: errors against measured costs may shrink but not grow."""
    points = points_of(shown, "profile")
    assert len(points) > 40
    assert {point.engine for point in points} == {"sglang", "trtllm", "vllm"}
    score = cost_score(points)
    assert score.median is not None and score.dearer is not None and score.inside is not None
    assert score.median < 0.20
    assert score.dearer < 0.05
    assert score.inside > 0.75
    assert score.out_of_reach is not None and score.out_of_reach <= 0.02


@pytest.mark.long
def test_a_point_lies_between_the_ends_of_its_interval(shown: Report) -> None:
    points = [point for point in points_of(shown, "profile") if point.predicted and point.low and point.high]
    assert len(points) > 20
    assert all((point.low or 0.0) < (point.high or 0.0) for point in points)


@pytest.mark.long
def test_the_section_of_the_report(shown: Report) -> None:
    servers = Servers("by hardware", (), ())
    text = document.document(servers, [], [], "a.png", "say it again", shown)
    assert text.index("## Cost at a speed") < text.index("TTFT under load")
    assert "### Combinations whose costs are farthest off" in text
    assert "No other tool is known to publish this error" in text
    assert "## Cost at a speed" not in document.document(servers, [], [], "a.png", "say it again")


def test_files_without_enough_servers_are_refused(tmp_path: Path, few: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("".join(few.read_text(encoding="utf-8").splitlines(keepends=True)[:3]), encoding="utf-8")
    with pytest.raises(InputError, match=r"two.csv: nothing to compare: costs need 3 or more servers of one model"):
        costs.report([path])
