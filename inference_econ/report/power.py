"""Power and energy in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.engine import Setup, chip_power
from inference_econ.inputs import BYTES_PER_ELEMENT, catalog
from inference_econ.report.quantities import prefixed
from inference_econ.report.table import amount

#: Maths units that multiply formats of less than a byte.
_NARROW = ("fp4", "int4")


def power_basis(setup: Setup) -> str:
    """Words for the basis of the power of a chip; empty where its file has no watts."""
    power, chip = chip_power(setup.hardware), setup.hardware
    if power is None:
        return ""
    shares = power.shares
    error = f"median error {100 * shares.median_error:.0f} %"
    if any(BYTES_PER_ELEMENT[dtype] < 1 and setup.unit(dtype) not in _NARROW for dtype in setup.precision.of_weights):
        error += ", but 40 % more where the chip only stores the format of its weights (mxfp4 on H100)"
    if chip.generation not in catalog.power().generations:
        return f"no server of its generation was measured: by shares of board power of {shares.chip}, {error} of others"
    if chip.name != catalog.title("hardware", shares.chip):
        return f"not measured itself: by the shares of board power of {shares.chip}, {error} there"
    return f"fitted to {shares.rows} measured rows, {error}"


def power_notes(setup: Setup, record: Mapping[str, Any]) -> list[str]:
    """Notes on the power of boards, servers and the facility; none where the file of the chip has no watts."""
    if record["board_watts"] is None:
        return []
    grams = record.get("grams_co2e_per_million_output_tokens")
    carbon = "" if grams is None or setup.grid is None else f", {amount(grams)} gCO2e per million at {setup.grid.text}"
    watts = ("board_watts", "server_watts", "facility_watts", "provisioned_watts")
    drawn = {name: f"{prefixed(record[name], 'Mk', ',.3g')}W" for name in watts}
    return [
        f"Power: boards {drawn['board_watts']}, with host and network {drawn['server_watts']}, "
        f"facility {drawn['facility_watts']} of {drawn['provisioned_watts']} provisioned; "
        f"{amount(record['joules_per_output_token'])} J per output token of the boards, "
        f"{amount(record['facility_joules_per_output_token'])} J of the facility{carbon} ({power_basis(setup)})."
    ]


def power_columns(setups: Iterable[Setup]) -> Sequence[str]:
    """The columns of power and energy of a table; none where no chip of it has watts in its file."""
    measurable = [setup for setup in setups if setup.hardware.watts is not None]
    grams = ("grams_co2e_per_million_output_tokens",) if any(setup.grid for setup in measurable) else ()
    return ("board_watts", "joules_per_output_token", *grams) if measurable else ()
