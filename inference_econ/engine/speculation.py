"""Speculative decoding: what a round of proposals takes and gives, and the memory it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.cache import kv_bytes_per_sequence
from inference_econ.engine.layouts.grids import Layouts
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.memory import Memory
from inference_econ.engine.power import ChipPower, step_joules
from inference_econ.engine.prefill import Prefill, fastest_cut, prefill
from inference_econ.engine.proposals import Speculation
from inference_econ.engine.proposer import ONE_STAGE, Proposer
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import host_sequences, step_seconds
from inference_econ.formulas import speculation as formulas
from inference_econ.formulas.speculation import BestDraft
from inference_econ.inputs import (
    TensorLayout,
)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds with 0, 1, .. k proposals per sequence; the first is a plain decode step.

    Attributes
    ----------
    verify_seconds : ndarray, shape (..., k + 1)
        The target over the proposals and the token before them [s]; ``inf`` for drafts that are no choice.
    propose_seconds : ndarray, shape (...)
        Proposing one token for every sequence [s]; ``inf`` where no layout of a draft model fits.
    tokens : ndarray, shape (k + 1,)
        Expected tokens that a sequence gains [1].
    shortest : int
        Rounds with fewer proposals are no choice [1].
    """

    verify_seconds: Array
    propose_seconds: Array
    tokens: Array
    shortest: int = 0

    @property
    def seconds(self) -> Array:
        """A whole round, shape (..., k + 1) [s]."""
        return formulas.round_seconds(self.verify_seconds, self.propose_seconds)

    def best(self) -> BestDraft:
        """The draft length with the shortest time per token; 0 where plain decoding has it and is a choice.

        It falls as batches grow where arithmetic comes to bound the step: to 0 at short contexts, and to what the cache
        leaves room for at long ones, whose traffic all tokens of a sequence share. It may rise where larger batches
        touch all experts anyway, where launches of the proposer weigh less beside longer steps, or where collectives
        change their protocol.
        """
        return formulas.best_draft_length(self.verify_seconds, self.propose_seconds, self.tokens, self.shortest)


def rounds(
    setup: Setup,
    plans: Plans,
    speculation: Speculation,
    *,
    cut: TensorLayout | None = None,
    layouts: Layouts = ONE_STAGE,
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
    alike. The host's ``step_overhead`` is paid once per round, and what of a round nothing hides. The first pass of a
    proposer reads all tokens of the last round; it counts as a pass over one.

    A head (``mtp``, ``eagle``) is one transformer layer of the target, the projection of hidden state and token
    embedding (2 h x h weights), and the target's own output embedding: DeepSeek-V3 (arXiv:2412.19437), eqs. (21) to
    (23); EAGLE, Li et al. (2024), section 3. It runs in the layout of the target, of pipelines on the chips of one
    stage. Of EAGLE heads for mixtures of experts some are dense: then it is reckoned too slow. Where a draft model
    runs is the assumption ``serving.draft_placement``: cut like the target's attention, as far as its heads divide,
    where groups of so many chips each hold a copy and a part of the batch; or on all chips of the instance, in the
    layout that is fastest for it, as in the published study.
    """
    setup = setup.served(speculates=True)
    serving = setup.assumptions.serving
    full = replace(plans, batch=np.maximum(plans.batch, plans.pp))
    per_round, per_sequence = speculation.host_seconds
    host = per_round + per_sequence * host_sequences(setup, full)
    verified = [
        _verify_seconds(setup, full.verifying(tokens), cut) + (host if length else 0.0)
        if length == 0 or length >= speculation.shortest
        else np.inf
        for length, tokens in enumerate(speculation.verified(serving))
    ]
    verify = np.stack(np.broadcast_arrays(*verified), axis=-1)
    propose = Proposer.of(setup, speculation).seconds(full, layouts)
    proposals = np.broadcast_to(propose, verify.shape[:-1])
    return Rounds(verify, proposals, speculation.tokens(serving), speculation.shortest)


def token_joules(setup: Setup, chip: ChipPower, plans: Plans, speculation: Speculation | None = None) -> Array:
    """Energy of one output token beyond idling, on one accelerator.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    chip : ChipPower
        What an accelerator draws.
    plans : Plans
        Deployments with their batches, shape (...).
    speculation : Speculation, optional
        Who proposes tokens.

    Returns
    -------
    ndarray, shape (...)
        [J]. Proposing draws what verifying does in the same time.
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


def _verify_seconds(setup: Setup, plans: Plans, cut: TensorLayout | None) -> Array:
    if cut is None:
        return fastest_cut(setup, plans)
    return step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(cut)]


def read_prompt(setup: Setup, plans: Plans, tokens: float, cached: float, speculation: Speculation | None) -> Prefill:
    """Time to read a prompt, by the target and then by the proposer."""
    setup = setup.served(speculates=speculation is not None)
    target_prefill = prefill(setup, plans, tokens, cached)
    proposer = None if speculation is None else Proposer.of(setup, speculation)
    if proposer is None or proposer.setup is None:
        return target_prefill
    placed, copies = proposer.placed(plans)
    more = prefill(proposer.setup, placed, tokens, cached)
    share = (target_prefill.chip_share * target_prefill.seconds + more.chip_share * more.seconds) / (
        target_prefill.seconds + more.seconds
    )
    # Copies of a draft model read prompts side by side, and a prompt by itself on one of them.
    return Prefill(
        target_prefill.seconds + more.seconds,
        target_prefill.busy_seconds + more.busy_seconds / np.minimum(copies, plans.pp),
        target_prefill.full_seconds + more.full_seconds / copies,
        target_prefill.chunks,
        share,
    )


def needed_memory(setup: Setup, plans: Plans, speculation: Speculation | None) -> Memory:
    """Return the memory of target and proposer, see :meth:`Proposer.memory`; entries broadcastable to (...) [B]."""
    return setup.memory(plans) if speculation is None else Proposer.of(setup, speculation).memory(plans)


def prompt_cache_bytes(setup: Setup, tokens: float, speculation: Speculation | None) -> float:
    """Cache that a prompt of so many tokens leaves behind, of the target and of the proposer, each byte once [B]."""
    target_cache = kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions)
    helper = None if speculation is None else Proposer.of(setup, speculation)
    if helper is None or helper.setup is None:
        return target_cache
    more = kv_bytes_per_sequence(helper.setup.model, helper.setup.precision, tokens, setup.assumptions)
    return target_cache + helper.heads * more
