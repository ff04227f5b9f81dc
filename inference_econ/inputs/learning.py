"""Opinions of a learner of rollouts: its efficiency, and how FLOP are counted."""

from __future__ import annotations

from pydantic import Field

from inference_econ.inputs._base import SourcedSpec


class Learning(SourcedSpec):
    """A learner that updates all weights of a model with trajectories."""

    mfu: float = Field(gt=0, le=1, allow_inf_nan=False)
    """Share of the dense 16-bit peak that it computes with, Model FLOP Utilisation [1]."""
    flop_per_parameter_and_token: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """For each parameter that a token uses, forwards and backwards [FLOP]."""
    state_bytes_per_parameter: float = Field(gt=0, le=1e3, allow_inf_nan=False)
    """Weights, gradients and the state of the optimiser, over all chips of the learner [B]."""
