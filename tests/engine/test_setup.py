"""One resolution of names, formats, presets, what-ifs and price for every command."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.engine import Setup, for_engine
from inference_econ.engine.pricing import hour_price
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.report.headings import price_label
from tests.reading import present

# One resolution of names, formats, presets, what-ifs and price for every command.


def test_everything_is_resolved_once() -> None:
    changes = ("hardware.hbm_bytes=90 GB", "model.max_context=7", "assumptions.host.launch=1 us")
    settings: dict[str, Any] = {"weights": "fp8", "kv": "fp8", "price": 1.5, "context": 100}
    setup = ie.Setup.of("llama_3_8b", "h100_sxm", changes=changes, **settings)
    assert (setup.precision.weights, setup.precision.kv, setup.context) == ("fp8", "fp8", 100)
    assert setup.dollars_per_accelerator_hour == 1.5
    assert (setup.hardware.hbm_bytes, setup.model.max_context) == (90e9, 7)
    assert setup.assumptions.host.launch == pytest.approx(1e-6)
    assert setup.assumptions.name == "profiles/hopper"


def test_a_chip_without_a_price_has_none() -> None:
    assert ie.Setup.of("llama_3_8b", "h100_sxm").dollars_per_accelerator_hour == 3.99
    assert ie.Setup.of("gpt_oss_120b", "gb10").hour_price.kind == "owned"
    assert ie.Setup.of("llama_3_8b", "m4_pro").hour_price.kind == "owned"
    unpriced = ie.Setup.of("llama_3_8b", "trainium3")
    assert unpriced.price is None
    with pytest.raises(InputError, match=r"lists no price; give one, for example --price 2\.50"):
        _ = unpriced.dollars_per_accelerator_hour


def test_exceptions_of_a_family_are_applied_once() -> None:
    setup = ie.Setup.of("paper/llama_3_70b", "paper/a100", assumptions="paper")
    assert setup.assumptions.chip.math_efficiency == 0.8
    assert replace(setup, context=5.0).assumptions is setup.assumptions


def test_the_engine_that_is_named_has_its_cache_under_other_assumptions_too() -> None:
    def cache(**settings: Any) -> str:
        return ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8", **settings).precision.kv

    assert cache(engine="vllm") == cache(engine="vllm", assumptions="profiles/vllm_hopper") == "fp8"
    assert cache(assumptions="profiles/vllm_hopper") == "bf16"  # the engine of the recipe is unknown
    assert cache(engine="vllm", assumptions="profiles/vllm_hopper", kv="bf16") == "bf16"


def test_a_setup_is_shown_in_a_line() -> None:
    setup = ie.Setup.of("llama_3_8b", "h100_sxm", weights="fp8")
    line = "<Setup: Llama 3.1 8B on NVIDIA H100 SXM5 80GB; weights fp8, KV bf16; profiles/hopper>"
    assert repr(setup) == line
    assert line in repr(ie.layouts(setup, ie.Requests(isl=1000, osl=200)))


@pytest.mark.rows
def test_bad_input(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        ie.Setup.of("llama_3_8b", "h100_sxm", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "change", "name"),
    [
        ({"model": ie.model("llama_3_8b")}, "model.max_context=7", "Llama 3.1 8B"),
        ({"hardware": ie.hardware("h100_sxm")}, "hardware.year=2000", "NVIDIA H100 SXM5 80GB"),
        ({"assumptions": ie.assumptions("ideal")}, "assumptions.host.launch=0 us", "ideal"),
    ],
)
def test_what_ifs_change_what_is_named(subject: dict[str, object], change: str, name: str) -> None:
    with pytest.raises(InputError, match=f"--set {change}: what-ifs change what is named; {name} is a specification"):
        ie.Setup.of(**{"model": "llama_3_8b", "hardware": "h100_sxm", **subject}, changes=[change])  # type: ignore[arg-type]


@pytest.mark.rows
def test_experts_in_mxfp4_in_the_files_of_an_engine(
    chip: str, engine: str | None, weights: str | None, others: str
) -> None:
    precision = ie.Setup.of("gpt_oss_20b", chip, weights=weights, engine=engine).precision
    assert precision.experts == "mxfp4"
    assert {precision.weights, precision.attention, precision.embeddings} == {others}


# The cost of an accelerator hour: listed, given, of a node, or owned.


@pytest.mark.rows
def test_a_price_is_a_number_a_kind_of_a_node_or_the_best_of_the_file(
    asked: float | str | None, dollars: float, kind: str
) -> None:
    price = Setup.of("llama_3_8b", "h100_sxm", price=asked).hour_price
    assert (price.dollars, price.kind) == (dollars, kind)


@pytest.mark.rows
def test_prices_that_there_are_not(chip: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        hour_price(catalog.hardware(chip), asked)


def test_an_owned_hour_is_that_of_the_usual_terms_with_the_source_of_the_purchase() -> None:
    chip, terms = catalog.hardware("h100_sxm"), catalog.ownership()
    price, bought = present(hour_price(chip, "owned")), present(chip.purchase)
    hours = terms.lifetime_years * 8760 * terms.utilisation
    assert price.dollars > bought.dollars_per_accelerator / hours
    assert (price.kind, price.date, price.verified, price.ref) == ("owned", bought.date, True, bought.ref)
    assert price.where.endswith("(quote: 38,750 USD)")
    # GB200 has no public price, so the price of a rack is an estimate.
    guessed = present(hour_price(catalog.hardware("gb200_nvl72"), "owned"))
    assert (guessed.verified, guessed.doubt) == (False, "not verified")


@pytest.mark.rows
def test_a_change_to_the_usual_value_keeps_the_fit(engine: str | None, change: str, kept: bool) -> None:
    setup, plain = (
        ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8", engine=engine, changes=changes)
        for changes in ([f"assumptions.{change}"], [])
    )
    assert (setup.assumptions == plain.assumptions and setup.levels == plain.levels) == kept
    each = [for_engine(one, one.engines[0]).assumptions for one in (setup, plain)]
    assert (each[0] == each[1]) == kept


def test_labels_say_what_a_gpu_and_a_node_cost_of_which_kind_and_when() -> None:
    def label(chip: str, price: float | str | None = None) -> str:
        setup = Setup.of("llama_3_8b", chip, price=price)
        return price_label(setup.hardware, setup.hour_price)

    assert label("h100_sxm") == "$3.99 per GPU-hour ($31.92 per node of 8), on-demand, 2026-09-20"
    assert label("h100_sxm", 2.0) == "$2 per GPU-hour ($16 per node of 8), given"
    assert label("gh200_96") == "$2.29 per GPU-hour, on-demand, 2026-09-20"
    assert label("h100_pcie", 2.0) == "$2 per GPU-hour, given"
