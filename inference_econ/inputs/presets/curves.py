"""Shares of the datasheet that kernels sustain, as curves with few constants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._spec import Bytes, Count, Dtype, Fraction, Seconds, Spec

Extra = Annotated[int | float, Field(ge=0, le=1e5, allow_inf_nan=False)]


class MathUnit(Spec):
    """Maths units of the chips that a curve was fitted to (:func:`inference_econ.formulas.kernels.carried_share`)."""

    efficiency: Fraction
    """Share of its peak that the unit itself sustains where nothing else of a kernel holds it up [1]."""
    vendor: str = Field(min_length=1)
    """Whose chips they are: those of others run other kernels, whose share of the peak is taken to be the same."""
    per_vector: Annotated[int | float, Field(gt=0, le=1e4, allow_inf_nan=False)]
    """Its peak over that of fp32 arithmetic beside it: how far it is ahead of what else a kernel has to do [1]."""


class DenseKernel(Spec):
    """Products with large matrices of one format, which every token passes."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's maths unit that products with many rows reach [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which the matrix is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and memory traffic that hides behind the longer [1]."""
    unit: MathUnit | None = None
    """The maths unit of the chips that were measured; absent, the share of the peak is the same on every chip."""


class GroupedKernel(Spec):
    """Products of routed experts with weights of one format: :mod:`inference_econ.formulas.grouped_matmul`."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's maths unit that large products of many tokens reach [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which weights of touched experts are read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and weight reads that hides behind the longer [1]."""
    extra_tokens: Extra
    """Cost of a touched expert beside its tokens: the empty part of its last tile [tokens]."""
    extra_elements: Extra
    """Cost of a product beside its width and depth on one chip: small cuts of an expert are slow [1]."""
    passes: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)]
    """Times that inputs and outputs are moved, beside the products and not behind them: tokens are gathered by
    expert, quantised and added up by kernels of their own [1]."""
    unit: MathUnit | None = None
    """The maths unit of the chips that were measured; absent, the share of the peak is the same on every chip."""


class ExchangedKernels(Spec):
    """Kernels of experts whose tokens arrive by an exchange, laid out by expert."""

    prompts: GroupedKernel
    """Of steps that read prompts."""
    decode: GroupedKernel
    """Of decode steps: room for the most tokens that an expert can get is laid out, of which those that came count."""


class ExpertKernel(GroupedKernel):
    """Kernels that an engine picks for routed experts with weights of one format."""

    exchanged: ExchangedKernels | None = None
    """Kernels where ranks with sequences of their own exchange tokens; absent if they are no others."""


class DecodeScores(Spec):
    """Attention of one or a few new tokens of each sequence to what is cached of it."""

    math_efficiency: Fraction
    """Share of the dense peak of the maths unit of the cache's format that many heads of one cache reach [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which the cache is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and memory traffic that hides behind the longer [1]."""
    extra_tokens: Extra
    """Cached tokens that take as long as what each sequence costs beside its own: its part of a kernel has a beginning
    and an end, and parts of a context are summed up [tokens]."""


class PromptScores(Spec):
    """Attention of the new tokens of a prompt to those before them."""

    math_efficiency: Fraction
    """Share of the dense peak of the maths unit of the cache's format that long prompts reach with wide heads [1]."""
    extra_tokens: Extra
    """Past tokens that take as long as what each new token costs beside those that it attends to: tiles on the diagonal
    are half empty [tokens]."""
    extra_elements: Extra
    """Elements of a head that take as long as what its scores cost beside their products: exponentials [1]."""


class ScoresKernel(Spec):
    """Attention over a cache of one format."""

    decode: DecodeScores
    """Of sequences that are decoded."""
    prompts: PromptScores
    """Of prompts that are read."""


class ScoresKernels(Spec):
    """Attention over caches, by what is cached and in which format; formats that are missing have no curve."""

    grouped: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Keys and values of every KV head."""
    latent: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Latents, absorbed into the heads' queries in decode; of prompts the decompressed keys and values."""


ProtocolName = Literal["LL", "LL128", "Simple"]


class ProtocolConstants(Spec):
    """One NCCL protocol under the tree algorithm."""

    base: Seconds
    """Paid once per collective [s]."""
    per_rank: Seconds
    """Per further rank inside a link domain [s]."""
    per_domain_doubling: Seconds
    """Per doubling of the number of domains [s]."""
    bandwidth_factor: Fraction
    """Share of the link that carries payload [1]."""


class AllReduceKernel(Spec):
    """An all-reduce kernel of a serving engine or of the switch, inside one link domain."""

    shape: Literal["one_shot", "two_shot", "multicast"]
    """Every rank reads all others' tensors; each reduces its part, then all gather; or the switch reduces (NVLS)."""
    base: Seconds
    """Paid once [s]."""
    per_rank: Seconds
    """Per further rank [s]."""
    bandwidth_factor: Fraction
    """Share of the link that carries payload [1]."""
    most_bytes: Bytes | None = None
    """Largest tensor it is used for [B]; none if it has no limit."""


class ExchangeKernel(Spec):
    """An all-to-all kernel of a serving engine: every rank writes to all others at the same time."""

    base: Seconds
    """Paid once [s]."""
    per_rank: Seconds
    """Per further rank of a link domain [s]."""
    bandwidth_factor: Fraction
    """Share of the link that carries payload [1]."""


class NcclTree(Spec):
    """NCCL's latency-plus-bandwidth model: the best of what is given is taken, by size and domains."""

    kind: Literal["nccl_tree"]
    """Names this model of collectives."""
    version: str
    """NCCL versions that ship these constants."""
    protocols: Annotated[dict[ProtocolName, ProtocolConstants], Field(min_length=1)]
    """Protocols of the tree algorithm."""
    ring: dict[ProtocolName, ProtocolConstants] = Field(default_factory=dict)
    """Protocols of the ring algorithm; ``per_domain_doubling`` is paid per domain."""
    kernels: dict[str, AllReduceKernel] = Field(default_factory=dict)
    """Other all-reduces inside a link domain."""
    network_factor: Fraction | None = None
    """Share of the network between domains that carries payload under Simple; of other protocols in proportion.
    Without it the protocols' own factors hold there too [1]."""
    exchange_per_domain_doubling: Seconds | None = None
    """Latency of an all-to-all or a hand-off per doubling of the domains; without it, that of the protocols [s]."""
    exchange_kernels: dict[str, ExchangeKernel] = Field(default_factory=dict)
    """Other all-to-alls; between domains they pay ``exchange_per_domain_doubling``, which must be given with them."""
    domains_overlap: bool = True
    """Traffic inside and between link domains runs at the same time."""
    chain: Count | None = None
    """Ranks of one link domain that ``per_rank`` was measured with, and longer chains are not made of. With it, a
    larger domain is never slower than a smaller one: see :func:`inference_econ.formulas.collectives.tree_seconds`, and
    what crosses between domains takes at least as long as inside of one. Without it chains are as long as domains (the
    published study) [1]."""
    exchange_chain: Count | None = None
    """Accelerators of a chain in all-to-alls and hand-offs, if their kernels were measured with another [1]."""

    def _check_fields(self) -> None:
        """Refuse exchange kernels without what they pay between domains."""
        if self.exchange_kernels and self.exchange_per_domain_doubling is None:
            raise ValueError(
                "exchange_kernels need exchange_per_domain_doubling beside them: what they pay between link domains"
            )


class Mesh(Spec):
    """Neighbours pass data on: TPU tori and the Groq LPU in the published study."""

    kind: Literal["mesh"]
    """Names this model of collectives."""
    hop: Seconds
    """Time between neighbours [s]."""


class Free(Spec):
    """Communication takes no time: for bounds."""

    kind: Literal["free"]
    """Names this model of collectives."""


Collectives = Annotated[NcclTree | Mesh | Free, Field(discriminator="kind")]
