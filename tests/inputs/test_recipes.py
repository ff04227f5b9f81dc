"""Recipes of engines: parsing, omitted parts, and rejected content."""

import csv
from pathlib import Path

import pytest

from data.measurements.scripts import measured_runs
from inference_econ.errors import SpecError
from inference_econ.inputs import (
    Practice,
    ProposerName,
    _yaml,
    catalog,
    engines_for,
    known_engines,
    practice_of,
    practices,
    recommended_drafts,
)
from inference_econ.inputs.engine import launch_options as starting
from inference_econ.inputs.engine.recipes import DraftLength, EngineRecipes, Recipe
from inference_econ.inputs.models.model import Precision
from tests.reading import tables

FILES = sorted((catalog.folder("engines") / "recipes").glob("*.yaml"))


#: Every recipe with the engine that it is of.
RECIPES = [
    (path.stem, recipe) for path in FILES for recipe in EngineRecipes.from_document(_yaml.read_yaml(path)).recipes
]
#: Families of shipped chips.
FAMILY = {name: catalog.hardware(name).family for name in catalog.names("hardware")}
by_engine = pytest.mark.parametrize("engine", [path.stem for path in FILES])


def _recipes(engine: str) -> list[Recipe]:
    return [recipe for name, recipe in RECIPES if name == engine]


def test_every_engine_that_can_be_started_has_recipes() -> None:
    started = {path.stem for path in FILES[0].parents[1].glob("launch/*.yaml")}
    # Desktop engines have no published recipes.
    assert started - {path.stem for path in FILES} == {"llama_cpp", "mlx"}


def test_recipes_are_of_models_and_chips_that_exist() -> None:
    lengths = [length for path in FILES for length in EngineRecipes.from_document(_yaml.read_yaml(path)).drafts]
    entries: list[Recipe | DraftLength] = [*(recipe for _, recipe in RECIPES), *lengths]
    for entry in entries:
        assert set(entry.models) <= set(catalog.names("models"))
    for _, recipe in RECIPES:
        assert {FAMILY[chip] for chip in recipe.chips} <= set(recipe.families) <= set(FAMILY.values())


@by_engine
def test_every_recipe_can_be_run_by_its_engine(engine: str) -> None:
    """A recipe that no engine configuration uses would contradict the facts of its engine."""
    for recipe in _recipes(engine):
        for model in map(catalog.model, recipe.models):
            for family in recipe.families:
                named = recipe.chips or catalog.names("hardware")
                chip = next(spec for spec in map(catalog.hardware, named) if spec.family == family)
                weights = [dtype for dtype in recipe.weights if dtype in Precision.of(model).of_weights]
                known = practices(engine, model, chip, None if weights else recipe.weights[0])
                expected = Practice(engine, recipe.kv, recipe.proposer, recipe.drafts).text
                assert expected in [practice.text for practice in known], recipe


def test_options_are_those_of_the_engine() -> None:
    for engine, recipe in RECIPES:
        for name, value in recipe.options.items():
            where = starting.launch(engine).command if name.startswith("-") else "trtllm-serve config"
            assert value in (starting.options(engine).option(where, name).choices or ())


def test_practices_without_speculation_stand_beside_every_one_with_it() -> None:
    for engine, recipe in RECIPES:
        plain = [other for other in _recipes(engine) if other.proposer is None]
        covers = ("models", "families", "weights")
        assert any(all({*getattr(recipe, of)} <= {*getattr(other, of)} for of in covers) for other in plain), recipe


def test_a_recipe_of_a_chip_takes_the_place_of_that_of_its_family() -> None:
    """Racks have wider layouts than machines of eight, with the same cache and speculation."""
    deepseek = catalog.model("deepseek_v3_nvfp4")
    rack, machine = (practices("trtllm", deepseek, catalog.hardware(chip)) for chip in ("gb200_nvl72", "b200"))
    texts = [[one.text for one in known] for known in (rack, machine)]
    assert texts == [["fp8 cache", "fp8 cache, MTP 3", "fp8 cache, MTP 1"]] * 2
    assert max(layout["ep"] for layout in rack[0].layouts) == 32
    assert max(layout["ep"] for layout in machine[0].layouts) == 8


@by_engine
def test_every_practice_is_given_once_and_speculation_comes_last(engine: str) -> None:
    """Check every model of a recipe, in each of its formats, on a chip of every family and on racks."""
    recipes = _recipes(engine)
    chips = [catalog.hardware(chip) for chip in ("h100_sxm", "h200_sxm", "b200", "gb200_nvl72", "mi300x", "mi355x")]
    for name, weights in {(model, dtype) for recipe in recipes for model in recipe.models for dtype in recipe.weights}:
        model = catalog.model(name)
        for chip in chips:
            known = practices(engine, model, chip, weights)
            assert len({practice.text for practice in known}) == len(known), (name, weights, chip.name)
            assert [bool(practice.proposer) for practice in known] == sorted(bool(one.proposer) for one in known)


def test_pools_are_those_that_were_run() -> None:
    """In InferenceX's recipes, every pair of degrees with its numbers of workers is a measured row."""
    with catalog.measured_files()["recipes"].open(encoding="utf-8", newline="") as file:
        ran = {
            (
                row["engine"],
                row["hardware"],
                "" if row["speculation"] == "none" else row["speculation"].removeprefix("MTP"),
                *(int(row[f"{pool}_{name}"]) for pool in ("prefill", "decode") for name in _DEGREES),
            )
            for row in csv.DictReader(file)
        }
    counted = 0
    for engine, recipe in RECIPES:
        if "recipes.csv" not in recipe.source.where:
            continue
        chips = recipe.chips or [name for name, family in FAMILY.items() if family in recipe.families]
        for pools, (readers, writers) in ((apart, pair) for apart in recipe.pools for pair in apart.workers):
            degrees = (readers, *pools.prefill.counts.values(), writers, *pools.decode.counts.values())
            counted += 1
            assert any((engine, chip, str(recipe.drafts or ""), *degrees) in ran for chip in chips), pools
    assert counted > 200


_DEGREES = ("workers", "tp", "attention_dp", "pp", "ep")


#: Names of weight formats in the table of scripts.
_WEIGHTS = {"fp8": {"fp8", "fp8_block"}, "fp4": {"nvfp4", "mxfp4"}, "int4": {"int4_g32"}, "bf16": {"bf16"}}


def test_recipes_of_a_benchmark_are_what_its_scripts_told_engines() -> None:
    """Compare InferenceX's recipes of single instances with ``runs.csv``, which has the scripts' settings row by row.

    Their cache is that of the newest rows of some chip, and their degrees were run.
    """
    compared = 0
    for engine, recipe in RECIPES:
        runs = [
            run
            for run in measured_runs()
            if run.engine == engine and run.model in recipe.models
            and FAMILY[run.chip] in recipe.families
            and _WEIGHTS[run.precision] & set(recipe.weights)
            and (run.speculation == "MTP") == (recipe.proposer == "mtp")
        ]  # fmt: skip
        if recipe.source.ref != "inferencex" or recipe.chips or not runs:
            continue
        newest = {run.chip: max(other.until for other in runs if other.chip == run.chip) for run in runs}
        assert recipe.kv in {run.kv for run in runs if run.until == newest[run.chip]}, recipe
        degrees = ((run.dp_attention, tp, ep) for run in runs for tp in run.tp for ep in run.ep)
        ran = {(1, tp, ep) if apart else (tp, 1, ep) for apart, tp, ep in degrees}
        named = {(layout.tp, layout.dp, layout.ep) for layout in recipe.layouts}
        assert named <= ran or "cookbook" in recipe.source.where, recipe
        compared += 1
    assert compared > 40


def test_deepseek_is_run_with_what_its_scripts_say() -> None:
    """InferenceX at 843c6254: three draft tokens, or one with attention data parallelism; cache in fp8."""
    deepseek, h200 = catalog.model("deepseek_v3"), catalog.hardware("h200_sxm")
    plain, latency, throughput = practices("trtllm", deepseek, h200)
    assert (plain.kv, plain.proposer, plain.draft_length) == ("fp8", None, None)
    assert (latency.proposer, latency.draft_length, throughput.draft_length) == ("mtp", 3, 1)
    assert latency.layouts == ({"tp": 8, "dp": 1, "pp": 1, "ep": 8},)
    assert throughput.layouts == ({"tp": 1, "dp": 8, "pp": 1, "ep": 8},)
    assert throughput.source is not None and throughput.source.ref == "inferencex"
    assert len({plain, latency, throughput}) == 3


@pytest.mark.rows
def test_practices_of_an_engine(
    engine: str, model: str, chip: str, weights: str | None, changes: list[str], texts: list[str]
) -> None:
    found = practices(engine, catalog.model(model, changes=changes), catalog.hardware(chip), weights)
    assert [practice.text for practice in found] == texts


def test_a_model_of_nobodys_recipe_is_run_plainly() -> None:
    falcon, chip = catalog.model("falcon_7b"), catalog.hardware("h100_sxm")
    for engine in known_engines():
        assert practices(engine.name, falcon, chip) == (Practice(engine.name),)
    assert Practice("vllm").source is None


def test_caches_are_those_that_engines_serve_with() -> None:
    """The check of engines accepts the cache format of every recipe."""
    for model, chip in (("deepseek_v3", "b200"), ("gpt_oss_120b", "h200_sxm"), ("deepseek_v3", "mi355x")):
        spec, hardware = catalog.model(model), catalog.hardware(chip)
        for engine in engines_for(spec, hardware, Precision.of(spec)):
            for practice in practices(engine.name, spec, hardware):
                precision = Precision.of(spec, kv=practice.kv)
                assert engines_for(spec, hardware, precision, engine.name)


def test_a_deployment_follows_the_recipe_with_its_cache_and_proposals() -> None:
    deepseek, chip = catalog.model("deepseek_v3"), catalog.hardware("h200_sxm")
    narrow, wide = Precision.of(deepseek, kv="fp8"), Precision.of(deepseek)
    followed = practice_of("trtllm", deepseek, chip, narrow, "mtp", 3)
    assert followed is not None and followed.text == "fp8 cache, MTP 3"
    assert practice_of("trtllm", deepseek, chip, wide, "mtp", 3) is None
    assert practice_of("trtllm", deepseek, chip, narrow, "mtp", 2) is None
    plain = practice_of("sglang", deepseek, chip, wide)
    assert plain is not None and plain.text == "16-bit cache"
    falcon = catalog.model("falcon_7b")
    assert practice_of("vllm", falcon, chip, Precision.of(falcon)) is None


@pytest.mark.rows
def test_draft_lengths_are_the_most_that_recipes_of_a_model_have(
    engine: str, proposer: ProposerName, model: str, drafts: int | None
) -> None:
    """Without recipes, the engine's documents for all models set it."""
    assert recommended_drafts(engine, proposer, catalog.model(model)) == drafts


GOOD: str = tables(Path(__file__))["GOOD"]


@pytest.mark.rows
def test_mistakes_are_refused_with_their_line(old: str, new: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        EngineRecipes.from_document(_yaml.parse(GOOD.replace(old, new), "own.yaml"))


def test_the_same_without_a_mistake_is_read() -> None:
    assert [recipe.drafts for recipe in EngineRecipes.from_document(_yaml.parse(GOOD, "own.yaml")).recipes] == [3]


def test_a_copy_of_a_chip_under_another_name_has_its_recipes() -> None:
    """The recipes of a chip apply to an unlisted chip of its family with the same link-domain size."""
    model, shipped = catalog.model("deepseek_v3"), catalog.hardware("gb200_nvl72")
    copy = shipped.model_copy(update={"name": "Mine"})
    smaller = copy.model_copy(update={"link_domain": 8})
    known, same, other = (practices("trtllm", model, chip) for chip in (shipped, copy, smaller))
    assert same == known
    assert other != known


def test_the_rack_of_a_recipe_takes_the_place_of_its_family() -> None:
    """DeepSeek-V4-Pro by SGLang: racks decode in groups of up to 40 chips, machines of up to 8; caches are fp8."""
    pro = catalog.model("deepseek_v4_pro")
    widest = {
        chip: max(pools.decode.ep for one in practices("sglang", pro, catalog.hardware(chip)) for pools in one.pools)
        for chip in ("b300", "gb300_nvl72")
    }
    assert widest == {"b300": 8, "gb300_nvl72": 40}
    for engine, chip in (("vllm", "h200_sxm"), ("sglang", "mi355x"), ("trtllm", "b300")):
        known = practices(engine, pro, catalog.hardware(chip))
        assert {one.kv for one in known} == {"fp8"} and known[-1].proposer == "mtp", engine
