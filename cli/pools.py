"""Commands about where prompts and their caches are: disaggregated serving, and prefix caches on tiers of memory."""

from __future__ import annotations

import math
from typing import Any

import click

from inference_econ.errors import InputError

from . import options, show
from .service import layout, traffic


def _one_size(given: dict[str, Any], accelerators: int | None) -> None:
    named = {
        "--request-rate": given["request_rate"],
        "--throughput": given["throughput"],
        "--accelerators": accelerators,
    }
    both = [name for name, value in named.items() if value is not None]
    if len(both) > 1:
        raise InputError(f"give only one of {', '.join(both)}")


@click.command()
@options.subject
@traffic
@click.option("--decode-on", type=options.Name("hardware"), help="Decode on another kind of hardware.")
@click.option("--accelerators", type=click.IntRange(2), help="The best fleet of so many chips instead of for a rate.")
@click.option(
    "--transfer",
    type=click.Choice(["layers", "whole"]),
    default="layers",
    show_default=True,
    help="Send each layer's cache while the next is computed, or all of it at the end.",
)
@click.option("--max-accelerators", type=options.POSITIVE, help="Largest instance [64, or 4 x the smallest].")
@click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism.")
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def disaggregate(
    decode_on: str | None,
    accelerators: int | None,
    transfer: str,
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Prompts on one pool of instances, answers on another: cost against speed beside aggregated serving.

    With a request rate (or --accelerators), the best fleet of x prefill and y decode instances, xPyD, that keeps the
    promises. MODEL and HARDWARE as in 'frontier'; --set hardware.FIELD changes both kinds.
    """
    from inference_econ.answers.disaggregated import compare, fleets, pools
    from inference_econ.answers.recommend import Targets
    from inference_econ.report import disaggregated

    _one_size(given, accelerators)
    if decode_on is not None and given["price"] is not None:
        raise InputError("--price is for one kind of hardware; with --decode-on each file's own price is taken")
    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    requests = options.requests(given)
    targets = Targets(given["ttft"] or math.inf, given["tpot"] or math.inf, given["percentile"])
    chosen = pools.pools(
        options.setup(given),
        requests,
        options.space(given),
        decode=None if decode_on is None else options.setup(given, hardware=decode_on),
        layer_by_layer=transfer == "layers",
    )
    compared = compare.compare(chosen, targets.ttft_seconds)
    fleet = together = None
    rate, bursts = given["request_rate"], given["arrival_scv"]
    if given["throughput"] is not None:
        rate = given["throughput"] / requests.osl.mean
    if accelerators is not None:
        fleet = fleets.largest(chosen, accelerators, targets, arrival_scv=bursts)
    elif rate is not None:
        fleet = fleets.smallest(chosen, rate, targets, arrival_scv=bursts)
        together = fleets.aggregated(chosen, rate, targets, arrival_scv=bursts)
    if plot is not None:
        table = disaggregated.comparison_table(compared)
        figures.draw_curves(disaggregated.curves(compared), plot, table.title)
    show.emit_table(
        lambda: disaggregated.comparison_table(compared, fleet, together),
        lambda: disaggregated.comparison_record(compared, fleet, together),
        form,
        output,
        quiet=quiet,
    )
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@click.command()
@options.subject
@click.option("--isl", type=options.POSITIVE, help="Prompt tokens [default: 4000].")
@click.option("--hit-rate", type=options.PROBABILITY, help="Share of them that was seen before [default: 0.75].")
@click.option("--osl", type=options.POSITIVE, default=500, show_default=True, help="Tokens of an answer.")
@click.option("--turns", type=options.POSITIVE, help="Questions of a conversation, instead of --isl and --hit-rate.")
@click.option("--user-tokens", type=options.POSITIVE, default=300, show_default=True, help="Of a question.")
@click.option("--system-tokens", type=options.NON_NEGATIVE, default=0, show_default=True, help="Equal for all users.")
@click.option("--think-time", type=options.Seconds(), default="60 s", show_default=True, help="Between two turns.")
@click.option("--lifetime", type=options.Seconds(), default="10 min", show_default=True, help="Of an unused cache.")
@click.option(
    "--request-rate", type=options.POSITIVE, help="Requests/s at an instance [80 % of what it completes uncached]."
)
@click.option("--tier", "tiers", multiple=True, metavar="NAME|PATH", help="dram, ssd or a file (repeat) [all].")
@layout
@click.option("--plot", type=options.PLACE, help="Write a picture: .svg, .png or .pdf.")
@options.output
def cache(
    isl: float | None,
    hit_rate: float | None,
    osl: float,
    turns: float | None,
    tiers: tuple[str, ...],
    plot: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Prompts that were seen before: compute them again, or read their cache from HBM, host memory or SSD.

    Seconds, dollars, and from which length on reading is quicker; with --turns also how much of a conversation each
    tier still holds. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers import prefix_cache as offload
    from inference_econ.answers.conversations import Conversation
    from inference_econ.answers.offer import offer
    from inference_econ.inputs import catalog
    from inference_econ.inputs.traffic import Requests
    from inference_econ.report import prefix_cache as offload_tables

    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)
    if turns is not None and (isl is not None or hit_rate is not None):
        raise InputError("give either --turns, or --isl and --hit-rate, not both")
    said = None
    if turns is not None:
        said = Conversation(
            turns, given["user_tokens"], osl, given["think_time"], given["lifetime"], given["system_tokens"]
        )
        prompt, prefix = offload.prompt(conversation=said)
    else:
        prompt, prefix = offload.prompt(4000.0 if isl is None else isl, 0.75 if hit_rate is None else hit_rate)
    known = [catalog.tier(name) for name in tiers or catalog.tier_names()]
    requests = Requests.build({"isl": prompt, "osl": osl}, origin="command line")
    one = offer(options.setup(given), requests, options.space(given))
    found = offload.offload(
        one, known, prefix_tokens=prefix, conversation=said, requests_per_second=given["request_rate"]
    )
    if plot is not None:
        figures.draw_chart(offload_tables.offload_chart(found), plot)
    show.emit_table(
        lambda: offload_tables.offload_table(found),
        lambda: offload_tables.offload_record(found),
        form,
        output,
        quiet=quiet,
    )
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)
