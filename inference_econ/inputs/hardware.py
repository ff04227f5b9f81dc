"""Accelerators: datasheet facts and dated prices."""

from __future__ import annotations

from typing import Annotated, Literal

from inference_econ.inputs._spec import (
    AfterValidator,
    BytesPerSecond,
    Count,
    DollarsPerHour,
    Field,
    FlopsPerSecond,
    Memory,
    SourcedSpec,
    Spec,
    Watts,
    of_calendar,
)

PriceKind = Literal["on-demand", "reserved", "tco", "spot", "paper", "index", "estimate"]
Seller = Literal["neocloud", "hyperscaler", "marketplace", "survey"]
Date = Annotated[str, Field(pattern=r"^(\d{4}(-\d{2}(-\d{2})?)?|undated)$"), AfterValidator(of_calendar)]
#: Marks fields in which a higher value makes no result slower or more expensive.
HIGH_IS_GOOD = "high is good"
MathUnit = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]


class Price(Spec):
    """Price of one accelerator-hour, with date and source."""

    dollars_per_accelerator_hour: DollarsPerHour
    """Price of an accelerator-hour [USD/h]."""
    kind: PriceKind
    """Kind of price: on-demand, reserved or spot contract, total cost of ownership, index, estimate, or paper."""
    seller: Seller | None = None
    """Kind of seller or owner; absent if unknown.

    Prices are only compared with prices from the same kind of seller. A survey covers several sellers.
    """
    years: Count | None = None
    """Term of a reserved price [years]; absent if unknown."""
    date: Date
    """Date of observation (``2026-05``), or ``undated``."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Location inside the reference."""
    verified: bool = True
    """True if the price was read in the reference or in a transcription of it; false if another text quotes it."""


class PurchasePrice(Spec):
    """Purchase price of one accelerator, including its share of host and network."""

    dollars_per_accelerator: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    """Purchase price [USD]."""
    kind: Literal["quote", "estimate"]
    """Quote of a seller, or an estimate."""
    date: Date
    """Date of observation."""
    ref: str = Field(min_length=1)
    """Key of the reference in ``references.bib``."""
    where: str = Field(min_length=1)
    """Location inside the reference."""


class HardwareSpec(SourcedSpec):
    """Facts of one accelerator (GPU, TPU, LPU): peak rates of dense arithmetic, and link bandwidths in one direction.

    The cost model is valid for chips whose speed follows from their peak rates. Several advertised values must be
    converted first: peaks with sparsity, bidirectional link rates, values per core, and values of boards with several
    chips. Some unconverted values are detected and rejected.
    """

    extends: str | None = None
    """Chip that this file extends; missing fields are copied from that chip."""
    family: str = Field(pattern=r"^[a-z0-9_]+$")
    """Family of chips, for example ``h100``.

    Recipes, measurements, and assumptions for single families refer to this name.
    """
    generation: str = Field(pattern=r"^[a-z0-9_]+$")
    """Generation of chips that run the same kernels, for example ``hopper``. The generation determines the default
    profile and the supported engines. A chip of an unknown family is treated like other chips of its generation.
    """
    vendor: str
    """Manufacturer."""
    desk: bool = False
    """True for a desktop card or computer, which by default is used alone, with weights in a common file format."""
    year: int = Field(ge=2010, le=2040)
    """Launch year."""
    dense_flops_per_second: Annotated[dict[MathUnit, FlopsPerSecond], Field(min_length=1), HIGH_IS_GOOD]
    """Dense peak of each math unit of the chip [FLOP/s]. Formats without a math unit are absent."""
    two_to_four_sparsity: bool = False
    """True if the peaks that the vendor advertises include 2:4 sparsity.

    If true, the dense peak of fp8 must be twice the peak of 16-bit formats.
    """
    hbm_bytes: Annotated[Memory, HIGH_IS_GOOD]
    """Main memory available to programs [B]."""
    hbm_bytes_per_second: Annotated[BytesPerSecond, HIGH_IS_GOOD]
    """Main memory bandwidth [B/s]."""
    link_domain: Annotated[Count, HIGH_IS_GOOD]
    """Accelerators that the fast link connects: 8 in a machine, 72 in a rack."""
    link_bytes_per_second_one_way: Annotated[BytesPerSecond | None, HIGH_IS_GOOD] = None
    """Bandwidth of the fast link per accelerator in one direction [B/s]; absent without a fast link."""
    link_bytes_per_second_both_ways: BytesPerSecond | None = None
    """Bidirectional bandwidth of the fast link, as in the datasheet [B/s].

    The value is only used to check the bandwidth in one direction.
    """
    link_peers: Count | None = None
    """Number of chips to which each chip is wired directly [1].

    Direct links have equal shares of the link bandwidth. The field is absent if a switch connects the chips, because
    one peer can then use the full bandwidth.
    """
    nic_bytes_per_second_one_way: Annotated[BytesPerSecond | None, HIGH_IS_GOOD] = None
    """Network bandwidth between link domains per accelerator in one direction [B/s]; absent if unknown."""
    host_link_bytes_per_second_one_way: Annotated[BytesPerSecond | None, HIGH_IS_GOOD] = None
    """Bandwidth to host memory per accelerator in one direction [B/s]; absent if unknown."""
    watts: Watts | None = None
    """Board power, without host, NIC and cooling [W]."""
    power_cap: Annotated[Watts | None, HIGH_IS_GOOD] = None
    """Power cap that the user sets for the board, as with ``nvidia-smi --power-limit`` [W]."""
    rented_as: tuple[Count, ...] = Field(default=(), strict=False)
    """Accelerators per rentable machine, in ascending order; the last number is the full node [1].

    The tuple is empty if the numbers are unknown.
    """
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
