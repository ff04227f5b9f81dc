"""Commands that show what the catalogue holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.inputs import Kind, catalog
from inference_econ.records.files import check_ending

from . import options, show
from .help import command

if TYPE_CHECKING:
    import click


def _page(kind: Kind, name: str | None) -> options.Page:
    """Page of one entry of the catalogue, or of all of its kind."""
    return report.catalog.ListingPage(kind) if name is None else report.catalog.EntryPage(kind, name)


def _listed(kind: Kind) -> click.Command:
    @command(kind)
    def listed(name: str | None) -> options.Page:
        return _page(kind, name)

    return listed


models, scenarios, assumptions = _listed("models"), _listed("scenarios"), _listed("assumptions")


@command("hardware")
def hardware(name: str | None, prices: bool) -> options.Page:
    """List the hardware, or show one chip with the source of every number."""
    if not prices:
        return _page("hardware", name)
    return report.catalog.PricesPage(catalog.names("hardware") if name is None else (name,))


@command("engines")
def engines(name: str | None, recipes: tuple[str, str] | None, weights: str | None) -> options.Page:
    """List the serving engines, or show what one does by version, with its sources."""
    if weights is not None and recipes is None:
        raise InputError("--weights says something of recipes; give --recipes MODEL CHIP as well", option="weights")
    return _page("engines", name) if recipes is None else report.catalog.RecipesPage(*recipes, weights, name)


@command("schema")
def schema(kind: str, page: bool, path: str | None) -> None:
    """Print the JSON schema of a kind of file, for editors and validators."""
    if page and kind != "assumptions":
        raise InputError(f"--page is of assumptions only, got {kind}; without it the JSON schema is printed")
    if path is not None:
        check_ending(path, f"the name of a {'page' if page else 'schema'}", (".md" if page else ".json", ""))
    show.put(
        inputs.schemas.reference_page() if page else json.dumps(inputs.schemas.json_schema(kind), indent=2),
        path,
        quiet=False,
    )


@command("fields")
def fields(name: str | None) -> options.Page:
    """List the fields of answers with their units, or what a question, a record or a field called NAME holds."""
    return report.schema.FieldsPage(name)
