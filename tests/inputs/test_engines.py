"""Serving engines by version: supported models, chips and formats, and required content of a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import ANY_LAYOUT, Precision, catalog, engines_for, known_engines
from inference_econ.inputs.dtype import family
from inference_econ.inputs.engine.launch_options import named
from inference_econ.inputs.engine_specs import WIRE_BYTES_PER_ELEMENT, EngineFacts, Exchange

ENGINES = catalog.names("engines")
RUNS = Path(__file__).parents[2] / "data" / "published" / "runs.csv"
Write = Callable[[str], str]
#: Engines of one machine, without data-parallel attention.
DESKS = ("llama_cpp", "mlx")
#: Facts that not every engine has, or tells.
MAY_BE_OPEN = {
    *("inside", "kernels", "prompt_graphs", "attention_groups", "stages_over", "shared_expert_fusion"),
    *("exchanged_expert_kernels", "memory", "held_steps", "beside_mxfp4", "async_drafts"),
}


def _exchange(facts: EngineFacts, phase: str, *, wide: bool, one_domain: bool = False) -> Exchange:
    """All-to-all of an engine in a phase: the default, or the one for wide groups, preferably inside a domain."""
    possible = [it for it in facts.exchanges if it.phase in (phase, "both") and (one_domain or not it.within_domain)]
    possible.sort(key=lambda it: not it.within_domain)
    return next(it for it in possible if (it.wide if wide else it.default))


@pytest.mark.parametrize("name", [name for name in ENGINES if name not in DESKS])
def test_tokens_find_a_way_in_every_phase_of_every_version(name: str) -> None:
    engine = catalog.engine(name)
    for entry in engine.versions:
        facts = engine.at(entry.version)
        for phase in ("prefill", "decode"):
            for wide in (False, True):
                exchange = _exchange(facts, phase, wide=wide)
                assert exchange.phase in (phase, "both")
                assert not exchange.within_domain
                assert exchange.combine == "bf16"


# Groups: vllm 0.33.0 fused_moe/config.py, sglang 0.5.5 parallel_state.py, TensorRT-LLM mapping.py at 05ebebb.


@pytest.mark.rows
def test_which_group_has_neighbouring_ranks(name: str, groups: str, inside: str | None) -> None:
    facts = catalog.engine(name).at()
    assert (facts.expert_groups, facts.inside) == (groups, inside)


@pytest.mark.rows
def test_a_version_knows_what_came_before_it(
    version: str | None, two_batch: bool, single_batch: bool, groups: str, pipeline: str, context: str
) -> None:
    facts = catalog.engine("sglang").at(version)
    kinds = {overlap.kind for overlap in facts.overlap}
    assert ("two_batch" in kinds, "single_batch" in kinds) == (two_batch, single_batch)
    assert (facts.expert_groups, facts.uneven_pipeline, facts.decode_context_parallel) == (groups, pipeline, context)
    assert facts.redundant_experts.recommended == 32  # stated once, in the first version


def test_everything_that_holds_is_stated() -> None:
    for name in ENGINES:
        newest = catalog.engine(name).at()
        # The facts that decide whether a deployment can start are known for public engines.
        unread = {"captured", "speculation", "async_scheduling", "admission", "dealing", "decoding_in_step_tokens"}
        unstated = set(EngineFacts.fields) - set(newest.stated) - MAY_BE_OPEN
        assert unstated <= (
            unread | {"chips", "models", "defaults", "connectors"} if name == "deepseek"
            else unread | {"expert_kernels"} if name in DESKS
            else set()
        )  # fmt: skip


@pytest.mark.parametrize("name", ["sglang", "trtllm", "vllm"])
def test_the_indexer_of_sparse_attention_is_never_cut(name: str) -> None:
    assert "indexer" in catalog.engine(name).at().replicated_under_attention_dp


def test_what_sglang_holds_whole_depends_on_options() -> None:
    facts = catalog.engine("sglang").at()
    assert set(facts.replicated_on_request) == {"lm_head", "dense_layers", "shared_experts"}
    assert not set(facts.replicated_on_request) & set(facts.replicated_under_attention_dp)


# Formats and copies: bytes of a token in transfers.


@pytest.mark.rows
def test_formats_of_tokens_on_their_way(
    name: str, version: str | None, phase: str, weights: str, wide: bool, sent: str
) -> None:
    exchange = _exchange(catalog.engine(name).at(version), phase, wide=wide)
    assert exchange.dispatch.get(family(weights), "bf16") == sent


@pytest.mark.rows
def test_bytes_on_the_wire_are_the_published_ones(sent: str, payload: int) -> None:
    assert 7168 * WIRE_BYTES_PER_ELEMENT[sent] == payload  # type: ignore[index]


def test_inside_a_domain_the_engine_takes_what_needs_one() -> None:
    facts = catalog.engine("trtllm").at()
    rack = _exchange(facts, "decode", wide=True, one_domain=True)
    assert (rack.name, rack.copies, rack.dispatch["nvfp4"]) == ("NVLinkOneSided", "per_rank", "nvfp4")
    nodes = _exchange(facts, "decode", wide=True)
    assert (nodes.name, nodes.copies) == ("DeepEPLowLatency", "per_expert")
    assert _exchange(facts, "decode", wide=False).copies == "every_rank"


def test_what_holds_on_a_day_is_what_the_newest_version_of_it_brought() -> None:
    engine = catalog.engine("vllm")
    for day, version in (("2025-12-02", "0.11.0"), ("2025-12-03", "0.12.0"), ("2030-01-01", "0.33.0")):
        assert engine.on(date.fromisoformat(day)) == engine.at(version)
    with pytest.raises(InputError, match=re.escape("vLLM of 2025-07-23: nothing is known of versions before 0.10.0")):
        engine.on(date(2025, 7, 23))


@pytest.mark.parametrize("name", ENGINES)
def test_every_version_has_its_date_and_they_rise(name: str) -> None:
    dates = [entry.date for entry in catalog.engine(name).versions]
    assert None not in dates
    assert dates == sorted(dates, key=str)


# Mistakes.


@pytest.mark.rows
def test_versions_that_nobody_knows(version: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        catalog.engine("sglang").at(version)


@pytest.mark.rows
def test_mistakes_in_a_file_say_where(write: Write, before: str, after: str, message: str) -> None:
    text = catalog.locate("engines", "sglang").read_text(encoding="utf-8")
    assert before in text
    with pytest.raises(SpecError, match=re.escape(message)):
        catalog.engine(write(text.replace(before, after, 1)))


def test_a_first_version_that_leaves_something_open(write: Write) -> None:
    lines = catalog.locate("engines", "deepseek").read_text(encoding="utf-8").splitlines(keepends=True)
    with pytest.raises(SpecError, match="the first version states everything; missing: uneven_pipeline"):
        catalog.engine(write("".join(line for line in lines if "uneven_pipeline" not in line)))


# Kernels, graphs: vllm config/scheduler.py (0.11.0) and config/vllm.py (0.18.0), sglang server_args.py (0.5.10) and
# arg_groups/cuda_graph_hook.py (0.5.23).


@pytest.mark.rows
def test_which_steps_with_prompts_are_captured(
    name: str, version: str, read: float, latent: bool, architecture: str, captured: float | None
) -> None:
    graphs = catalog.engine(name).at(version).prompt_graphs
    assert (None if graphs is None else graphs.tokens(read, architecture, latent=latent)) == captured


def test_kernels_of_a_version_come_after_those_before() -> None:
    before, after = (catalog.engine("vllm").at(version).kernels for version in ("0.16.0", "0.18.0"))
    assert after[: len(before)] == before
    assert [count.kernels for count in before if count.part == "norms"] == [1]
    assert [(count.kernels, count.summed) for count in after if count.part == "norms"] == [(1, False), (0, True)]


@pytest.mark.rows
def test_counts_that_mean_nothing(change: str, message: str) -> None:
    with pytest.raises((SpecError, InputError), match=message):
        catalog.engine("vllm", changes=[f"versions.0.kernels=[{change}]"])


@pytest.mark.rows
def test_who_is_let_into_memory_and_who_goes(
    name: str, evicted: str, kept_free: list[float], dealing: str, counted: bool
) -> None:
    facts = catalog.engine(name).at()
    assert facts.admission is not None
    admission = facts.admission.own_answer, facts.admission.other_answers
    assert (facts.admission.evicted, list(admission)) == (evicted, kept_free)
    assert (facts.dealing, facts.decoding_in_step_tokens) == (dealing, counted)


# Engines that support a model, a chip and formats, and the message without support.


def names(
    model: str, chip: str, wanted: str | None = None, weights: str | None = None, kv: str | None = None
) -> list[str]:
    spec = catalog.model(model)
    precision = Precision.of(spec, weights, kv=kv)
    return [engine.label for engine in engines_for(spec, catalog.hardware(chip), precision, wanted)]


def test_all_that_are_known_are_asked_at_their_newest() -> None:
    assert names("llama_3_70b", "h100_sxm") == ["sglang 0.5.23", "trtllm 1.3.0rc20", "vllm 0.33.0"]
    assert names("llama_3_70b", "mi300x") == ["sglang 0.5.23", "vllm 0.33.0"]
    assert names("llama_3_70b", "tpu_v6e") == names("paper/llama_3_70b", "h100_sxm") == []
    assert names("llama_3_70b", "h100_sxm", ANY_LAYOUT) == []


def test_one_can_be_named_with_a_version() -> None:
    assert names("llama_3_70b", "h100_sxm", "vllm") == ["vllm 0.33.0"]
    assert names("llama_3_70b", "h100_sxm", "vllm@0.25.1") == ["vllm 0.25.1"]
    assert names("llama_3_70b", "h100_sxm", "vllm@0.10") == ["vllm 0.10"]


def _measured_releases() -> set[tuple[str, str, str, str, str]]:
    """Return engine, version, model, GPU and attention DP of all recorded runs of numbered releases."""
    with RUNS.open(encoding="utf-8") as file:
        return {
            (row["engine"], version, row["model"], row["chip"], row["dp_attention"])
            for row in csv.DictReader(file)
            for version in row["versions"].split()
            if row["engine"] in ENGINES and version[0].isdigit()
        }


def test_releases_that_were_measured_serve_their_models() -> None:
    """AMD's images of SGLang 0.5.8.post1 have later code, so these runs are left out."""
    releases = _measured_releases()
    unknown = set[tuple[str, ...]]()
    for engine, version, model, chip, attention_dp in releases:
        facts, generation = named(f"{engine}@{version}").facts, catalog.hardware(chip).generation
        support = facts.support(catalog.model(model).architecture, generation)
        cannot = support is None or (attention_dp == "true" and not support.attention_dp)
        if cannot or facts.kernels_on(generation) is None:
            unknown.add((engine, version, model, chip))
    assert len(releases) > 200
    assert {run for run in unknown if (run[1], run[3]) != ("0.5.8.post1", "mi355x")} == set()


def test_formats_depend_on_the_chip() -> None:
    # NVFP4 kernels on Hopper are vLLM's Marlin; TensorRT-LLM's matrix has none.
    assert names("llama_3_70b", "h100_sxm", weights="nvfp4") == ["vllm 0.33.0"]
    assert "trtllm 1.3.0rc20" in names("llama_3_70b", "b200", weights="nvfp4")
    assert names("llama_3_70b", "a100_sxm_80", kv="fp8") == ["trtllm 1.3.0rc20"]


@pytest.mark.rows
def test_what_an_engine_lacks_is_said(
    model: str, chip: str, wanted: str, formats: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        names(model, chip, wanted, **formats)


@pytest.mark.parametrize("name", [name for name in catalog.names("models") if "/" not in name])
def test_models_of_hugging_face_have_an_architecture(name: str) -> None:
    model = catalog.model(name)
    assert (model.architecture is None) == (model.huggingface_id is None)
    if model.architecture is not None:
        known = {arch for engine in known_engines() for entry in engine.facts.models for arch in entry.architectures}
        assert model.architecture in known


def test_generations_of_chips_are_those_of_hardware() -> None:
    generations = {catalog.hardware(name).generation for name in catalog.names("hardware")}
    for engine in known_engines():
        facts = engine.facts
        for entries in (facts.chips, facts.models, facts.kernels, facts.overlap):
            assert {name for entry in entries for name in entry.generations} <= generations
