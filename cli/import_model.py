"""The command that reads a published configuration."""

from __future__ import annotations

import os
from pathlib import Path

from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.records import files

from . import options, show
from .help import command


@command("import-model")
def import_model(path: str, target: str | None, output: options.Output) -> None:
    """Read a Hugging Face config.json and show how its parameters are counted.

    PATH is the file, or a folder that holds one; a hf_quant_config.json beside it is read too, and the index and the
    headers of safetensors files are held against the count. ORGANISATION/NAME is read from the Hugging Face cache of
    this machine. What is not understood is refused by name.
    """
    if target is not None and not target.endswith((".yaml", ".yml")):
        raise InputError(f"{target}: a model is written as YAML; end the name in .yaml (the summary is printed)")
    config = _config(path)
    if str(config) != path:
        show.remark(f"reading {config}", quiet=output.quiet)
    model = inputs.huggingface.import_config(config)
    if target is not None:
        files.write_text(target, inputs.spec_text(model))
    checkpoint = inputs.huggingface.checkpoint_beside(inputs.huggingface.find_config(config), model.layers)
    show.emit(report.import_model.ImportedModelPage(model, checkpoint), output)
    if target is not None:
        show.remark(f"wrote {target}", quiet=output.quiet)


def _config(path: str) -> Path:
    """The path itself, or what the cache has of a Hugging Face id.

    Raises
    ------
    InputError
        If it is an id that the cache does not have.
    """
    if not inputs.huggingface.is_identity(path) or Path(path).exists():
        return Path(path)
    cache = _cache()
    config = inputs.huggingface.cached_config(path, cache)
    if config is None:
        raise InputError(
            f"{path}: no such file, and {cache} has no config.json of a model with that id{_in_catalogue(path)}; give "
            f"the config.json that is published beside its weights, or fetch it into the cache: hf download {path} "
            "config.json"
        )
    return config


def _cache() -> Path:
    """The folder that the Hugging Face hub keeps downloads in, by the same environment variables."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def _in_catalogue(identity: str) -> str:
    from inference_econ.errors import UnknownNameError

    try:
        return f" (the catalogue has {inputs.catalog.meaning('models', identity).name}, which needs no import)"
    except UnknownNameError:
        return ""
