"""Commands about requests: what tokens cost at a traffic, and which deployment to take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from inference_econ.errors import InputError

from . import options, proposals, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inference_econ.answers.recommend import Targets
    from inference_econ.serving.services import Deployments

lengths = options.apply(
    click.option(
        "--isl", default="2000", show_default=True, help="Prompt tokens: 2000, uniform:800:1000, lognormal:2000:0.5."
    ),
    click.option("--osl", default="500", show_default=True, help="Output tokens, in the same forms."),
    click.option("--cached", type=options.NON_NEGATIVE, default=0, help="Prompt tokens found in the prefix cache."),
)

burstiness = click.option(
    "--arrival-scv", type=options.NON_NEGATIVE, default=1, help="Burstiness: 1 if Poisson (default), more if bursty."
)

promises = options.apply(
    click.option("--ttft", type=options.Seconds(), help="Promise: time to first token, for example '500 ms' or 0.5."),
    click.option("--tpot", type=options.Seconds(), help="Promise: time per output token, for example '30 ms'."),
)

traffic = options.apply(
    lengths,
    click.option("--request-rate", type=options.POSITIVE, help="Requests/s in all [default: 80 % of an instance]."),
    click.option("--throughput", type=options.POSITIVE, help="The same as output tokens per second."),
    burstiness,
    promises,
    click.option(
        "--percentile", type=click.Choice(["mean", "p50", "p90", "p99"]), default="p90", help="Of the promises [p90]."
    ),
)

layout = options.apply(
    click.option("--tp", type=click.IntRange(1), help="Accelerators that share attention; all are tried by default."),
    click.option("--dp", type=click.IntRange(1), help="Groups of them in a pipeline stage."),
    click.option("--pp", type=click.IntRange(1), help="Pipeline stages."),
    click.option("--ep", type=click.IntRange(1), help="Expert-parallel ranks of a stage."),
    click.option("--accelerators", type=click.IntRange(1), help="Size of an instance."),
    click.option("--max-accelerators", type=options.POSITIVE, help="Largest instance [64, or 4 x the smallest]."),
    click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism."),
)


def offer_of(given: Mapping[str, Any], hardware: str | None = None) -> Deployments:
    """What the options of a command ask for, perhaps on other hardware: every layout as a service."""
    from inference_econ.answers.offer import offer

    setup = options.setup(given, hardware=hardware)
    return offer(setup, options.requests(given), options.space(given), proposals.asked(given))


def _rate(given: Mapping[str, Any], layouts: Deployments) -> float | None:
    rate: float | None = given["request_rate"]
    if given["throughput"] is None:
        return rate
    if rate is not None:
        raise InputError("give either --request-rate or --throughput, not both")
    return float(given["throughput"] / layouts.requests.osl.mean)


def _targets(given: dict[str, Any]) -> Targets:
    from inference_econ.answers.recommend import Targets

    return Targets(given["ttft"] or math.inf, given["tpot"] or math.inf, given["percentile"])


@click.command()
@options.subject
@traffic
@layout
@proposals.proposer
@click.option("--replicas", type=click.IntRange(1), help="Instances; by default the fewest that keep up.")
@click.option(
    "--api-prices", help="Compare: dollars per million tokens, for example input=0.6,cached_input=0.1,output=0.6."
)
@options.output
def price(api_prices: str | None, form: str, output: str | None, quiet: bool, **given: Any) -> None:
    """Dollars per million input, cached input and output tokens at a traffic.

    The cheapest deployment that keeps the promises is priced; its idle time too. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.price import price as priced
    from inference_econ.report import service

    layouts = offer_of(given)
    found = priced(
        layouts,
        _rate(given, layouts),
        targets=_targets(given),
        replicas=given["replicas"],
        arrival_scv=given["arrival_scv"],
    )
    rate, api = layouts.setup.dollars_per_accelerator_hour, _api_prices(api_prices)
    show.emit_table(
        lambda: service.price_table(found, rate, api),
        lambda: service.price_record(found, rate, api),
        form,
        output,
        quiet=quiet,
    )


def _api_prices(text: str | None) -> dict[str, float] | None:
    from inference_econ.answers.price import KINDS

    if text is None:
        return None
    found = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if kind.strip() not in KINDS or not 0 <= number < math.inf:
            raise InputError(
                f"--api-prices: {part!r} is no price of a kind of token; write for example "
                "input=0.6,cached_input=0.1,output=0.6 (USD per million tokens)"
            )
        found[kind.strip()] = number
    return found


@click.command()
@options.subject
@traffic
@layout
@proposals.proposer
@click.option(
    "--on", "further", multiple=True, type=options.Name("hardware"), help="Further hardware to choose from (repeat)."
)
@click.option("--choices", type=click.IntRange(1, 50), default=5, show_default=True, help="How many to show.")
@options.output
def recommend(
    further: tuple[str, ...],
    choices: int,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """The cheapest deployments that keep TTFT and TPOT at a request rate: GPUs, layout, instances, cost.

    With --on, of several kinds of hardware. What no deployment can keep is answered with the best that can be reached.
    """
    from inference_econ.answers.recommend import recommend as cheapest
    from inference_econ.report import service

    if further and given["price"] is not None:
        raise InputError("--price is for one kind of hardware; with --on each file's own price is taken")
    found = [offer_of(given, name) for name in dict.fromkeys((given["hardware"], *further))]
    targets = _targets(given)
    chosen = cheapest(found, _rate(given, found[0]), targets, arrival_scv=given["arrival_scv"], most=choices)
    show.emit_table(
        lambda: service.recommend_table(chosen, targets),
        lambda: service.recommend_record(chosen, targets),
        form,
        output,
        quiet=quiet,
    )
