"""Commands that show what the catalogue holds."""

from __future__ import annotations

import json

import click

from inference_econ.inputs import catalog

from . import options, show


def _print(kind: catalog.Kind, name: str | None, form: str, output: str | None, *, quiet: bool) -> None:
    from inference_econ.report import catalog as listings
    from inference_econ.report import table as tables

    if name is not None:
        record: object = (found := listings.detail(kind, name))
        table = listings.detail_table(kind, name, found)
    else:
        record = (entries := listings.listing(kind))
        table = listings.listing_table(kind, entries)
    if form == "json":
        text = tables.to_json(record)
    elif form == "table":
        text = show.table_text(table, quiet=quiet)
    else:
        text = table.text("csv" if form == "csv" else "markdown")
    show.emit(text, output, quiet=quiet)


def _command(kind: catalog.Kind, help_text: str) -> click.Command:
    @click.command(name=kind, help=help_text)
    @click.argument("name", type=options.Name(kind), required=False)
    @options.output
    def command(name: str | None, form: str, output: str | None, quiet: bool) -> None:
        _print(kind, name, form, output, quiet=quiet)

    return command


hardware = _command("hardware", "List the hardware, or show one chip with the source of every number.")
models = _command("models", "List the models, or show one with its parameter count and sources.")
scenarios = _command("scenarios", "List the scenarios, or show one.")
assumptions = _command("assumptions", "List the presets of assumptions, or show one with its sources.")


@click.command()
@click.argument("kind", type=click.Choice(["hardware", "model", "traffic", "assumptions", "scenario"]))
@click.option("-o", "--output", type=options.PLACE, help="Write it to a file instead.")
def schema(kind: str, output: str | None) -> None:
    """Print the JSON schema of a kind of file, for editors and validators."""
    from inference_econ.inputs import schemas

    show.emit(json.dumps(schemas.json_schema(kind), indent=2), output, quiet=False)
