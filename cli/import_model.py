"""The command that reads a published configuration."""

from __future__ import annotations

import click

from inference_econ.errors import InputError

from . import options, show
from .parameters import PLACE


@click.command(name="import-model")
@click.argument("path", type=click.Path())
@click.option("-o", "--output", "target", type=PLACE, help="Write the model as a YAML file, to be used like any other.")
@options.form("How to print the summary.")
@click.option("--quiet", is_flag=True, help="No remarks.")
def import_model(path: str, target: str | None, form: str, quiet: bool) -> None:
    """Read a Hugging Face config.json and show how its parameters are counted.

    PATH is the file, or a folder that holds one; a hf_quant_config.json beside it is read too. What is not
    understood is refused by name.
    """
    from inference_econ.inputs import huggingface
    from inference_econ.inputs.yaml_writing import spec_text
    from inference_econ.report.files import write_text
    from inference_econ.report.import_model import ImportedModelPage

    if target is not None and not target.endswith((".yaml", ".yml")):
        raise InputError(f"{target}: a model is written as YAML; end the name in .yaml (the summary is printed)")
    model = huggingface.import_config(path)
    if target is not None:
        write_text(target, spec_text(model))
    show.emit(ImportedModelPage(model), options.Output(form, quiet=quiet))
    if target is not None:
        show.remark(f"wrote {target}", quiet=quiet)
