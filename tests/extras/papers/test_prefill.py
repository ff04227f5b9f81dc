"""Ways to prefill one prompt on several chips: limits, sums by hand, and the publication of the chain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from inference_econ import allow
from inference_econ.answers.explain import explain
from inference_econ.engine import Pins, Setup, memory
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.prefill import prefill as read_prompt
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.extras.papers import runahead_formulas as formulas
from inference_econ.extras.papers.kv_runahead import layer_work
from inference_econ.extras.papers.prefill import PrefillWays, prefill
from inference_econ.extras.papers.prefill_page import PrefillPage
from inference_econ.extras.papers.shared_prompt import hand_over_seconds, layer_cache_bytes, part_of_prompt

#: Sustained rates in the publication's study, of 312 TFLOP/s; see scenarios/seeds/kv_runahead.yaml.
MATMUL, ATTENTION, LINK = 166e12, 27e12, 300e9
#: Its machine as assumptions: kernels that compute masked scores, no launches, no shares of links.
PUBLISHED = (
    f"chip.math_efficiency={MATMUL / 312e12}",
    f"attention.math_efficiency={ATTENTION / 312e12}",
    "attention.masked_scores=computed",
    "chip.products={}",
    "attention.scores={}",
    "host.graph_launch=0 us",
    "host.launch=0 us",
)


def _ways(*changes: str) -> PrefillWays:
    return prefill(Setup.of("llama_3_8b", "h100_sxm", assumptions="deployable", changes=changes), [16384], [4])


def test_a_chain_of_one_is_the_plain_prefill() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm")
    row = prefill(setup, [4096], [1]).rows[0]
    whole = replace(setup, assumptions=setup.assumptions.changed({"serving.prefill_chunk": 0}))
    one = np.ones(1)
    plain = float(read_prompt(whole, Plans(one, one, one, one, one, whole=True), 4096.0).seconds[0])
    for name in ("tensor", "gathered", "ring", "even", "chain"):
        assert row.ways[name].seconds == pytest.approx(plain, rel=1e-12), name
        assert row.ways[name].moved_bytes == 0.0
    assert row.ways["chain"].parts == (4096,)
    # The step of 'explain', times the profile's factor on prefill.
    step = explain(setup, Pins(tp=1), prompt=4096).seconds * setup.assumptions.serving.prefill_factor
    assert plain == pytest.approx(step, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_with_free_links_balanced_parts_take_their_share(ranks: int) -> None:
    """The time is the work over P, plus the wait for the first keys of the first layer."""
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="ideal")
    ways = prefill(setup, [32768], [ranks])
    alone, row = ways.alone[32768].seconds, ways.rows[0]
    for name in ("ring", "chain"):
        assert alone / ranks <= row.ways[name].seconds * (1 + 1e-6)
        assert row.ways[name].seconds == pytest.approx(alone / ranks, rel=0.01), name
        assert row.ways[name].linked_seconds == 0.0
    assert row.ways["even"].seconds > 1.05 * row.ways["chain"].seconds
    # Later parts are shorter, since they attend to all before them.
    assert list(row.ways["chain"].parts) == sorted(row.ways["chain"].parts, reverse=True)
    assert sum(row.ways["chain"].parts) == 32768


def test_slower_links_cost_all_ways_more_and_the_chain_least() -> None:
    times = [
        {name: way.seconds for name, way in _ways(*_links(link)).rows[0].ways.items()}
        for link in ("450 GB/s", "45 GB/s", "4.5 GB/s")
    ]
    for faster, slower in pairwise(times):
        assert all(slower[name] >= faster[name] * (1 - 1e-9) for name in faster)
    assert min(times[-1], key=times[-1].__getitem__) == "chain"


def _links(link: str) -> tuple[str, ...]:
    return f"hardware.link_bytes_per_second_one_way={link}", "hardware.link_bytes_per_second_both_ways=null"


def test_bytes_by_hand() -> None:
    """Llama 3 8B caches 32 layers x 4,096 B per token, and all-reduces 4,096 elements of two bytes twice per layer."""
    (row,), token = _ways().rows, 32 * 4096.0
    sums = 32 * 2 * 2 * 3 * 16384 * 4096 * 2.0
    assert row.ways["tensor"].moved_bytes == pytest.approx(sums, rel=1e-12)
    assert row.ways["sequence"].moved_bytes == pytest.approx(sums, rel=1e-12)
    for name in ("gathered", "ring"):
        assert row.ways[name].moved_bytes == pytest.approx(3 * 16384 * token, rel=1e-12)
    for name in ("even", "chain"):
        before = np.cumsum(row.ways[name].parts)[:-1]
        assert row.ways[name].moved_bytes == pytest.approx(before.sum() * token, rel=1e-12)


@pytest.mark.parametrize(("model", "ranks"), [("llama_2_7b", 4), ("falcon_7b", 8)])
@pytest.mark.parametrize("prompt", [8192, 16384])
def test_the_publications_own_setting(model: str, ranks: int, prompt: int) -> None:
    """Times and speedups are within 2.5% of the study's own model.

    The remainder comes from norms, activation functions and embeddings, which the publication's model omits, and from
    the link share that NCCL's protocols use.
    """
    changes = [f"assumptions.{change}" for change in PUBLISHED]
    formats = {"weights": "fp16", "activations": "fp16", "kv": "fp16"}
    setup = Setup.of(model, "a100_sxm_80", assumptions="deployable", changes=changes, **formats)  # type: ignore[arg-type]
    ways = prefill(setup, [prompt], [ranks], tp=1)
    work, machine = layer_work(setup.model, 2.0), formulas.ProcessRates(MATMUL, ATTENTION, 0.0, LINK, 10e-6)
    searched = formulas.searched_partition(work, machine, prompt, ranks)
    published = {
        "gathered": float(formulas.all_gather_seconds(work, machine, prompt, ranks)),
        "even": float(formulas.chain_seconds(work, machine, formulas.even_partition(prompt, ranks))),
        "chain": float(formulas.chain_seconds(work, machine, searched)),
    }
    found = {name: ways.rows[0].ways[name].seconds for name in published}
    assert found == pytest.approx(published, rel=0.025)
    assert ways.alone[prompt].seconds == pytest.approx(float(formulas.single_seconds(work, machine, prompt)), rel=0.025)
    assert found["gathered"] / found["chain"] == pytest.approx(published["gathered"] / published["chain"], rel=0.025)


def test_fused_kernels_leave_little_of_the_speed_up() -> None:
    """The publication's chain gains by computing fewer masked scores; kernels that skip them gain that everywhere."""
    masked, skipped = (
        _ways(f"assumptions.attention.masked_scores={each}").rows[0].ways for each in ("computed", "skipped")
    )
    assert masked["gathered"].seconds / masked["chain"].seconds > 1.2
    assert skipped["gathered"].seconds / skipped["chain"].seconds < 1.1
    assert skipped["ring"].seconds == pytest.approx(skipped["chain"].seconds, rel=0.03)


def test_a_process_is_the_fewest_chips_that_hold_the_model() -> None:
    ways = prefill(Setup.of("llama_3_70b", "h100_sxm"), [30000], [4, 6, 8])
    assert ways.process_chips == 4
    few, odd, more = ways.rows
    assert few.ways["chain"].seconds == pytest.approx(ways.alone[30000].seconds, rel=1e-12)
    assert odd.missing["chain"] == "6 GPUs are not a multiple of the process size 4"
    assert "do not divide" in odd.missing["tensor"]
    assert odd.ways == {}
    assert len(more.ways["chain"].parts) == 2
    assert more.fastest in more.ways


def test_chips_without_a_network_stay_in_their_domain() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", changes=["hardware.nic_bytes_per_second_one_way=null"])
    near, far = prefill(setup, [4096], [8, 16]).rows
    assert len(near.ways) == 6
    assert not far.ways
    assert set(far.missing.values()) == {memory.REASONS[memory.NETWORK]}


@pytest.mark.rows
def test_numbers_that_cannot_be(numbers: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prefill(Setup.of("llama_3_8b", "h100_sxm"), *numbers)


def test_without_a_cache_there_is_nothing_to_hand_on() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", changes=["assumptions.attention.cache=recomputed"])
    with pytest.raises(InputError, match="parts of a prompt need the cache of those before, and none is kept"):
        prefill(setup, [4096], [2])


def test_prompts_of_a_token_for_each() -> None:
    row = prefill(Setup.of("llama_3_8b", "h100_sxm"), [8], [8]).rows[0]
    assert row.ways["chain"].parts == (1,) * 8
    assert all(np.isfinite(way.seconds) for way in row.ways.values())


def test_what_does_not_fit_or_takes_too_long() -> None:
    setup = Setup.of("llama_3_70b", "h100_sxm")
    with pytest.raises(NothingFitsError, match=r"no process of 1 x NVIDIA H100 .* holds Llama .*: weights exceed"):
        prefill(setup, [4096], [8], tp=1)
    with allow(60), pytest.raises(TooMuchError, match="parts of prompts take about"):
        prefill(setup, [4096] * 50, [1024] * 3)


def test_what_a_prompt_costs() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", price=3.6)
    ways = prefill(setup, [8000], [4], batch=2)
    (row,) = ways.rows
    # 3.60 USD an hour are 0.001 a second.
    assert ways.dollars(row.ways["chain"], row.stages) == pytest.approx(4 * row.ways["chain"].seconds * 0.001 / 2)
    record = ways.record()
    assert record["alone"][0]["dollars_per_prompt"] == pytest.approx(ways.alone[8000].seconds * 0.001 / 2)
    assert "Dollars per 1,000 prompts" in [table.title for table in PrefillPage(ways).tables()]
    unpriced = prefill(replace(setup, price=None), [8000], [2])
    assert unpriced.record()["alone"][0]["dollars_per_prompt"] is None
    assert len(PrefillPage(unpriced).tables()) == 2


def test_prompts_that_are_read_together() -> None:
    alone, four = (prefill(Setup.of("llama_3_8b", "h100_sxm"), [4000], [4], batch=batch).rows[0] for batch in (1, 4))
    for name, way in four.ways.items():
        # All parts share the read of the weights and the kernel launches.
        assert 2.5 < way.seconds / alone.ways[name].seconds < 4.0
        if name != "chain":
            assert way.moved_bytes == pytest.approx(4 * alone.ways[name].moved_bytes, rel=1e-12)


def test_a_prefix_that_all_processes_hold() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm")
    plain, after = (prefill(setup, [4000], [4], cached=cached) for cached in (0, 30_000))
    one = np.ones(1)
    whole = replace(setup, engines=(), assumptions=after.setup.assumptions)
    expected = read_prompt(whole, Plans(one, one, one, one, one, whole=True), 4000.0, 30_000.0).seconds[0]
    assert after.alone[4000].seconds == pytest.approx(float(expected), rel=1e-12)
    for name in ("gathered", "ring", "even"):
        # Only the processed parts are transferred, not the cached prefix.
        assert after.rows[0].ways[name].moved_bytes == pytest.approx(plain.rows[0].ways[name].moved_bytes, rel=1e-12)
        assert after.rows[0].ways[name].seconds > plain.rows[0].ways[name].seconds
    # Attention to the prefix is the same for every token, so that even parts are nearly the best.
    assert after.rows[0].ways["even"].seconds == pytest.approx(after.rows[0].ways["chain"].seconds, rel=0.03)


def test_a_prompt_that_does_not_fit_drops_alone() -> None:
    ways = prefill(Setup.of("llama_2_7b", "a100_sxm_40"), [1024, 65536], [4], tp=1)
    short, long = ways.rows
    assert list(ways.alone) == [1024] and len(short.ways) == 6
    assert set(long.ways) == {"tensor", "sequence"} and ways.speed_up(long, "tensor") is None
    notes = PrefillPage(ways).tables()[0].notes
    assert notes[0] == (
        "65,536 tokens, gathered, ring, even chain, chain: a process of 1 does not hold it (weights and KV cache "
        "exceed the memory); raise --tp."
    )
    assert PrefillPage(ways).charts() and len(ways.records()) == 8
    with pytest.raises(
        NothingFitsError, match=r"no process of 1 x .* holds Llama 2 7B and 65,536 tokens: weights and KV"
    ):
        prefill(Setup.of("llama_2_7b", "a100_sxm_40"), [65536], [4], tp=1)


def test_what_no_process_holds_is_said_of_the_largest_that_could_be() -> None:
    with pytest.raises(
        NothingFitsError, match=r"no process of 32 x .* and 1000 x 4,000 tokens: weights exceed the mem"
    ):
        prefill(Setup.of("llama_3_8b", "l40s"), [4000], [2], batch=1000)


def _halved(chip: str, price: float) -> Setup:
    """Return an ideal chip with half its rates, at a given price."""
    spec = Setup.of("llama_3_8b", chip, assumptions="ideal", price=price)
    flops = {dtype: rate / 2.0 for dtype, rate in spec.hardware.dense_flops_per_second.items()}
    rates = {"dense_flops_per_second": flops, "hbm_bytes_per_second": spec.hardware.hbm_bytes_per_second / 2.0}
    return replace(spec, hardware=spec.hardware.replace(**rates))


@pytest.mark.parametrize("slow_first", [False, True])
def test_a_mixed_chain_by_hand(slow_first: bool) -> None:
    """The chip with twice the speed does two thirds of the work; links are free.

    A token's projections and feed-forward block are 436.2 MFLOP per layer, and a pair over 4,096 heads times dimensions
    is 16,384 FLOP. Hence n tokens after c have n x 436.2e6 + 16,384 (c n + n^2 / 2), of 1.7867e12 + 0.1374e12 in all.
    """
    fast = Setup.of("llama_3_8b", "h100_sxm", assumptions="ideal", price=3.6)
    stages = [(fast, 1), (_halved("h100_sxm", 1.8), 1)]
    ways = prefill(fast, [4096], (), chains=[stages[::-1] if slow_first else stages])
    (row,) = ways.rows
    work, share = 1.7867e12 + 0.1374e12, 1 / 3 if slow_first else 2 / 3
    first = (np.sqrt(436.2e6**2 + 4 * 8192 * share * work) - 436.2e6) / (2 * 8192)
    assert row.ways["chain"].parts[0] == pytest.approx(first, rel=0.02)
    seconds = 32 * work * 2 / 3 / 989.4e12
    assert row.ways["chain"].seconds == pytest.approx(seconds, rel=0.04)
    # Even parts wait for the half that the slower chip has.
    assert row.ways["even"].seconds == pytest.approx(seconds * 3 / 2, rel=0.06)
    # 3.60 and 1.80 USD an hour are 0.0015 a second.
    assert ways.dollars(row.ways["chain"], row.stages) == pytest.approx(0.0015 * row.ways["chain"].seconds)
    assert row.ranks == 2 and set(row.ways) == {"even", "chain"} and not row.missing
    assert ways.records()[0]["chips"] == "1 x NVIDIA H100 SXM5 80GB + 1 x NVIDIA H100 SXM5 80GB"


def test_a_mixed_chain_is_the_best_of_all_partitions() -> None:
    """Compare the search with every split in steps of 100 tokens, timed part by part and simulated layer by layer."""
    near, far = Setup.of("llama_2_7b", "h100_sxm"), Setup.of("llama_2_7b", "l40s")
    (row,) = prefill(near, [3000], (), chains=[[(near, 1), (far, 1)]], tp=1).rows
    alone = [setup for setup, _ in row.stages]
    one, layers = np.ones(1), near.model.layers
    process = Plans(one, one, one, one, one, whole=True, prefill=True)

    def played(tokens: int) -> float:
        shares = ((tokens, 0.0), (3000.0 - tokens, tokens))
        parts = [part_of_prompt(setup, process, *share) for setup, share in zip(alone, shares, strict=True)]
        size = layer_cache_bytes(alone[0], process, tokens)
        hop = max(float(hand_over_seconds(setup, size, 2.0)) for setup in alone)
        sent, received, done = 0.0, 0.0, 0.0
        for layer in range(layers):
            sent += parts[0].before if layer == 0 else 0.0
            received = max(sent, received) + hop
            ready = max(done + parts[1].before, received)
            done = ready + parts[1].after
            sent += parts[0].after + parts[0].before
        return done + parts[1].end

    best = min(played(tokens) for tokens in range(100, 3000, 100))
    assert played(row.ways["chain"].parts[0]) == pytest.approx(row.ways["chain"].seconds, rel=1e-9)
    assert row.ways["chain"].seconds <= best * 1.01


def test_chips_of_another_kind_are_named() -> None:
    setup, other = (Setup.of("llama_3_8b", chip) for chip in ("l40s", "h100_sxm"))
    ways = prefill(setup, [4000], [2], chains=[[(other, 2)]])
    near, far = ways.rows
    assert set(far.ways) == set(near.ways)
    assert far.ways["chain"].seconds == pytest.approx(prefill(other, [4000], [2]).rows[0].ways["chain"].seconds)
    assert [row[1] for row in PrefillPage(ways).tables()[0].rows] == ["2", "2 x NVIDIA H100 SXM5 80GB"]


def test_one_kind_twice_is_one_chain() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", assumptions="ideal")
    plain, mixed = prefill(setup, [8000], [4], chains=[[(setup, 1), (setup, 3)]]).rows
    for name in ("even", "chain"):
        assert mixed.ways[name].seconds == pytest.approx(plain.ways[name].seconds, rel=1e-9)
        assert mixed.ways[name].parts == plain.ways[name].parts


def test_mixed_chains_that_cannot_be() -> None:
    setup, other = (Setup.of("llama_3_8b", chip) for chip in ("h100_sxm", "l40s"))
    for chains, message in (
        ([[]], "a chain of no stages reads nothing; name chips and how many of them"),
        ([[(setup, 1), (other, 0)]], "ranks must be integers from 1 to 1,024, got 0"),
        ([[(setup, 2), (other, 8)]], "a prompt of 8 tokens has no token for each of 10 ranks"),
        ([[(Setup.of("llama_3_70b", "l40s"), 2)]], "a chain reads one model, got Llama 3.1 8B and Llama 3.1 70B"),
        ([[(Setup.of("llama_3_8b", "l40s", kv="fp8"), 2)]], r"that of NVIDIA H100 .* is bf16, of NVIDIA L40S 48GB fp8"),
    ):
        with pytest.raises(InputError, match=message):
            prefill(setup, [8], (), chains=chains)
    lonely = Setup.of("llama_3_8b", "l40s", changes=["hardware.nic_bytes_per_second_one_way=null"])
    with pytest.raises(NothingFitsError, match="no network between link domains"):
        prefill(setup, [4096], (), chains=[[(setup, 2), (lonely, 2)]])


def test_what_one_kind_of_a_chain_does_not_hold_drops_alone() -> None:
    near, far = Setup.of("llama_2_7b", "h100_sxm"), Setup.of("llama_2_7b", "l40s")
    short, long = prefill(near, [3000, 60000], (), chains=[[(near, 2), (far, 2)]], tp=1).rows
    assert set(short.ways) == {"even", "chain"} and not long.ways
    assert long.missing["chain"] == (
        "a process of 1 x NVIDIA L40S 48GB does not hold it (weights and KV cache exceed the memory); raise --tp"
    )


def test_prompts_beyond_the_model_are_said() -> None:
    for cached in (0, 131_000):
        notes = PrefillPage(prefill(Setup.of("llama_3_8b", "h100_sxm"), [1000], [2], cached=cached)).tables()[0].notes
        assert ("The model supports at most 131,072 tokens of context." in notes) is bool(cached)


@pytest.mark.rows
def test_batches_and_prefixes_that_cannot_be(numbers: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prefill(Setup.of("llama_3_8b", "h100_sxm"), [2000], [2], batch=numbers[0], cached=numbers[1])
