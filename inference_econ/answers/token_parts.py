"""What the time per output token of points on a frontier goes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import evaluate

#: What waiting for the prompts of others is called among the parts of a step.
PROMPTS = "prefill"


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
    if front.speculation is not None:
        return {}
    # Every stage has a sequence.
    plans = replace(front.plans, batch=np.maximum(front.batch, front.plans.pp))
    steps = [evaluate(front.setup, plans, cut) for cut in front.setup.assumptions.layout.tensor_layouts]
    best = np.argmin([step.seconds for step in steps], axis=0)
    parts = {name: np.choose(best, [step.parts[name] for step in steps]) for name in steps[0].parts}
    return {**parts, PROMPTS: np.maximum(front.tpot_seconds - np.sum(list(parts.values()), axis=0), 0.0)}
