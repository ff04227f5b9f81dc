"""The engine under the presets ``paper`` and ``paper_may22`` equals the published code, row by row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from inference_econ.engine import ContinuousLayouts, Plans, Setup, Speculation, evaluate, memory
from inference_econ.inputs import catalog
from inference_econ.search.fastest import fastest, token_seconds
from tests.planned import setup_of
from tests.reading import fixture_table

Array = npt.NDArray[np.float64]


#: Tolerance relative to the published code's seconds.
RELATIVE = 1e-9


def _flop_per_token(setup: Setup) -> float:
    """Return the arithmetic of one token on a single chip without duplicate work [FLOP]."""
    one = np.ones(())
    rows = setup.work(Plans(one, one, one, one, one)).operators
    return float(sum(row.repeats * row.flop_per_token for row in rows))


def _question(code_name: str, gpu: str, context: float, preset: str = "paper") -> Setup:
    """Return the study's setup by the names in its code."""
    name, weights = code_name.lower(), None
    for ending, dtype in (("_8_bit", "int8"), ("_4_bit", "int4_channel")):
        if name.endswith(ending):
            name, weights = name.removesuffix(ending), dtype
    return setup_of(f"paper/{name}", f"paper/{gpu.lower()}", context, preset=preset, weights=weights)


def _instance(row: dict[str, str]) -> tuple[Array, Array]:
    return np.array([float(row["n_gpu"])]), np.array([float(row["batch"])])


def _agrees(found: float, expected: float) -> bool:
    return found == expected or abs(found / expected - 1) <= RELATIVE


@pytest.mark.rows
def test_latency(latency_row: dict[str, str], preset: str, pipeline: bool, column: str) -> None:
    setup = _question(latency_row["model"], latency_row["gpu"], float(latency_row["input_len"]), preset)
    sizes, batches = _instance(latency_row)
    layouts, new_tokens = ContinuousLayouts(pipeline), int(latency_row["seq_len"])
    found = float(fastest(setup, sizes, batches, layouts, new_tokens=new_tokens).seconds[0])
    expected = float(latency_row[column])
    assert _agrees(found, expected), (found, expected)
    # An infeasible row has a reason, and a feasible one has a depth that fits.
    reasons = set()
    for pp in layouts.depths(setup.model, setup.assumptions, sizes, batches):
        plans = layouts.variants(setup.model, setup.assumptions, Plans.of(sizes, batches, pp, new_tokens))
        reasons |= set(np.ravel(setup.reasons(plans, "1d")).tolist())
    assert (memory.FITS in reasons) == math.isfinite(expected)
    if not pipeline:
        assert reasons == {_expected_reason(latency_row)}


def _expected_reason(row: dict[str, str]) -> int:
    """Return the study's reason to reject an instance without a pipeline, from its own numbers (N < 1 and b < 1
    included).
    """
    model, chip = fixture_table("models", "code_name")[row["model"]], fixture_table("hardware", "name")[row["gpu"]]
    size, batch = float(row["n_gpu"]), float(row["batch"])
    available = size * float(chip["hbm_bytes"])
    weights = float(model["weight_precision_bytes"]) * float(model["total_params"])
    cache_bytes = float(model["kv_cache_bytes_per_token"]) * float(row["input_len"]) * batch
    if min(size, batch) < 1:
        return memory.DEPTH
    if available < weights:
        return memory.WEIGHTS
    return memory.CACHE if available < weights + cache_bytes else memory.FITS


def test_parts_of_the_step(latency_row: dict[str, str]) -> None:
    setup = _question(latency_row["model"], latency_row["gpu"], float(latency_row["input_len"]))
    sizes, batches = _instance(latency_row)
    layouts, new_tokens = ContinuousLayouts(pipeline=False), int(latency_row["seq_len"])
    found = fastest(setup, sizes, batches, layouts, new_tokens=new_tokens)
    if not math.isfinite(float(latency_row["new_nopp_s"])):
        assert math.isinf(float(found.seconds[0]))
        return
    cut = setup.assumptions.layout.tensor_layouts[int(found.cut[0])]
    costs = evaluate(setup, found.plans, cut)
    network = sum(float(costs.parts[name][0]) for name in costs.parts if name.startswith("all_"))
    traffic = sum(float(costs.busy[name][0]) for name in ("weights", "activations", "kv_cache"))
    # Communication, memory, arithmetic and launches of the layout that the published code chose.
    assert network == pytest.approx(float(latency_row["nopp_net_s"]), rel=RELATIVE)
    assert traffic == pytest.approx(float(latency_row["nopp_mem_s"]), rel=RELATIVE)
    assert float(costs.busy["compute"][0]) == pytest.approx(float(latency_row["nopp_flop_s"]), rel=RELATIVE)
    assert float(costs.parts["launches"][0]) == pytest.approx(float(latency_row["nopp_kernel_s"]), rel=RELATIVE)
    if network > 0:
        assert (cut == "2d") == (latency_row["nopp_two_d"] == "True")


@pytest.mark.parametrize(("pipeline", "column"), [(False, "nopp_s"), (True, "pp_tolerant_s")])
def test_speculation(specdec_row: dict[str, str], pipeline: bool, column: str) -> None:
    context = float(specdec_row["input_len"])
    setup = _question(specdec_row["model"], specdec_row["gpu"], context)
    proposer = _question(specdec_row["approx_model"], specdec_row["gpu"], context)
    longest, acceptance = int(specdec_row["gamma_max"]), float(specdec_row["acceptance_prob"])
    speculation = Speculation.of("draft", acceptance, longest, model=proposer.model, weights=proposer.precision.weights)
    sizes, batches = _instance(specdec_row)
    times = token_seconds(setup, sizes, batches, ContinuousLayouts(pipeline), speculation=speculation)
    found, expected = float(times.seconds[0]), float(specdec_row[column])
    assert _agrees(found, expected), (found, expected)
    drafted = int(times.drafted[0])
    assert drafted == 0 or 2 <= drafted <= longest
    if acceptance == 0.0 or not math.isfinite(expected):
        assert drafted == 0


def test_all_rows_of_a_question_at_once_equal_the_rows_one_by_one() -> None:
    setup = _question("Llama_3_70B_8_bit", "H100", 0.0)
    sizes, batches = np.geomspace(1.0, 100.0, 7), np.geomspace(1.0, 2000.0, 5)
    layouts = ContinuousLayouts(pipeline=True)
    grid = fastest(setup, sizes[:, None], batches[None, :], layouts).seconds
    for i, size in enumerate(sizes):
        for j, batch in enumerate(batches):
            alone = fastest(setup, np.array([size]), np.array([batch]), layouts).seconds[0]
            assert grid[i, j] == pytest.approx(alone, rel=1e-12)


def test_weights_and_arithmetic_of_the_studys_models() -> None:
    files = {f"paper/{name.lower()}" for name in fixture_table("models", "code_name")} & set(catalog.names("models"))
    for name, row in fixture_table("models", "code_name").items():
        if f"paper/{name.lower()}" not in files:
            continue
        for context, column in ((0.0, "flop_per_token_ctx0"), (1e5, "flop_per_token_ctx100000")):
            setup = _question(name, "H100", context)
            assert _flop_per_token(setup) == pytest.approx(float(row[column]), rel=1e-10), name
        least = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
        assert least == pytest.approx(float(row["min_gpus_H100"]), rel=1e-12), name
    assert len(files) == 17
