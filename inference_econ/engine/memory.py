"""Capacity of a deployment: the only capacity check there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.cache import held_cache, held_prefix, own_tokens
from inference_econ.engine.layouts.plans import (
    DEPTH_TOLERANCE,
    Plans,
    attention_groups,
    copied_by_groups,
    dealt,
    expert_slots,
    fullest_group,
    fullest_over_mean,
)
from inference_econ.engine.layouts.startable import indivisible
from inference_econ.engine.operators.mixture import Contexts
from inference_econ.engine.operators.work import adapter_bytes
from inference_econ.engine.protocols import Served
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Assumptions,
    CapacityAssumptions,
    ModelSpec,
    Precision,
    TensorLayout,
    TierSpec,
    catalog,
)

#: Reasons by code; 0 means that a plan fits.
REASONS = (
    "fits",
    "weights exceed the memory",
    "weights and KV cache exceed the memory",
    "pipeline deeper than the accelerators or the batch",
    "no network between link domains in the hardware file (nic_bytes_per_second_one_way can be set for a what-if)",
    "heads, layers, experts or widths do not divide",
    "no serving engine can start it",
)
FITS, WEIGHTS, CACHE, DEPTH, NETWORK, DIVIDE, ENGINE = range(7)
#: Reasons that no memory mends.
LAYOUT = (NETWORK, DIVIDE, ENGINE)
#: Groups of weights that are no layers of the language model: they stay with the chips, and no stage has more of them.
_BESIDE_LAYERS = ("embeddings", "vision", "adapters")


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that plans need, summed over the accelerators of an instance, copies included.

    Where stages of a pipeline are uneven, all count as if they were as full as the fullest.

    Attributes
    ----------
    weight_bytes : ndarray, broadcastable to (...)
        Weights [B].
    kv_bytes : ndarray, broadcastable to (...)
        Cache and states that must fit [B].
    available_bytes : ndarray, broadcastable to (...)
        Memory that they may fill [B].
    workspace_bytes : ndarray, broadcastable to (...)
        Activations of the largest step, taken from the usable memory before [B].
    prefix_bytes : ndarray, broadcastable to (...)
        Of the cache, a prefix that sequences have in common: it does not grow with their number [B].
    pageable_bytes : ndarray, broadcastable to (...)
        Further cache, which may lie in the memory of the hosts [B].
    host_bytes : ndarray, broadcastable to (...)
        Memory of the hosts that it may fill [B].
    """

    weight_bytes: Array
    kv_bytes: Array
    available_bytes: Array
    workspace_bytes: Array
    prefix_bytes: Array = field(default_factory=lambda: np.zeros(()))
    pageable_bytes: Array = field(default_factory=lambda: np.zeros(()))
    host_bytes: Array = field(default_factory=lambda: np.zeros(()))

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """True if weights and cache fit, broadcastable to (...)."""
        beside = self.available_bytes >= self.kv_bytes + self.weight_bytes
        return np.asarray(beside & (self.paged_bytes <= self.host_bytes))

    @property
    def paged_bytes(self) -> Array:
        """Cache in the memory of hosts: what may lie there and has no room beside the weights [B]."""
        beyond = self.weight_bytes + self.kv_bytes + self.pageable_bytes - self.available_bytes
        return np.asarray(np.clip(beyond, 0.0, self.pageable_bytes))

    @property
    def filled(self) -> float:
        """Weights and cache over what they may fill, with the memory of hosts and without, of the only plan [1]."""
        least = self.weight_bytes + self.kv_bytes
        most = (least + self.pageable_bytes) / (self.available_bytes + self.host_bytes)
        return float(np.max(np.maximum(least / self.available_bytes, most)))

    def of_one_plan(self) -> tuple[float, float, float]:
        """Weights and cache in the memory of the accelerators, and what they may fill, of the only plan [B]."""
        cached = self.kv_bytes + self.pageable_bytes - np.minimum(self.paged_bytes, self.host_bytes)
        weights, cache, available = (
            float(np.ravel(value)[0]) for value in (self.weight_bytes, cached, self.available_bytes)
        )
        return weights, cache, available


def weight_bytes(model: ModelSpec, precision: Precision, host_weights: float = 0.0) -> float:
    """Weights of a language model as stored, once [B]; without the share of its layers that the host's memory holds."""
    groups = _weight_groups(model, precision)
    whole = sum(groups.values())
    return whole - host_weights * (whole - groups["embeddings"]) if host_weights else whole


def streamed_bytes(setup: Served, plans: Plans) -> Array:
    """Weights that each accelerator reads from the memory of its host while a step passes all stages [B].

    Copies are read by each that would hold one; of a pipeline, the fullest stage sets the pace.
    """
    layers = {**_all_weights(setup, plans), **dict.fromkeys(_BESIDE_LAYERS, 0.0)}
    return np.asarray(setup.assumptions.capacity.host_weights * sum(layers.values()) / plans.stage)


def _weight_groups(
    model: ModelSpec, precision: Precision, assumed: CapacityAssumptions | None = None
) -> dict[str, float]:
    """Weights as stored, by where copies of them lie [B]; those that must fit, under some assumptions."""
    hidden, parts = model.hidden_size, model.parameter_parts()
    routed = shared = output = 0.0
    for block in model.blocks:
        feed_forward = block.feed_forward.parameters(hidden)
        output += block.layers * block.attention.parameters(hidden).output
        routed += block.layers * feed_forward.routed
        shared += block.layers * feed_forward.shared
    other = sum(parts.values()) - parts["embeddings"] - parts["attention"] - routed - shared
    width = BYTES_PER_ELEMENT
    embeddings = parts["embeddings"]
    if assumed is not None and assumed.embeddings == "output" and not model.tied_embeddings:
        embeddings -= model.vocab_size * hidden
    tower = 0.0
    if assumed is not None and assumed.vision_tower and model.vision is not None:
        tower = model.vision.parameters * width["bf16"]
    return {
        "embeddings": embeddings * width[precision.embeddings],
        "attention": (parts["attention"] - output) * width[precision.attention]
        + output * width[precision.attention_output],
        "shared_experts": shared * width[precision.shared_experts],
        "experts": routed * width[precision.experts],
        "feed_forward": other * width[precision.weights],
        "vision": tower,
    }


def _held_weights(setup: Served, plans: Plans) -> dict[str, Array | float]:
    """Weights in the memory of all accelerators of an instance, by group [B]; what the host holds does not count."""
    groups, share = _all_weights(setup, plans), setup.assumptions.capacity.host_weights
    if not share:
        return groups
    return {name: held if name in _BESIDE_LAYERS else held * (1.0 - share) for name, held in groups.items()}


def _all_weights(setup: Served, plans: Plans) -> dict[str, Array | float]:
    """Weights of all accelerators of an instance, copies included, wherever they lie, by group [B].

    Each group of attention ranks holds its own copy of attention and of shared experts, every rank of a group one of
    what all heads share and engines do not cut; of mixtures perhaps of all that is not routed, and every rank whole
    routers; expert-parallel ranks hold copies of some experts. Stages of a pipeline count as if all had as many layers
    as the fullest.
    """
    model, precision, assumptions = setup.model, setup.precision, setup.assumptions
    groups: dict[str, Array | float] = {**_weight_groups(model, precision, assumptions.capacity)}
    whole = 0.0
    for block in model.blocks:
        parameters = block.attention.parameters(model.hidden_size)
        matrices = parameters.indexer if assumptions.attention.indexer == "replicated" else ()
        matrices += parameters.shared if assumptions.attention.latent_down == "replicated" else ()
        whole += block.layers * sum(rows * columns for rows, columns in matrices)
    whole *= BYTES_PER_ELEMENT[precision.attention]
    if whole:
        groups["attention"] = (groups["attention"] - whole) + whole * plans.attention_ranks
    copies = attention_groups(plans, assumptions.layout)
    for name in ("attention", "shared_experts", "vision"):
        groups[name] = groups[name] * copies
    if groups["experts"] and assumptions.experts.redundant is not None and plans.ep is not None:
        # Every layer of a model has equally many.
        experts = max(mixture.experts for mixture in model.mixtures)
        groups["experts"] = groups["experts"] * (expert_slots(experts, plans.ep, assumptions.experts) / experts)
    if copied_by_groups(model, assumptions.layout):
        # Routers, and projections into the experts' space, are never cut.
        whole = sum(block.layers * block.feed_forward.parameters(model.hidden_size).whole for block in model.blocks)
        whole *= BYTES_PER_ELEMENT[precision.weights]
        groups["embeddings"] = groups["embeddings"] * copies
        groups["feed_forward"] = groups["feed_forward"] * copies + whole * (plans.stage - copies)
    fullest = fullest_over_mean(model.layers, plans, assumptions.layout)
    held = {name: size if name in _BESIDE_LAYERS else size * fullest for name, size in groups.items()}
    if assumptions.adapters.loras:
        held["adapters"] = adapter_bytes(setup, plans)
    return held


def workspace_bytes(setup: Served, plans: Plans) -> Array:
    """Activations of the largest step on one accelerator [B], broadcastable to the plans.

    Residual stream, its normed copy, queries and the output of attention of ``workspace_tokens`` tokens, the widest
    layer's part between its two sides, and the logits of the sequences in 32 bits; or what sampling for all slots or
    reading images takes in a profile run, if that is more; and what MLA decompresses in every step, one layer at a
    time.
    """
    model, precision, assumptions = setup.model, setup.precision, setup.assumptions
    assumed, tokens, width = assumptions.capacity, assumptions.capacity.workspace_tokens, BYTES_PER_ELEMENT
    fullest, decompressed = fullest_group(plans, assumptions.layout), 0.0
    if assumptions.attention.latent == "decompressed_per_step":
        decompressed = max(block.attention.cache.decompressed_elements for block in model.blocks)
    expanded = plans.micro_batch * (_kept_tokens(setup, plans) * decompressed * width[precision.activations])
    expanded = np.asarray(expanded / plans.stage) * fullest
    if tokens == 0:
        return expanded
    between = (block.feed_forward.activated.values() for block in model.blocks)
    widest = max(sum(matrices * width for width, matrices in rows) for rows in between)
    of_group = plans.micro_batch * fullest / attention_groups(plans, assumptions.layout)
    elements = tokens * (4.0 * model.hidden_size + widest / plans.stage)
    logits = np.minimum(of_group, tokens) * model.vocab_size * width["fp32"]
    activations = elements * width[precision.activations]
    # A profile run samples for all slots, after the activations of the layers are gone.
    sampling = assumed.sampled_logits * model.vocab_size * width["fp32"]
    images: Array | float = 0.0
    tower = model.vision
    if tower is not None and assumed.vision_tower and assumed.profiled_images:
        # The same rows count as of the language model, before and after the activation function.
        of_patch = 4.0 * tower.hidden_size + 2.0 * tower.intermediate_size / plans.attention_ranks
        images = tower.profiled_patches(tokens) * of_patch * width[precision.activations]
    return np.asarray(np.maximum(np.maximum(activations + logits, sampling), images) + expanded)


def reserved_bytes(plans: Plans, assumed: CapacityAssumptions) -> Array:
    """Return the memory that an engine takes of each accelerator besides weights, cache and activations [B]."""
    exchanging = np.asarray(plans.stage) > 1.0
    return np.asarray(assumed.reserved_bytes + np.where(exchanging, assumed.communication_bytes, 0.0))


def _kept_tokens(setup: Served, plans: Plans) -> float:
    """Tokens of a sequence in the cache after the step; a prompt that is read is kept [tokens]."""
    return setup.context + (plans.new_tokens if plans.prefill else 0.0)


def need(setup: Served, plans: Plans) -> Memory:
    """Return the memory that plans need and have.

    Parameters
    ----------
    setup : Served
        What is served, on what, with sequences of one context. Of its assumptions ``kv_capacity`` says how many
        micro-batches are counted, ``kv_block`` in which portions, ``usable_memory`` how much may be filled, and
        ``workspace_tokens`` what activations take of that.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    Memory
        Entries broadcastable to (...).
    """
    assumptions = setup.assumptions
    cache, prefix = _held_by_one(setup, plans)
    share, sequences = assumptions.capacity.host_cache, _counted(plans, assumptions)
    workspace = plans.accelerators * workspace_bytes(setup, plans)
    usable = setup.hardware.hbm_bytes * assumptions.capacity.usable_memory
    hosts = np.zeros(())
    if share:
        # What weights leave free of the memory of the hosts.
        tier = host_memory(assumptions.capacity.host_memory)
        weights = streamed_bytes(setup, plans) * plans.stage
        hosts = np.asarray(plans.accelerators * tier.bytes_per_accelerator - weights)
    return Memory(
        weight_bytes=np.asarray(sum(_held_weights(setup, plans).values())),
        kv_bytes=np.asarray((sum(cache.values()) - share * cache["kv_cache"]) * sequences + prefix),
        available_bytes=plans.accelerators * (usable - reserved_bytes(plans, assumptions.capacity)) - workspace,
        workspace_bytes=workspace,
        prefix_bytes=prefix,
        pageable_bytes=np.asarray(share * cache["kv_cache"] * sequences),
        host_bytes=hosts,
    )


def mixed(parts: Sequence[Memory], contexts: Contexts, plans: Plans) -> Memory:
    """Return the memory of plans whose sequences have different contexts, from that at each of the contexts."""
    counts = [count for _, count in contexts]
    cache, pageable = (
        np.average([np.broadcast_to(held, plans.shape) for held in of_parts], axis=0, weights=counts)
        for of_parts in zip(*((part.kv_bytes, part.pageable_bytes) for part in parts), strict=True)
    )
    return replace(parts[-1], kv_bytes=cache, pageable_bytes=pageable)


def _held_by_one(setup: Served, plans: Plans) -> tuple[dict[str, Array | float], Array]:
    """Cache and states of one sequence, and the prefix that all have in common, over all accelerators [B]."""
    model, precision, assumptions = setup.model, setup.precision, setup.assumptions
    context = _kept_tokens(setup, plans)
    own_prompts = own_tokens(context, setup.shared_prefix, assumptions.capacity)
    prefix = np.asarray(held_prefix(model, precision, plans, context - own_prompts, assumptions))
    return held_cache(model, precision, plans, own_prompts, assumptions), prefix


@lru_cache(maxsize=8)
def host_memory(name: str) -> TierSpec:
    """The memory of hosts by name or path; see :func:`inference_econ.inputs.catalog.tier` for errors."""
    return catalog.tier(name)


def paged_bytes(needed: Memory, plans: Plans, assumptions: Assumptions) -> Array:
    """Cache that each accelerator reads from the memory of its host while a step passes all stages [B]."""
    at_once = plans.micro_batch / plans.batch if assumptions.capacity.kv == "batch" else 1.0
    return np.asarray(needed.paged_bytes * at_once / plans.stage)


def _counted(plans: Plans, assumptions: Assumptions) -> Array:
    """Sequences whose cache must fit: of as many groups as there are, each as full as the fullest [1]."""
    sequences = plans.batch if assumptions.capacity.kv == "batch" else plans.micro_batch
    groups = attention_groups(plans, assumptions.layout)
    if not plans.whole or plans.fullest is not None or np.all(np.asarray(groups) == 1.0):
        return sequences
    return dealt(sequences, np.asarray(groups)) * groups


def of_one_accelerator(setup: Served, plan: Plans) -> dict[str, float]:
    """Return the parts of the memory of each accelerator of a single plan, on average over those of the fullest stage.

    Parameters
    ----------
    setup : Served
        As in :func:`need`.
    plan : Plans
        One deployment, shape (1,).

    Returns
    -------
    dict of str to float
        Groups of weights, cache, shared prefix, states, workspace, head-room and what is free [B]; they add up to
        the memory of an accelerator.
    """
    assumed, hbm_bytes = setup.assumptions.capacity, setup.hardware.hbm_bytes
    cache, prefix = _held_by_one(setup, plan)
    sequences = _counted(plan, setup.assumptions)
    shared = {
        **_held_weights(setup, plan),
        **{name: held * sequences for name, held in cache.items()},
        "shared_prefix": prefix,
    }
    if assumed.host_cache:
        shared["kv_cache"] = shared["kv_cache"] - need(setup, plan).paged_bytes
    parts = {name: float(np.ravel(held / plan.accelerators)[0]) for name, held in shared.items()}
    parts["workspace"] = float(np.ravel(workspace_bytes(setup, plan))[0])
    parts["reserved"] = float(np.ravel(reserved_bytes(plan, assumed))[0])
    parts["head_room"] = hbm_bytes * (1.0 - assumed.usable_memory)
    return {**parts, "free": hbm_bytes - sum(parts.values())}


def cached_tokens(needed: Memory, plans: Plans, context: float, assumptions: Assumptions) -> Array:
    """Tokens of sequences of some length whose cache and states fit an instance, over all its groups [tokens].

    Parameters
    ----------
    needed : Memory
        Of the plans at that length without a shared prefix, from :func:`need`, or with what proposes tokens beside the
        model.
    plans : Plans
        Deployments, shape (...).
    context : float
        Tokens of each sequence [tokens].
    assumptions : Assumptions
        As in :func:`need`.

    Returns
    -------
    ndarray
        Broadcastable to the plans; 0 where not even the weights fit. Engines log it as the size of their cache.
    """
    of_one = needed.kv_bytes / _counted(plans, assumptions)
    return np.asarray(np.maximum(needed.available_bytes - needed.weight_bytes, 0.0) / of_one * context)


def could_fit(memory: Memory, plans: Plans) -> npt.NDArray[np.bool_]:
    """Return whether memory and the depth of the pipeline allow the plans, broadcastable to ``plans.shape``."""
    return memory.fits & ~_too_deep(plans)


def _too_deep(plans: Plans) -> npt.NDArray[np.bool_]:
    return np.asarray(plans.pp > np.minimum(plans.accelerators, plans.batch) * (1.0 + DEPTH_TOLERANCE))


def reasons(setup: Served, needed: Memory, plans: Plans, layout: TensorLayout) -> npt.NDArray[np.intp]:
    """Why each plan cannot run, as codes of :data:`REASONS`, broadcastable to ``plans.shape``.

    Parameters
    ----------
    setup : Served
        What is served, on what, how.
    needed : Memory
        From :func:`need`.
    plans : Plans
        The deployments that need it.
    layout : {'1d', '2d'}
        How weight matrices are cut.
    """
    too_small = np.where(needed.available_bytes < needed.weight_bytes, WEIGHTS, CACHE)
    code = np.where(_too_deep(plans), DEPTH, np.where(needed.fits, FITS, too_small))
    if setup.most_linked is not None:
        code = np.where(plans.accelerators > setup.most_linked, NETWORK, code)
    if plans.whole:
        for problem in indivisible(setup.model, plans, layout, setup.assumptions, setup.precision.blocks):
            code = np.where(problem.where, DIVIDE, code)
    return code
