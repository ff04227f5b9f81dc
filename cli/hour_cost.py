"""The command that builds up what an hour of an owned accelerator costs."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ.inputs import catalog

from . import options
from .help import question


@question("hour-cost")
def hour_cost(
    hardware: str, purchase: float | None, board_watts: float | None, carbon: str | None, **choices: Any
) -> options.Shown:
    """Build up the cost of an hour in use: purchase, lifetime, utilisation, watts, PUE, electricity, capital.

    --price owned is this hour, where the file of the hardware says what it costs to buy; other totals can be given as
    --price.
    """
    terms = catalog.ownership().replace(**{name: value for name, value in choices.items() if value is not None})
    grid = None if carbon is None else ie.grid(carbon)
    return ie.hour_cost(hardware, purchase, board_watts=board_watts, terms=terms, grid=grid)
