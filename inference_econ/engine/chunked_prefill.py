"""Steps that decode and read prompts at once: what they read and launch once instead of twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, dealt
from inference_econ.engine.prefill import fastest_cut, group_steps, over_operators, reading_groups
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import operator_roofline


def mixed_step_seconds(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array) -> Array:
    """Time of a step that decodes and reads some prompts [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the context of the sequences that decode.
    plans : Plans
        Deployments with the batch that decodes, shape (...).
    tokens, cached : float
        New tokens of each prompt, and tokens of it that are in the cache [tokens].
    prompts : ndarray, shape (...)
        Of a micro-batch, dealt out to its groups of attention ranks [1].

    Returns
    -------
    ndarray, shape (...)
        One pass: matrices are read and multiplied for the tokens of both, experts are those that both touch, messages
        carry both, and each kernel is launched once. Attention over the cache is that of decoding and that of the
        prompts, one after the other.
    """
    groups = reading_groups(setup, plans)
    fullest = dealt(prompts, groups) * groups / prompts
    step = fastest_cut(setup, replace(plans, riding=prompts * tokens, riding_fullest=fullest))
    reading = replace(plans, batch=prompts * plans.pp, new_tokens=tokens, prefill=True, fullest=fullest)
    # What reads the cache: scores, and what is decompressed for them.
    after = replace(setup, context=cached)
    work = after.work(reading)
    rows = [row for row in work.operators if row.kind == "scores" or np.any(row.kv_bytes_per_sequence)]
    return np.asarray(step + sum(operator_roofline(after, row, work).seconds for row in rows))


def saved_seconds(
    setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array, alone: Array | None = None
) -> Array:
    """Return the time that a step which decodes and reads prompts takes less than two for both, shape (...) [s].

    ``alone`` is the time of the step that only reads the prompts [s]; the rest is as in :func:`mixed_step_seconds`. At
    most what either takes by itself.
    """
    bare = setup.unmeasured
    decode = fastest_cut(bare, plans)
    if alone is None:
        alone = group_steps(setup, plans, tokens, cached, prompts, dealt(prompts, reading_groups(setup, plans)))
    both = mixed_step_seconds(bare, plans, tokens, cached, prompts)
    # What operators read and launch once is no more where an engine takes longer for prompts than they do.
    reading = replace(plans, batch=prompts * plans.pp)
    operators = alone / over_operators(setup, reading)
    decoding, prefilling = (setup.measured_factor(plans, prefill=prefill) for prefill in (False, True))
    saved = np.clip(decode + operators - both, 0.0, np.minimum(decode, alone / prefilling))
    return np.asarray(saved * np.minimum(decoding, prefilling))
