"""Commands that show what the catalogue holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from inference_econ.errors import InputError
from inference_econ.inputs import Kind
from inference_econ.report.files import check_ending

from . import options, show
from .help import command

if TYPE_CHECKING:
    import click


def _command(kind: Kind, help_text: str, *examples: str) -> click.Command:
    @command(kind, "name", *examples, help=help_text)
    @options.output
    def listed(name: str | None, output: options.Output) -> None:
        from inference_econ.report.catalog import EntryPage, ListingPage

        show.emit(ListingPage(kind) if name is None else EntryPage(kind, name), output)

    return listed


@command(
    "hardware",
    "name prices",
    "inference-econ hardware",
    "inference-econ hardware h100_sxm",
    "inference-econ hardware --prices",
)
@options.output
def hardware(name: str | None, prices: bool, output: options.Output) -> None:
    """List the hardware, or show one chip with the source of every number."""
    from inference_econ.inputs import catalog
    from inference_econ.report.catalog import EntryPage, ListingPage
    from inference_econ.report.prices import PricesPage

    if prices:
        show.emit(PricesPage(catalog.names("hardware") if name is None else (name,)), output)
    else:
        show.emit(ListingPage("hardware") if name is None else EntryPage("hardware", name), output)


models = _command(
    "models",
    "List the models, or show one with its parameter count and sources.",
    "inference-econ models",
    "inference-econ models llama_3_70b",
)
scenarios = _command(
    "scenarios",
    "List the scenarios, or show one.",
    "inference-econ scenarios",
    "inference-econ scenarios paper/table_4",
)
assumptions = _command(
    "assumptions",
    "List the presets of assumptions, or show one with its sources.",
    "inference-econ assumptions",
    "inference-econ assumptions deployable",
)


@command(
    "engines",
    "name recipes weights",
    "inference-econ engines",
    "inference-econ engines vllm",
    "inference-econ engines --recipes deepseek_v3 h200_sxm",
)
@options.output
def engines(name: str | None, recipes: tuple[str, str] | None, weights: str | None, output: options.Output) -> None:
    """List the serving engines, or show what one does by version, with its sources."""
    from inference_econ.report.catalog import EntryPage, ListingPage
    from inference_econ.report.recipes import RecipesPage

    if weights is not None and recipes is None:
        raise InputError("--weights says something of recipes; give --recipes MODEL CHIP as well", option="weights")
    if recipes is not None:
        show.emit(RecipesPage(*recipes, weights, name), output)
    else:
        show.emit(ListingPage("engines") if name is None else EntryPage("engines", name), output)


@command(
    "schema",
    "kind page path",
    "inference-econ schema hardware -o hardware.schema.json",
)
def schema(kind: str, page: bool, path: str | None) -> None:
    """Print the JSON schema of a kind of file, for editors and validators."""
    from inference_econ.inputs import schemas

    if page and kind != "assumptions":
        raise InputError(f"--page is of assumptions only, got {kind}; without it the JSON schema is printed")
    if path is not None:
        check_ending(path, f"the name of a {'page' if page else 'schema'}", (".md" if page else ".json", ""))
    show.put(schemas.reference_page() if page else json.dumps(schemas.json_schema(kind), indent=2), path, quiet=False)


@command(
    "fields",
    "name",
    "inference-econ fields",
    "inference-econ fields recommend --format json",
)
@options.output
def fields(name: str | None, output: options.Output) -> None:
    """List the fields of answers with their units, or what a question, a record or a field called NAME holds."""
    from inference_econ.report.schema import FieldsPage

    show.emit(FieldsPage(name), output)
