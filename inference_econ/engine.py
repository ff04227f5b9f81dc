"""Seconds of a step: the operator table reduced under a set of assumptions (floor 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from inference_econ import memory
from inference_econ.communication import collective_parts, collective_seconds
from inference_econ.memory import NOTHING, Taken
from inference_econ.plans import Plans
from inference_econ.precision import Precision
from inference_econ.rows import Operator
from inference_econ.spec.assumptions import Assumptions, Free, Mesh, TensorLayout
from inference_econ.spec.dtype import BYTES_PER_ELEMENT, math_unit
from inference_econ.spec.hardware import HardwareSpec
from inference_econ.spec.model import ModelSpec
from inference_econ.work import Work, decode_work

Array = npt.NDArray[np.float64]

#: The parts of a step; those of arithmetic and memory count what is not hidden behind the other.
PARTS = (
    "compute",
    "weights",
    "activations",
    "kv_cache",
    "all_reduce_latency",
    "all_reduce_bandwidth",
    "all_to_all_latency",
    "all_to_all_bandwidth",
    "pipeline",
    "launches",
)


@dataclass(frozen=True, slots=True)
class Question:
    """One model on one chip, in given formats, at one context, under one set of assumptions.

    Attributes
    ----------
    model : ModelSpec
        What is served.
    hardware : HardwareSpec
        On what.
    precision : Precision
        Number formats.
    context : float
        Tokens in the cache of each sequence [tokens].
    assumptions : Assumptions
        With the exceptions for the chip's family already applied; see :meth:`of`.
    """

    model: ModelSpec
    hardware: HardwareSpec
    precision: Precision
    context: float
    assumptions: Assumptions

    @classmethod
    def of(
        cls, model: ModelSpec, hardware: HardwareSpec, precision: Precision, context: float, assumptions: Assumptions
    ) -> Question:
        """A question with the assumptions for the chip's family.

        Raises
        ------
        InputError
            If the chip has no maths unit for a format.
        """
        for dtype in (*precision.of_weights, precision.activations):
            math_unit(dtype, _peaks(hardware), hardware.name)
        return cls(model, hardware, precision, context, assumptions.for_family(hardware.family))

    def work(self, plans: Plans) -> Work:
        """The operator table of these plans."""
        return decode_work(self.model, self.precision, plans, self.context, self.hardware.link_domain, self.assumptions)

    def unit(self, dtype: str) -> str:
        """The maths unit that a matrix product with weights of ``dtype`` runs on."""
        peaks, follows = _peaks(self.hardware), self.assumptions.math_unit_follows
        own = math_unit(dtype, peaks, self.hardware.name)
        widened = follows == "widest" or (follows == "engines" and BYTES_PER_ELEMENT[dtype] < 1 and own != "fp4")
        if widened and BYTES_PER_ELEMENT[dtype] < BYTES_PER_ELEMENT[self.precision.activations]:
            return math_unit(self.precision.activations, peaks, self.hardware.name)
        return own

    def flops_per_second(self, dtype: str) -> float:
        """Sustained arithmetic rate for weights of ``dtype`` [FLOP/s]."""
        return _peaks(self.hardware)[self.unit(dtype)] * self.assumptions.math_efficiency

    @property
    def bytes_per_second(self) -> float:
        """Sustained memory bandwidth [B/s]."""
        return self.hardware.hbm_bytes_per_second * self.assumptions.hbm_efficiency

    def memory(self, plans: Plans, taken: Taken = NOTHING) -> memory.Memory:
        """What the plans need and have."""
        return memory.need(
            self.model,
            self.precision,
            plans,
            self.context,
            self.hardware.hbm_bytes,
            self.assumptions,
            taken,
        )

    def could_fit(self, plans: Plans, taken: Taken = NOTHING) -> npt.NDArray[np.bool_]:
        """Whether memory and depth allow the plans, whatever the layout; broadcastable to ``plans.shape``."""
        return memory.could_fit(self.memory(plans, taken), plans)

    def reasons(self, plans: Plans, layout: TensorLayout, taken: Taken = NOTHING) -> npt.NDArray[np.intp]:
        """Why each plan cannot run: codes of :data:`inference_econ.memory.REASONS`."""
        unreachable = self.hardware.nic_bytes_per_second_one_way is None
        unreachable = unreachable and not isinstance(self.assumptions.collectives, (Free, Mesh))
        limit = self.hardware.link_domain if unreachable else None
        return memory.reasons(self.model, self.memory(plans, taken), plans, layout, self.assumptions, limit)


def _peaks(hardware: HardwareSpec) -> Mapping[str, float]:
    return cast("Mapping[str, float]", hardware.dense_flops_per_second)


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Time of one step.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Total [s].
    parts : mapping of str to ndarray
        Seconds by part, keys :data:`PARTS`; they add up to the total.
    busy : mapping of str to ndarray
        Seconds that arithmetic and each kind of memory traffic take, hidden or not.
    """

    seconds: Array
    parts: Mapping[str, Array]
    busy: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Arithmetic and memory seconds of all operators, or of one."""

    compute: Array
    weights: Array
    activations: Array
    kv_cache: Array

    @property
    def memory(self) -> Array:
        """All memory traffic [s]."""
        return self.weights + self.activations + self.kv_cache


def step_seconds(question: Question, plans: Plans) -> list[Array]:
    """Total time of a step for every plan, feasible or not, under each way to cut matrices.

    Parameters
    ----------
    question : Question
        What, on what, how.
    plans : Plans
        Deployments, shape (...).

    Returns
    -------
    list of ndarray, each of shape (...)
        [s], in the order of ``assumptions.tensor_layouts``; they share all but the communication.

    Notes
    -----
    Eq. (29) of Erdil (2025) under ``overlap: step``; the same table is summed in other orders
    under ``operator`` (an ordinary roofline per operator) and ``none``.
    """
    work = question.work(plans)
    alone = _overlapped(question, work) + launch_seconds(question, work)
    return [
        np.broadcast_to(alone + _communication(question, work, layout, work.operators), plans.shape)
        for layout in question.assumptions.tensor_layouts
    ]


def evaluate(question: Question, plans: Plans, layout: TensorLayout) -> StepCosts:
    """Time of a step in its parts; the total equals :func:`step_seconds`.

    Parameters
    ----------
    question : Question
        What, on what, how.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        How weight matrices are cut.

    Returns
    -------
    StepCosts
        Arrays of shape (...) [s].
    """
    work = question.work(plans)
    parts = {name: np.zeros(plans.shape) for name in PARTS}
    busy = {name: np.zeros(plans.shape) for name in ("compute", "weights", "activations", "kv_cache")}
    for roofline in _rooflines(question, work):
        memory_bound = roofline.compute <= roofline.memory
        shown = question.assumptions.overlap == "none"
        parts["compute"] += np.where(memory_bound & (not shown), 0.0, roofline.compute)
        for name in ("weights", "activations", "kv_cache"):
            parts[name] += np.where(memory_bound | shown, getattr(roofline, name), 0.0)
        for name, seconds in busy.items():
            seconds += getattr(roofline, name)
    for operator in work.operators:
        for collective in operator.collectives.get(layout, ()):
            time = collective_parts(question.hardware, question.assumptions.collectives, collective, work.tokens)
            repeats = operator.repeats * collective.repeats
            if collective.kind == "point_to_point":
                parts["pipeline"] += repeats * (time.latency_seconds + time.bandwidth_seconds)
            else:
                parts[f"{collective.kind}_latency"] += repeats * time.latency_seconds
                parts[f"{collective.kind}_bandwidth"] += repeats * time.bandwidth_seconds
    parts["launches"] += launch_seconds(question, work)
    return StepCosts(np.sum(list(parts.values()), axis=0), parts, busy)


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """What one row of the operator table takes, over all of its occurrences in a step.

    Attributes
    ----------
    name, unit : str
        The row, and the maths unit that it runs on.
    repeats : float
        Occurrences that a token waits for [1].
    flop, moved_bytes : float
        Arithmetic [FLOP] and memory traffic [B] of one accelerator.
    compute_seconds, memory_seconds, network_seconds : float
        Time of each by itself, whatever hides behind what [s].
    """

    name: str
    unit: str
    repeats: float
    flop: float
    moved_bytes: float
    compute_seconds: float
    memory_seconds: float
    network_seconds: float

    @property
    def bound(self) -> str:
        """What takes longest: compute, memory or network."""
        times = {"compute": self.compute_seconds, "memory": self.memory_seconds, "network": self.network_seconds}
        return max(times, key=times.__getitem__)


def operator_costs(question: Question, plans: Plans, layout: TensorLayout) -> list[OperatorCosts]:
    """The operator table of a single plan with the time of each row.

    Parameters
    ----------
    question : Question
        What, on what, how.
    plans : Plans
        One deployment, shape (1,).
    layout : {'1d', '2d'}
        How weight matrices are cut.

    Returns
    -------
    list of OperatorCosts
        Rows that do anything, in the order of a step; their network times add up to the step's.
    """
    work = question.work(plans)
    found = []
    for operator in work.operators:
        roofline = operator_roofline(question, operator, work)
        compute, memory_seconds = (float(np.ravel(value)[0]) for value in (roofline.compute, roofline.memory))
        network = float(np.ravel(_communication(question, work, layout, [operator]))[0])
        if compute + memory_seconds + network == 0.0:
            continue
        found.append(
            OperatorCosts(
                operator.name,
                question.unit(operator.dtype),
                float(np.ravel(operator.repeats)[0]),
                compute * question.flops_per_second(operator.dtype),
                memory_seconds * question.bytes_per_second,
                compute,
                memory_seconds,
                network,
            )
        )
    return found


def operator_roofline(question: Question, operator: Operator, work: Work) -> Roofline:
    """Arithmetic and memory time of one row of the table, all its occurrences [s]."""
    rate = operator.repeats / question.bytes_per_second
    compute_rate = operator.repeats / question.flops_per_second(operator.dtype)
    return Roofline(
        np.asarray(operator.flop_per_token * compute_rate * work.tokens),
        np.asarray(operator.weight_bytes * rate),
        np.asarray(operator.activation_bytes_per_token * rate * work.tokens),
        np.asarray(operator.kv_bytes_per_sequence * rate * work.sequences),
    )


def _rooflines(question: Question, work: Work) -> list[Roofline]:
    """One roofline per operator, or a single one for the whole step."""
    each = [operator_roofline(question, operator, work) for operator in work.operators]
    if question.assumptions.overlap != "step":
        return each
    return [
        Roofline(
            *(
                np.asarray(sum(getattr(roofline, name) for roofline in each))
                for name in ("compute", "weights", "activations", "kv_cache")
            )
        )
    ]


def _overlapped(question: Question, work: Work) -> Array:
    if question.assumptions.overlap == "step":
        return _step_overlapped(question, work)
    rooflines = _rooflines(question, work)
    if question.assumptions.overlap == "none":
        return np.asarray(sum(roofline.compute + roofline.memory for roofline in rooflines))
    return np.asarray(sum(np.maximum(roofline.compute, roofline.memory) for roofline in rooflines))


def _step_overlapped(question: Question, work: Work) -> Array:
    """The longer of all arithmetic and all memory traffic, summed before the tokens are multiplied in."""
    per_token: Array | float = 0.0
    traffic: Array | float = 0.0
    fixed: Array | float = 0.0
    cached: Array | float = 0.0
    for operator in work.operators:
        rate = operator.repeats / question.flops_per_second(operator.dtype)
        per_token = per_token + operator.flop_per_token * rate
        traffic = traffic + operator.activation_bytes_per_token * operator.repeats
        fixed = fixed + operator.weight_bytes * operator.repeats
        cached = cached + operator.kv_bytes_per_sequence * operator.repeats
    moved = fixed + traffic * work.tokens + cached * work.sequences
    return np.maximum(per_token * work.tokens, moved / question.bytes_per_second)


def _communication(question: Question, work: Work, layout: TensorLayout, operators: Iterable[Operator]) -> Array:
    total = np.zeros(())
    for operator in operators:
        for collective in operator.collectives.get(layout, ()):
            repeats = operator.repeats * collective.repeats
            total = total + repeats * collective_seconds(
                question.hardware, question.assumptions.collectives, collective, work.tokens
            )
    return total


def launch_seconds(question: Question, work: Work) -> float:
    """Time to launch the kernels that a step waits for [s]."""
    return question.assumptions.launches_per_layer * work.layers * question.assumptions.launch


def mfu(question: Question, accelerators: npt.ArrayLike, batch: npt.ArrayLike, seconds: npt.ArrayLike) -> Array:
    """Time that the useful arithmetic would take at the theoretical peaks, over the time it takes [1].

    Parameters
    ----------
    question : Question
        What, on what, how; each operator counts against the peak of its own maths unit.
    accelerators, batch : array_like
        Instance and sequences [1], broadcastable to (...).
    seconds : array_like
        Time per token [s], broadcastable to (...).
    """
    peaks, one = _peaks(question.hardware), np.ones(())
    work = question.work(Plans(one, one, one, one, one))
    useful = sum(row.repeats * row.flop_per_token / peaks[question.unit(row.dtype)] for row in work.operators)
    return np.asarray(useful * np.asarray(batch) / (np.asarray(accelerators) * np.asarray(seconds)))
