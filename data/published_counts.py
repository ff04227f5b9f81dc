"""Parameter counts of published model classes: ``sh run.sh refit published-counts``.

The command changes single keys of every configuration in the fixtures: missing, null, inverted, doubled, or zero. The
class of Hugging Face's transformers for the configuration counts its parameters, without a device. The counts are
written to ``tests/fixtures/hf_configs/changed.csv``. Tests compare the importer with them: it must return an equal
count or reject the configuration. Changes that the class rejects are omitted, and so are families without a class. The
command needs a separate environment.
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
#: Text for a key that is missing.
LEFT_OUT = "left out"
#: Keys that describe the storage of weights and not their number, and keys that the classes cannot read.
_STORED = ("model_type", "torch_dtype", "dtype", "quantization_config", "compression_config", "auto_map")

Config = Mapping[str, Any]


def configurations() -> Iterator[tuple[str, Config]]:
    """Configurations of text models in the fixtures, by name."""
    for path in sorted(FOLDER.glob("*_config.json")):
        if not path.name.endswith("hf_quant_config.json"):
            yield path.name.removesuffix("_config.json"), json.loads(path.read_text(encoding="utf-8"))
    siblings = json.loads((FOLDER / "siblings.json").read_text(encoding="utf-8"))
    for name, sibling in siblings.items():
        yield name, sibling["config"]


def changes(config: Config) -> Iterator[tuple[str, str]]:
    """Keys that may change a shape, with new values as JSON or the text for a missing key."""
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
    """Configuration after a change."""
    others = {name: each for name, each in config.items() if name != key}
    return others if value == LEFT_OUT else {**others, key: json.loads(value)}


def published_total(config: Config) -> int | None:
    """Parameters of the published class, each tensor once; None if no class accepts the configuration."""
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
    """Rows of the table: configuration, changed key, new value, and parameter count."""
    for name, config in configurations():
        if "text_config" in config or published_total(config) is None:
            continue
        for key, value in changes(config):
            total = published_total(changed(config, key, value))
            if total is not None:
                yield name, key, value, total


def main() -> None:
    """Write the parameter counts."""
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
