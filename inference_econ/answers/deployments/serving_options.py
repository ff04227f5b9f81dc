"""Candidate deployments of a model on one kind of GPU: each engine with each of its recipes, in each serving mode."""

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
from inference_econ.answers.disaggregated.load import SteadyPools
from inference_econ.answers.disaggregated.pools import no_groups, pools
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
    memory,
    node,
    with_cache,
)
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.formulas import money
from inference_econ.inputs import (
    Groups,
    Length,
    Practice,
    Requests,
    Traffic,
    engines_for,
    lacks,
    practices_in,
    published_groups,
)
from inference_econ.serving import Services


class StateMetrics(NamedTuple):
    """Latencies and rates of a candidate deployment, for n layouts at k batches; arrays of shape (n, k)."""

    tpot_seconds: Array
    """Mean time per output token after the first token [s]; NaN if the batch does not fit in the layout."""
    requests_per_second: Array
    """Requests that the instance or prefill/decode group completes [1/s]."""
    accelerators: Array
    """Number of GPUs in the instance, or in the group of prefill and decode instances [1]."""
    concurrency: Array
    """Number of concurrent requests in the instance or prefill/decode group [1]."""
    batch: Array
    """Decode batch of one aggregated or decode instance [1]."""


def engine_of(setup: Setup) -> str:
    """Engine name and version as text; empty if the setup has several engines, or if layouts need no engine."""
    return setup.engines[0].label if len(setup.engines) == 1 else ""


def practice_of(setup: Setup, speculation: Speculation | None) -> str:
    """Label of a recipe: KV-cache format, speculation method and draft length."""
    proposer = "" if speculation is None else f", {speculation.proposer.upper()} {speculation.longest}"
    return f"{setup.precision.kv} cache{proposer}"


def label_of(setup: Setup, speculation: Speculation | None, *, apart: bool) -> str:
    """Label of a candidate deployment: engine, recipe, and whether serving is disaggregated."""
    pools = ", disaggregated" if apart else ""
    return f"{engine_of(setup) or setup.assumptions.name} ({practice_of(setup, speculation)}{pools})"


@dataclass(frozen=True)
class Candidate:
    """Candidate deployment: all layouts of one engine with one recipe, aggregated or disaggregated.

    Attributes
    ----------
    services : Services
        Layouts of aggregated instances, or of decode instances.
    pools : SteadyPools or None
        Prefill instances for each decode layout and batch; None for aggregated instances.
    """

    services: Services
    pools: SteadyPools | None = None

    def __len__(self) -> int:
        return len(self.services)

    @property
    def setup(self) -> Setup:
        """Model, GPU, formats, price and assumptions."""
        return self.services.setup

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of the deployment: one for prefill and one for decode if their GPUs differ, else a single one."""
        if self.pools is None or not self.pools.pools.prefill_chip:
            return [self.setup]
        return [self.pools.pools.prefill.setup, self.setup]

    @property
    def requests(self) -> Requests:
        """Requests of the workload."""
        return self.services.requests

    @property
    def speculation(self) -> Speculation | None:
        """Speculation method; None without speculation."""
        return self.services.speculation

    @property
    def plans(self) -> Plans:
        """Layouts of the aggregated or decode instances; arrays of shape (n,)."""
        return self.services.plans

    @property
    def engine(self) -> str:
        """Engine name and version as text; empty if the setup has several engines, or if layouts need no engine."""
        return engine_of(self.setup)

    @property
    def label(self) -> str:
        """Label of the candidate: engine, recipe, and whether serving is disaggregated."""
        return label_of(self.setup, self.speculation, apart=self.pools is not None)

    @property
    def practice(self) -> str:
        """Label of the recipe: KV-cache format, speculation method and draft length."""
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
        """Mean TTFT at the given pairs of layout (row) and batch (column) [s]."""
        if self.pools is not None:
            return self.pools.ttft_seconds(rows, columns)
        return np.asarray(self.services.states.ttft_seconds[rows, columns])

    @property
    def paid_chips(self) -> Array:
        """Number of decode GPUs with the same cost as all GPUs of the deployment, shape (n, k) [1]."""
        return self.metrics.accelerators if self.pools is None else self.pools.paid_chips

    @cached_property
    def dollars(self) -> Array:
        """Cost divided by output tokens, at every batch, shape (n, k) [USD per 1e6 tokens]."""
        rate = self.metrics.requests_per_second * self.requests.osl.mean
        return money.dollars_per_million_tokens(self.paid_chips, 1.0, rate, self.setup.dollars_per_accelerator_hour)

    @cached_property
    def _waits(self) -> Array:
        """Mean TTFT of every layout at every batch, shape (n, k) [s]."""
        rows, columns = np.indices(self.metrics.tpot_seconds.shape)
        return self.ttft_seconds(rows.ravel(), columns.ravel()).reshape(rows.shape)

    def kept_dollars(self, promises: Targets) -> Array:
        """Cost as in :attr:`dollars` where the mean latencies meet the SLOs, NaN elsewhere; shape (n, k)."""
        return np.where(kept_states(self.means(promises.given), promises), self.dollars, np.nan)

    def means(self, promised: Collection[str] = NAMES) -> dict[str, Array]:
        """Mean latencies by name, shape (n, k) each [s].

        The mapping has the TPOT, and every latency in ``promised``.
        """
        tpot = self.metrics.tpot_seconds
        times = {"tpot": tpot}
        if {"ttft", "e2e"} & set(promised):
            times |= {"ttft": self._waits, "e2e": self._waits + self.requests.decode_steps * tpot}
        return {name: times[name] for name in NAMES if name == "tpot" or name in promised}

    def layouts(self, rows: Indices, columns: Indices) -> list[dict[str, float | str]]:
        """Layouts at the given pairs of layout (row) and batch (column), as parallelism degrees and engines by option.

        For disaggregated candidates, the degrees describe decode instances. Each mapping then also has the prefill
        layout and the numbers of prefill and decode instances.
        """
        cut = self.setup.assumptions.layout.tensor_layouts[0]
        degrees = self.setup.layout_columns(self.plans.at((rows,)), np.full(rows.size, cut))
        records = [dict(zip(degrees, row, strict=True)) for row in zip(*degrees.values(), strict=True)]
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
        """Number of decode instances per prefill/decode group, for the given layouts and batches [1].

        The number is 1 for aggregated instances.
        """
        if self.pools is None:
            return 1.0
        return np.array([max(decoders, 1) for _, decoders in self.pools.instances_at(rows, columns)], dtype=float)

    @cached_property
    def all_decoders(self) -> Array:
        """Number of decode instances in the prefill/decode group, for every layout and batch, shape (n, k) [1]."""
        rows, columns = np.indices(self.metrics.tpot_seconds.shape)
        decoders = self.decoders(rows.ravel(), columns.ravel())
        return np.broadcast_to(decoders, rows.size).reshape(rows.shape)

    def board_watts(self, rows: Indices, columns: Indices, batch: Array, requests_per_second: Array) -> Array | None:
        """Board power of an instance or prefill/decode group at the given layouts and batches [W].

        The result is None without power data.
        """
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
        """Short names of the given layouts, see :func:`inference_econ.engine.layout_key`."""
        return layout_keys(self.plans.at((rows,)), self.setup.assumptions.layout)

    @cached_property
    def evidence(self) -> Evidence:
        """Calibration data: how similar the measured servers are to the candidate, and how many runs were measured."""
        return evidence_of(self.setup, disaggregated=self.pools is not None, speculates=self.speculation is not None)

    @cached_property
    def complexity(self) -> Indices:
        """Distance of each layout from the simplest kind of deployment, shape (n,) [1]; see :func:`complexity`."""
        return complexity(self.setup.hardware, self.plans, disaggregated=self.pools is not None)

    @cached_property
    def measured_rows(self) -> npt.NDArray[np.bool_]:
        """True for each layout in which a server of the same serving mode was measured, shape (n,)."""
        layouts = self.keys(np.arange(len(self)))
        return np.array(Instances(self.setup, speculates=self.speculation is not None, layouts=layouts).measured)


#: Largest share of an instance's memory for weights, so that caches fit too [1]. All configurations that SGLang's
#: documentation recommends for DeepSeek-V3 have shares from 0.42 to 0.58. Moonshot AI's guide for Kimi K2 in fp8 uses
#: two machines of H200 or H20, because the weights would take 0.85 of one machine of H200.
_MOST_WEIGHTS = 0.6

#: Kinds of serving: aggregated instances, disaggregated pools, or both.
Arrangement = Literal["both", "aggregated", "disaggregated"]
#: Value of ``speculation`` that uses the speculation method of each recipe.
RECIPE: Literal["recipe"] = "recipe"
Proposer = Speculation | Literal["recipe"] | None


@dataclass(frozen=True, slots=True)
class Pooling:
    """Settings of disaggregated serving."""

    decode: Setup | None = None
    """Setup of the decode instances, with the same model on another kind of GPU.

    Decode instances use the engine and the KV-cache format of the prefill instances.
    """
    layer_by_layer: bool = True
    """True if the KV cache of each layer is sent during the prefill of the next layer.

    False means that the whole KV cache is sent after the prefill.
    """
    chains: Sequence[int] = ()
    """Numbers of instances per prefill chain (KV-Runahead) to try.

    Chains are tried in addition to single prefill instances.
    """


#: For each arrangement, the serving modes to try: False for aggregated instances, True for disaggregated pools.
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
    """List the candidate deployments for a workload on one kind of GPU.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions. If it does not set the engine, all engines that support the model
        are candidates, each with its own fitted assumptions. Each candidate uses the KV-cache format and speculation
        method of a recipe, unless the setup has explicit assumptions.
    traffic : Traffic or Requests
        Lengths and cached tokens.
    space : Space, optional
        Instances to try. If the parallelism degrees are fixed, only aggregated instances are searched.
    speculation : Speculation, None or 'recipe'
        Speculation method of all candidates; None for no speculation. By default, each recipe is tried with its own
        method and without speculation.
    arrangement : {'both', 'aggregated', 'disaggregated'}
        Serving modes to try: aggregated instances, disaggregated pools, or both.
    pooling : Pooling, optional
        Settings of disaggregated serving.
    slots : int, optional
        Maximum concurrent requests per instance [1].
    ttft_seconds : float
        Longest prefill time of a prompt that does not queue, in disaggregated candidates [s].
    among : collection of str
        Labels of the candidates to return; all if empty.
    levels : bool
        True to apply measured corrections to step times.

    Returns
    -------
    tuple of Candidate
        At least one candidate deployment.

    Raises
    ------
    InputError
        If the price is unknown, or an input is invalid.
    NothingFitsError
        If no layout of any engine fits, or no candidate has the requested arrangement or label.

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
            f"--traffic {requests.traffic} is not supported for disaggregated serving, because the simulator covers "
            "aggregated instances only; use --isl, --osl and --arrival-scv, or remove --disaggregated"
        )
    tried, skipped = Space() if space is None else space, []
    if not requests.is_simple and arrangement == "both":
        arrangement = "aggregated"
        if not tried.pins.given() and slots is None:
            skipped = [f"disaggregated deployments, which are not simulated under {requests.traffic}"]
    reasons: dict[str, InputError | NothingFitsError] = {}
    candidates: list[Candidate] = []
    labels: list[str] = []
    engines: set[str] = set()
    pooled = pooling or Pooling()
    groups = _groups(setup, tried, pooled)
    for practised in recipes_to_try(setup, speculation):
        practised = practised if levels else practised._replace(setup=practised.setup.unmeasured)
        labels_of = {way: label_of(practised.setup, practised.speculation, apart=way) for way in _WAYS[arrangement]}
        labels += labels_of.values()
        ways = [way for way, label in labels_of.items() if not among or label in among]
        engines.update([engine_of(practised.setup)] if ways else [])
        try:
            candidates += _arranged(practised, requests, tried, ways, pooled, slots, ttft_seconds, groups)
        except TooMuchError:
            raise  # a smaller query is better than an incomplete list
        except (InputError, NothingFitsError) as error:
            reasons.setdefault(engine_of(practised.setup), error)
    if not candidates or (only_pools and all(candidate.pools is None for candidate in candidates)):
        # An engine without an error has layouts, but no deployment with the requested label or arrangement.
        if not engines or engines - reasons.keys():
            raise _none(setup, labels, among, tried.gpus)
        raise _reason(setup, requests, tried, next(iter(reasons.values())))
    able = {candidate.engine for candidate in candidates}
    unable = (*skipped, *(f"{label}: {reason}" for label, reason in reasons.items() if label not in able))
    if not unable:
        return tuple(candidates)
    # The setup of each candidate lists the candidates that were left out, with reasons.
    setups = (replace(each.setup, left_out=(*each.setup.left_out, *unable)) for each in candidates)
    return tuple(
        replace(candidate, services=replace(candidate.services, setup=setup))
        for candidate, setup in zip(candidates, setups, strict=True)
    )


def with_evidence(candidates: Sequence[Candidate], least: Literal["measured", "near"]) -> tuple[Candidate, ...]:
    """Select the candidates for which servers were measured (``measured``), or at least similar servers (``near``).

    Raises
    ------
    NothingFitsError
        If no such server was measured; the message lists candidates with similar measured servers.
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


def _reason(setup: Setup, requests: Requests, space: Space, first: Exception) -> Exception:
    """Error to report if no engine has a layout: the error of a search over all engines, else the first error."""
    try:
        offer(setup, requests, space)
    except (InputError, NothingFitsError) as error:
        return error
    return first


def _none(setup: Setup, labels: Collection[str], among: Collection[str], gpus: int | None) -> NothingFitsError:
    """Error for an unknown label, or for a search that found no disaggregated deployment."""
    if among and not set(labels) & set(among):
        return NothingFitsError(f"no candidate is called {' or '.join(among)}; there are {', '.join(labels)}")
    size = "" if gpus is None else f" on at most {gpus} GPUs"
    return NothingFitsError(
        f"no disaggregated deployment of {setup.model.name} on {setup.hardware.name} is possible{size}. It needs two "
        "instances that hold the model, a link between them, a TTFT in which one can prefill, and open degrees (--tp, "
        "--dp, --pp, --ep) and slots. Leave --disaggregated out"
    )


class RecipeSetup(NamedTuple):
    """Setup for one recipe."""

    setup: Setup
    """Model, GPU, formats, price and assumptions."""
    speculation: Speculation | None
    """Speculation method; None without speculation."""
    practice: Practice | None
    """Published recipe; None if the search uses no recipes."""


def recipes_to_try(setup: Setup, speculation: Proposer = RECIPE) -> Iterator[RecipeSetup]:
    """Yield one setup for each engine and recipe that the query allows.

    If the query sets the assumptions, no recipes are used: setups then differ only in the engine.
    """
    proposed = speculation if isinstance(speculation, Speculation) else None
    engines = setup.engines or engines_for(setup.model, setup.hardware, setup.precision)
    if not has_recipes(setup) or not engines:
        for place in range(max(1, len(setup.engines))):
            yield RecipeSetup(replace(setup, engines=setup.engines[place : place + 1]), proposed, None)
        return
    for engine in engines:
        run = for_engine(setup, engine)
        seen: list[tuple[str, Speculation | None]] = []
        for practice in practices_in(engine.name, setup.model, setup.hardware, setup.precision):
            try:
                cached, proposer = with_cache(run, practice.kv), proposed
                if speculation == RECIPE and practice.proposer is not None:
                    # An engine uses the same draft length for all batches.
                    drafts = Speculation.of(practice.proposer, longest=practice.draft_length, setup=cached)
                    proposer = drafts.of_one_length()
            except InputError:
                # The recipe is for another GPU or checkpoint.
                continue
            if (key := (cached.precision.kv, proposer)) not in seen:
                seen.append(key)
                yield RecipeSetup(cached, proposer, practice)


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
    """Yield one recipe as an aggregated candidate and, where possible, as a disaggregated candidate.

    The disaggregated candidate is skipped if the query fixes the instances or the maximum concurrency. If disaggregated
    serving is not possible, an error is raised only if the query requires it or sets one of its options.
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
        reading = _usual(practised, requests.replace(osl=Length.parse(1)), space, apart=True)
        if pooling.decode is None or pooling.decode.hardware == practised.setup.hardware:
            writing = _alike(practised, layouts, space) or _usual(practised, requests, space, apart=True)
        else:
            # Engine, KV-cache format and speculation method are the same as for the prefill instances.
            decode, run = pooling.decode, practised.setup
            if run.engines:
                missing = lacks(run.engines[0], run.model, decode.hardware, run.precision)
                if missing is not None:
                    raise InputError(missing)
                if has_recipes(run):
                    decode = with_cache(for_engine(decode, run.engines[0]), run.precision.kv)
            writing = _usual(practised._replace(setup=decode), requests, space, apart=True)
        most = space.largest or math.inf
        every = pools(
            reading, writing, layer_by_layer=pooling.layer_by_layer, chains=pooling.chains, largest=most,
            groups=groups,
        )  # fmt: skip
        apart = SteadyPools(every, ttft_seconds)
        if not np.isfinite(apart.seen[0]).any() and False not in ways:
            # If only pools are allowed, the error states their shortest TTFT.
            apart = SteadyPools(every)
        if np.isfinite(apart.seen[0]).any():
            yield Candidate(every.decode.services, apart)
    except TooMuchError:
        raise
    except (InputError, NothingFitsError):
        # The error has three possible causes: instances have no link, outputs have one token, or every layout has a DP
        # rank without a sequence.
        if False not in ways or pooling != Pooling():
            raise


def _groups(setup: Setup, space: Space, pooling: Pooling) -> Groups:
    """Limits on the prefill/decode groups to try.

    Layouts of a group come from a published deployment, unless the query allows any group.

    All combinations of layouts are tried if no engine is needed, if prefill and decode use different GPUs, or if
    prefill chains are requested. If the query limits the GPUs of a deployment, a group has at most that many.
    """
    any_shape = space.any_group or not setup.engines or pooling.decode is not None or bool(pooling.chains)
    shapes = None if any_shape else published_groups(setup.model, setup.hardware)
    return Groups(shapes, math.inf if space.gpus is None else space.gpus)


def _usual(practised: RecipeSetup, requests: Requests, space: Space, *, apart: bool) -> Services:
    """Layouts of instances in common use.

    A common instance has at most the GPUs of one machine, of the fewest machines that hold the model and caches, or of
    an instance in a recipe. All sizes are returned if the query fixes the size, or TP, DP or PP, or if no engine is
    needed. With speculation, a layout has attention DP only if the recipe has it, because recipes use different
    draft lengths with and without attention DP. This does not apply if the query sets the attention-DP degree.
    """
    setup, speculation, _ = practised
    setup = setup.for_role(apart=True) if apart else setup
    most, with_groups = _chosen(practised, space, apart=apart)
    try:
        usual = space if most is None else replace(space, max_accelerators=most)
        layouts = offer(setup, requests, usual, speculation)
    except NothingFitsError:
        if most is None:
            raise
        layouts = offer(setup, requests, space, speculation)
        layouts = layouts.take(np.flatnonzero(layouts.plans.accelerators <= layouts.plans.accelerators.min()))
    if with_groups is None:
        return layouts
    groups = np.broadcast_to(attention_groups(layouts.plans, setup.assumptions.layout), layouts.slots.shape)
    alike = np.flatnonzero((groups > 1) == with_groups)
    return layouts.take(alike) if alike.size else layouts


def _chosen(practised: RecipeSetup, space: Space, *, apart: bool) -> tuple[int | None, bool | None]:
    """Number of GPUs in the largest common instance [1], and whether instances use attention DP.

    A value is None if neither the query nor a recipe determines it. Recipe instances that span several link domains are
    ignored, because few such instances were measured.
    """
    setup, speculation, practice = practised
    if not setup.engines:
        return None, None
    pins, named = space.pins, _named(practice, apart=apart)
    most = None
    if space.max_accelerators is None and not pins.given().keys() & {"tp", "dp", "pp", "accelerators"}:
        inside = [chips for tp, dp, pp in named if (chips := tp * dp * pp) <= setup.hardware.link_domain]
        most = 1 if setup.hardware.desk else max(MACHINE, node(setup.hardware), _with_caches(setup), *inside)
    grouped = {dp > 1 for _, dp, _ in named}
    sets_groups = pins.dp is not None or "dp" in pins.opened
    if sets_groups or speculation is None or practice is None or practice.proposer is None or len(grouped) != 1:
        return most, None
    return most, grouped.pop()


def _with_caches(setup: Setup) -> int:
    """Number of GPUs in the fewest machines that hold the weights and caches, with a power of two of machines [1]."""
    whole, weights = max(MACHINE, node(setup.hardware)), memory.weight_bytes(setup.model, setup.precision)
    machines = weights / (_MOST_WEIGHTS * whole * setup.hardware.hbm_bytes)
    return int(whole * 2 ** max(0, math.ceil(math.log2(machines))))


def _alike(practised: RecipeSetup, layouts: Services, space: Space) -> Services | None:
    """Reuse aggregated layouts as decode layouts; None if decode layouts have other sizes or measured corrections."""
    setup = layouts.setup.for_role(apart=True)
    takes = layouts.setup.levels is None or (setup.levels is not None and setup.levels.takes_as(layouts.setup.levels))
    chosen = (_chosen(practised, space, apart=way) for way in (False, True))
    if not takes or next(chosen) != next(chosen):
        return None
    return replace(layouts, setup=setup, steady=lambda: layouts.states)


def _named(practice: Practice | None, *, apart: bool) -> list[tuple[int, int, int]]:
    """Parallelism degrees (tp, dp, pp) of the instances that a recipe names for aggregated or disaggregated serving."""
    if practice is None:
        return []
    if not apart:
        return [(layout["tp"], layout["dp"], layout["pp"]) for layout in practice.layouts]
    return [(pool.tp, pool.dp, pool.pp) for pools in practice.pools for pool in (pools.prefill, pools.decode)]


#: Public name of :func:`market`.
candidates = market
