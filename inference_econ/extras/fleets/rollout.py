"""RL rollouts and batch generation: samples that start together; the batch ends with the longest."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ._types import Array, Indices, Progress
from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.deployments.recommend import as_candidates
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Learning, Requests
from inference_econ.serving import Loop, Server, Service, Services, Trace
from inference_econ.serving.simulation import simulator
from inference_econ.serving.simulation.arrivals import Counts

#: Use of the chips for generation and learning; see :class:`RolloutRun`.
Way = Literal["generation", "synchronous", "one_step_off", "asynchronous"]
#: Maximum number of simulated layouts per chip [1].
_PLAYED = 3
#: Minimum number of simulated batches if unfinished trajectories continue in the next batch, and number for each batch
#: that a trajectory takes [1]. The second half is measured.
_BATCHES, _PER_TRAJECTORY = 8, 4
#: Number of simulated batches of a stream [1]. The first and the last are not measured.
_STREAMED = 4
#: Number of equal time intervals of a batch for :class:`BatchCurve` [1].
_POINTS = 200
#: Run time per request with cache blocks [s], run time per instance that a request can choose [s], and memory per
#: request [B].
_SECONDS, _EACH, _BYTES = 1.5e-4, 2.5e-6, 400.0


@dataclass(frozen=True)
class Batch:
    """Samples of prompts that are generated together.

    Attributes
    ----------
    requests : Requests
        Request lengths. Samples of a prompt share the prompt, and output lengths are independent.
    prompts, samples : int
        Number of prompts per batch, and number of samples per prompt [1].
    concurrency : int or None
        Maximum number of concurrent trajectories over all instances; None for all trajectories [1].
    finished : float
        Share of finished trajectories at which a batch ends [1]. Unfinished trajectories continue in the next batch.
    max_tokens : int or None
        Longest output; longer outputs are truncated [tokens].
    """

    requests: Requests
    prompts: int
    samples: int
    concurrency: int | None = None
    finished: float = 1.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Reject numbers that are out of range."""
        for name in ("prompts", "samples", "concurrency", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}", option=name)
        if not 0.0 < self.finished <= 1.0:
            raise InputError(
                f"finished must be a share of the trajectories above 0, and 1 at most, got {self.finished:g}",
                option="finished",
            )

    @property
    def trajectories(self) -> int:
        """Trajectories per batch [1]."""
        return self.prompts * self.samples

    @property
    def simulated(self) -> int:
        """Number of simulated batches [1]. A trajectory takes about 1 / ``finished`` batches."""
        return 1 if self.finished == 1.0 else max(_BATCHES, math.ceil(_PER_TRAJECTORY / self.finished))

    def check(self, setup: Setup) -> None:
        """Reject trajectories longer than the model's context.

        Raises
        ------
        InputError
            If a trajectory is too long; the message contains a valid length.
        """
        most, isl, osl = setup.model.max_context, int(self.drawn.prompt.max()), int(self.drawn.left.max())
        if most is not None and isl + osl > most:
            cut = f"cut them with --max-tokens {most - isl}" if most > isl else "give shorter prompts"
            raise InputError(
                f"trajectories grow to {isl + osl:,} tokens (prompts to {isl:,}, answers to {osl:,}), and "
                f"{setup.model.name} was made for {most:,} at most; {cut}",
                option="max_tokens",
            )

    @cached_property
    def drawn(self) -> Trajectories:
        """Trajectories of the first batch."""
        return self.draw(self.prompts, 0)

    def draw(self, prompts: int, seed: int) -> Trajectories:
        """Sample trajectories of new prompts, grouped by prompt."""
        first, second = (np.random.default_rng([seed, stream]) for stream in (11, 12))
        isl = simulator.length_sampler(self.requests.isl)(prompts, first)
        osl = simulator.length_sampler(self.requests.osl)(prompts * self.samples, second)
        if self.max_tokens is not None:
            osl = np.minimum(osl, self.max_tokens)
        names = seed * self.prompts + np.repeat(np.arange(prompts), self.samples)
        return Trajectories(names, np.repeat(isl, self.samples), np.zeros_like(osl), osl)


class Trajectories(NamedTuple):
    """Prompts and token counts of n trajectories, as arrays of shape (n,)."""

    name: Counts
    """Name of the prompt, shared by its samples."""
    prompt: Counts
    """Prompt length [tokens]."""
    written: Counts
    """Tokens generated in earlier batches, which are recomputed [tokens]."""
    left: Counts
    """Tokens still to be generated [tokens]."""

    def take(self, order: Indices) -> Trajectories:
        """Select trajectories by their indices."""
        return Trajectories(*(values[order] for values in self))

    def dealt(self, instances: int) -> Trajectories:
        """Reorder trajectories for round-robin routing, so that all samples of a prompt go to one instance."""
        _, group = np.unique(self.name, return_inverse=True)
        together = np.argsort(group, kind="stable")
        sample = np.empty_like(group)
        sample[together] = np.arange(group.size) - np.searchsorted(group[together], group[together])
        return self.take(np.lexsort((group % instances, sample, group // instances)))


class BatchCurve(NamedTuple):
    """Concurrency and throughput of a batch, as means over equal time intervals, arrays of shape (n,)."""

    seconds: Array
    """Middle of each time interval [s]."""
    in_flight: Array
    """Concurrent trajectories [1]."""
    tokens_per_second: Array
    """Output throughput [tokens/s]."""

    @classmethod
    def of(cls, trace: Trace) -> BatchCurve:
        """Concurrency and throughput of a simulated run whose requests start together."""
        end = trace.arrival + trace.e2e
        edges = np.linspace(0.0, float(end.max()), _POINTS + 1)
        begin, first = trace.arrival + trace.wait, trace.arrival + trace.ttft
        # A trajectory that is stopped at its first token has no decode time.
        rates = np.divide(np.maximum(trace.written - 1, 0), end - first, out=np.zeros_like(end), where=end > first)
        part = edges[1]
        in_flight = _held(begin, end, np.ones_like(end), edges) / part
        tokens = _held(first, end, rates, edges) / part
        return cls(edges[1:] - part / 2.0, in_flight, tokens)

    @property
    def tail_share(self) -> float:
        """Share of time after the moment when concurrency last reached half of its maximum [1]."""
        many = np.flatnonzero(self.in_flight >= 0.5 * self.in_flight.max())
        return 1.0 - float(many[-1] + 1) / self.in_flight.size

    @property
    def busy_share(self) -> float:
        """Mean throughput divided by maximum throughput [1]; 1 for outputs of one token."""
        most = float(self.tokens_per_second.max())
        return float(self.tokens_per_second.mean()) / most if most else 1.0


def _held(begin: Array, end: Array, weight: Array, edges: Array) -> Array:
    """Integral of the weights of active requests over time, between consecutive ``edges``."""
    until = [float(np.sum(weight * np.clip(edge - begin, 0.0, end - begin))) for edge in edges]
    return np.diff(until)


@dataclass(frozen=True, slots=True)
class Generation:
    """Simulated batch; the mean of several batches if unfinished trajectories continue in the next batch.

    Attributes
    ----------
    seconds : float
        Duration [s].
    trajectories : float
        Finished trajectories [1].
    prompt_tokens, answer_tokens : float
        Prompt tokens and output tokens of the finished trajectories [tokens].
    written_tokens : float
        Generated tokens of all trajectories [tokens].
    curve : BatchCurve
        Concurrency and throughput of the last simulated batch.
    """

    seconds: float
    trajectories: float
    prompt_tokens: float
    answer_tokens: float
    written_tokens: float
    curve: BatchCurve


@dataclass(frozen=True, slots=True)
class RolloutRun:
    """Deployment that generates batches, and the use of its chips by a learner.

    Attributes
    ----------
    service : Service
        One generating instance.
    instances : int
        Number of generating instances [1].
    generation : Generation
        Simulated batch.
    accelerators : int
        Number of paid accelerators [1].
    way : str
        Use of the chips. ``generation``: no learner. ``synchronous``: all chips generate, then all learn.
        ``one_step_off``: some chips learn from a batch while other chips generate the next batch. ``asynchronous``: a
        new trajectory starts whenever a trajectory ends.
    learner_gpus : int
        Number of chips that learn [1].
    learning_seconds : float
        Learning time per batch [s].
    """

    service: Service
    instances: int
    generation: Generation
    accelerators: int
    way: Way = "generation"
    learner_gpus: int = 0
    learning_seconds: float = 0.0

    @property
    def chip(self) -> str:
        """Name of the chip."""
        return self.service.setup.hardware.name

    @property
    def seconds(self) -> float:
        """Time from one batch to the next [s]."""
        both = self.generation.seconds, self.learning_seconds
        return sum(both) if self.way == "synchronous" else max(both)

    @property
    def hours(self) -> float:
        """Time per 1,000 trajectories [h]."""
        return self.seconds / self.generation.trajectories / 3.6

    @property
    def dollars(self) -> float:
        """Cost per 1,000 trajectories [USD]."""
        return self.hours * float(self.service.setup.dollars_per_hour(1, self.accelerators))

    def record(self) -> dict[str, Any]:
        """Run as plain data."""
        made, learns = self.generation, self.way != "generation"
        return {
            "hardware": self.chip,
            "schedule": self.way,
            "layout": layout_of(self.service),
            "replicas": self.instances,
            "accelerators": self.accelerators,
            "generation_gpus": self.instances * self.service.accelerators,
            "learner_gpus": self.learner_gpus if learns else None,
            "generation_seconds": made.seconds,
            "learning_seconds": self.learning_seconds if learns else None,
            "batch_seconds": self.seconds,
            "trajectories": made.trajectories,
            "output_tokens_per_second": made.written_tokens / made.seconds,
            "tail_share": made.curve.tail_share,
            "busy_share": made.curve.busy_share,
            "hours_per_1000_trajectories": self.hours,
            "dollars_per_1000_trajectories": self.dollars,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Rollout(Shown):
    """Deployments that generate batches, sorted by cost per trajectory.

    Attributes
    ----------
    runs : tuple of RolloutRun
        Deployments, cheapest first.
    batch : Batch
        Generated batch.
    learner : Learner or None
        Learner; None if the chips only generate.
    """

    page = "extras.fleets.rollout_page:RolloutPage"

    runs: tuple[RolloutRun, ...]
    batch: Batch
    learner: Learner | None = None

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all deployments."""
        return [run.service.setup for run in self.runs]

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        batch, curve = self.batch, self.runs[0].generation.curve
        return {
            "prompts": batch.prompts,
            "samples": batch.samples,
            "isl": batch.requests.isl.mean,
            "osl": float(batch.drawn.left.mean()),
            "longest_answer": int(batch.drawn.left.max()),
            "concurrency": batch.concurrency,
            "finished_share": batch.finished,
            "learner": None if self.learner is None else self.learner.record(),
            "runs": self.records(),
            "curve": [dict(zip(BatchCurve._fields, map(float, row), strict=True)) for row in zip(*curve, strict=True)],
        }

    def records(self) -> list[Mapping[str, Any]]:
        """One record per deployment."""
        return [run.record() for run in self.runs]


def rollout(
    offers: Sequence[Candidate | Services],
    gpus: int,
    prompts: int,
    samples: int = 1,
    *,
    concurrency: int | None = None,
    finished: float = 1.0,
    max_tokens: int | None = None,
    learner: Learning | None = None,
    most: int = 5,
    progress: Progress | None = None,
) -> Rollout:
    """Compute cost and duration of 1,000 trajectories of an RL rollout or a batch job.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidates on one or several chips (``market``) for the given lengths; disaggregated candidates are ignored.
    gpus : int
        Available chips [1].
    prompts, samples : int
        Prompts per batch, and samples per prompt [1]. Samples of a prompt share its KV cache.
    concurrency : int, optional
        Maximum number of concurrent trajectories [1]; all by default.
    finished : float
        Share of finished trajectories that ends a batch [1]. Unfinished trajectories continue in the next batch after
        recomputation, because weights have changed.
    max_tokens : int, optional
        Longest output; longer outputs are truncated [tokens].
    learner : Learning, optional
        Learner on the same chips or a part of them (``scenarios/assumptions/learning``); none by default.
    most : int
        Number of deployments [1].
    progress : callable, optional
        Function that receives the completed share of the work [1].

    Returns
    -------
    Rollout
        Deployments. Every request of a batch is simulated, including the tail of the batch. With a learner, the fastest
        layout of each chip is evaluated in two ways: generation and learning alternate on all chips, or each has a part
        of the chips so that neither waits.

    Raises
    ------
    InputError
        If a number is out of range, or trajectories exceed the model's context.
    NothingFitsError
        If no instance fits the chips, or the state of the learner does not fit.
    TooMuchError
        If there are too many trajectories to simulate.

    Examples
    --------
    >>> from inference_econ import Pins, Requests, Setup, Space, offer
    >>> layouts = offer(Setup.of("llama_3_8b", "h100_sxm"), Requests(200, 100), Space(Pins(tp=1)))
    >>> made = rollout([layouts], 2, prompts=8, samples=4).runs[0].generation
    >>> made.trajectories, made.answer_tokens
    (32.0, 3200.0)
    """
    both = [candidate.services for candidate in as_candidates(offers) if candidate.pools is None]
    if not both:
        raise InputError("batches are generated by aggregated instances; allow aggregated deployments")
    batch = Batch(both[0].requests, prompts, samples, concurrency, finished, max_tokens)
    if gpus < 1:
        raise InputError(f"gpus must be at least 1, got {gpus}", option="gpus")
    count = batch.trajectories
    _work.check(f"{count:,} trajectories", seconds=count * _SECONDS, size=count * _BYTES, smaller="prompts")
    for layouts in both:
        batch.check(layouts.setup)
    learners = {}
    if learner is not None:
        learners = {layouts.setup.hardware.name: Learner.of(layouts.setup, learner, gpus) for layouts in both[::-1]}
    shortlist = _short(both, batch, gpus)
    # Splits are found by bisection.
    splits = 0 if learner is None else (_STREAMED + batch.simulated) * (2 + int(math.log2(gpus)))
    number = (len(shortlist) * batch.simulated + splits) * count
    seconds = _SECONDS + _EACH * min(gpus, count)
    _work.check(f"{number:,} trajectories", seconds=number * seconds, smaller="prompts")
    runs = list[RolloutRun]()
    for index, (layouts, row) in enumerate(shortlist):
        if progress is not None:
            progress(index / len(shortlist), layouts.setup.hardware.name)
        service = layouts.service(row)
        instances = gpus // service.accelerators
        runs.append(RolloutRun(service, instances, _Instances(service, batch).generate(instances), gpus))
    runs.sort(key=lambda run: run.dollars)
    if not learners:
        return Rollout(tuple(runs[:most]), batch)
    ways = [
        way
        for chip, learns in learners.items()
        for way in _ways([run for run in runs if run.chip == chip], learns, batch)
    ]
    ways.sort(key=lambda run: run.dollars)
    return Rollout(tuple(ways), batch, learners[ways[0].chip])


@dataclass(frozen=True, slots=True)
class Learner:
    """Training of a model on one kind of chip: work per token, speed, and the fewest chips that fit.

    Attributes
    ----------
    terms : Learning
        Assumptions on efficiency, arithmetic and memory of training.
    flops_per_token : float
        Arithmetic per token [FLOP].
    flops_per_second : float
        Arithmetic rate that each chip achieves [FLOP/s].
    fewest : int
        Minimum number of chips that the state of the learner needs [1].
    """

    terms: Learning
    flops_per_token: float
    flops_per_second: float
    fewest: int

    @classmethod
    def of(cls, setup: Setup, terms: Learning, gpus: int) -> Learner:
        """Create the learner of a model on a kind of chip.

        Raises
        ------
        NothingFitsError
            If the state of the learner does not fit on the available chips.
        """
        model, chip = setup.model, setup.hardware
        state = terms.state_bytes_per_parameter * model.total_parameters
        fewest = math.ceil(state / chip.hbm_bytes)
        if fewest > gpus:
            raise NothingFitsError(
                f"the learner of {model.name} has no room: {terms.state_bytes_per_parameter:g} B per parameter are "
                f"{state / 1e9:,.0f} GB, at least {fewest} x {chip.name}; give --gpus {fewest} or more"
            )
        flops = terms.flop_per_parameter_and_token * model.active_parameters
        return cls(terms, flops, terms.mfu * setup.peaks[setup.rates.unit("bf16")], fewest)

    def seconds(self, made: Generation, gpus: int) -> float:
        """Time to learn from the finished trajectories of a batch [s]."""
        return (made.prompt_tokens + made.answer_tokens) * self.flops_per_token / (gpus * self.flops_per_second)

    def record(self) -> dict[str, Any]:
        """Learner as plain data."""
        return {"mfu": self.terms.mfu, "flop_per_token": self.flops_per_token, "fewest_gpus": self.fewest}


def _ways(runs: Sequence[RolloutRun], learner: Learner, batch: Batch) -> list[RolloutRun]:
    """Possible uses of the chips: generation and learning alternate, or share the chips if there are enough."""
    first, gpus = runs[0], runs[0].accelerators
    seconds = learner.seconds(first.generation, gpus)
    ways = [replace(first, way="synchronous", learner_gpus=gpus, learning_seconds=seconds)]
    apart = next((run for run in runs if run.service.accelerators <= gpus - learner.fewest), None)
    if apart is None:
        return ways
    played = _Instances(apart.service, batch)
    return [
        *ways,
        _split("one_step_off", apart, played.generate, learner),
        _split("asynchronous", apart, played.stream, learner),
    ]


def _split(way: Way, run: RolloutRun, generate: Callable[[int], Generation], learner: Learner) -> RolloutRun:
    """Fastest number of generating instances, if a learner uses the other chips.

    More instances leave fewer chips for the learner.
    """

    @cache
    def with_instances(number: int) -> RolloutRun:
        made, rest = generate(number), run.accelerators - number * run.service.accelerators
        return replace(
            run, instances=number, generation=made, way=way, learner_gpus=rest,
            learning_seconds=learner.seconds(made, rest),
        )  # fmt: skip

    def learns_longer(number: int) -> bool:
        split = with_instances(number)
        return split.learning_seconds >= split.generation.seconds

    most = (run.accelerators - learner.fewest) // run.service.accelerators
    numbers = range(1, most + 1)
    enough = bisect_left(numbers, True, key=learns_longer)
    splits = (with_instances(numbers[place]) for place in {max(enough - 1, 0), min(enough, most - 1)})
    return min(splits, key=lambda split: split.hours)


def _short(offers: Sequence[Services], batch: Batch, gpus: int) -> list[tuple[Services, int]]:
    """Fastest layouts of each chip by the analytical model, one for each instance size.

    The time of a batch is the maximum of two times: of all trajectories at full concurrency, and of the longest output
    alone.

    Raises
    ------
    NothingFitsError
        If no instance fits the chips.
    """
    bounds: list[tuple[float, int, int]] = []
    for which, layouts in enumerate(offers):
        instances = np.floor(gpus / layouts.plans.accelerators)
        together = min(batch.concurrency or batch.trajectories, batch.trajectories) / np.maximum(instances, 1.0)
        states = zip(together, layouts.states.concurrency, layouts.states.requests_per_second, strict=True)
        rates = np.array([np.interp(*row) for row in states])
        alone = float(batch.drawn.left.max()) * layouts.decoding()[1][:, 0]
        seconds = np.maximum(batch.trajectories / np.maximum(instances, 1.0) / rates, alone)
        bounds += [(float(seconds[row]), which, row) for row in np.flatnonzero(instances).tolist()]
    if not bounds:
        least = min(int(layouts.plans.accelerators.min()) for layouts in offers)
        raise NothingFitsError(
            f"no instance of {offers[0].setup.model.name} has room on {gpus} GPUs; the smallest has {least}: give "
            f"--gpus {least} or more"
        )
    best: dict[str, dict[float, tuple[Services, int]]] = {}
    for _, which, row in sorted(bounds):
        of_chip = best.setdefault(offers[which].setup.hardware.name, {})
        if len(of_chip) < _PLAYED:
            of_chip.setdefault(float(offers[which].plans.accelerators[row]), (offers[which], row))
    return [chosen for sizes in best.values() for chosen in sizes.values()]


@dataclass(frozen=True)
class _Instances:
    """Simulated instances of a layout that generate batches."""

    service: Service
    batch: Batch

    @cached_property
    def _server(self) -> Server:
        isl, osl = int(self.batch.drawn.prompt.max()), int(self.batch.drawn.left.max())
        longest = isl if self.batch.finished == 1.0 else isl + osl
        server = simulator.server(self.service, np.array([1, longest]), slots=self.service.slots_of_blocks)
        return server if server.cache is not None else replace(server, slots=self.service.slots)

    def generate(self, instances: int) -> Generation:
        """Simulate a batch, or the mean of several batches if unfinished trajectories continue in the next batch."""
        batch = self.batch
        if batch.finished == 1.0:
            return self._played(batch.drawn, instances)[0]
        left, made = batch.draw(0, 0), list[Generation]()
        for number in range(batch.simulated):
            new = batch.draw((batch.trajectories - left.name.size) // batch.samples, number)
            begun = Trajectories(*(np.concatenate(parts) for parts in zip(left, new, strict=True)))
            generation, left = self._played(begun, instances)
            made.append(generation)
        names = ("seconds", "trajectories", "prompt_tokens", "answer_tokens", "written_tokens")
        means: dict[str, Any] = {
            name: float(np.mean([getattr(run, name) for run in made[batch.simulated // 2 :]])) for name in names
        }
        return replace(made[-1], **means)

    def stream(self, instances: int) -> Generation:
        """Batch of a stream: whenever a trajectory ends, a new trajectory starts, at the concurrency of a batch."""
        whole, batch = self.batch.trajectories, self.batch
        drawn = batch.draw(_STREAMED * batch.prompts, 0)
        trace = self._trace(drawn.dealt(instances), instances, batch.concurrency or whole, (_STREAMED - 1) * whole)
        ended = np.sort((trace.arrival + trace.e2e)[trace.written == trace.output_tokens])
        seconds = float(ended[(_STREAMED - 1) * whole - 1] - ended[whole - 1]) / (_STREAMED - 2)
        prompts, answers = (float(values.sum()) / _STREAMED for values in (drawn.prompt, drawn.left))
        return Generation(seconds, float(whole), prompts, answers, answers, BatchCurve.of(trace))

    def _trace(self, begun: Trajectories, instances: int, clients: int, stop_after: int | None) -> Trace:
        """Simulate trajectories in their order."""
        size = 1 if self._server.cache is None else self._server.cache.block_tokens
        named = zip(begun.name.tolist(), (begun.prompt // size).tolist(), strict=True)
        isl, count = begun.prompt + begun.written, begun.name.size
        # Instances without a trajectory would be idle.
        instances = min(instances, count)
        loop = Loop(min(clients, count), isl, begun.left, parts=[(part,) for part in named])
        return simulator.play(
            self.service, self._server, loop, warm_up=0.0, cool_down=0.0, instances=instances, router="prefix_aware",
            stop_after=stop_after,
        )  # fmt: skip

    def _played(self, begun: Trajectories, instances: int) -> tuple[Generation, Trajectories]:
        """Simulated batch, and its unfinished trajectories."""
        dealt, count = begun.dealt(instances), begun.name.size
        stop = None if self.batch.finished == 1.0 else math.ceil(self.batch.finished * count)
        trace = self._trace(dealt, instances, self.batch.concurrency or count, stop)
        written = np.zeros(count, dtype=np.int64)
        written[: trace.written.size] = trace.written
        done = written == dealt.left
        seconds = float(np.max(trace.arrival + trace.e2e))
        answers = dealt.written + dealt.left
        generation = Generation(
            seconds, float(done.sum()), float(dealt.prompt[done].sum()), float(answers[done].sum()),
            float(written.sum()), BatchCurve.of(trace),
        )  # fmt: skip
        rest = dealt._replace(written=dealt.written + written, left=dealt.left - written).take(np.flatnonzero(~done))
        return generation, rest
