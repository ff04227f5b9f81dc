"""Proposers of tokens, as models on the chips of their targets: seconds, memory, placement."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.divisibility import indivisible
from inference_econ.engine.layouts.grids import Layouts, WholeLayouts
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.memory import FITS, Memory
from inference_econ.engine.prefill import fastest_cut
from inference_econ.engine.proposals import Speculation
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import step_seconds
from inference_econ.errors import InputError
from inference_econ.inputs import (
    Block,
    DenseFeedForward,
    ModelSpec,
    NoAttention,
    Precision,
    Source,
)

#: What a draft model with a layout of its own may choose from in a service.
ONE_STAGE = WholeLayouts(pipeline=False)


@dataclass(frozen=True, slots=True)
class Proposer:
    """Who proposes tokens to a target, on the same chips.

    Attributes
    ----------
    target : Setup
        Whom it proposes to.
    speculation : Speculation
        Who it is.
    setup : Setup or None
        The proposer as a model on the target's chips; None for n-grams, which take no time and no memory.
    """

    target: Setup
    speculation: Speculation
    setup: Setup | None

    @classmethod
    def of(cls, target: Setup, speculation: Speculation) -> Proposer:
        """The proposer that a speculation asks for.

        Raises
        ------
        InputError
            If the target has no such layers, or the draft model is not smaller than the target.
        """
        if speculation.proposer == "ngram":
            return cls(target, speculation, None)
        target_precision = target.precision
        model = head(target.model) if speculation.model is None else speculation.model
        _check(target.model, speculation)
        precision, embeddings = target_precision, target.assumptions.capacity.embedding_format
        if speculation.model is not None:
            precision = Precision.of(
                model, speculation.weights, target_precision.activations, target_precision.kv, embeddings
            )
        elif speculation.weights is not None:
            precision = Precision.of(model, speculation.weights, target_precision.activations, target_precision.kv)
            precision = replace(precision, embeddings=target_precision.embeddings)
        # The host schedules a round once; a proposer is small enough to lie with the chips, and has no adapters.
        none = ("host.step_overhead", "host.sequence_overhead", "capacity.host_weights", "capacity.host_cache")
        assumed = target.assumptions.changed({**dict.fromkeys(none, 0.0), "adapters.loras": 0})
        seen = {"shared_prefix": target.shared_prefix, "contexts": target.contexts}
        helper = Setup(model, target.hardware, precision, target.context, assumed, **seen)  # type: ignore[arg-type]
        helper = replace(helper, levels=target.levels)
        return cls(target, speculation, helper)

    @property
    def independent(self) -> bool:
        """True if the time of a proposal does not depend on the target's layout."""
        own_layout = self.target.assumptions.serving.draft_placement == "own_layout"
        return self.setup is None or (self.speculation.proposer == "draft" and own_layout)

    @property
    def heads(self) -> int:
        """Layers that were published with the target, each of which proposes a token; else 1 proposer [1]."""
        return self.target.model.mtp_layers if self.speculation.proposer == "mtp" else 1

    def seconds(self, plans: Plans, layouts: Layouts = ONE_STAGE) -> Array:
        """Proposing one token for every sequence of some deployments [s], broadcastable to their shape.

        Parameters
        ----------
        plans : Plans
            Layouts of the target, shape (...), with their batches.
        layouts : Layouts
            What a draft model may choose from where it has a layout of its own.
        """
        if self.setup is None:
            return np.zeros(())
        if self.independent:
            return _fastest_seconds(self.setup, plans.accelerators, plans.batch, layouts)
        return fastest_cut(self.setup, self.placed(plans)[0])

    def memory(self, plans: Plans) -> Memory:
        """Return the memory that target and proposer need together; without the proposer if ``capacity.draft`` says so.

        The output embedding of a head is the target's.
        """
        target_memory = self._target_memory(plans)
        if self.setup is None or not self.target.assumptions.capacity.draft:
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

    def _target_memory(self, plans: Plans) -> Memory:
        """Return the memory of the target; where states lie in pages, proposals of a round have states of their own."""
        capacity = self.target.assumptions.capacity
        if not capacity.state_pages:
            return self.target.memory(plans)
        states = {"capacity.states_held": capacity.states_held + self.speculation.longest}
        return replace(self.target, assumptions=self.target.assumptions.changed(states)).memory(plans)

    def placed(self, plans: Plans) -> tuple[Plans, Array]:
        """Where a proposer lies and reads prompts: the plans of one copy, with its part of the batch; the copies [1].

        A head is on the chips of one stage, in the target's layout. A draft model with a layout of its own is counted
        once, cut over all chips of a stage; otherwise it is cut like the target's attention.
        """
        single = np.ones(())
        if self.speculation.proposer != "draft":
            return replace(plans, accelerators=plans.stage, pp=single, new_tokens=1, prefill=False), single
        if self.independent:
            return Plans.of(plans.accelerators, plans.batch, plans.pp), single
        degrees = self._degrees(plans)
        copies = np.asarray(plans.accelerators / degrees)
        # The fullest copy sets the pace.
        batch = np.maximum(plans.batch / copies, 1.0)
        return Plans(degrees, batch, single, degrees, single, whole=plans.whole), copies

    def _degrees(self, plans: Plans) -> Array:
        """Chips that a copy of the draft model is cut over: the most that divide it and the attention ranks [1]."""
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


def _check(target: ModelSpec, speculation: Speculation) -> None:
    """Refuse a proposer that does not go with a target."""
    model = speculation.model
    if model is not None and model.total_parameters >= target.total_parameters:
        raise InputError(
            f"a draft model must be smaller than its target: {model.name} has {model.total_parameters / 1e9:.3g} "
            f"billion parameters, {target.name} {target.total_parameters / 1e9:.3g}"
        )
    if speculation.proposer == "mtp" and target.mtp_layers == 0:
        raise InputError(
            f"{target.name} has no multi-token-prediction layers (mtp_layers: 0); give a draft model, n-grams, or "
            "an EAGLE head, which is one more layer"
        )


def _fastest_seconds(setup: Setup, accelerators: Array, batch: Array, layouts: Layouts) -> Array:
    """A step in the fastest layout that instances have room for [s]; ``inf`` where there is none."""
    shape = np.broadcast_shapes(np.shape(accelerators), np.shape(batch))
    pairs = np.stack([np.broadcast_to(axis, shape).ravel() for axis in (accelerators, batch)])
    (sizes, batches), where = np.unique(pairs, axis=1, return_inverse=True)
    # Steady states have means of sequences, which split like the next whole number of them.
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


def head(target: ModelSpec) -> ModelSpec:
    """A layer that proposes tokens from the hidden states of a model: see :func:`rounds`.

    Of models whose layers differ, the last block with attention (or, without one, with a recurrent state), and the last
    with a feed-forward part. The projection stands as a block of two square matrices.
    """
    mixing = [block for block in target.blocks if not block.attention.absent]
    attending = [block for block in mixing if block.attention.caches]
    feeding = [block for block in target.blocks if not block.feed_forward.absent]
    base = (attending or mixing or list(target.blocks))[-1]
    # What code makes of a specification needs no validation, which takes longer than what a head is asked for.
    layer = base.model_copy(update={"layers": 1, "feed_forward": (feeding or [base])[-1].feed_forward})
    square = DenseFeedForward(kind="dense", intermediate_size=target.hidden_size, input_matrices=1, output_matrices=1)
    projection = Block(layers=1, attention=NoAttention(kind="none"), feed_forward=square)
    how = Source(ref="deepseek2024v3", where=f"eqs. (21) to (23), one layer of {target.name}", kind="derived")
    apart = ("blocks", "vision")
    kept = {key: source for key, source in target.sources.items() if key.partition(".")[0] not in apart}
    changes = {"name": f"{target.name}, one layer", "blocks": (projection, layer), "vision": None}
    return target.model_copy(update={**changes, "sources": {**kept, "blocks": how}})
