"""Breakdown of one step of a deployment by part, operator and use of memory, and its arithmetic intensity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from math import isfinite
from typing import Any, Literal

import numpy as np

from inference_econ import search
from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.answers.layout_services import deployments
from inference_econ.engine import (
    MEASURED,
    Contexts,
    Instances,
    OperatorCosts,
    Pins,
    Plans,
    Setup,
    StepCosts,
    bounds,
    check_pins,
    check_startable,
    chip_power,
    evaluate,
    largest_sparsity,
    mean_context,
    memory,
    mfu,
    power,
    recorded_key,
)
from inference_econ.engine.layouts import plans, startable
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, roofline
from inference_econ.inputs import BYTES_PER_ELEMENT, DEFAULT_ISL, DEFAULT_OSL, Quantity, TensorLayout, Traffic
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import attributes

#: Largest accepted degree and batch [1].
_MOST = 1e9
#: Largest accepted number of sequences with one context [1].
_MOST_SEQUENCES = 1_000_000
#: Request lengths that determine the context of a decode step, if no context is given.
_USUAL = Traffic(isl=DEFAULT_ISL, osl=DEFAULT_OSL)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """Breakdown of one step of one deployment.

    Attributes
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    layout : dict
        Parallelism degrees by the names of their options.
    batch : float
        Number of sequences that the step processes [1].
    costs : StepCosts
        Time of each part of the step, arrays of shape (1,) [s].
    memory : Memory
        Memory that the deployment needs, and memory that is available [B].
    dollars : float or None
        Cost of the step's tokens [USD per 1e6 tokens]; None without a price.
    operators : tuple of OperatorCosts
        Work and time of each operator in the step.
    held : dict
        Memory of one GPU by use; the entries add up to the capacity of the GPU [B].
    prompt : float or None
        Prompt tokens per sequence in a prefill step [tokens]; None for a decode step.
    in_machines_seconds : float or None
        Step time if the fast link connected only eight GPUs, as in ordinary machines [s]. The value is None if the fast
        link connects at most eight GPUs anyway, or if the machines have no network.
    streamed_bytes, paged_bytes : float
        Bytes of weights, and of KV cache, that each GPU reads from host memory per step [B].
    beside_seconds : float or None
        Step time for comparison [s]. If the assumptions recompute the KV cache, it is the step time with a stored KV
        cache. If sequences have different contexts, it is the step time at the mean context.
    idle_joules : float or None
        Energy that an idle GPU would use during the step [J]; the energy of operators is additional. The value is None
        without power data.
    uncapped_seconds : float or None
        Step time without the power cap [s]; None without a cap.
    """

    page = "report.questions.explain:ExplanationPage"

    setup: Setup
    layout: Mapping[str, float | str]
    batch: float
    costs: StepCosts
    memory: memory.Memory
    dollars: float | None
    operators: tuple[OperatorCosts, ...]
    held: Mapping[str, float]
    prompt: float | None = None
    in_machines_seconds: float | None = None
    streamed_bytes: float = 0.0
    paged_bytes: float = 0.0
    beside_seconds: float | None = None
    idle_joules: float | None = None
    uncapped_seconds: float | None = None

    @property
    def accelerators(self) -> float:
        """GPUs of the deployment [1]."""
        return float(self.layout["stage"]) * float(self.layout["pp"])

    @property
    def seconds(self) -> float:
        """Step time [s]."""
        return float(self.costs.seconds[0])

    @property
    def joules(self) -> float | None:
        """Energy of the step on one GPU, including idle power [J]; None without power data."""
        return None if self.idle_joules is None else self.idle_joules + sum(row.joules or 0.0 for row in self.operators)

    @property
    def streamed_seconds(self) -> float:
        """Time to transfer the bytes that each GPU reads from host memory per step [s]."""
        if self.setup.assumptions.cpu.layers:
            return 0.0
        streamed = self.streamed_bytes + self.paged_bytes
        return streamed / self.setup.rates.host_bytes_per_second if streamed else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed of one user: output tokens in decode, prompt tokens in prefill [tokens/s]."""
        return (self.prompt or 1.0) / self.seconds

    @property
    def limited_by(self) -> str:
        """Name of the part that takes the most time of the step; the measured correction does not count as a part."""
        understood = [name for name in self.costs.parts if name != MEASURED]
        return max(understood, key=lambda name: float(self.costs.parts[name][0]))

    @property
    def mfu(self) -> float:
        """Useful arithmetic divided by the theoretical peak, MFU [1]."""
        return float(mfu(self.setup, self.accelerators, self.batch, self.seconds, prompt=self.prompt))

    def subjects(self) -> tuple[Instances]:
        """Return the explained deployment, for which prediction errors can be looked up."""
        isl = None if self.prompt is None else self.setup.context + self.prompt
        layouts = [recorded_key(self.layout)]
        return (Instances(self.setup, [self.accelerators], [self.batch], isl, layouts=layouts),)

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        costs, (instances,) = self.costs, self.subjects()
        weights, cache, available = self.memory.of_one_plan()
        units = dict.fromkeys(row.unit for row in self.operators)
        # Energy of all GPUs; None without power data.
        joules = None if self.joules is None else self.accelerators * self.joules
        record = {
            **facts(
                self.setup,
                *(*HEAD, "weights", "formats", "math_unit", "calibration", "context", "contexts"),
                calibration=calibration_record(instances, quantities_of(self)),
            ),
            "batch": self.batch,
            "prompt": self.prompt,
            "layout": dict(self.layout),
            "step_seconds": float(np.ravel(costs.seconds)[0]),
            **attributes(self, "step_seconds_in_machines=in_machines_seconds step_seconds_beside=beside_seconds"),
            "step_seconds_uncapped": self.uncapped_seconds,
            "seconds_by_part": seconds_by_part(costs),
            "busy_seconds": {name: float(np.ravel(value)[0]) for name, value in costs.busy.items()},
            "limited_by": self.limited_by,
            "operators": operator_records(self),
            "tokens_per_second_per_user": self.tokens_per_second,
            f"dollars_per_million_{'output' if self.prompt is None else 'input'}_tokens": self.dollars,
            "ridge_flop_per_byte": {unit: ridge(self.setup, unit) for unit in units},
            "mfu": self.mfu,
            "board_watts": joules and joules / self.seconds,
            "step_joules": self.joules,
            "idle_joules": self.idle_joules,
            "joules_per_token": joules and joules / (self.batch * (self.prompt or 1.0)),
            "weight_bytes": weights,
            "kv_bytes": cache,
            "available_bytes": available,
            **attributes(self, "streamed_bytes paged_bytes"),
            "workspace_bytes": float(np.ravel(self.memory.workspace_bytes)[0]),
            "bytes_per_accelerator": dict(self.held),
        }
        return bounds.bounded(record, self._ends())

    def _ends(self) -> bounds.Ends:
        """Factors that convert predicted columns into the ends of their 80% intervals [1].

        The factors are None for prefill steps, because no server reports the time of a prefill step.
        """
        (instances,) = self.subjects()
        return bounds.PREFILL if self.prompt is not None else bounds.ends(instances, bounds.STEP)

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per operator group, and one for the whole step.

        Only the record of the whole step has an 80% interval.
        """
        total = self.seconds
        ends = {"seconds": self._ends()["step_seconds"]}
        whole = bounds.bounded({"part": "step", "seconds": total, "share": 1.0}, ends)
        parts: list[Mapping[str, Any]] = [
            {"part": name, "seconds": seconds, "share": seconds / total} for name, seconds in shown_parts(self)
        ]
        return [*parts, whole]


def explain(
    setup: Setup,
    pins: Pins,
    *,
    context: float | None = None,
    prompt: float | None = None,
    cut: TensorLayout = "1d",
    shared_prefix: float = 0.0,
    spread: float = 0.0,
    contexts: Contexts = (),
) -> Explanation:
    """Break one decode or prefill step of one deployment into parts.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    pins : Pins
        Parallelism degrees and batch of the deployment. Degrees that are not given are 1, and the batch is 1. By
        default, expert parallelism has the fastest degree that an engine supports. A pipeline stage has tp * dp GPUs.
    context : float, optional
        Tokens in the KV cache of each sequence before the step [tokens]. Default: the mean context of the default
        request lengths for decode, 0 for prefill.
    prompt : float, optional
        Explain a prefill step with this number of new tokens per sequence [tokens].
    cut : {'1d', '2d'}
        How weight matrices are split.
    shared_prefix : float
        Tokens of the context that all sequences share [tokens].
    spread : float
        Width of the range of contexts of the sequences, around the given context [tokens].
    contexts : tuple of (float, int)
        Different contexts [tokens], each with its number of sequences [1]; they replace ``context`` and the batch.

    Returns
    -------
    Explanation
        Costs and memory of the step. The cost in dollars is None if the price is unknown.

    Raises
    ------
    InputError
        If a parallelism degree does not divide the model, or a number is out of range.
    NothingFitsError
        If the deployment does not fit in memory.

    Examples
    --------
    >>> step = explain(Setup.of("llama_3_70b", "h100_sxm", weights="fp8"), Pins(tp=8, batch=64))
    >>> step.accelerators, step.limited_by
    (8.0, 'launches')
    """
    served, deployment = stepped(
        setup,
        pins,
        context=context,
        prompt=prompt,
        cut=cut,
        shared_prefix=shared_prefix,
        spread=spread,
        contexts=contexts,
    )

    def step_seconds(other: Setup) -> float:
        return float(evaluate(other, deployment, cut).seconds[0])

    needed, accelerators = served.memory(deployment), int(deployment.accelerators[0])
    costs, chip, dollars, in_machines = evaluate(served, deployment, cut), served.hardware, None, None
    batch, seconds = float(deployment.batch[0]), float(costs.seconds[0])
    if served.price is not None:
        price, per_token = served.dollars_per_accelerator_hour, seconds / (prompt or 1.0)
        dollars = float(money.dollars_per_million_tokens(accelerators, per_token, batch, price))
    idle, rows = _with_energy(served, operator_costs(served, deployment, cut), seconds)
    if (
        min(chip.link_domain, int(deployment.stage[0])) > startable.MACHINE
        and chip.nic_bytes_per_second_one_way is not None
    ):
        apart = chip.model_copy(update={"link_domain": startable.MACHINE})
        in_machines = step_seconds(replace(served, hardware=apart))
    usual = replace(served, contexts=())
    if not deployment.prefill and served.assumptions.attention.cache == "recomputed":
        usual = replace(usual, assumptions=served.assumptions.changed({"attention.cache": "kept"}))
    return Explanation(
        served,
        served.layout_record(deployment, cut),
        batch,
        costs,
        needed,
        dollars,
        rows,
        served.memory_of_one_accelerator(deployment),
        prompt,
        in_machines_seconds=in_machines,
        streamed_bytes=float(np.ravel(memory.streamed_bytes(served, deployment))[0]),
        paged_bytes=float(np.ravel(memory.paged_bytes(needed, deployment, served.assumptions))[0]),
        beside_seconds=None if usual == served else step_seconds(usual),
        idle_joules=idle,
        uncapped_seconds=None if chip.power_cap is None else step_seconds(power.at_clock(served, 1.0)),
    )


def _with_energy(
    setup: Setup, rows: Sequence[OperatorCosts], seconds: float
) -> tuple[float | None, tuple[OperatorCosts, ...]]:
    """Idle energy of one GPU during a step [J], and the operators with the additional energy of each operator.

    If the GPU would exceed its power limit, it lowers its clock, and the energy of all operators is reduced by the same
    factor.
    """
    chip, total = chip_power(setup.hardware), sum(row.joules or 0.0 for row in rows)
    if chip is None or not total:
        return None, tuple(rows)
    idle, drawn = chip.idle_watts * seconds, float(chip.board_watts(np.asarray(total), seconds)) * seconds
    left = (drawn - idle) / total
    return idle, tuple(replace(row, joules=left * (row.joules or 0.0)) for row in rows)


def stepped(
    setup: Setup,
    pins: Pins,
    *,
    context: float | None,
    prompt: float | None = None,
    cut: TensorLayout = "1d",
    shared_prefix: float = 0.0,
    spread: float = 0.0,
    contexts: Contexts = (),
) -> tuple[Setup, plans.Plans]:
    """Check the inputs of :func:`explain`, and return the setup and the deployment, shape (1,).

    Raises
    ------
    InputError
        If a parallelism degree does not divide the model, or a number is out of range.
    NothingFitsError
        If the deployment does not fit in memory.
    """
    if prompt is not None and not 1 <= prompt <= _MOST:
        raise InputError(f"the prompt must be from 1 to {_MOST:g} tokens, got {prompt:g}")
    if cut not in ("1d", "2d"):
        raise InputError(f"cut: got {cut!r}; allowed: 1d, 2d")
    if context is None:
        context, spread = (_USUAL.mean_context, _USUAL.spread) if prompt is None else (0.0, 0.0)
    if contexts:
        pins, context, spread = _with_batch(pins, contexts), mean_context(contexts), 0.0
    check_pins(setup.model, pins)
    served = replace(setup, context=context, shared_prefix=shared_prefix, spread=spread, contexts=contexts)
    least = min((length for length, _ in contexts), default=context)
    if not 0 <= shared_prefix <= least:
        raise InputError(
            f"the shared prefix must be a part of the context, from 0 to {least:g} tokens, got {shared_prefix:g}"
        )
    candidates = deployments(served, pins)
    if prompt is not None:
        candidates = replace(candidates, new_tokens=prompt, prefill=True)
    # The fastest deployment that fits is used. If none fits, the last one is used for the error message.
    codes = np.broadcast_to(served.reasons(candidates, cut), candidates.shape)
    seconds = np.where(codes == memory.FITS, evaluate(served, candidates, cut).seconds, np.inf)
    deployment = candidates.row(int(np.argmin(seconds)) if np.isfinite(seconds).any() else seconds.size - 1)
    tp, pp = int(deployment.attention_ranks[0]), int(deployment.pp[0])
    blocks = served.precision.blocks
    for problem in startable.indivisible(served.model, deployment, cut, served.assumptions, blocks):
        if np.any(problem.where):
            degrees = f"tp={tp:g}, pp={pp:g}, batch={deployment.batch[0]:g}"
            if deployment.ep is not None and plans.has_experts(served.model):
                degrees += f", ep={deployment.ep[0]:g}"
            raise InputError(f"{served.model.name}: {problem.text} ({degrees})")
    # The error message has the selected degrees, but the expert parallelism that the user gave.
    pinned = Pins(tp=tp, dp=int(deployment.stage[0]) // tp, pp=pp, ep=pins.ep, dcp=pins.dcp)
    check_startable(served, pinned, cut)
    code = int(np.ravel(served.reasons(deployment, cut))[0])
    if code != memory.FITS:
        raise NothingFitsError(_does_not_fit(served, deployment, served.memory(deployment), code))
    return served, deployment


def _with_batch(pins: Pins, contexts: Contexts) -> Pins:
    """Copy of ``pins`` whose batch is the number of sequences in ``contexts``.

    Raises
    ------
    InputError
        If a length or a number of sequences is out of range, or if ``pins`` has another batch.
    """
    for length, count in contexts:
        if not (1 <= length <= _MOST and 1 <= count <= _MOST_SEQUENCES):
            raise InputError(
                f"contexts: a sequence has from 1 to {_MOST:g} tokens, and from 1 to {_MOST_SEQUENCES:,} have as many, "
                f"got {count} of {length:g}"
            )
    batch = sum(count for _, count in contexts)
    if pins.batch not in (None, batch):
        raise InputError(f"contexts are those of {batch} sequences, which contradicts a batch of {pins.batch:g}")
    return replace(pins, batch=batch)


def _fewer_copies(setup: Setup, deployment: plans.Plans, weights: float, room: float) -> str:
    """Advice with the number of redundant experts that would fit in memory.

    The advice is empty if the query has no redundant experts, or if fewer redundant experts would not help.
    """
    assumed, ranks = setup.assumptions, deployment.ep
    if not assumed.experts.redundant or ranks is None:
        return ""
    bare = replace(setup, assumptions=assumed.changed({"experts.redundant": 0}))
    experts = max(mixture.experts for mixture in setup.model.mixtures)
    held, fewest = (
        float(plans.expert_slots(experts, ranks, deployed.assumptions.experts)[0]) for deployed in (setup, bare)
    )
    least = bare.memory(deployment).of_one_plan()[0]
    if held == fewest or room < least:
        return ""
    # All ranks have the same number of experts.
    further = (room - least) / (weights - least) * (held - fewest) // ranks[0] * ranks[0]
    return f", or at most {fewest + further - experts:.0f} redundant experts"


def _does_not_fit(setup: Setup, deployment: plans.Plans, needed: memory.Memory, code: int) -> str:
    weights, cache, available = needed.of_one_plan()
    accelerators = int(deployment.accelerators[0])
    message = f"{setup.model.name} on {accelerators} x {setup.hardware.name}: {memory.REASONS[code]}"
    if code in (memory.WEIGHTS, memory.CACHE) and available <= 0:
        message += f". {search.no_room(setup, needed, accelerators)}"
    elif code in (memory.WEIGHTS, memory.CACHE):
        smallest = int(np.ceil(accelerators * needed.filled))
        paged = float(np.ravel(np.minimum(needed.paged_bytes, needed.host_bytes))[0])
        message += (
            f": {weights / 1e9:.1f} GB of weights and {cache / 1e9:.1f} GB of KV cache"
            f"{f' (beside {paged / 1e9:.1f} GB on the hosts)' if paged else ''} > {available / 1e9:.1f} GB; "
            f"at least {smallest} accelerators would do"
            f"{_fewer_copies(setup, deployment, weights, available - cache)}"
        )
    return message


def quantities_of(explanation: Explanation) -> tuple[Quantity, ...]:
    """Names of the server latencies whose prediction errors apply to this step; empty for prefill."""
    return ("tpot",) if explanation.prompt is None else ()


def shown_parts(explanation: Explanation) -> list[tuple[str, float]]:
    """Names and times [s] of the parts of the step, the longest first; the measured correction is last."""
    parts = sorted(seconds_by_part(explanation.costs).items(), key=lambda item: (item[0] == MEASURED, -item[1]))
    return [(name, seconds) for name, seconds in parts if seconds > 0 or (name == MEASURED and seconds)]


def seconds_by_part(costs: StepCosts) -> dict[str, float]:
    """Return the time of each part of a step [s]."""
    return {name: float(np.ravel(value)[0]) for name, value in costs.parts.items()}


def operator_records(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the operator table of a step as records."""
    return [
        {
            **asdict(row),
            "flop_per_byte": row.flop / row.moved_bytes if row.moved_bytes else None,
            **attributes(row, "seconds bound"),
        }
        for row in explanation.operators
    ]


def ridge(setup: Setup, unit: str) -> float:
    """Arithmetic intensity at which compute and memory take the same time at peak rates [FLOP/B]."""
    return setup.peaks[unit] / setup.hardware.hbm_bytes_per_second


#: Variable of the sweep: number of decoded sequences, cached tokens per sequence, or prompt tokens per sequence.
Axis = Literal["batch", "context", "prompt"]
#: Default largest value of each variable [1, tokens].
_USUAL_MOST: Mapping[Axis, int] = {"batch": 16_384, "context": 1_048_576, "prompt": 65_536}
_MOST_VARIED = 100_000_000


@dataclass(frozen=True, slots=True)
class IntensitySweep:
    """Arithmetic and memory traffic of one operator, or of the whole step, at each value of the swept variable.

    Attributes
    ----------
    name, unit : str
        Name of the operator, and compute unit on which it runs; both empty for the whole step.
    flop, moved_bytes, compute_seconds, memory_seconds, worked_seconds : ndarray, shape (n,)
        Arithmetic [FLOP] and memory traffic [B] of one GPU. Time of the arithmetic alone, of the memory traffic alone,
        and of both with overlap [s]. Network time and launch overhead are excluded.
    turns_at : float or None
        Smallest integer value of the variable above which the limit remains :attr:`bound`; None if the limit is the
        same at all values.
    closed_form : float or None
        Estimate of ``turns_at`` from the GPU's peak rates and weight traffic alone. The value is None for operators
        without weights, and if the context is the variable.
    """

    name: str
    unit: str
    flop: Array
    moved_bytes: Array
    compute_seconds: Array
    memory_seconds: Array
    worked_seconds: Array
    turns_at: float | None
    closed_form: float | None = None

    @property
    def bound(self) -> str:
        """Resource that limits the operator at the largest value of the variable: ``compute`` or ``memory``."""
        return "compute" if self.compute_seconds[-1] >= self.memory_seconds[-1] else "memory"

    @property
    def flop_per_byte(self) -> Array:
        """Arithmetic intensity, shape (n,) [FLOP/B]; NaN without memory traffic."""
        return _over(self.flop, self.moved_bytes)

    @property
    def flops_per_second(self) -> Array:
        """Arithmetic rate while the operator runs, without network and launch overhead, shape (n,) [FLOP/s]."""
        return _over(self.flop, self.worked_seconds)


@dataclass(frozen=True, slots=True, repr=False)
class Intensity(Shown):
    """Arithmetic and memory traffic of a step as one variable grows.

    Attributes
    ----------
    setup : Setup
        Model, GPU, formats and assumptions, with the context of the first value.
    layout : dict
        Parallelism degrees by the names of their options.
    over : str
        Variable: batch, context or prompt.
    values : ndarray, shape (n,)
        Values of the variable, in powers of two [1], [tokens].
    batch : float
        Number of decoded sequences [1]; the first of ``values`` if the batch is the variable.
    prompt : float or None
        Prompt tokens per sequence and step [tokens]; the first of ``values`` if they are the variable. The value is
        None for a decode step.
    operators : tuple of IntensitySweep
        Operators that have both arithmetic and memory traffic, in the order of a step.
    step : IntensitySweep
        Sum of all operators, including those without arithmetic.
    room : float or None
        Largest integer value of the variable at which the deployment fits in memory; None if it fits at all values.
    sparsity : float
        Number of experts divided by active experts per token, in the sparsest layers [1]; 1 for dense models.
    """

    page = "report.questions.explain:IntensityPage"

    setup: Setup
    layout: Mapping[str, float | str]
    over: Axis
    values: Array
    batch: float
    prompt: float | None
    operators: tuple[IntensitySweep, ...]
    step: IntensitySweep
    room: float | None
    sparsity: float

    @property
    def accelerators(self) -> float:
        """GPUs of the deployment [1]."""
        return float(self.layout["stage"]) * float(self.layout["pp"])

    def record(self) -> dict[str, Any]:
        """Return the result as plain data. The arithmetic intensity is None where there is no memory traffic."""
        setup = self.setup
        units = dict.fromkeys(unit for sweep in self.operators for unit in sweep.unit.split("+"))
        return {
            **facts(setup, *HEAD, "weights", "formats", "context"),
            "layout": dict(self.layout),
            "over": self.over,
            "batch": None if self.over == "batch" else self.batch,
            "prompt": None if self.over == "prompt" else self.prompt,
            "values": self.values.tolist(),
            "largest_that_fits": self.room,
            "sparsity": self.sparsity,
            "ridge_flop_per_byte": {unit: ridge(setup, unit) for unit in units},
            "step": _sweep_record(self.step),
            "operators": [_sweep_record(sweep) for sweep in self.operators],
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per operator and value, and one record per value for the whole step."""
        return [
            {
                "operator": sweep.name or STEP,
                self.over: value,
                **{name: getattr(sweep, name)[index] for name in COLUMNS},
                "turns_at": np.nan if sweep.turns_at is None else sweep.turns_at,
            }
            for sweep in (*self.operators, self.step)
            for index, value in enumerate(self.values)
        ]


def intensity(
    setup: Setup,
    pins: Pins,
    *,
    over: Axis = "batch",
    most: float | None = None,
    context: float | None = None,
    prompt: float | None = None,
    cut: TensorLayout = "1d",
    spread: float = 0.0,
) -> Intensity:
    """Compute the arithmetic intensity of a step, and find the value from which the step is compute-bound.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats and assumptions.
    pins : Pins
        Deployment, as in :func:`inference_econ.explain`. If the batch is the variable, do not set it here.
    over : {'batch', 'context', 'prompt'}
        Variable: number of decoded sequences, cached tokens per sequence, or prompt tokens per sequence and step.
    most : float, optional
        Largest value of the variable; by default 16,384 sequences, 1,048,576 tokens of context or 65,536 prompt tokens.
    context, prompt, cut, spread
        See :func:`inference_econ.explain`. Do not set the argument that is the variable.

    Returns
    -------
    Intensity
        Sweep of each operator and of the whole step, with the largest value that fits in memory. Larger values are
        calculated as if the GPU had more memory.

    Raises
    ------
    InputError
        If a parallelism degree does not divide the model, a number is out of range, or the variable is also given as an
        input.
    NothingFitsError
        If the smallest value does not fit in memory.

    Notes
    -----
    An operator is compute-bound if its arithmetic takes at least as long as its memory traffic, at the assumed rates of
    its kernels. The step is compute-bound if the sum of the arithmetic times is at least the sum of the memory times.
    Bisection over integers finds the turning point between the last two swept values that have different limits.
    Changes of the limit at smaller values, which tile effects may cause, are ignored.

    Examples
    --------
    >>> answer = intensity(Setup.of("llama_3_70b", "h100_sxm", assumptions="ideal"), Pins(tp=8))
    >>> {row.name: row.turns_at for row in answer.operators if row.name in ("ff in", "attention")}
    {'attention': None, 'ff in': 310.0}
    """
    _check_varied(over, most, {"batch": pins.batch, "context": context, "prompt": prompt})
    context, prompt = 1.0 if over == "context" else context, 1.0 if over == "prompt" else prompt
    served, deployment = stepped(setup, pins, context=context, prompt=prompt, cut=cut, spread=spread)
    varied, most = _Varied(served, deployment, over, cut), most or _USUAL_MOST[over]
    # The swept values are powers of two, followed by the largest value.
    values = np.append(2.0 ** np.arange(np.ceil(np.log2(most))), np.floor(most))
    last = float(values[-1])
    closed = {} if over == "context" else _closed_forms(*varied.at(last), last)
    names = [name for name, rows in varied.by_name(last).items() if sum(row.flop for row in rows) > 0]
    # An earlier check showed that the smallest value fits.
    room = None if varied.fits(last) else _bisected(1.0, last, lambda value: not varied.fits(value)) - 1.0
    return Intensity(
        served,
        served.layout_record(deployment, cut),
        over,
        values,
        float(deployment.batch[0]),
        prompt,
        tuple(varied.swept(name, values, closed.get(name)) for name in names),
        varied.swept("", values),
        room,
        largest_sparsity(served.model, served.assumptions.experts),
    )


@dataclass(frozen=True, eq=False)
class _Varied:
    """One deployment with a varied batch, context or prompt length."""

    setup: Setup
    deployment: Plans
    over: Axis
    cut: TensorLayout

    def at(self, value: float) -> tuple[Setup, Plans]:
        """Return the setup and the deployment at a value of the variable, shape (1,)."""
        if self.over == "context":
            return replace(self.setup, context=value), self.deployment
        if self.over == "prompt":
            return self.setup, replace(self.deployment, new_tokens=value)
        return self.setup, replace(self.deployment, batch=np.array([value]))

    @cached_property
    def by_name(self) -> Callable[[float], Mapping[str, Sequence[OperatorCosts]]]:
        """Function that returns the operators of the step at a value of the variable, grouped by name.

        The function caches its results by value.
        """

        @cache
        def rows(value: float) -> Mapping[str, Sequence[OperatorCosts]]:
            groups: dict[str, list[OperatorCosts]] = {}
            for row in operator_costs(*self.at(value), self.cut):
                groups.setdefault(row.name, []).append(row)
            return groups

        return rows

    def rows(self, name: str, value: float) -> Sequence[OperatorCosts]:
        """Costs of an operator in each kind of layer, at a value of the variable.

        If the name is empty, the costs of all operators are returned.
        """
        groups = self.by_name(value)
        return groups.get(name, ()) if name else [row for rows in groups.values() for row in rows]

    def swept(self, name: str, values: Array, closed_form: float | None = None) -> IntensitySweep:
        """Sweep an operator over values of the variable, and find its turning point.

        If the name is empty, sweep the whole step.
        """
        rows = [self.rows(name, value) for value in values.tolist()]

        def computes(value: float) -> bool:
            there = self.rows(name, value)
            return bool(sum(row.compute_seconds for row in there) >= sum(row.memory_seconds for row in there))

        units = dict.fromkeys(row.unit for row in rows[-1]) if name else ()
        bounds, turn = [computes(value) for value in values.tolist()], None
        others = [index for index, bound in enumerate(bounds) if bound is not bounds[-1]]
        if others:
            low, high = values[others[-1] : others[-1] + 2].tolist()
            turn = _bisected(low, high, lambda value: computes(value) is bounds[-1])
        flop, moved, compute, memory_seconds, together = (
            np.array([sum(getattr(row, quantity) for row in there) for there in rows])
            for quantity in ("flop", "moved_bytes", "compute_seconds", "memory_seconds", "together_seconds")
        )
        return IntensitySweep(name, "+".join(units), flop, moved, compute, memory_seconds, together, turn, closed_form)

    def fits(self, value: float) -> bool:
        """True if the deployment fits in memory at a value of the variable."""
        setup, plans = self.at(value)
        return int(np.ravel(setup.reasons(plans, self.cut))[0]) == memory.FITS


def _check_varied(over: Axis, most: float | None, values: Mapping[str, float | None]) -> None:
    """Reject an unknown variable, a largest value out of range, or a variable that is also given as an input."""
    if over not in _USUAL_MOST:
        raise InputError(f"over: got {over!r}; allowed: {', '.join(_USUAL_MOST)}")
    if values[over] is not None:
        raise InputError(f"{over} is what is varied, and {over}={values[over]:g} is given; leave it out")
    if most is not None and not 2 <= most <= _MOST_VARIED:
        raise InputError(f"the largest {over} must be from 2 to {_MOST_VARIED:,}, got {most:g}")


def _bisected(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """Smallest integer for which ``holds`` is True, by bisection between ``low`` (False) and ``high`` (True)."""
    while high - low > 1.0:
        middle = float((low + high) // 2)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _closed_forms(setup: Setup, deployment: Plans, value: float) -> Mapping[str, float]:
    """Values of the variable at which operators with weights become compute-bound [1], by operator name.

    The calculation uses only peak rates and weight traffic. A weight processes only some of the tokens: an expert
    processes the tokens that are routed to it, and a weight copy processes the tokens of its attention-DP group. This
    share of the tokens is computed once, at a large number of tokens.
    """
    work = setup.work(deployment)
    forms: dict[str, float] = {}
    for row in work.operators:
        width = BYTES_PER_ELEMENT[row.dtype]
        read = float(np.ravel(row.weight_bytes)[0]) / width
        used = float(np.ravel(row.flop_per_token * work.tokens_of(row))[0]) / (2.0 * value)
        if read > 0 and used > 0:
            chip, peak = setup.hardware.hbm_bytes_per_second, setup.peaks[setup.rates.unit(row.dtype)]
            forms[row.name] = roofline.critical_batch(width, chip, peak, read / used)
    return forms


def _over(amount: Array, other: Array) -> Array:
    """Elementwise ratio; NaN where the divisor is 0."""
    return np.asarray(np.divide(amount, other, out=np.full(amount.shape, np.nan), where=other > 0))


STEP = "whole step"


def _sweep_record(sweep: IntensitySweep) -> dict[str, object]:
    return {
        "name": sweep.name or STEP,
        "unit": sweep.unit or None,
        **attributes(sweep, "bound turns_at closed_form"),
        **{name: [value if isfinite(value) else None for value in getattr(sweep, name).tolist()] for name in COLUMNS},
    }


#: Columns of a sweep that have one number per value.
COLUMNS = ("flop", "moved_bytes", "flop_per_byte", "flops_per_second", "compute_seconds", "memory_seconds")
