"""The command that builds up what an hour of an owned accelerator costs."""

from __future__ import annotations

from typing import Any

from . import options, show
from .help import command

_TERMS = (
    "lifetime_years",
    "utilisation",
    "host_watts",
    "pue",
    "dollars_per_kwh",
    "yearly_operations",
    "cost_of_capital",
)


@command(
    "hour-cost",
    "hardware purchase lifetime_years utilisation board_watts host_watts pue dollars_per_kwh yearly_operations "
    "cost_of_capital carbon",
    "inference-econ hour-cost h100_sxm --purchase 30000",
)
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
