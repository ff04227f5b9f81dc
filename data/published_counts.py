"""Parameter counts of published modelling classes: ``sh run.sh refit published-counts``.

Every configuration among the fixtures is changed one key at a time (left out, null, turned round, doubled, zero), and
the class that Hugging Face's transformers has for it counts its parameters, on no device. What it counts is written to
``tests/fixtures/hf_configs/changed.csv``, which the tests hold the importer against: it counts the same or refuses.
Changes that the class refuses too are left out, and so are families that transformers has no class for. The command has
an environment of its own; nothing else needs it.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inference_econ.inputs.huggingface._reader import without_shape
from inference_econ.records.files import write_text

FOLDER = Path(__file__).parent.parent / "tests" / "fixtures" / "hf_configs"
#: What a key that is not there is written as.
LEFT_OUT = "left out"
#: Keys that say how weights are stored, not how many there are, and what the classes cannot read.
_STORED = ("model_type", "torch_dtype", "dtype", "quantization_config", "compression_config", "auto_map")

Config = Mapping[str, Any]


def configurations() -> Iterator[tuple[str, Config]]:
    """Every configuration of a text model among the fixtures, by name."""
    for path in sorted(FOLDER.glob("*_config.json")):
        if not path.name.endswith("hf_quant_config.json"):
            yield path.name.removesuffix("_config.json"), json.loads(path.read_text(encoding="utf-8"))
    siblings = json.loads((FOLDER / "siblings.json").read_text(encoding="utf-8"))
    for name, sibling in siblings.items():
        yield name, sibling["config"]


def changes(config: Config) -> Iterator[tuple[str, str]]:
    """Keys that may change a shape with what to put under them, as JSON, or that they are left out."""
    for key, value in config.items():
        if key in _STORED or without_shape(key):
            continue
        yield key, LEFT_OUT
        yield from ((key, json.dumps(other)) for other in _others(value))


def _others(value: object) -> list[object]:
    if isinstance(value, bool):
        return [None, not value]
    if isinstance(value, int):
        return [None, 2 * value, 0] if value else [None, 1]
    return [] if value is None else [None]


def changed(config: Config, key: str, value: str) -> dict[str, Any]:
    """A configuration after a change."""
    others = {name: each for name, each in config.items() if name != key}
    return others if value == LEFT_OUT else {**others, key: json.loads(value)}


def published_total(config: Config) -> int | None:
    """Parameters of the published class, each tensor once; None if there is no class, or it refuses."""
    import torch
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    try:
        read = CONFIG_MAPPING[config["model_type"]].from_dict(
            {key: value for key, value in config.items() if key not in _STORED}
        )
        with torch.device("meta"):
            model = MODEL_FOR_CAUSAL_LM_MAPPING[type(read)](read)
        if read.tie_word_embeddings:
            model.tie_weights()
    except Exception:
        return None
    return sum(int(size) for size in {id(weights): weights.numel() for weights in model.parameters()}.values())


def rows() -> Iterator[tuple[str, str, str, int]]:
    """Configurations, changed keys, what is put under them, and what the class counts then."""
    for name, config in configurations():
        if "text_config" in config or published_total(config) is None:
            continue
        for key, value in changes(config):
            total = published_total(changed(config, key, value))
            if total is not None:
                yield name, key, value, total


def main() -> None:
    """Write what the classes count."""
    import io

    from transformers import logging

    logging.set_verbosity_error()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("configuration", "key", "value", "total_parameters"))
    writer.writerows(rows())
    write_text(FOLDER / "changed.csv", text.getvalue())


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main()
