"""What can be rented to serve a model on a chip: the practices of every engine, together and apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from inference_econ.answers.candidates import Candidate, label_of
from inference_econ.answers.disaggregated.pools import pools
from inference_econ.answers.disaggregated.steady import SteadyPools
from inference_econ.answers.offer import offer
from inference_econ.answers.slots import with_slots
from inference_econ.engine import MACHINE, Setup, Space, Speculation, node
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Practice, Precision, Requests, engines_for, practices
from inference_econ.serving import Services

#: Whether instances read prompts and decode, or pools do one of both, or either.
Arrangement = Literal["both", "together", "apart"]
#: Who proposes tokens: somebody, nobody, or whom recipes of engines have.
RECIPE: Literal["recipe"] = "recipe"
Proposer = Speculation | Literal["recipe"] | None
#: Whether pools serve, in every way that an arrangement allows.
_WAYS: Mapping[Arrangement, Sequence[bool]] = {"both": (False, True), "together": (False,), "apart": (True,)}


def market(
    setup: Setup,
    requests: Requests,
    space: Space | None = None,
    *,
    speculation: Proposer = RECIPE,
    arrangement: Arrangement = "both",
    slots: int | None = None,
    ttft_seconds: float = np.inf,
    among: Collection[str] = (),
) -> tuple[Candidate, ...]:
    """Every way to serve some requests that a question leaves open, on one chip.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how. Where it leaves the engine open, every engine that can serves under its own
        profile; without assumptions of its own, each with the formats of cache and the proposers of its recipes.
    requests : Requests
        Lengths and cached tokens.
    space : Space, optional
        Which instances are tried. Degrees that are pinned mean instances that do both.
    speculation : Speculation, None or 'recipe'
        Who proposes tokens to all; nobody if None; by default as recipes have it, and nobody as well.
    arrangement : {'both', 'together', 'apart'}
        Whether instances read prompts and decode, or pools do one of both.
    slots : int, optional
        Requests in flight of an instance at most [1].
    ttft_seconds : float
        Longest time in which pools must read a prompt that finds nobody [s].
    among : collection of str
        Only candidates of these labels; all if there are none.

    Returns
    -------
    tuple of Candidate
        At least one.

    Raises
    ------
    InputError
        If nobody knows the price, or something cannot be used; or if pools are asked for where there are none.
    NothingFitsError
        If no layout of any engine fits.

    Examples
    --------
    >>> setup, requests = Setup.of("llama_3_8b", "h100_sxm"), Requests(isl=1000, osl=200)
    >>> [each.label for each in market(setup, requests, Space(max_accelerators=2), arrangement="together")]
    ['sglang 0.5.23 (bf16 cache)', 'trtllm 1.3.0rc20 (bf16 cache)', 'vllm 0.33.0 (bf16 cache)']
    """
    tried = Space() if space is None else space
    reasons: list[InputError | NothingFitsError] = []
    candidates: list[Candidate] = []
    for served, proposer in asked(setup, speculation):
        try:
            ways = [way for way in _WAYS[arrangement] if not among or label_of(served, proposer, apart=way) in among]
            candidates += _arranged(served, requests, tried, proposer, ways, slots, ttft_seconds)
        except (InputError, NothingFitsError) as error:
            reasons.append(error)
    if not candidates:
        raise reasons[0] if reasons else _no_pools(setup)
    return tuple(candidates)


def _no_pools(setup: Setup) -> NothingFitsError:
    return NothingFitsError(
        f"no pools that prefill and decode apart can serve {setup.model.name} on {setup.hardware.name} so: they need "
        "open degrees (--tp, --dp, --pp, --ep) and slots, answers of more than one token, and a link between instances"
    )


def asked(setup: Setup, speculation: Proposer = RECIPE) -> Iterator[tuple[Setup, Speculation | None]]:
    """The setups of every practice that a question leaves open, and who proposes tokens in each."""
    proposed = speculation if isinstance(speculation, Speculation) else None
    if not setup.has_recipes:
        yield setup, proposed
        return
    engines = setup.engines or engines_for(setup.model, setup.hardware, setup.precision)
    if not engines:
        yield setup, proposed
        return
    published = Precision.of(setup.model).of_weights == setup.precision.of_weights
    weights = None if published else setup.precision.weights
    for engine in engines:
        own = setup.run_by(engine)
        seen: list[tuple[str, Speculation | None]] = []
        for practice in practices(engine.name, setup.model, setup.hardware, weights):
            try:
                cached = own.with_cache(practice.kv)
                proposer = _proposer(practice, cached) if speculation == RECIPE else proposed
            except InputError:
                # A recipe for another chip or checkpoint.
                continue
            if (key := (cached.precision.kv, proposer)) not in seen:
                seen.append(key)
                yield cached, proposer


def _proposer(practice: Practice, setup: Setup) -> Speculation | None:
    """Who proposes tokens in a practice: drafts of one length, as engines run them."""
    if practice.proposer is None:
        return None
    return Speculation.of(practice.proposer, longest=practice.draft_length, setup=setup).of_one_length()


def _arranged(
    setup: Setup,
    requests: Requests,
    space: Space,
    speculation: Speculation | None,
    ways: Sequence[bool],
    slots: int | None,
    ttft_seconds: float,
) -> Iterator[Candidate]:
    """One practice as instances that do both, and as pools where these can be.

    Pools are not tried where an instance is pinned or told its slots, nor for answers of a single token.
    """
    if not ways:
        return
    layouts = offer(setup, requests, space, speculation)
    if False in ways:
        usual = _of_usual_size(layouts, space)
        yield Candidate(usual if slots is None else with_slots(usual, slots))
    if True not in ways or space.pins.given() or slots is not None or requests.decode_steps <= 0:
        return
    try:
        every = pools(setup, requests, space, speculation=speculation, both=layouts)
        apart = SteadyPools(every, ttft_seconds)
        if np.isfinite(apart.seen[0]).any():
            yield Candidate(every.decode.services, apart)
    except (InputError, NothingFitsError):
        # No link between instances, or no layout whose groups all have a sequence.
        return


def _of_usual_size(layouts: Services, space: Space) -> Services:
    """The layouts that people run: instances of one machine, or of the fewest machines that hold the model.

    All where a size or a degree is given, or any layout is asked for. Wide groups read prompts or decode, in pools.
    """
    setup = layouts.setup
    if space.max_accelerators is not None or space.pins.given() or not setup.engines:
        return layouts
    sizes = layouts.plans.accelerators
    most = max(MACHINE, node(setup.hardware), float(sizes.min()))
    return layouts.take(np.flatnonzero(sizes <= most))
