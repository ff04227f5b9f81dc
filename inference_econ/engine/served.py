"""Values of a setup on which one engine step depends."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference_econ.inputs import Assumptions, Free, HardwareSpec, Mesh, ModelSpec, Precision, ServingEngine


@dataclass(frozen=True, slots=True)
class Served:
    """Model on a chip under a set of assumptions, without a price.

    :class:`inference_econ.engine.setup.Setup` documents the attributes. The modules on layouts, operator tables and
    memory, which a setup uses, need this part of the setup only.
    """

    model: ModelSpec
    hardware: HardwareSpec
    precision: Precision
    context: float
    assumptions: Assumptions
    spread: float = field(default=0.0, kw_only=True)
    shared_prefix: float = field(default=0.0, kw_only=True)
    engines: tuple[ServingEngine, ...] = field(default=(), kw_only=True)

    @property
    def most_linked(self) -> int | None:
        """Largest number of accelerators that the chip's network can connect [1]; None without a limit."""
        linked = self.hardware.nic_bytes_per_second_one_way is not None
        linked = linked or isinstance(self.assumptions.network.collectives, (Free, Mesh))
        return None if linked else self.hardware.link_domain
