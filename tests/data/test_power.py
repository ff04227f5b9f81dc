"""The generator of measured power, tested on runs with known shares."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import pytest

from data import power
from inference_econ.inputs import catalog

RESULT = {
    "model_id": "Qwen/Qwen3-8B", "gpu_model": "H100", "num_gpus": 1, "avg_batch_size": 63.88, "avg_output_len": 644.5,
    "output_throughput_tokens_per_sec": 4314.682, "avg_power_watts": 514.39, "tensor_parallel": 1,
    "expert_parallel": 1, "data_parallel": 1,
}  # fmt: skip


def test_a_run_is_read(tmp_path: Path) -> None:
    """One published number: ML.ENERGY version 3, lm-arena-chat, at most 64 sequences."""
    others = {"gpu_model": "B200"}, {"model_id": "somebody/else"}
    for task in ("gpqa", "lm-arena-chat", "sourcegraph-fim"):
        runs = [RESULT, {**RESULT, **others[1]}] if task == "lm-arena-chat" else []
        (tmp_path / f"{task}.json").write_text(json.dumps({"configurations": runs}), encoding="utf-8")
    (row,) = power.rows_of(tmp_path)
    assert (row.model, row.hardware, row.used) == ("qwen3_8b", "h100_sxm", True)
    assert row.watts == pytest.approx(514.39 / 700.0)
    assert 1.0 < row.longer < power.LONGEST and 0.4 < row.shares[1] < 0.6 < 1.0 and 0.1 < row.shares[2] < 0.15
    # The shipped profile was fitted without this model's rows, and predicts them within the stated error.
    shares = catalog.power().generations["hopper"]
    error = power.predicted_errors([row], np.array([shares.idle, shares.memory, shares.arithmetic]))
    assert abs(error[0]) < 0.15


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"gpqa\.json is missing; give the folder public/data/tasks"):
        power.rows_of(tmp_path)


def test_shares_are_found_again() -> None:
    random, true = np.random.default_rng(1), np.array([0.2, 0.5, 0.9])
    rows = []
    for number in range(40):
        shares = np.array([1.0, *random.uniform(0.0, 0.6, 2)])
        chip, faster = ("b200", "h100_sxm")[number % 2], 1.0 + number / 20
        # Rates that are too fast by 0.1 ns of each logit.
        sorted_per_second = (1.0 - 1.0 / faster) / 1e-10
        drawn = min(shares @ true, 0.98)
        rows.append(power.Row(f"model {number % 3}", chip, shares, drawn, 1.0, faster, False, sorted_per_second))
    np.testing.assert_allclose(power.fitted(rows), true, rtol=1e-3)
    lines = power.lines(rows)
    assert set(lines) == {"  hopper", "  blackwell", "otherwise"}
    assert "idle: 0.200, memory: 0.500, arithmetic: 0.900, rows: 20, models: 3" in lines["  hopper"]
    assert power.tables(rows).count("\n") == 3 + 2 + 6
    assert power.sorting(rows) == pytest.approx(1e-10, rel=1e-3)
    np.testing.assert_allclose(power.energy_errors(rows, true, 1e-10), power.predicted_errors(rows, true), atol=0.02)
