"""What kernels sustain of the datasheet, as curves with few constants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Fraction, Spec

Extra = Annotated[int | float, Field(ge=0, le=1e5, allow_inf_nan=False)]


class DenseKernel(Spec):
    """Products with large matrices of one format, which every token passes."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's maths unit that products with many rows reach [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which the matrix is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and memory traffic that hides behind the longer [1]."""


class ExpertKernel(Spec):
    """Products of routed experts with weights of one format: :mod:`inference_econ.formulas.grouped_matmul`."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's maths unit that large products of many tokens reach [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which weights of touched experts are read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and weight reads that hides behind the longer [1]."""
    extra_tokens: Extra
    """What a touched expert costs beside its tokens: the empty part of its last tile [tokens]."""
    extra_elements: Extra
    """What a product costs beside its width and depth on one chip: small cuts of an expert are slow [1]."""
    passes: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)]
    """Times that inputs and outputs are moved, beside the products and not behind them: tokens are gathered by
    expert, quantised and added up by kernels of their own [1]."""
