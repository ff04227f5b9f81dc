"""Speculation beside plain decoding on one deployment: from which load to which it pays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inference_econ.answers import acceptance
from inference_econ.answers.offer import offer
from inference_econ.engine import speculation as drafting
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.layouts.space import Space
from inference_econ.engine.setup import Setup
from inference_econ.engine.speculation import Speculation
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs.traffic import Requests
from inference_econ.serving.services import At, Service, services, slots_of

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Steady states, and numbers of requests in flight that are looked at.
_STATES = 400
#: Speed-ups below this are none [1].
_NONE = 1e-6


@dataclass(frozen=True, slots=True)
class Speculated:
    """One deployment with and without speculation; arrays of shape (n,) over the requests in flight.

    Attributes
    ----------
    plain, speculating : Service
        The same layout; the second has less room for requests where the proposer takes memory.
    dollars_per_accelerator_hour : float
        [USD/h]
    concurrency : ndarray
        Requests in flight, ascending, whole numbers up to the slots of the second [1].
    plain_state, state : At
        Steady states of both at these.
    drafted : ndarray of int
        Best draft length of the batches of the second; 0 where plain decoding is fastest [1].
    tokens : ndarray
        Expected tokens of a round of that length [1].
    propose_seconds : ndarray
        Proposing one token for every sequence of these batches [s].
    """

    plain: Service
    speculating: Service
    dollars_per_accelerator_hour: float
    concurrency: Array
    plain_state: At
    state: At
    drafted: Indices
    tokens: Array
    propose_seconds: Array

    @property
    def speedup(self) -> Array:
        """Time per output token without speculation over that with it, prefill of others included [1]."""
        return np.asarray(self.plain_state.tpot_seconds / self.state.tpot_seconds)

    @property
    def pays(self) -> npt.NDArray[np.bool_]:
        """Where it is quicker per token."""
        return np.asarray(self.speedup > 1.0 + _NONE)

    def dollars(self, state: At) -> Array:
        """The bill of the instance over its output tokens [USD per 1e6 tokens]."""
        return _dollars(self.plain, state, self.dollars_per_accelerator_hour)

    def at(self, wanted: npt.ArrayLike) -> Speculated:
        """The same at some requests in flight, or the next number that was looked at."""
        chosen = np.searchsorted(self.concurrency, np.asarray(wanted, dtype=float).clip(1.0, self.concurrency[-1]))
        return replace(
            self,
            concurrency=self.concurrency[chosen],
            plain_state=_picked(self.plain_state, chosen),
            state=_picked(self.state, chosen),
            drafted=self.drafted[chosen],
            tokens=self.tokens[chosen],
            propose_seconds=self.propose_seconds[chosen],
        )

    def full_dollars(self) -> tuple[float, float]:
        """With all slots taken, without speculation and with it [USD per 1e6 output tokens]."""
        return (
            float(_dollars(self.plain, self.plain.at(self.plain.slots), self.dollars_per_accelerator_hour)),
            float(_dollars(self.plain, self.speculating.at(self.speculating.slots), self.dollars_per_accelerator_hour)),
        )


def speculate(setup: Setup, requests: Requests, speculation: Speculation, pins: Pins | None = None) -> Speculated:
    """One deployment with and without speculation, from one request in flight to as many as fit.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how.
    requests : Requests
        Lengths and cached tokens.
    speculation : Speculation
        Who proposes tokens, and how often they are accepted.
    pins : Pins, optional
        The layout; degrees that are left open are 1, but experts are spread over as many ranks as divide.

    Returns
    -------
    Speculated
        Compared at equal numbers in flight.

    Raises
    ------
    InputError
        If nobody knows the price, a degree cannot be used, answers have one token, or the speculation does not go with
        the model.
    NothingFitsError
        If target and proposer do not fit.
    """
    if requests.decode_steps <= 0:
        raise InputError(f"answers of {requests.osl.mean:g} token need no decode step that speculation could speed up")
    layout = Pins() if pins is None else pins
    whole = replace(layout, tp=layout.tp or 1, dp=layout.dp or 1, pp=layout.pp or 1)
    layouts = offer(setup, requests, Space(whole))
    # The last has the most expert-parallel ranks.
    plans, setup = layouts.plans.at((np.array([-1]),)), layouts.setup
    slots = slots_of(setup, plans, speculation)
    if slots[0] < 1.0:
        needed = drafting.memory(setup, plans, speculation)
        weigh, cache, available = needed.of_one_plan()
        raise NothingFitsError(
            f"{setup.model.name} with its {drafting.PROPOSERS[speculation.proposer]} on "
            f"{plans.accelerators[0]:g} x {setup.hardware.name}: {weigh / 1e9:.1f} GB of weights and "
            f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB"
        )
    plain = services(setup, requests, plans, layouts.slots[[-1]], batches=_STATES).service(0)
    fast = services(setup, requests, plans, slots, batches=_STATES, speculation=speculation).service(0)
    powers = 2.0 ** np.arange(np.floor(np.log2(fast.slots)) + 1.0)
    concurrency = np.union1d(np.rint(np.geomspace(1.0, fast.slots, _STATES)), powers)
    state = fast.at(concurrency)
    rounds = drafting.rounds(setup, replace(plans, batch=state.batch), speculation)
    length = rounds.best().length
    rate, each = setup.dollars_per_accelerator_hour, rounds.propose_seconds
    return Speculated(plain, fast, rate, concurrency, plain.at(concurrency), state, length, rounds.tokens[length], each)


def measured_acceptance(path: Path | str, longest: int | None) -> float | list[float]:
    """Acceptance from a file of log-probabilities: by position where it tells them, otherwise one for all [1].

    Raises
    ------
    InputError
        If the file cannot be used, or tells less positions than a draft may have.
    """
    found = acceptance.read(path)
    known = [one.rate for one in found.by_position]
    if not known:
        return found.overall.rate
    if longest is not None and longest > len(known):
        raise InputError(
            f"{path}: the acceptance of positions 1 to {len(known)} is known, a draft of {longest} needs more"
        )
    return known[:longest]


def _dollars(service: Service, state: At, rate: float) -> Array:
    tokens = state.requests_per_second * service.requests.osl.mean
    return money.dollars_per_million_tokens(service.accelerators, 1.0, tokens, rate)


def _picked(state: At, chosen: Indices) -> At:
    return At(*(np.asarray(getattr(state, one.name)[chosen]) for one in fields(At)))
