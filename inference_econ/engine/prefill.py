"""Reading a prompt: how long it takes an instance, and what of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ.engine.collectives import Network, collective_seconds
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.operators.table import Collective
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import host_seconds, overhead_seconds, step_seconds
from inference_econ.inputs import counting
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prefill:
    """Time to read one prompt on an instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        From start to first token if nothing else runs [s].
    busy_seconds : ndarray, shape (...)
        Time of the whole instance that one prompt takes up: less than ``seconds`` where groups of chips or pipeline
        stages work on other prompts meanwhile [s].
    chunks : int
        Steps that it takes [1].
    chip_share : ndarray, shape (...)
        Share of its time that the chips work: for short prompts they wait for the host to launch kernels [1].
    """

    seconds: Array
    busy_seconds: Array
    chunks: int
    chip_share: Array


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
        Each group of attention ranks, and each pipeline stage, works on a prompt of its own; with
        ``prefill_split: context`` the groups share one.

    Notes
    -----
    Causal attention: a new token attends to what is cached and to the new ones before it. With
    ``prefill_chunk`` a prompt is read in equal chunks, each of which reads the cache of those before.
    """
    limit = setup.assumptions.serving.prefill_chunk
    chunks = max(1, math.ceil(tokens / limit)) if limit else 1
    each = tokens / chunks
    asked = replace(setup, context=cached + (tokens - each) / 2.0)
    together, gathering = prompts_together(setup, plans), np.zeros(())
    if setup.assumptions.serving.prefill_split == "context":
        gathering, together = _gathering(setup, plans, each), plans.pp
    reading = replace(plans, batch=together, new_tokens=each, prefill=True)
    step = fastest_cut(asked, reading) + gathering
    share = (_chip_seconds(asked, reading, step - gathering) + gathering) / step
    # Chunks follow each other through the stages of a pipeline.
    return Prefill(step * (1.0 + (chunks - 1.0) / plans.pp), step * (chunks / together), chunks, share)


def _chip_seconds(setup: Setup, plans: Plans, seconds: Array) -> Array:
    """Time of a step without what its chips wait for the host to launch kernels [s]."""
    host = host_seconds(setup, setup.work(plans)) + overhead_seconds(setup, plans)
    if np.all(seconds > host * (1.0 + 1e-9)):
        return seconds
    return fastest_cut(unhindered(setup), plans)


def unhindered(setup: Setup) -> Setup:
    """The same question for a host that launches kernels in no time."""
    return replace(setup, assumptions=setup.assumptions.changed({"host.launch": 0.0}))


def _gathering(setup: Setup, plans: Plans, tokens: float) -> Array:
    """Seconds to gather the cache entries of new tokens over the groups that share a prompt, in every layer [s]."""
    groups = np.asarray(plans.stage / plans.attention_ranks)
    spread = np.minimum(groups, np.ceil(plans.stage / setup.hardware.link_domain))
    network, total = Network.of(setup.hardware, setup.assumptions.network), np.zeros(())
    width = BYTES_PER_ELEMENT[setup.precision.kv]
    for block in setup.model.blocks:
        entries = counting.cached_elements(block.attention) + counting.index_elements(block.attention)
        gather = Collective("all_to_all", groups, spread, np.full((), entries * width))
        total = total + block.layers * collective_seconds(network, gather, np.full((), tokens))
    return total


def prompts_together(setup: Setup, plans: Plans) -> Array:
    """Prompts that an instance reads at the same time: one per group of attention ranks and stage [1]."""
    if setup.assumptions.layout.attention_groups == "idle":
        return plans.pp
    return np.asarray(plans.accelerators / plans.attention_ranks)


def fastest_cut(setup: Setup, plans: Plans) -> Array:
    """Time of a step under the better way to cut matrices [s]."""
    times = step_seconds(setup, plans)
    return times[0] if len(times) == 1 else np.minimum.reduce(times)
