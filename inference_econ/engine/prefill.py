"""Time to prefill a prompt on an instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.engine.collectives import Network, collective_seconds
from inference_econ.engine.layouts.plans import Plans, attention_groups, dealt, fullest_over_mean
from inference_econ.engine.memory import index_key_bytes
from inference_econ.engine.operators.table import Collective
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import (
    operator_roofline,
    step_seconds,
    takes_turns,
    without_levels,
)
from inference_econ.inputs import BYTES_PER_ELEMENT

Number = TypeVar("Number", float, Array)
#: Token budget of a step that is assumed if the engine has no limit [tokens].
_NO_LIMIT = 2.0**17


@dataclass(frozen=True, slots=True, eq=False)
class Prefill:
    """Time to prefill one prompt on an instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Time from the start of prefill to the first token on an idle instance [s].
    busy_seconds : ndarray, shape (...)
        Instance time that one prompt takes [s]. This time is shorter than ``seconds`` if other pipeline stages process
        other prompts at the same time. Attention-DP groups step together, so groups without a prompt wait.
    full_seconds : ndarray, shape (...)
        Instance time per prompt if every attention-DP group has a prompt [s].
    chunks : int
        Number of prefill steps [1].
    chip_share : ndarray, shape (...)
        Share of the prefill time in which the GPUs compute [1]; with short prompts, the GPUs often wait for kernel
        launches.
    """

    seconds: Array
    busy_seconds: Array
    full_seconds: Array
    chunks: int
    chip_share: Array

    def take(self, index: int | Indices) -> Prefill:
        """Select layouts by their index on the first axis."""
        seconds, busy, full = (values[index] for values in (self.seconds, self.busy_seconds, self.full_seconds))
        return Prefill(seconds, busy, full, self.chunks, self.chip_share[index])

    @classmethod
    def stacked(cls, parts: Sequence[Prefill]) -> Prefill:
        """Concatenate prefill times of several sets of layouts for the same prompt."""
        seconds, busy, full, chips = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("seconds", "busy_seconds", "full_seconds", "chip_share")
        )
        return cls(seconds, busy, full, parts[0].chunks, chips)


def prefill(setup: Setup, plans: Plans, tokens: float, cached: float = 0.0) -> Prefill:
    """Compute the time to prefill a prompt of ``tokens`` new tokens after ``cached`` tokens.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    plans : Plans
        Deployments, shape (...); the batch is ignored.
    tokens, cached : float
        New tokens of the prompt, and tokens of the prompt that are already in the cache [tokens].

    Returns
    -------
    Prefill
        Times of a prefill on one attention-DP group, while all other groups wait. With ``prefill_split: context``, all
        groups share the prompt instead. Pipeline stages process different prompts at the same time.

    Notes
    -----
    Attention-DP groups step together. With k_r prompts on group r of R groups, a step takes A max(k_r) + M sum(k_r) /
    R. A is the time of a group's own work on a prompt, mainly attention. M is the time of R prompts in layers that all
    groups share, such as experts. A single prompt takes A + M / R, and R prompts take A + M.

    Attention is causal: a new token attends to cached tokens and to earlier new tokens. With ``prefill_chunk``, a
    prompt is processed in equal chunks. A chunk reads the KV cache of all earlier chunks. Without ``prefill_chunk``,
    one step processes all tokens.
    """
    factor = over_operators(setup, replace(plans, batch=prompts_together(setup, plans), new_tokens=tokens))
    alone = without_levels(setup, plans, ("prefill", tokens, cached), lambda: _operators(setup, plans, tokens, cached))
    seconds, busy, full = (factor * part for part in (alone.seconds, alone.busy_seconds, alone.full_seconds))
    return replace(alone, seconds=seconds, busy_seconds=busy, full_seconds=full)


def _operators(setup: Setup, plans: Plans, tokens: float, cached: float) -> Prefill:
    """Compute prefill times from the operator table, without measured factors; see :func:`prefill`."""
    together = prompts_together(setup, plans)
    assumed, limit = setup.assumptions, setup.assumptions.serving.prefill_chunk
    if assumed.attention.cache == "recomputed":
        tokens, cached, limit = tokens + cached, 0.0, 0
    chunks = max(1, math.ceil(tokens / limit)) if limit else 1
    part = tokens / chunks
    halfway = replace(setup, context=cached + (tokens - part) / 2.0, spread=tokens - part)
    gathering = np.zeros(())
    fullest: Array | float = together / plans.pp
    if assumed.serving.prefill_split != "prompts":
        gathering, together, fullest = _gathering(setup, plans, part), plans.pp, 1.0
    reading = replace(plans, batch=plans.pp, new_tokens=part, prefill=True, fullest=fullest)
    # One prompt, and a prompt in every attention-DP group.
    both = reading.stacked(batch=(plans.pp, together), fullest=(fullest, 1.0))
    step, full = fastest_cut(halfway, both) + gathering
    # ``worked`` is the time in which the GPUs compute, without waits for the CPU to launch kernels.
    worked = fastest_cut(halfway, both, launches=assumed.host.launches == "per_layer")[0]
    share = (worked + gathering) / step

    # Chunks of one prompt follow each other through the pipeline. The first chunk does not wait for the largest stage.
    passed = step - gathering
    if not isinstance(fullest_over_mean(setup.model.layers, reading, assumed.layout), float):
        even = replace(halfway, assumptions=halfway.assumptions.changed({"layout.pipeline_stages": "even"}))
        passed = fastest_cut(even, reading)
    seconds = passed + gathering + step * ((chunks - 1.0) / plans.pp)
    busy, full_busy = step * (chunks / reading.batch), full * (chunks / together)
    return Prefill(seconds, busy, full_busy, chunks, share)


def over_operators(setup: Setup, plans: Plans) -> Array | float:
    """Factor on the predicted time of a prefill step's operators, from fits to measured servers [1].

    With two-batch overlap, the profile's ``prefill_factor`` is replaced by 1, because each half of a batch computes
    while the other half communicates. The measured correction also applies.
    """
    factor, turns = setup.assumptions.serving.prefill_factor, takes_turns(setup, replace(plans, prefill=True))
    overhead: Array | float = factor if turns is None else np.where(turns, 1.0, factor)
    return overhead * setup.measured_factor(plans, prefill=True)


def _gathering(setup: Setup, plans: Plans, tokens: float) -> Array:
    """Time to all-gather the KV cache of new tokens over the attention-DP groups that share a prompt [s]."""
    groups = np.asarray(plans.stage / plans.attention_ranks)
    spread = np.minimum(groups, np.ceil(plans.stage / setup.hardware.link_domain))
    network, total = Network.of(setup.hardware, setup.assumptions.network), np.zeros(())
    width = BYTES_PER_ELEMENT[setup.precision.kv]
    for block in setup.model.blocks:
        entry = block.attention.cache.gathered_elements * width
        entry += index_key_bytes(block.attention, setup.precision, setup.assumptions.attention)
        gather = Collective("all_to_all", groups, spread, np.full((), entry))
        total = total + block.layers * collective_seconds(network, gather, np.full((), tokens))
    return total


def request_seconds(setup: Setup, cached: Number) -> Number:
    """CPU time of the engine per request, before the first token [s].

    The CPU time depends on the number of ``cached`` prompt tokens.
    """
    host = setup.assumptions.host
    return host.request_overhead + host.cached_token_overhead * cached


def prompts_together(setup: Setup, plans: Plans) -> Array:
    """Number of prompts that an instance can prefill at once: one per attention-DP group and pipeline stage [1]."""
    return np.asarray(plans.pp * attention_groups(plans, setup.assumptions.layout))


def reading_groups(setup: Setup, plans: Plans) -> Array:
    """Number of attention-DP groups in a pipeline stage that prefill different prompts and step together [1]."""
    if setup.assumptions.serving.prefill_split != "prompts":
        return np.ones(np.shape(plans.pp))
    return np.asarray(prompts_together(setup, plans) / plans.pp)


def prompts_of_a_step(setup: Setup, tokens: float) -> float:
    """Number of prompts with ``tokens`` new tokens that fit in one step of an attention-DP group, at least one [1].

    Without a token budget (``prefill_chunk: 0``), a budget is assumed above which steps are not more efficient.
    """
    return max((setup.assumptions.serving.prefill_chunk or _NO_LIMIT) // tokens, 1.0)


def shared_steps(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: npt.ArrayLike) -> Array:
    """Prefill time per prompt if several prompts share steps, divided by the time of a prompt alone.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    plans : Plans
        Deployments, shape (...); the batch is ignored.
    tokens, cached : float
        New tokens of each prompt, and tokens of each prompt that are already in the cache [tokens].
    prompts : array_like, shape (..., k)
        Number of waiting prompts [1]. Waiting prompts are distributed over pipeline stages and attention-DP groups. An
        attention-DP group processes up to :func:`prompts_of_a_step` prompts in a step.

    Returns
    -------
    ndarray, shape (...)
        Ratio, at most 1 [1]. The ratio is below 1 because a step reads weights, launches kernels and sends messages
        once for all of its prompts, and because fewer groups wait without a prompt.
    """
    groups = reading_groups(setup, plans)
    of_a_stage = np.clip(np.asarray(prompts, dtype=float) / plans.pp, 1.0, prompts_of_a_step(setup, tokens) * groups)
    if np.all(of_a_stage == 1.0):
        return np.ones_like(of_a_stage)
    counts = np.concatenate([np.ones((*of_a_stage.shape[:-1], 1)), of_a_stage], axis=-1)
    steps = group_steps(setup, plans, tokens, cached, counts, dealt(counts, groups))
    return np.where(of_a_stage > 1.0, np.minimum(steps[..., 1:] / (of_a_stage * steps[..., :1]), 1.0), 1.0)


def group_steps(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array, most: Array) -> Array:
    """Time of prefill steps with a given number of prompts in total, and in the fullest attention-DP group [s].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions; the context is ignored.
    plans : Plans
        Deployments, shape (...); the batch is ignored.
    tokens, cached : float
        New tokens of each prompt, and tokens of each prompt that are already in the cache [tokens].
    prompts, most : ndarray, shape (...)
        Number of prompts in a micro-batch, and number of prompts in its fullest attention-DP group [1].
    """
    groups, batch = reading_groups(setup, plans), prompts * plans.pp
    fullest: Array | float = 1.0 if np.all(groups == 1.0) else most * groups / prompts
    reading = replace(plans, batch=batch, new_tokens=tokens, prefill=True, fullest=fullest)
    return over_operators(setup, reading) * fastest_cut(replace(setup, context=cached), reading)


def fastest_cut(setup: Setup, plans: Plans, *, launches: bool = True) -> Array:
    """Time of a step with the faster split of weight matrices (1D or 2D) [s]; see :func:`step_seconds`."""
    times = step_seconds(setup, plans, launches=launches)
    return times[0] if len(times) == 1 else np.minimum.reduce(times)


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
