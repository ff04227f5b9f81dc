"""Comparison of methods to prefill one prompt on several chips: tensor, sequence, context parallel, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ._types import Progress
from inference_econ.answers.layout_services import deployments
from inference_econ.engine import Instances, Pins, Plans, Setup, memory
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.prompt_processes import PrefillChain, Processes, Way, check_kept, read_whole
from inference_econ.extras.papers.shared_prompt import moved_bytes, reading_seconds
from inference_econ.inputs import DEFAULT_ISL
from inference_econ.records.facts import HEAD, facts

#: Names of the prefill methods.
WAYS: Mapping[str, str] = {
    "tensor": "tensor parallel",
    "sequence": "sequence parallel",
    "gathered": "context, gathered",
    "ring": "context, ring",
    "even": "chain, even parts",
    "chain": "chain, searched parts",
}
#: Default numbers of chips [1].
RANKS = (2, 4, 8)
#: Largest number of chips [1], prompt [tokens] and batch [1].
_MOST_RANKS, _MOST_TOKENS, _MOST_PROMPTS = 1024, 10_000_000, 1024
#: Run time to evaluate one part of a prompt [s], and number of parts in the tables of the partition search [1].
_PART_SECONDS, _TABLE = 8e-3, 80
#: Groups of equal chips in the order of the prompt: setup, and number of chips [1].
Stages = Sequence[tuple[Setup, int]]


@dataclass(frozen=True, slots=True)
class SharedPrompt:
    """Prompt whose prefill is shared by a number of chips.

    Attributes
    ----------
    prompt : int
        Prompt length [tokens].
    stages : tuple of (Setup, int)
        Chips that share the prompt, with one entry per kind of chip in a mixed prefill chain.
    ways : mapping of str to Way
        Results of the possible methods, by key of :data:`WAYS`.
    missing : mapping of str to str
        Reasons why the methods that are not in ``ways`` are not possible.
    """

    prompt: int
    stages: tuple[tuple[Setup, int], ...]
    ways: Mapping[str, Way]
    missing: Mapping[str, str]

    @property
    def ranks(self) -> int:
        """Total number of chips [1]."""
        return sum(chips for _, chips in self.stages)

    @property
    def chips(self) -> str:
        """Chips as text, in the order of a chain."""
        return " + ".join(f"{chips} x {setup.hardware.name}" for setup, chips in self.stages)

    @property
    def fastest(self) -> str:
        """Key of the method with the lowest TTFT."""
        return min(self.ways, key=lambda name: self.ways[name].seconds)


@dataclass(frozen=True, slots=True, repr=False)
class PrefillWays(Shown):
    """Methods to prefill prompts on several chips.

    Attributes
    ----------
    setup : Setup
        Model, chip, engine and assumptions. Prompts are prefilled without chunks.
    process_chips : int
        Chips that store one copy of the model (a process) in context parallelism and prefill chains [1].
    alone : mapping of int to Way
        Times on a single copy of the model, by length of the prompts that fit there.
    rows : sequence of SharedPrompt
        Results sorted by prompt, then by number of chips.
    batch, cached : float
        Number of prompts processed together [1], and cached tokens before each prompt [tokens].
    """

    page = "extras.papers.prefill_page:PrefillPage"

    setup: Setup
    process_chips: int
    alone: Mapping[int, Way]
    rows: Sequence[SharedPrompt]
    batch: int = 1
    cached: float = 0

    def speed_up(self, row: SharedPrompt, name: str) -> float | None:
        """Time on a single copy of the model divided by the time of a method [1].

        None if the prompt does not fit on one copy.
        """
        alone = self.alone.get(row.prompt)
        return None if alone is None else alone.seconds / row.ways[name].seconds

    def alike(self, row: SharedPrompt) -> bool:
        """Check whether a result uses only the kind of chip in the setup."""
        return [setup for setup, _ in row.stages] == [self.setup]

    @property
    def longest(self) -> float:
        """Longest prompt with its cached tokens [tokens]."""
        return float(max(row.prompt for row in self.rows) + self.cached)

    @property
    def one_process(self) -> Stages:
        """Number of chips for one copy of the model."""
        return ((self.setup, self.process_chips),)

    def dollars(self, way: Way, stages: Stages) -> float | None:
        """Cost of the chips until the first token of a prompt [USD]; None without a price."""
        if any(setup.price is None for setup, _ in stages):
            return None
        bill = sum(chips * setup.dollars_per_accelerator_hour for setup, chips in stages)
        return way.seconds * bill / 3600.0 / self.batch

    def subjects(self) -> tuple[Instances]:
        """Largest deployment on the setup's kind of chip, for notes on errors."""
        ranks = max((row.ranks for row in self.rows if self.alike(row)), default=self.process_chips)
        return (Instances(self.setup, [float(ranks)], [1.0], self.longest),)

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all kinds of chips, each once."""
        kinds = {id(setup): setup for row in self.rows for setup, _ in row.stages}
        return list({id(self.setup): self.setup, **kinds}.values())

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {
            **facts(self.setup, *HEAD, "weights", "formats"),
            "prompts": self.batch,
            "cached": self.cached,
            "process_gpus": self.process_chips,
            "alone": [{"prompt": prompt, **_way(self, way, self.one_process)} for prompt, way in self.alone.items()],
            "rows": [
                {
                    "prompt": row.prompt,
                    "gpus": row.ranks,
                    "chips": row.chips,
                    "fastest": row.fastest if row.ways else None,
                    "prefill_methods": {name: _way(self, way, row.stages) for name, way in row.ways.items()},
                    "missing": dict(row.missing),
                }
                for row in self.rows
            ],
        }

    def records(self) -> list[Mapping[str, Any]]:
        """One record per prompt, number of chips and method."""
        return [
            {
                "prompt": row.prompt,
                "gpus": row.ranks,
                "chips": row.chips,
                "prefill_method": name,
                **_way(self, way, row.stages),
                "speed_up": self.speed_up(row, name),
            }
            for row in self.rows
            for name, way in row.ways.items()
        ]


def prefill(
    setup: Setup,
    prompts: Sequence[int] = (DEFAULT_ISL,),
    ranks: Sequence[int] = RANKS,
    *,
    chains: Sequence[Stages] = (),
    tp: int | None = None,
    batch: int = 1,
    cached: float = 0,
    progress: Progress | None = None,
) -> PrefillWays:
    """Compare methods to prefill one prompt, or a few, on several chips, by TTFT and cost.

    Parameters
    ----------
    setup : Setup
        Model, chip, engine and assumptions. Engine limits on layouts do not apply, because no engine supports all
        methods.
    prompts : sequence of int
        Prompt lengths [tokens].
    ranks : sequence of int
        Numbers of chips that share a prompt [1]; may be empty if ``chains`` has entries.
    chains : sequence of sequence of (Setup, int)
        Further prefill chains over several kinds of chips: setups with the same model, and numbers of chips [1], in the
        order of the prompt. Processes have the smallest size on each kind of chip.
    tp : int, optional
        Tensor-parallel degree of each copy of the model in context parallelism and prefill chains [1]; by default the
        smallest power of two that fits the model and the longest prompt.
    batch : int
        Number of prompts of equal length that are prefilled together [1]. All first tokens appear at the end of the
        prefill.
    cached : float
        Cached tokens before each prompt, a shared prefix that every process stores [tokens].
    progress : callable, optional
        Function that receives the completed share of the work [1] and a description.

    Returns
    -------
    PrefillWays
        Results of all methods, by prompt and number of chips.

    Raises
    ------
    InputError
        If a number is out of range.
    NothingFitsError
        If the model does not fit on any of the numbers of chips.

    Examples
    --------
    >>> ways = prefill(Setup.of("llama_3_8b", "h100_sxm"), [16384], [4])
    >>> ways.rows[0].fastest, ways.process_chips
    ('ring', 1)
    """
    stages = [((setup, number),) for number in ranks] + [tuple(chain) for chain in chains]
    _check(setup, prompts, stages, batch, cached)
    check_kept(setup)
    kinds: dict[int, Processes] = {}
    for kind in (setup, *(other for chain in chains for other, _ in chain)):
        if id(kind) not in kinds:
            kinds[id(kind)] = _processes(read_whole(kind), prompts, tp, batch, cached)
    first, rows = kinds[id(setup)], list[SharedPrompt]()
    for prompt in prompts:
        for chain in stages:
            if progress is not None:
                chips = " + ".join(f"{number}" for _, number in chain)
                progress(len(rows) / (len(prompts) * len(stages)), f"{prompt} tokens on {chips} chips")
            rows.append(_shared([(kinds[id(kind)], number) for kind, number in chain], prompt))
    if not any(row.ways for row in rows):
        raise NothingFitsError(f"{setup.model.name}: {next(iter(rows[-1].missing.values()))}")
    held = {prompt: first.alone(prompt) for prompt in prompts if prompt <= first.longest}
    return PrefillWays(first.setup, first.chips, held, rows, batch, cached)


def _check(setup: Setup, prompts: Sequence[int], stages: Sequence[Stages], batch: int, cached: float) -> None:
    """Reject numbers out of range, and prefill chains whose chips differ in model or cache format."""
    if not 1 <= batch <= _MOST_PROMPTS:
        raise InputError(f"the batch must be from 1 to {_MOST_PROMPTS:,} prompts, got {batch}", option="batch")
    if not 0 <= cached <= _MOST_TOKENS:
        raise InputError(f"cached must be from 0 to {_MOST_TOKENS:,} tokens, got {cached:g}", option="cached")
    if not all(stages):
        raise InputError("chains: a chain of no stages reads nothing; name chips and how many of them", option="chain")
    ranks = [number for chain in stages for _, number in chain]
    for name, values, most in (("prompts", prompts, _MOST_TOKENS), ("ranks", ranks, _MOST_RANKS)):
        if not values:
            raise InputError(f"{name}: name at least one number")
        for value in values:
            if not (isinstance(value, (int, np.integer)) and 1 <= value <= most):
                raise InputError(f"{name} must be integers from 1 to {most:,}, got {value}")
    longest = max(sum(number for _, number in chain) for chain in stages)
    if min(prompts) < longest:
        raise InputError(f"a prompt of {min(prompts)} tokens has no token for each of {longest} ranks")
    parts = _TABLE + len(prompts) * sum(4 * number + 8 for number in ranks)
    _work.check(f"{parts:,} parts of prompts", seconds=parts * _PART_SECONDS, smaller="ranks")
    for other in (kind for chain in stages for kind, _ in chain):
        if other.model != setup.model:
            raise InputError(f"a chain reads one model, got {setup.model.name} and {other.model.name}")
        if other.precision.kv != setup.precision.kv:
            raise InputError(
                f"a chain hands its cache on as it is: that of {setup.hardware.name} is {setup.precision.kv}, of "
                f"{other.hardware.name} {other.precision.kv}; name one format (kv)",
                option="kv",
            )


def _processes(setup: Setup, prompts: Sequence[int], tp: int | None, batch: int, cached: float) -> Processes:
    """Smallest process that fits the model and the longest feasible prompt.

    Raises
    ------
    NothingFitsError
        If the shortest prompt does not fit on any process, or not on a process of ``tp`` chips.
    """
    sizes = [tp] if tp is not None else [2**power for power in range(11)]
    for longest in sorted(set(prompts), reverse=True):
        problems: dict[str, int] = {}
        for size in sizes:
            process, problem = _fastest(setup, size, longest, batch, cached)
            if process is not None:
                return Processes.of(setup, process, float(longest), float(cached), float(batch))
            problems[problem] = size
    # If several sizes fail, the message reports a memory shortage rather than a size that does not divide the model.
    reason = min(problems, key=lambda problem: (problem == memory.REASONS[memory.DIVIDE], -problems[problem]))
    chips, several = f"{problems[reason]} x {setup.hardware.name}", f"{batch} x " if batch > 1 else ""
    raise NothingFitsError(
        f"no process of {chips} holds {setup.model.name} and {several}{min(prompts):,} tokens: {reason}"
    )


def _fastest(setup: Setup, size: int, prompt: int, batch: float, cached: float) -> tuple[Plans | None, str]:
    """Fastest tensor-parallel plan for a prompt on ``size`` chips; None and the reason if no plan is possible."""
    candidates = deployments(setup, Pins(tp=size, dp=1, pp=1))
    reading = replace(candidates, batch=candidates.batch * batch, new_tokens=prompt, prefill=True)
    # Activation memory for unchunked prompts is reserved if the assumptions reserve activation memory for steps.
    tokens = setup.assumptions.capacity.workspace_tokens
    changes = {"capacity.workspace_tokens": max(tokens, prompt * batch) if tokens else 0}
    roomy = replace(setup, context=cached, shared_prefix=cached, assumptions=setup.assumptions.changed(changes))
    codes = np.broadcast_to(roomy.reasons(reading, "1d"), reading.shape)
    possible = np.nonzero(codes == memory.FITS)[0]
    if not possible.size:
        return None, memory.REASONS[int(codes[-1])]
    fitting = candidates.at((possible,))
    return fitting.row(int(np.argmin(reading_seconds(setup, fitting, prompt, cached, batch)))), ""


def _shared(chain: Sequence[tuple[Processes, int]], prompt: int) -> SharedPrompt:
    """Results of all methods to share a prompt among chips. Several kinds of chips can only form chains."""
    ways: dict[str, Way] = {}
    missing: dict[str, str] = {}
    (processes, ranks), *others = chain
    if not others:
        for name, stream in (("tensor", "whole"), ("sequence", "by_tokens")):
            setup = processes.setup
            cut = replace(setup, assumptions=setup.assumptions.changed({"layout.residual_stream": stream}))
            plan, problem = _fastest(cut, ranks, prompt, processes.prompts, processes.cached)
            if plan is None:
                missing[name] = problem
            else:
                # Time and traffic of a prompt, and time with infinitely fast links.
                prompts, cached = processes.prompts, processes.cached
                free = processes.free.assumptions.changed({"layout.residual_stream": stream})
                seconds, without = (
                    float(reading_seconds(deployed, plan, prompt, cached, prompts)[0])
                    for deployed in (cut, replace(processes.free, assumptions=free))
                )
                ways[name] = Way(seconds, seconds - without, prompts * moved_bytes(cut, plan, prompt, cached))
    problem = next(filter(None, (_not_a_run(run, number, prompt, bool(others)) for run, number in chain)), "")
    runs = PrefillChain(tuple((run, number // run.chips) for run, number in chain))
    context = {} if others else {"gathered": processes.gathered, "ring": processes.ring}
    for name in (*context, "even", "chain"):
        if problem:
            missing[name] = problem
        elif name in context:
            ways[name] = context[name](prompt, runs.processes)
        else:
            ways[name] = runs.even(prompt) if name == "even" else runs.searched(prompt)
    return SharedPrompt(prompt, tuple((run.setup, number) for run, number in chain), ways, missing)


def _not_a_run(processes: Processes, chips: int, prompt: int, linked: bool) -> str:
    """Reason why ``chips`` cannot form connected processes that fit a prompt; empty if this is possible."""
    setup, size = processes.setup, processes.chips
    if prompt > processes.longest:
        lacking = _fastest(setup, size, prompt, processes.prompts, processes.cached)[1]
        which = f"{size} x {setup.hardware.name}" if linked else f"{size}"
        return f"a process of {which} does not hold it ({lacking}); raise --tp"
    if chips % size:
        return f"{chips} GPUs are not a multiple of the process size {size}"
    # Several kinds of chips never share a link domain.
    reached = np.inf if setup.most_linked is None else 0 if linked else setup.most_linked
    return memory.REASONS[memory.NETWORK] if chips > reached else ""


def _way(ways: PrefillWays, way: Way, stages: Stages) -> dict[str, object]:
    return {
        "ttft_seconds": way.seconds,
        "dollars_per_prompt": ways.dollars(way, stages),
        "linked_seconds": way.linked_seconds,
        "moved_bytes": way.moved_bytes,
        "parts": list(way.parts),
    }
