"""Cost per utilized hour of an owned accelerator."""

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
    """Cost per utilized hour of an accelerator.

    Attributes
    ----------
    hardware : HardwareSpec
        Owned accelerator.
    purchase_dollars : float
        Purchase price with its share of host and network [USD].
    terms : Ownership
        Lifetime, utilization, power and financing of the accelerator.
    board_watts : float
        Power of the accelerator under load [W].
    parts : money.HourCostByCause
        Cost by cause [USD/h].
    grid : Grid or None
        Electricity grid, for emissions.
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
        """Power of the accelerator, the server and the facility under load [W]; emissions if a grid is given."""
        servers = self.board_watts + self.terms.host_watts
        facility = float(power.facility_watts(self.board_watts, self.terms.host_watts, self.terms.pue))
        record = {"board_watts": self.board_watts, "server_watts": servers, "facility_watts": facility}
        if self.grid is not None:
            grams = power.grams_of_carbon(3600.0 * facility, self.grid.grams_per_kwh)
            record["grams_co2e_per_accelerator_hour"] = float(grams)
        return record

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
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
        """Cost by cause, and the total."""
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
    """Calculate the cost per utilized hour of an owned accelerator.

    Parameters
    ----------
    hardware : spec, name or path
        Owned accelerator.
    purchase_dollars : float, optional
        Purchase price with its share of host and network [USD]; by default the price in the file of the chip.
    board_watts : float, optional
        Power under load [W]; by default the power in the file of the chip.
    terms : Ownership, optional
        Lifetime, utilization, power and financing; by default ``scenarios/assumptions/ownership``.
    grid : Grid, optional
        Electricity grid, for emissions (:func:`inference_econ.inputs.economic_defaults.grid`).

    Returns
    -------
    HourCost
        Cost by cause; see :func:`inference_econ.formulas.money.accelerator_hour_cost`.

    Raises
    ------
    InputError
        If a number is out of range, or the power or purchase price is unknown.

    Examples
    --------
    >>> cost = hour_cost("h100_sxm", 30e3)
    >>> round(float(cost.parts.depreciation), 3)
    0.685
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
