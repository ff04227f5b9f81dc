"""The frontier of services: its points are Pareto-optimal, and its metrics are defined."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.answers.deployments.deployment import under_load
from inference_econ.answers.deployments.serving_frontier import PROMPTS, ServiceFrontier, service_frontier, token_parts
from inference_econ.answers.deployments.serving_options import Candidate, market
from inference_econ.answers.slo import interval_scale
from inference_econ.engine import bounds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.serving import Services, loaded
from inference_econ.serving.steady import steady
from tests import asking
from tests.offered import offer_of
from tests.reading import present

OFFERS = {
    "dense": lambda: offer_of(most=8),
    "experts": lambda: offer_of("qwen3_30b_a3b", isl="4000", osl="500", most=4),
    "cached": lambda: offer_of(isl="4000", cached=3000.0, most=4),
    "prefill first": lambda: offer_of(changes=("serving.prefill_chunk=0",), most=4),
}
names = st.sampled_from(tuple(OFFERS))


@cache
def front_of(name: str = "dense") -> ServiceFrontier:
    return frontier_of(OFFERS[name]())


def frontier_of(layouts: Services, promises: ie.Targets | None = None) -> ServiceFrontier:
    """Return the frontier of one setup, without the filter for speeds that no provider sells."""
    return service_frontier([Candidate(layouts)], promises, ends=False)


@settings(max_examples=30, deadline=None)
@given(names, st.data())
def test_no_state_of_any_layout_beats_a_point(name: str, data: st.DataObject) -> None:
    front = front_of(name)
    layouts = front.candidates[0].services
    states = layouts.states
    row = data.draw(st.integers(0, len(layouts) - 1))
    column = data.draw(st.integers(0, states.tpot_seconds.shape[1] - 1))
    speed = 1.0 / states.tpot_seconds[row, column]
    each = states.requests_per_second[row, column] / layouts.plans.accelerators[row]
    output = each * layouts.requests.osl.mean
    beaten = (front.tokens_per_second >= speed * (1 - 1e-12)) & (
        front.tokens_per_second_per_accelerator >= output * (1 - 1e-12)
    )
    assert beaten.any()


@pytest.mark.parametrize("name", OFFERS)
def test_points_are_ordered_and_none_beats_another(name: str) -> None:
    front = front_of(name)
    assert len(front) > 20
    assert (np.diff(front.tokens_per_second) > 0).all()
    assert (np.diff(front.dollars_per_million_tokens) > 0).all()
    assert (np.diff(front.tokens_per_second_per_accelerator) < 0).all()
    megawatt = present(front.tokens_per_second_per_megawatt)
    assert (np.diff(megawatt) < 0).all()


def test_no_point_is_dearer_than_a_quicker_one_where_pools_compete() -> None:
    """Pools must be noticeably cheaper; then they replace every slower point that is more expensive by any amount."""
    setup = ie.Setup.of("llama_3_70b", "h200_sxm", weights="fp8", engine="trtllm")
    front = ie.frontier(setup, ie.Traffic(isl=1024, osl=1024))
    apart = {front.candidates[number].pools is not None for number in front.which.tolist()}
    assert apart == {True, False}
    assert (np.diff(front.tokens_per_second) > 0).all()
    assert (np.diff(front.dollars) > 0).all()


@pytest.mark.parametrize("name", OFFERS)
def test_a_point_is_the_steady_state_of_its_layout(name: str) -> None:
    front = front_of(name)
    found = front.candidates[0].services
    for index in (0, len(front) // 2, len(front) - 1):
        plan, row = front.plan(index), front.rows[[index]]
        again = steady(found.setup, plan, found.requests)
        if found.crowding is not None:
            # With a full memory, some prompts are recomputed.
            more = found.crowding.take(row).read_again(np.reshape(plan.batch, (1, 1)))
            again = again.reading_again(more[0])
        assert front.tpot_seconds[index] == pytest.approx(float(again.tpot_seconds[0]))
        assert front.ttft_seconds[index] == pytest.approx(float(again.ttft_seconds[0]))
        assert front.requests_per_second[index] == pytest.approx(float(again.requests_per_second[0]))
        assert front.concurrency[index] == pytest.approx(float(again.concurrency[0]))


def test_metrics_by_hand() -> None:
    """Check the metrics at 2 dollars per hour, 700 W, and 1000 and 200 tokens (by hand)."""
    front = front_of()
    chips, rate = front.accelerators, front.requests_per_second
    np.testing.assert_allclose(front.tokens_per_second, 1.0 / front.tpot_seconds)
    np.testing.assert_allclose(front.tokens_per_second_per_accelerator, 200.0 * rate / chips)
    np.testing.assert_allclose(front.dollars, 1e6 * 2.0 * chips / 3600.0 / (200.0 * rate))
    np.testing.assert_allclose(front.dollars_per_million_tokens, 1e6 * 2.0 * chips / 3600.0 / (1200.0 * rate))
    # A board of 700 W, as much for host and network, and a PUE of 1.2.
    np.testing.assert_allclose(front.metric("power"), 200.0 * rate / chips / (1.2 * 1400.0) * 1e6)
    drawn = front.metric("joules") * 200.0 * rate / chips
    assert np.all((drawn > 0.323 * 700.0) & (drawn <= 700.0 * (1 + 1e-9)))
    np.testing.assert_array_equal(front.metric("gpus"), chips)
    np.testing.assert_array_equal(front.metric("cost"), front.dollars)
    np.testing.assert_array_equal(front.metric("blended"), front.dollars_per_million_tokens)
    np.testing.assert_array_equal(front.metric("throughput"), front.tokens_per_second_per_accelerator)


def test_interference_of_prefill_is_in_the_speed() -> None:
    """Longer prompts slow users down at the same cost per token, although the step time barely changes."""
    short, long = (offer_of(isl=isl, osl="500", most=2) for isl in ("100", "4000"))
    fronts = [frontier_of(offer) for offer in (short, long)]
    at_cost = [float(np.interp(1.0, front.dollars, front.tokens_per_second)) for front in fronts]
    assert at_cost[1] < 0.85 * at_cost[0]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="y: got 'carbon'; allowed: cost, blended, throughput, power, joules, gpus"):
        front_of().metric("carbon")  # type: ignore[arg-type]


SMALL = ("llama_3_8b", "h100_sxm")
SPACE = ie.Space(max_accelerators=2)


def test_the_public_name_asks_the_same() -> None:
    setup = ie.Setup.of(*SMALL, weights="fp8")
    front = ie.frontier(setup, ie.Traffic(isl=1000, osl=200), SPACE)
    again = service_frontier(market(setup, ie.Requests(1000, 200), SPACE))
    np.testing.assert_array_equal(front.dollars, again.dollars)
    reused = ie.Requests(1000, 200, cached=900)
    cached = ie.frontier(setup, reused, SPACE, slots=8)
    assert cached.dollars[0] > 0 and cached.concurrency.max() <= 8 * (1 + 1e-3)
    with pytest.raises(InputError, match=r"a context is that of decode steps alone \(decode_frontier\)"):
        ie.frontier(setup, ie.Traffic(context=1000), SPACE)
    with pytest.raises(InputError, match=r"max_tokens_per_second is a demand for decode steps alone"):
        ie.frontier(setup, ie.Traffic(isl=1000, osl=200, max_tokens_per_second=5), SPACE)


def test_points_are_chosen_by_speed_and_preference() -> None:
    front = front_of()
    points = front.points()
    assert [point.tokens_per_second_per_user for point in points] == front.tokens_per_second.tolist()
    assert front.fastest() == points[-1] == front.point(-1)
    # The result is one deployment with its own cost, also between two points.
    speed = (points[3].tokens_per_second_per_user + points[4].tokens_per_second_per_user) / 2
    assert front.cheapest(speed) == points[4]
    assert front.cheapest() == points[0]
    worth = [point.tokens_per_second_per_user**3 / point.dollars_per_million_output_tokens for point in points]
    assert front.preferred(exponent=3) == points[int(np.argmax(worth))]
    assert front.to_frame()["tp"].tolist() == [point.layout["tp"] for point in points]
    with pytest.raises(InputError, match=r"no deployment reaches 1e\+06 tokens/s per user; the fastest has"):
        front.cheapest(1e6)
    with pytest.raises(IndexError):
        front.point(len(points))


@settings(max_examples=15, deadline=None)
@given(st.floats(0.02, 0.5), st.floats(0.002, 0.05))
def test_promises_are_kept_and_nothing_that_keeps_them_is_cheaper(ttft: float, tpot: float) -> None:
    offer, promises = OFFERS["dense"](), ie.Targets(ttft, tpot, "mean")
    states, chips = offer.states, offer.plans.accelerators[:, None]
    kept = (states.ttft_seconds <= ttft) & (states.tpot_seconds <= tpot)
    if not kept.any():
        with pytest.raises(NothingFitsError, match=r"^nothing keeps a mean TTFT of [\d.]+ ms and TPOT of [\d.]+ ms"):
            frontier_of(offer, promises)
        return
    front = frontier_of(offer, promises)
    assert front.promises == promises
    assert (front.ttft_seconds <= ttft).all() and (front.tpot_seconds <= tpot).all()
    cheapest = (chips / states.requests_per_second)[kept].min()
    assert float(front.accelerators[0] / front.requests_per_second[0]) == pytest.approx(cheapest)


@pytest.mark.rows
def test_what_would_have_to_be_promised_can_be(ttft: float, tpot: float, relaxed: str) -> None:
    offer = OFFERS["dense"]()
    with pytest.raises(NothingFitsError) as caught:
        frontier_of(offer, ie.Targets(ttft, tpot, "mean"))
    found = re.search(relaxed, str(caught.value))
    assert found is not None, caught.value
    told = [float(text) / 1e3 for text in found.groups()]
    kept = (told[0], tpot) if "TPOT of" not in relaxed else (ttft, told[0]) if len(told) == 1 else (told[0], told[1])
    assert len(frontier_of(offer, ie.Targets(*kept, "mean"))) >= 1


# All candidates


@cache
def candidates() -> tuple[Candidate, ...]:
    """Return the candidates of every engine, aggregated and disaggregated."""
    requests = ie.Requests(4000, 500)
    return market(ie.Setup.of("qwen3_32b", "h100_sxm", weights="fp8"), requests, SPACE)


def cost_and_speed(candidate: Candidate) -> tuple[np.ndarray, np.ndarray]:
    """Return chips per request rate and tokens/s per user for every state of a candidate."""
    seen = candidate.metrics
    known = np.isfinite(seen.tpot_seconds)
    return (seen.accelerators / seen.requests_per_second)[known], 1.0 / seen.tpot_seconds[known]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_state_of_any_candidate_beats_the_market(data: st.DataObject) -> None:
    """Pools that save less than 5% are ignored, and so are states with more chips that are less than 2% faster."""
    front = service_frontier(candidates(), ends=False)
    candidate = data.draw(st.sampled_from(candidates()))
    costs, speeds = cost_and_speed(candidate)
    index = data.draw(st.integers(0, costs.size - 1))
    dearest = costs[index] * (1.05 if candidate.pools is not None else 1.0)
    slowest = speeds[index] / (1.02 if candidate.pools is not None else 1.0)
    own = front.accelerators / front.requests_per_second
    assert ((own <= dearest * (1 + 1e-9)) & (front.tokens_per_second >= slowest * (1 - 1e-9))).any()


def test_the_dear_end_is_no_less_than_that_of_the_cheapest_measured_layout() -> None:
    """DeepSeek-V3 on H200 without speculation: vLLM's pools are the cheapest candidate and were never measured."""
    setup = ie.Setup.of("deepseek_v3", "h200_sxm")
    front = ie.frontier(setup, ie.Traffic(7373, 922), speculation=None)
    likely, known = present(front.at_speed(22.0)), float(front.dollars_at(22.0, measured=True))
    assert likely.instances.measured == [False]
    assert likely.low is not None
    assert likely.high is not None
    assert likely.low < likely.dollars < known < likely.high
    tpot, rate = (present(bounds.around(likely.instances, quantity)) for quantity in ("tpot", "throughput"))
    best, worst, measured = (
        float(front.dollars_at(22.0 * factor, measured=among))
        for factor, among in ((tpot.low, False), (tpot.high, False), (tpot.high, True))
    )
    scale = interval_scale(likely.instances)
    high = likely.dollars * (worst / rate.low / likely.dollars) ** scale
    assert likely.low == pytest.approx(likely.dollars * (best / rate.high / likely.dollars) ** scale)
    # Ends do not fall with speed, so the end of a faster point may be lower.
    assert likely.high <= max(high, measured / rate.low)


def test_intervals_do_not_fall_with_speed_and_agree_with_the_cost_at_a_speed() -> None:
    """Llama 70B in fp8 on H100: the upper end once rose to 90 USD at 105 tokens/s and fell to 13 at 108."""
    front = ie.frontier(ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8"))
    low, high = front.cost_ends
    assert (np.diff(low) >= 0.0).all()
    assert (high[1:] >= high[:-1]).all()
    for index in range(0, len(front), 7):
        likely = present(front.at_speed(float(front.tokens_per_second[index])))
        assert [likely.low, likely.high or np.inf] == pytest.approx([low[index], high[index]])


def test_pools_of_four_times_the_chips_are_noticeably_faster() -> None:
    """DeepSeek-V3 on B200: 136 GPUs reached 56.5 tokens/s at the same cost, and 24 GPUs reached 56.4."""
    front = ie.frontier(ie.Setup.of("deepseek_v3", "b200"))
    pooled = [index for index in range(len(front)) if front.candidate(index).pools is not None]
    assert len(pooled) > 20
    for index in pooled:
        smaller = front.accelerators[:index] * 4.0 <= front.accelerators[index]
        fastest = max(front.tokens_per_second[:index][smaller], default=0.0)
        assert front.tokens_per_second[index] >= 1.02 * fastest * (1 - 1e-9)
    # Aggregated serving includes every Pareto-optimal state.
    together = ie.frontier(ie.Setup.of("llama_3_8b", "b200"), arrangement="aggregated")
    assert (np.diff(together.tokens_per_second) > 0).all()
    faster = together.tokens_per_second[1:] < 1.02 * together.tokens_per_second[:-1]
    assert faster.any()


def test_pools_are_on_it_where_they_are_cheaper_by_five_per_cent() -> None:
    front = service_frontier(candidates(), ends=False)
    together = [cost_and_speed(candidate) for candidate in candidates() if candidate.pools is None]
    costs, speeds = (np.concatenate(values) for values in zip(*together, strict=True))
    pooled = [index for index in range(len(front)) if front.candidate(index).pools is not None]
    assert 0 < len(pooled) < len(front)
    for index in pooled:
        fast = speeds >= front.tokens_per_second[index]
        own = float(front.accelerators[index] / front.requests_per_second[index])
        assert not fast.any() or own * 1.05 <= costs[fast].min() * (1 + 1e-9)


def test_a_point_of_pools_is_the_group_of_its_state() -> None:
    front = service_frontier(candidates())
    index = next(index for index in range(len(front)) if front.candidate(index).pools is not None)
    (point,), pools = front.points([index]), front.candidate(index).pools
    assert pools is not None
    at = np.array([front.rows[index]]), np.array([front.states[index]])
    ((readers, decoders),) = pools.instances_at(*at)
    assert (point.layout["prefill_instances"], point.layout["decode_instances"]) == (readers, decoders)
    assert point.layout["prefill"] == pools.pools.prefill.layouts[int(pools.reading_rows(*at)[0])]
    assert point.ttft_seconds == pytest.approx(float(pools.ttft_seconds(*at)[0]))
    assert point.kv == front.candidate(index).setup.precision.kv
    assert point.concurrency == pytest.approx(decoders * point.batch)
    (instances,) = front.subjects([point])
    assert list(instances.concurrency) == pytest.approx([point.batch])


def test_what_nobody_sells_is_left_out_unless_it_is_promised() -> None:
    """A TPOT SLO above 100 ms includes candidates that are otherwise omitted."""
    front, whole = (service_frontier(candidates(), ends=ends) for ends in (True, False))
    assert front.tpot_seconds.max() <= 0.1
    assert len(whole) >= len(front)
    slow = offer_of("llama_3_8b", isl="100", osl="500", most=1, hardware="mi300x")
    assert frontier_of(slow).tpot_seconds.max() > 0.1
    assert service_frontier([Candidate(slow)]).tpot_seconds.max() <= 0.1
    promised = service_frontier([Candidate(slow)], ie.Targets(tpot_seconds=1.0, percentile="mean"))
    assert promised.tpot_seconds.max() > 0.1


# Shown


def test_the_fastest_at_a_cost_is_a_point() -> None:
    front = front_of()
    assert front.fastest_at(float(np.sqrt(front.dollars[2] * front.dollars[3]))) == front.point(2)
    assert front.fastest_at(1e6) == front.fastest()
    assert front.fastest_at(1e-6) is None


def test_a_faster_token_is_never_cheaper() -> None:
    """Pools must be noticeably cheaper than instances of equal speed, and are on the frontier of slower points."""
    front = ie.frontier(ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8"), ie.Traffic(isl=8000, osl=300))
    assert {"prefill" in point.layout for point in front.points()} == {True, False}
    speeds = np.geomspace(front.tokens_per_second[0], front.tokens_per_second[-1], 60)
    costs = [likely.dollars for speed in speeds if (likely := front.at_speed(float(speed))) is not None]
    assert (np.diff(costs) >= -1e-9).all()
    assert costs[0] == pytest.approx(front.dollars.min())
    # All series together give the same point, and no speed above the fastest has a result.
    assert front.dollars_at(speeds) == pytest.approx(costs, rel=1e-12)
    assert front.dollars_at([[2.0 * speeds[-1]]]).tolist() == [[np.inf]]


# Parts of the time per token

EIGHT = ie.Space(max_accelerators=8)


@pytest.mark.parametrize("assumptions", [None, "paper"])
def test_parts_add_up_to_the_time_per_token(assumptions: str | None) -> None:
    setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8", assumptions=assumptions)
    front = ie.frontier(setup, ie.Traffic(isl=1000, osl=200), EIGHT, speculation=None)
    parts = token_parts(front)
    # The TPOT of a decode instance with spare capacity lies between those of two batches.
    np.testing.assert_allclose(np.sum(list(parts.values()), axis=0), front.tpot_seconds, rtol=1e-3)
    # Factors of measured runs may be below 1.
    assert all((part >= 0.0).all() for name, part in parts.items() if name != "measured")


def test_with_one_request_in_flight_there_are_no_prompts_of_others() -> None:
    setup = ie.Setup.of("llama_3_8b", "h100_sxm")
    front = ie.frontier(setup, ie.Traffic(isl=1000, osl=200), EIGHT, speculation=None, arrangement="aggregated")
    alone = front.batch <= 1.0
    assert alone.any()
    assert not alone.all()
    prompts = token_parts(front)[PROMPTS]
    assert prompts[alone] == pytest.approx(0.0, abs=1e-12)
    assert (prompts[~alone] > 0.0).all()


def test_rounds_of_proposals_have_no_parts() -> None:
    setup, lengths = ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Traffic(isl=1000, osl=200)
    assert token_parts(ie.frontier(setup, lengths, EIGHT, speculation=ie.Speculation.of("ngram", 0.5))) == {}


# Instances in results

SHORT = ie.Requests(1000, 200)


def test_services_under_load_are_told_apart_by_chip() -> None:
    (first, other) = (asking.offer("llama_3_8b", chip, SHORT).service(0) for chip in ("h100_sxm", "h200_sxm"))
    load, others = loaded(first, 2.0), loaded(other, 2.0)
    same = under_load([(first, load), (first, load)])
    assert len(same) == 1
    assert same[0].label == ""
    assert (same[0].accelerators, same[0].concurrency) == ([1.0, 1.0], [load.in_flight] * 2)
    assert (same[0].isl, same[0].osl, same[0].speculates) == (1000, 200, False)
    kinds = under_load([(first, load), (other, others)])
    assert [instances.label for instances in kinds] == ["NVIDIA H100 SXM5 80GB", "NVIDIA H200 SXM5 141GB"]


def test_a_frontier_shows_all_of_its_points_or_some() -> None:
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=1000, osl=200), max_accelerators=2)
    (instances,) = front.subjects()
    assert instances.accelerators == front.accelerators.tolist()
    assert instances.concurrency == front.batch.tolist()
    (preferred,) = front.subjects([front.preferred()])
    assert (len(preferred.accelerators), preferred.isl, preferred.osl) == (1, 1000, 200)


def test_a_prefill_step_is_about_all_tokens_that_it_leaves_in_the_cache() -> None:
    (read,) = asking.explain("llama_3_8b", "h100_sxm", tp=1, batch=2, context=100, prompt=900).subjects()
    assert (read.isl, read.accelerators, read.concurrency) == (1000, [1.0], [2.0])
    (step,) = asking.explain("llama_3_8b", "h100_sxm", tp=1, context=100).subjects()
    assert step.isl is None
    assert step.subject.context == pytest.approx(100)
