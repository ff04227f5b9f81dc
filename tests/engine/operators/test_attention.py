"""Output projections of attention in a separate number format, as in NVIDIA's DeepSeek-V3.1."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.engine import Setup, memory
from inference_econ.inputs import Precision, catalog
from inference_econ.records.texts import formats_label
from tests.planned import plan_of

#: 61 layers, 128 heads of 128, hidden size 7168.
OUTPUT = 61 * 128 * 128 * 7168
NVFP4 = 0.5 + 1 / 16


def test_by_default_all_of_attention_has_one_format() -> None:
    plain = Precision.of(catalog.model("deepseek_v3"))
    assert plain.attention_output == plain.attention == "fp8_block"
    mixed = Precision.of(catalog.model("deepseek_v3_nvfp4"))
    assert (mixed.attention, mixed.attention_output) == ("bf16", "nvfp4")
    assert formats_label(mixed) == "weights nvfp4, attention bf16, embeddings bf16"
    given = Precision.of(catalog.model("deepseek_v3_nvfp4"), "fp8")
    assert given.attention_output == "fp8"


def test_a_format_that_differs_from_both_is_told() -> None:
    precision = Precision("fp8", "bf16", "fp8", "fp8", "fp8", "bf16", "bf16", "nvfp4")
    assert formats_label(precision) == "weights fp8, attention bf16, attention output nvfp4"
    assert precision.of_weights == ("fp8", "bf16", "nvfp4")


def test_memory_and_traffic_of_output_projections() -> None:
    mixed = catalog.model("deepseek_v3_nvfp4")
    wide = mixed.model_copy(update={"attention_output_weights": None})
    stored = [memory.weight_bytes(model, Precision.of(model)) for model in (wide, mixed)]
    assert stored[0] - stored[1] == pytest.approx(OUTPUT * (2.0 - NVFP4), rel=1e-12)
    plans = plan_of(8, batch=64)
    for model, width, unit in ((wide, 2.0, "bf16"), (mixed, NVFP4, "fp4")):
        setup = Setup(model, catalog.hardware("b200"), Precision.of(model), 0.0, catalog.assumptions("deployable"))
        rows = [row for row in setup.work(plans).operators if row.name == "attention output"]
        assert sum(row.repeats * float(np.ravel(row.weight_bytes)[0]) for row in rows) == pytest.approx(
            OUTPUT * width / 8
        )
        assert {setup.rates.unit(row.dtype) for row in rows} == {unit}
