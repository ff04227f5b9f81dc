"""The command that builds up what an hour of an owned accelerator costs."""

from __future__ import annotations

from typing import Any

import click

from . import options, show
from .help import Command, example
from .parameters import NON_NEGATIVE, POSITIVE, PROBABILITY, Name, Number


@click.command("hour-cost", cls=Command, epilog=example("inference-econ hour-cost h100_sxm --purchase 30000"))
@click.argument("hardware", type=Name("hardware"))
@click.option("--purchase", type=POSITIVE, required=True, help="USD per accelerator, with host and network.")
@click.option("--lifetime", type=POSITIVE, default=5, show_default=True, help="Years.")
@click.option("--utilization", type=PROBABILITY, default=0.8, show_default=True, help="Share of hours sold.")
@click.option("--board-watts", type=NON_NEGATIVE, help="Power of the accelerator; by default of its file.")
@click.option("--host-watts", type=NON_NEGATIVE, default=300, show_default=True, help="Its share of the host.")
@click.option("--pue", type=Number(min=1), default=1.2, show_default=True, help="Building over computers.")
@click.option("--kwh", type=NON_NEGATIVE, default=0.08, show_default=True, help="USD per kWh.")
@click.option("--operations", type=NON_NEGATIVE, default=0.05, show_default=True, help="Yearly share of price.")
@click.option("--capital", type=NON_NEGATIVE, default=0.08, show_default=True, help="Yearly interest.")
@options.output
def hour_cost(hardware: str, output: options.Output, **choices: Any) -> None:
    """Build up the cost of an hour in use: purchase, lifetime, utilisation, watts, PUE, electricity, capital.

    The total can be given to other commands as --price.
    """
    from inference_econ.answers.hour_cost import Ownership, hour_cost
    from inference_econ.report.hour_cost import HourCostPage

    ownership = Ownership(
        choices["purchase"],
        choices["lifetime"],
        utilisation=choices["utilization"],
        board_watts=choices["board_watts"],
        host_watts=choices["host_watts"],
        pue=choices["pue"],
        dollars_per_kwh=choices["kwh"],
        yearly_operations=choices["operations"],
        cost_of_capital=choices["capital"],
    )
    show.emit(HourCostPage(hour_cost(hardware, ownership)), output)
