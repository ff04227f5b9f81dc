"""What is asked of a server: lengths of prompts and answers, and how much of it there is."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from inference_econ.spec._base import Spec

Tokens = Annotated[int | float, Field(ge=0, allow_inf_nan=False)]


class Traffic(Spec):
    """Requests of one shape.

    Give either ``context`` (every sequence at that length, as in published studies) or
    ``isl`` and ``osl``; a decode step then sees the mean length ``isl + osl / 2``.

    Examples
    --------
    >>> Traffic(isl=2000, osl=500).mean_context
    2250.0
    """

    isl: Tokens | None = None
    """Input sequence length [tokens]."""
    osl: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Output sequence length [tokens]."""
    context: Tokens | None = None
    """Tokens already in the KV cache at a decode step [tokens]."""
    max_tokens_per_second: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Demand: an instance cannot sell more output tokens per second than this [tokens/s]."""

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        if self.context is None and (self.isl is None or self.osl is None):
            raise ValueError("give context, or both isl and osl")
        if self.context is not None and (self.isl is not None or self.osl is not None):
            raise ValueError("give either context, or isl and osl, not both")
        return self

    @property
    def mean_context(self) -> float:
        """Mean number of cached tokens during decode [tokens]."""
        if self.context is not None:
            return float(self.context)
        assert self.isl is not None and self.osl is not None
        return self.isl + self.osl / 2
