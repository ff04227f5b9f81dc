"""Models of collectives and their constants: NCCL and engines' kernels, meshes, none."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import Bytes, Count, Fraction, Seconds, Spec

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
