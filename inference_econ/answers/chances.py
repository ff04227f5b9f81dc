"""How probable it is that a measured server keeps what is promised of a predicted one."""

from __future__ import annotations

import math
from typing import NamedTuple

from inference_econ.answers.margins import instances_of
from inference_econ.answers.promises import Targets
from inference_econ.engine import Instances, bounds, chance
from inference_econ.inputs import Quantity
from inference_econ.serving import Loaded, Service


class Chances(NamedTuple):
    """Probabilities from 0.05 to 0.95, which stand for less and for more [1].

    None for what is not promised, or where the assumptions were fitted to nothing that says how far off it may be.
    """

    ttft: float | None
    """That the TTFT is not longer."""
    tpot: float | None
    """That the TPOT is not longer."""
    e2e: float | None
    """That the time to the last token is not longer."""
    capacity: float | None
    """That the traffic is no more than what instances complete."""


def least_chance(chances: Chances) -> float:
    """The probability of the latency that is promised and least likely to be kept; 1 where nobody knows any [1]."""
    return min((value for value in chances[:3] if value is not None), default=1.0)


def chances(service: Service, load: Loaded, targets: Targets) -> Chances:
    """The probabilities that promises hold for a service under a load, each by itself.

    Parameters
    ----------
    service : Service
        One instance.
    load : Loaded
        Of it, as predicted.
    targets : Targets
        What is promised; its confidence does not count.
    """
    instances = instances_of(service)
    return chances_of(instances, instances, load, targets)


def chances_of(reading: Instances, decoding: Instances, load: Loaded, targets: Targets) -> Chances:
    """Chances of promises where some instances read prompts and others decode."""
    seen = {name: targets.seen(name, load) for name in targets.given}
    room = math.inf if not load.utilization > 0.0 else 1.0 / load.utilization
    return Chances(
        _kept(reading, "ttft", targets.ttft_seconds, seen.get("ttft")),
        _kept(decoding, "tpot", targets.tpot_seconds, seen.get("tpot")),
        _kept(decoding, "request", targets.e2e_seconds, seen.get("e2e")),
        _chance(decoding, "throughput", room),
    )


def _kept(instances: Instances, quantity: Quantity, promised: float, predicted: float | None) -> float | None:
    """That a latency is not longer than promised [1]; None if nothing is."""
    if predicted is None:
        return None
    # Answers of one token have no time between tokens, and keep any promise of it.
    return 1.0 if predicted == 0.0 else _chance(instances, quantity, promised / predicted)


def _chance(instances: Instances, quantity: Quantity, slack: float) -> float | None:
    return chance(instances.setup.assumptions, quantity, slack, bounds.subjects_of(instances))


def chances_record(chances: Chances) -> dict[str, float | None]:
    """Probabilities as plain data; null where nothing is promised or nobody knows, 0.05 and 0.95 stand for beyond."""
    return {f"probability_{name}": value for name, value in chances._asdict().items()}
