"""Every plan of a grid, with dominated plans and the reasons of infeasible ones."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.engine import Setup, layout_keys, memory, whole_grid
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import ErrorSpread, Range
from inference_econ.records.plain import csv_text, json_text
from inference_econ.report.questions import frontier
from inference_econ.search import frontier as search_frontier
from tests import asking
from tests.reading import present

TRAFFIC = ie.Traffic(isl=2000, osl=500)
DRAFT = ie.Speculation.of("draft", 0.8, 3, model=ie.model("llama_3_8b"))


def _front(model: str = "llama_3_70b", hardware: str = "h100_sxm", **changes: Any) -> ie.Frontier:
    given: dict[str, Any] = {"traffic": TRAFFIC, "max_accelerators": 16, **changes}
    return asking.frontier(model, hardware, **given)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": "gpt_oss_120b"},
        {"tp": 4, "engine": "any"},
        {"speculation": DRAFT},
        {"speculation": DRAFT, "assumptions": "paper"},
        {"model": "deepseek_v3", "speculation": ie.Speculation.of("mtp", (0.9, 0.7)), "weights": "fp8"},
        {"speculation": ie.Speculation.of("eagle", 0.7)},
        {"speculation": ie.Speculation.of("ngram", 0.3, 2)},
        {"speculation": ie.Speculation.of("draft", 0.0, 3, model=ie.model("llama_3_8b"))},
        {"traffic": ie.Traffic(isl=2000, osl=500, max_tokens_per_second=2000)},
        {"assumptions": "paper"},
    ],
    ids=[
        *("dense", "experts", "pinned", "draft", "draft as in the study", "mtp", "eagle", "n-grams", "hopeless draft"),
        *("demand", "two cuts"),
    ],
)
def test_what_no_plan_dominates_is_the_frontier(changes: dict[str, object]) -> None:
    front = _front(**changes)  # type: ignore[arg-type]
    plans = front.plans()
    assert len(plans) > len(front)
    best = np.unique(plans.seconds[~plans.dominated])
    assert best == pytest.approx(np.sort(front.seconds), rel=1e-12)
    cost = np.unique(plans.dollars[~plans.dominated])
    assert cost == pytest.approx(np.sort(front.dollars), rel=1e-12)


def test_dominated_means_that_another_plan_is_better() -> None:
    plans = _front(max_accelerators=4, model="llama_3_8b").plans()
    for seconds, dollars, dominated in zip(plans.seconds, plans.dollars, plans.dominated, strict=True):
        as_good = (plans.seconds <= seconds) & (plans.dollars <= dollars)
        better = (plans.seconds < seconds) | (plans.dollars < dollars)
        assert dominated == (as_good & better).any()


def test_every_plan_takes_the_time_that_explain_gives() -> None:
    front = _front("gpt_oss_120b", max_accelerators=6)
    records = front.plans().records()
    for record in records[:: max(1, len(records) // 12)]:
        layout = record["layout"]
        assert isinstance(layout, dict)
        degrees = {name: int(layout[name]) for name in ("tp", "dp", "pp", "ep")}
        step = {"context": TRAFFIC.mean_context, "batch": float(str(record["batch"]))}
        explained = asking.explain("gpt_oss_120b", "h100_sxm", **degrees, **step)
        assert record["tokens_per_second_per_user"] == pytest.approx(explained.tokens_per_second, rel=1e-12)
        assert record["dollars_per_million_output_tokens"] == pytest.approx(explained.dollars, rel=1e-12)
        assert layout == explained.layout


def test_plans_of_the_default_grid_are_all_listed() -> None:
    front = _front(max_accelerators=None, engine="any")
    plans = front.plans()
    # Many plans per instance, not the best of each.
    instances = set(zip(plans.plans.accelerators.tolist(), plans.plans.batch.tolist(), strict=True))
    assert len(plans) > 1.5 * len(instances)
    assert set(plans.infeasible) <= set(memory.REASONS[1:])
    assert all(count > 0 for count in plans.infeasible.values())


def test_reasons_count_plans_whose_degrees_divide_the_stage() -> None:
    setup = replace(_front("llama_3_8b").setup, engines=())
    grid = whole_grid(1.0, pipeline=False, largest=3, largest_batch=3)
    # Three batches. 32 heads split over 1 and 2 chips, 14336 = 2^11 x 7 does not split 3 ways, and an attention-DP
    # group may have one more sequence. Layouts are tp1 on one chip, tp1dp2 and tp2 on two, and only tp1dp3 on three.
    counts, fitting = Counter({"heads, layers, experts or widths do not divide": 3}), 9
    table = search_frontier.every_plan(replace(setup, price=2.0), grid)
    assert table.infeasible == counts
    assert len(table) == fitting
    # Engines start tp1dp2 as two replicas.
    engines = Setup.of("llama_3_8b", "h100_sxm").engines
    started = search_frontier.every_plan(replace(setup, price=2.0, engines=engines), grid)
    assert started.infeasible == counts + Counter({"no serving engine can start it": 3})


def test_demand_is_a_reason() -> None:
    plans = _front(traffic=ie.Traffic(isl=2000, osl=500, max_tokens_per_second=2000)).plans()
    assert plans.infeasible["more than 2000 tokens/s are produced"] > 0
    assert (plans.plans.batch * plans.tokens_per_second <= 2000 * (1 + 1e-12)).all()


def test_drafts_are_written_down_where_they_help() -> None:
    plans = _front(speculation=replace(DRAFT, acceptance=(0.6,) * 3), engine="any").plans()
    records = plans.records()
    lengths = [dict(record["layout"]).get("draft_tokens", 0) for record in records]  # type: ignore[call-overload]
    assert lengths == plans.drafted.tolist()
    assert {0, 3} <= set(lengths)
    assert plans.to_frame()["draft_tokens"].tolist() == lengths
    assert "draft_tokens" not in _front().plans().to_frame()


def test_records_rows_and_the_summary_agree() -> None:
    front = _front("llama_3_8b", max_accelerators=2)
    plans = front.plans()
    record = json.loads(json_text(front.record(plans)))
    assert len(record["plans"]) == len(plans)
    assert record["infeasible"] == dict(plans.infeasible)
    assert {"plans", "infeasible"} & front.record().keys() == set()
    frame = plans.to_frame()
    assert frame["dominated"].tolist() == [one["dominated"] for one in record["plans"]] == plans.dominated.tolist()
    assert frame["accelerators"].tolist() == [one["accelerators"] for one in record["plans"]]
    lines = list(csv.DictReader(io.StringIO(csv_text(plans.to_frame()))))
    for name in ("tokens_per_second_per_user_low", "dollars_per_million_output_tokens_high"):
        assert [float(line[name]) for line in lines] == pytest.approx([one[name] for one in record["plans"]])
    summary = frontier.plans_table(plans)
    counts = {row[0]: int(row[1].replace(",", "")) for row in summary.rows}
    assert counts["feasible, on the frontier"] == (~plans.dominated).sum()
    assert counts["feasible, dominated by another plan"] == plans.dominated.sum()
    assert summary.title == f"All {sum(counts.values()):,} plans of the grid"


def test_what_is_listed_is_what_is_held_against_the_measurements() -> None:
    hopper = ie.assumptions("profiles/hopper")
    known = present(hopper.calibration).model_copy(update={"requests_per_accelerator": Range(low=2, high=2)})
    front = _front("llama_3_8b", max_accelerators=2, assumptions=hopper.model_copy(update={"calibration": known}))
    plans = front.plans()
    for asked, sizes, batches in (
        (None, front.accelerators, front.batch),
        (plans, plans.plans.accelerators, plans.plans.batch),
    ):
        record: Any = front.record(asked)
        for load in ((batches / sizes).min(), (batches / sizes).max()):
            said = f"the load is {load:.4g} concurrent requests per GPU (measured: 2)"
            assert any(reason.startswith(said) for reason in record["calibration"]["outside"])


def test_layouts_that_only_the_list_has_widen_its_intervals() -> None:
    hopper = ie.assumptions("profiles/hopper")
    assert hopper.calibration is not None
    front = _front("llama_3_8b", max_accelerators=4, assumptions=hopper)
    shown, listed = set(front.subjects()[0].layouts), front.plans()
    assert shown < set(layout_keys(listed.plans, hopper.layout))
    # A layout outside the rows has a separate class of errors.
    narrow, wide = (
        ErrorSpread(rows=9, quantiles=tuple(place * size for place in range(-3, 4))) for size in (0.01, 1.0)
    )
    errors = {kind: {"tpot": wide if kind == "layout" else narrow} for kind in hopper.calibration.errors}
    known = hopper.calibration.model_copy(update={"layouts": tuple(sorted(shown)), "errors": errors})
    fitted = replace(front, setup=replace(front.setup, assumptions=hopper.model_copy(update={"calibration": known})))
    low, high = "tokens_per_second_per_user_low", "tokens_per_second_per_user_high"
    points, plans = (fitted.to_frame(), replace(listed, setup=fitted.setup).to_frame())
    assert (points[high] / points[low]).max() < 1.2
    assert (plans[high] / plans[low]).min() > 10.0


def test_a_list_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_frontier, "_MOST_PLANS", 10)
    with pytest.raises(InputError, match=r"more than 10 plans are feasible; pin a degree \(tp, dp, pp, ep, batch, acc"):
        _front("llama_3_8b", max_accelerators=2).plans()


def test_the_studys_grid_is_not_listed() -> None:
    with pytest.raises(InputError, match="plans can be listed on the grid 'whole'; the study's has millions of them"):
        _front(grid="paper").plans()


def test_nothing_to_list_says_why() -> None:
    setup = _front().setup
    with pytest.raises(NothingFitsError, match=r"nothing fits: .* weights exceed the memory: \d+"):
        search_frontier.every_plan(replace(setup, price=2.0), whole_grid(1.0, pipeline=True, largest=1))
