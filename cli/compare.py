"""The command that puts several frontiers side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from inference_econ.errors import InputError

from . import options, proposals, show

if TYPE_CHECKING:
    from inference_econ.inputs.asks import Settings


_EXAMPLES = """\b
Examples:
  inference-econ compare llama_3_70b --on h100_sxm --on h200_sxm --weights fp8 --plot compare.svg
  inference-econ compare llama_3_70b qwen3_32b --on h100_sxm
  inference-econ compare llama_3_70b --on h100_sxm --weights bf16 --weights fp8
  inference-econ compare llama_3_70b --on h100_sxm --assumptions profiles/hopper --assumptions ideal
  inference-econ compare llama_3_70b --on h100_sxm --series "fast HBM: hardware.hbm_bytes_per_second=6.7 TB/s"
"""


@click.command(epilog=_EXAMPLES)
@click.argument("models", nargs=-1, type=options.Name("models"), metavar="[MODEL]...")
@click.option("--on", "--hardware", "hardware", multiple=True, type=options.Name("hardware"), help="Chip; repeatable.")
@click.option("--weights", multiple=True, type=click.Choice(options.DTYPES), help="Format of the weights; repeatable.")
@click.option("--activations", multiple=True, type=click.Choice(options.DTYPES), help="Of activations; repeatable.")
@click.option("--kv", multiple=True, type=click.Choice(options.DTYPES), help="Of the KV cache; repeatable.")
@click.option(
    "--assumptions",
    multiple=True,
    type=options.Name("assumptions"),
    help="Preset; repeatable; by default each chip's own, as in 'frontier'.",
)
@click.option(
    "--price", "prices", multiple=True, metavar="[HARDWARE=]USD", help="Per accelerator and hour; repeatable by chip."
)
@click.option(
    "--series",
    "listed",
    multiple=True,
    metavar="'LABEL: KEY=VALUE, ...'",
    help="A series of its own: keys are settings (model, hardware, weights, price, tp, ...) or what-ifs with a dot "
    "(hardware.hbm_bytes_per_second=6.7 TB/s).",
)
@click.option(
    "--speed", "speeds", multiple=True, type=options.POSITIVE, help="Column of the table [tokens/s per user]."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="What-if for all series: hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE.",
)
@options.domain
@options.workload
@proposals.proposer
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def compare(
    models: tuple[str, ...],
    hardware: tuple[str, ...],
    weights: tuple[str, ...],
    activations: tuple[str, ...],
    kv: tuple[str, ...],
    assumptions: tuple[str, ...],
    prices: tuple[str, ...],
    listed: tuple[str, ...],
    speeds: tuple[float, ...],
    changes: tuple[str, ...],
    domain: int | None,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Frontiers side by side: every combination of models, hardware, formats and presets, and further series.

    MODEL is a name (see 'inference-econ models') or a path; what is given several times is compared.
    """
    from inference_econ.report import compare as comparison_tables
    from inference_econ.report import table as tables
    from inference_econ.studies.compare import compare as compare_all

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    with show.progress_bar(quiet=quiet) as progress:
        result = compare_all(
            models,
            hardware,
            weights=weights,
            activations=activations,
            kv=kv,
            assumptions=assumptions,
            price=_prices(prices),
            series=_series(listed),
            progress=progress,
            **options.settings(proposals.settings(given), changes, domain),
        )
    columns = sorted(set(speeds)) or comparison_tables.common_speeds(result.curves)
    if plot is not None:
        figures.save(figures.draw(result), [plot])
    table = comparison_tables.comparison_table(result, columns)
    if form == "table":
        text = show.table_text(table, quiet=quiet)
    elif form == "json":
        text = tables.to_json(comparison_tables.comparison_record(result, columns))
    elif form == "csv":
        text = comparison_tables.comparison_csv(result)
    else:
        text = table.text("markdown") + "".join(f"\n{label}: {reason}\n" for label, reason in result.missing.items())
    show.emit(text, output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


def _prices(texts: tuple[str, ...]) -> float | dict[str, float] | None:
    """``2.5`` for all hardware, or ``h100_sxm=2.5`` by chip."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(texts[0], texts[0])
    found: dict[str, float] = {}
    for text in texts:
        name, sign, number = (part.strip() for part in text.rpartition("="))
        if not sign or name in found:
            raise InputError(f"--price {text!r}: write one price for all, or HARDWARE=USD once for each chip")
        found[name] = _number(number, text)
    return found


def _number(text: str, given: str) -> float:
    try:
        return options.POSITIVE.convert(text, None, None)
    except click.BadParameter as error:
        raise InputError(f"--price {given!r}: {error.message}") from error


def _series(texts: tuple[str, ...]) -> dict[str, Settings]:
    """``LABEL: KEY=VALUE, KEY=VALUE`` each; a comma inside brackets belongs to a value."""
    from inference_econ.inputs.asks import Settings

    found: dict[str, Settings] = {}
    for text in texts:
        label, colon, rest = (part.strip() for part in text.partition(":"))
        if label in found:
            raise InputError(f"--series {text!r}: the label {label!r} is taken")
        pairs: dict[str, str] = {}
        for part in re.split(r",(?![^\[{]*[\]}])", rest):
            key, sign, value = (piece.strip() for piece in part.partition("="))
            if not (label and colon and key and sign and value) or key in pairs:
                raise InputError(f"--series {text!r}: write 'LABEL: KEY=VALUE, KEY=VALUE', each key once")
            pairs[key] = value
        found[label] = Settings.from_text(pairs, origin=f"--series {label!r}")
    return found
