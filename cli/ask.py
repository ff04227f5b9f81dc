"""Commands that answer a question about one model on one chip."""

from __future__ import annotations

import click

from inference_econ.errors import InputError

from . import options, show


@click.command()
@options.subject
@click.option("--context", type=options.NON_NEGATIVE, help="Cached tokens per sequence; instead of --isl and --osl.")
@click.option("--isl", type=options.NON_NEGATIVE, help="Input tokens of a request [default: 2000].")
@click.option("--osl", type=options.POSITIVE, help="Output tokens of a request [default: 500].")
@click.option(
    "--grid",
    type=click.Choice(["whole", "paper"]),
    default="whole",
    show_default=True,
    help="Whole-number deployments, or the published study's logarithmic grid.",
)
@click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism.")
@click.option("--draft", type=options.Name("models"), help="Model that proposes tokens (speculative decoding).")
@click.option(
    "--acceptance", type=options.PROBABILITY, default=0.8, show_default=True, help="Share of proposals accepted."
)
@click.option("--max-draft", type=click.IntRange(1, 64), default=5, show_default=True, help="Longest draft.")
@click.option("--max-throughput", type=options.POSITIVE, help="Demand: total tokens/s that can be sold.")
@click.option("--max-accelerators", type=options.POSITIVE, help="Largest instance [default: 64, or 4 x the smallest].")
@click.option("--plot", type=click.Path(), help="Write a picture: .svg, .png or .pdf.")
@options.output
def frontier(
    model: str,
    hardware: str,
    weights: str | None,
    activations: str | None,
    kv: str | None,
    price: float | None,
    assumptions: str | None,
    changes: tuple[str, ...],
    context: float | None,
    isl: float | None,
    osl: float | None,
    grid: str,
    pipeline: bool,
    draft: str | None,
    acceptance: float,
    max_draft: int,
    max_throughput: float | None,
    max_accelerators: float | None,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Tokens/s per user against $ per million output tokens: what nothing beats in both.

    MODEL and HARDWARE are names (see 'inference-econ models' and 'inference-econ hardware') or paths to YAML files.
    """
    if context is not None and (isl is not None or osl is not None):
        raise InputError("give either --context, or --isl and --osl, not both")
    from inference_econ import study, tables
    from inference_econ.spec.scenario import Settings

    if plot is not None:
        from inference_econ import figures

        figures.check_path(plot)
    given = {
        "model": model,
        "hardware": hardware,
        "assumptions": assumptions,
        "changes": study.checked_changes(changes),
        "weights": weights,
        "activations": activations,
        "kv": kv,
        "price": price,
        "context": context,
        "isl": isl,
        "osl": osl,
        "grid": grid,
        "pipeline": pipeline,
        "draft": draft,
        "acceptance": acceptance,
        "max_draft": max_draft,
        "max_tokens_per_second": max_throughput,
        "max_accelerators": max_accelerators,
    }
    settings = Settings.build(
        {name: value for name, value in given.items() if value is not None}, origin="command line"
    )
    with show.progress_bar(quiet=quiet) as progress:
        front = study.ask_frontier(settings, progress=progress)
    if plot is not None:
        figures.draw_frontier(front, plot, tables.frontier_title(front))
    if form == "table":
        text = show.table_text(tables.frontier_table(front), quiet=quiet)
        if not quiet:
            text += "\n" + show.curve_text(front.tokens_per_second.tolist(), front.dollars.tolist())
    elif form == "json":
        text = tables.to_json(tables.frontier_record(front))
    elif form == "csv":
        text = tables.frontier_csv(front)
    else:
        text = tables.frontier_table(front).text("markdown")
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@click.command()
@options.subject
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
@click.option("--operators", is_flag=True, help="Show the operator table too: what each row does, and what bounds it.")
@options.output
def explain(
    model: str,
    hardware: str,
    weights: str | None,
    activations: str | None,
    kv: str | None,
    price: float | None,
    assumptions: str | None,
    changes: tuple[str, ...],
    tp: int,
    dp: int,
    pp: int,
    ep: int | None,
    batch: float,
    cut: str,
    context: float | None,
    prefill: float | None,
    operators: bool,
    form: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Take one step apart, of decode or of prefill: seconds by part, what limits it, the memory it needs."""
    from inference_econ import catalog, explanation_tables, study, tables
    from inference_econ.explanation import explain as explain_step
    from inference_econ.solve import PRESETS

    sorted_changes = study.split_changes(changes)
    explanation = explain_step(
        catalog.model(model, changes=sorted_changes["model"]),
        catalog.hardware(hardware, changes=sorted_changes["hardware"]),
        tp=tp,
        dp=dp,
        pp=pp,
        ep=ep,
        batch=batch,
        context=context,
        prompt=prefill,
        cut="2d" if cut == "2d" else "1d",
        weights=weights,
        activations=activations,
        kv=kv,
        assumptions=catalog.assumptions(assumptions or PRESETS["whole"], changes=sorted_changes["assumptions"]),
        price=price,
    )
    shown = [explanation_tables.explain_table(explanation)]
    if operators:
        shown.append(explanation_tables.operator_table(explanation))
    if form == "table":
        text = "\n".join(show.table_text(table, quiet=quiet) for table in shown)
        if not quiet:
            text = text + "\n" + show.bar_text(explanation_tables.named_parts(explanation))
    elif form == "json":
        text = tables.to_json(explanation_tables.explain_record(explanation))
    else:
        text = "\n".join(table.text("csv" if form == "csv" else "markdown") for table in shown)
    show.emit(text, output, quiet=quiet)
