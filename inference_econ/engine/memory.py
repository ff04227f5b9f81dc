"""Memory that an instance needs for weights, KV cache and workspace, and checks that this memory fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
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
from inference_econ.engine.operators.table import OperatorTable, held_bytes
from inference_econ.engine.operators.work import Contexts, rows_of_layers
from inference_econ.engine.served import Served
from inference_econ.formulas.attention import eight_bit_key_bytes
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Assumptions,
    Attention,
    AttentionAssumptions,
    CapacityAssumptions,
    ModelSpec,
    Precision,
    TensorLayout,
    TierSpec,
    catalog,
)

#: Reasons why a plan cannot run, by code; 0 means that the plan fits.
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
#: Reasons that concern the layout. More memory does not help.
LAYOUT = (NETWORK, DIVIDE, ENGINE)
#: Groups of weights outside the transformer layers, which are never in host memory and do not depend on uneven pipeline
#: stages.
_BESIDE_LAYERS = ("embeddings", "vision", "adapters")


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Memory that plans need, and available memory, summed over the accelerators of an instance, with copies.

    If pipeline stages are uneven, all stages are assumed to be as large as the largest stage.

    Attributes
    ----------
    weight_bytes : ndarray, broadcastable to (...)
        Memory of the weights [B].
    kv_bytes : ndarray, broadcastable to (...)
        KV cache and recurrent states that must fit on the accelerators [B].
    available_bytes : ndarray, broadcastable to (...)
        Usable memory for weights and KV cache, without the workspace [B].
    workspace_bytes : ndarray, broadcastable to (...)
        Activations of the largest step [B].
    prefix_bytes : ndarray, broadcastable to (...)
        Part of ``kv_bytes`` for a prefix that all sequences share, which does not depend on the number of sequences
        [B].
    pageable_bytes : ndarray, broadcastable to (...)
        KV cache in addition to ``kv_bytes`` that may be placed in host memory [B].
    host_bytes : ndarray, broadcastable to (...)
        Host memory that is available for ``pageable_bytes`` [B].
    cpu_kv_bytes : ndarray, broadcastable to (...)
        KV cache of the layers that run on the CPU, in host memory [B].
    cpu_limit_bytes : ndarray or float
        Host memory that is available for ``cpu_kv_bytes`` [B].
    """

    weight_bytes: Array
    kv_bytes: Array
    available_bytes: Array
    workspace_bytes: Array
    prefix_bytes: Array = field(default_factory=lambda: np.zeros(()))
    pageable_bytes: Array = field(default_factory=lambda: np.zeros(()))
    host_bytes: Array = field(default_factory=lambda: np.zeros(()))
    cpu_kv_bytes: Array = field(default_factory=lambda: np.zeros(()))
    cpu_limit_bytes: Array | float = np.inf

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """True if weights and KV cache fit in memory, broadcastable to (...)."""
        beside = self.available_bytes >= self.kv_bytes + self.weight_bytes
        beside = beside & (self.cpu_kv_bytes <= self.cpu_limit_bytes)
        return np.asarray(beside & (self.paged_bytes <= self.host_bytes))

    @property
    def paged_bytes(self) -> Array:
        """KV cache in host memory: the part of ``pageable_bytes`` that does not fit on the accelerators [B]."""
        beyond = self.weight_bytes + self.kv_bytes + self.pageable_bytes - self.available_bytes
        return np.asarray(np.clip(beyond, 0.0, self.pageable_bytes))

    @property
    def filled(self) -> float:
        """Share of the available memory that weights and KV cache of a single plan need [1].

        The result is the larger of two shares: accelerator memory without ``pageable_bytes``, and all memory with
        ``pageable_bytes``.
        """
        least = self.weight_bytes + self.kv_bytes
        most = (least + self.pageable_bytes) / (self.available_bytes + self.host_bytes)
        return float(np.max(np.maximum(least / self.available_bytes, most)))

    def of_one_plan(self) -> tuple[float, float, float]:
        """Memory of a single plan: weights, KV cache on the accelerators, and available memory [B]."""
        cached = self.kv_bytes + self.pageable_bytes - np.minimum(self.paged_bytes, self.host_bytes)
        weights, cache, available = (
            float(np.ravel(value)[0]) for value in (self.weight_bytes, cached, self.available_bytes)
        )
        return weights, cache, available


def weight_bytes(model: ModelSpec, precision: Precision, host_weights: float = 0.0) -> float:
    """Size of a language model's weights as stored, without copies and without the share in host memory [B]."""
    groups = _weight_groups(model, precision)
    whole = sum(groups.values())
    return whole - host_weights * (whole - groups["embeddings"]) if host_weights else whole


def streamed_bytes(setup: Served, plans: Plans) -> Array:
    """Weights that each accelerator reads from host memory during one step [B].

    Each accelerator reads its own weights. In a pipeline, the stage with the most weights determines the result.
    """
    layers = {**_all_weights(setup, plans), **dict.fromkeys(_BESIDE_LAYERS, 0.0)}
    return np.asarray(setup.assumptions.capacity.host_weights * sum(layers.values()) / plans.stage)


def _weight_groups(
    model: ModelSpec, precision: Precision, assumed: CapacityAssumptions | None = None
) -> dict[str, float]:
    """Size of the stored weights by group; groups differ in how they are split and copied [B].

    If ``assumed`` is given, only weights that an engine loads are included.
    """
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
    """Weights on all accelerators of an instance by group, without weights in host memory [B]."""
    groups, share = _all_weights(setup, plans), setup.assumptions.capacity.host_weights
    if not share:
        return groups
    return {name: held if name in _BESIDE_LAYERS else held * (1.0 - share) for name, held in groups.items()}


def _all_weights(setup: Served, plans: Plans) -> dict[str, Array | float]:
    """Weights of all accelerators of an instance by group, including copies and weights in host memory [B].

    Each attention-DP group has a copy of attention and shared experts. Matrices that all heads share are copied to
    every rank, unless the engine splits these matrices. In MoE models, each group may also have a copy of all other
    weights except routed experts. In this case, every rank has the full routers. Expert-parallel ranks may have
    additional copies of some experts. All pipeline stages are assumed to have as many layers as the largest stage.
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
        # Every layer of a model has the same number of experts.
        experts = max(mixture.experts for mixture in model.mixtures)
        groups["experts"] = groups["experts"] * (expert_slots(experts, plans.ep, assumptions.experts) / experts)
    if copied_by_groups(model, assumptions.layout):
        # Routers, and projections to the input width of experts, are never split.
        whole = sum(block.layers * block.feed_forward.parameters(model.hidden_size).whole for block in model.blocks)
        whole *= BYTES_PER_ELEMENT[precision.weights]
        groups["embeddings"] = groups["embeddings"] * copies
        groups["feed_forward"] = groups["feed_forward"] * copies + whole * (plans.stage - copies)
    fullest = fullest_over_mean(model.layers, plans, assumptions.layout)
    held = {name: size if name in _BESIDE_LAYERS else size * fullest for name, size in groups.items()}
    if assumptions.adapters.loras:
        table = OperatorTable(setup, plans)
        held["adapters"] = held_bytes(table, rows_of_layers(table, fullest))
    return held


def workspace_bytes(setup: Served, plans: Plans) -> Array:
    """Activations of the largest step on one accelerator [B], broadcastable to the plans.

    The largest step has ``workspace_tokens`` tokens. Activations are the residual stream and its normalized copy,
    queries, attention output, intermediate values of the widest layer, and 32-bit logits of the sequences. If MLA
    decompresses keys and values in each step, the decompressed values of one layer are added.

    At startup, engines measure their memory use with a profile run. A profile run may also sample tokens for the
    maximum number of sequences, or encode images. The result is the largest of the memory for activations, for
    sampling, and for images.
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
    # The profile run samples tokens for the maximum number of sequences, after the activations of the layers are freed.
    sampling = assumed.sampled_logits * model.vocab_size * width["fp32"]
    images: Array | float = 0.0
    tower = model.vision
    if tower is not None and assumed.vision_tower and assumed.profiled_images:
        # The vision tower has the same kinds of activations as the language model, before and after the activation
        # function.
        of_patch = 4.0 * tower.hidden_size + 2.0 * tower.intermediate_size / plans.attention_ranks
        images = tower.profiled_patches(tokens) * of_patch * width[precision.activations]
    return np.asarray(np.maximum(np.maximum(activations + logits, sampling), images) + expanded)


def reserved_bytes(plans: Plans, assumed: CapacityAssumptions) -> Array:
    """Memory per accelerator that an engine reserves in addition to weights, KV cache and activations [B]."""
    exchanging = np.asarray(plans.stage) > 1.0
    return np.asarray(assumed.reserved_bytes + np.where(exchanging, assumed.communication_bytes, 0.0))


def _kept_tokens(setup: Served, plans: Plans) -> float:
    """Tokens of a sequence in the KV cache after the step, including a prefilled prompt [tokens]."""
    return setup.context + (plans.new_tokens if plans.prefill else 0.0)


def need(setup: Served, plans: Plans) -> Memory:
    """Compute the memory that plans need, and the memory that is available to the plans.

    Parameters
    ----------
    setup : Served
        Model, chip and assumptions; all sequences have the same context. ``capacity.kv`` sets whether the KV cache of
        the full batch or of one micro-batch must fit. ``kv_block`` sets the block size, ``usable_memory`` the usable
        share of memory, and ``workspace_tokens`` the size of the activations.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    Memory
        Memory of the plans; arrays are broadcastable to (...).
    """
    assumptions = setup.assumptions
    cache, prefix = _held_by_one(setup, plans)
    share, sequences = assumptions.capacity.host_cache, _counted(plans, assumptions)
    workspace = plans.accelerators * workspace_bytes(setup, plans)
    usable = setup.hardware.hbm_bytes * assumptions.capacity.usable_memory
    hosts, on_cpu, limit = np.zeros(()), assumptions.cpu.layers / setup.model.layers, assumptions.cpu.memory_bytes
    held = np.asarray((sum(cache.values()) - share * cache["kv_cache"]) * sequences + prefix)
    if share:
        # The KV cache can use the host memory that weights in host memory leave free.
        tier = host_memory(assumptions.capacity.host_memory)
        weights = streamed_bytes(setup, plans) * plans.stage
        hosts = np.asarray(plans.accelerators * tier.bytes_per_accelerator - weights)
    return Memory(
        weight_bytes=np.asarray(sum(_held_weights(setup, plans).values())),
        kv_bytes=held * (1.0 - on_cpu),
        available_bytes=plans.accelerators * (usable - reserved_bytes(plans, assumptions.capacity)) - workspace,
        workspace_bytes=workspace,
        prefix_bytes=prefix * (1.0 - on_cpu),
        pageable_bytes=np.asarray(share * cache["kv_cache"] * sequences),
        host_bytes=hosts,
        cpu_kv_bytes=held * on_cpu,
        cpu_limit_bytes=np.inf if limit is None else limit - cpu_weight_bytes(setup),
    )


def cpu_weight_bytes(setup: Served) -> float:
    """Weights of the layers that run on the CPU, in host memory [B]."""
    share = setup.assumptions.cpu.layers / setup.model.layers
    return weight_bytes(setup.model, setup.precision) - weight_bytes(setup.model, setup.precision, share)


def mixed(parts: Sequence[Memory], contexts: Contexts, plans: Plans) -> Memory:
    """Memory of plans whose sequences have different contexts: mean of the memory at each context over sequences."""
    counts = [count for _, count in contexts]
    cache, pageable, on_cpu = (
        np.average([np.broadcast_to(held, plans.shape) for held in of_parts], axis=0, weights=counts)
        for of_parts in zip(*((part.kv_bytes, part.pageable_bytes, part.cpu_kv_bytes) for part in parts), strict=True)
    )
    return replace(parts[-1], kv_bytes=cache, pageable_bytes=pageable, cpu_kv_bytes=on_cpu)


def _held_by_one(setup: Served, plans: Plans) -> tuple[dict[str, Array | float], Array]:
    """KV cache and recurrent states of one sequence, and KV cache of the shared prefix, on all accelerators [B]."""
    model, precision, assumptions = setup.model, setup.precision, setup.assumptions
    context = _kept_tokens(setup, plans)
    own_prompts = own_tokens(context, setup.shared_prefix, assumptions.capacity)
    prefix: Array | float = 0.0
    if shared := context - own_prompts:
        # Each attention-DP group has one copy, including one state of the recurrent layers.
        held = sum(held_cache(model, precision, plans, shared, assumptions).values())
        prefix = held * attention_groups(plans, assumptions.layout)
    return held_cache(model, precision, plans, own_prompts, assumptions), np.asarray(prefix)


@lru_cache(maxsize=8)
def host_memory(name: str) -> TierSpec:
    """Load the specification of a host memory by name or path; see :func:`inference_econ.inputs.catalog.tier`."""
    return catalog.tier(name)


def paged_bytes(needed: Memory, plans: Plans, assumptions: Assumptions) -> Array:
    """KV cache that each accelerator reads from host memory while a step passes through all pipeline stages [B]."""
    at_once = plans.micro_batch / plans.batch if assumptions.capacity.kv == "batch" else 1.0
    return np.asarray(needed.paged_bytes * at_once / plans.stage)


def _counted(plans: Plans, assumptions: Assumptions) -> Array:
    """Number of sequences that must fit, if every attention-DP group has the number of the fullest group [1]."""
    sequences = plans.batch if assumptions.capacity.kv == "batch" else plans.micro_batch
    groups = attention_groups(plans, assumptions.layout)
    if not plans.whole or plans.fullest is not None or np.all(np.asarray(groups) == 1.0):
        return sequences
    return dealt(sequences, np.asarray(groups)) * groups


def of_one_accelerator(setup: Served, plan: Plans) -> dict[str, float]:
    """Mean memory use of the accelerators in the largest stage of a single plan, by purpose [B].

    Parameters
    ----------
    setup : Served
        Argument of :func:`need`.
    plan : Plans
        One deployment, shape (1,).

    Returns
    -------
    dict of str to float
        Memory by purpose [B]: groups of weights, KV cache, shared prefix, recurrent states, workspace, reserved memory,
        headroom and free memory. The sum is the memory of one accelerator.
    """
    assumed, hbm_bytes = setup.assumptions.capacity, setup.hardware.hbm_bytes
    cache, prefix = _held_by_one(setup, plan)
    sequences = _counted(plan, setup.assumptions)
    on_chip = 1.0 - setup.assumptions.cpu.layers / setup.model.layers
    shared = {
        **_held_weights(setup, plan),
        **{name: held * sequences * on_chip for name, held in cache.items()},
        "shared_prefix": prefix * on_chip,
    }
    if assumed.host_cache:
        shared["kv_cache"] = shared["kv_cache"] - need(setup, plan).paged_bytes
    parts = {name: float(np.ravel(held / plan.accelerators)[0]) for name, held in shared.items()}
    parts["workspace"] = float(np.ravel(workspace_bytes(setup, plan))[0])
    parts["reserved"] = float(np.ravel(reserved_bytes(plan, assumed))[0])
    parts["head_room"] = hbm_bytes * (1.0 - assumed.usable_memory)
    return {**parts, "free": hbm_bytes - sum(parts.values())}


def cached_tokens(needed: Memory, plans: Plans, context: float, assumptions: Assumptions) -> Array:
    """KV-cache capacity of an instance over all attention-DP groups, for sequences of a given length [tokens].

    Parameters
    ----------
    needed : Memory
        Memory that the plans need at this context length if requests share no prefix, from :func:`need`. With
        speculation, the memory of the draft model is included.
    plans : Plans
        Deployments, shape (...).
    context : float
        Context length of each sequence [tokens].
    assumptions : Assumptions
        Argument of :func:`need`.

    Returns
    -------
    ndarray
        Capacity in tokens, broadcastable to the plans; 0 if the weights do not fit. Engines print this capacity at
        startup as the size of the KV cache.
    """
    of_one = needed.kv_bytes / _counted(plans, assumptions)
    return np.asarray(np.maximum(needed.available_bytes - needed.weight_bytes, 0.0) / of_one * context)


def too_deep(plans: Plans) -> npt.NDArray[np.bool_]:
    """True for plans with more pipeline stages than GPUs or sequences, shape ``plans.shape``."""
    return np.asarray(plans.pp > np.minimum(plans.accelerators, plans.batch) * (1.0 + DEPTH_TOLERANCE))


def reasons(setup: Served, needed: Memory, plans: Plans, layout: TensorLayout) -> npt.NDArray[np.intp]:
    """Index in :data:`REASONS` of the reason why each plan cannot run; 0 if it fits; broadcastable to ``plans.shape``.

    Parameters
    ----------
    setup : Served
        Model, chip, formats and assumptions.
    needed : Memory
        Memory of the plans, from :func:`need`.
    plans : Plans
        Deployments for which ``needed`` was computed.
    layout : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).
    """
    too_small = np.where(needed.available_bytes < needed.weight_bytes, WEIGHTS, CACHE)
    code = np.where(too_deep(plans), DEPTH, np.where(needed.fits, FITS, too_small))
    if setup.most_linked is not None:
        code = np.where(plans.accelerators > setup.most_linked, NETWORK, code)
    if setup.assumptions.cpu.layers:
        code = np.where(plans.accelerators > 1, ENGINE, code)
    if plans.whole:
        for problem in indivisible(setup.model, plans, layout, setup.assumptions, setup.precision.blocks):
            code = np.where(problem.where, DIVIDE, code)
    return code


def kv_bytes_per_sequence(
    model: ModelSpec, precision: Precision, context: float, assumptions: Assumptions | None = None
) -> float:
    """KV cache and recurrent states of one sequence of ``context`` tokens over all layers, without copies [B].

    If ``assumptions`` is None, the context is not rounded up to full blocks, and MLA stores the latent.
    """
    held = sum(block.layers * _kept(block.attention, precision, context, assumptions) for block in model.blocks)
    return float(held * _held_share(model, assumptions))


def _held_share(model: ModelSpec, assumptions: Assumptions | None) -> float:
    """Share of the layers with a KV cache that must be in memory at the same time [1]."""
    recomputed = assumptions is not None and assumptions.attention.cache == "recomputed"
    return 1.0 / model.layers if recomputed else 1.0


def _kept(
    spec: Attention, precision: Precision, context: Array | float, assumptions: Assumptions | None
) -> Array | float:
    """KV cache and recurrent state of one sequence in one layer, rounded up to full blocks of tokens [B]."""
    keys = _index_keys(spec, precision, context, assumptions)
    context = _full_blocks(context, assumptions)
    assumed = None if assumptions is None else assumptions.attention
    cache = spec.cache
    if _decompressed(spec, assumed):
        cached: Array | float = cache.decompressed_elements * context
    else:
        cached = cache.elements * context + cache.window_elements * np.minimum(context, cache.window_tokens)
    state = cache.state_bytes(BYTES_PER_ELEMENT[precision.activations])
    return cached * BYTES_PER_ELEMENT[precision.kv] + keys + state


def _full_blocks(context: Array | float, assumptions: Assumptions | None) -> Array | float:
    """Context, rounded up to full blocks of the KV cache [tokens]."""
    if assumptions is None or assumptions.capacity.kv_block == 1:
        return context
    return np.ceil(context / assumptions.capacity.kv_block) * float(assumptions.capacity.kv_block)


def _index_keys(
    spec: Attention, precision: Precision, context: Array | float, assumptions: Assumptions | None
) -> Array | float:
    """Index keys of one sequence in one layer, rounded up to full blocks of tokens [B]."""
    assumed = None if assumptions is None else assumptions.attention
    return index_key_bytes(spec, precision, assumed) * _full_blocks(context, assumptions)


def index_key_bytes(spec: Attention, precision: Precision, assumed: AttentionAssumptions | None) -> float:
    """Size of the index keys (of sparse attention) that one layer caches per token [B]."""
    elements = spec.cache.index_elements
    if assumed is not None and assumed.index_keys == "eight_bit" and not spec.index_keys_as_cache:
        return eight_bit_key_bytes(elements)
    return elements * BYTES_PER_ELEMENT[precision.kv]


def held_cache(
    model: ModelSpec, precision: Precision, plans: Plans, context: float, assumptions: Assumptions
) -> dict[str, Array | float]:
    """KV cache and recurrent states of one sequence on all accelerators of an instance, with copies [B].

    All pipeline stages are assumed to have as many layers as the fullest stage. All KV heads use the same index keys,
    which engines store on every rank: ``MiniMaxM3SparseIndexCache`` of TensorRT-LLM and ``MiniMaxSparseKVPool`` of
    SGLang.
    """
    held: dict[str, Array | float] = {"kv_cache": 0.0, "state": 0.0}
    page, assumed = _page_tokens(model, precision, plans, assumptions), assumptions.attention
    paged = context if page is None else np.ceil(context / page) * page
    fullest = fullest_over_mean(model.layers, plans, assumptions.layout) * _held_share(model, assumptions)
    for block in model.blocks:
        kept: Array | float = block.layers * _kept(block.attention, precision, paged, assumptions) * fullest
        if block.attention.compressed:
            kept = kept * assumptions.capacity.compressed_padding
        if assumptions.layout.kv_placement == "by_heads":
            ranks = plans.attention_ranks
            # If there are more ranks than KV heads, the additional ranks store copies or, with decode context
            # parallelism, other tokens of the sequence.
            dcp = plans.dcp if block.attention.caches else 1.0
            copies = ranks / np.minimum(ranks, _apart(block.attention, assumed) * dcp)
            keys = block.layers * _index_keys(block.attention, precision, paged, assumptions) * fullest
            kept = kept * copies + keys * (ranks / np.minimum(ranks, dcp) - copies)
        if block.attention.cache.has_state:
            held["state"] += kept * assumptions.capacity.states_held
        else:
            held["kv_cache"] += kept
    return _in_separate_pools(held, assumptions.capacity)


def _in_separate_pools(held: dict[str, Array | float], assumed: CapacityAssumptions) -> dict[str, Array | float]:
    """Memory that a sequence takes from separate pools for KV cache and recurrent states [B].

    Pools have fixed sizes, and the pool that is full first limits the number of sequences. The result is therefore the
    memory of a sequence in the scarcer pool, scaled to both pools.
    """
    share, states, keys = assumed.state_share, held["state"], held["kv_cache"]
    if share is None or np.all(np.asarray(states) == 0.0) or np.all(np.asarray(keys) == 0.0):
        return held
    taken = np.maximum(states / share, keys / (1.0 - share))
    return {"kv_cache": taken * (1.0 - share), "state": taken * share}


def _page_tokens(model: ModelSpec, precision: Precision, plans: Plans, assumptions: Assumptions) -> Array | None:
    """Number of tokens with keys and values that fill one memory page [tokens].

    The result is None if recurrent states do not share pages with keys and values. A page is as large as the state of a
    recurrent layer on one rank, rounded up to full attention blocks.
    """
    if not assumptions.capacity.state_pages:
        return None
    specs, assumed = [block.attention for block in model.blocks], assumptions.attention
    states = [spec for spec in specs if spec.cache.has_state]
    caches = [spec for spec in specs if spec.caches]
    if not states or not caches:
        return None
    block = float(assumptions.capacity.kv_block)

    def on_a_rank(spec: Attention, tokens: float) -> Array:
        kept = _kept(spec, precision, tokens, None)
        return np.asarray(kept / np.minimum(plans.attention_ranks, _apart(spec, assumed)))

    state = np.max([on_a_rank(spec, 0.0) for spec in states], axis=0)
    token = np.max([on_a_rank(spec, 1.0) for spec in caches], axis=0)
    return np.asarray(np.ceil(state / token / block) * block)


def own_tokens(context: float, shared: float, assumed: CapacityAssumptions) -> float:
    """Tokens of a sequence that are not in full blocks of the shared prefix [tokens]."""
    block = float(assumed.kv_block)
    return context - min(shared, context) // block * block


def _decompressed(spec: Attention, assumed: AttentionAssumptions | None) -> bool:
    return assumed is not None and assumed.latent == "decompressed" and spec.cache.decompressed_elements > 0


def _apart(spec: Attention, assumed: AttentionAssumptions) -> float:
    """Number of KV or state heads that can be stored on different chips [1]."""
    return spec.heads if spec.cache.has_state or _decompressed(spec, assumed) else spec.cache.heads
