"""Market of deployments of a model on a chip that can be rented: the practices of every engine, together and apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from inference_econ.answers.candidates import Candidate, engine_of, label_of
from inference_econ.answers.disaggregated.pools import pools
from inference_econ.answers.disaggregated.steady import SteadyPools
from inference_econ.answers.offer import check_setup, offer
from inference_econ.answers.slots import with_slots
from inference_econ.engine import MACHINE, Setup, Space, Speculation, attention_groups, node
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Length, Practice, Requests, Traffic, engines_for, practices_in
from inference_econ.serving import Services

#: Whether instances read prompts and decode, or pools do one of both, or either.
Arrangement = Literal["both", "together", "apart"]
#: Who proposes tokens: somebody, nobody, or whom recipes of engines have.
RECIPE: Literal["recipe"] = "recipe"
Proposer = Speculation | Literal["recipe"] | None


@dataclass(frozen=True, slots=True)
class Pooling:
    """What is asked of prefill and decode pools, and of nothing else."""

    decode: Setup | None = None
    """The same model on another kind of chip, for decoding; engine and cache are those of the prefill pool."""
    layer_by_layer: bool = True
    """A layer's cache is sent while the next layer is computed; otherwise all of it once the prompt has been read."""
    chains: Sequence[int] = ()
    """Processes of chains that may read prompts in place of single instances [1]."""


#: Whether pools serve, in every way that an arrangement allows.
_WAYS: Mapping[Arrangement, Sequence[bool]] = {"both": (False, True), "together": (False,), "apart": (True,)}


def market(
    setup: Setup,
    traffic: Traffic | Requests,
    space: Space | None = None,
    *,
    speculation: Proposer = RECIPE,
    arrangement: Arrangement = "both",
    pooling: Pooling | None = None,
    slots: int | None = None,
    ttft_seconds: float = np.inf,
    among: Collection[str] = (),
    levels: bool = True,
) -> tuple[Candidate, ...]:
    """Every way to serve some requests that a question leaves open, on one chip.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how. Where it leaves the engine open, every engine that can serves under its own
        profile; without assumptions of its own, each with the formats of cache and the proposers of its recipes.
    traffic : Traffic or Requests
        Lengths and cached tokens.
    space : Space, optional
        Which instances are tried. Degrees that are pinned mean instances that do both.
    speculation : Speculation, None or 'recipe'
        Who proposes tokens to all; nobody if None; by default as recipes have it, and nobody as well.
    arrangement : {'both', 'together', 'apart'}
        Whether instances read prompts and decode, or pools do one of both.
    pooling : Pooling, optional
        What is asked of prefill and decode pools.
    slots : int, optional
        Requests in flight of an instance at most [1].
    ttft_seconds : float
        Longest time in which pools must read a prompt that finds nobody [s].
    among : collection of str
        Only candidates of these labels; all if there are none.
    levels : bool
        Whether it counts by how much measured servers differ from their profile.

    Returns
    -------
    tuple of Candidate
        At least one.

    Raises
    ------
    InputError
        If nobody knows the price, or something cannot be used.
    NothingFitsError
        If no layout of any engine fits; or if there are no pools, or no candidates of the labels, that are asked for.

    Examples
    --------
    >>> setup, requests = Setup.of("llama_3_8b", "h100_sxm"), Requests(isl=1000, osl=200)
    >>> together = market(setup, requests, Space(max_accelerators=2), speculation=None, arrangement="together")
    >>> [candidate.label for candidate in together]
    ['sglang 0.5.23 (bf16 cache)', 'trtllm 1.3.0rc20 (bf16 cache)', 'vllm 0.33.0 (bf16 cache)']
    """
    if arrangement not in _WAYS:
        raise InputError(f"arrangement: got {arrangement!r}; allowed: {', '.join(_WAYS)}")
    check_setup(setup)
    requests = Requests.of(traffic)
    only_pools = arrangement == "apart" or (pooling or Pooling()) != Pooling()
    if not requests.is_simple and only_pools:
        raise InputError(
            f"pools are not played, and closed forms know nothing of the arrivals and lengths of {requests.traffic}; "
            "give lengths and --arrival-scv, or leave --apart out"
        )
    tried, skipped = Space() if space is None else space, []
    if not requests.is_simple and arrangement == "both":
        arrangement = "together"
        if not tried.pins.given() and slots is None:
            skipped = [f"pools that prefill and decode apart, which are not played, under {requests.traffic}"]
    reasons: dict[str, InputError | NothingFitsError] = {}
    candidates: list[Candidate] = []
    labels: list[str] = []
    for practised in asked(setup, speculation):
        practised = practised if levels else practised._replace(setup=practised.setup.unmeasured)
        labels_of = {way: label_of(practised.setup, practised.speculation, apart=way) for way in _WAYS[arrangement]}
        labels += labels_of.values()
        try:
            ways = [way for way, label in labels_of.items() if not among or label in among]
            candidates += _arranged(practised, requests, tried, ways, pooling or Pooling(), slots, ttft_seconds)
        except (InputError, NothingFitsError) as error:
            reasons.setdefault(engine_of(practised.setup), error)
    if not candidates or (only_pools and all(candidate.pools is None for candidate in candidates)):
        first = next(iter(reasons.values()), None)
        raise _none(setup, labels, among) if first is None else _reason(setup, requests, tried, first)
    able = {candidate.engine for candidate in candidates}
    unable = (*skipped, *(f"{label}: {reason}" for label, reason in reasons.items() if label not in able))
    return tuple(_telling(candidate, unable) if unable else candidate for candidate in candidates)


def _telling(candidate: Candidate, unable: tuple[str, ...]) -> Candidate:
    """A candidate whose setup tells what was left out, with the reasons."""
    setup = replace(candidate.setup, left_out=(*candidate.setup.left_out, *unable))
    return replace(candidate, services=replace(candidate.services, setup=setup))


def _reason(setup: Setup, requests: Requests, space: Space, first: Exception) -> Exception:
    """Why no engine serves, of all of them in one message where there is one; else what the first one lacks."""
    try:
        offer(setup, requests, space)
    except (InputError, NothingFitsError) as error:
        return error
    return first


def _none(setup: Setup, labels: Collection[str], among: Collection[str]) -> NothingFitsError:
    """That nobody is called so, or that there are no pools."""
    if among and not set(labels) & set(among):
        return NothingFitsError(f"no candidate is called {' or '.join(among)}; there are {', '.join(labels)}")
    return NothingFitsError(
        f"no pools that prefill and decode apart can serve {setup.model.name} on {setup.hardware.name} so: they need "
        "open degrees (--tp, --dp, --pp, --ep) and slots, answers of more than one token, a link between instances, "
        "and a TTFT in which they can read a prompt"
    )


class Practised(NamedTuple):
    """One practice that a question leaves open."""

    setup: Setup
    """Model, chip and formats."""
    speculation: Speculation | None
    """Who proposes tokens."""
    practice: Practice | None
    """Practice that its recipe names; None where no recipe is asked."""


def asked(setup: Setup, speculation: Proposer = RECIPE) -> Iterator[Practised]:
    """Every practice that a question leaves open."""
    proposed = speculation if isinstance(speculation, Speculation) else None
    engines = setup.engines or engines_for(setup.model, setup.hardware, setup.precision)
    if not setup.has_recipes or not engines:
        yield Practised(setup, proposed, None)
        return
    for engine in engines:
        run = setup.run_by(engine)
        seen: list[tuple[str, Speculation | None]] = []
        for practice in practices_in(engine.name, setup.model, setup.hardware, setup.precision):
            try:
                cached = run.with_cache(practice.kv)
                proposer = _proposer(practice, cached) if speculation == RECIPE else proposed
            except InputError:
                # A recipe for another chip or checkpoint.
                continue
            if (key := (cached.precision.kv, proposer)) not in seen:
                seen.append(key)
                yield Practised(cached, proposer, practice)


def _proposer(practice: Practice, setup: Setup) -> Speculation | None:
    """Who proposes tokens in a practice: drafts of one length, as engines run them."""
    if practice.proposer is None:
        return None
    return Speculation.of(practice.proposer, longest=practice.draft_length, setup=setup).of_one_length()


def _arranged(
    practised: Practised,
    requests: Requests,
    space: Space,
    ways: Sequence[bool],
    pooling: Pooling,
    slots: int | None,
    ttft_seconds: float,
) -> Iterator[Candidate]:
    """One practice as instances that do both, and as pools where these can be.

    Pools are not tried where an instance is pinned or told its slots; why there are none is said where only pools, or
    something of pools, are asked for.
    """
    if not ways:
        return
    layouts = _usual(practised, requests, space, apart=False)
    if False in ways:
        yield Candidate(layouts if slots is None else with_slots(layouts, slots))
    whole = any(engine.facts.keeps_caches for engine in practised.setup.engines)
    if True not in ways or space.pins.given() or slots is not None or whole:
        return
    try:
        reading = _usual(practised, requests.replace(osl=Length(values=(1.0,))), space, apart=True)
        if pooling.decode is None or pooling.decode.hardware == practised.setup.hardware:
            writing = _alike(practised, layouts, space) or _usual(practised, requests, space, apart=True)
        else:
            writing = _usual(_decoding(practised, pooling.decode), requests, space, apart=True)
        most = space.max_accelerators or math.inf
        every = pools(reading, writing, layer_by_layer=pooling.layer_by_layer, chains=pooling.chains, largest=most)
        apart = SteadyPools(every, ttft_seconds)
        if not np.isfinite(apart.seen[0]).any() and False not in ways:
            # Whoever asks for pools only is told the shortest TTFT that they keep.
            apart = SteadyPools(every)
        if np.isfinite(apart.seen[0]).any():
            yield Candidate(every.decode.services, apart)
    except (InputError, NothingFitsError):
        # No link between instances, answers of a single token, or no layout whose groups all have a sequence.
        if False not in ways or pooling != Pooling():
            raise


def _decoding(practised: Practised, decode: Setup) -> Practised:
    """A practice on the chip that decodes: with the engine, the cache and the proposer of the prefill pool."""
    setup = practised.setup
    if setup.has_recipes and setup.engines:
        decode = decode.run_by(setup.engines[0]).with_cache(setup.precision.kv)
    return practised._replace(setup=decode)


def _usual(practised: Practised, requests: Requests, space: Space, *, apart: bool) -> Services:
    """The layouts that people run: instances of one machine, of the fewest that hold the model, or as recipes name.

    All where a size or a degree is given, or any layout is asked for. Where tokens are proposed, groups of attention
    ranks only if the recipe has some: draft lengths differ with and without.
    """
    setup, speculation, _ = practised
    setup = setup.served(apart=True) if apart else setup
    most, with_groups = _chosen(practised, space, apart=apart)
    if most is None:
        return offer(setup, requests, space, speculation)
    try:
        layouts = offer(setup, requests, replace(space, max_accelerators=most), speculation)
    except NothingFitsError:
        layouts = offer(setup, requests, space, speculation)
        layouts = layouts.take(np.flatnonzero(layouts.plans.accelerators <= layouts.plans.accelerators.min()))
    if with_groups is None:
        return layouts
    groups = np.broadcast_to(attention_groups(layouts.plans, setup.assumptions.layout), layouts.slots.shape)
    alike = np.flatnonzero((groups > 1) == with_groups)
    return layouts.take(alike) if alike.size else layouts


def _chosen(practised: Practised, space: Space, *, apart: bool) -> tuple[int | None, bool | None]:
    """Chips of the largest usual instance [1], and whether attention has groups; None where either is left open."""
    setup, _, practice = practised
    if space.max_accelerators is not None or space.pins.given() or not setup.engines:
        return None, None
    named = _named(practice, apart=apart)
    most = max(MACHINE, node(setup.hardware), *(tp * dp * pp for tp, dp, pp in named))
    grouped = {dp > 1 for _, dp, _ in named}
    if practice is None or practice.proposer is None or len(grouped) != 1:
        return most, None
    return most, grouped.pop()


def _alike(practised: Practised, layouts: Services, space: Space) -> Services | None:
    """The layouts that do both as those that only decode, where these are the same and measured servers tell no two."""
    setup = layouts.setup.served(apart=True)
    takes = layouts.setup.levels is None or (setup.levels is not None and setup.levels.takes_as(layouts.setup.levels))
    chosen = (_chosen(practised, space, apart=way) for way in (False, True))
    if not takes or next(chosen) != next(chosen):
        return None
    return replace(layouts, setup=setup, steady=lambda: layouts.states)


def _named(practice: Practice | None, *, apart: bool) -> list[tuple[int, int, int]]:
    """The degrees of instances that a recipe names, tp, dp and pp: of those that do both, or of pools."""
    if practice is None:
        return []
    if not apart:
        return [(layout["tp"], layout["dp"], layout["pp"]) for layout in practice.layouts]
    return [(pool.tp, pool.dp, pool.pp) for pools in practice.pools for pool in (pools.prefill, pools.decode)]
