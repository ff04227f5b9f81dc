"""Cost benchmark: fixed measured servers, and predictions at their speed without their own deployment.

``sh run.sh validate costs`` compares current predictions with the servers of ``ruler.csv`` and writes
docs/evidence/costs.md. It fails if a server loses its prediction. ``--record`` adds the current best servers and fixes
the predictions. ``--only TEXT`` prints a part.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.validation import cost_tables, costs
from benchmarks.validation.costs import Combination, CostPoint, Itself, Market
from data.levels.judged import deployment_of
from inference_econ.engine import evidence
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers.accuracy import layout_of
from inference_econ.extras.servers.levels import group_of, places_of
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.inputs import Assumptions, MeasuredSubject, SharedLevel, catalog
from inference_econ.records.files import write_text
from inference_econ.report.page import Table

ROWS = Path(__file__).with_name("ruler.csv")
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "costs.md"
#: Cells of a row: attributes of a point, and the reason for exclusion.
_TEXTS = ("id", "series", "combination", "engine", "chips", "subject", "answer", "note")
_NUMBERS, _SWITCHES = ("tokens_per_second", "measured", "predicted", "low", "high"), ("inside", "out_of_reach")
COLUMNS = (*_TEXTS, *_NUMBERS, *_SWITCHES, "excluded")
#: Concurrency ratio above which a run cannot be faster than another of the same server [1].
_BUSIER = 4.0

HEAD = """# Cost at a speed, compared with measured servers

`sh run.sh validate costs` writes this page. It compares Pareto-optimal measured servers with the cheapest candidate
of a default `frontier` at the same speed, lengths and price. The set of servers is fixed
(`benchmarks/validation/ruler.csv`), so the errors of different versions of the cost model are comparable.

For each server, the prediction excludes its deployment: measured corrections and evidence are fitted without all runs
of its model, GPU, engine, layout and number format, in all versions of the engine. The constants of profiles are not
fitted again. Because profiles were fitted to some of these servers, errors are larger for models and GPUs without
measurements.

"""


class Row(NamedTuple):
    """Measured server with a prediction."""

    point: CostPoint
    """Point, whose id starts with the name of the table."""
    excluded: str = ""
    """Reason for exclusion from scores."""


def name_of(row: Measurement) -> str:
    """Table and id of a measured server."""
    return f"{row.dataset}/{row.id}"


def read(text: str) -> dict[str, Row]:
    """Rows of a file by id, with their recorded predictions."""
    rows = {}
    for line in csv.DictReader(text.splitlines()):
        cells: dict[str, Any] = {name: line[name] for name in _TEXTS}
        cells |= {name: float(line[name]) if line[name] else None for name in _NUMBERS}
        cells |= {name: {"yes": True, "no": False}.get(line[name]) for name in _SWITCHES}
        rows[line["id"]] = Row(CostPoint(assumptions="", unit="", fastest=False, **cells), line["excluded"])
    return rows


def written(rows: Iterable[Row]) -> str:
    """Text of a file with given rows."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for point, excluded in rows:
        numbers = ("" if (value := getattr(point, name)) is None else f"{value:.6g}" for name in _NUMBERS)
        switches = ({True: "yes", False: "no"}.get(getattr(point, name), "") for name in _SWITCHES)
        writer.writerow([*(getattr(point, name) for name in _TEXTS), *numbers, *switches, excluded])
    return stream.getvalue()


def outlier(row: Measurement, servers: Sequence[Measurement]) -> str:
    """Reason why a measured server is an outlier; empty if it is not."""
    if (row.model, row.hardware, row.concurrency) == ("gpt_oss_120b", "h100_sxm", 512.0):
        return "runs of gpt-oss on H100 with 512 requests are invalid"
    for other in servers:
        emptier = (other.concurrency or 0.0) * _BUSIER <= (row.concurrency or 0.0)
        if _server(other) == _server(row) and emptier and (row.tpot_seconds or 0.0) < (other.tpot_seconds or 0.0):
            return f"faster than {other.id}, a run of the same server with a quarter of the requests or less"
    return ""


def _server(row: Measurement) -> tuple[object, ...]:
    return (layout_of(row), row.engine, row.engine_version, row.kv, row.speculation, row.prefill, row.decode)


@cache
def _without() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(costs.WITHOUT.read_text(encoding="utf-8"))
    return found


@contextmanager
def left_out(row: Measurement) -> Iterator[None]:
    """Use assumptions whose corrections and evidence exclude the deployment of a measured server.

    Raises
    ------
    InputError
        If there are no corrections without it.
    """
    decode, prefill = places_of(row)
    names = catalog.title("models", row.model), catalog.title("hardware", row.hardware)
    beside = prefill.deployment[0] if decode.way[0] else ""
    own = (row.engine, *names, decode.deployment[1], decode.deployment[0], beside)
    cells = ("engine", "model", "hardware", "weights", "layout", "prefill_layout")
    lines = [line for line in evidence.runs().lines if tuple(line[cell] for cell in cells) != own]
    with mock.patch.object(evidence, "runs", return_value=evidence.Runs(lines)), _corrected_without(row):
        yield


@contextmanager
def _corrected_without(row: Measurement) -> Iterator[None]:
    key, group, whole = deployment_of(row), group_of(row), catalog.assumptions
    if key not in _without():
        raise InputError(f"{row.id}: no corrections without its deployment; run 'sh run.sh refit levels'")
    left = _without()[key]
    levels = None if group is None or left is None else whole(group.profile).levels
    if group is None or levels is None:
        yield
        return
    subjects = [entry for entry in levels.subjects if (entry.model, entry.hardware) != (row.model, row.hardware)]
    subjects += [MeasuredSubject.build(entry, origin=costs.WITHOUT.name) for entry in left["subjects"]]
    changes: dict[str, Any] = {"subjects": tuple(subjects)}
    if "shared" in left:
        entries = (SharedLevel.build(entry, origin=costs.WITHOUT.name) for entry in left["shared"])
        changes["shared"] = tuple(entries)
    changed, profile = levels.model_copy(update=changes), group.profile

    def assumptions(name: str, *, changes: Iterable[str] = ()) -> Assumptions:
        preset = whole(name, changes=changes)
        known = name == profile and preset.levels is not None
        return preset.model_copy(update={"levels": changed}) if known else preset

    with mock.patch.object(catalog, "assumptions", assumptions):
        yield


def compared(
    groups: Mapping[Combination, Sequence[Measurement]],
    names: Collection[str],
    candidates: Market = costs.default_market,
    processes: int = 1,
) -> list[Row]:
    """Measured servers by name, with predictions that exclude their deployment."""
    chosen = [(group, servers) for group, servers in groups.items() if any(name_of(row) in names for row in servers)]
    compare = partial(_compared, names=frozenset(names), candidates=candidates)
    if processes < 2:
        return [row for rows in map(compare, chosen) for row in rows]
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        return [row for rows in pool.map(compare, chosen) for row in rows]


def _compared(
    combination: tuple[Combination, Sequence[Measurement]], names: Collection[str], candidates: Market
) -> list[Row]:
    group, servers = combination
    deployments: dict[str, list[Measurement]] = {}
    for row in servers:
        if name_of(row) in names:
            deployments.setdefault(deployment_of(row), []).append(row)
    found = []
    for rows in deployments.values():
        with catalog.uncopied(), left_out(rows[0]):
            try:
                curves, why = candidates(group, None, costs.arrangement_of(servers)), ""
            except (InputError, NothingFitsError) as error:
                curves, why = (), str(error)
        for row in rows:
            alike = [
                other
                for other in servers
                if (other.decode is None) == (row.decode is None) and (row.speculates or not other.speculates)
            ]
            fastest = row.tpot_seconds == min(other.tpot_seconds or 0.0 for other in alike)
            blank = costs.blank(group, row, costs.OWN, Itself(None, None), fastest=fastest)
            point = costs.answered(replace(blank, id=name_of(row)), row, servers, curves, why)
            found.append(Row(point, outlier(row, servers)))
    return found


def lost(fixed: Mapping[str, Row], now: Mapping[str, Row]) -> list[str]:
    """Servers that lost their prediction."""
    answered = (name for name, row in fixed.items() if row.point.predicted is not None)
    return [name for name in answered if name not in now or now[name].point.predicted is None]


def table(title: str, rows: Collection[Row]) -> Table:
    """Table of scores by arrangement, and by engine and generation."""
    points = [row.point for row in rows if not row.excluded]
    lines = cost_tables.overview(points, ("servers", "engine and chips"))
    return Table(title, ("of", *cost_tables.HEADS), lines, (), (cost_tables.LEGEND,))


def run(
    groups: Mapping[Combination, Sequence[Measurement]],
    candidates: Market = costs.default_market,
    *,
    record: bool = False,
    only: str = "",
    processes: int = 1,
    path: Path = ROWS,
    page: Path = PAGE,
) -> int:
    """Compare, print, and write the page; 1 if a server loses its prediction.

    With ``record``, add the best servers of each combination, and fix the predictions. ``only`` restricts to
    combinations that contain a text, and writes no page.
    """
    begun = time.perf_counter()
    fixed = read(path.read_text(encoding="utf-8")) if path.exists() else {}
    fixed = {name: row for name, row in fixed.items() if only in row.point.combination}
    best = {name_of(row) for servers in groups.values() for row, _ in costs.best(servers)}
    found = compared(groups, fixed.keys() | best if record else fixed.keys(), candidates, processes)
    now = {row.point.id: row for row in found}
    if not record:
        now = {name: row._replace(excluded=fixed[name].excluded) for name, row in now.items()}
    shown = [table("Today", now.values()), *([table("As recorded", fixed.values())] if fixed else [])]
    excluded = "".join(f"- {row.point.subject}: {row.excluded}\n" for row in now.values() if row.excluded)
    parts = [f"## {each.title}\n\n{each.markdown()}" for each in shown]
    text = "\n".join([*parts, f"{cost_tables.LEGEND}\n", f"## Not scored\n\n{excluded or 'No row.'}"])
    if not only:
        write_text(page, f"{HEAD}{text}")
    if record:
        path.write_text(written(now.values()), encoding="utf-8")
    sys.stdout.write(f"{text}\n{len(now)} servers, {time.perf_counter() - begun:.0f} s\n")
    missing = lost(fixed, now)
    if missing:
        sys.stderr.write(f"validate costs: {len(missing)} rows had an answer and have none: {', '.join(missing)}\n")
    return int(bool(missing))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--record", action="store_true", help="add the best servers of today, and fix today's answers")
    how.add_argument("--only", default="", help="print the rows whose combination contains a text: 'on h200_sxm'")
    asked = parser.parse_args()
    sys.exit(run(costs.read_combinations(), record=asked.record, only=asked.only, processes=os.cpu_count() or 1))
