"""Speculation in service: who proposes tokens, what a round takes and gives, and steady states of rounds."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.grids import Layouts, WholeLayouts
from inference_econ.engine.layouts.plans import Plans, indivisible
from inference_econ.engine.memory import FITS, Memory
from inference_econ.engine.prefill import Prefill, fastest_cut, prefill, prompts_together
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import step_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.formulas.speculation import BestDraft
from inference_econ.inputs.asks import ProposerName
from inference_econ.inputs.assumptions import ServingAssumptions, TensorLayout
from inference_econ.inputs.model import Block, DenseFeedForward, ModelSpec, NoAttention
from inference_econ.inputs.precision import Precision
from inference_econ.inputs.source import Source

#: What proposes tokens, in words.
PROPOSERS: Mapping[ProposerName, str] = {
    "draft": "draft model",
    "mtp": "multi-token-prediction layers",
    "eagle": "EAGLE head",
    "ngram": "n-grams of the text so far",
}
#: Proposals per round if nothing else is given, and at most [1].
LONGEST, _MOST = 5, 64
#: Share of proposals that are accepted if nothing else is given [1].
ACCEPTANCE = 0.8
#: What a draft model with a layout of its own may choose from in a service.
_ONE_STAGE = WholeLayouts(pipeline=False)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Who proposes tokens, and how often they are accepted.

    Attributes
    ----------
    proposer : str
        ``draft`` (a smaller model), ``mtp`` (the layers published with the target), ``eagle`` (one more layer that was
        trained for it) or ``ngram`` (a look-up in the text so far).
    acceptance : tuple of float
        Probability that the first, second, .. proposal of a round is accepted, given that those before it were [1];
        as many as a round has proposals at most.
    model : ModelSpec or None
        The draft model.
    weights : str or None
        Number format of the draft model or of the head; as published, or as the target's, if not given.

    Raises
    ------
    InputError
        If the proposer is unknown, a probability is not from 0 to 1, there are none or too many, or the draft model
        is missing or not asked for.
    """

    proposer: ProposerName
    acceptance: tuple[float, ...]
    model: ModelSpec | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.proposer not in PROPOSERS:
            raise InputError(f"unknown proposer {self.proposer!r}; known: {', '.join(PROPOSERS)}")
        if not 1 <= len(self.acceptance) <= _MOST:
            raise InputError(f"the longest draft must be from 1 to {_MOST} tokens, got {len(self.acceptance)}")
        formulas.expected_tokens_by_position(self.acceptance)
        if (self.model is None) == (self.proposer == "draft"):
            name = "none" if self.model is None else self.model.name
            raise InputError(f"a draft model belongs to the proposer 'draft' and to no other, got {name}")
        if self.weights is not None and self.proposer == "ngram":
            raise InputError(f"n-grams have no weights, got the format {self.weights}")

    @classmethod
    def of(
        cls,
        proposer: ProposerName,
        acceptance: float | Sequence[float],
        longest: int | None = None,
        *,
        model: ModelSpec | None = None,
        weights: str | None = None,
    ) -> Speculation:
        """Speculation with one acceptance for all positions, or with one for each.

        Parameters
        ----------
        proposer : str
            See the attributes.
        acceptance : float or sequence of float
            The same for every proposal, independent of the others; or of the first, second, .. one [1].
        longest : int, optional
            Proposals per round at most [1]; :data:`LONGEST`, or as many as have a probability.
        model, weights
            See the attributes.

        Raises
        ------
        InputError
            If more or fewer probabilities are listed than a round may have proposals; and see the class.

        Examples
        --------
        >>> Speculation.of("ngram", 0.5, 3).acceptance, Speculation.of("mtp", [0.9, 0.7]).acceptance
        ((0.5, 0.5, 0.5), (0.9, 0.7))
        """
        if longest is not None and not 1 <= longest <= _MOST:
            raise InputError(f"the longest draft must be from 1 to {_MOST} tokens, got {longest}")
        if isinstance(acceptance, (int, float)):
            rates = (float(acceptance),) * (LONGEST if longest is None else longest)
        else:
            rates = tuple(float(rate) for rate in acceptance)
            if longest is not None and len(rates) != longest:
                raise InputError(
                    f"the acceptance of {len(rates)} positions is given, for drafts of at most {longest} tokens; "
                    "give one probability per position, or a single one for all"
                )
        return cls(proposer, rates, model, weights)

    @property
    def longest(self) -> int:
        """Proposals of a round at most [1]."""
        return len(self.acceptance)

    @property
    def label(self) -> str:
        """Who proposes, and how often it is accepted, in words."""
        who = PROPOSERS[self.proposer]
        if self.model is not None:
            who += f" {self.model.name}"
        if self.weights is not None:
            who += f" ({self.weights})"
        if len(set(self.acceptance)) == 1:
            return f"{who}, acceptance {self.acceptance[0]:.3g}, at most {self.longest} drafted"
        return f"{who}, acceptance by position {', '.join(f'{rate:.3g}' for rate in self.acceptance)}"

    def tokens(self, assumptions: ServingAssumptions) -> Array:
        """Expected tokens of a round with 0, 1, .. proposals [1], shape (k + 1,).

        Examples
        --------
        >>> from inference_econ.inputs import catalog
        >>> study = catalog.assumptions("paper").serving
        >>> Speculation.of("ngram", 0.5, 3).tokens(study).tolist(), Speculation.of("ngram", 0.5, 3).verified(study)
        ([1.0, 1.0, 1.5, 1.75], (1, 1, 2, 3))
        """
        gains = np.cumprod((1.0, *self.acceptance)).cumsum()
        return gains if assumptions.expected_tokens == "draft_length_plus_one" else np.append(1.0, gains[:-1])

    def verified(self, assumptions: ServingAssumptions) -> tuple[int, ...]:
        """Tokens of a sequence that the target computes in a round with 0, 1, .. proposals [1]."""
        own = assumptions.expected_tokens == "draft_length_plus_one"
        return (1, *(length + own for length in range(1, self.longest + 1)))

    def record(self) -> dict[str, object]:
        """The same as plain data."""
        return {
            "proposer": self.proposer,
            "draft_model": None if self.model is None else self.model.name,
            "draft_weights": self.weights,
            "acceptance": list(self.acceptance),
        }


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds with 0, 1, .. k proposals per sequence; the first is a plain decode step.

    Attributes
    ----------
    verify_seconds : ndarray, shape (..., k + 1)
        The target over the proposals and the token before them [s].
    propose_seconds : ndarray, shape (...)
        Proposing one token for every sequence [s]; ``inf`` where no layout of a draft model fits.
    tokens : ndarray, shape (k + 1,)
        Expected tokens that a sequence gains [1].
    """

    verify_seconds: Array
    propose_seconds: Array
    tokens: Array

    @property
    def seconds(self) -> Array:
        """A whole round, shape (..., k + 1) [s]."""
        return formulas.round_seconds(self.verify_seconds, self.propose_seconds)

    def best(self) -> BestDraft:
        """The draft length with the shortest time per token; 0 where plain decoding has it.

        It falls as batches grow where arithmetic comes to bound the step: to 0 at short contexts, and to what the cache
        leaves room for at long ones, whose traffic all tokens of a sequence share. It may rise where larger batches
        touch all experts anyway, where launches of the proposer weigh less beside longer steps, or where collectives
        change their protocol.
        """
        return formulas.best_draft_length(self.verify_seconds, self.propose_seconds, self.tokens)


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
        own = target.precision
        model = head(target.model) if speculation.model is None else speculation.model
        _check(target.model, speculation)
        precision = own
        if speculation.model is not None:
            precision = Precision.of(model, speculation.weights, own.activations, own.kv)
        elif speculation.weights is not None:
            precision = Precision.of(model, speculation.weights, own.activations, own.kv)
            precision = replace(precision, embeddings=own.embeddings)
        # The host schedules a round once.
        assumed = target.assumptions.changed({"host.step_overhead": 0.0, "host.sequence_overhead": 0.0})
        return cls(target, speculation, Setup(model, target.hardware, precision, target.context, assumed))

    @property
    def independent(self) -> bool:
        """Whether the time of a proposal does not depend on the target's layout."""
        own_layout = self.target.assumptions.serving.draft_placement == "own_layout"
        return self.setup is None or (self.speculation.proposer == "draft" and own_layout)

    def seconds(self, plans: Plans, layouts: Layouts = _ONE_STAGE) -> Array:
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
        """What target and proposer need together; without the proposer if ``capacity.draft`` says so.

        The output embedding of a head is the target's.
        """
        own = self.target.memory(plans)
        if self.setup is None or not self.target.assumptions.capacity.draft:
            return own
        helper, (placed, copies) = self.setup, self.placed(plans)
        if self.speculation.proposer != "draft":
            helper = replace(helper, model=helper.model.replace(vocab_size=0))
            copies = copies * (self.target.model.mtp_layers if self.speculation.proposer == "mtp" else 1)
        more = helper.memory(placed)
        return replace(
            own,
            weight_bytes=np.asarray(own.weight_bytes + copies * more.weight_bytes),
            kv_bytes=np.asarray(own.kv_bytes + copies * more.kv_bytes),
        )

    def placed(self, plans: Plans) -> tuple[Plans, Array]:
        """Where a proposer lies and reads prompts: the plans of one copy, with its part of the batch; the copies [1].

        A head is on the chips of one stage, in the target's layout. A draft model with a layout of its own is counted
        once, cut over all chips of a stage; otherwise it is cut like the target's attention.
        """
        one = np.ones(())
        if self.speculation.proposer != "draft":
            return Plans(plans.stage, plans.batch, one, plans.attention_ranks, plans.ep, whole=plans.whole), one
        if self.independent:
            return Plans.of(plans.accelerators, plans.batch, plans.pp), one
        degrees = self._degrees(plans)
        copies = np.asarray(plans.accelerators / degrees)
        # The fullest copy sets the pace.
        batch = np.maximum(plans.batch / copies, 1.0)
        return Plans(degrees, batch, one, degrees, one, whole=plans.whole), copies

    def _degrees(self, plans: Plans) -> Array:
        """Chips that a copy of the draft model is cut over: the most that divide it and the attention ranks [1]."""
        assert self.setup is not None
        ranks, one = plans.attention_ranks, np.ones(1)
        if not plans.whole:
            return ranks
        numbers = np.arange(1.0, ranks.max(initial=1.0) + 1.0)
        alone = Plans(numbers, one, one, numbers, one, whole=True)
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


def rounds(
    setup: Setup,
    plans: Plans,
    speculation: Speculation,
    *,
    cut: TensorLayout | None = None,
    layouts: Layouts = _ONE_STAGE,
) -> Rounds:
    """Rounds of every draft length on some deployments.

    Parameters
    ----------
    setup : Setup
        The target on its chips.
    plans : Plans
        Deployments, shape (...), with their batches.
    speculation : Speculation
        Who proposes.
    cut : {'1d', '2d'}, optional
        How the target's matrices are cut; the faster way if not given.
    layouts : Layouts
        What a draft model may choose from where it has a layout of its own: by default whole numbers in one stage.

    Returns
    -------
    Rounds
        Every sequence of the batch gets as many proposals, and gains tokens by itself.

    Raises
    ------
    InputError
        If the target has no such layers, or the draft model is not smaller than the target.

    Notes
    -----
    Proposing and verifying take turns on the same chips. Verifying n proposals is a step of n + 1 tokens per sequence
    (n under the published study's series, ``expected_tokens: draft_length``), with the cache read once per sequence,
    and the experts of a layer that so many tokens touch as if each token chose anew: tokens of one text choose more
    alike. The host's ``step_overhead`` is paid once per round. The first pass of a proposer reads all tokens of the
    last round; it counts as a pass over one.

    A head (``mtp``, ``eagle``) is one transformer layer of the target, the projection of hidden state and token
    embedding (2 h x h weights), and the target's own output embedding: DeepSeek-V3 (arXiv:2412.19437), eqs. (21) to
    (23); EAGLE, Li et al. (2024), section 3. It runs in the layout of the target, of pipelines on the chips of one
    stage. Of EAGLE heads for mixtures of experts some are dense: then it is reckoned too slow. Where a draft model
    runs is the assumption ``serving.draft_placement``: cut like the target's attention, as far as its heads divide,
    where groups of so many chips each hold a copy and a part of the batch; or on all chips of the instance, in the
    layout that is fastest for it, as in the published study.
    """
    serving = setup.assumptions.serving
    full = replace(plans, batch=np.maximum(plans.batch, prompts_together(setup, plans)))
    verify = np.stack([_verify_seconds(setup, full.verifying(n), cut) for n in speculation.verified(serving)], axis=-1)
    propose = Proposer.of(setup, speculation).seconds(full, layouts)
    return Rounds(verify, np.broadcast_to(propose, verify.shape[:-1]), speculation.tokens(serving))


def _verify_seconds(setup: Setup, plans: Plans, cut: TensorLayout | None) -> Array:
    if cut is None:
        return fastest_cut(setup, plans)
    return step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(cut)]


def read_prompt(setup: Setup, plans: Plans, tokens: float, cached: float, speculation: Speculation | None) -> Prefill:
    """Time to read a prompt, by the target and then by the proposer."""
    own = prefill(setup, plans, tokens, cached)
    proposer = None if speculation is None else Proposer.of(setup, speculation)
    if proposer is None or proposer.setup is None:
        return own
    placed, copies = proposer.placed(plans)
    more = prefill(proposer.setup, placed, tokens, cached)
    share = (own.chip_share * own.seconds + more.chip_share * more.seconds) / (own.seconds + more.seconds)
    return Prefill(own.seconds + more.seconds, own.busy_seconds + more.busy_seconds / copies, own.chunks, share)


def memory(setup: Setup, plans: Plans, speculation: Speculation | None) -> Memory:
    """What target and proposer need together, see :meth:`Proposer.memory`; entries broadcastable to (...) [B]."""
    return setup.memory(plans) if speculation is None else Proposer.of(setup, speculation).memory(plans)


def head(target: ModelSpec) -> ModelSpec:
    """A layer that proposes tokens from the hidden states of a model: see :func:`rounds`.

    Of models whose layers differ, the last block with attention (or, without one, with a recurrent state), and the last
    with a feed-forward part. The projection stands as a block of two square matrices.
    """
    mixing = [block for block in target.blocks if block.attention.kind != "none"]
    attending = [block for block in mixing if block.attention.kind != "recurrent"]
    feeding = [block for block in target.blocks if block.feed_forward.kind != "none"]
    base = (attending or mixing or list(target.blocks))[-1]
    layer = base.replace(layers=1, feed_forward=(feeding or [base])[-1].feed_forward)
    square = DenseFeedForward(kind="dense", intermediate_size=target.hidden_size, input_matrices=1, output_matrices=1)
    projection = Block(layers=1, attention=NoAttention(kind="none"), feed_forward=square)
    how = Source(ref="deepseek2024v3", where=f"eqs. (21) to (23), one layer of {target.name}", kind="derived")
    kept = {key: source for key, source in target.sources.items() if key.partition(".")[0] != "blocks"}
    return target.replace(name=f"{target.name}, one layer", blocks=(projection, layer), sources={**kept, "blocks": how})
