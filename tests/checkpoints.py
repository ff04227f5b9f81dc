"""A small model without a supported family: its configuration and checkpoint tensors."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.reading import tables

Shapes = dict[str, list[int]]
CONFIG: dict[str, Any] = tables(Path(__file__))["CONFIG"]
#: Layer tensors: queries and output, keys and values, norms of queries and keys.
ATTENTION = 2 * 64 * 128 + 2 * 64 * 32 + 2 * 16
#: Expert tensors, and those of the dense first layer.
EXPERT, DENSE = 3 * 64 * 32, 3 * 64 * 96
#: All of it: both embeddings, attention, one dense layer, two of experts with routers, two norms a layer and the last.
TOTAL = 2 * 1000 * 64 + 3 * ATTENTION + DENSE + 2 * (4 * EXPERT + 4 * 64) + 7 * 64


def tensors(stacked: bool = False) -> Shapes:
    """Return a checkpoint with usual names and a dense first layer."""
    shapes: Shapes = {"model.embed_tokens.weight": [1000, 64], "lm_head.weight": [1000, 64], "model.norm.weight": [64]}
    for layer in range(3):
        own: Shapes = {"q_proj": [128, 64], "k_proj": [32, 64], "v_proj": [32, 64], "o_proj": [64, 128]}
        own = {f"self_attn.{name}.weight": shape for name, shape in own.items()}
        own |= {f"self_attn.{name}_norm.weight": [16] for name in "qk"}
        own |= {f"{name}_layernorm.weight": [64] for name in ("input", "post_attention")}
        if not layer:
            own |= {f"mlp.{name}_proj.weight": [96, 64] for name in ("gate", "up")} | {"mlp.down_proj.weight": [64, 96]}
        elif stacked:
            own |= {"mlp.experts.gate_up_proj": [4, 64, 64], "mlp.experts.down_proj": [4, 32, 64]}
        else:
            for n in range(4):
                own |= {f"mlp.experts.{n}.{name}_proj.weight": [32, 64] for name in ("gate", "up")}
                own[f"mlp.experts.{n}.down_proj.weight"] = [64, 32]
        own |= {"mlp.gate.weight": [4, 64]} if layer else {}
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in own.items()}
    return shapes


def folder(
    path: Path,
    shapes: Shapes,
    changes: Mapping[str, object] = MappingProxyType({}),
    *,
    index_alone: bool = False,
    kind: str = "BF16",
) -> Path:
    """Write a configuration with tensors of given shapes: a header, or only an index."""
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (path / "config.json").write_text(json.dumps(config))
    header = json.dumps({name: {"dtype": kind, "shape": shape} for name, shape in shapes.items()}).encode()
    if index_alone:
        size = 2 * sum(map(math.prod, shapes.values()))
        text = {"metadata": {"total_size": size}, "weight_map": dict.fromkeys(shapes, "model-00001.safetensors")}
        (path / "model.safetensors.index.json").write_text(json.dumps(text))
    else:
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return path
