"""Feed-forward blocks: dense, or a mixture of experts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple, Self

from inference_econ.inputs._spec import Count, Size, Spec


class FeedForwardParameters(NamedTuple):
    """Parameters of the feed-forward block of one layer."""

    total: float
    """All, the router included [1]."""
    routed: float = 0.0
    """Of all routed experts [1]."""
    idle: float = 0.0
    """Of routed experts that a token is not sent to [1]."""
    shared: float = 0.0
    """Of the experts that every token goes through, and of their gate [1]."""
    whole: float = 0.0
    """Of matrices between the residual stream and experts, which are never cut, without biases [1]."""


class FeedForwardPart(Spec):
    """A kind of feed-forward block: fields of the schema, and the counts that follow from them.

    A kind states what differs from the defaults here; its rows of the operator table are in ``engine/operators/``.
    """

    kind: str
    """Names this kind."""

    widths: ClassVar[tuple[str, ...]] = ()
    """Fields that are widths and grow with the model, the one that is cut over ranks first; none without a block."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""

    @abstractmethod
    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""

    @property
    def absent(self) -> bool:
        """The layer has no feed-forward block."""
        return not self.widths

    @property
    def routed_experts(self) -> int:
        """Experts that a router picks from [1]; 0 if every token goes through all of the block."""
        return 0

    @property
    def cut_width(self) -> float:
        """Width that is cut over ranks, of one expert where there are several [1]."""
        return float(getattr(self, self.widths[0]))

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Rows of activation functions by name: what comes out per token, and matrices that each is made of [1]."""
        return {}

    def widened(self, width: Callable[[float], float]) -> Self:
        """A block whose widths are those that a function makes of its own."""
        sizes = {name: size for name in self.widths if (size := getattr(self, name)) is not None}
        return self.model_copy(update={name: width(size) for name, size in sizes.items()})


class DenseFeedForward(FeedForwardPart):
    """A feed-forward block that every token goes through."""

    kind: Literal["dense"]
    """Names this kind of feed-forward block."""
    intermediate_size: Size
    """Width between the two sides."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate: 2 if gated (SwiGLU), 1 if not."""
    output_matrices: Count = 1
    """Matrices back."""
    bias: bool = False
    """Every matrix has a bias."""

    widths = ("intermediate_size",)

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        return f"feed-forward of {self.intermediate_size:,}"

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """One row [1]."""
        return {"activation function": (float(self.intermediate_size), self.input_matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""
        return FeedForwardParameters(_matrices(self, hidden))


class ExpertFeedForward(FeedForwardPart):
    """A mixture of experts: a router picks some of them for each token."""

    kind: Literal["experts"]
    """Names this kind of feed-forward block."""
    experts: Count
    """Routed experts in a layer."""
    active_experts: Count
    """Routed experts per token."""
    intermediate_size: Size
    """Width between the two sides of one expert."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate in one expert."""
    output_matrices: Count = 1
    """Matrices back in one expert."""
    bias: bool = False
    """Every expert matrix has a bias."""
    shared_intermediate_size: Size | None = None
    """Width of the experts that every token goes through, all together; absent if there are none."""
    shared_gate: bool = False
    """The shared expert is scaled by a learned gate vector."""
    router: bool = True
    """The routing matrix is counted (the published study leaves it out)."""
    router_bias: bool = False
    """The routing matrix has a learned bias per expert."""
    latent_size: Size | None = None
    """Width that routed experts read and write, between two shared projections; absent if it is hidden_size."""
    latent_norm: bool = False
    """Whether the output of routed experts has a learned norm before it is projected back."""
    routing_groups: Count | None = None
    """Groups of equally many experts, one per node or device; absent if the router knows none."""
    active_groups: Count | None = None
    """Groups that the experts of one token lie in at most (node-limited routing)."""

    widths = ("intermediate_size", "shared_intermediate_size", "latent_size")

    def _check_fields(self) -> None:
        if self.active_experts > self.experts:
            raise ValueError(f"active_experts must be at most experts ({self.experts}), got {self.active_experts}")
        groups, active = self.routing_groups, self.active_groups
        if groups is None and active is None:
            return
        if groups is None or active is None:
            raise ValueError("routing_groups and active_groups go together; give both or none")
        if active > groups:
            raise ValueError(f"active_groups must be at most routing_groups ({groups}), got {active}")
        if self.experts % groups:
            raise ValueError(f"experts ({self.experts}) must split into routing_groups, got {groups}")
        reached = active * self.experts // groups
        if self.active_experts > reached:
            raise ValueError(
                f"active_experts must be at most the {reached} in active_groups, got {self.active_experts}"
            )

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        text = f"{self.active_experts} of {self.experts} experts of {self.intermediate_size:,}"
        if self.routing_groups is not None:
            text += f" in {self.active_groups} of {self.routing_groups} groups"
        shared = self.shared_intermediate_size
        return text + (f", shared {shared:,}" if shared is not None else "")

    @property
    def routed_experts(self) -> int:
        """Experts that the router picks from [1]."""
        return self.experts

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Routed experts, and apart the shared one [1]."""
        matrices, shared = self.input_matrices, self.shared_intermediate_size
        rows = {"expert activation": (self.active_experts * float(self.intermediate_size), matrices)}
        return rows if shared is None else {**rows, "shared activation": (float(shared), matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""
        expert = _matrices(self, hidden if self.latent_size is None else self.latent_size)
        routed, shared = self.experts * expert, 0.0
        latents, norm = 2.0 * (self.latent_size or 0.0), (self.latent_size or 0.0) * self.latent_norm
        if self.shared_intermediate_size is not None:
            matrices = self.input_matrices + self.output_matrices
            shared = matrices * hidden * self.shared_intermediate_size + hidden * self.shared_gate
        return FeedForwardParameters(
            routed + hidden * latents + norm + shared + self.experts * (hidden * self.router + self.router_bias),
            routed,
            (self.experts - self.active_experts) * expert,
            shared,
            (self.router * self.experts + latents) * hidden,
        )


class NoFeedForward(FeedForwardPart):
    """The layer has no feed-forward block: it is attention or a recurrent mixer alone."""

    kind: Literal["none"]
    """Names the absence."""

    @property
    def summary(self) -> str:
        """For people."""
        return "no feed-forward"

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """None."""
        return FeedForwardParameters(0.0)


def _matrices(spec: DenseFeedForward | ExpertFeedForward, hidden: float) -> float:
    """Parameters of a dense block, or of one routed expert [1]."""
    width = spec.intermediate_size
    count = (spec.input_matrices + spec.output_matrices) * hidden * width
    if spec.bias:
        count += spec.input_matrices * width + spec.output_matrices * hidden
    return count
