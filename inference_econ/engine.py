"""Seconds of a step: the operator table reduced under a set of assumptions (floor 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ import memory
from inference_econ.errors import InputError
from inference_econ.formulas import collectives as nccl
from inference_econ.plans import Plans
from inference_econ.spec.assumptions import Assumptions, Free, Mesh, NcclTree
from inference_econ.spec.dtype import BYTES_PER_ELEMENT, math_unit
from inference_econ.spec.hardware import HardwareSpec
from inference_econ.spec.model import ModelSpec
from inference_econ.work import Collective, Operator, Precision, Work, decode_work

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
        for dtype in (precision.weights, precision.experts, precision.activations):
            math_unit(dtype, hardware.dense_flops_per_second, hardware.name)
        return cls(model, hardware, precision, context, assumptions.for_family(hardware.family))

    def work(self, plans: Plans) -> Work:
        """The operator table of these plans."""
        return decode_work(
            self.model, self.precision, plans, self.context, self.hardware.link_domain, self.assumptions
        )

    def unit(self, dtype: str) -> str:
        """The maths unit that a matrix product with weights of ``dtype`` runs on."""
        widest = dtype
        if self.assumptions.math_unit_follows == "widest":
            widest = max((dtype, self.precision.activations), key=BYTES_PER_ELEMENT.__getitem__)
        return math_unit(widest, self.hardware.dense_flops_per_second, self.hardware.name)

    def flops_per_second(self, dtype: str) -> float:
        """Sustained arithmetic rate for weights of ``dtype`` [FLOP/s]."""
        return self.hardware.dense_flops_per_second[self.unit(dtype)] * self.assumptions.math_efficiency  # type: ignore[index]

    @property
    def bytes_per_second(self) -> float:
        """Sustained memory bandwidth [B/s]."""
        return self.hardware.hbm_bytes_per_second * self.assumptions.hbm_efficiency

    def memory(self, plans: Plans, reserved_bytes: float = 0.0) -> memory.Memory:
        """What the plans need and have."""
        return memory.need(
            self.model,
            self.precision,
            plans,
            self.context,
            self.hardware.hbm_bytes,
            self.assumptions,
            reserved_bytes,
        )

    def reasons(self, plans: Plans, reserved_bytes: float = 0.0) -> npt.NDArray[np.int8]:
        """Why each plan cannot run: codes of :data:`inference_econ.memory.REASONS`."""
        unreachable = self.hardware.nic_bytes_per_second_one_way is None
        unreachable = unreachable and not isinstance(self.assumptions.collectives, (Free, Mesh))
        limit = self.hardware.link_domain if unreachable else None
        return memory.reasons(self.model, self.memory(plans, reserved_bytes), plans, limit)


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
class _Roofline:
    """Arithmetic and memory seconds of all operators, or of one."""

    compute: Array
    weights: Array
    activations: Array
    kv_cache: Array

    @property
    def memory(self) -> Array:
        return self.weights + self.activations + self.kv_cache


def step_seconds(question: Question, plans: Plans) -> Array:
    """Total time of a step for every plan, feasible or not [s], shape ``plans.shape``.

    Notes
    -----
    Eq. (29) of Erdil (2025) under ``overlap: step``; the same table is summed in other orders
    under ``operator`` (an ordinary roofline per operator) and ``none``.
    """
    work = question.work(plans)
    total = _overlapped(question, work) + _launch_seconds(question, work)
    for operator in work.operators:
        for collective in operator.collectives:
            repeats = operator.repeats * collective.repeats
            total = total + repeats * _collective_seconds(question, collective, work.tokens)
    return np.broadcast_to(total, plans.shape)


def evaluate(question: Question, plans: Plans) -> StepCosts:
    """Time of a step in its parts; the total equals :func:`step_seconds`.

    Parameters
    ----------
    question : Question
        What, on what, how.
    plans : Plans
        Deployments, shape (...).

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
        for collective in operator.collectives:
            time = collective_parts(question, collective, work.tokens)
            repeats = operator.repeats * collective.repeats
            if collective.kind == "point_to_point":
                parts["pipeline"] += repeats * (time.latency_seconds + time.bandwidth_seconds)
            else:
                parts[f"{collective.kind}_latency"] += repeats * time.latency_seconds
                parts[f"{collective.kind}_bandwidth"] += repeats * time.bandwidth_seconds
    parts["launches"] += _launch_seconds(question, work)
    return StepCosts(np.sum(list(parts.values()), axis=0), parts, busy)


def lower_bound(question: Question, accelerators: Array, batch: Array, pp: Array, new_tokens: int) -> Array:
    """A time that no layout of these instances can beat [s]: all chips at work, communication free.

    Valid because attention on fewer chips only adds work, and communication only adds time.
    """
    assumptions = question.assumptions.model_copy(update={"collectives": Free(kind="free")})
    free = Question(question.model, question.hardware, question.precision, question.context, assumptions)
    plans = Plans(accelerators, batch, pp, accelerators / pp, None, "1d", new_tokens)
    return step_seconds(free, plans)


def _operator_roofline(question: Question, operator: Operator, work: Work) -> _Roofline:
    rate = operator.repeats / question.bytes_per_second
    compute_rate = operator.repeats / question.flops_per_second(operator.dtype)
    return _Roofline(
        np.asarray(operator.flop_per_token * compute_rate * work.tokens),
        np.asarray(operator.weight_bytes * rate),
        np.asarray(operator.activation_bytes_per_token * rate * work.tokens),
        np.asarray(operator.kv_bytes_per_sequence * rate * work.sequences),
    )


def _rooflines(question: Question, work: Work) -> list[_Roofline]:
    """One roofline per operator, or a single one for the whole step."""
    each = [_operator_roofline(question, operator, work) for operator in work.operators]
    if question.assumptions.overlap != "step":
        return each
    return [
        _Roofline(
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


def _launch_seconds(question: Question, work: Work) -> float:
    return question.assumptions.launches_per_layer * work.layers * question.assumptions.launch


def _collective_seconds(question: Question, collective: Collective, tokens: Array) -> Array:
    model = question.assumptions.collectives
    if isinstance(model, NcclTree):
        return nccl.nccl_seconds(
            collective.kind,
            collective.ranks,
            collective.domains,
            collective.bytes_per_token * tokens,
            _protocols(model),
            _seconds_per_byte(question.hardware, collective, model),
        )
    time = collective_parts(question, collective, tokens)
    return time.latency_seconds + time.bandwidth_seconds


def collective_parts(question: Question, collective: Collective, tokens: Array) -> nccl.CollectiveTime:
    """Latency and transfer time of one collective of the table [s]."""
    model, hardware = question.assumptions.collectives, question.hardware
    size = collective.bytes_per_token * tokens
    if isinstance(model, Free):
        nothing = np.zeros(np.broadcast_shapes(np.shape(size), np.shape(collective.ranks)))
        return nccl.CollectiveTime(nothing, nothing, nothing.astype(np.intp))
    if isinstance(model, Mesh):
        bandwidth = hardware.link_bytes_per_second_one_way or hardware.nic_bytes_per_second_one_way
        if bandwidth is None:
            raise InputError(f"{hardware.name} lists no link, so its mesh collectives cannot be timed; "
                             "set hardware.link_bytes_per_second_one_way")
        return nccl.mesh_parts(collective.kind, collective.ranks, size, model.hop, bandwidth)
    return nccl.nccl_parts(
        collective.kind,
        collective.ranks,
        collective.domains,
        size,
        _protocols(model),
        _seconds_per_byte(hardware, collective, model),
    )


def _protocols(model: NcclTree) -> list[nccl.Protocol]:
    return [
        nccl.Protocol(name, constants.base, constants.per_rank, constants.per_domain_doubling, constants.bandwidth_factor)
        for name, constants in model.protocols.items()
    ]


def _seconds_per_byte(hardware: HardwareSpec, collective: Collective, model: NcclTree) -> Array:
    """A missing link counts as infinitely fast: plans that would need it are infeasible."""
    return nccl.transfer_seconds_per_byte(
        collective.ranks,
        collective.domains,
        hardware.link_bytes_per_second_one_way or np.inf,
        hardware.nic_bytes_per_second_one_way or np.inf,
        overlap=model.domains_overlap,
    )


def useful_flop_per_token(question: Question) -> float:
    """Arithmetic of one token on a single chip, nothing done twice [FLOP]."""
    one = np.ones(())
    work = question.work(Plans(one, one, one, one, one, "1d"))
    return float(sum(operator.repeats * operator.flop_per_token for operator in work.operators))
