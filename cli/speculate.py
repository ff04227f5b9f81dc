"""Commands about speculation: where it pays on a deployment, and whether its rule keeps the target's distribution."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from inference_econ.errors import InputError

from . import options, proposals, show
from .service import lengths


@click.command()
@options.subject
@options.domain
@proposals.proposer
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="Accelerators that share attention.")
@click.option("--dp", type=click.IntRange(1), default=1, show_default=True, help="Groups of them in a pipeline stage.")
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline stages.")
@click.option("--ep", type=click.IntRange(1), help="Expert-parallel ranks of a stage; as many as possible by default.")
@lengths
@click.option("--plot", type=options.PLACE, help="Write a picture of speed-up and draft length: .svg, .png or .pdf.")
@options.output
def speculate(
    domain: int | None,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals.
    """
    speculation = proposals.asked(given)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram")
    from inference_econ.answers import speculate as speculating
    from inference_econ.engine.layouts.pins import Pins
    from inference_econ.report import speculate as speculation_tables
    from inference_econ.report import table

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    found = speculating.speculate(
        options.setup(given, domain_size=domain),
        options.requests(given),
        speculation,
        Pins(**{name: given[name] for name in ("tp", "dp", "pp", "ep")}),
    )
    if plot is not None:
        figures.draw_charts(speculation_tables.charts(found), plot, textwrap.fill(speculation_tables.title(found), 80))
    if form == "json":
        text = table.to_json(speculation_tables.speculation_record(found))
    elif form == "table":
        text = show.table_text(speculation_tables.speculation_table(found), quiet=quiet)
    else:
        text = speculation_tables.speculation_table(found).text("csv" if form == "csv" else "markdown")
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@click.command("speculate-check")
@click.argument("file", type=click.Path(), required=False)
@click.option("--vocabulary", type=click.IntRange(2, 10_000), help="Tokens of random distributions [20].")
@click.option("--draft-length", type=click.IntRange(1, 64), default=4, show_default=True, help="Proposals per round.")
@click.option(
    "--rounds", type=click.IntRange(2, 100_000_000), default=100_000, show_default=True, help="Rounds to draw."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random numbers.")
@options.output
def check(
    file: str | None,
    vocabulary: int | None,
    draft_length: int,
    rounds: int,
    seed: int,
    form: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Draw tokens by the accept/reject rule, and hold them against the target's distribution and the formula.

    FILE is a CSV table with the columns target and draft, the probabilities of one token per line; without it random
    distributions are drawn, others at each position.
    """
    from inference_econ.report import speculate as speculation_tables
    from inference_econ.report import table
    from inference_econ.studies import sampling_rule

    if file is not None and vocabulary is not None:
        raise InputError("--vocabulary is for random distributions; with a file its lines are the vocabulary")
    if file is None:
        target, draft = sampling_rule.random_distributions(vocabulary or 20, draft_length, seed)
    else:
        target, draft = sampling_rule.read(file)
    try:
        found = sampling_rule.check(target, draft, draft_length, rounds=rounds, seed=seed)
    except InputError as error:
        raise error if file is None else InputError(f"{file}: {error}") from error
    if form == "json":
        text = table.to_json(speculation_tables.check_record(found))
    elif form == "table":
        text = show.table_text(speculation_tables.check_table(found), quiet=quiet)
    else:
        text = speculation_tables.check_table(found).text("csv" if form == "csv" else "markdown")
    show.emit(text, output, quiet=quiet)
