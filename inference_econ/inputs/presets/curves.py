"""Efficiencies of kernels relative to the datasheet, as curves with few constants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._spec import Bytes, Count, Dtype, Fraction, Seconds, Spec

Extra = Annotated[int | float, Field(ge=0, le=1e5, allow_inf_nan=False)]


class MathUnit(Spec):
    """Math unit of the chips that a curve was fitted to (:func:`inference_econ.formulas.kernels.carried_share`)."""

    efficiency: Fraction
    """Share of its peak that the unit itself sustains without other limits of a kernel [1]."""
    vendor: str = Field(min_length=1)
    """Vendor of the chips; kernels of other vendors are assumed to reach the same share of peak."""
    per_vector: Annotated[int | float, Field(gt=0, le=1e4, allow_inf_nan=False)]
    """Peak of the unit over that of fp32 arithmetic on the same chip [1]."""


class DenseKernel(Spec):
    """Products with large matrices of one format, which every token passes."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's math unit for products with many rows [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which the matrix is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and memory time that overlaps with the longer [1]."""
    unit: MathUnit | None = None
    """Math unit of the measured chips; if absent, the share of peak is the same on every chip."""


class GroupedKernel(Spec):
    """Products of routed experts with weights of one format: :mod:`inference_econ.formulas.grouped_matmul`."""

    math_efficiency: Fraction
    """Share of the dense peak of the format's math unit for large products of many tokens [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which weights of touched experts are read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and weight reads that overlaps with the longer [1]."""
    extra_tokens: Extra
    """Overhead of a touched expert in tokens: the empty part of its last tile [tokens]."""
    extra_elements: Extra
    """Overhead of a product in elements of width and depth on one chip, which makes small parts of experts slow [1]."""
    passes: Annotated[int | float, Field(ge=1, le=100, allow_inf_nan=False)]
    """Number of times that separate kernels move inputs and outputs, without overlap: to gather tokens by expert,
    quantize them, and add up outputs [1]."""
    unit: MathUnit | None = None
    """Math unit of the measured chips; if absent, the share of peak is the same on every chip."""


class ExchangedKernels(Spec):
    """Expert kernels for tokens that arrive by an all-to-all, sorted by expert."""

    prompts: GroupedKernel
    """Kernels of prefill steps."""
    decode: GroupedKernel
    """Kernels of decode steps, whose buffers have room for the maximum tokens per expert; only actual tokens are
    computed."""


class ExpertKernel(GroupedKernel):
    """Kernels that an engine uses for routed experts with weights of one format."""

    exchanged: ExchangedKernels | None = None
    """Kernels with data-parallel attention; absent if they are the same."""


class DecodeScores(Spec):
    """Attention of one or a few new tokens per sequence over its cache."""

    math_efficiency: Fraction
    """Share of the dense peak of the math unit of the cache's format, with many heads per cache [1]."""
    hbm_efficiency: Fraction
    """Share of the memory bandwidth at which the cache is read [1]."""
    overlap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of the shorter of arithmetic and memory time that overlaps with the longer [1]."""
    extra_tokens: Extra
    """Overhead of each sequence in cached tokens: start and end of its part of a kernel, and the sum over parts of a
    context [tokens]."""


class PromptScores(Spec):
    """Attention of the new tokens of a prompt to tokens before them."""

    math_efficiency: Fraction
    """Share of the dense peak of the math unit of the cache's format, for long prompts with wide heads [1]."""
    extra_tokens: Extra
    """Overhead of each new token in past tokens, from half-empty tiles on the diagonal [tokens]."""
    extra_elements: Extra
    """Overhead of scores in elements of a head, from exponentials [1]."""


class ScoresKernel(Spec):
    """Attention over a cache of one format."""

    decode: DecodeScores
    """Kernels of decode."""
    prompts: PromptScores
    """Kernels of prefill."""


class ScoresKernels(Spec):
    """Attention kernels by kind and format of the cache; other formats have no curve."""

    grouped: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Keys and values of every KV head."""
    latent: dict[Dtype, ScoresKernel] = Field(default_factory=dict)
    """Latents: absorbed in decode, and decompressed keys and values in prefill."""


ProtocolName = Literal["LL", "LL128", "Simple"]


class ProtocolConstants(Spec):
    """Constants of one NCCL protocol under the tree algorithm."""

    base: Seconds
    """Time per collective [s]."""
    per_rank: Seconds
    """Time per further rank inside a link domain [s]."""
    per_domain_doubling: Seconds
    """Time per doubling of the number of domains [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth for payload [1]."""


class AllReduceKernel(Spec):
    """All-reduce kernel of a serving engine or of the switch, inside one link domain."""

    shape: Literal["one_shot", "two_shot", "multicast"]
    """Algorithm: every rank reads the tensors of all others; each reduces a part and all gather; or the switch reduces
    (NVLS)."""
    base: Seconds
    """Time per collective [s]."""
    per_rank: Seconds
    """Time per further rank [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth for payload [1]."""
    most_bytes: Bytes | None = None
    """Largest tensor that it is used for [B]; absent for no limit."""


class ExchangeKernel(Spec):
    """All-to-all kernel of a serving engine: every rank writes to all others at the same time."""

    base: Seconds
    """Time per collective [s]."""
    per_rank: Seconds
    """Time per further rank of a link domain [s]."""
    bandwidth_factor: Fraction
    """Share of the link bandwidth for payload [1]."""


class NcclTree(Spec):
    """NCCL's latency-plus-bandwidth model; the fastest algorithm for the size and domains is used."""

    kind: Literal["nccl_tree"]
    """Name of this model of collectives."""
    version: str
    """NCCL versions with these constants."""
    protocols: Annotated[dict[ProtocolName, ProtocolConstants], Field(min_length=1)]
    """Protocols of the tree algorithm."""
    ring: dict[ProtocolName, ProtocolConstants] = Field(default_factory=dict)
    """Protocols of the ring algorithm; ``per_domain_doubling`` applies per domain."""
    kernels: dict[str, AllReduceKernel] = Field(default_factory=dict)
    """Other all-reduces inside a link domain."""
    network_factor: Fraction | None = None
    """Share of the network bandwidth between domains for payload under Simple; other protocols in proportion. If
    absent, the protocols' own factors apply [1]."""
    exchange_per_domain_doubling: Seconds | None = None
    """Latency of an all-to-all or a point-to-point transfer per doubling of the domains; by default that of the
    protocols [s]."""
    exchange_kernels: dict[str, ExchangeKernel] = Field(default_factory=dict)
    """Other all-to-alls; between domains they use ``exchange_per_domain_doubling``, which must also be given."""
    domains_overlap: bool = True
    """True if traffic inside and between link domains overlaps."""
    chain: Count | None = None
    """Ranks of a link domain with which ``per_rank`` was measured, and the maximum length of chains. With it, a larger
    domain is never slower than a smaller one: see :func:`inference_econ.formulas.collectives.tree_seconds`; and traffic
    between domains takes at least the time inside one. Without it, chains are as long as domains (the published study)
    [1]."""
    exchange_chain: Count | None = None
    """Chain length of all-to-alls and point-to-point transfers, if measured with another [1]."""

    def _check_fields(self) -> None:
        """Reject exchange kernels without their latency between domains."""
        if self.exchange_kernels and self.exchange_per_domain_doubling is None:
            raise ValueError(
                "exchange_kernels need exchange_per_domain_doubling beside them: what they pay between link domains"
            )


class Mesh(Spec):
    """Ring along neighbors: TPU tori and the Groq LPU in the published study."""

    kind: Literal["mesh"]
    """Name of this model of collectives."""
    hop: Seconds
    """Latency between neighbors [s]."""


class Free(Spec):
    """Communication takes no time; for bounds."""

    kind: Literal["free"]
    """Name of this model of collectives."""


Collectives = Annotated[NcclTree | Mesh | Free, Field(discriminator="kind")]
