"""Sustained rates of a chip's kernels under given assumptions, and fixed times per kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine import memory
from inference_econ.engine.operators.table import Operator, OperatorKind, Rates
from inference_econ.engine.operators.work import Work
from inference_econ.formulas.kernels import carried_share
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Assumptions,
    DenseKernel,
    ExpertKernel,
    HardwareSpec,
    Precision,
    catalog,
    math_unit,
    math_units,
)

_SIXTEEN_BIT = ("bf16", "fp16")
#: Number of times that 16 bits are halved to get the width of each narrow number format [1].
_HALVINGS = {"fp8": 1, "int8": 1, "fp4": 2, "int4": 2}


@dataclass(frozen=True, slots=True)
class ChipRates:
    """Sustained rates of one chip's kernels in given number formats, and number of kernels per operator."""

    hardware: HardwareSpec
    precision: Precision
    assumptions: Assumptions
    _units: dict[tuple[str, OperatorKind], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _rates: dict[tuple[str, OperatorKind], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def peaks(self) -> Mapping[str, float]:
        """Dense peak rate of each math unit of the chip [FLOP/s]."""
        return cast("Mapping[str, float]", self.hardware.dense_flops_per_second)

    def unit(self, dtype: str, kind: OperatorKind = "dense") -> str:
        """Math unit that multiplies by weights of format ``dtype``, or that computes attention scores."""
        unit = self._units.get((dtype, kind))
        if unit is None:
            unit = self._units[dtype, kind] = self._unit(dtype, kind)
        return unit

    def _unit(self, dtype: str, kind: OperatorKind) -> str:
        peaks, follows, activations = self.peaks, self.assumptions.chip.math_unit_follows, self.precision.activations
        if follows == "fastest":
            units = (*math_units(dtype, peaks), *math_units(activations, peaks))
            unit = max(units, key=peaks.__getitem__)
            # Attention scores multiply the KV cache, but the study of Erdil (2025) runs this product on the math unit
            # of the weights.
            return unit if kind != "scores" else max(unit, self.unit(self.precision.attention), key=peaks.__getitem__)
        unit = math_unit(dtype, peaks, self.hardware.name)
        widened = follows == "widest" or (follows == "engines" and BYTES_PER_ELEMENT[dtype] < 1 and unit != "fp4")
        if widened and BYTES_PER_ELEMENT[dtype] < BYTES_PER_ELEMENT[activations]:
            return math_unit(activations, peaks, self.hardware.name)
        return unit

    def operator_unit(self, operator: Operator) -> str:
        """Math unit on which an operator runs."""
        return self.unit(operator.dtype, "dense" if operator.rates is not None else operator.kind)

    def operator_flops_per_second(self, operator: Operator) -> Array | float:
        """Sustained arithmetic rate of an operator [FLOP/s]."""
        rates = operator.rates
        if rates is None:
            return self.flops_per_second(operator.dtype, operator.kind)
        share = np.minimum(rates.math * self._kernel_efficiency(operator.kind), 1.0)
        carried = self._carried(operator.dtype, rates.vendor, rates.unit_share, rates.per_vector)
        bound = operator.padding * self.flops_per_second(operator.dtype) / rates.dense_padding
        return np.maximum(self.peaks[self.unit(operator.dtype)] * share / carried, bound)

    def flops_per_second(self, dtype: str, kind: OperatorKind = "dense") -> float:
        """Sustained arithmetic rate of one kind of operator with weights of format ``dtype`` [FLOP/s]."""
        rate = self._rates.get((dtype, kind))
        if rate is None:
            rate = self._rates[dtype, kind] = self._flops_per_second(dtype, kind)
        return rate

    def _flops_per_second(self, dtype: str, kind: OperatorKind) -> float:
        assumed, kernel = self.assumptions, self.kernel(dtype, kind)
        if kernel is not None:
            share = min(kernel.math_efficiency * self._kernel_efficiency(kind), 1.0)
            rate = self.peaks[self.unit(dtype)] * share
            if kernel.unit is None or kind == "experts":
                # The efficiency of experts depends on the matrix shape, and so does the correction for this chip.
                return rate
            there, alone = kernel.unit, min(kernel.math_efficiency / kernel.unit.efficiency, 1.0)
            return rate / float(self._carried(dtype, there.vendor, alone, there.per_vector))
        shares = {"scores": assumed.attention.math_efficiency, "experts": assumed.experts.math_efficiency}
        unit = self.unit(dtype, kind)
        narrow = assumed.chip.narrow_math_efficiency ** _HALVINGS.get(unit, 0)
        return self.peaks[unit] * (shares.get(kind) or assumed.chip.math_efficiency) * narrow

    def _carried(self, dtype: str, vendor: str, unit_share: Array | float, per_vector: Array | float) -> Array | float:
        """Arithmetic time on this chip, divided by the time at the measured chips' share of peak [1]."""
        vector = self.peaks.get("fp32")
        if vector is None or vendor != self.hardware.vendor:
            return 1.0
        return carried_share(unit_share, self.peaks[self.unit(dtype)] / vector / per_vector)

    def _kernel_efficiency(self, kind: OperatorKind) -> float:
        """Efficiency of kernels in a server, divided by their efficiency in isolated kernel benchmarks [1]."""
        assumed = self.assumptions
        if kind == "scores":
            return assumed.attention.score_efficiency
        return assumed.experts.kernel_efficiency if kind == "experts" else assumed.chip.product_efficiency

    def kernel(self, dtype: str, kind: OperatorKind) -> DenseKernel | ExpertKernel | None:
        """Measured kernels that multiply by weights of format ``dtype``; None for attention scores."""
        if kind == "dense":
            return self.assumptions.chip.product(dtype)
        return self.assumptions.experts.kernel(dtype) if kind == "experts" else None

    @property
    def bytes_per_second(self) -> float:
        """Sustained memory bandwidth for dense weights and activations [B/s]."""
        return self.hardware.hbm_bytes_per_second * self.assumptions.chip.hbm_efficiency

    def weight_bytes_per_second(
        self, dtype: str, kind: OperatorKind = "dense", rates: Rates | None = None
    ) -> Array | float:
        """Sustained memory bandwidth for weights of a number format, in one kind of operator [B/s].

        ``rates`` are the measured efficiencies of the operator, or None. These efficiencies apply only to experts.
        """
        assumed, kernel = self.assumptions, self.kernel(dtype, kind)
        share: Array | float
        if rates is not None and kind == "experts":
            share = np.minimum(rates.memory * self._kernel_efficiency(kind), 1.0)
            if assumed.experts.dense_bound:
                share = np.maximum(share, self.weight_bytes_per_second(dtype) / self.hardware.hbm_bytes_per_second)
        elif kernel is not None:
            share = min(kernel.hbm_efficiency * self._kernel_efficiency(kind), 1.0)
        else:
            share = (assumed.experts.hbm_efficiency if kind == "experts" else None) or assumed.chip.hbm_efficiency
            widened = assumed.chip.widened_efficiency
            if widened < 1.0 and BYTES_PER_ELEMENT[dtype] < 1.5 and self.unit(dtype) in _SIXTEEN_BIT:
                share *= widened
        return self.hardware.hbm_bytes_per_second * share

    def kv_bytes_per_second(self, operator: Operator) -> float:
        """Sustained memory bandwidth at which an operator reads the KV cache or recurrent states [B/s]."""
        assumed = self.assumptions
        share = assumed.attention.kv_hbm_efficiency or assumed.chip.hbm_efficiency
        if operator.rates is not None and operator.kind == "scores":
            share = min(float(operator.rates.memory) * self._kernel_efficiency("scores"), 1.0)
        return self.hardware.hbm_bytes_per_second * share

    @property
    def host_bytes_per_second(self) -> float:
        """Sustained bandwidth from host memory to each accelerator [B/s]; 0 without a host link."""
        link = self.hardware.host_link_bytes_per_second_one_way or 0.0
        tier = memory.host_memory(self.assumptions.capacity.host_memory)
        return min(link * tier.link_efficiency, tier.read_bytes_per_second or math.inf)

    def shown(self, operator: Operator) -> Array | float:
        """Share of the shorter of arithmetic and memory time that does not overlap with the longer time [1]."""
        assumed = self.assumptions
        if assumed.chip.overlap != "operator":
            return 1.0 if assumed.chip.overlap == "none" else 0.0
        rates = operator.rates or self.kernel(operator.dtype, operator.kind)
        if rates is not None:
            return 1.0 - rates.overlap
        return 1.0 - assumed.experts.overlap if operator.kind == "experts" else 0.0

    def kernels(self, operator: Operator, work: Work) -> Array | float:
        """Number of kernels per occurrence of an operator [1]: from the assumed engine, or the operator's default."""
        multiplies = operator.kind != "scores" and not isinstance(operator.weight_bytes, float)
        narrow = self.precision.activations in _SIXTEEN_BIT and self.unit(operator.dtype) not in (*_SIXTEEN_BIT, "fp32")
        # If the math unit has a format below 16 bits, an additional kernel quantizes the 16-bit activations.
        kernels: Array | float = operator.launches + (1.0 if multiplies and narrow else 0.0)
        engine, generation = self.assumptions.host.engine, self.hardware.generation
        if engine is None:
            return kernels
        for count in catalog.kernel_counts(engine, operator.part, operator.dtype, operator.mixer, generation):
            counted = count.kernels * operator.parts
            kernels = np.where(work.summed, counted, kernels) if count.summed else counted
        return kernels

    def fixed_seconds(self, operator: Operator, work: Work) -> Array | float:
        """Fixed time of an operator's kernels on the chip, per occurrence of the operator, in CUDA graphs [s]."""
        assumed = self.assumptions
        latent_launch = assumed.attention.latent_graph_launch if operator.attention == "latent" else None
        return self.kernels(operator, work) * (assumed.host.graph_launch if latent_launch is None else latent_launch)


#: Cached :class:`ChipRates` of a chip, formats and assumptions.
chip_rates = by_identity(ChipRates)
