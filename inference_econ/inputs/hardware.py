"""Accelerators: datasheet facts and dated prices, nothing that two people could dispute."""

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
    """Price of one accelerator per hour, its date, and who said so."""

    dollars_per_accelerator_hour: DollarsPerHour
    """[USD/h]"""
    kind: PriceKind
    """Contract: on-demand, reserved, spot; the total cost of owning it (tco); an index, an estimate, or the value a
    paper used."""
    seller: Seller | None = None
    """Seller or owner: prices of one class are compared; a survey is of several sellers. Absent if unknown."""
    years: Count | None = None
    """Term of a reserved price [years]; absent if unknown."""
    date: Date
    """When it was seen: ``2026-05``, or ``undated``."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Where inside the reference."""
    verified: bool = True
    """Whether it was read in the reference, or a transcription of it; false of what is only said to stand there."""


class PurchasePrice(Spec):
    """Price of one accelerator that is bought, with its share of host and network."""

    dollars_per_accelerator: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    """[USD]"""
    kind: Literal["quote", "estimate"]
    """Of a seller, or of somebody who thinks so."""
    date: Date
    """When it was seen."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Where inside the reference."""


class HardwareSpec(SourcedSpec):
    """One accelerator (GPU, TPU, LPU), per chip, dense and one way.

    Valid for chips that can be described by peak rates. Never a marketing number: sparse peaks, bidirectional
    link rates, per-core values and multi-chip boards are refused where a rule can see them.
    """

    extends: str | None = None
    """Chip that this file changes; everything not written here is taken from it."""
    family: str = Field(pattern=r"^[a-z0-9_]+$")
    """Chips that recipes, measurements and exceptions of assumptions speak of together, for example ``h100``."""
    generation: str = Field(pattern=r"^[a-z0-9_]+$")
    """Chips that run the same kernels, for example ``hopper``: it decides which profile is assumed, which engines can
    start. A chip of a family that nobody speaks of is served as others of its generation are."""
    vendor: str
    """Maker."""
    desk: bool = False
    """A card or computer for a desk: one device by default, with weights in a file that people run there."""
    year: int = Field(ge=2010, le=2040)
    """Launch year."""
    dense_flops_per_second: Annotated[dict[MathUnit, FlopsPerSecond], Field(min_length=1)]
    """Dense peak of every maths unit the chip has [FLOP/s]; a format without a unit is absent."""
    two_to_four_sparsity: bool = False
    """The vendor's headline numbers include 2:4 sparsity, so that each halving of the width must double the peak."""
    hbm_bytes: Memory
    """Main memory that a program can use [B]."""
    hbm_bytes_per_second: BytesPerSecond
    """Main memory bandwidth [B/s]."""
    link_domain: Count
    """Accelerators that reach each other over the fast link (8 in a box, 72 in a rack)."""
    link_bytes_per_second_one_way: BytesPerSecond | None = None
    """Fast link, per accelerator, one direction [B/s]; absent if there is none."""
    link_bytes_per_second_both_ways: BytesPerSecond | None = None
    """Bandwidth of the link as the datasheet quotes it, both directions added [B/s]; only checked against one way."""
    link_peers: Count | None = None
    """Other chips that each chip shares its fast link among, an equal part wired to each (a full mesh); absent where
    a switch gives any one of them all of it [1]."""
    nic_bytes_per_second_one_way: BytesPerSecond | None = None
    """Network between domains, per accelerator, one direction [B/s]; absent if unknown."""
    host_link_bytes_per_second_one_way: BytesPerSecond | None = None
    """Link to the memory of the host, per accelerator, one direction [B/s]; absent if unknown."""
    watts: Watts | None = None
    """Board power [W], without host, NIC and cooling."""
    power_cap: Watts | None = None
    """Lower limit of the board power that its owner has set, as ``nvidia-smi --power-limit`` does [W]; a what-if."""
    rented_as: tuple[Count, ...] = Field(default=(), strict=False)
    """Accelerators of the machines that can be rented, ascending, the whole node last; empty if unknown [1]."""
    prices: tuple[Price, ...] = Field(default=(), strict=False)
    """Rental prices."""
    purchase: PurchasePrice | None = None
    """Price of buying it; absent if nobody was found who says."""

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
