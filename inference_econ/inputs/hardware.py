"""Accelerators: datasheet facts and dated prices, without assumptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._spec import (
    BytesPerSecond,
    Count,
    DollarsPerHour,
    FlopsPerSecond,
    Memory,
    SourcedSpec,
    Spec,
    Watts,
)

PriceKind = Literal["on-demand", "reserved", "tco", "spot", "paper", "index", "estimate"]
Seller = Literal["neocloud", "hyperscaler", "marketplace", "survey"]
Date = Annotated[str, Field(pattern=r"^(\d{4}(-\d{2}(-\d{2})?)?|undated)$")]
MathUnit = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]


class Price(Spec):
    """Price of one accelerator per hour, with its date and source."""

    dollars_per_accelerator_hour: DollarsPerHour
    """Price of an accelerator-hour [USD/h]."""
    kind: PriceKind
    """Contract: on-demand, reserved, spot; total cost of ownership (tco); an index, an estimate, or the value of a
    paper."""
    seller: Seller | None = None
    """Kind of seller or owner; only prices of one kind are compared. A survey covers several sellers. Absent if
    unknown."""
    years: Count | None = None
    """Term of a reserved price [years]; absent if unknown."""
    date: Date
    """Date of observation: ``2026-05``, or ``undated``."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Place inside the reference."""
    verified: bool = True
    """True if the price was read in the reference or a transcription of it; false for second-hand quotes."""


class PurchasePrice(Spec):
    """Purchase price of one accelerator with its share of host and network."""

    dollars_per_accelerator: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    """Purchase price [USD]."""
    kind: Literal["quote", "estimate"]
    """Quote of a seller, or estimate."""
    date: Date
    """Date of observation."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Place inside the reference."""


class HardwareSpec(SourcedSpec):
    """One accelerator (GPU, TPU, LPU): values per chip, for dense arithmetic and one link direction.

    Valid for chips that peak rates describe. Marketing numbers are rejected if a rule detects them: sparse peaks,
    bidirectional link rates, per-core values and multi-chip boards.
    """

    extends: str | None = None
    """Chip that this file extends; fields that are not given are copied from it."""
    family: str = Field(pattern=r"^[a-z0-9_]+$")
    """Family of chips in recipes, measurements and exceptions of assumptions, for example ``h100``."""
    generation: str = Field(pattern=r"^[a-z0-9_]+$")
    """Chips that run the same kernels, for example ``hopper``. It determines the default profile and the engines. Chips
    of an unknown family are treated as others of their generation."""
    vendor: str
    """Manufacturer."""
    desk: bool = False
    """Desktop card or computer: one device by default, with weights in a common file format."""
    year: int = Field(ge=2010, le=2040)
    """Launch year."""
    dense_flops_per_second: Annotated[dict[MathUnit, FlopsPerSecond], Field(min_length=1)]
    """Dense peak of every math unit of the chip [FLOP/s]; formats without a unit are absent."""
    two_to_four_sparsity: bool = False
    """The vendor's headline numbers include 2:4 sparsity, so each halving of the width must double the peak."""
    hbm_bytes: Memory
    """Main memory available to programs [B]."""
    hbm_bytes_per_second: BytesPerSecond
    """Main memory bandwidth [B/s]."""
    link_domain: Count
    """Accelerators connected by the fast link (8 in a machine, 72 in a rack)."""
    link_bytes_per_second_one_way: BytesPerSecond | None = None
    """Bandwidth of the fast link per accelerator in one direction [B/s]; absent if there is none."""
    link_bytes_per_second_both_ways: BytesPerSecond | None = None
    """Bandwidth of the link as in the datasheet, for both directions [B/s]; only checked against one direction."""
    link_peers: Count | None = None
    """Other chips that share the fast link of each chip, with an equal part wired to each (full mesh); absent with a
    switch, where one peer can use all of it [1]."""
    nic_bytes_per_second_one_way: BytesPerSecond | None = None
    """Network bandwidth between domains per accelerator in one direction [B/s]; absent if unknown."""
    host_link_bytes_per_second_one_way: BytesPerSecond | None = None
    """Bandwidth of the link to host memory per accelerator in one direction [B/s]; absent if unknown."""
    watts: Watts | None = None
    """Board power [W], without host, NIC and cooling."""
    power_cap: Watts | None = None
    """Power cap of the board, as set by ``nvidia-smi --power-limit`` [W]; a what-if."""
    rented_as: tuple[Count, ...] = Field(default=(), strict=False)
    """Accelerators of the rentable machines, ascending, the full node last; empty if unknown [1]."""
    prices: tuple[Price, ...] = Field(default=(), strict=False)
    """Rental prices."""
    purchase: PurchasePrice | None = None
    """Purchase price; absent if no source was found."""

    def _check_fields(self) -> None:
        peaks = self.dense_flops_per_second
        for narrow, wide in (("fp8", "bf16"), ("fp8", "fp16")):
            if not self.two_to_four_sparsity or narrow not in peaks or wide not in peaks:
                continue
            if abs(peaks[narrow] / peaks[wide] - 2) > 0.02:
                raise ValueError(
                    f"the dense peak of {narrow} must be twice that of {wide} on this chip, got "
                    f"{peaks[narrow]:g} and {peaks[wide]:g}; is one of them a sparse headline number? (For a what-if, "
                    "two_to_four_sparsity=false lifts this rule.)"
                )
        both, one_way = self.link_bytes_per_second_both_ways, self.link_bytes_per_second_one_way
        if both is not None and (one_way is None or abs(both / one_way - 2) > 0.01):
            raise ValueError(
                "link_bytes_per_second_one_way must be half of link_bytes_per_second_both_ways "
                f"({both:g} B/s), got {one_way if one_way is None else format(one_way, 'g')}; for a what-if change "
                "both, or leave out what both ways add up to (null)"
            )
        if self.link_domain > 1 and one_way is None:
            raise ValueError(f"link_domain is {self.link_domain}, so link_bytes_per_second_one_way is needed")
        if self.link_peers is not None and self.link_domain > self.link_peers + 1:
            raise ValueError(
                f"link_peers is {self.link_peers}, so a full mesh has at most {self.link_peers + 1} accelerators, got "
                f"link_domain {self.link_domain}; for a what-if of a switch leave link_peers out (null)"
            )
        pairs = zip(self.rented_as, self.rented_as[1:], strict=False)
        if any(larger <= smaller or larger % smaller for smaller, larger in pairs):
            raise ValueError(
                f"rented_as must be ascending sizes, each a multiple of the one before, got {list(self.rented_as)}; "
                "write for example [1, 2, 4, 8]"
            )
        if "fp16" in peaks and "bf16" in peaks and abs(peaks["fp16"] / peaks["bf16"] - 1) > 0.01:
            raise ValueError(
                f"the peaks of fp16 ({peaks['fp16']:g}) and bf16 ({peaks['bf16']:g}) differ: "
                "one of them is sparse, or accumulates in fp16"
            )
