"""Reading a prompt: how long it takes an instance, and what of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from inference_econ._by_identity import by_identity
from inference_econ._types import Array, Indices
from inference_econ.engine.cache import index_key_bytes
from inference_econ.engine.collectives import Network, collective_seconds
from inference_econ.engine.layouts.plans import Plans, attention_groups, dealt, fullest_over_mean
from inference_econ.engine.operators.table import Collective
from inference_econ.engine.operators.work import Work
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import host_seconds, overhead_seconds, step_seconds, takes_turns
from inference_econ.inputs import BYTES_PER_ELEMENT, Assumptions

Number = TypeVar("Number", float, Array)
#: Tokens of a step that nothing limits [tokens].
_NO_LIMIT = 2.0**17


@dataclass(frozen=True, slots=True)
class Prefill:
    """Time to read one prompt on an instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        From start to first token if nothing else runs [s].
    busy_seconds : ndarray, shape (...)
        Time of the whole instance that one prompt takes up by itself: less than ``seconds`` where pipeline stages work
        on other prompts meanwhile. Groups of attention ranks step together: the others wait [s].
    full_seconds : ndarray, shape (...)
        The same where every group reads one [s].
    chunks : int
        Steps that it takes [1].
    chip_share : ndarray, shape (...)
        Share of its time that the chips work: for short prompts they wait for the host to launch kernels [1].
    """

    seconds: Array
    busy_seconds: Array
    full_seconds: Array
    chunks: int
    chip_share: Array

    def take(self, index: int | Indices) -> Prefill:
        """The prompts of some layouts, by their place on the first axis."""
        seconds, busy, full = (values[index] for values in (self.seconds, self.busy_seconds, self.full_seconds))
        return Prefill(seconds, busy, full, self.chunks, self.chip_share[index])

    @classmethod
    def stacked(cls, parts: Sequence[Prefill]) -> Prefill:
        """The prompts of some layouts, and of others after them; of one length."""
        seconds, busy, full, chips = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("seconds", "busy_seconds", "full_seconds", "chip_share")
        )
        return cls(seconds, busy, full, parts[0].chunks, chips)


def prefill(setup: Setup, plans: Plans, tokens: float, cached: float = 0.0) -> Prefill:
    """Time to read a prompt of ``tokens`` new tokens after ``cached`` ones.

    Parameters
    ----------
    setup : Setup
        What, on what, how; its context does not count.
    plans : Plans
        Deployments, shape (...); their batch does not count.
    tokens, cached : float
        New tokens of the prompt, and tokens of it that are in the cache [tokens].

    Returns
    -------
    Prefill
        Of a prompt on one group of attention ranks, while the others wait; with ``prefill_split: context`` all groups
        share it. Each pipeline stage works on another prompt.

    Notes
    -----
    Groups step together: with k_r prompts on group r of R a step takes A max(k_r) + M sum(k_r) / R, where A is a
    group's own work on a prompt, attention above all, and M the work of R prompts on what all chips share, such as
    experts. A prompt alone takes A + M / R, and R of them A + M.

    Causal attention: a new token attends to what is cached and to the new ones before it. With ``prefill_chunk`` a
    prompt is read in equal chunks, each of which reads the cache of those before; where none is kept, all tokens are
    new, and read at once.
    """
    together = prompts_together(setup, plans)
    factor = over_operators(setup, replace(plans, batch=together, new_tokens=tokens))
    assumed, limit = setup.assumptions, setup.assumptions.serving.prefill_chunk
    if assumed.attention.cache == "recomputed":
        tokens, cached, limit = tokens + cached, 0.0, 0
    chunks = max(1, math.ceil(tokens / limit)) if limit else 1
    part = tokens / chunks
    halfway = replace(setup, context=cached + (tokens - part) / 2.0, spread=tokens - part)
    gathering = np.zeros(())
    reading = replace(plans, batch=plans.pp, new_tokens=part, prefill=True, fullest=1.0)
    if assumed.serving.prefill_split == "prompts":
        reading = replace(reading, fullest=together / plans.pp)
    else:
        gathering, together = _gathering(setup, plans, part), plans.pp
    work = halfway.work(reading)
    step = fastest_cut(halfway, reading, work) + gathering

    # Time of the chips, without what they wait for the host to launch kernels.
    worked = step - gathering
    if not np.all(worked > (host_seconds(halfway, work) + overhead_seconds(halfway, reading)) * (1.0 + 1e-9)):
        worked = fastest_cut(unhindered(halfway), reading, work)
    share = (worked + gathering) / step
    full = step
    if np.any(together > reading.batch):
        full = fastest_cut(halfway, replace(reading, batch=together, fullest=1.0))

    # Chunks follow each other through the stages of a pipeline; the first waits for no fuller stage.
    passed = step - gathering
    if not isinstance(fullest_over_mean(setup.model.layers, reading, assumed.layout), float):
        even = replace(halfway, assumptions=halfway.assumptions.changed({"layout.pipeline_stages": "even"}))
        passed = fastest_cut(even, reading)
    seconds = passed + gathering + step * ((chunks - 1.0) / plans.pp)
    busy, full_busy = step * (chunks / reading.batch), full * (chunks / together)
    return Prefill(factor * seconds, factor * busy, factor * full_busy, chunks, share)


def over_operators(setup: Setup, plans: Plans) -> Array | float:
    """Return the time of steps that read prompts over that of their operators, on servers as they were measured [1].

    Where two halves of a batch take turns, each fills the gaps of the other, and operators are all that they take.
    """
    factor, turns = setup.assumptions.serving.prefill_factor, takes_turns(setup, replace(plans, prefill=True))
    overhead: Array | float = factor if turns is None else np.where(turns, 1.0, factor)
    return overhead * setup.measured_factor(plans, prefill=True)


def unhindered(setup: Setup) -> Setup:
    """Return the setup with a host that launches kernels in no time."""
    return replace(setup, assumptions=_without_launches(setup.assumptions))


@by_identity
def _without_launches(assumptions: Assumptions) -> Assumptions:
    return assumptions.changed({"host.launch": 0.0})


def _gathering(setup: Setup, plans: Plans, tokens: float) -> Array:
    """Seconds to gather the cache entries of new tokens over the groups that share a prompt, in every layer [s]."""
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
    """Time of the host per request before its first token, with so many tokens of the prompt found in the cache [s]."""
    host = setup.assumptions.host
    return host.request_overhead + host.cached_token_overhead * cached


def prompts_together(setup: Setup, plans: Plans) -> Array:
    """Prompts that an instance can read at the same time: one per group of attention ranks and stage [1]."""
    return np.asarray(plans.pp * attention_groups(plans, setup.assumptions.layout))


def reading_groups(setup: Setup, plans: Plans) -> Array:
    """Groups of attention ranks of a stage that read prompts of their own as they come, and step together [1]."""
    if setup.assumptions.serving.prefill_split != "prompts":
        return np.ones(np.shape(plans.pp))
    return np.asarray(prompts_together(setup, plans) / plans.pp)


def prompts_of_a_step(setup: Setup, tokens: float) -> float:
    """Prompts of so many new tokens that a group of attention ranks can read in one step, at least one [1].

    Without a limit (``prefill_chunk: 0``) as many as have a number of tokens beyond which nothing gets shorter.
    """
    return max((setup.assumptions.serving.prefill_chunk or _NO_LIMIT) // tokens, 1.0)


def shared_steps(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: npt.ArrayLike) -> Array:
    """Time that each of some prompts takes if they share steps, over that of a prompt by itself.

    Parameters
    ----------
    setup : Setup
        What, on what, how; its context does not count.
    plans : Plans
        Deployments, shape (...); their batch does not count.
    tokens, cached : float
        New tokens of each prompt, and tokens of it that are in the cache [tokens].
    prompts : array_like, shape (..., k)
        That wait at the same time [1]: they are dealt out to the pipeline stages and the groups of attention ranks,
        each of which reads as many of them in a step as its tokens allow (:func:`prompts_of_a_step`).

    Returns
    -------
    ndarray, shape (...)
        At most 1: weights are read, kernels launched and messages sent once for all prompts of a step, and groups that
        wait for one prompt read others meanwhile [1].
    """
    groups = reading_groups(setup, plans)
    of_a_stage = np.clip(np.asarray(prompts, dtype=float) / plans.pp, 1.0, prompts_of_a_step(setup, tokens) * groups)
    if np.all(of_a_stage == 1.0):
        return np.ones_like(of_a_stage)
    counts = np.concatenate([np.ones((*of_a_stage.shape[:-1], 1)), of_a_stage], axis=-1)
    steps = group_steps(setup, plans, tokens, cached, counts, dealt(counts, groups))
    return np.where(of_a_stage > 1.0, np.minimum(steps[..., 1:] / (of_a_stage * steps[..., :1]), 1.0), 1.0)


def group_steps(setup: Setup, plans: Plans, tokens: float, cached: float, prompts: Array, most: Array) -> Array:
    """Time of steps that read prompts which are no even part for every group of attention ranks [s].

    Parameters
    ----------
    setup : Setup
        What, on what, how; its context does not count.
    plans : Plans
        Deployments, shape (...); their batch does not count.
    tokens, cached : float
        New tokens of each prompt, and tokens of it that are in the cache [tokens].
    prompts, most : ndarray, shape (...)
        Of a micro-batch, and of its fullest group [1].
    """
    groups, batch = reading_groups(setup, plans), prompts * plans.pp
    fullest: Array | float = 1.0 if np.all(groups == 1.0) else most * groups / prompts
    reading = replace(plans, batch=batch, new_tokens=tokens, prefill=True, fullest=fullest)
    return over_operators(setup, reading) * fastest_cut(replace(setup, context=cached), reading)


def fastest_cut(setup: Setup, plans: Plans, work: Work | None = None) -> Array:
    """Time of a step under the better way to cut matrices [s]; see :func:`step_seconds` for its ``work``."""
    times = step_seconds(setup, plans, work)
    return times[0] if len(times) == 1 else np.minimum.reduce(times)
