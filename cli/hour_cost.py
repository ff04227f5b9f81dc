"""The command that builds up what an hour of an owned accelerator costs."""

from __future__ import annotations

from typing import Any

import click

from . import options, show
from .help import Command, example
from .parameters import ANY_WATTS, NON_NEGATIVE, POSITIVE, PROBABILITY, Name, Number

_TERMS = (
    "lifetime_years",
    "utilisation",
    "host_watts",
    "pue",
    "dollars_per_kwh",
    "yearly_operations",
    "cost_of_capital",
)


@click.command("hour-cost", cls=Command, epilog=example("inference-econ hour-cost h100_sxm --purchase 30000"))
@click.argument("hardware", type=Name("hardware"))
@click.option("--purchase", type=POSITIVE, help="USD per accelerator, with host and network [that of its file].")
@click.option("--lifetime", "lifetime_years", type=POSITIVE, help="Years [5].")
@click.option("--utilization", "utilisation", type=PROBABILITY, help="Share of hours sold [0.8].")
@click.option("--board-watts", type=ANY_WATTS, help="Power of the accelerator [that of its file].")
@click.option("--host-watts", type=ANY_WATTS, help="Its share of the host [300].")
@click.option("--pue", type=Number(min=1), help="Building over computers [1.2].")
@click.option("--kwh", "dollars_per_kwh", type=NON_NEGATIVE, help="USD per kWh [0.08].")
@click.option("--operations", "yearly_operations", type=NON_NEGATIVE, help="Yearly share of price [0.05].")
@click.option("--capital", "cost_of_capital", type=NON_NEGATIVE, help="Yearly interest [0.08].")
@options.carbon
@options.output
def hour_cost(
    hardware: str,
    purchase: float | None,
    board_watts: float | None,
    carbon: str | None,
    output: options.Output,
    **choices: Any,
) -> None:
    """Build up the cost of an hour in use: purchase, lifetime, utilisation, watts, PUE, electricity, capital.

    --price owned is this hour, where the file of the hardware says what it costs to buy; other totals can be given as
    --price.
    """
    from inference_econ.answers.hour_cost import hour_cost
    from inference_econ.inputs import catalog, grids

    terms = catalog.ownership().replace(**{name: value for name, value in choices.items() if value is not None})
    grid = None if carbon is None else grids.grid(carbon)
    cost = hour_cost(hardware, purchase, board_watts=board_watts, terms=terms, grid=grid)
    show.answer(cost, output)
