"""Pools as the engine runs them that is the best at it: whose prefill and decode instances a question is about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from inference_econ.answers.candidates import Candidate
from inference_econ.answers.disaggregated.pools import Pools, pools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.answers.market import RECIPE, Proposer, market
from inference_econ.answers.means import Means
from inference_econ.answers.most_traffic import most_traffic
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import fleets
from inference_econ.answers.serving_frontier import service_frontier
from inference_econ.engine import Setup, Space
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import Requests


def best_pools(
    setup: Setup,
    requests: Requests,
    space: Space | None = None,
    terms: Terms | None = None,
    *,
    requests_per_second: float | None = None,
    means: Means | None = None,
    decode: Setup | None = None,
    layer_by_layer: bool = True,
    speculation: Proposer = RECIPE,
    chains: Sequence[int] = (),
) -> Pools:
    """Pools of the practice that serves a question the cheapest, among those that a setup leaves open.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how; see :func:`inference_econ.answers.market.market`.
    requests : Requests
        Lengths and cached tokens; answers of more than one token.
    space : Space, optional
        Which instances are tried.
    terms : Terms, optional
        Promises, arrivals, loads and ratios.
    requests_per_second : float, optional
        Who has the cheapest fleet for this traffic [1/s].
    means : Means, optional
        Or who carries the most with these chips or this budget; without either, whose steady pools maximise
        speed^3 / cost.
    decode : Setup, optional
        The same model on another kind of chip, for decoding; the practice is that of the chip that reads prompts.
    layer_by_layer : bool
        See :class:`inference_econ.answers.disaggregated.pools.Pools`.
    speculation : Speculation, None or 'recipe'
        Who proposes tokens.
    chains : sequence of int
        Processes of chains that may read prompts, of the practice that is the best where no TTFT is promised [1].

    Raises
    ------
    InputError
        If something cannot be used.
    NothingFitsError
        If no layout fits, or no pools keep the promises.
    """
    shared = Terms() if terms is None else terms
    if setup.has_recipes:
        candidates = market(setup, requests, space, speculation=speculation, arrangement="apart")
        if chains:
            # They may keep a TTFT that nothing else does.
            shared = replace(shared, targets=replace(shared.targets, ttft_seconds=math.inf))
        best = _best(candidates, shared, requests_per_second, means)
        setup, proposer, engines = best.setup, best.speculation, best.setup.engines
        if decode is not None and engines:
            decode = decode.run_by(engines[0]).with_cache(setup.precision.kv)
    else:
        proposer = None if speculation == RECIPE else speculation
    return pools(
        setup, requests, space, decode=decode, layer_by_layer=layer_by_layer, speculation=proposer, chains=chains
    )


def _best(candidates: Sequence[Candidate], terms: Terms, rate: float | None, means: Means | None) -> Candidate:
    """The practice that answers; one of which pools that keep all promises are known only if there is one."""
    if len(candidates) == 1:
        return candidates[0]
    if rate is not None:
        every = fleets(candidates, rate, terms.targets, math.inf, terms.arrival_scv)
        return _of(candidates, min(every, key=lambda fleet: fleet.dollars_per_hour).pools)
    if means is not None:
        first = most_traffic(candidates, means, terms.targets, arrival_scv=terms.arrival_scv, most=1)[0]
        assert first.fleet is not None
        return _of(candidates, first.fleet.pools)
    targets = terms.targets
    try:
        promised = Targets(targets.ttft_seconds, targets.tpot_seconds, "mean")
        front = service_frontier(candidates, promised)
    except NothingFitsError:
        front = service_frontier(candidates)
    return front.candidate(front.preferred_index())


def _of(candidates: Sequence[Candidate], wanted: Pools) -> Candidate:
    return next(
        candidate for candidate in candidates if candidate.pools is not None and candidate.pools.pools is wanted
    )
