"""Interface of :class:`.setup.Setup` for the modules on layouts, operator tables and memory."""

from __future__ import annotations

from typing import Protocol

from inference_econ.inputs import Assumptions, HardwareSpec, ModelSpec, Precision, ServingEngine


class Served(Protocol):
    """Model on a chip under a set of assumptions, which :class:`inference_econ.engine.setup.Setup` implements."""

    @property
    def model(self) -> ModelSpec: ...  # noqa: D102

    @property
    def hardware(self) -> HardwareSpec: ...  # noqa: D102

    @property
    def precision(self) -> Precision: ...  # noqa: D102

    @property
    def assumptions(self) -> Assumptions: ...  # noqa: D102

    @property
    def context(self) -> float: ...  # noqa: D102

    @property
    def spread(self) -> float: ...  # noqa: D102

    @property
    def shared_prefix(self) -> float: ...  # noqa: D102

    @property
    def engines(self) -> tuple[ServingEngine, ...]: ...  # noqa: D102

    @property
    def most_linked(self) -> int | None: ...  # noqa: D102
