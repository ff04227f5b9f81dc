"""Ways to serve a model on a chip: an engine under its profile, with its recipe, together or apart."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.answers.deployments.power import instance_watts
from inference_econ.answers.disaggregated.pools import no_groups, pools
from inference_econ.answers.disaggregated.steady import SteadyPools
from inference_econ.answers.layout_services import offer, with_slots
from inference_econ.answers.simplest import complexity
from inference_econ.answers.slo import NAMES, Targets, kept_states
from inference_econ.engine import (
    MACHINE,
    Evidence,
    Instances,
    Plans,
    Setup,
    Space,
    Speculation,
    attention_groups,
    evidence_of,
    for_engine,
    has_recipes,
    layout_keys,
    node,
    with_cache,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs import (
    Groups,
    Length,
    Practice,
    Requests,
    Traffic,
    engines_for,
    practices_in,
    published_groups,
)
from inference_econ.serving import Services


class StateMetrics(NamedTuple):
    """Latencies and rates that users see of the layouts of a candidate at some batches; arrays of shape (n, k)."""

    tpot_seconds: Array
    """Mean time per output token after the first [s]; NaN where there is no such state."""
    requests_per_second: Array
    """Completed by what is deployed together [1/s]."""
    accelerators: Array
    """Of what is deployed together: an instance, or instances that read prompts and instances that decode [1]."""
    concurrency: Array
    """Requests in flight in it [1]."""
    batch: Array
    """Decoded together by an instance, as one of them sees it [1]."""


def engine_of(setup: Setup) -> str:
    """The engine that serves, with its version; empty where several can, or any layout is offered."""
    return setup.engines[0].label if len(setup.engines) == 1 else ""


def practice_of(setup: Setup, speculation: Speculation | None) -> str:
    """Recipe in words, as far as it differs from others: the format of the cache, and who proposes how many tokens."""
    proposer = "" if speculation is None else f", {speculation.proposer.upper()} {speculation.longest}"
    return f"{setup.precision.kv} cache{proposer}"


def label_of(setup: Setup, speculation: Speculation | None, *, apart: bool) -> str:
    """Who serves, and how, in words."""
    pools = ", apart" if apart else ""
    return f"{engine_of(setup) or setup.assumptions.name} ({practice_of(setup, speculation)}{pools})"


@dataclass(frozen=True)
class Candidate:
    """One way to serve: the layouts of an engine with a recipe, as instances that do both or as two pools.

    Attributes
    ----------
    services : Services
        The layouts that do both, or those that decode.
    pools : SteadyPools or None
        Instances that read prompts beside those that decode; None where instances do both.
    """

    services: Services
    pools: SteadyPools | None = None

    def __len__(self) -> int:
        return len(self.services)

    @property
    def setup(self) -> Setup:
        """Model, chip and formats."""
        return self.services.setup

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of both pools where their chips differ; else the setup alone."""
        if self.pools is None or not self.pools.pools.prefill_chip:
            return [self.setup]
        return [self.pools.pools.prefill.setup, self.setup]

    @property
    def requests(self) -> Requests:
        """Requests of users."""
        return self.services.requests

    @property
    def speculation(self) -> Speculation | None:
        """Who proposes tokens, if anybody."""
        return self.services.speculation

    @property
    def plans(self) -> Plans:
        """The layouts that do both, or that decode; arrays of shape (n,)."""
        return self.services.plans

    @property
    def engine(self) -> str:
        """The engine with its version; empty where several can, or any layout is offered."""
        return engine_of(self.setup)

    @property
    def label(self) -> str:
        """Who serves, and how, in words."""
        return label_of(self.setup, self.speculation, apart=self.pools is not None)

    @property
    def practice(self) -> str:
        """Recipe in words, as far as it differs from others: the format of the cache, and who proposes tokens."""
        return practice_of(self.setup, self.speculation)

    @cached_property
    def metrics(self) -> StateMetrics:
        """Latencies and rates of every layout at every batch."""
        if self.pools is not None:
            return StateMetrics(*self.pools.seen)
        states, shape = self.services.states, self.services.states.ttft_seconds.shape
        return StateMetrics(
            states.tpot_seconds,
            states.requests_per_second,
            np.broadcast_to(self.plans.accelerators[:, None], shape),
            states.concurrency,
            np.broadcast_to(states.batch, shape),
        )

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean time to first token of some states [s]."""
        if self.pools is not None:
            return self.pools.ttft_seconds(rows, columns)
        return np.asarray(self.services.states.ttft_seconds[rows, columns])

    @property
    def paid_chips(self) -> Array:
        """Chips of the setup that cost as much as what is deployed together, shape (n, k) [1]: all, if of one kind."""
        return self.metrics.accelerators if self.pools is None else self.pools.paid_chips

    @cached_property
    def dollars(self) -> Array:
        """The whole bill over output tokens at every batch, shape (n, k) [USD per 1e6 tokens]."""
        rate = self.metrics.requests_per_second * self.requests.osl.mean
        return money.dollars_per_million_tokens(self.paid_chips, 1.0, rate, self.setup.dollars_per_accelerator_hour)

    @cached_property
    def _waits(self) -> Array:
        """Mean time to first token of every state, shape (n, k) [s]; of pools a queue each."""
        rows, columns = np.indices(self.metrics.tpot_seconds.shape)
        return self.ttft_seconds(rows.ravel(), columns.ravel()).reshape(rows.shape)

    def kept_dollars(self, promises: Targets) -> Array:
        """:attr:`dollars` of the states that keep some promises as a mean, NaN of others, shape (n, k)."""
        return np.where(kept_states(self.means(promises.given), promises), self.dollars, np.nan)

    def means(self, promised: Collection[str] = NAMES) -> dict[str, Array]:
        """Mean latencies by name as in promises, TPOT and those that are promised; shape (n, k) each [s]."""
        tpot = self.metrics.tpot_seconds
        times = {"tpot": tpot}
        if {"ttft", "e2e"} & set(promised):
            times |= {"ttft": self._waits, "e2e": self._waits + self.requests.decode_steps * tpot}
        return {name: times[name] for name in NAMES if name == "tpot" or name in promised}

    def layouts(self, rows: Indices, columns: Indices) -> list[dict[str, float | str]]:
        """The degrees of some layouts at some batches, under the names that people use; of pools those that decode.

        With the engine, and of pools how many instances of which layout read prompts for how many that decode.
        """
        records = _degrees(self.setup, self.plans, rows)
        if self.pools is None:
            return records
        reading, prefill = self.pools.reading_rows(rows, columns), self.pools.pools.prefill
        readers = [prefill.layouts[row] for row in reading.tolist()]
        counts = self.pools.instances_at(rows, columns)
        return [
            {
                **record,
                "prefill": reader,
                **self.pools.pools.prefill_chip,
                "prefill_instances": round(prefilling),
                "decode_instances": round(decoding),
            }
            for record, reader, (prefilling, decoding) in zip(records, readers, counts, strict=True)
        ]

    def decoders(self, rows: Indices, columns: Indices) -> Array | float:
        """Instances that decode of what is deployed together, of some states [1]."""
        if self.pools is None:
            return 1.0
        return np.array([max(decoders, 1) for _, decoders in self.pools.instances_at(rows, columns)], dtype=float)

    @cached_property
    def all_decoders(self) -> Array:
        """Instances that decode, of every layout at every batch, shape (n, k) [1]."""
        rows, columns = np.indices(self.metrics.tpot_seconds.shape)
        decoders = self.decoders(rows.ravel(), columns.ravel())
        return np.broadcast_to(decoders, rows.size).reshape(rows.shape)

    def board_watts(self, rows: Indices, columns: Indices, batch: Array, requests_per_second: Array) -> Array | None:
        """Power of all boards of what is deployed together, of some states [W]; None without watts in the file."""
        if self.pools is None:
            return instance_watts(self.services, rows, batch, requests_per_second)
        counts = np.array(self.pools.instances_at(rows, columns), dtype=float).T
        sides = self.pools.pools.prefill.services, self.services
        drawn: list[Array] = []
        for side, chosen, count in zip(sides, (self.pools.reading_rows(rows, columns), rows), counts, strict=True):
            reads = side is not self.services
            watts = instance_watts(side, chosen, batch, requests_per_second / count, reads=reads, decodes=not reads)
            if watts is None:
                return None
            drawn.append(count * watts)
        return drawn[0] + drawn[1]

    def keys(self, rows: Indices) -> list[str]:
        """Names of some layouts, see :func:`inference_econ.engine.layout_key`."""
        return layout_keys(self.plans.at((rows,)), self.setup.assumptions.layout)

    @cached_property
    def evidence(self) -> Evidence:
        """How much of it was measured."""
        return evidence_of(self.setup, disaggregated=self.pools is not None, speculates=self.speculation is not None)

    @cached_property
    def complexity(self) -> Indices:
        """How far each layout is from the simplest kind of deployment, shape (n,) [1]; see :func:`complexity`."""
        return complexity(self.setup.hardware, self.plans, disaggregated=self.pools is not None)

    @cached_property
    def measured_rows(self) -> npt.NDArray[np.bool_]:
        """Layouts that some measured server had, served so, shape (n,)."""
        layouts = self.keys(np.arange(len(self)))
        return np.array(Instances(self.setup, speculates=self.speculation is not None, layouts=layouts).measured)


def _degrees(setup: Setup, plans: Plans, rows: Indices) -> list[dict[str, float | str]]:
    cut = setup.assumptions.layout.tensor_layouts[0]
    columns = setup.layout_columns(plans.at((rows,)), np.full(rows.size, cut))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


#: Whether instances read prompts and decode, or pools do one of both, or either.
Arrangement = Literal["both", "aggregated", "disaggregated"]
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


#: Machines that a disaggregated deployment takes at most where any is tried [1].
_MACHINES = 4
#: Whether pools serve, in every way that an arrangement allows.
_WAYS: Mapping[Arrangement, Sequence[bool]] = {"both": (False, True), "aggregated": (False,), "disaggregated": (True,)}


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
    arrangement : {'both', 'aggregated', 'disaggregated'}
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
    >>> together = market(setup, requests, Space(max_accelerators=2), speculation=None, arrangement="aggregated")
    >>> [candidate.label for candidate in together]
    ['sglang 0.5.23 (bf16 cache)', 'trtllm 1.3.0rc20 (bf16 cache)', 'vllm 0.33.0 (bf16 cache)']
    """
    if arrangement not in _WAYS:
        raise InputError(f"arrangement: got {arrangement!r}; allowed: {', '.join(_WAYS)}")
    requests = Requests.of(traffic)
    only_pools = arrangement == "disaggregated" or (pooling or Pooling()) != Pooling()
    if not requests.is_simple and only_pools:
        raise InputError(
            f"pools are not played, and closed forms know nothing of the arrivals and lengths of {requests.traffic}; "
            "give lengths and --arrival-scv, or leave --disaggregated out"
        )
    tried, skipped = Space() if space is None else space, []
    if not requests.is_simple and arrangement == "both":
        arrangement = "aggregated"
        if not tried.pins.given() and slots is None:
            skipped = [f"pools that prefill and decode apart, which are not played, under {requests.traffic}"]
    reasons: dict[str, InputError | NothingFitsError] = {}
    candidates: list[Candidate] = []
    labels: list[str] = []
    pooled = pooling or Pooling()
    groups = _groups(setup, tried, pooled)
    for practised in recipes_to_try(setup, speculation):
        practised = practised if levels else practised._replace(setup=practised.setup.unmeasured)
        labels_of = {way: label_of(practised.setup, practised.speculation, apart=way) for way in _WAYS[arrangement]}
        labels += labels_of.values()
        try:
            ways = [way for way, label in labels_of.items() if not among or label in among]
            candidates += _arranged(practised, requests, tried, ways, pooled, slots, ttft_seconds, groups)
        except (InputError, NothingFitsError) as error:
            reasons.setdefault(engine_of(practised.setup), error)
    if not candidates or (only_pools and all(candidate.pools is None for candidate in candidates)):
        first = next(iter(reasons.values()), None)
        raise _none(setup, labels, among, tried.gpus) if first is None else _reason(setup, requests, tried, first)
    able = {candidate.engine for candidate in candidates}
    unable = (*skipped, *(f"{label}: {reason}" for label, reason in reasons.items() if label not in able))
    return tuple(_with_skipped(candidate, unable) if unable else candidate for candidate in candidates)


def with_evidence(candidates: Sequence[Candidate], least: Literal["measured", "near"]) -> tuple[Candidate, ...]:
    """The candidates that were measured, or at least near what was.

    Raises
    ------
    NothingFitsError
        If there are none, with what is closest.
    """
    kinds = ("measured",) if least == "measured" else ("measured", "near")
    kept = tuple(candidate for candidate in candidates if candidate.evidence.kind in kinds)
    if kept:
        return kept
    setup = candidates[0].setup
    near = [candidate.label for candidate in candidates if candidate.evidence.kind == "near"]
    closest = f"closest, with --evidence near: {', '.join(near)}" if near else "nothing near was measured either"
    raise NothingFitsError(
        f"no server of {setup.model.name} ({setup.precision.weights}) on {setup.hardware.name} was measured in one of "
        f"these arrangements; {closest}"
    )


def _with_skipped(candidate: Candidate, unable: tuple[str, ...]) -> Candidate:
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


def _none(setup: Setup, labels: Collection[str], among: Collection[str], gpus: int | None) -> NothingFitsError:
    """Error where no candidate has one of the names, or nothing can be disaggregated."""
    if among and not set(labels) & set(among):
        return NothingFitsError(f"no candidate is called {' or '.join(among)}; there are {', '.join(labels)}")
    size = "" if gpus is None else f" on at most {gpus} GPUs"
    return NothingFitsError(
        f"no disaggregated deployment of {setup.model.name} on {setup.hardware.name} is possible{size}. It needs at "
        "least two instances that hold the model, a link between them, a TTFT in which one can prefill, and open degrees "
        "(--tp, --dp, --pp, --ep) and slots. Leave --disaggregated out"
    )


class RecipeSetup(NamedTuple):
    """One practice that a question leaves open."""

    setup: Setup
    """Model, chip and formats."""
    speculation: Speculation | None
    """Who proposes tokens."""
    practice: Practice | None
    """Practice that its recipe names; None where no recipe is asked."""


def recipes_to_try(setup: Setup, speculation: Proposer = RECIPE) -> Iterator[RecipeSetup]:
    """Every practice that a question leaves open."""
    proposed = speculation if isinstance(speculation, Speculation) else None
    engines = setup.engines or engines_for(setup.model, setup.hardware, setup.precision)
    if not has_recipes(setup) or not engines:
        yield RecipeSetup(setup, proposed, None)
        return
    for engine in engines:
        run = for_engine(setup, engine)
        seen: list[tuple[str, Speculation | None]] = []
        for practice in practices_in(engine.name, setup.model, setup.hardware, setup.precision):
            try:
                cached = with_cache(run, practice.kv)
                proposer = _proposer(practice, cached) if speculation == RECIPE else proposed
            except InputError:
                # A recipe for another chip or checkpoint.
                continue
            if (key := (cached.precision.kv, proposer)) not in seen:
                seen.append(key)
                yield RecipeSetup(cached, proposer, practice)


def _proposer(practice: Practice, setup: Setup) -> Speculation | None:
    """Who proposes tokens in a practice: drafts of one length, as engines run them."""
    if practice.proposer is None:
        return None
    return Speculation.of(practice.proposer, longest=practice.draft_length, setup=setup).of_one_length()


def _arranged(
    practised: RecipeSetup,
    requests: Requests,
    space: Space,
    ways: Sequence[bool],
    pooling: Pooling,
    slots: int | None,
    ttft_seconds: float,
    groups: Groups,
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
    if groups.shapes == frozenset():
        if False not in ways:
            raise NothingFitsError(no_groups(practised.setup))
        return
    try:
        reading = _usual(practised, requests.replace(osl=Length(values=(1.0,))), space, apart=True)
        if pooling.decode is None or pooling.decode.hardware == practised.setup.hardware:
            writing = _alike(practised, layouts, space) or _usual(practised, requests, space, apart=True)
        else:
            writing = _usual(_decoding(practised, pooling.decode), requests, space, apart=True)
        most = space.max_accelerators or math.inf
        every = pools(
            reading, writing, layer_by_layer=pooling.layer_by_layer, chains=pooling.chains, largest=most,
            groups=groups,
        )  # fmt: skip
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


def _groups(setup: Setup, space: Space, pooling: Pooling) -> Groups:
    """The disaggregated groups that are tried: those that somebody published, unless any is asked for.

    Any layouts on at most four machines are tried where no engine has to start them, on two kinds of GPUs, and in
    chains, of which nothing is published. No group is larger than the GPUs of a deployment.
    """
    machine = max(node(setup.hardware), setup.hardware.link_domain)
    groups = Groups(None, _MACHINES * machine)
    if not (space.any_group or not setup.engines or pooling.decode is not None or pooling.chains):
        groups = published_groups(setup.model, setup.hardware)
    return groups if space.gpus is None else groups._replace(most=min(groups.most, space.gpus))


def _decoding(practised: RecipeSetup, decode: Setup) -> RecipeSetup:
    """A practice on the chip that decodes: with the engine, the cache and the proposer of the prefill pool."""
    setup = practised.setup
    if has_recipes(setup) and setup.engines:
        decode = with_cache(for_engine(decode, setup.engines[0]), setup.precision.kv)
    return practised._replace(setup=decode)


def _usual(practised: RecipeSetup, requests: Requests, space: Space, *, apart: bool) -> Services:
    """The layouts that people run: instances of one machine, of the fewest that hold the model, or as recipes name.

    All where a size or a degree is given, or any layout is asked for. Where tokens are proposed, groups of attention
    ranks only if the recipe has some: draft lengths differ with and without.
    """
    setup, speculation, _ = practised
    setup = setup.for_role(apart=True) if apart else setup
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


def _chosen(practised: RecipeSetup, space: Space, *, apart: bool) -> tuple[int | None, bool | None]:
    """Chips of the largest usual instance [1], and whether attention has groups; None where either is left open.

    Instances of recipes count that stay inside a link domain: those across machines that were measured decoded 1.3 to
    1.9 times slower than predicted. Where the model needs several machines, the fewest are taken.
    """
    setup, _, practice = practised
    if space.max_accelerators is not None or space.pins.given() or not setup.engines:
        return None, None
    named = _named(practice, apart=apart)
    inside = [chips for tp, dp, pp in named if (chips := tp * dp * pp) <= setup.hardware.link_domain]
    most = 1 if setup.hardware.desk else max(MACHINE, node(setup.hardware), *inside)
    most = most if space.gpus is None else min(most, space.gpus)
    grouped = {dp > 1 for _, dp, _ in named}
    if practice is None or practice.proposer is None or len(grouped) != 1:
        return most, None
    return most, grouped.pop()


def _alike(practised: RecipeSetup, layouts: Services, space: Space) -> Services | None:
    """The layouts that do both as those that only decode, where these are the same and measured servers tell no two."""
    setup = layouts.setup.for_role(apart=True)
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
