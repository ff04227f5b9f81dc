"""All commands: what each is for, and by which other doors its question is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import (
    assess,
    buy,
    calibrate,
    catalog,
    claims,
    compare,
    disaggregate,
    explain,
    fits,
    fleet,
    frontier,
    gallery,
    hour_cost,
    implied,
    import_model,
    infer,
    intensity,
    launch,
    load,
    mcp,
    offers,
    prefill,
    prefix_cache,
    price,
    recommend,
    report,
    rollout,
    sampling_rule,
    scenario,
    serve,
    speculate,
    sweep,
    traffic,
    uncertainty,
    validate,
    watch,
    what_if,
)

if TYPE_CHECKING:
    import click


class Listed(NamedTuple):
    """A command in the list of all."""

    command: click.Command
    """What is typed."""
    heading: str
    """What it is for, in the help of all commands."""
    served: bool = False
    """Asked over HTTP and by assistants, too."""
    reported: bool = False
    """Answers a question that a report shows."""
    in_scenarios: bool = False
    """Asks what scenarios hold."""


#: In the order of the help.
COMMANDS: Sequence[Listed] = (
    Listed(frontier.frontier, "Ask", served=True, reported=True, in_scenarios=True),
    Listed(fits.fits, "Ask", served=True, reported=True),
    Listed(explain.explain, "Ask", served=True, reported=True),
    Listed(intensity.intensity, "Ask", served=True, reported=True),
    Listed(assess.assess, "Ask", served=True, reported=True),
    Listed(price.price, "Ask", served=True, reported=True),
    Listed(speculate.speculate, "Ask", served=True, reported=True),
    Listed(prefix_cache.cache, "Ask", served=True, reported=True),
    Listed(prefill.prefill, "Ask", served=True, reported=True),
    Listed(hour_cost.hour_cost, "Ask", served=True, reported=True),
    Listed(compare.compare, "Compare", served=True, reported=True, in_scenarios=True),
    Listed(what_if.what_if, "Compare", served=True, reported=True),
    Listed(infer.infer, "Invert", reported=True),
    Listed(implied.hour_price, "Invert", reported=True),
    Listed(implied.acceptance, "Invert"),
    Listed(implied.exponent, "Invert", reported=True),
    Listed(recommend.recommend, "Plan", served=True, reported=True),
    Listed(load.load, "Plan", served=True, reported=True),
    Listed(disaggregate.disaggregate, "Plan", served=True, reported=True),
    Listed(buy.buy, "Plan", served=True, reported=True),
    Listed(fleet.fleet, "Plan", served=True, reported=True),
    Listed(rollout.rollout, "Plan", served=True, reported=True),
    Listed(launch.launch, "Plan", served=True),
    Listed(report.report, "Show"),
    Listed(serve.serve, "Show"),
    Listed(mcp.mcp, "Show"),
    Listed(validate.validate, "Measure", served=True),
    Listed(watch.watch, "Measure"),
    Listed(calibrate.calibrate, "Measure"),
    Listed(uncertainty.uncertainty, "Study", reported=True),
    Listed(sweep.sweep, "Study"),
    Listed(sweep.query, "Study"),
    Listed(claims.claims, "Study", reported=True),
    Listed(scenario.run, "Study", reported=True),
    Listed(scenario.table, "Study"),
    Listed(scenario.figure, "Study"),
    Listed(gallery.reproduce, "Study"),
    Listed(sampling_rule.check, "Study"),
    Listed(catalog.hardware, "Catalogue", served=True),
    Listed(catalog.models, "Catalogue", served=True),
    Listed(offers.offers, "Catalogue"),
    Listed(catalog.scenarios, "Catalogue", served=True),
    Listed(traffic.traffic, "Catalogue", served=True),
    Listed(catalog.assumptions, "Catalogue", served=True),
    Listed(catalog.engines, "Catalogue", served=True),
    Listed(catalog.schema, "Catalogue"),
    Listed(catalog.fields, "Catalogue"),
    Listed(import_model.import_model, "Catalogue"),
)


def name_of(command: click.Command) -> str:
    """What is typed for a command."""
    return str(command.name)


def served() -> Mapping[str, Listed]:
    """Commands whose questions are asked over HTTP and by assistants, too, by name."""
    return {name_of(listed.command): listed for listed in COMMANDS if listed.served}


def reported() -> Sequence[str]:
    """Names of the commands whose answers a report shows."""
    return [name_of(listed.command) for listed in COMMANDS if listed.reported]
