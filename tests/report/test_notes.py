"""Notes on prediction errors, under a calibration made up for the tests."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.engine import Instances, Setup, bounds
from inference_econ.inputs import LEVELS, Calibration, ErrorSpread, Quantity, catalog
from inference_econ.records.deviations import calibration_record, outside_of
from inference_econ.report import service
from inference_econ.report.notes import extrapolations, interval_note, misfits, setup_warnings, unused_drafts, warnings
from inference_econ.report.questions.assess import findings
from inference_econ.serving.load import Loaded
from tests import asking
from tests.reading import present, tables

#: Nine in ten within a factor of two, eight in ten from 0.8 to 1.25.
QUANTILES = tuple(math.log(value) for value in (0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0))
TTFT_QUANTILES = [2 * value for value in QUANTILES]
ERRORS = {"tpot": {"rows": 1234, "quantiles": [*QUANTILES]}, "ttft": {"rows": 30, "quantiles": TTFT_QUANTILES}}
FACTS: dict[str, Any] = tables(Path(__file__))["CALIBRATION"]
CALIBRATION = Calibration.build({**FACTS, "errors": {"model": ERRORS}}, origin="calibration")
SHORT = ie.Traffic(context=500)


def fitted(name: str = "made up", **changes: object) -> ie.Assumptions:
    """Return assumptions with a calibration, in which some fields are changed."""
    assert len(QUANTILES) == len(LEVELS)
    calibration = CALIBRATION.model_copy(update=changes)
    return catalog.assumptions("deployable").model_copy(update={"calibration": calibration, "name": name})


def setup(assumptions: ie.Assumptions | None = None, model: str = "llama_3_8b", context: float = 500) -> Setup:
    return asking.setup(model, "h100_sxm", context, assumptions=fitted() if assumptions is None else assumptions)


def errors_of(instances: Instances, quantity: Quantity) -> dict[str, Any]:
    """Return the record of a quantity's errors."""
    record: Any = calibration_record(instances, [quantity])
    errors: dict[str, Any] = record["measured_over_predicted"][quantity]
    return errors


@pytest.mark.parametrize(
    ("bias", "said"), [(0.0, ""), (0.04, ""), (math.log(1.094), " (median 9% above)"), (-0.2, "18% below")]
)
def test_a_bias_of_rows_left_out_is_in_the_interval_and_named(bias: float, said: str) -> None:
    spread = ErrorSpread(rows=39, quantiles=tuple(value + bias for value in QUANTILES))
    asked = Instances(setup(fitted(errors={"model": {"throughput": spread}})))
    text = interval_note(asked, ["throughput"])
    assert said in text
    assert ("median" in text) is bool(said)
    errors = errors_of(asked, "throughput")
    assert errors["median"] == pytest.approx(math.exp(bias))
    assert (errors["low"], errors["high"]) == pytest.approx((0.8 * math.exp(bias), 1.25 * math.exp(bias)))


@pytest.mark.rows
def test_unmeasured_parallelism(parallel: dict[str, tuple[str, ...]] | None, layouts: list[str], said: str) -> None:
    asked = Instances(setup(fitted(parallel=parallel)), layouts=layouts)
    assert extrapolations(asked) == ([f"Intervals are wider, because {said}."] if said else [])


def test_levels_that_all_models_have_are_told() -> None:
    """Corrections of SGLang's releases are noted always, and those of speculation only with draft tokens."""
    plain = Instances(Setup.of("qwen3_32b", "h200_sxm", engine="sglang"))
    (said,), (speculating,) = misfits(plain), misfits(Instances(plain.setup, speculates=True))
    assert re.search(
        r"measurements: decode \S+x, prefill \S+x\. These factors come from runs of sglang with other", said
    )
    assert said.partition(", prefill")[0] != speculating.partition(", prefill")[0]


def test_corrections_measured_with_speculation_are_inside_the_calibration_data() -> None:
    """Corrections of SGLang include servers with speculation, and corrections of vLLM do not."""
    unlike = "no fitted server used speculative decoding"
    for engine, model, is_unlike in (
        ("sglang", "deepseek_v3", False),
        ("vllm", "deepseek_v3", True),
        ("sglang", "qwen3_32b", True),
    ):
        instances = Instances(Setup.of(model, "h200_sxm", engine=engine), speculates=True)
        assert (unlike in outside_of(instances)[0]) is is_unlike
    (said,) = warnings([Instances(Setup.of("deepseek_v3", "h200_sxm", engine="sglang"), speculates=True)])
    assert said.startswith("Predicted step times with speculation include correction factors from 71 runs of sglang: ")


def test_changed_assumptions_are_no_longer_fitted() -> None:
    whole, changed = (
        catalog.assumptions("profiles/hopper", changes=changes) for changes in ((), ("capacity.usable_memory=0.5",))
    )
    assert whole.calibration is not None
    assert changed.calibration is None
    assert "calibration" not in changed.sources
    said = interval_note(Instances(setup(changed)), ("tpot",))
    why = f"{whole.name} with what-ifs was fitted to no measured server"
    assert said == f"The prediction has no interval, because {why}."


@pytest.mark.rows
def test_what_is_unlike_the_measurements(context: float, shown: dict[str, Any], reasons: str) -> None:
    instances = Instances(setup(context=context), **shown)
    text = f"Intervals are wider, because {reasons}.".replace("; ", ". Intervals are also wider, because ")
    assert extrapolations(instances) == ([text] if reasons else [])
    record = present(calibration_record(instances))
    assert record["outside"] == [one for one in reasons.replace("in some rows, ", "").split("; ") if one]


def test_other_traffic_of_what_was_measured_is_known_better() -> None:
    narrow = ErrorSpread(rows=77, quantiles=tuple(value / 2 for value in QUANTILES))
    wide = ErrorSpread(rows=55, quantiles=tuple(3 * value for value in QUANTILES))
    errors = {**CALIBRATION.errors, "version": {"tpot": narrow}, "layout": {"tpot": wide}}
    subject = f"vllm / NVIDIA H100 SXM5 80GB / {catalog.model('llama_3_8b').name}"
    known = fitted(subjects=(subject,), layouts=("tp1",), errors=errors)
    seen, unseen = Instances(setup(known), [1], [8]), Instances(setup(known, "qwen3_8b"), [1], [8])
    layout, version = "55 measurements", "77 measurements"
    for instances, rows, without, factor in (
        # The version is not given.
        (seen, version, "version", math.sqrt(1.25)),
        (seen._replace(layouts=["tp1"]), version, "version", math.sqrt(1.25)),
        (seen._replace(layouts=["tp1", "tp2"]), layout, "layout", 1.25**3),
        (unseen, "1,234 measurements", "model", 1.25),
        # Servers with speculation have no known errors: the widest of all.
        (seen._replace(speculates=True), layout, "layout", 1.25**3),
    ):  # fmt: skip
        note = interval_note(instances, ["tpot"])
        assert f"In 80% of {rows}" in note and f"to {100 * factor - 100:.0f}% above the prediction" in note
        assert note.endswith(f"excluded all measurements with the same {'engine ' * (without == 'version')}{without}.")
        assert errors_of(instances, "tpot")["without"] == without
        (ends,) = bounds.ends(instances, {"tpot_seconds": ("tpot", 1)}).values()
        assert ends == pytest.approx((1 / factor, factor))


def test_columns_have_their_ends_beside_them() -> None:
    columns = {"name": "x", "tpot_seconds": 2.0, "ttft_seconds": {"p50": 1.0, "p90": None}}
    instances = Instances(setup())
    found = bounds.bounded(columns, bounds.ends(instances, bounds.LOAD))
    assert list(found) == [
        "name",
        *(f"tpot_seconds{end}" for end in ("", "_low", "_high")),
        *(f"ttft_seconds{end}" for end in ("", "_low", "_high")),
    ]
    assert (found["tpot_seconds_low"], found["tpot_seconds_high"]) == pytest.approx((1.6, 2.5))
    assert found["ttft_seconds_low"] == {"p50": pytest.approx(0.64), "p90": None}
    speeds = bounds.bounded({"tokens_per_second_per_user": np.array([10.0, 20.0])}, bounds.ends(instances, bounds.STEP))
    assert speeds["tokens_per_second_per_user_low"] == pytest.approx([8, 16])
    assert speeds["tokens_per_second_per_user_high"] == pytest.approx([12.5, 25])
    bound = Instances(setup(catalog.assumptions("ideal")))
    unknown = bounds.bounded({"tpot_seconds": 2.0}, bounds.ends(bound, bounds.LOAD))
    assert unknown == {"tpot_seconds": 2.0, "tpot_seconds_low": None, "tpot_seconds_high": None}
    assert calibration_record(bound) is None


def assess(factor: float, assumptions: ie.Assumptions) -> ie.Assessment:
    """Assess a point with a multiple of the time per token on the frontier of its size."""
    subject = ("llama_3_8b", "h100_sxm", SHORT)
    point = asking.frontier(*subject, assumptions=assumptions, max_accelerators=8).preferred()
    return asking.assess(
        *subject,
        tokens_per_second=point.tokens_per_second_per_user / factor,
        batch=point.batch,
        accelerators=int(point.accelerators),
        assumptions=assumptions,
    )


@pytest.mark.parametrize(
    ("factor", "verdict", "certain"),
    [(1.0, "on", False), (1.1, "behind", False), (1.4, "behind", True), (0.9, "ahead", False), (0.7, "ahead", True)],
)
def test_a_gap_is_held_against_the_errors_of_the_profile(factor: float, verdict: str, certain: bool) -> None:
    found = assess(factor, fitted())
    assert (found.anywhere.verdict, found.anywhere.certain) == (verdict, certain)
    likely = present(found.anywhere.likely_seconds)
    assert likely == pytest.approx((0.8 * found.anywhere.on_it_seconds, 1.25 * found.anywhere.on_it_seconds))
    said = " ".join(findings(found))
    larger = "Prediction errors do not explain the difference" in said
    assert larger == certain
    doubted = "Prediction errors may explain the difference" in said
    assert doubted == (verdict != "on" and not certain)
    record = found.record()
    gap = record["frontiers"]["any_size"]  # type: ignore[index]
    assert gap["beyond_uncertainty"] is certain
    assert (gap["on_it_seconds_low"], gap["on_it_seconds_high"]) == pytest.approx(likely)
    assert "(80% interval " in said


def test_a_gap_to_a_bound_or_to_unfitted_assumptions_has_no_errors() -> None:
    assert assess(1.4, fitted()).ideal.certain is None
    found = assess(1.4, catalog.assumptions("deployable"))
    assert (found.anywhere.certain, found.anywhere.likely_seconds, found.likely_seconds) == (None, None, None)
    said = " ".join(findings(found))
    assert "errors of the profile" not in said
    assert "80% interval" not in said


def test_changed_constants_say_that_what_was_measured_beside_them_is_not_counted() -> None:
    change = "assumptions.host.graph_launch=5 us"
    changed = Setup.of("deepseek_v3", "b200", engine="sglang", changes=[change])
    said = (
        "Constants of profiles/sglang_blackwell were changed, so measured runs of DeepSeek-V3 on NVIDIA B200 SXM6 "
        "180GB do not correct the step times. Compare only results with changed constants."
    )
    assert said in warnings([Instances(changed)])
    for other in (
        Setup.of("deepseek_v3", "b200", engine="sglang"),
        Setup.of("deepseek_v3", "b200", engine="sglang", changes=["hardware.link_domain=4"]),
        Setup.of("falcon_7b", "b200", assumptions="profiles/sglang_blackwell", changes=[change]),
    ):
        assert not any("Changed constants" in text for text in warnings([Instances(other)]))


def test_decode_steps_beyond_the_context_of_the_model_are_named() -> None:
    longer, usual = (Setup.of("qwen3_8b", "h200_sxm", context=tokens) for tokens in (100_000.0, 10_000.0))
    note = "The model supports at most 40,960 tokens of context."
    assert (note in setup_warnings(longer), note in setup_warnings(usual)) == (True, False)


def test_models_without_a_recipe_for_their_draft_layers_are_named() -> None:
    covered, other = (Setup.of(name, "h200_sxm", engine="sglang") for name in ("deepseek_v3", "glm_4_5_air"))
    note = "No recipe covers GLM-4.5-Air on NVIDIA H200 SXM5 141GB. Add --mtp to use its multi-token prediction."
    assert unused_drafts([Instances(covered), Instances(other)]) == [note]
    assert unused_drafts([Instances(other, speculates=True)]) == []


def test_gpus_without_a_recipe_for_speculation_are_named() -> None:
    b200, h200, h100 = (Setup.of("gpt_oss_120b", name, engine="trtllm") for name in ("b200", "h200_sxm", "h100_sxm"))
    note = (
        "gpt-oss 120b has a recipe with speculation on NVIDIA B200 SXM6 180GB, but not on NVIDIA H200 SXM5 141GB and "
        "NVIDIA H100 SXM5 80GB. Add --no-speculation to compare without."
    )
    others = [Instances(h200), Instances(h100)]
    assert unused_drafts([Instances(b200, speculates=True), *others]) == [note]
    assert unused_drafts([Instances(b200), *others]) == []
    # Another row of the same GPU speculates.
    assert unused_drafts([Instances(b200, speculates=True), Instances(h200, speculates=True), others[0]]) == []
    # vLLM has a recipe for H200.
    vllm = Instances(Setup.of("gpt_oss_120b", "b200", engine="vllm"), speculates=True)
    assert unused_drafts([vllm, others[0]]) == []


def test_a_wait_is_long_if_one_request_of_ten_waits_long() -> None:
    """The note names the 90th percentile, not the median, and leaves out rows that never end."""
    waits = ((0.5, 9.0), (2.0, 31.4), (12.0, math.inf), (0.1, 12.0))
    loads = [cast("Loaded", SimpleNamespace(ttft_seconds={"p50": p50, "p90": p90})) for p50, p90 in waits]
    expected = "TTFT p90 is up to 31 s in rows 2, 4, longer than most APIs. Limit it with --ttft."
    assert service.wait_notes(loads) == [expected]
    assert service.wait_notes(loads[1:2]) == [expected.replace(" in rows 2, 4", "")]
    assert service.wait_notes(loads[:1]) == []
