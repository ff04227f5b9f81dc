"""Breakdown of one step of a deployment: time and energy by part and operator, and memory by use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from inference_econ._answer import Shown
from inference_econ.answers.layout_services import deployments
from inference_econ.engine import (
    MEASURED,
    Contexts,
    Instances,
    OperatorCosts,
    Pins,
    Setup,
    StepCosts,
    bounds,
    check_pins,
    check_startable,
    chip_power,
    evaluate,
    mean_context,
    memory,
    mfu,
    power,
    recorded_key,
)
from inference_econ.engine.layouts import plans, startable
from inference_econ.engine.operator_costs import operator_costs
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, Quantity, TensorLayout, Traffic
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.search import no_room

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

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the step."""
        return [self.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        costs, (instances,) = self.costs, self.subjects()
        weights, cache, available = self.memory.of_one_plan()
        units = dict.fromkeys(row.unit for row in self.operators)
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
            "step_seconds_in_machines": self.in_machines_seconds,
            "step_seconds_beside": self.beside_seconds,
            "step_seconds_uncapped": self.uncapped_seconds,
            "seconds_by_part": seconds_by_part(costs),
            "busy_seconds": {name: float(np.ravel(value)[0]) for name, value in costs.busy.items()},
            "limited_by": self.limited_by,
            "operators": operator_records(self),
            "tokens_per_second_per_user": self.tokens_per_second,
            f"dollars_per_million_{'output' if self.prompt is None else 'input'}_tokens": self.dollars,
            "ridge_flop_per_byte": {unit: ridge(self.setup, unit) for unit in units},
            "mfu": self.mfu,
            **_energy_record(self),
            "weight_bytes": weights,
            "kv_bytes": cache,
            "available_bytes": available,
            "streamed_bytes": self.streamed_bytes,
            "paged_bytes": self.paged_bytes,
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
    context: float | None = None,
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
        message += f". {no_room(setup, needed, accelerators)}"
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
            "seconds": row.seconds,
            "bound": row.bound,
        }
        for row in explanation.operators
    ]


def ridge(setup: Setup, unit: str) -> float:
    """Arithmetic intensity at which compute and memory take the same time at peak rates [FLOP/B]."""
    return setup.peaks[unit] / setup.hardware.hbm_bytes_per_second


def _energy_record(explanation: Explanation) -> dict[str, float | None]:
    """Return the energy and power of a step as plain data; the values are None without power data."""
    joules, tokens = explanation.joules, explanation.batch * (explanation.prompt or 1.0)
    if joules is None:
        return dict.fromkeys(("board_watts", "step_joules", "idle_joules", "joules_per_token"))
    return {
        "board_watts": explanation.accelerators * joules / explanation.seconds,
        "step_joules": joules,
        "idle_joules": explanation.idle_joules,
        "joules_per_token": explanation.accelerators * joules / tokens,
    }
