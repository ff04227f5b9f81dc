"""The command that plans the fleet of a day, and plays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from inference_econ.errors import InputError, of_option

from . import extras, market, options, prices, proposals, show
from .help import Command, example
from .parameters import NON_NEGATIVE, PROBABILITY, TIME, Name, Rates

if TYPE_CHECKING:
    from inference_econ.inputs import Requests

_WAYS = click.Choice(["reserved", "on_demand", "spot", "owned"])


@click.command(
    cls=Command,
    epilog=example(
        "inference-econ fleet llama_3_8b h100_sxm --rates 5,3,8,20,30,12 --ttft 500 --tpot 30",
        "inference-econ fleet llama_3_70b h100_sxm --on b200 --stock b200=8 --rates 5,3,8,20,30,12 --tpot 40",
    ),
)
@options.subject
@click.option("--rates", type=Rates(), help="Requests/s of each hour, between commas [those of the traffic].")
@options.lengths
@options.burstiness
@options.promises
@options.options("percentile")
@click.option("--on", "further", multiple=True, type=Name("hardware"), help="Further hardware to choose from (repeat).")
@click.option("--stock", multiple=True, metavar="HARDWARE=N", help="GPUs that can be had at once (repeat) [no end].")
@click.option(
    "--pay",
    multiple=True,
    type=_WAYS,
    help="How machines may be paid for (repeat) [rented in all ways that files have prices of].",
)
@click.option(
    "--policy",
    type=click.Choice(["in_flight", "rate", "utilization"]),
    default="in_flight",
    show_default=True,
    help="What the autoscaler looks at: requests in flight, requests/s (as KEDA does), how busy replicas are.",
)
@click.option(
    "--target",
    type=PROBABILITY,
    help="Share of what a replica serves within the SLOs that it holds [the cheapest that meets them for 99 %].",
)
@click.option("--min-replicas", type=click.IntRange(0), default=1, show_default=True, help="Replicas at all hours.")
@click.option("--start-up", type=TIME, help="From the order of a replica until it serves, for example '5 min' [300 s].")
@click.option("--interruptions", type=NON_NEGATIVE, help="Of a spot machine, in an hour [0.05].")
@click.option("--spot-share", type=PROBABILITY, help="Share of the capacity that may be spot [0.5].")
@options.rent
@options.scheduler
@options.layout
@proposals.proposer
@options.picture("Write a picture of the day: .svg, .png, .pdf or .html.")
@options.yes
@options.output
def fleet(further: tuple[str, ...], output: options.Output, **choices: Any) -> None:
    """The cheapest fleet of a day: chips, reserved, on demand and spot, and what an autoscaler makes of it.

    A mixture of chips is found for traffic by hour that is known before, proven to be the cheapest, and played beside
    an autoscaler that does not know it. Replicas and their capacity are those of 'recommend --together': instances
    that do both only; where pools would be cheaper it is said.
    """
    requests, targets = options.requests(choices), options.targets(choices)
    day = _day(choices, requests)
    # By hour, so that within an hour they come as if it went on.
    requests = requests if requests.arrivals is None else requests.replace(arrivals=requests.arrivals.replace(rates=()))
    chips = tuple(dict.fromkeys((choices["hardware"], *further)))
    choices["price"] = prices.of_chips(choices["price"], chips)
    stock = _stock(choices["stock"])
    with extras.needed("studies", "scipy"), show.progress_bar(quiet=output.quiet) as progress:
        from inference_econ.answers.fleet import fleet
        from inference_econ.inputs import catalog

        told = {
            "startup_seconds": choices["start_up"],
            "interruptions_per_hour": choices["interruptions"],
            "spot_share": choices["spot_share"],
        }
        elasticity = catalog.elasticity().replace(**{name: value for name, value in told.items() if value is not None})
        answered = fleet(
            market.of_chips(choices, requests, chips),
            day,
            targets,
            stock=stock,
            ways=choices["pay"] or ("reserved", "on_demand", "spot"),
            elasticity=elasticity,
            progress=progress,
            **{name: choices[name] for name in ("policy", "target", "min_replicas", "arrival_scv")},
        )
    show.answer(answered, output)


def _day(choices: options.Choices, requests: Requests) -> Sequence[float]:
    """Requests per second of each hour.

    Raises
    ------
    InputError
        If nobody says it.
    """
    from inference_econ.answers.fleet import rates_by_hour

    if choices["rates"] is not None:
        return tuple(choices["rates"])
    if requests.arrivals is None:
        raise InputError("give the requests/s of each hour: --rates R,R,... or --traffic FILE", option="rates")
    return rates_by_hour(requests.arrivals)


def _stock(texts: Sequence[str]) -> Mapping[str, int]:
    """Accelerators by chip.

    Raises
    ------
    InputError
        If one is not written so, or given twice.
    """
    from inference_econ.inputs import catalog

    stock: dict[str, int] = {}
    for text in texts:
        name, sign, count = (part.strip() for part in text.partition("="))
        if not sign or not count.isdigit():
            raise InputError(f"--stock {text!r}: write HARDWARE=N, for example h100_sxm=64", option="stock")
        with of_option("stock"):
            chip = catalog.meaning("hardware", name).name
        if chip in stock:
            raise InputError(f"--stock {chip} is given twice; give it once", option="stock")
        stock[chip] = int(count)
    return stock
