"""Speculation in service: who proposes tokens, what a round takes and gives, and steady states of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from inference_econ.engine.layouts.plans import Plans, indivisible
from inference_econ.engine.memory import Memory
from inference_econ.engine.prefill import Prefill, fastest_cut, prefill, prompts_together
from inference_econ.engine.setup import Setup
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.formulas.speculation import BestDraft
from inference_econ.inputs.model import Block, DenseFeedForward, ModelSpec, NoAttention
from inference_econ.inputs.precision import Precision
from inference_econ.inputs.source import Source

Array = npt.NDArray[np.float64]
Proposer = Literal["draft", "mtp", "eagle", "ngram"]

#: What proposes tokens, in words.
PROPOSERS: dict[Proposer, str] = {
    "draft": "draft model",
    "mtp": "multi-token-prediction layers",
    "eagle": "EAGLE head",
    "ngram": "n-grams of the text so far",
}
#: Proposals per round if nothing else is given, and at most [1].
LONGEST, _MOST = 5, 64


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

    proposer: Proposer
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
            given = "none" if self.model is None else self.model.name
            raise InputError(f"a draft model belongs to the proposer 'draft' and to no other, got {given}")
        if self.weights is not None and self.proposer == "ngram":
            raise InputError(f"n-grams have no weights, got the format {self.weights}")

    @classmethod
    def of(
        cls,
        proposer: Proposer,
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
        Proposing one token for every sequence [s].
    tokens : ndarray, shape (k + 1,)
        Expected tokens that a sequence gains [1].
    """

    verify_seconds: Array
    propose_seconds: Array
    tokens: Array

    @property
    def seconds(self) -> Array:
        """A whole round, shape (..., k + 1) [s]."""
        lengths = np.arange(self.tokens.size)
        return np.asarray(self.verify_seconds + lengths * self.propose_seconds[..., None])

    def best(self) -> BestDraft:
        """The draft length with the shortest time per token; 0 where plain decoding has it.

        It falls as batches grow where arithmetic comes to bound the step: to 0 at short contexts, and to what the cache
        leaves room for at long ones, whose traffic all tokens of a sequence share. It may rise where larger batches
        touch all experts anyway, where launches of the proposer weigh less beside longer steps, or where collectives
        change their protocol.
        """
        return formulas.best_draft_length(self.verify_seconds, self.propose_seconds, self.tokens)


def rounds(setup: Setup, plans: Plans, speculation: Speculation) -> Rounds:
    """Rounds of every draft length on some deployments.

    Parameters
    ----------
    setup : Setup
        The target on its chips.
    plans : Plans
        Deployments, shape (...), with their batches.
    speculation : Speculation
        Who proposes.

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
    stage. Of EAGLE heads for mixtures of experts some are dense: then it is reckoned too slow. A draft model is cut
    like the target's attention, as far as its heads divide; groups of so many chips each hold a copy and a part of
    the batch.
    """
    counted = setup.assumptions.serving.expected_tokens == "draft_length_plus_one"
    batch = np.maximum(plans.batch, prompts_together(setup, plans))
    full = replace(plans, batch=np.asarray(batch))
    lengths = range(speculation.longest + 1)
    verified = [1.0 if n == 0 else float(n + counted) for n in lengths]
    gains = np.cumprod((1.0, *speculation.acceptance)).cumsum()
    tokens = np.array([gains[n - (n > 0 and not counted)] for n in lengths])
    verify = np.stack([fastest_cut(setup, replace(full, new_tokens=n)) for n in verified], axis=-1)
    helper = helper_of(setup, speculation)
    propose = np.zeros(verify.shape[:-1])
    if helper is not None:
        propose = np.broadcast_to(fastest_cut(helper, _placed(helper, full, speculation)[0]), propose.shape)
    return Rounds(verify, propose, tokens)


def read_prompt(setup: Setup, plans: Plans, tokens: float, cached: float, speculation: Speculation | None) -> Prefill:
    """Time to read a prompt, by the target and then by the proposer."""
    own = prefill(setup, plans, tokens, cached)
    helper = None if speculation is None else helper_of(setup, speculation)
    if speculation is None or helper is None:
        return own
    placed, copies = _placed(helper, plans, speculation)
    more = prefill(helper, placed, tokens, cached)
    share = (own.chip_share * own.seconds + more.chip_share * more.seconds) / (own.seconds + more.seconds)
    return Prefill(own.seconds + more.seconds, own.busy_seconds + more.busy_seconds / copies, own.chunks, share)


def memory(setup: Setup, plans: Plans, speculation: Speculation | None) -> Memory:
    """What target and proposer need together; without the proposer if ``draft_in_capacity`` says so.

    Returns
    -------
    Memory
        Entries broadcastable to (...) [B]; the output embedding of a head is the target's.
    """
    own = setup.memory(plans)
    helper = None if speculation is None else helper_of(setup, speculation)
    if speculation is None or helper is None or not setup.assumptions.capacity.draft:
        return own
    placed, copies = _placed(helper, plans, speculation)
    if speculation.proposer != "draft":
        helper = replace(helper, model=helper.model.replace(vocab_size=0))
        copies = copies * (setup.model.mtp_layers if speculation.proposer == "mtp" else 1)
    more = helper.memory(placed)
    return replace(
        own,
        weight_bytes=np.asarray(own.weight_bytes + copies * more.weight_bytes),
        kv_bytes=np.asarray(own.kv_bytes + copies * more.kv_bytes),
    )


def helper_of(setup: Setup, speculation: Speculation) -> Setup | None:
    """The proposer as a model on the target's chips; None for n-grams.

    Raises
    ------
    InputError
        If the target has no such layers, or the draft model is not smaller than the target.
    """
    target, own = setup.model, setup.precision
    if speculation.proposer == "ngram":
        return None
    if speculation.proposer == "draft":
        assert speculation.model is not None
        model = speculation.model
        if model.total_parameters >= target.total_parameters:
            raise InputError(
                f"a draft model must be smaller than its target: {model.name} has {model.total_parameters / 1e9:.3g} "
                f"billion parameters, {target.name} {target.total_parameters / 1e9:.3g}"
            )
        precision = Precision.of(model, speculation.weights, own.activations, own.kv)
    else:
        if speculation.proposer == "mtp" and target.mtp_layers == 0:
            raise InputError(
                f"{target.name} has no multi-token-prediction layers (mtp_layers: 0); give a draft model, n-grams, or "
                "an EAGLE head, which is one more layer"
            )
        model, precision = head(target), own
        if speculation.weights is not None:
            precision = Precision.of(model, speculation.weights, own.activations, own.kv)
            precision = replace(precision, embeddings=own.embeddings)
    # The host schedules a round once.
    assumed = setup.assumptions.changed({"host.step_overhead": 0.0, "host.sequence_overhead": 0.0})
    return Setup(model, setup.hardware, precision, setup.context, assumed)


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


def _placed(helper: Setup, plans: Plans, speculation: Speculation) -> tuple[Plans, Array]:
    """Where a proposer runs: the plans of one copy, with its part of the batch; and the copies [1]."""
    one = np.ones(())
    if speculation.proposer != "draft":
        return Plans(plans.stage, plans.batch, one, plans.attention_ranks, plans.ep, whole=True), one
    ranks, where = np.unique(plans.attention_ranks, return_inverse=True)
    degrees = np.array([_degree(helper, int(tp)) for tp in ranks])[where].reshape(plans.attention_ranks.shape)
    copies = np.asarray(plans.accelerators / degrees)
    # The fullest copy sets the pace.
    batch = np.maximum(plans.batch / copies, 1.0)
    return Plans(degrees, batch, one, degrees, one, whole=True), copies


def _degree(helper: Setup, most: int) -> float:
    """The largest number of chips that divides ``most`` and the model [1]."""
    one, cut = np.ones(1), helper.assumptions.layout.tensor_layouts[0]
    for degree in range(most, 1, -1):
        plans = Plans(one * degree, one, one, one * degree, one, whole=True)
        uneven = indivisible(helper.model, plans, cut, helper.assumptions)
        if most % degree == 0 and not any(np.any(where) for _, where in uneven):
            return float(degree)
    return 1.0
