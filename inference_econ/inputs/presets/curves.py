"""Efficiencies of kernels as curves that are fitted to measurements.

Each curve has a few constants, which are relative to datasheet values.
"""

from __future__ import annotations

from typing import Annotated, Literal

from inference_econ.inputs._spec import Bytes, Count, Dtype, Field, Fraction, Seconds, Spec

Extra = Annotated[int | float, Field(ge=0, le=1e5, allow_inf_nan=False)]


class MathUnit(Spec):
    """Math unit of the chips on which a curve was measured (:func:`inference_econ.formulas.kernels.carried_share`)."""

    efficiency: Fraction
    """Share of its peak that the math unit sustains if nothing else limits the kernel [1]."""
    vendor: str = Field(min_length=1)
    """Vendor of the chips. Kernels of other vendors are assumed to sustain the same share of peak."""
    per_vector: Annotated[int | float, Field(gt=0, le=1e4, allow_inf_nan=False)]
    """Peak of the math unit divided by the peak of fp32 arithmetic on the same chip [1]."""


class DenseKernel(Spec):
    """Kernel for products of tokens with a dense matrix in one weight format."""

    math_efficiency: Fraction
    """Sustained share of the dense peak in products with many rows [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth when the matrix is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Overlap of arithmetic and memory reads, as a share of the shorter of the two times [1]."""
    unit: MathUnit | None = None
    """Math unit of the measured chips; if absent, the sustained share of peak is equal on all chips."""


class GroupedKernel(Spec):
    """Kernel for products of tokens with routed experts in one weight format.

    The model is in :mod:`inference_econ.formulas.grouped_matmul`.
    """

    math_efficiency: Fraction
    """Sustained share of the dense peak in large products of many tokens [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth when the weights of the experts in a batch are read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Overlap of arithmetic and weight reads, as a share of the shorter of the two times [1]."""
    extra_tokens: Extra
    """Overhead of each expert in a batch, expressed in additional tokens; the overhead represents the partly empty last
    tile [tokens]."""
    extra_elements: Extra
    """Overhead of a product, expressed in additional elements of the matrix's width and depth on one chip [1].

    The overhead slows down small slices of experts.
    """
    passes: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)]
    """Number of times that separate kernels (sort, quantize, sum) read and write the inputs and outputs [1]."""
    unit: MathUnit | None = None
    """Math unit of the measured chips; if absent, the sustained share of peak is equal on all chips."""


class ExchangedKernels(Spec):
    """Expert kernels for tokens from an all-to-all, which are already sorted by expert."""

    prompts: GroupedKernel
    """Kernel of prefill steps."""
    decode: GroupedKernel
    """Kernel of decode steps.

    Buffers fit the maximum number of tokens per expert, but only actual tokens are computed.
    """


class ExpertKernel(GroupedKernel):
    """Kernel of an engine for routed experts in one weight format."""

    exchanged: ExchangedKernels | None = None
    """Kernels with data-parallel attention; absent if data-parallel attention does not change the kernels."""


class DecodeScores(Spec):
    """Decode attention: one or a few new tokens per sequence attend to the cache."""

    math_efficiency: Fraction
    """Sustained share of the dense peak if many query heads share each cached vector [1]."""
    hbm_efficiency: Fraction
    """Sustained share of the memory bandwidth when the cache is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Overlap of arithmetic and memory reads, as a share of the shorter of the two times [1]."""
    extra_tokens: Extra
    """Overhead of each sequence, expressed in additional cached tokens [tokens].

    The overhead represents the start and end of a kernel, and the sum over splits of a context.
    """


class PromptScores(Spec):
    """Prefill attention: the new tokens of a prompt attend to the tokens before them."""

    math_efficiency: Fraction
    """Sustained share of the dense peak for long prompts with wide heads [1]."""
    extra_tokens: Extra
    """Overhead of each new token, expressed in additional past tokens; the overhead represents half-empty tiles on the
    diagonal [tokens]."""
    extra_elements: Extra
    """Overhead of attention scores, expressed in additional elements of a head [1].

    The overhead represents exponentials.
    """


class ScoresKernel(Spec):
    """Attention kernels for a cache in one format."""

    decode: DecodeScores
    """Kernel of decode steps."""
    prompts: PromptScores
    """Kernel of prefill steps."""


class RecurrenceKernel(Spec):
    """Prefill of a delta rule in 16 bits: the state is updated chunk by chunk."""

    math_efficiency: Fraction
    """Sustained share of the dense peak with many heads [1], for the arithmetic of a recurrence token by token."""
    extra_heads: Extra
    """Serial part of a prompt, expressed in additional heads of the state [1].

    The chunks of a prompt follow each other, so that few heads do not fill the chip.
    """


class ScoresKernels(Spec):
    """Attention kernels by kind and number format of the cache. Formats without an entry have no curve."""

    grouped: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Kernels for ordinary caches, which contain keys and values of every KV head."""
    latent: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Kernels for latent caches. Decode attends to the latents; prefill decompresses keys and values first."""
    recurrent: RecurrenceKernel | None = None
    """Prefill kernel of Gated DeltaNet, also used for Kimi Delta Attention. Mamba-2 has no curve."""


ProtocolName = Literal["LL", "LL128", "Simple"]


class ProtocolConstants(Spec):
    """Time constants of one NCCL protocol."""

    base: Seconds
    """Fixed time per collective [s]."""
    per_rank: Seconds
    """Additional time for each rank of a link domain after the first [s]."""
    per_domain_doubling: Seconds
    """Additional time for each doubling of the number of link domains [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth that carries payload [1]."""


class AllReduceKernel(Spec):
    """All-reduce kernel of an engine, or of the switch, inside one link domain."""

    shape: Literal["one_shot", "two_shot", "multicast"]
    """Algorithm of the all-reduce.

    ``one_shot``: each rank reads the tensors of all others. ``two_shot``: each rank reduces a part, and all ranks
    gather the parts. ``multicast``: the switch reduces (NVLS).
    """
    base: Seconds
    """Fixed time per collective [s]."""
    per_rank: Seconds
    """Additional time for each rank after the first [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth that carries payload [1]."""
    most_bytes: Bytes | None = None
    """Largest tensor for which the kernel is used [B]; absent without a limit."""


class ExchangeKernel(Spec):
    """All-to-all kernel of an engine, in which every rank writes to all other ranks at the same time."""

    base: Seconds
    """Fixed time per collective [s]."""
    per_rank: Seconds
    """Additional time for each rank of a link domain after the first [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth that carries payload [1]."""


class NcclTree(Spec):
    """Collectives as NCCL models them: latency plus size over bandwidth. The fastest available algorithm is used."""

    kind: Literal["nccl_tree"]
    """Name of the model of collectives."""
    version: str
    """NCCL versions for which the constants are valid."""
    protocols: Annotated[dict[ProtocolName, ProtocolConstants], Field(min_length=1)]
    """Constants of the tree algorithm by protocol."""
    ring: dict[ProtocolName, ProtocolConstants] = Field(default_factory=dict)
    """Constants of the ring algorithm by protocol, with ``per_domain_doubling`` as the time per link domain."""
    kernels: dict[str, AllReduceKernel] = Field(default_factory=dict)
    """Other all-reduce kernels inside a link domain, by name."""
    network_factor: Fraction | None = None
    """Share of the network bandwidth between domains that carries payload under the protocol Simple [1].

    The shares of all protocols are scaled in proportion. If absent, the constants of the protocols are used.
    """
    exchange_per_domain_doubling: Seconds | None = None
    """Latency of an all-to-all or point-to-point transfer for each doubling of the number of link domains [s].

    By default, the latency of the protocols is used.
    """
    exchange_kernels: dict[str, ExchangeKernel] = Field(default_factory=dict)
    """Additional all-to-all kernels, by name. Transfers between link domains require
    ``exchange_per_domain_doubling``."""
    domains_overlap: bool = True
    """True if traffic inside a link domain overlaps with traffic between domains."""
    chain: Count | None = None
    """Maximum number of ranks in the chain that NCCL's tree algorithm forms inside a link domain [1].

    ``per_rank`` was measured with this number of ranks. If set, a larger link domain is never slower than a smaller one
    (:func:`inference_econ.formulas.collectives.tree_seconds`). If set, traffic between domains also takes at least the
    time of traffic inside a domain. If absent, the number of ranks in a chain is not limited, as in the published
    study.
    """
    exchange_chain: Count | None = None
    """Value of ``chain`` for all-to-all and point-to-point transfers, if different [1]."""

    def _check_fields(self) -> None:
        """Reject all-to-all kernels if the latency between link domains is missing."""
        if self.exchange_kernels and self.exchange_per_domain_doubling is None:
            raise ValueError(
                "exchange_kernels require exchange_per_domain_doubling, their latency between link domains"
            )


class Mesh(Spec):
    """Collectives that send along neighbors in a ring.

    The published study uses this model for TPU tori and the Groq LPU.
    """

    kind: Literal["mesh"]
    """Name of the model of collectives."""
    hop: Seconds
    """Latency between two neighbors [s]."""


class Free(Spec):
    """Communication that takes no time. Free communication is used for bounds."""

    kind: Literal["free"]
    """Name of the model of collectives."""


Collectives = Annotated[NcclTree | Mesh | Free, Field(discriminator="kind")]
