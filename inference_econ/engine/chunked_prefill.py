"""Steps that combine decode and prefill (chunked prefill), and the time saved compared with separate steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, dealt
from inference_econ.engine.prefill import fastest_cut, group_steps, over_operators, reading_groups
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import operator_roofline


def mixed_step_seconds(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array) -> Array:
    """Time of a step that decodes a batch and prefills prompts [s].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions, at the context of the decoding sequences.
    plans : Plans
        Deployments with their decode batch, shape (...).
    tokens, cached : float
        New tokens of each prompt, and tokens of each prompt that are already in the cache [tokens].
    prompts : ndarray, shape (...)
        Number of prompts in a micro-batch, which are distributed over attention-DP groups [1].

    Returns
    -------
    ndarray, shape (...)
        Time of one forward pass [s]. For all decode and prefill tokens together, the pass reads the weights once and
        launches each kernel once. Decode attention and prefill attention run one after the other.
    """
    groups = reading_groups(setup, plans)
    fullest = dealt(prompts, groups) * groups / prompts
    step = fastest_cut(setup, replace(plans, riding=prompts * tokens, riding_fullest=fullest))
    reading = replace(plans, batch=prompts * plans.pp, new_tokens=tokens, prefill=True, fullest=fullest)
    # Operators that read the KV cache: attention scores, and the decompression of latents before attention.
    after = replace(setup, context=cached)
    work = after.work(reading)
    rows = [row for row in work.operators if row.kind == "scores" or np.any(row.kv_bytes_per_sequence)]
    return np.asarray(step + sum(operator_roofline(after, row, work).seconds for row in rows))


def saved_seconds(
    setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array, alone: Array | None = None
) -> Array:
    """Time that a step with decode and prefill saves over two separate steps, shape (...) [s].

    ``alone`` is the time of the prefill step [s]. For the other parameters see :func:`mixed_step_seconds`. The saved
    time is at most the time of the decode step and at most the time of the prefill step.
    """
    bare = setup.unmeasured
    decode = fastest_cut(bare, plans)
    if alone is None:
        alone = group_steps(setup, plans, tokens, cached, prompts, dealt(prompts, reading_groups(setup, plans)))
    both = mixed_step_seconds(bare, plans, tokens, cached, prompts)
    # The engine's CPU overhead of prefill is excluded, because decode and prefill share only weight reads and kernel
    # launches.
    reading = replace(plans, batch=prompts * plans.pp)
    operators = alone / over_operators(setup, reading)
    decoding, prefilling = (setup.measured_factor(plans, prefill=prefill) for prefill in (False, True))
    saved = np.clip(decode + operators - both, 0.0, np.minimum(decode, alone / prefilling))
    return np.asarray(saved * np.minimum(decoding, prefilling))
