"""Agents on servers: observations of two measured servers, and results of the Python API."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from inference_econ.answers.deployments.serving_options import Arrangement, Candidate, market
from inference_econ.answers.launching.instance import InstanceLimits
from inference_econ.answers.launching.plan import engine
from inference_econ.answers.layout_services import offer, with_slots
from inference_econ.answers.prefix_cache import Conversation
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import Targets
from inference_econ.engine import Pins, Setup, Space, request_seconds
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.extras.agents import simulation as agent_play
from inference_econ.extras.agents.agents import AgentLot, Agents
from inference_econ.extras.agents.sessions import Sessions, draw_sessions
from inference_econ.extras.agents.simulation import AgentDeployment, bracket_capacity
from inference_econ.extras.fleets.capacity_blocks import Way
from inference_econ.extras.fleets.day import PooledDay
from inference_econ.inputs import Length, Requests, SessionSpec, Step, catalog
from inference_econ.serving import Trace
from inference_econ.serving.simulation.events import KvCacheMemory, Server, StepTimes, simulate


@pytest.mark.rows
def test_measured_servers_under_coding_agents(
    model: str, tp: int, number: int, ttft: float, tpot: float, running: float, read: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Compare latencies at the lengths in these servers' counters, means over 719 s, of which agents run for 600.

    Their caches have 16 bits, the default of vLLM. Means of 3,000 requests are off by 8%.
    """
    monkeypatch.setattr(agent_play, "_LEAST", 20_000)
    monkeypatch.setattr(agent_play, "_MOST", 20_000)
    setup, work = Setup.of(model, "h200_sxm", engine="vllm", kv="bf16"), Agents.of("coding_agent")
    (point,) = work.load(offer(setup, work.requests, Space(Pins(tp=tp, dp=1, pp=1))), [number]).points
    assert point.load.tpot_seconds["mean"] == pytest.approx(tpot, rel=0.10)
    assert point.load.ttft_seconds["mean"] == pytest.approx(ttft, rel=0.35)
    assert point.load.in_flight == pytest.approx(running * 719 / 600, rel=0.15)
    assert point.load.requests_per_second * work.requests.isl.mean == pytest.approx(read * 719 / 600, rel=0.15)


@pytest.mark.rows
def test_measured_requests_of_an_agent(model: str, tp: int, prompt: int, new: int, reading: float, rest: float) -> None:
    """Compare the prefill time and the remainder, which is CPU overhead and grows with the full prompt.

    Requests of DeepSeek scatter: the second had 8% fewer tokens and took 17% less.
    """
    setup, work = Setup.of(model, "h200_sxm", engine="vllm", kv="bf16"), Agents.of("coding_agent")
    service = offer(setup, work.requests, Space(Pins(tp=tp, dp=1, pp=1))).service(0)
    assert float(service.reading(new, prompt - new).seconds[0]) == pytest.approx(reading, rel=0.3)
    assert request_seconds(setup, float(prompt - new)) == pytest.approx(rest, rel=0.27)


@cache
def small(space: Space | None = None) -> tuple[Agents, tuple[Candidate, ...]]:
    """Return agents of short sessions, and the candidates that serve them."""
    step = Step(name="work", turns=6, new_tokens=200, answer_tokens=60, pause=1)
    work = Agents("helpers", SessionSpec(shared_tokens=500, steps=[step]))
    return work, market(Setup.of("llama_3_8b", "h100_sxm", engine="vllm"), work.requests, space, slots=64)


def test_shipped_sessions_are_as_their_sources_say() -> None:
    coding, chat, rag = (Agents.of(name).requests for name in ("coding_agent", "chat", "rag"))
    assert 46_000 < coding.isl.mean < 49_000 and 260 < coding.osl.mean < 310
    assert Agents.of("chat").means.turns == pytest.approx(2.0, rel=0.05)
    assert chat.osl.mean == pytest.approx(214.5, rel=0.05)
    assert rag.isl.mean == pytest.approx(3200, rel=0.02) and rag.cached == 1000


def test_the_longest_turn_is_rarer_than_the_few_that_are_drawn() -> None:
    coding, chat = Agents.of("coding_agent"), Agents.of("chat")
    assert coding.requests.longest == coding.spec.compacts_at == 120_000
    assert chat.longest < chat.requests.longest == pytest.approx(chat.spec.longest_context, abs=1)


@pytest.mark.long
@pytest.mark.parametrize("means", [Means(accelerators=6), Means(dollars_per_hour=20.0)])
def test_most_agents_are_the_inverse_of_the_cheapest_for_some(means: Means, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 600)
    work, offers = small(Space(Pins(tp=1, dp=1, pp=1)))
    kept = Targets(tpot_seconds=0.008, ttft_seconds=1.0)
    best = work.most_agents(offers, means, kept)[0]
    assert isinstance(best, AgentDeployment) and best.fleet is None
    assert best.accelerators <= (means.accelerators or 6) and best.dollars_per_hour <= (means.dollars_per_hour or 24.0)
    # This number of agents costs no more, and a tenth more agents do.
    assert work.recommend(offers, int(best.use.agents), kept)[0].dollars_per_hour <= best.dollars_per_hour
    more = work.recommend(offers, round(1.1 * best.use.agents), kept)[0]
    assert more.dollars_per_hour > best.dollars_per_hour
    most = work.most_agents(offers, Means(dollars_per_hour=more.dollars_per_hour), kept)[0]
    assert isinstance(most, AgentDeployment) and most.fleet is None
    assert most.use.agents >= best.use.agents


def test_the_smallest_instance_that_carries_all_is_the_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger instances serve more per dollar, but the load does not need it."""
    monkeypatch.setattr(agent_play, "_LEAST", 900)
    work = Agents.of("chat")
    offers = market(Setup.of("qwen3_32b", "h200_sxm", engine="vllm"), work.requests)
    rows = work.recommend(offers, 500, Targets(ttft_seconds=0.5, tpot_seconds=0.03))
    assert [choice.accelerators for choice in rows] == sorted(choice.accelerators for choice in rows)
    assert (rows[0].accelerators, rows[0].replicas) == (1, 1)


def test_a_price_simulates_nothing_twice_and_no_fleet_above_the_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 600)
    runs: list[tuple[object, ...]] = []
    alone = agent_play.PlayedInstance._played

    def played(instance: agent_play.PlayedInstance, *asked: Any) -> Trace:
        runs.append((instance.service.accelerators, instance.service.speculation, *asked))
        return alone(instance, *asked)

    monkeypatch.setattr(agent_play.PlayedInstance, "_played", played)
    work, offers = small()
    kept = Targets(tpot_seconds=0.008, ttft_seconds=1.0)
    bill = work.price(offers, targets=kept)
    assert len(set(runs)) == len(runs)
    assert bill.use is not None
    agents = int(bill.use.agents)
    best = work.recommend(offers, agents, kept)[0]
    assert isinstance(best, AgentDeployment) and best.fleet is None
    assert bill.dollars_per_hour == pytest.approx(best.dollars_per_hour)
    runs.clear()
    instance, too_dear = agent_play.PlayedInstance(best.service, work, ()), 0.9 * best.dollars_per_hour / best.replicas
    assert agent_play.cheapest_fleet(instance, agents, kept, 4, "prefix_aware", too_dear) is None
    assert not runs


def test_instances_that_are_told_their_slots_are_played_and_launched_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 600)
    agents, setup = Agents.of("coding_agent"), Setup.of("llama_3_8b", "h100_sxm", engine="vllm")
    free = offer(setup, agents.requests, Space(Pins(tp=1, dp=1, pp=1)))
    played = agents.load(with_slots(free, 4), [20]).points[0]
    assert 3.0 < played.load.in_flight <= 4.0
    assert with_slots(free, 4).service(0).slots_of_blocks == 4
    # If memory holds more than mean contexts, its blocks decide below the given number.
    most = int(free.slots[0])
    assert with_slots(free, 2 * most).service(0).slots_of_blocks == 2 * most < free.service(0).slots_of_blocks
    assert InstanceLimits.of(with_slots(free, 4).service(0), engine("vllm"), "both").sequences == 4


@pytest.mark.parametrize("share", [0.4, 1.0, 1.5])
def test_a_fleet_is_as_small_as_slos_allow_for_any_first_guess(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 1200)
    alone = agent_play.PlayedInstance.carried
    monkeypatch.setattr(
        agent_play.PlayedInstance,
        "carried",
        lambda *asked: (max(round(share * alone(*asked)[0]), 1), "tpot"),
    )
    work, offers = small(Space(Pins(tp=1, dp=1, pp=1)))
    kept = Targets(tpot_seconds=0.006, ttft_seconds=1.0)
    best = work.recommend(offers, 500, kept)[0]
    assert isinstance(best, AgentDeployment) and best.fleet is None
    assert best.replicas > 4
    instance = agent_play.PlayedInstance(best.service, work, ())
    less, more = (
        instance.play(round(4 * 500 / replicas), 4).statistics("tpot")["p90"]
        for replicas in (round(0.9 * best.replicas) - 1, best.replicas)
    )
    assert more <= 0.006 < less
    # With just as much money as that it is the same fleet.
    again = agent_play.cheapest_fleet(instance, 500, kept, 4, "prefix_aware", best.dollars_per_hour)
    assert again is not None and again.replicas == best.replicas


def test_what_cannot_be_asked() -> None:
    chat = Agents.of("chat")
    layouts = offer(Setup.of("llama_3_8b", "h100_sxm", engine="vllm"), chat.requests, Space(Pins(tp=1, dp=1, pp=1)))
    with pytest.raises(InputError, match="numbers of agents, and rates, must be positive"):
        chat.load(layouts, [0])
    message = "say how many --agents there are, at least 1, got none, or what there is to serve"
    with pytest.raises(InputError, match=message):
        chat.recommend([layouts], None)
    message = r"offered for other requests than those of rag; offer .* \(agents\.requests\)"
    with pytest.raises(InputError, match=message):
        Agents.of("rag").price([layouts], 5)


@pytest.mark.parametrize("tokens", [240_000, 1_000_000])
def test_conversations_of_the_cache_command_find_as_much_when_they_are_played(tokens: int) -> None:
    """Compare the formula for tokens still in memory with simulated blocks, while almost no request is active."""
    conversation = Conversation(6, 200, 100, think_seconds=60.0, lifetime_seconds=1e9, system_tokens=320)
    found = conversation.found(conversation.lifetime(4.0, tokens))
    chat = Step(name="chat", turns=6, new_tokens=200, answer_tokens=100, pause=60, pause_variation=1)
    drawn = draw_sessions(SessionSpec(shared_tokens=320, steps=[chat]))
    server = Server(
        StepTimes(lambda *_: 1e-5, lambda new, _: 1e-7 * new),
        512,
        "chunked",
        8192,
        cache=KvCacheMemory(tokens // 16, 16),
    )
    trace = simulate(server, Sessions(drawn, 320, 200, 8000, sessions_per_second=4.0 / 6), warm_up=0.3)
    assert trace.hit_rates["HBM"] == pytest.approx(found.cached / found.prompt, abs=0.03)


def test_agents_of_agentperf_have_its_published_lengths() -> None:
    """Its methodology states prompts of 5,000 to 131,000 tokens, 27,000 on average, and outputs with p50 150 and p95
    2,000.
    """
    means = Agents.of("agentperf").means
    assert np.mean(means.prompts) == pytest.approx(27_000, rel=0.03) and means.side_by_side == 1.0
    assert means.prompts.min() > 5_000 and np.max(means.prompts + means.answers) <= 131_072
    assert np.quantile(means.answers, (0.5, 0.95)) == pytest.approx((150, 2000), rel=0.05)


def _in_flight(chip: str, cached: int) -> float:
    """Return the concurrent AA-AgentPerf requests of a node of eight at 20 tokens/s each, per watt [1/W]."""
    setup = Setup.of("deepseek_v4_pro", chip, engine="vllm")
    requests = Requests(isl=Length(values=(26_825.0,)), osl=Length(values=(529.0,)), cached=cached)
    nodes = [offer(setup, requests, Space(Pins(tp=tp, dp=8 // tp, pp=1))).service(0) for tp in (1, 8)]
    most = max(int((node.in_flight.tpot_seconds <= 0.05).sum()) for node in nodes)
    assert setup.hardware.watts is not None
    return most / (8 * setup.hardware.watts)


@pytest.mark.parametrize(("chip", "found", "published"), [("mi355x", False, 3551), ("b300", True, 21_053)])
def test_agentperf_is_what_servers_carry_with_and_without_cache_hits(chip: str, found: bool, published: float) -> None:
    """H200's published eleven agents per node, like MI355X's, match a server that recomputes full prompts."""
    h200 = _in_flight("h200_sxm", 0)
    assert h200 * 8 * 700 == pytest.approx(11, abs=2)
    assert 1 / 1.5 < _in_flight(chip, 25_000 if found else 0) / h200 / (published / 2594) < 1.5


@pytest.mark.long
def test_pools_carry_agents_where_a_play_of_them_keeps_the_promises() -> None:
    """MiniMax-M2.5 on H200, with disaggregated deployments only."""
    work, setup = Agents.of("coding_agent"), Setup.of("minimax_m2_5", "h200_sxm", engine="vllm")
    offers = market(setup, work.requests, Space(max_accelerators=4), arrangement="disaggregated")
    found = work.recommend(offers, 100)
    best = found[0]
    assert isinstance(best, AgentDeployment) and best.fleet is not None
    trace, readers = best.use.trace, best.fleet.prefill_instances
    assert trace.statistics("ttft")["p90"] <= 10.0 and trace.statistics("tpot")["p90"] <= 0.05
    # Prefill instances do not find outputs of earlier turns in their cache.
    answers = work.means.answers.mean() / work.means.prompts.mean()
    assert sum(trace.hit_rates.values()) < trace.known_share - 0.5 * answers
    record = found.to_dict()["choices"][0]
    assert record["serving"] == "disaggregated" and record["prefill_instances"] == readers
    assert record["agent_use"]["agents"] == 100 and record["accelerators"] == best.accelerators
    # An hour with a tenth of them needs a tenth of the instances, whole ones of either kind.
    day, writers = PooledDay.shared(best.fleet, (0.1, 1.0), "--agents 100"), best.fleet.decode_instances
    assert (day.readers, day.writers) == ((math.ceil(readers / 10), readers), (math.ceil(writers / 10), writers))
    (said,) = day.sentences(1e6, RENTED, catalog.elasticity(), {}, 1)
    assert f"{day.readers[0]} to {readers} prefill" in said and "'recommend --agents 100'" in said
    # There is no note if the available GPUs cannot hold both kinds, or if the day is not cheaper.
    assert not day.sentences(1e6, RENTED, catalog.elasticity(), {best.service.setup.hardware.name: 1}, 1)
    assert not day.sentences(1.0, RENTED, catalog.elasticity(), {}, 1)


HELPERS = SessionSpec(
    shared_tokens=500, steps=[Step(name="work", turns=6, new_tokens=2000, answer_tokens=300, pause=1)]
)


#: One pricing model: prices differ only by chip.
RENTED: tuple[Way, ...] = ("on_demand",)


@pytest.mark.parametrize(
    ("model", "chip", "arrangement", "number"),
    [("llama_3_8b", "l40s", "both", 20), ("llama_3_8b", "h100_sxm", "disaggregated", 100)],
)
def test_questions_about_agents_choose_the_same_fleet(
    model: str, chip: str, arrangement: Arrangement, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``recommend``, ``price``, the comparison with API offers, and the fleet of a day select the same deployment."""
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    work, kept = Agents("helpers", HELPERS), Targets(tpot_seconds=0.03, ttft_seconds=3.0)
    # With few slots, a fleet of some instances serves few agents; pools have no such limit.
    slots = 8 if arrangement == "both" else None
    setup, space = Setup.of(model, chip, engine="vllm"), Space(max_accelerators=2)
    offers = market(setup, work.requests, space, arrangement=arrangement, slots=slots)
    best = work.recommend(offers, number, kept)[0]
    each = best.dollars_per_hour / number
    bill = work.price(offers, number, kept)
    assert (bill.fleet is None) == (best.fleet is None) == (arrangement == "both")
    assert bill.to_dict()["agent_use"]["dollars_per_agent_hour"] == pytest.approx(each)
    bought = work.buy(offers, {"given": {"input": 1.0, "output": 3.0}}, number, kept, ways=RENTED)
    (row,) = bought.to_dict()["crossovers"]
    assert row["agent_bill"]["dollars_per_agent_month"] == pytest.approx(730 * each)
    (lot,) = bought.to_dict()["rental_units"]
    assert lot["dollars_per_hour"] == pytest.approx(lot["accelerators"] * lot["dollars_per_accelerator_hour"])
    most = work.most_agents(offers, Means(dollars_per_hour=best.dollars_per_hour), kept)[0]
    assert isinstance(most, AgentDeployment) and most.use.agents >= 0.95 * number
    if arrangement == "disaggregated":
        assert lot["accelerators"] == best.accelerators and lot["serving"] == "disaggregated"
        # The cost of tokens includes prefill and decode instances: the full bill.
        assert sum(bill.average[kind] * bill.tokens_per_hour[kind] for kind in bill.average) / 1e6 == pytest.approx(
            best.dollars_per_hour
        )
        with pytest.raises(NothingFitsError, match="no aggregated deployment meets"):
            work.fleet(offers, [number, number / 2], kept)
        return
    day = work.fleet(offers, [number, number / 3, number], kept, ways=RENTED)
    assert float(day.plan.counts.sum(axis=0)[0]) * day.lots[0].dollars_per_hour == pytest.approx(best.dollars_per_hour)


def test_a_day_of_agents_is_planned_and_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    work, kept = Agents("helpers", HELPERS), Targets(tpot_seconds=0.03, ttft_seconds=3.0)
    offers = [offer(Setup.of("llama_3_8b", "h100_sxm", engine="vllm"), work.requests, Space(Pins(tp=1, dp=1, pp=1)))]
    offers = [with_slots(offers[0], 8)]
    hours = (120.0, 12.0, 12.0, 60.0)
    day = work.fleet(offers, hours, kept)
    (lot, *_) = day.lots
    assert isinstance(lot, AgentLot) and lot.record(kept)["request_rate"] > 0.0
    needed = (120, 66, 36, 90)
    assert np.all([lot.carried for lot in day.lots] @ day.plan.counts >= np.array(needed) - 1e-6)
    # All agents of a rental unit have the simulated concurrency; fewer agents have less, and more have more.
    flight = lot.in_flight(np.array([0.5, 1.0, 1.5]))
    assert flight[1] == pytest.approx(lot.replicas * lot.load.in_flight) and flight[0] < 0.6 * flight[1] < flight[2]
    record = day.to_dict()
    assert [hour["agents"] for hour in record["hours"]] == list(hours)
    for run, played in day.runs.items():
        (row,) = [row for row in record["runs"] if row["run"] == run]
        assert row["dollars_per_agent_hour"] == pytest.approx(played.dollars.sum() / sum(hours))
    assert day.runs["constant"].slo_met_share == 1.0 and day.runs["autoscaled"].slo_met_share > 0.95
    with pytest.raises(InputError, match="policy: got 'utilization'; allowed: in_flight, rate"):
        work.fleet(offers, hours, kept, policy="utilization")
    with pytest.raises(InputError, match="agents by hour must be agents from 0 to 1e9"):
        work.fleet(offers, [5, -1], kept)
    with pytest.raises(NothingFitsError, match=r"the stock of 1 NVIDIA H100 SXM5 80GB serves about .* agents within"):
        work.fleet(offers, hours, kept, stock={"h100_sxm": 1})


def test_every_agent_plays_half_a_session_before_anything_is_measured() -> None:
    """A fleet with too little memory collapses in the first 20 turns of its agents: 3.9 s, then 17 to 22 s."""
    long, short = Agents.of("coding_agent"), Agents.of("batch")
    for number in (1, 50, 500, 5000):
        count, unmeasured = agent_play.run_of(long, number)
        assert unmeasured * count >= 20 * number and count * (1 - unmeasured) >= max(2 * number, 1500)
    count, unmeasured = agent_play.run_of(long, 500)
    assert (count, round(unmeasured * count)) == (12250, 10000)
    assert agent_play.run_of(short, 5000)[0] == 2 * 5000 + 2 * 5000
    one = Space(Pins(tp=4, dp=1, pp=1))
    layouts = offer(Setup.of("minimax_m2_5", "h200_sxm", engine="vllm"), long.requests, one)
    with pytest.raises(TooMuchError, match="the 22,000,000 requests of a run take about 55 minutes; reduce agents"):
        long.load(layouts, [1_000_000])


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 9, 50, 777, 1000])
def test_the_number_next_to_those_that_break_a_promise(limit: int, rising: bool) -> None:
    for guess in (1, 7, 100, 1000):
        looks = list[int]()

        def over(number: int, looks: list[int] = looks) -> tuple[float, str]:
            looks.append(number)
            far = np.log(number / (limit + 0.5) if rising else (limit - 0.5) / number)
            return float(far), "tpot" if far > 0.0 else ""

        found, _ = bracket_capacity(over, guess, 1000, 2.0, rising=rising)
        assert found <= limit if rising else found >= limit
        assert abs(found - limit) <= max(round(0.05 * limit), 1)
        assert len(set(looks)) == len(looks) < 16
    assert bracket_capacity(lambda _: (1.0, "ttft"), 10, 100, 2.0, rising=rising) == (0, "ttft")
