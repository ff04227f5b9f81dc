"""Measured servers that are made up for tests."""

from __future__ import annotations

from typing import Any

from inference_econ.extras.servers.measurements import Measurement


def measurement(**changes: Any) -> Measurement:
    """Return a row of Llama 3.1 70B on eight H200."""
    values = {
        "id": "1", "dataset": "mine", "source": "mine", "engine": "vllm", "engine_version": "0.12.0",
        "model": "llama_3_70b", "hardware": "h200_sxm", "accelerators": 8, "tp": 8, "weights": "fp8", "isl": 1000.0,
        "osl": 1000.0, "load": "concurrency", "concurrency": 16.0,
    }  # fmt: skip
    return Measurement(**{**values, **changes})


def small_server() -> Measurement:
    """Return a row of Llama 3.1 8B on one H100 whose requests take 1.1 s each."""
    return measurement(
        id="a", source="me", engine_version="0.12", model="llama_3_8b", hardware="h100_sxm", accelerators=1, tp=1,
        osl=101.0, concurrency=4.0, ttft_seconds=0.1, tpot_seconds=0.01, speculation="none",
    )  # fmt: skip
