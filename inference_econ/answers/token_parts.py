"""Parts of the time per output token of points on a frontier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import evaluate

#: What waiting for the prompts of others is called among the parts of a step.
PROMPTS = "prefill"
#: What sums of parts may be off by, over the whole [1]: pools read no prompts between steps, exactly.
_ROUNDING = 1e-9


def token_parts(front: ServiceFrontier) -> Mapping[str, Array]:
    """The parts of a decode step of each point, and what the prefill of other requests adds to it.

    Parameters
    ----------
    front : ServiceFrontier
        Its points take one step per token.

    Returns
    -------
    mapping of str to ndarray, shape (n,)
        Seconds by part, that add up to the time per output token [s]; nothing if points speculate, as rounds of
        proposals take the place of steps there.
    """
    if any(front.candidates[number].speculation is not None for number in front.shown):
        return {}
    parts: dict[str, Array] = {}
    for number in front.shown:
        at = np.flatnonzero(front.which == number)
        of_points = step_parts(front.candidates[number], front.rows[at], front.batch[at], front.tpot_seconds[at])
        for name, seconds in of_points.items():
            parts.setdefault(name, np.zeros(len(front)))[at] = seconds
    return parts


def step_parts(candidate: Candidate, rows: Indices, batch: Array, tpot_seconds: Array) -> dict[str, Array]:
    """Parts of a step of some layouts of a candidate that does not speculate, by their batch [1] and TPOT [s]."""
    setup, plans = candidate.setup, candidate.plans.at((rows,))
    # Every stage has a sequence.
    plans = replace(plans, batch=np.maximum(batch, plans.pp))
    steps = [evaluate(setup, plans, cut) for cut in setup.assumptions.layout.tensor_layouts]
    best = np.argmin([step.seconds for step in steps], axis=0)
    parts = {name: np.choose(best, [step.parts[name] for step in steps]) for name in steps[0].parts}
    rest = tpot_seconds - np.sum(list(parts.values()), axis=0)
    return {**parts, PROMPTS: np.where(rest > _ROUNDING * tpot_seconds, rest, 0.0)}
