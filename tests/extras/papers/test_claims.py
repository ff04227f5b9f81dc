"""The ledger of claims: its content, second calculations of surprising claims, and rejected inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.explain import explain
from inference_econ.answers.layout_services import best_step_seconds
from inference_econ.engine import Pins
from inference_econ.errors import InputError, SpecError
from inference_econ.extras.papers import latent_attention
from inference_econ.extras.papers.claim_kinds import BasisSpec, ClaimsAsk
from inference_econ.extras.papers.claims import Ledger, answered, claims, picked
from inference_econ.extras.papers.claims_page import ClaimsPage
from inference_econ.extras.papers.study_kinds import Implementation
from inference_econ.inputs import FrontierAsk, Scenario, Settings, catalog
from inference_econ.studies.scenario import run
from inference_econ.studies.settings import frontier_of, shared_frontier
from tests.reading import of, tables

SEEDS = ("study", "chapter", "note", "mla_notes", "kv_runahead", "per_megawatt")
#: Sustained rates of the study's H100 in 8 bits: 70 % of 2e15 FLOP/s, 75 % of 3.3 TB/s.
FLOPS, BANDWIDTH = 0.7 * 2e15, 0.75 * 3.3e12


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    return claims()


@cache
def _ours(name: str) -> dict[str, float]:
    return {str(basis): value for basis, value in claims(name)[name].ours.items()}


@pytest.mark.long
def test_the_page_of_the_documents_is_what_is_computed_now(ledger: Ledger) -> None:
    page = Path(__file__).parents[3] / "docs" / "evidence" / "claims.md"
    assert page.read_text(encoding="utf-8") == ClaimsPage(ledger).markdown(), (
        "inference-econ paper claims --format markdown -o docs/evidence/claims.md"
    )


@pytest.mark.long
def test_every_publication_is_there_and_every_claim_that_fails_says_why(ledger: Ledger) -> None:
    names = [finding.claim.id for finding in ledger.findings]
    assert len(set(names)) == len(names) >= 75
    assert len({finding.seed for finding in ledger.findings}) == len(SEEDS)
    assert ledger.findings[0].seed == "Inference economics of language models"
    for finding in ledger.findings:
        assert finding.verdict == "holds" or finding.claim.why, finding.claim.id
        assert set(finding.ours) == set(finding.claim.bases), finding.missing
        assert all(math.isfinite(value) for value in finding.ours.values())


@pytest.mark.long
def test_all_is_asked_of_both_bases_or_says_so(ledger: Ledger) -> None:
    single = {finding.claim.id for finding in ledger.findings if len(finding.claim.bases) == 1}
    assert single == set(tables(Path(__file__))["SINGLE"])
    assert ledger["ideal_speed_per_halving"].holds("today") is None


# Surprising results are calculated a second time, in another way.


def test_half_of_the_utilisation_for_four_times_the_speed_by_hand() -> None:
    """Four times the chips per instance and half of its batch give twice the cost and four times the speed."""
    changes = (
        "assumptions.network.collectives=nccl_2_19_no_latency",
        "assumptions.host.launch=0 us",
        "hardware.link_domain=1000000",
    )
    setup = ie.Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper", changes=changes)
    slow, fast = best_step_seconds(setup, [16384.0, 65536.0], [64.0, 32.0])
    assert slow / fast == pytest.approx(4, rel=0.02)
    with_latency = ie.Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper")
    slow, fast = best_step_seconds(with_latency, [16.0, 64.0], [64.0, 32.0])
    assert slow / fast < 1.3
    assert _ours("ideal_speed_per_halving")["paper"] == pytest.approx(4, rel=0.05)


def test_the_fastest_of_the_toy_model_costs_three_less_two_over_the_root_of_its_size() -> None:
    for name, parameters, layers in (("toy", 70.5524e9, 80), ("8b", 8.03e9, 32)):
        read, hops = 2 * parameters / 3.3e12, 4 * layers * 1e-6
        size = (read / hops) ** (2 / 3)
        assert _ours(f"fastest_costs_three_times_{name}")["paper"] == pytest.approx(3 - 2 / math.sqrt(size), rel=1e-4)


def test_what_the_fastest_costs_without_limits_of_the_network_is_brute_force() -> None:
    """Every instance of a coarse grid: the fastest costs three times the cheapest if activations move once, and not
    with cuts.
    """
    free = ("hardware.link_bytes_per_second_one_way=1e18", "hardware.nic_bytes_per_second_one_way=1e18")
    once = ("assumptions.chip.activation_traffic=single_copy", "assumptions.layout.attention_scale_down_steps=0")
    sizes, batches = np.meshgrid(np.geomspace(1, 64, 80), np.geomspace(1, 4096, 60))

    def factor(*changes: str) -> float:
        setup = ie.Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper", changes=changes)
        seconds = best_step_seconds(setup, sizes, batches)
        cost = sizes * seconds / batches
        return float(cost[seconds <= seconds.min() / 0.95].min() / cost.min())

    ours = _ours("entirely_network_bandwidth")["paper"]
    assert factor(*free) == pytest.approx(ours, rel=0.3)
    assert factor(*free, *once) < 3.45 < ours < factor() / 5
    assert _ours("fastest_costs_more_in_full")["paper"] > 100


def test_tokens_of_a_round_are_a_sum_over_what_is_accepted() -> None:
    ours = _ours("tokens_per_round")
    assert ours["today"] == pytest.approx(sum(0.8**length for length in range(6)))
    assert ours["paper"] == pytest.approx(sum(0.8**length for length in range(5)))


def test_groq_by_the_equations() -> None:
    read, hops = 70.5524e9 / 3.3e12, 4 * 80 * 1e-6

    def seconds(read: float) -> float:
        return 3 * math.pow(hops**2 * read, 1 / 3) - 2 * hops

    share = 80 / 3.3
    assert _ours("groq_toy")["paper"] == pytest.approx(seconds(read) / seconds(read / share), rel=1e-4)
    assert _ours("groq_asymptote")["paper"] == pytest.approx(share ** (1 / 3), rel=1e-9)


def test_palm_by_the_law() -> None:
    eight, middle = (float(catalog.model(name).total_parameters) for name in ("palm_8b", "palm_62b"))
    assert 1e3 / _ours("palm_62b")["paper"] == pytest.approx(4 * math.sqrt(middle / eight))
    assert 1e3 / _ours("palm_62b")["paper"] < 11


def test_latent_attention_is_bound_by_its_cache_at_the_peak_of_the_preset() -> None:
    """Multiply 58 layers of 512 cached elements of two bytes twice with 128 heads (by hand)."""
    flop, cache = 58 * 4 * 512 * 128, 58 * 512 * 2
    own = (flop / FLOPS) / (cache / BANDWIDTH)
    assert _ours("latent_attention_bound")["paper"] == pytest.approx(own, rel=1e-9)
    rest = _ours("latent_overtakes")["paper"] * flop
    assert rest == pytest.approx(2 * 35.516e9, rel=1e-3)
    # Not even without reading a single weight.
    at_most = ((rest + 1e4 * flop) / FLOPS) / (1e4 * cache / BANDWIDTH)
    assert _ours("latent_arithmetic_bound")["paper"] < at_most < 1


def test_a_batch_does_not_raise_the_intensity_of_attention() -> None:
    assert _ours("attention_intensity_by_batch")["today"] == pytest.approx(0, abs=1e-12)
    step = ie.explain(ie.Setup.of("llama_3_8b", "h100_sxm"), ie.Pins(batch=64), context=2000)
    row = next(row for row in step.operators if row.name == "attention")
    assert row.flop / row.moved_bytes == pytest.approx(32 / 8)


def test_decode_reads_one_embedding_and_the_study_multiplies_two() -> None:
    model = catalog.model("paper/llama_3_8b")
    embedding = model.vocab_size * model.hidden_size
    expected = model.total_parameters / (model.total_parameters - embedding)
    assert _ours("decode_intensity")["paper"] == pytest.approx(expected, rel=2e-3)


@pytest.mark.long
def test_pools_cannot_save_more_than_prompts_cost() -> None:
    """Decode alone, with the same layouts, is cheaper than any disaggregated deployment."""
    subject = {"model": "deepseek_v3_nvfp4", "hardware": "gb200_nvl72", "isl": 1000, "osl": 1000}
    asked = Settings.build({**subject, "assumptions": "profiles/blackwell"}, origin="test")
    (speeds, together), (decoding, alone) = (
        frontier_of(each).axes() for each in (asked.replace(arrangement="aggregated"), asked.replace(decode_only=True))
    )
    reached = speeds < 0.8 * speeds.max()
    most = (together[reached] / alone[np.searchsorted(decoding, speeds[reached])]).max()
    assert 1.25 * most < 0.8 * 30
    assert 1 < _ours("disaggregation_30")["today"] < _ours("disaggregation_30_largest")["today"] < 1.25 * most


@pytest.mark.long
def test_the_gain_of_pools_is_similar_for_all_formats_and_lengths() -> None:
    """The median is 1.2 to 1.5. Each largest gain is where aggregated layouts omit wide expert parallelism."""
    asked = Settings(model="deepseek_v3", hardware="gb200_nvl72", isl=1000, osl=1000, speculate=False)
    together, apart = (frontier_of(asked.replace(arrangement=way)) for way in ("aggregated", "disaggregated"))
    assert isinstance(together, ServiceFrontier) and isinstance(apart, ServiceFrontier)
    speeds = np.linspace(10, 98, 50)
    gains = together.dollars_at(speeds) / apart.dollars_at(speeds)
    assert _ours("disaggregation_30_fp8")["today"] == pytest.approx(float(np.median(gains)), rel=0.1)
    assert _ours("disaggregation_30_largest_fp8")["today"] == pytest.approx(float(gains.max()), rel=0.1)
    layouts = [together.cheapest(tokens_per_second=speed).layout["ep"] for speed in (38, 60)]
    assert layouts == [32, 1]
    for name in ("disaggregation_30", "disaggregation_30_fp8", "disaggregation_30_long"):
        assert 1.2 < _ours(name)["today"] < 1.55


def test_blackwell_continues_the_trend_at_each_cost_price_and_depth_of_pipelines() -> None:
    """The size at one cost depends on whether an H100 instance fits in one node of eight GPUs."""
    ask = of(FrontierAsk, catalog.scenario("paper/generations").ask)

    def fastest(index: int, cost: float, **changes: Any) -> tuple[float, float]:
        """Return GPUs and speed of the fastest point of a series at a cost."""
        point = shared_frontier(ask.series[index].settings.replace(**changes).over(ask.common)).fastest_at(cost)
        assert point is not None
        return point.accelerators, point.tokens_per_second_per_user

    ratios = {}
    for cost in (0.5, 0.7, 1, 1.4, 2, 3, 5):
        (old, slow), (new, fast) = fastest(2, cost), fastest(3, cost)
        ratios[cost] = new / old
        assert 1.3 < fast / slow < 1.6
        # The ratio is near one only where the H100 instance has one node, too.
        assert new < 8 and (ratios[cost] > 0.75) is (old < 8)
    assert all(ratio < 1 for ratio in ratios.values())
    assert _ours("blackwell_size") == {"paper": pytest.approx(ratios[1])}
    assert _ours("blackwell_size_at_2_dollars") == {"paper": pytest.approx(ratios[2])}
    # Without pipelines, the ratio is the same. At the list price of the B200, it is smaller.
    for changes, expected in (({"pipeline": False}, ratios[1]), ({"price": 6.00}, 0.80)):
        assert fastest(3, 1, **changes)[0] / fastest(2, 1)[0] == pytest.approx(expected, rel=0.01)


def test_a_verification_is_a_prefill_without_its_launches() -> None:
    """Under the preset of the study both steps are equal, except that prefill attends to its own tokens."""
    ours = _ours("verification_as_prefill")
    attended = (2000 + 3) / 2000
    step = explain(
        ie.Setup.of("paper/llama_3_70b", "paper/h100", assumptions="paper", weights="bf16"), Pins(tp=8), context=2000
    )
    cache = float(step.costs.parts["kv_cache"][0])
    assert ours["paper"] == pytest.approx(1 - (attended - 1) * cache / step.seconds, rel=1e-4)
    assert ours["today"] < 0.6


def test_speculation_is_what_the_study_prints_in_its_table() -> None:
    assert _ours("speculation_70b")["paper"] == pytest.approx(95 / 69, rel=0.03)


def test_copies_by_hand() -> None:
    """A_CC writes and reads 576 elements per head and token in addition to the latent; CD reads 320 per head."""
    setup = ie.Setup.of("deepseek_v2", "a100_sxm_40", weights="bf16", kv="bf16", assumptions="deployable")
    alone = replace(setup, model=latent_attention.attention_alone(setup.model))
    plans = latent_attention.unpiped_plans(1, 1, 1, 8)

    def seconds(how: Implementation, context: float) -> float:
        return latent_attention.layer_seconds(replace(alone, context=context), plans, how)

    grown = seconds("absorbed_copied", 3000) - seconds("absorbed_copied", 2000)
    latent = seconds("absorbed", 3000) - seconds("absorbed", 2000)
    assert grown - latent == pytest.approx(8 * 1000 * 2 * 128 * 576 * 2 / (0.75 * 1555e9), rel=0.02)
    unfused = seconds("absorbed_unfused", 3000) - seconds("absorbed_unfused", 2000)
    # The latent again, scores in 16 bits ten times and in 32 bits twice, rotary keys of all heads written and read.
    moved = 512 * 2 + 128 * (10 * 2 + 2 * 4) + 2 * 128 * 64 * 2
    assert unfused - latent == pytest.approx(8 * 1000 * moved / (0.75 * 1555e9), rel=0.02)
    assert 2 * 576 / 320 > 3
    # For one sequence, weights and launches are a part of both.
    assert 320 / (2 * 576) < _ours("mla_copied_over_decompressed")["today"] < 0.5


def test_absorbed_projections_by_hand() -> None:
    """Each of 32 x 4,096 tokens reads 81,920 B, or the latent and intermediate products; weights are extra."""
    weights = 2 * (5120 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 5120)
    moved = 1_152 + 512 * 2 + 128 * (10 * 2 + 2 * 4) + 2 * 128 * 64 * 2
    decompressed, latent, unfused = ((weights + 32 * 4096 * cached) / 1555e9 for cached in (81_920, 1_152, moved))
    assert decompressed == pytest.approx(8.3e-3 * 0.85, rel=0.02), "measured: 8.3 ms, 85 % of the memory's rate"
    assert 15.5e-3 / latent > 45, "measured: 15.5 ms"
    assert _ours("mla_absorbed_over_decompressed_32")["today"] == pytest.approx(decompressed / unfused, rel=0.1)


def test_projections_that_are_multiplied_out_by_hand() -> None:
    """Weights in both variants: 5120 x 2112 down, then 1536 to 128 heads and so on, or all at once."""
    down = 5120 * (1536 + 576)
    apart = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 5120
    at_once = 1536 * 128 * 576 + 128 * 512 * 5120
    assert 1 < _ours("mla_multiplied_is_worse")["today"] < (down + at_once) / (down + apart) < 4
    assert _ours("mla_multiplied_long")["today"] < _ours("mla_multiplied_is_worse")["today"]


def test_multiplied_projections_need_compressed_queries(tmp_path: Path) -> None:
    text = catalog.locate("models", "deepseek_v2").read_text(encoding="utf-8")
    path = tmp_path / "whole.yaml"
    path.write_text(text.replace("query_rank: 1536, ", ""), encoding="utf-8")
    basis = BasisSpec(settings=Settings(model=str(path), hardware="h200_sxm", context=1024))
    reading = {"kind": "attention", "read": "layer_seconds", "implementation": "absorbed_multiplied"}
    with pytest.raises(InputError, match="needs a model that compresses its queries"):
        answered([_scenario(reading, basis=basis)])


def test_four_processes_halve_the_time_where_the_rule_picks_two() -> None:
    """Compare even parts of 6,144 tokens on four processes with the best two, without any search."""
    from inference_econ.extras.papers import runahead_formulas as formulas
    from inference_econ.extras.papers.kv_runahead import layer_work

    work = layer_work(catalog.model("llama_2_7b"), 2.0)
    machine = formulas.ProcessRates(166e12, 27e12, 3.1e-3, 300e9, 10e-6)
    four = formulas.chain_seconds(work, machine, formulas.even_partition(6144, 4))
    two = formulas.chain_seconds(work, machine, formulas.searched_partition(work, machine, 6144, 2))
    assert picked(6144, 300e9) == 1
    assert two > 1.5 * four
    assert _ours("runahead_rule_loss")["paper"] > 1.5


# Rejected inputs.


CHAIN, CLAIM = (tables(Path(__file__))[name] for name in ("CHAIN", "CLAIM"))


def _scenario(
    reading: Mapping[str, object],
    *,
    basis: BasisSpec | None = None,
    published: Mapping[str, str] | None = None,
) -> Scenario:
    """Return one claim about one number, under one basis."""
    own = BasisSpec(settings=Settings(model="llama_3_8b", hardware="h100_sxm")) if basis is None else basis
    said = {"value": "1"} if published is None else published
    entry = {**CLAIM, "published": said, "measure": {"kind": "value", "of": reading}}
    ask = {"kind": "claims", "seed": "A paper", "paper": {}, "today": own, "claims": [entry]}
    source = {"ref": "user", "where": "a test", "kind": "assumed"}
    return Scenario.build({"name": "Claims", "ask": ask, "sources": {"ask": source}}, origin="claims.yaml")


@pytest.mark.rows
def test_readings_that_contradict_themselves(reading: Mapping[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _scenario(reading)


def test_chains_say_what_they_need() -> None:
    with pytest.raises(SpecError, match="speedup is that of one number of processes, one prompt and one link"):
        _scenario({**CHAIN, "prompts": [1024, 2048]})
    with pytest.raises(SpecError, match="the rule chooses from 3 numbers of processes, got 1"):
        _scenario({**CHAIN, "read": "largest_loss"})
    with pytest.raises(InputError, match="claim one, under 'today': a chain needs a model"):
        answered([_scenario(CHAIN, basis=BasisSpec())])


@pytest.mark.rows
def test_published_numbers_are_one_or_bounds(published: Mapping[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _scenario({"kind": "step", "read": "seconds"}, published=published)


@pytest.mark.rows
def test_numbers_that_are_not_there(reading: Mapping[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"claim one, under 'today': {message}"):
        answered([_scenario(reading)])


def test_what_fits_nowhere_is_no_number_and_no_error() -> None:
    reading = {"kind": "step", "read": "seconds", "settings": {"model": "llama_3_405b"}}
    (finding,) = answered([_scenario(reading)]).findings
    assert finding.ours == {}
    assert finding.verdict == "does not hold"
    assert "405B" in finding.missing["today"]
    (table,) = ClaimsPage(answered([_scenario(reading)])).tables()
    assert table.rows[0] == ("one", "1", "-", "nothing fits", "does not hold")
    assert "Under today: " in table.why[0]


def test_an_id_names_one_claim() -> None:
    ask = of(ClaimsAsk, catalog.scenario("seeds/claims_note").ask)
    with pytest.raises(SpecError, match="two claims have the id 'prefill_intensity'"):
        ask.replace(claims=(ask.claims[0], ask.claims[0]))


def test_a_scenario_of_claims_is_run_like_others() -> None:
    result = run("seeds/claims_note")
    assert isinstance(result.study, Ledger)
    assert result.study.findings[0].claim.id == "prefill_intensity"
    assert any(used.source.ref == "zhao2026inference" for used in result.sources)
    with pytest.raises(SpecError, match="a scenario of the kind 'claims' has its own tables; leave 'table' out"):
        result.scenario.replace(table={"point": "fastest", "columns": [{"key": "mfu", "title": "MFU"}]})


def test_services_can_be_claimed_of() -> None:
    reading = {"kind": "frontier", "read": "cost", "at": "cheapest", "settings": {"isl": 100, "osl": 100}}
    assert answered([_scenario(reading)]).findings[0].ours["today"] > 0
