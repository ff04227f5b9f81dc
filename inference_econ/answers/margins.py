"""How much better than a promise each layout must be predicted, so that measured servers keep it with a probability."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Instances, Setup, bounds, layout_keys, margin
from inference_econ.errors import InputError
from inference_econ.inputs import Quantity
from inference_econ.serving import Service, Services

#: Latencies that can be promised: the quantity whose errors speak for each, and what messages call measurements of it.
_PROMISED: Mapping[str, tuple[Quantity, str]] = {
    "ttft": ("ttft", "TTFTs"),
    "tpot": ("tpot", "TPOTs"),
    "e2e": ("request", "times of requests"),
}


class Margins(NamedTuple):
    """Divisors of promises before predictions are held against them; at least 1, shape (n,) [1]."""

    ttft: Array
    """Of the time to first token."""
    tpot: Array
    """Of the time per output token."""
    e2e: Array
    """Of the time to the last token."""
    throughput: Array
    """Of the share of what an instance completes that it is filled to; 1 where no throughput was fitted."""


def margins(layouts: Services | Service, confidence: float, promised: Collection[str]) -> Margins:
    """The margins of each of n layouts.

    Parameters
    ----------
    layouts : Services or Service
        What is served, how.
    confidence : float
        Probability that each promise is kept [1].
    promised : collection of {'ttft', 'tpot', 'e2e'}
        What is promised.

    Returns
    -------
    Margins
        1 for latencies that are not promised.

    Raises
    ------
    InputError
        If the confidence is out of its range, or how far off predictions of what is promised are is not known.
    """
    every = instances_of(layouts)
    keys = list(zip(every.accelerators, every.layouts, strict=True))
    by_key = {key: every._replace(accelerators=[key[0]], layouts=[key[1]]) for key in keys}

    def of(quantity: Quantity, unknown: str = "") -> Array:
        margins_of = {key: margin_of(instances, quantity, confidence) for key, instances in by_key.items()}
        if unknown and None in margins_of.values():
            raise InputError(_unknown(layouts.setup, unknown))
        return np.array([margins_of[key] or 1.0 for key in keys])

    ones = np.ones(len(keys))
    ttft, tpot, e2e = (of(*about) if name in promised else ones for name, about in _PROMISED.items())
    return Margins(ttft, tpot, e2e, of("throughput"))


def margin_of(instances: Instances, quantity: Quantity, confidence: float) -> float | None:
    """The margin of the instance that is the most unlike what was measured [1]; None if nobody knows."""
    return margin(instances.setup.assumptions, quantity, confidence, bounds.subjects_of(instances))


def instances_of(layouts: Services | Service) -> Instances:
    """Each of n layouts as an instance that may be unlike what was measured, whatever its load."""
    requests = layouts.requests
    return Instances(
        layouts.setup,
        layouts.plans.accelerators.tolist(),
        isl=requests.isl.mean,
        osl=requests.osl.mean,
        speculates=layouts.speculation is not None,
        layouts=layout_keys(layouts.plans, layouts.setup.assumptions.layout),
    )


def _unknown(setup: Setup, what: str) -> str:
    return (
        f"confidence: nobody knows how far off {setup.assumptions.name} is on {setup.hardware.name}, as it was fitted "
        f"to no measured {what}; leave --confidence out, take a fitted profile (--assumptions profiles/servers; a "
        "what-if of assumptions makes it unfitted), or fit one to measurements: inference-econ calibrate --help"
    )
