"""Speculative decoding: time, expected tokens and memory of speculation rounds."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine.layouts.grids import Layouts, WholeLayouts
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.layouts.startable import indivisible
from inference_econ.engine.memory import FITS, Memory, kv_bytes_per_sequence
from inference_econ.engine.power import ChipPower, step_joules
from inference_econ.engine.prefill import Prefill, fastest_cut, prefill
from inference_econ.engine.proposals import Speculation
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import host_sequences, step_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.formulas.speculation import BestDraft
from inference_econ.inputs import (
    Assumptions,
    Block,
    DenseFeedForward,
    ModelSpec,
    NoAttention,
    Precision,
    Source,
    TensorLayout,
)

#: Default layouts of a draft model whose layout differs from the target's layout.
ONE_STAGE = WholeLayouts(pipeline=False)


@dataclass(frozen=True, slots=True)
class Proposer:
    """Speculation method for a target model; a draft model runs on the target's chips.

    Attributes
    ----------
    target : Setup
        Setup of the target model.
    speculation : Speculation
        Speculation method, with acceptance rates.
    setup : Setup or None
        Setup of the draft model or head on the target's chips; None for n-grams, which are assumed to take no time and
        no memory.
    """

    target: Setup
    speculation: Speculation
    setup: Setup | None

    @classmethod
    def of(cls, target: Setup, speculation: Speculation) -> Proposer:
        """Set up a speculation method for a target model.

        Raises
        ------
        InputError
            If the target has no MTP layers, or the draft model is not smaller than the target.
        """
        if speculation.proposer == "ngram":
            return cls(target, speculation, None)
        served, draft, precision = target.model, speculation.model, target.precision
        if draft is not None and draft.total_parameters >= served.total_parameters:
            raise InputError(
                f"a draft model must be smaller than its target: {draft.name} has {draft.total_parameters / 1e9:.3g} "
                f"billion parameters, {served.name} {served.total_parameters / 1e9:.3g}"
            )
        if speculation.proposer == "mtp" and served.mtp_layers == 0:
            raise InputError(
                f"{served.name} has no multi-token-prediction layers (mtp_layers: 0); give a draft model, n-grams, or "
                "an EAGLE head, which is one more layer"
            )
        model = head(served) if draft is None else draft
        if draft is not None:
            embeddings = target.assumptions.capacity.embedding_format
            precision = Precision.of(model, speculation.weights, precision.activations, precision.kv, embeddings)
        elif speculation.weights is not None:
            of_head = Precision.of(model, speculation.weights, precision.activations, precision.kv)
            precision = replace(of_head, embeddings=precision.embeddings)
        assumed = _of_drafts(target.assumptions)
        helper = Setup(
            model, target.hardware, precision, target.context, assumed,
            contexts=target.contexts, levels=target.levels, shared_prefix=target.shared_prefix,
        )  # fmt: skip
        return cls(target, speculation, helper)

    @property
    def independent(self) -> bool:
        """True if the time to draft a token does not depend on the target's layout."""
        own_layout = self.target.assumptions.serving.draft_placement == "own_layout"
        return self.setup is None or (self.speculation.proposer == "draft" and own_layout)

    @property
    def heads(self) -> int:
        """Number of MTP layers, each of which drafts one token; 1 for other methods [1]."""
        return self.target.model.mtp_layers if self.speculation.proposer == "mtp" else 1

    def seconds(self, plans: Plans, layouts: Layouts = ONE_STAGE) -> Array:
        """Time to draft one token for every sequence [s], broadcastable to the plans.

        Parameters
        ----------
        plans : Plans
            Layouts of the target, shape (...), with their batches.
        layouts : Layouts
            Possible layouts of a draft model whose layout differs from the target's layout.
        """
        if self.setup is None:
            return np.zeros(())
        if self.independent:
            return _fastest_seconds(self.setup, plans.accelerators, plans.batch, layouts)
        return fastest_cut(self.setup, self.placed(plans)[0])

    def memory(self, plans: Plans) -> Memory:
        """Memory of the target model, and of the draft model or head if ``capacity.draft`` is true.

        A head shares the output embedding of the target.
        """
        target, capacity = self.target, self.target.assumptions.capacity
        if capacity.state_pages:
            # If states are stored in pages, a round needs one state per draft token.
            states = {"capacity.states_held": capacity.states_held + self.speculation.longest}
            target = replace(target, assumptions=target.assumptions.changed(states))
        target_memory = target.memory(plans)
        if self.setup is None or not capacity.draft:
            return target_memory
        helper, (placed, copies) = self.setup, self.placed(plans)
        if self.speculation.proposer != "draft":
            helper = replace(helper, model=helper.model.model_copy(update={"vocab_size": 0}))
            copies = copies * self.heads
        more = helper.memory(placed)
        return replace(
            target_memory,
            weight_bytes=np.asarray(target_memory.weight_bytes + copies * more.weight_bytes),
            kv_bytes=np.asarray(target_memory.kv_bytes + copies * more.kv_bytes),
            prefix_bytes=np.asarray(target_memory.prefix_bytes + copies * more.prefix_bytes),
        )

    def placed(self, plans: Plans) -> tuple[Plans, Array]:
        """Layout of one copy of the draft model or head with its part of the batch, and the number of copies [1].

        A head runs on the chips of one pipeline stage, in the layout of the target. A draft model with its own layout
        has one copy on all chips of the instance. A draft model without its own layout is split like the target's
        attention.
        """
        single = np.ones(())
        if self.speculation.proposer != "draft":
            return replace(plans, accelerators=plans.stage, pp=single, new_tokens=1, prefill=False), single
        if self.independent:
            return Plans.of(plans.accelerators, plans.batch, plans.pp), single
        degrees = self._degrees(plans)
        copies = np.asarray(plans.accelerators / degrees)
        # The copy with the largest share of the batch determines the time.
        batch = np.maximum(plans.batch / copies, 1.0)
        return Plans(degrees, batch, single, degrees, single, whole=plans.whole), copies

    def _degrees(self, plans: Plans) -> Array:
        """Largest number of chips that can split the draft model and that divides the target's attention ranks [1]."""
        assert self.setup is not None
        ranks, single = plans.attention_ranks, np.ones(1)
        if not plans.whole:
            return ranks
        numbers = np.arange(1.0, ranks.max(initial=1.0) + 1.0)
        alone = Plans(numbers, single, single, numbers, single, whole=True)
        divides = numbers == 1.0
        for cut in self.setup.assumptions.layout.tensor_layouts:
            problems = indivisible(self.setup.model, alone, cut, self.setup.assumptions)
            divides = divides | ~functools.reduce(np.logical_or, (problem.where for problem in problems))
        degrees = numbers[divides]
        return np.asarray(np.where(ranks[..., None] % degrees == 0.0, degrees, 1.0).max(axis=-1))


def _fastest_seconds(setup: Setup, accelerators: Array, batch: Array, layouts: Layouts) -> Array:
    """Time of a step in the fastest layout that fits in memory [s]; ``inf`` if no layout fits."""
    shape = np.broadcast_shapes(np.shape(accelerators), np.shape(batch))
    pairs = np.stack([np.broadcast_to(axis, shape).ravel() for axis in (accelerators, batch)])
    (sizes, batches), where = np.unique(pairs, axis=1, return_inverse=True)
    # Steady states have fractional mean batches. A fractional batch may have the layouts of the next integer.
    split = np.ceil(batches) if isinstance(layouts, WholeLayouts) else batches
    best = np.full(sizes.size, np.inf)
    for depth in layouts.depths(setup.model, setup.assumptions, sizes, split):
        index = np.flatnonzero(np.broadcast_to(depth > 0, best.shape))
        if index.size:
            instances = Plans.of(sizes[index], split[index], np.broadcast_to(depth, best.shape)[index])
            plans = layouts.variants(setup.model, setup.assumptions, instances)
            times = step_seconds(setup, replace(plans, batch=batches[index]))
            for cut, seconds in zip(setup.assumptions.layout.tensor_layouts, times, strict=True):
                feasible = np.where(setup.reasons(plans, cut) == FITS, seconds, np.inf)
                best[index] = np.minimum(best[index], feasible.reshape(-1, index.size).min(axis=0))
    return np.asarray(best[where.ravel()].reshape(shape))


# Step times are cached by the identity of model and assumptions, so equal drafts have the same ones.
@by_identity
def _of_drafts(assumptions: Assumptions) -> Assumptions:
    """Assumptions about a draft model, given those about its target."""
    # The CPU schedules once per round, not once per draft token. A draft model fits on the chips, so none of its
    # weights are in host memory. A draft model has no adapters.
    none = ("host.step_overhead", "host.sequence_overhead", "capacity.host_weights", "capacity.host_cache")
    return assumptions.changed({**dict.fromkeys(none, 0.0), "adapters.loras": 0, "cpu.layers": 0})


@by_identity
def head(target: ModelSpec) -> ModelSpec:
    """MTP or EAGLE head: one transformer layer that drafts tokens from the hidden states of the target model.

    The head has the attention of the target's last block with attention; without such a block, the last recurrent
    mixer. The head also has the feed-forward part of the target's last block that has a feed-forward part. The
    projection is modeled as a block of two square matrices.
    """
    mixing = [block for block in target.blocks if not block.attention.absent]
    attending = [block for block in mixing if block.attention.caches]
    feeding = [block for block in target.blocks if not block.feed_forward.absent]
    base = (attending or mixing or list(target.blocks))[-1]
    # The specification is derived from a valid one, so the slow validation is not repeated.
    layer = base.model_copy(update={"layers": 1, "feed_forward": (feeding or [base])[-1].feed_forward})
    square = DenseFeedForward.model_construct(
        kind="dense", intermediate_size=target.hidden_size, input_matrices=1, output_matrices=1
    )
    projection = Block.model_construct(
        layers=1, attention=NoAttention.model_construct(kind="none"), feed_forward=square
    )
    how = Source.model_construct(
        ref="deepseek2024v3", where=f"eqs. (21) to (23), one layer of {target.name}", kind="derived"
    )
    apart = ("blocks", "vision")
    kept = {key: source for key, source in target.sources.items() if key.partition(".")[0] not in apart}
    changes = {"name": f"{target.name}, one layer", "blocks": (projection, layer), "vision": None}
    return target.model_copy(update={**changes, "sources": {**kept, "blocks": how}})


@dataclass(frozen=True, slots=True, eq=False)
class SpeculationRounds:
    """Times of speculation rounds with 0, 1, ... k draft tokens per sequence; a round with 0 is a decode step.

    Attributes
    ----------
    verify_seconds : ndarray, shape (..., k + 1)
        Time in which the target verifies 0, 1, ... k draft tokens [s]; ``inf`` for draft lengths that are not allowed.
    draft_seconds : ndarray, shape (...)
        Time to draft one token for every sequence [s]; ``inf`` if no layout of the draft model fits in memory.
    tokens : ndarray, shape (k + 1,)
        Expected number of tokens per sequence of a round with 0, 1, ... k draft tokens [1].
    shortest : int
        Minimum draft length [1].
    """

    verify_seconds: Array
    draft_seconds: Array
    tokens: Array
    shortest: int = 0

    @property
    def seconds(self) -> Array:
        """Time of a complete round, shape (..., k + 1) [s]."""
        return formulas.round_seconds(self.verify_seconds, self.draft_seconds)

    def best(self) -> BestDraft:
        """Draft length with the shortest time per token; 0 if decoding without speculation is allowed and the fastest.

        If arithmetic limits the step, the fastest draft length decreases as the batch grows. At long contexts, the
        fastest draft length stays above 0, because all tokens of a sequence share one read of the KV cache. The fastest
        draft length may increase with the batch for three reasons. Larger batches read all experts even without
        speculation. Kernel launches of the draft model are a smaller share of longer steps. Collectives may switch to
        another protocol.
        """
        return formulas.best_draft_length(self.verify_seconds, self.draft_seconds, self.tokens, self.shortest)


def rounds(
    setup: Setup,
    plans: Plans,
    speculation: Speculation,
    *,
    cut: TensorLayout | None = None,
    layouts: Layouts = ONE_STAGE,
) -> SpeculationRounds:
    """Compute the times of speculation rounds for all draft lengths.

    Parameters
    ----------
    setup : Setup
        Setup of the target model.
    plans : Plans
        Deployments, shape (...), with their batches.
    speculation : Speculation
        Speculation method, with acceptance rates.
    cut : {'1d', '2d'}, optional
        Split of the target's weight matrices; by default the faster split.
    layouts : Layouts
        Layouts that the draft model may have, if it has another layout than the target. By default, layouts have
        integer degrees and one pipeline stage.

    Returns
    -------
    SpeculationRounds
        Speculation rounds in which all sequences of the batch have the same draft length and accept draft tokens
        independently.

    Raises
    ------
    InputError
        If the target has no MTP layers, or the draft model is not smaller than the target.

    Notes
    -----
    Drafting and verification alternate on the same chips. Verification of n draft tokens is a step of n + 1 tokens per
    sequence (n tokens in the study of Erdil (2025), ``expected_tokens: draft_length``). This step reads the KV cache
    once per sequence. The CPU time ``step_overhead`` occurs once per round.

    Tokens are assumed to select experts independently. In reality, tokens of one sequence select similar experts, so a
    step reads fewer experts than predicted. The first pass of a draft model processes all tokens that were accepted in
    the previous round, but is modeled as a pass over one token.

    A head (``mtp``, ``eagle``) has one transformer layer of the target and a projection of hidden state and token
    embedding (2 h x h weights). The head shares the target's output embedding. Sources: DeepSeek-V3 (arXiv:2412.19437),
    eqs. (21) to (23); EAGLE, Li et al. (2024), section 3. The head has the layout of the target; with pipeline
    parallelism, the head runs on the chips of one stage. Some EAGLE heads of MoE models are dense. The predicted times
    of dense heads are too long.

    ``serving.draft_placement`` determines where a draft model runs. By default, the draft model is split like the
    target's attention, to the extent that its number of heads allows. Each group of chips has one copy of the draft
    model and a share of the batch. With ``own_layout``, as in the study of Erdil (2025), the draft model runs on all
    chips of the instance in its fastest layout.
    """
    setup = setup.for_role(speculates=True)
    serving = setup.assumptions.serving
    full = replace(plans, batch=np.maximum(plans.batch, plans.pp))
    per_round, per_sequence = speculation.host_seconds
    host = per_round + per_sequence * host_sequences(setup, full)

    def verifying(tokens: int) -> Array:
        plans = full.verifying(tokens)
        if cut is None:
            return fastest_cut(setup, plans)
        return step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(cut)]

    verified = [
        verifying(tokens) + (host if length else 0.0) if length == 0 or length >= speculation.shortest else np.inf
        for length, tokens in enumerate(speculation.verified(serving))
    ]
    verify = np.stack(np.broadcast_arrays(*verified), axis=-1)
    propose = Proposer.of(setup, speculation).seconds(full, layouts)
    proposals = np.broadcast_to(propose, verify.shape[:-1])
    return SpeculationRounds(verify, proposals, speculation.tokens(serving), speculation.shortest)


def token_joules(setup: Setup, chip: ChipPower, plans: Plans, speculation: Speculation | None) -> Array:
    """Energy of one output token on one accelerator, in addition to idle energy [J].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    chip : ChipPower
        Power and energy data of the accelerator.
    plans : Plans
        Deployments with their batches, shape (...).
    speculation : Speculation, optional
        Speculation method, with acceptance rates.

    Returns
    -------
    ndarray, shape (...)
        Energy [J]. Drafting is assumed to draw the same power as verification.
    """
    if speculation is None:
        return np.asarray(step_joules(setup, chip, plans) / plans.batch)
    drafts = rounds(setup, plans, speculation)
    best, seconds = drafts.best().length, drafts.seconds
    joules = np.zeros(best.shape)
    for length, verified in enumerate(speculation.verified(setup.assumptions.serving)):
        if (best == length).any():
            longer = seconds[..., length] / drafts.verify_seconds[..., length]
            step = step_joules(setup, chip, plans.verifying(verified)) * longer / drafts.tokens[length]
            joules = np.where(best == length, step, joules)
    return np.asarray(joules / plans.batch)


def read_prompt(setup: Setup, plans: Plans, tokens: float, cached: float, speculation: Speculation | None) -> Prefill:
    """Time to prefill a prompt with the target model and then with the draft model."""
    setup = setup.for_role(speculates=speculation is not None)
    target_prefill = prefill(setup, plans, tokens, cached)
    proposer = None if speculation is None else Proposer.of(setup, speculation)
    if proposer is None or proposer.setup is None:
        return target_prefill
    placed, copies = proposer.placed(plans)
    more = prefill(proposer.setup, placed, tokens, cached)
    share = (target_prefill.chip_share * target_prefill.seconds + more.chip_share * more.seconds) / (
        target_prefill.seconds + more.seconds
    )
    # The copies of a draft model prefill different prompts in parallel. A single prompt runs on one copy.
    return Prefill(
        target_prefill.seconds + more.seconds,
        target_prefill.busy_seconds + more.busy_seconds / np.minimum(copies, plans.pp),
        target_prefill.full_seconds + more.full_seconds / copies,
        target_prefill.chunks,
        share,
    )


def needed_memory(setup: Setup, plans: Plans, speculation: Speculation | None) -> Memory:
    """Memory of target model and draft model, see :meth:`Proposer.memory`; broadcastable to (...) [B]."""
    return setup.memory(plans) if speculation is None else Proposer.of(setup, speculation).memory(plans)


def prompt_cache_bytes(setup: Setup, tokens: float, speculation: Speculation | None) -> float:
    """KV cache of a prompt of ``tokens`` tokens in target and draft model, without copies [B]."""
    target_cache = kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions)
    helper = None if speculation is None else Proposer.of(setup, speculation)
    if helper is None or helper.setup is None:
        return target_cache
    more = kv_bytes_per_sequence(helper.setup.model, helper.setup.precision, tokens, setup.assumptions)
    return target_cache + helper.heads * more
