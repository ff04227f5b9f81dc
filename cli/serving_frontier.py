"""The frontier of services: what users see in continuous batching against what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from inference_econ.errors import InputError

from . import options, show

if TYPE_CHECKING:
    from inference_econ.answers.serving_frontier import Metric, ServiceFrontier
    from inference_econ.serving.services import Deployments

choices = options.apply(
    click.option(
        "--serving",
        is_flag=True,
        help="Of services: 1/TPOT with the prefill of others, in continuous batching, against --y.",
    ),
    click.option(
        "--y",
        type=click.Choice(["cost", "throughput", "power"]),
        help="With --serving: $/M tokens of input and output [default], or output tokens/s per GPU or per MW.",
    ),
    click.option("--cached", type=options.NON_NEGATIVE, help="With --serving: prompt tokens in the prefix cache."),
)
#: Options that mean something else, or nothing, for services.
_REFUSED = {
    "context": "--context",
    "max_tokens_per_second": "--max-throughput",
    "batch": "--batch",
}


def asked(given: dict[str, Any], *, every: bool) -> Metric | None:
    """What is held against speed, if services are asked for; takes the choices out of what was given.

    Raises
    ------
    InputError
        If a choice does not go with the others.
    """
    serving, y, cached = (given.pop(name) for name in ("serving", "y", "cached"))
    if not serving:
        alone = [name for name, value in (("--y", y), ("--cached", cached)) if value is not None]
        if alone:
            raise InputError(f"{alone[0]} goes with --serving only")
        return None
    if every:
        raise InputError("--all does not go with --serving")
    given["cached"] = cached or 0
    return cast("Metric", y or "cost")


def run(
    y: Metric,
    given: Mapping[str, Any],
    changes: Sequence[str],
    plot: str | None,
    form: str,
    output: str | None,
    *,
    quiet: bool,
) -> None:
    """Find the frontier and show it."""
    from inference_econ.answers import serving_frontier as service_frontier
    from inference_econ.report import serving_frontier as service_frontier_tables
    from inference_econ.report import table as tables

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    front = service_frontier.service_frontier(_offer(given, changes))
    table = service_frontier_tables.service_frontier_table(front, y)
    if plot is not None:
        figures.draw_charts(service_frontier_tables.service_frontier_charts(front, y), plot, table.title)
    if form == "table":
        text = show.table_text(table, quiet=quiet) + ("" if quiet else f"\n{_drawing(front, y)}")
    elif form == "json":
        text = tables.to_json(service_frontier_tables.service_frontier_record(front))
    elif form == "csv":
        text = service_frontier_tables.service_frontier_csv(front)
    else:
        text = table.text("markdown")
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


def _drawing(front: ServiceFrontier, y: Metric) -> str:
    from inference_econ.report.serving_frontier import NAMES

    return show.curve_text(front.tokens_per_second_per_user.tolist(), front.metric(y).tolist(), NAMES[y][0])


def _offer(given: Mapping[str, Any], changes: Sequence[str]) -> Deployments:
    from inference_econ.answers.offer import offer
    from inference_econ.engine.speculation import Speculation
    from inference_econ.inputs import catalog

    refused = [option for name, option in _REFUSED.items() if given[name] is not None]
    if given["grid"] != "whole":
        refused.append("--grid paper")
    if refused:
        raise InputError(f"{refused[0]} does not go with --serving")
    lengths = {name: usual if given[name] is None else given[name] for name, usual in (("isl", 2000), ("osl", 500))}
    speculation = None
    if given["draft"] is not None:
        draft = catalog.model(given["draft"])
        speculation = Speculation.of("draft", given["acceptance"], given["max_draft"], model=draft)
    setup = options.setup({**given, "changes": changes})
    return offer(setup, options.requests({**given, **lengths}), options.space(given), speculation)
