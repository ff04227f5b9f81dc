"""Generators of shipped tables: every table is regenerated, and notes and sources add to rows."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from data.measurements.__main__ import TABLES, table
from data.measurements.facts import source_facts
from data.measurements.tables import collected
from inference_econ.extras.servers.measurements import Measurement, Skipped, shipped
from inference_econ.extras.servers.measurements._record import days
from inference_econ.inputs import catalog
from tests.extras.servers.measurements.test_measurements import LAYOUT, POINT, POINTS, SERVED, SERVING
from tests.reading import has_fields, only, write_csv


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_comes_with_the_package_is_what_the_published_table_makes(name: str) -> None:
    committed = catalog.server_files()[name].read_text(encoding="utf-8")
    assert table(TABLES[name]) == committed, "sh run.sh refit measurements"


def test_every_table_of_servers_is_made_of_a_published_one() -> None:
    assert set(catalog.server_files()) == set(TABLES)


def test_runs_without_a_recorded_day_have_the_days_of_their_scripts() -> None:
    for start, period in source_facts().days.items():
        named = [row for row in _shipped() if isinstance(row, Measurement) and row.id.startswith(start)]
        assert {row.days for row in named} == {days(period)}


@cache
def _shipped() -> tuple[Measurement | Skipped, ...]:
    return tuple(shipped())


def _collected(path: Path, header: str, cells: dict[str, str]) -> Measurement:
    return only(Measurement, collected(write_csv(path, [cells], header.split(","))))


def _point(tmp_path: Path, **changes: str) -> Measurement:
    return _collected(tmp_path / "mine.csv", POINTS, POINT | changes)


def _served(tmp_path: Path, **changes: str) -> Measurement:
    return _collected(tmp_path / "mine.csv", f"{SERVING},{LAYOUT},source", SERVED | changes)


def test_ids_are_those_of_the_files() -> None:
    served = [row for row in _shipped() if row.dataset == "serving_points"]
    with TABLES["serving_points"].open(encoding="utf-8", newline="") as stream:
        assert [row.id for row in served] == [row["id"] for row in csv.DictReader(stream)]
    assert next(row for row in _shipped() if row.dataset == "poisson_load_a100").id == "row 1"


@pytest.mark.rows
def test_facts_of_notes_and_sources(tmp_path: Path, cells: dict[str, str], facts: dict[str, Any]) -> None:
    assert has_fields(_point(tmp_path, **cells), facts)


def test_facts_of_sources_name_what_the_catalogue_has() -> None:
    facts, chips = source_facts(), catalog.names("hardware")
    assert {chip for meant in facts.within_source.values() for chip in meant.values()} <= set(chips)
    assert set(facts.kv_formats) <= set(catalog.names("models"))
    assert {runs.engine for runs in facts.own_runs} <= set(catalog.names("engines"))


def test_latencies_of_whole_servers_are_means_of_runs_of_ten_rounds(tmp_path: Path) -> None:
    source = "aiconfigurator silicon_sample.csv, derived from public InferenceX runs"
    row = _served(tmp_path, source=source)
    assert (row.statistic, row.requests) == ("mean", 640.0)
    assert row.spread == pytest.approx(0.2 / 0.9)
    # Other lengths were run by the collectors, all requests alike.
    other = _served(tmp_path, source=source, isl="1000")
    assert (other.statistic, other.requests, other.spread) == ("mean", None, 0.0)
    assert _served(tmp_path, source="mine").spread is None


def test_the_means_of_whole_servers_are_the_means_of_the_nightly_runs() -> None:
    """For equal times between tokens, TTFT is the mean, unlike the median of the other collection."""
    with TABLES["inferencemax_aggregated"].open(encoding="utf-8", newline="") as stream:
        runs = [row for row in csv.DictReader(stream) if row["hf_model"] == "openai/gpt-oss-120b"]
    ratios = []
    for run in runs:
        demand = (float(run["tp"]), 0.9 * float(run["isl"]), 0.9 * float(run["osl"]), float(run["concurrency"]))
        for row in _shipped():
            if not isinstance(row, Measurement) or row.dataset != "serving_points" or row.engine != "vllm":
                continue
            same = (row.model, row.hardware[:4]) == ("gpt_oss_120b", run["hardware"][:4])
            tpot, ttft = row.tpot_seconds or math.inf, row.ttft_seconds or math.inf
            quick = abs(tpot / float(run["median_tpot_s"]) - 1.0) < 0.03
            if same and quick and (row.tp, row.isl, row.osl, row.concurrency) == demand:
                ratios.append([ttft / float(run[f"{which}_ttft_s"]) for which in ("mean", "median")])
    assert len(ratios) > 60
    means, medians = (sorted(column)[len(ratios) // 2] for column in zip(*ratios, strict=True))
    assert means == pytest.approx(1.04, abs=0.02)
    assert medians > 1.4


def test_poisson_runs_are_of_500_requests() -> None:
    """Completions per second at 200 offered, times the longest latency and all arrivals."""
    with TABLES["poisson_load_a100"].open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if float(row["rps"]) == 200.0]
    for row in rows:
        rate = float(row["request_throughput"])
        assert rate * float(row["e2el_p99_ms"]) / 1e3 / (1.0 - rate / 200.0) == pytest.approx(500, rel=0.02)
    of_servers = [row for row in _shipped() if row.dataset == "poisson_load_a100"]
    assert {row.requests for row in of_servers if isinstance(row, Measurement)} == {500.0}
