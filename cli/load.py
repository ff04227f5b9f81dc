"""The command that puts a fleet under load."""

from __future__ import annotations

import math
from typing import Any

import click

from . import options, proposals, service, show


class Rates(click.ParamType[tuple[float, ...]]):
    """Positive numbers between commas."""

    name = "RATE,RATE,.."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The numbers, in the order given."""
        if isinstance(value, tuple):
            return value
        try:
            rates = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            rates = ()
        if not rates or not all(0 < rate < math.inf for rate in rates):
            self.fail(f"{value!r} is no list of positive request rates; write for example 1,2,5,10.", param, ctx)
        return rates


@click.command()
@options.subject
@service.lengths
@service.burstiness
@service.promises
@service.layout
@proposals.proposer
@click.option("--rates", type=Rates(), help="Requests/s in all, between commas [up to 1.2 x what it completes].")
@click.option("--replicas", type=click.IntRange(1), default=1, show_default=True, help="Instances that share the load.")
@click.option("--simulate", is_flag=True, help="Play every load in a simulation too, request by request.")
@click.option("--plot", type=options.PLACE, help="Write a picture of latencies and cost: .svg, .png or .pdf.")
@options.output
def load(
    rates: tuple[float, ...] | None,
    replicas: int,
    simulate: bool,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Utilisation, TTFT, TPOT, goodput and dollars per million tokens of one fleet against the offered load.

    Of layouts that are left open, the one that completes most per GPU is taken. With --ttft or --tpot, 'kept' is the
    share of requests that keep both. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers import load as load_sweep
    from inference_econ.answers.recommend import Targets
    from inference_econ.report import load as load_tables
    from inference_econ.report import table as tables

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    layouts = service.offer_of(given)
    targets, price = (
        Targets(given["ttft"] or math.inf, given["tpot"] or math.inf),
        layouts.setup.dollars_per_accelerator_hour,
    )
    with show.progress_bar(quiet=quiet) as progress:
        points = load_sweep.sweep(
            load_sweep.usual_service(layouts, targets),
            rates,
            replicas=replicas,
            targets=targets,
            arrival_scv=given["arrival_scv"],
            simulate=simulate,
            progress=progress,
        )
    shown = [load_tables.load_table(points, targets, price)]
    if simulate:
        shown.append(load_tables.simulation_table(points))
    if plot is not None:
        figures.draw_charts(load_tables.load_charts(points), plot, shown[0].title)
    if form == "table":
        text = "\n".join(show.table_text(table, quiet=quiet) for table in shown)
    elif form == "json":
        text = tables.to_json(load_tables.load_sweep_record(points, targets, price))
    elif form == "csv":
        text = load_tables.load_csv(points)
    else:
        text = "\n".join(table.text("markdown") for table in shown)
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)
