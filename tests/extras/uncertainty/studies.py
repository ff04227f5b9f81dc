"""Studies for several tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inference_econ.extras.uncertainty.answer import Uncertainty, answer
from inference_econ.inputs import Scenario

#: A small question that is answered quickly, under one profile.
COMMON = {
    "model": "llama_3_8b", "hardware": "h100_sxm", "tp": 1, "dp": 1, "pp": 1, "assumptions": "profiles/hopper",
}  # fmt: skip
#: One deployment whose steps only read memory: its cost is price x bytes / bandwidth.
MEMORY_BOUND = {**COMMON, "assumptions": "ideal", "decode_only": True, "batch": 1, "context": 100}
TWO: tuple[dict[str, Any], ...] = ({"label": "H100"}, {"label": "H200", "settings": {"hardware": "h200_sxm"}})


def factor(spread: float) -> dict[str, Any]:
    """Return a log-normal factor on the present value."""
    return {"distribution": "lognorm", "s": spread, "relative": True}


def study(
    inputs: Mapping[str, Any],
    series: Sequence[Mapping[str, Any]] = ({"label": "H100"},),
    common: Mapping[str, Any] = COMMON,
    **others: Any,
) -> Scenario:
    """Return a study of uncertainty."""
    ask = {"kind": "uncertainty", "common": dict(common), "series": list(series), "inputs": dict(inputs), **others}
    sources = {"ask": {"ref": "user", "where": "a test", "kind": "assumed"}}
    return Scenario.build({"name": "Mine", "ask": ask, "sources": sources}, origin="study")


def answered(inputs: Mapping[str, Any], *args: Any, **others: Any) -> Uncertainty:
    """Return the result of a study."""
    asked = study(inputs, *args, **others)
    return answer(asked, asked.ask)
