"""Where a number comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inference_econ.inputs._spec import Spec

SourceKind = Literal["measured", "published", "derived", "assumed", "what_if"]


class Source(Spec):
    """The origin of one field of a specification."""

    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``, or ``user`` for a value given on the command line."""
    where: str = Field(min_length=1)
    """Page, table, field or file inside the reference, and how the value was derived from it."""
    kind: SourceKind
    """How sure it is: measured by somebody, published by the vendor, derived by a formula, or assumed;
    or a what-if, set for one question."""
