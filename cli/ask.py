"""Commands that answer a question about one model on one chip."""

from __future__ import annotations

from typing import Any

import click

from . import options, serving_frontier, show


@click.command()
@options.subject
@options.domain
@options.workload
@serving_frontier.choices
@click.option(
    "--all", "every", is_flag=True, help="List dominated plans too (json, csv), and count plans that cannot run."
)
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def frontier(
    changes: tuple[str, ...],
    domain: int | None,
    every: bool,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Tokens/s per user against $ per million output tokens: what nothing beats in both.

    MODEL and HARDWARE are names (see 'inference-econ models' and 'inference-econ hardware') or paths to YAML files.
    Degrees that are pinned (--tp ... --accelerators) need not be on the grid; all others are tried. With --serving the
    points are services: every layout in continuous batching, with the prefill of its requests.
    """
    y = serving_frontier.asked(given, every=every)
    if y is not None:
        what_ifs = options.with_domain(changes, domain)
        serving_frontier.run(y, given, what_ifs, plot, form, output, quiet=quiet)
        return
    from inference_econ.inputs.asks import Settings
    from inference_econ.report import frontier as frontier_tables
    from inference_econ.report import table as tables
    from inference_econ.studies.settings import frontier_of

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    settings = Settings.build(options.settings(given, changes, domain), origin="command line")
    with show.progress_bar(quiet=quiet) as progress:
        front = frontier_of(settings, progress=progress)
    plans = front.plans() if every else None
    if plot is not None:
        figures.draw_frontier(front, plot, frontier_tables.frontier_title(front))
    shown = [frontier_tables.frontier_table(front)]
    if plans is not None:
        shown.append(frontier_tables.plans_table(plans))
    if form == "table":
        text = "\n".join(show.table_text(table, quiet=quiet) for table in shown)
        if not quiet:
            text += "\n" + show.curve_text(front.tokens_per_second.tolist(), front.dollars.tolist())
    elif form == "json":
        text = tables.to_json(frontier_tables.frontier_record(front, plans))
    elif form == "csv":
        text = frontier_tables.frontier_csv(front, plans)
    else:
        text = "\n".join(table.text("markdown") for table in shown)
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@click.command()
@options.subject
@options.domain
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="Accelerators that share attention.")
@click.option("--dp", type=click.IntRange(1), default=1, show_default=True, help="Groups of them in a pipeline stage.")
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline stages.")
@click.option("--ep", type=click.IntRange(1), help="Expert-parallel ranks of a stage; as many as possible by default.")
@click.option("--batch", type=options.POSITIVE, default=1, show_default=True, help="Sequences decoded together.")
@click.option("--cut", type=click.Choice(["1d", "2d"]), default="1d", show_default=True, help="How matrices are cut.")
@click.option(
    "--context", type=options.NON_NEGATIVE, help="Cached tokens per sequence [default: 2000; with --prefill 0]."
)
@click.option("--prefill", type=options.POSITIVE, help="Explain a prefill step that reads so many prompt tokens.")
@click.option(
    "--operators/--no-operators",
    default=None,
    help="Show the operator table, and what takes the memory of an accelerator. [default: operators; for csv the parts "
    "of the step]",
)
@options.output
def explain(
    domain: int | None,
    cut: str,
    context: float | None,
    prefill: float | None,
    operators: bool | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Take one step apart, of decode or of prefill: seconds by part and by operator, what bounds them, the memory."""
    from inference_econ.answers.explain import explain as explain_step
    from inference_econ.engine.layouts.pins import Pins
    from inference_econ.report import explain as explanation_tables
    from inference_econ.report import table as tables

    pins = Pins(**{name: given[name] for name in ("tp", "dp", "pp", "ep", "batch")})
    explanation = explain_step(
        options.setup(given, domain_size=domain),
        pins,
        context=context,
        prompt=prefill,
        cut="2d" if cut == "2d" else "1d",
    )
    shown = [explanation_tables.explain_table(explanation)]
    if form != "csv" and operators is not False:
        shown.append(explanation_tables.operator_table(explanation))
        shown.append(explanation_tables.memory_table(explanation))
    if form == "table":
        texts = [show.table_text(table, quiet=quiet) for table in shown]
        if not quiet:
            texts.insert(1, show.bar_text(explanation_tables.named_parts(explanation)))
        text = "\n".join(texts)
    elif form == "json":
        text = tables.to_json(explanation_tables.explain_record(explanation))
    elif form == "csv" and operators:
        text = explanation_tables.operator_csv(explanation)
    else:
        text = "\n".join(table.text("csv" if form == "csv" else "markdown") for table in shown)
    show.emit(text, output, quiet=quiet)
