"""Energy of a step by operator, power of an accelerator board, and step times under a power cap."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.layouts.startable import MACHINE
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.setup import Setup
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.formulas import power as formulas
from inference_econ.inputs import HardwareSpec, PowerShares, catalog


@dataclass(frozen=True, slots=True)
class ChipPower:
    """Power of one accelerator and of its share of the machine (host, network, cooling).

    Attributes
    ----------
    shares : PowerShares
        Shares of the board power, from which ``joules_per_byte`` and other energies are calculated.
    limit_watts, idle_watts : float
        Power limit of the board, and idle power with a loaded model [W].
    joules_per_byte, joules_per_link_byte : float
        Energy per byte of memory traffic, and per byte of collectives [J/B].
    arithmetic_watts : float
        Power of arithmetic at the peak rate of a math unit [W].
    host_watts, provisioned_host_watts : float
        Power of the host and network per accelerator: actual draw, and power to provision [W].
    pue : float
        Power of the facility divided by the power of its servers (PUE) [1].
    """

    shares: PowerShares
    limit_watts: float
    idle_watts: float
    joules_per_byte: float
    joules_per_link_byte: float
    arithmetic_watts: float
    host_watts: float
    provisioned_host_watts: float
    pue: float

    @property
    def provisioned_watts(self) -> float:
        """Facility power to provision for one accelerator, regardless of its actual draw [W]."""
        return float(formulas.facility_watts(self.limit_watts, self.provisioned_host_watts, self.pue))

    def board_watts(self, joules: Array, seconds: Array | float) -> Array:
        """Mean power of a board that uses the energy ``joules``, in addition to idle energy, in ``seconds`` [W]."""
        return formulas.drawn_watts(self.idle_watts, joules, seconds, self.limit_watts)


def chip_power(chip: HardwareSpec) -> ChipPower | None:
    """Compute the power of a chip; None if its file lists no power.

    Raises
    ------
    InputError
        If the power cap is at most the idle power, or above the maximum power.
    """
    if chip.watts is None:
        if chip.power_cap is not None:
            raise no_watts(chip.name)
        return None
    spec, terms = catalog.power(), catalog.ownership()
    shares, limit = spec.shares(chip), chip.watts if chip.power_cap is None else chip.power_cap
    idle = shares.idle * chip.watts
    if not idle < limit <= chip.watts:
        raise InputError(
            f"a power cap of {chip.name} lies between the {idle:.0f} W that it draws without work and the "
            f"{chip.watts:g} W that it draws at most, got {limit:g} W",
            option="power_cap",
        )
    at_most = spec.rack_host_watts_at_most if chip.link_domain > MACHINE else spec.host_watts_at_most
    return ChipPower(
        shares,
        limit,
        idle,
        shares.memory * chip.watts / chip.hbm_bytes_per_second,
        spec.joules_per_link_byte,
        shares.arithmetic * chip.watts,
        min(terms.host_watts, chip.watts),
        min(at_most, chip.watts),
        terms.pue,
    )


def tokens_per_second_per_megawatt(chip: HardwareSpec, tokens_per_second: Array, accelerators: Array) -> Array | None:
    """Throughput divided by the provisioned facility power of the accelerators [tokens/s/MW].

    The result is None if the hardware file has no power data.
    """
    power = chip_power(chip)
    if power is None:
        return None
    return 1e6 / money.joules_per_token(power.provisioned_watts, accelerators, tokens_per_second)


def operator_joules(setup: Setup, chip: ChipPower, plans: Plans) -> list[tuple[Operator, Array]]:
    """Energy of each operator of a step, in addition to idle power and without a power cap [J].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    chip : ChipPower
        Power and energy data of the accelerator.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    list of (Operator, ndarray)
        Operators, and energy of all occurrences of each operator as the mean over accelerators [J]. Load imbalance
        changes times, but not energy.
    """
    even = setup.assumptions.changed({"experts.spread": "even", "experts.imbalance": 1.0})
    work, layout = replace(setup, assumptions=even).work(plans), setup.assumptions.layout.tensor_layouts[0]
    tokens, sequences, rates = work.tokens, work.sequences, setup.rates
    rows = []
    for row in work.operators:
        flop = row.flop_per_token * tokens + row.flop_per_sequence * sequences
        cache = row.kv_bytes_per_sequence * sequences + row.shared_kv_bytes
        moved = row.weight_bytes + row.activation_bytes_per_token * tokens + cache
        arithmetic = flop * (chip.arithmetic_watts / rates.peaks[rates.operator_unit(row)])
        sent = work.collective_bytes(row, layout) * chip.joules_per_link_byte
        rows.append((row, np.asarray(row.repeats * (arithmetic + moved * chip.joules_per_byte) + sent)))
    return rows


def step_joules(setup: Setup, chip: ChipPower, plans: Plans) -> Array:
    """Energy of one step on one accelerator, in addition to idle power and without a power cap, shape (...) [J]."""
    return np.broadcast_to(sum(joules for _, joules in operator_joules(setup, chip, plans)), plans.shape)


#: Clocks to evaluate under a power cap, relative to the clock without a cap [1]. If power exceeds the cap even at the
#: lowest clock, chips are assumed to pause.
CLOCKS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


def no_watts(chip: str) -> InputError:
    """Error for a chip whose file lists no power."""
    text = f"{chip} lists no watts; give them, for example --set hardware.watts='700 W'"
    return InputError(text, option="set")


def at_clock(setup: Setup, clock: float) -> Setup:
    """Setup without a power cap whose math units run at a lower clock; memory and links are unchanged."""
    peaks = {unit: clock * peak for unit, peak in setup.peaks.items()}
    chip = setup.hardware.model_copy(update={"dense_flops_per_second": peaks, "power_cap": None})
    return replace(setup, hardware=chip)


def capped_seconds(joules: Array, times: list[Array], chip: ChipPower) -> Array:
    """Time of steps at the highest clock for which the mean power is within a power cap [s].

    Parameters
    ----------
    joules : ndarray, shape (...)
        Energy of a step at full clock, in addition to idle power [J].
    times : list of ndarray, shape (...)
        Step time at each clock in :data:`CLOCKS` [s].
    chip : ChipPower
        Power data of the chip, whose power limit is the power cap.

    Returns
    -------
    ndarray, shape (...)
        Step time [s]. Between two clocks, the time is interpolated linearly in power. If power exceeds the cap even at
        the lowest clock, the step time is increased until the mean power equals the cap.
    """
    exponent, room = catalog.power().clock_exponent - 1.0, chip.limit_watts - chip.idle_watts
    drawn = [joules * clock**exponent / seconds for clock, seconds in zip(CLOCKS, times, strict=True)]
    result = np.maximum(times[-1], joules * CLOCKS[-1] ** exponent / room)
    for higher in range(len(CLOCKS) - 2, -1, -1):
        above, below = drawn[higher], drawn[higher + 1]
        share = np.clip((above - room) / np.maximum(above - below, 1e-300), 0.0, 1.0)
        between = times[higher] + share * (times[higher + 1] - times[higher])
        result = np.where(below <= room, between, result)
    return np.asarray(result)
