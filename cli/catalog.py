"""Commands that show what the catalogue holds."""

from __future__ import annotations

import json

import click

from inference_econ.errors import InputError
from inference_econ.inputs import Kind
from inference_econ.report.files import check_ending

from . import options, show
from .help import Command, example
from .parameters import PLACE, Name

_EXAMPLES: dict[Kind, tuple[str, ...]] = {
    "hardware": ("inference-econ hardware", "inference-econ hardware h100_sxm", "inference-econ hardware --prices"),
    "models": ("inference-econ models", "inference-econ models llama_3_70b"),
    "scenarios": ("inference-econ scenarios", "inference-econ scenarios paper/table_4"),
    "assumptions": ("inference-econ assumptions", "inference-econ assumptions deployable"),
    "engines": (
        "inference-econ engines",
        "inference-econ engines vllm",
        "inference-econ engines --recipes deepseek_v3 h200_sxm",
    ),
}


def _command(kind: Kind, help_text: str) -> click.Command:
    @click.command(name=kind, cls=Command, help=help_text, epilog=example(*_EXAMPLES[kind]))
    @click.argument("name", type=Name(kind), required=False)
    @options.output
    def command(name: str | None, output: options.Output) -> None:
        from inference_econ.report.catalog import EntryPage, ListingPage

        show.emit(ListingPage(kind) if name is None else EntryPage(kind, name), output)

    return command


@click.command(cls=Command, epilog=example(*_EXAMPLES["hardware"]))
@click.argument("name", type=Name("hardware"), required=False)
@click.option("--prices", is_flag=True, help="Every price that files list: kind, date, source.")
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


models = _command("models", "List the models, or show one with its parameter count and sources.")
scenarios = _command("scenarios", "List the scenarios, or show one.")
assumptions = _command("assumptions", "List the presets of assumptions, or show one with its sources.")


@click.command(cls=Command, epilog=example(*_EXAMPLES["engines"]))
@click.argument("name", type=Name("engines"), required=False)
@click.option(
    "--recipes",
    type=(Name("models"), Name("hardware")),
    metavar="MODEL CHIP",
    help="How they are run with a model on a chip: cache, proposals, instances and pools, with sources.",
)
@options.option("weights", help="With --recipes: of weights in this format; as published without.")
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


@click.command(cls=Command, epilog=example("inference-econ schema hardware -o hardware.schema.json"))
@click.argument("kind", type=click.Choice(["hardware", "model", "traffic", "assumptions", "scenario", "engine"]))
@click.option("--page", is_flag=True, help="Of assumptions: a page for people, with the values of some presets.")
@click.option("-o", "--output", "path", type=PLACE, help="Write it to a file instead.")
def schema(kind: str, page: bool, path: str | None) -> None:
    """Print the JSON schema of a kind of file, for editors and validators."""
    from inference_econ.inputs import schemas

    if page and kind != "assumptions":
        raise InputError(f"--page is of assumptions only, got {kind}; without it the JSON schema is printed")
    if path is not None:
        check_ending(path, f"the name of a {'page' if page else 'schema'}", (".md" if page else ".json", ""))
    show.put(schemas.reference_page() if page else json.dumps(schemas.json_schema(kind), indent=2), path, quiet=False)


@click.command(cls=Command, epilog=example("inference-econ fields", "inference-econ fields recommend --format json"))
@click.argument("name", required=False)
@options.output
def fields(name: str | None, output: options.Output) -> None:
    """List the fields of answers with their units, or what a question, a record or a field called NAME holds."""
    from inference_econ.report.schema import FieldsPage

    show.emit(FieldsPage(name), output)
