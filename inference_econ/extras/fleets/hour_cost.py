"""Cost of an hour in use of an owned accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ._answer import Shown
from inference_econ.engine import pricing
from inference_econ.errors import InputError
from inference_econ.formulas import money, power
from inference_econ.inputs import Grid, HardwareSpec, Ownership, catalog
from inference_econ.records.facts import node_record


@dataclass(frozen=True, slots=True, repr=False)
class HourCost(Shown):
    """An hour in use of one accelerator.

    Attributes
    ----------
    hardware : HardwareSpec
        The accelerator.
    purchase_dollars : float
        Price of one with its share of host and network [USD].
    terms : Ownership
        How it is used and paid for.
    board_watts : float
        Power of the accelerator at work [W].
    parts : money.HourCost
        Dollars by cause [USD/h].
    grid : Grid or None
        Whose electricity is used, if emissions are asked for.
    """

    page = "extras.fleets.hour_cost_page:HourCostPage"

    hardware: HardwareSpec
    purchase_dollars: float
    terms: Ownership
    board_watts: float
    parts: money.HourCostByCause
    grid: Grid | None = None

    @property
    def about(self) -> str:
        """Name of the accelerator."""
        return self.hardware.name

    def power_record(self) -> dict[str, float]:
        """Power of the accelerator at work, with its host, and of the facility [W]; emissions if a grid is given."""
        servers = self.board_watts + self.terms.host_watts
        facility = float(power.facility_watts(self.board_watts, self.terms.host_watts, self.terms.pue))
        record = {"board_watts": self.board_watts, "server_watts": servers, "facility_watts": facility}
        if self.grid is not None:
            grams = power.grams_of_carbon(3600.0 * facility, self.grid.grams_per_kwh)
            record["grams_co2e_per_accelerator_hour"] = float(grams)
        return record

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        total = float(self.parts.total)
        return {
            "hardware": self.hardware.name,
            "purchase_dollars": self.purchase_dollars,
            "dollars_per_accelerator_hour": total,
            **node_record(self.hardware, total),
            **self.power_record(),
            "parts": {name: float(value) for name, value in self.parts._asdict().items()},
            "terms": self.terms.model_dump(exclude={"name", "description", "sources"}),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return the dollars of an hour in use by cause, and all of them."""
        total = float(self.parts.total)
        parts = {name: float(value) for name, value in self.parts._asdict().items()}
        return [
            {"part": name, "dollars_per_accelerator_hour": dollars, "share": dollars / total}
            for name, dollars in {**parts, "total": total}.items()
        ]


def hour_cost(
    hardware: HardwareSpec | catalog.Name,
    purchase_dollars: float | None = None,
    *,
    board_watts: float | None = None,
    terms: Ownership | None = None,
    grid: Grid | None = None,
) -> HourCost:
    """Build up the cost of an hour in which an owned accelerator works.

    Parameters
    ----------
    hardware : spec, name or path
        The accelerator.
    purchase_dollars : float, optional
        Price of one with its share of host and network [USD]; by default that of its file.
    board_watts : float, optional
        Power at work [W]; by default that of its file.
    terms : Ownership, optional
        How it is used and paid for; by default as ``scenarios/assumptions/ownership`` has it.
    grid : Grid, optional
        Whose electricity is used (:func:`inference_econ.inputs.economic_defaults.grid`), for emissions.

    Returns
    -------
    HourCost
        By cause, see :func:`inference_econ.formulas.money.accelerator_hour_cost`.

    Raises
    ------
    InputError
        If a number is impossible, or nobody says what the accelerator draws or costs to buy.

    Examples
    --------
    >>> cost = hour_cost("h100_sxm", 30e3)
    >>> round(float(cost.parts.depreciation), 3)
    0.856
    """
    chip = hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware)
    usual = catalog.ownership() if terms is None else terms
    paid = _purchase(chip) if purchase_dollars is None else purchase_dollars
    parts = pricing.hour_cost(chip, paid, usual, board_watts)
    watts = chip.watts if board_watts is None else board_watts
    assert watts is not None
    return HourCost(chip, paid, usual, float(watts), parts, grid)


def _purchase(chip: HardwareSpec) -> float:
    if chip.purchase is None:
        raise InputError(f"{chip.name} lists no price of its purchase; give --purchase USD", option="purchase")
    return chip.purchase.dollars_per_accelerator
