"""Memory behind an accelerator's own: where caches of prompts can wait until they are used again."""

from __future__ import annotations

from inference_econ.inputs._base import BytesPerSecond, Fraction, Memory, Seconds, SourcedSpec


class TierSpec(SourcedSpec):
    """One kind of memory of the hosts, by accelerator. All of it is read over the link to the host."""

    bytes_per_accelerator: Memory
    """Capacity for caches [B]."""
    read_bytes_per_second: BytesPerSecond | None = None
    """Bandwidth of the memory itself to each accelerator [B/s]; absent if the link to the host is slower."""
    link_efficiency: Fraction
    """Sustained share of the link to the host [1]."""
    access: Seconds
    """From asking to the first byte [s]."""
