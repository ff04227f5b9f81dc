"""Questions after the study: points of frontiers, each number calculated a second time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.layout_services import best_step_seconds
from inference_econ.errors import InputError, SpecError
from inference_econ.extras.papers.comparisons import compare_points
from inference_econ.extras.papers.study_kinds import PointsAsk
from inference_econ.extras.servers.accuracy import servers_like
from inference_econ.inputs import catalog
from inference_econ.search import Frontier
from inference_econ.studies.exhibits import CellTable
from inference_econ.studies.results import Result
from inference_econ.studies.settings import frontier_of
from tests.reading import of

#: Study with its constants: 70B in 8 bits on H100.
STUDY = {"assumptions": "paper", "grid": "paper", "pipeline": False, "context": 0}
SMALL: dict[str, Any] = {"model": "paper/llama_3_70b", "hardware": "paper/h100", "weights": "int8", **STUDY}


def _ask(**changes: Any) -> PointsAsk:
    fields = {"kind": "points", "over": "exponent", "values": [1, 3, 6], "common": SMALL, "series": [{"label": "70B"}]}
    return PointsAsk.build({**fields, **changes}, origin="test")


@cache
def _shipped(name: str) -> Result:
    return ie.run(f"studies/{name}")


def _rows(table: CellTable) -> dict[str, tuple[Any, ...]]:
    return {row.label: row.values for row in table.rows}


def test_demand_limits_the_batch_of_an_instance_as_brute_force_says() -> None:
    """Every size and batch of a grid with sufficient demand, at 60 tokens/s."""
    series = [{"label": "70B", "speed": 60}]
    table = compare_points(_ask(over="max_tokens_per_second", values=[500, 50_000], series=series)).tables[0]
    setup = ie.Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper")
    sizes, batches = np.meshgrid(np.geomspace(0.9, 16, 160), np.geomspace(1, 1024, 160))
    seconds = best_step_seconds(setup, sizes, batches)
    for row, demand in zip(table.rows, (500, 50_000), strict=True):
        allowed = (seconds <= 1 / 60) & (batches / seconds < demand)
        least = (sizes * seconds / batches)[allowed].min() / 3600 * 2.1 * 1e6
        assert row.values[0] == pytest.approx(least, rel=0.05)
    assert (
        "70B: from 50,000 tokens/s, the cost is within 10% of the lowest; at 500 tokens/s, it is 22.3x the lowest."
        in table.notes
    )


def test_buyers_choose_what_maximizes_their_preference() -> None:
    compared = compare_points(_ask())
    front = of(Frontier, frontier_of(_ask().common))
    speeds, dollars = front.axes()
    exponents = np.linspace(1, 6, 501)
    chosen = speeds[np.argmax(exponents[:, None] * np.log(speeds) - np.log(dollars), axis=1)]
    for row, exponent in zip(compared.tables[0].rows, (1, 3, 6), strict=True):
        assert row.values[0] == chosen[round(100 * (exponent - 1))]
    # The line has the same steps, and its note the widest of them.
    (line,) = compared.charts[0].lines
    assert set(chosen) <= set(line.y)
    at = int(np.argmax(np.diff(np.log(chosen))))
    expected = f"70B: no buyer chooses a speed between {chosen[at]:.3g} and {chosen[at + 1]:.3g} tokens/s (widest gap)."
    assert compared.tables[0].notes == (expected,)
    # On its fast side, all-reduces have half the latency: the LL protocol instead of LL128.
    assert (chosen[at], chosen[at + 1]) == pytest.approx((63.5, 88.0), rel=0.01)
    slow, fast = (front.cheapest(tokens_per_second=float(speed)).parts for speed in chosen[at : at + 2])
    assert slow["all_reduce_latency"] > 1.7 * fast["all_reduce_latency"]


@pytest.mark.long
def test_the_gap_to_measured_servers_is_the_product_of_its_parts() -> None:
    result = _shipped("gap")
    rows, (chart,) = _rows(result.tables[0]), result.charts
    assert [line.points for line in chart.lines] == [*[False] * 6, True]
    assert all(speed <= 1.25 * 75 for speed in chart.lines[0].x)
    study, last = rows["frontier of the study"], rows["measured servers"]
    for at in range(3):
        parts = [values[3 + at] for label, values in rows.items() if label != "all"]
        assert rows["all"][3 + at] == pytest.approx(math.prod(parts)) == pytest.approx(last[at] / study[at])
    setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8")
    price = setup.dollars_per_accelerator_hour
    assert rows["+ price on demand"][3:] == pytest.approx([price / 2.1] * 3)
    # The cache adds at least its reads: 1,500 tokens of 16-bit keys and values of 8 heads in 80 layers.
    floor = 1500 * 80 * 2 * 8 * 128 * 2 / (0.75 * 3.35e12) * price / 3600 * 1e6
    assert floor < rows["+ KV cache of 1,500 tokens"][0] - rows["+ price on demand"][0] < 1.6 * floor
    servers = servers_like(setup, 1000, 1000)
    best = max(it.tokens_per_second_per_accelerator for it in servers if it.tokens_per_second_per_user >= 50)
    assert last[1] == pytest.approx(price / 3600 / best * 1e6)


def test_the_fall_of_the_price_by_part_and_by_hand() -> None:
    steps, parts = (_rows(table) for table in _shipped("years").tables)
    total = steps["all"][3:]
    frontiers, over_time = _shipped("years").charts
    assert (len(frontiers.lines), len(over_time.lines), over_time.lines[0].x[-1]) == (8, 3, 4.0)
    assert [math.prod(column) for column in zip(*parts.values(), strict=True)] == pytest.approx(total)
    assert 1 / total[1] == pytest.approx(149, rel=0.02)
    # Lower bound of 2022: an A100 reads 4,000 tokens of 16-bit keys and values of 64 heads in 80 layers for each token.
    cache = 4000 * 80 * 2 * 64 * 128 * 2
    floor = cache / (0.75 * 2e12) * 2.26 * 2 / 3 / 3600 * 1e6
    first = steps["2022: A100, 16 bits, 64 KV heads"]
    assert floor < first[0] < 1.5 * floor
    # GQA divides the cache by 8; weights remain.
    assert 1 / 8 < steps["+ 8 KV heads (GQA)"][3] < 1 / 5
    ask = catalog.scenario("studies/years").ask
    start, draft = (ask.series[index].settings.over(ask.common) for index in (0, 3))
    speculating = draft.replace(hardware="paper/a100", weights="fp16", changes=start.changes)
    speeds, dollars = frontier_of(speculating).axes()
    alone = dollars[speeds >= 50].min() / first[1]
    # Speculation alone saves more than after GQA, because several tokens share a read of a large cache.
    assert alone == pytest.approx(0.33, rel=0.05) and alone < 0.5 * parts["speculation"][1]


@pytest.mark.rows
def test_asks_that_cannot_be(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _ask(**changes)


def test_frontiers_that_cannot_be() -> None:
    with pytest.raises(InputError, match="70B: unknown model 'magic'"):
        compare_points(_ask(common={**SMALL, "model": "magic"}))
    with pytest.raises(InputError, match="70B: no measured server is similar; measured needs lengths"):
        compare_points(_ask(over="speed", values=[30], measured=True))
    table = compare_points(_ask(over="speed", values=[30, 3000])).tables[0]
    assert table.rows[0].values[1] == "too fast"
