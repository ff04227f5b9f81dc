"""Load sweeps, bursts and limits on concurrent requests."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import cache

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.recommend import Burstiness, burstiness, burstiness_at, other_scv
from inference_econ.answers.layout_services import with_slots
from inference_econ.answers.load import SHARES, LoadPoint, load, sweep, usual_service
from inference_econ.answers.price import sheet
from inference_econ.answers.slo import Targets
from inference_econ.engine import Pins, Setup, Space
from inference_econ.errors import InputError
from inference_econ.inputs import Requests
from inference_econ.report.questions.load import LoadPage, load_charts, loads_under
from inference_econ.report.service import arrivals_label, burstiness_note
from inference_econ.serving import Gamma, Service, Services, loaded, needs_simulation, slo_met_share
from inference_econ.serving.simulation import simulator
from tests.offered import offer_of, service_of
from tests.reading import present

# Load sweeps: the content of their points and their rendering.

PROMISED = Targets(ttft_seconds=0.1, tpot_seconds=0.02)


@cache
def points(*, promised: bool = True, simulate: bool | None = None, replicas: int = 1) -> tuple[LoadPoint, ...]:
    targets, rates = PROMISED if promised else None, (3.0, 15.0, 60.0) if simulate else None
    return tuple(sweep(service_of(), rates, replicas=replicas, targets=targets, simulate=simulate))


def test_loads_up_to_a_fifth_beyond_what_it_completes() -> None:
    most = service_of().most_requests_per_second
    found = points()
    np.testing.assert_allclose([point.requests_per_second / most for point in found], SHARES, rtol=1e-3)
    assert [point.load.saturated for point in found] == [share >= 1.0 for share in SHARES]
    np.testing.assert_allclose([point.load.utilization for point in found], SHARES, rtol=1e-3)


def test_a_point_is_a_priced_load() -> None:
    service = service_of()
    for point in points():
        assert point.closed == sheet(service, point.requests_per_second).load
        assert point.load.played is needs_simulation(service, point.closed)
        again = sheet(service, point.requests_per_second, load=point.load)
        assert point.sheet.dollars_per_million_tokens == again.dollars_per_million_tokens
        hourly = 3600.0 * point.completed_per_second * 200.0
        assert point.sheet.dollars_per_million_output_tokens == pytest.approx(1e6 * 2.0 / hourly)
        kept = slo_met_share(service, point.requests_per_second, ttft_seconds=0.1, tpot_seconds=0.02)
        assert point.kept is not None
        assert point.kept == (pytest.approx(kept, abs=0.15) if point.load.played else kept)
        assert point.good_per_second == pytest.approx(point.kept * point.completed_per_second)


def test_idle_chips_cost_too_and_goodput_has_a_peak() -> None:
    found = points()
    costs = [point.sheet.dollars_per_million_tokens for point in found]
    assert all(more >= less * (1 - 1e-12) for more, less in itertools.pairwise(costs))
    good = [point.good_per_second or 0.0 for point in found]
    peak = int(np.argmax(good))
    assert 0 < peak < len(good) - 1
    assert good[-1] == 0.0


def test_instances_share_the_load() -> None:
    one, three = points(), points(replicas=3)
    for single, fleet in zip(one, three, strict=True):
        assert fleet.requests_per_second == pytest.approx(3.0 * single.requests_per_second, rel=2e-3)
        assert fleet.load.utilization == pytest.approx(single.load.utilization, rel=2e-3)
        assert fleet.sheet.dollars_per_hour == 3.0 * single.sheet.dollars_per_hour


def test_without_promises_nothing_is_kept_or_broken() -> None:
    assert {point.kept for point in points(promised=False)} == {None}
    assert points(promised=False)[0].good_per_second is None


@pytest.mark.rows
def test_impossible_loads(rates: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep(service_of(), rates)


def test_the_usual_layout_completes_most_per_chip() -> None:
    offer = offer_of(most=4)
    found = offer
    each = found.states.requests_per_second[:, -1] / found.plans.accelerators
    free = usual_service([offer], Targets())[0]
    assert free.states.requests_per_second[-1] / free.accelerators >= each.max() / 1.1
    quick, kept = usual_service([offer], Targets(tpot_seconds=0.007))
    assert kept == ("the lowest cost per token at full load within the SLOs", len(offer))
    assert quick.states.tpot_seconds[0] <= 0.007
    assert usual_service([offer], Targets(e2e_seconds=60.0))[1] == kept
    # If no layout meets the SLOs, the usual layout is selected, and the sweep shows the missed SLOs.
    never, pick = usual_service([offer], Targets(tpot_seconds=1e-6))
    assert pick.rule.endswith(", because no layout meets the SLOs")
    assert never.accelerators == free.accelerators


# Shown


def test_charts_of_latencies_and_cost() -> None:
    shown, bursts = points(), burstiness(service_of())
    under = {scv: loads_under(shown, scv, 1.0) for scv in (1.0, bursts.other_scv)}
    others = under[10.0]
    first, each, cost = load_charts(shown, under, Targets(ttft_seconds=0.5))
    assert (first.promises, each.promises) == ({"SLO: p90 TTFT <= 500 ms": 500.0}, {})
    poisson, crowds = "Poisson (--arrival-scv 1)", "bursty (--arrival-scv 10)"
    labels = [f"{which}, {kind}" for kind in (poisson, crowds) for which in ("p50", "p90")]
    assert [line.label for line in first.lines] == [line.label for line in each.lines] == labels
    for line, shares in zip(first.lines, (SHARES, SHARES, SHARES[1::2], SHARES[1::2]), strict=True):
        assert line.x == pytest.approx([share * service_of().most_requests_per_second for share in shares], rel=1e-3)
        assert [math.isnan(value) for value in line.y] == [share >= 1.0 for share in shares]
    for known, more in zip(first.lines[:2], first.lines[2:], strict=True):
        assert all(later > sooner for sooner, later in zip(known.y[1::2], more.y, strict=True) if not math.isnan(later))
    assert each.lines[3].y[0] == pytest.approx(1e3 * others[0].tpot_seconds["p90"])
    # Simulated values replace analytical ones, as below the table.
    played = next(index for index, point in enumerate(shown) if point.simulated is not None)
    trace = present(shown[played].simulated)
    assert first.lines[1].y[played] == pytest.approx(1e3 * trace.summary()["ttft"]["p90"].value)
    assert list(cost.marks.values()) == [service_of().most_requests_per_second]
    # The preset has no known errors.
    assert all(line.band is None for line in first.lines)


def test_nothing_is_played_where_that_is_asked_for() -> None:
    service = service_of()
    almost_full = 0.97 * service.most_requests_per_second
    curve = load(offer_of(most=1), [0.1, almost_full], simulate=False)
    assert curve.bursts is None
    assert [point.simulated for point in curve.points] == [None, None]
    page = LoadPage(curve)
    (table,) = page.tables()
    assert "All latencies come from the analytical model; nothing was simulated." in table.why
    assert any(f"At {almost_full:.4g} requests/s" in note and "Remove --no-simulate" in note for note in table.notes)
    drawn = page.record()
    assert isinstance(drawn, dict)
    assert drawn["burstiness"] is None
    labels = [
        line.label for line in load_charts(curve.points, {1.0: [p.load for p in curve.points]}, Targets())[0].lines
    ]
    assert labels == ["p50, Poisson (--arrival-scv 1)", "p90, Poisson (--arrival-scv 1)"]


def test_the_band_of_a_load_is_around_p90() -> None:
    service = service_of(preset="profiles/hopper")
    shown = sweep(service, [1.0, 2.0])
    loads = [point.load for point in shown]
    chart = load_charts(shown, {1.0: loads, 10.0: loads}, Targets())[0]
    assert [line.band is not None for line in chart.lines] == [False, True, False, False]
    band = present(chart.lines[1].band)
    assert band.y[0] < chart.lines[1].y[0] < band.other_y[0]
    assert chart.bands == "80% interval (profiles/hopper), around p90"


def test_assumed_arrivals_are_not_simulated_again_for_a_chart() -> None:
    shown = points()[:2]
    assert loads_under(shown, 4.0, 4.0) == loads_under(shown, 1.0, 1.0) == [point.load for point in shown]


# Bursty arrivals compared with Poisson arrivals: the stated assumption, its alternatives, and simulated numbers.


@cache
def service() -> Service:
    return service_of(isl="500", osl="500")


@pytest.fixture(scope="module")
def crowds() -> Burstiness:
    return burstiness(service(), replicas=3)


def test_a_fleet_is_looked_at_nearly_full(crowds: Burstiness) -> None:
    assert crowds.requests_per_second == pytest.approx(0.8 * 3 * service().most_requests_per_second)
    assert (crowds.assumed_scv, crowds.other_scv) == (1.0, 10.0)
    # Both are simulated, and each of three instances gets a third of the bursts.
    assert crowds.assumed.played
    assert crowds.other.played
    assert (crowds.assumed.arrivals, crowds.other.arrivals) == (Gamma(1.0), Gamma(4.0))
    closed = loaded(service(), crowds.requests_per_second / 3)
    assert crowds.assumed.tpot_seconds["p90"] == pytest.approx(closed.tpot_seconds["p90"], rel=0.1)
    assert crowds.other.ttft_seconds["p90"] > 1.3 * crowds.assumed.ttft_seconds["p90"]
    assert crowds.other.tpot_seconds["p90"] > crowds.assumed.tpot_seconds["p90"]


def test_crowds_are_held_against_poisson_and_anything_else_against_crowds() -> None:
    assert [other_scv(scv) for scv in (0.0, 1.0, 1.5, 10.0)] == [10.0, 10.0, 1.0, 1.0]
    asked = burstiness(service(), arrival_scv=4.0)
    assert asked.assumed.played
    assert asked.other.played
    assert "% load, Poisson arrivals (--arrival-scv 1) change TTFT p90 from" in burstiness_note(asked, Targets())


def test_promises_that_crowds_break_are_named(crowds: Burstiness) -> None:
    kept = Targets(ttft_seconds=100.0)
    broken = Targets(tpot_seconds=crowds.assumed.tpot_seconds["p90"] * 1.001)
    assert burstiness_note(crowds, kept, promised=True) == burstiness_note(crowds, kept)
    assert "violate the TPOT SLO of row 1: p90 " in burstiness_note(crowds, broken, promised=True)
    assert burstiness_note(crowds, Targets(), promised=True) == burstiness_note(crowds, Targets())


def test_queues_without_end_and_answers_of_one_token(crowds: Burstiness) -> None:
    endless = dataclasses.replace(crowds.other, saturated=True, ttft_seconds={"p90": math.inf})
    assert "overload the fleet, and queues grow without bound." in burstiness_note(
        dataclasses.replace(crowds, other=endless), Targets()
    )
    single = service_of(isl="3000", osl="1")
    assert "TPOT" not in burstiness_note(burstiness(single), Targets())
    load = loaded(single, 1.0)
    assert burstiness_at(single, load, replicas=2).requests_per_second == 2.0


def test_arrivals_in_words() -> None:
    assert arrivals_label(0.0) == "more regular than Poisson (--arrival-scv 0)"


# Instances with a limit on concurrent requests.

ONE = Space(Pins(tp=1, dp=1, pp=1))


@cache
def offered(*changes: str) -> Services:
    requests = Requests(2000, 200)
    return ie.layouts(Setup.of("llama_3_8b", "h100_sxm", changes=changes), requests, ONE)


def test_the_full_instance_has_as_many_requests_as_slots() -> None:
    for limit in (1, 5, 64):
        limited = with_slots(offered(), limit)
        assert limited.slots.tolist() == [limit]
        assert limited.states.concurrency[0, -1] == pytest.approx(limit, rel=0.01)
        assert (np.diff(limited.states.concurrency[0]) >= 0.0).all()


def test_below_the_limit_nothing_changes() -> None:
    free, limited = offered().service(0), with_slots(offered(), 64).service(0)
    for flight in (1.0, 7.5, 60.0):
        assert limited.at(flight).tpot_seconds == pytest.approx(free.at(flight).tpot_seconds, rel=1e-3)
        assert limited.at(flight).ttft_seconds == pytest.approx(free.at(flight).ttft_seconds, rel=2e-2)


def test_where_memory_holds_fewer_it_decides() -> None:
    free = offered()
    assert with_slots(free, 8_000).slots.tolist() == free.slots.tolist()


def test_a_queue_forms_as_the_simulation_has_it() -> None:
    service = with_slots(offered(), 16).service(0)
    rate = 0.8 * service.most_requests_per_second
    load, seen = loaded(service, rate), simulator.rehearse(service, rate, count=8_000, seed=1).summary()
    assert load.waiting > 0.1
    assert load.waiting > 100 * loaded(offered().service(0), rate).waiting
    assert load.ttft_seconds["mean"] == pytest.approx(seen["ttft"]["mean"].value, rel=0.2)
    assert load.tpot_seconds["mean"] == pytest.approx(seen["tpot"]["mean"].value, rel=0.03)


def test_a_smaller_budget_of_tokens_spreads_prompts_over_more_steps() -> None:
    usual, small = offered(), offered("assumptions.serving.prefill_chunk=256")
    assert small.service(0).prompt.chunks == 8
    assert small.service(0).prefill_seconds > usual.service(0).prefill_seconds


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="slots must be an integer >= 1, got 0"):
        with_slots(offered(), 0)
    with pytest.raises(InputError, match=r"at most 64 tokens \(--token-budget\) cannot work on 65 requests"):
        with_slots(offered("assumptions.serving.prefill_chunk=64"), 65)
    # Prompts cannot start faster than steps process them, so the concurrency is lower.
    assert with_slots(offered("assumptions.serving.prefill_chunk=64"), 64).slots.tolist() == [7]
