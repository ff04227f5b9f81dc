"""Seconds of a step: the operator table reduced under a set of assumptions (floor 5)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from inference_econ import memory
from inference_econ.errors import InputError
from inference_econ.formulas import collectives as nccl
from inference_econ.plans import Plans
from inference_econ.spec.assumptions import Assumptions, Free, Mesh, NcclTree, TensorLayout
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
            math_unit(dtype, _peaks(hardware), hardware.name)
        return cls(model, hardware, precision, context, assumptions.for_family(hardware.family))

    def work(self, plans: Plans) -> Work:
        """The operator table of these plans."""
        return decode_work(self.model, self.precision, plans, self.context, self.hardware.link_domain, self.assumptions)

    def unit(self, dtype: str) -> str:
        """The maths unit that a matrix product with weights of ``dtype`` runs on."""
        widest = dtype
        if self.assumptions.math_unit_follows == "widest":
            widest = max((dtype, self.precision.activations), key=BYTES_PER_ELEMENT.__getitem__)
        return math_unit(widest, _peaks(self.hardware), self.hardware.name)

    def flops_per_second(self, dtype: str) -> float:
        """Sustained arithmetic rate for weights of ``dtype`` [FLOP/s]."""
        return _peaks(self.hardware)[self.unit(dtype)] * self.assumptions.math_efficiency

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

    def could_fit(self, plans: Plans, reserved_bytes: float = 0.0) -> npt.NDArray[np.bool_]:
        """Whether memory and depth allow the plans, whatever the layout; broadcastable to ``plans.shape``."""
        return memory.could_fit(self.memory(plans, reserved_bytes), plans)

    def reasons(self, plans: Plans, layout: TensorLayout, reserved_bytes: float = 0.0) -> npt.NDArray[np.intp]:
        """Why each plan cannot run: codes of :data:`inference_econ.memory.REASONS`."""
        unreachable = self.hardware.nic_bytes_per_second_one_way is None
        unreachable = unreachable and not isinstance(self.assumptions.collectives, (Free, Mesh))
        limit = self.hardware.link_domain if unreachable else None
        return memory.reasons(self.model, self.memory(plans, reserved_bytes), plans, layout, limit)


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
class _Roofline:
    """Arithmetic and memory seconds of all operators, or of one."""

    compute: Array
    weights: Array
    activations: Array
    kv_cache: Array

    @property
    def memory(self) -> Array:
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
    alone = _overlapped(question, work) + _launch_seconds(question, work)
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
            time = collective_parts(question, collective, work.tokens)
            repeats = operator.repeats * collective.repeats
            if collective.kind == "point_to_point":
                parts["pipeline"] += repeats * (time.latency_seconds + time.bandwidth_seconds)
            else:
                parts[f"{collective.kind}_latency"] += repeats * time.latency_seconds
                parts[f"{collective.kind}_bandwidth"] += repeats * time.bandwidth_seconds
    parts["launches"] += _launch_seconds(question, work)
    return StepCosts(np.sum(list(parts.values()), axis=0), parts, busy)


def lower_bound(question: Question, plans: Plans, attention_floor: Array | float = 0.0) -> Array:
    """A time that these instances cannot beat, wherever their attention runs [s].

    Parameters
    ----------
    question : Question
        What, on what, how.
    plans : Plans
        Instances with attention on every chip of a stage, shape (...).
    attention_floor : ndarray, shape (sums, ...)
        From :func:`attention_floor` [s].

    Returns
    -------
    ndarray, broadcastable to (...)
        :func:`step_seconds` without the communication of attention, or with the floor for all of attention,
        whichever is more. Attention on fewer chips only adds work to either.
    """
    work = question.work(plans)
    communication = _least_communication(question, work, work, on_attention_ranks=False)
    return _bound(question, work, communication, attention_floor)


def attention_floor(question: Question, variants: Plans, largest: Plans | None = None) -> Array:
    """Least time for attention over the variants of some instances [s].

    Parameters
    ----------
    question : Question
        What, on what, how.
    variants : Plans
        Shape (variants, ...). The floor holds for larger micro-batches too: no part of it falls with them.
    largest : Plans, optional
        The floor shall hold for all stages from those of ``variants`` to these, of the same shape.

    Returns
    -------
    ndarray, shape (sums, ...)
        Work and communication [s], one row for each sum that bounds the work of a step: arithmetic and
        memory traffic under ``overlap: step``, otherwise a single one.
    """
    small = question.work(variants)
    large = small if largest is None else question.work(largest)
    communication = _least_communication(question, small, large, on_attention_ranks=True)
    sums = _sums(question, large, [operator for operator in large.operators if operator.on_attention_ranks])
    return np.stack([(work + communication).min(axis=0) for work in sums])


def range_bound(question: Question, smallest: Plans, largest: Plans, attention_floor: Array | float = 0.0) -> Array:
    """A time that no instance in a range of stages beats, with these or larger micro-batches [s].

    Parameters
    ----------
    question : Question
        What, on what, how.
    smallest, largest : Plans
        Unpipelined, attention on every chip, equal batches, shape (...). All plans that have this or a larger
        micro-batch and a stage between the two are meant, whatever their depth. Where expert parallelism starts
        at some micro-batch, larger ones than that are not meant for ranges that begin below it.
    attention_floor : ndarray, shape (sums, ...)
        From :func:`attention_floor` for the same range [s].

    Returns
    -------
    ndarray, broadcastable to (...)
        Work per chip falls with the chips, and the ranks of a collective grow with them.
    """
    large = question.work(largest)
    communication = _least_communication(question, question.work(smallest), large, on_attention_ranks=False)
    return _bound(question, large, communication, attention_floor)


def _bound(question: Question, work: Work, communication: Array, attention: Array | float) -> Array:
    sums = _sums(question, work, work.operators)
    elsewhere = _sums(question, work, _elsewhere(work))
    floors = np.broadcast_to(attention, (len(sums), *np.shape(attention)[1:]))
    for everything, other, floor in zip(list(sums), elsewhere, floors, strict=True):
        sums.append(np.maximum(everything, other + floor))
    return np.asarray(functools.reduce(np.maximum, sums) + communication + _launch_seconds(question, work))


def _elsewhere(work: Work) -> list[Operator]:
    return [operator for operator in work.operators if not operator.on_attention_ranks]


def _sums(question: Question, work: Work, operators: Iterable[Operator]) -> list[Array]:
    """Work of some operators, summed in each way that bounds the work of a step; the largest is the step's."""
    rooflines = [_operator_roofline(question, operator, work) for operator in operators]
    if question.assumptions.overlap == "step":
        each = [[roofline.compute, roofline.memory] for roofline in rooflines]
    elif question.assumptions.overlap == "none":
        each = [[roofline.compute + roofline.memory] for roofline in rooflines]
    else:
        each = [[np.maximum(roofline.compute, roofline.memory)] for roofline in rooflines]
    return [np.asarray(sum(column)) for column in zip(*each, strict=True)]


def _least_communication(question: Question, small: Work, large: Work, *, on_attention_ranks: bool) -> Array:
    """Communication over a range of stages, of attention or of everything else, in the better cut."""
    totals = []
    for layout in question.assumptions.tensor_layouts:
        total = np.zeros(())
        for low, high in zip(small.operators, large.operators, strict=True):
            if low.on_attention_ranks == on_attention_ranks:
                pairs = zip(low.collectives.get(layout, ()), high.collectives.get(layout, ()), strict=True)
                for first, last in pairs:
                    repeats = low.repeats * first.repeats
                    total = total + repeats * _collective_floor(question, first, last, small.tokens)
        totals.append(total)
    return functools.reduce(np.minimum, totals)


def _collective_floor(question: Question, first: Collective, last: Collective, tokens: Array) -> Array:
    """Time that a collective between two sizes does not beat; its tensor per group never grows with the ranks."""
    model, hardware = question.assumptions.collectives, question.hardware
    if not isinstance(model, NcclTree):
        least = Collective(first.kind, first.ranks, first.domains, last.bytes_per_token)
        return _collective_seconds(question, least, tokens)
    ranks, domains = (first.ranks, last.ranks), (first.domains, last.domains)
    seconds_per_byte = nccl.transfer_seconds_per_byte_floor(
        ranks,
        domains,
        hardware.link_bytes_per_second_one_way or np.inf,
        hardware.nic_bytes_per_second_one_way or np.inf,
        overlap=model.domains_overlap,
    )
    size = last.bytes_per_token * tokens
    return nccl.nccl_floor(first.kind, ranks, domains, size, _protocols(model), seconds_per_byte)


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


def _communication(question: Question, work: Work, layout: TensorLayout, operators: Iterable[Operator]) -> Array:
    total = np.zeros(())
    for operator in operators:
        for collective in operator.collectives.get(layout, ()):
            repeats = operator.repeats * collective.repeats
            total = total + repeats * _collective_seconds(question, collective, work.tokens)
    return total


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
            raise InputError(
                f"{hardware.name} lists no link, so its mesh collectives cannot be timed; "
                "set hardware.link_bytes_per_second_one_way"
            )
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
        nccl.Protocol(
            name, constants.base, constants.per_rank, constants.per_domain_doubling, constants.bandwidth_factor
        )
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
    work = question.work(Plans(one, one, one, one, one))
    return float(sum(operator.repeats * operator.flop_per_token for operator in work.operators))
