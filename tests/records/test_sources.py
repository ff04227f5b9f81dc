"""Every result lists the sources of its numbers."""

from __future__ import annotations

import pytest

import inference_econ as ie
from inference_econ.inputs import catalog
from inference_econ.records.sources import UsedSource
from inference_econ.studies.scenario import run
from tests import asking

#: References that need no entry: a value from the command line, and one that a formula gave.
WITHOUT_ENTRY = {"user", "derived"}


def _known(used: tuple[UsedSource, ...]) -> None:
    assert used
    for one in used:
        assert one.source.ref in WITHOUT_ENTRY or one.source.ref in catalog.references(), one
        assert one.field
        assert one.source.where
        assert set(one.record()) >= {"file", "field", "ref", "where", "kind"}
        assert all(isinstance(value, str) for value in one.record().values())
    assert len(set(used)) == len(used)


def test_a_frontier_rests_on_model_hardware_assumptions_and_a_price() -> None:
    traffic = ie.Traffic(context=100)
    front = asking.frontier("llama_3_8b", "h100_sxm", traffic, max_accelerators=2, assumptions="deployable")
    used = front.sources
    _known(used)
    files = {one.file for one in used}
    assert files == {"model: Llama 3.1 8B", "hardware: NVIDIA H100 SXM5 80GB", "assumptions: deployable"}
    (price,) = (one for one in used if one.field == "prices")
    assert price.source.ref == "lambda_pricing"
    # Sources without effect on the numbers are not named.
    assert not {one.field for one in used} & {"watts", "year", "max_context"}


def test_a_given_price_is_the_users() -> None:
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(context=100), max_accelerators=2, price=1.2345)
    (price,) = (one for one in front.sources if "dollars_per_accelerator_hour" in one.field)
    assert (price.source.ref, price.source.where, price.source.kind) == ("user", "1.2345 USD/h", "assumed")


def test_what_ifs_are_the_users() -> None:
    chip = catalog.hardware("h100_sxm", changes=["hbm_bytes_per_second=6.7 TB/s"])
    used = asking.frontier("llama_3_8b", chip, ie.Traffic(context=100), max_accelerators=2).sources
    _known(used)
    (changed,) = (one for one in used if one.field == "hbm_bytes_per_second")
    assert changed.source.ref == "user"
    assert changed.source.where == "--set hardware.hbm_bytes_per_second=6.7 TB/s"


def test_a_draft_model_is_named_too() -> None:
    draft = ie.Speculation.of("draft", 0.8, model=ie.model("qwen3_8b"))
    front = asking.frontier("qwen3_32b", "h100_sxm", ie.Traffic(context=100), max_accelerators=4, speculation=draft)
    used = front.sources
    _known(used)
    assert "draft model: Qwen3 8B" in {one.file for one in used}


def test_a_scaled_model_is_derived_and_costs_more() -> None:
    model = ie.model("llama_3_8b")
    larger = ie.scaled(model, 3.0, grid="paper")
    models = (model, ie.scaled(model, 1.0, grid="paper"), larger)
    traffic, settings = ie.Traffic(context=100), {"grid": "paper", "max_accelerators": 64}
    fronts = [asking.frontier(one, "h100_sxm", traffic, **settings) for one in models]
    assert fronts[1].dollars.tolist() == fronts[0].dollars.tolist()
    assert fronts[2].tokens_per_second[-1] < fronts[0].tokens_per_second[-1]
    assert fronts[2].dollars[0] > fronts[0].dollars[0]
    used = fronts[2].sources
    _known(used)
    derived = [one for one in used if one.source.ref == "derived"]
    assert {one.field for one in derived} == {"hidden_size", "blocks"}
    assert {one.source.where for one in derived} == {"Llama 3.1 8B scaled by 3"}


@pytest.mark.parametrize("name", ["paper/table_1", "paper/table_4", "paper/figure_1", "paper/figure_2"])
def test_scenarios_name_the_sources_of_all_their_series_once(name: str) -> None:
    result = run(name)
    _known(result.sources)
    files = {one.file for one in result.sources}
    assert f"scenario: {result.scenario.name}" in files
    chips = {"paper/table_4": ("a100", "h100", "v100"), "paper/table_1": ("h100",)}.get(name, ())
    assert {f"hardware: {catalog.hardware(f'paper/{chip}').name}" for chip in chips} <= files
    if name == "paper/table_1":
        assert f"model: {catalog.model('paper/gpt_4').name}" in files
