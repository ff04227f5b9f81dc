"""Claims of publications, as scenarios: what was published, and which quantity of ours stands beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.extras.papers.study_kinds import Implementation
from inference_econ.inputs._spec import Bytes, BytesPerSecond, Count, FlopsPerSecond, Seconds, Spec
from inference_econ.inputs.scenario_kinds import Positive, Printed, Probability, Settings

#: Numbers of processes that the rule of KV-Runahead's summary chooses from: a single one, two and many.
_CHOICES = 3
#: What a claim is held against: the published study's preset, and what is predicted today.
Basis = Literal["paper", "today"]


def _check_parts(read: str, parts: tuple[str, ...]) -> None:
    if (read == "share") != bool(parts):
        raise ValueError("give parts where a share is read, and only there")


class FrontierReading(Spec):
    """A number of one point of a frontier."""

    kind: Literal["frontier"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis."""
    read: Literal["speed", "cost", "chips", "power", "joules", "batch", "utilization", "share", "balance"]
    """Tokens per second of a user, USD per million output tokens, chips, output tokens per second and megawatt of the
    facility, joules of the boards per output token; and of decode steps sequences, useful
    arithmetic over the peak, the share of the step that some of its parts take, or seconds of arithmetic over seconds
    of memory traffic, hidden or not."""
    parts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Parts that a share adds up."""
    at: Literal["fastest", "cheapest", "preferred"] = "fastest"
    """Which point; see eq. (45) for the preferred one, with an exponent of three."""
    cost: Positive | None = None
    """Instead: the fastest point at most so expensive [USD per 1e6 tokens]."""
    times_cheapest: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Instead: the fastest point at most so many times as expensive as the cheapest [1]."""
    share_of_fastest: Annotated[float, Field(gt=0, le=1)] | None = None
    """Instead: the cheapest point with at least so much of the largest speed [1]."""
    speed: Positive | None = None
    """Instead: the cheapest point at least so fast [tokens/s]."""

    def _check_fields(self) -> None:
        places = ("at", "cost", "times_cheapest", "share_of_fastest", "speed")
        set_places = [name for name in places if name in self.model_fields_set]
        if len(set_places) > 1:
            raise ValueError(f"give one of {', '.join(places)}, got {' and '.join(set_places)}")
        _check_parts(self.read, self.parts)


class ToyReading(Spec):
    """A number of the toy model's fastest instance (eqs. 13 to 17)."""

    kind: Literal["toy"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis."""
    read: Literal["speed", "asymptotic_speed", "chips", "cost", "least_cost"]
    """Tokens per second of the fastest instance, exactly (eq. 14) or for a large one (eq. 18); its chips; USD per
    million tokens, or those of arithmetic alone."""
    reductions: Positive = 4
    """All-reduces per layer [1]."""
    hop: Seconds
    """Time between neighbours [s]."""


class StepReading(Spec):
    """A number of one step of one deployment."""

    kind: Literal["step"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis: the deployment too (``tp``, ``dp``, ``ep``, ``pp``, ``batch``)."""
    read: Literal["seconds", "utilization", "balance", "intensity", "share"]
    """Time; useful arithmetic over the peak; seconds of arithmetic over seconds of memory traffic; FLOP over bytes; or
    the share of the step that some of its parts take."""
    parts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Parts that a share adds up."""
    rows: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Rows of the operator table that a balance or an intensity counts; all of them if not given."""
    prompt: Count | None = None
    """Read so many tokens of a prompt, instead of decoding [tokens]."""

    def _check_fields(self) -> None:
        _check_parts(self.read, self.parts)
        if self.rows and self.read not in ("balance", "intensity"):
            raise ValueError("give rows where a balance or an intensity is read, and only there")


class SquareRootReading(Spec):
    """Speed of a model by the square-root law (eq. 19) through another [tokens/s]."""

    kind: Literal["square_root"]
    """Names this kind of quantity."""
    model: str
    """Name or path of the model."""
    reference: str
    """Of the model whose speed is known."""
    speed: Positive
    """Its speed [tokens/s]."""


class AttentionReading(Spec):
    """Bytes that attention keeps, FLOP that it computes, and its time."""

    kind: Literal["attention"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis: a context and a batch too."""
    read: Literal[
        "cache_bytes",
        "token_cache_bytes",
        "read_dollars",
        "overtakes",
        "layer_cache_bytes",
        "layer_flop",
        "layer_bytes",
        "layer_seconds",
    ]
    """Cache of the whole batch [B], and of a token of context; USD to read the cache of a sequence once for each of a
    million tokens, at the theoretical bandwidth; context from which on a decode step has more arithmetic over the cache
    than elsewhere [tokens]; cache [B] and arithmetic [FLOP] of a token of context in one layer; what the batch takes of
    memory in one layer, copies included [B]; time of one layer's attention in a decode step [s]."""
    implementation: Implementation = "absorbed"
    """Of latent attention."""


class AllReduceReading(Spec):
    """Time of one all-reduce [s]."""

    kind: Literal["all_reduce"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis."""
    ranks: Count
    """Chips that sum [1]."""
    size: Bytes
    """The tensor that each of them has [B]."""


class RoundReading(Spec):
    """Expected tokens of a round of speculation under the rule of the basis [1]."""

    kind: Literal["round"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis."""
    acceptance: Probability
    """Probability that a proposed token is accepted [1]."""
    drafted: Annotated[int, Field(ge=1, le=64)]
    """Proposals of a round [tokens]."""


class PoolsReading(Spec):
    """Largest quotient of costs of the best aggregated serving over disaggregated serving, at the same speed [1]."""

    kind: Literal["pools"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis: lengths and the promised ``ttft`` too."""


class ChainReading(Spec):
    """Prefill over a chain of processes (KV-Runahead): its speed-up, or what a rule for the number of them loses."""

    kind: Literal["chain"]
    """Names this kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from those of the basis: hardware that is named gives both rates of arithmetic."""
    read: Literal["speedup", "over_single", "traffic", "first_part", "largest_loss", "share_best"]
    """Time with all-gathers, or on a single process, over that of the chain; bytes of all-gathers over those of the
    chain; share of the prompt that its first process has; time with the processes that the rule picks over the least,
    where it is largest; share of the cases in which it picks what is as fast as any."""
    processes: Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, strict=False)]
    """Of the chain, or those that the rule chooses from: one, two and many [1]."""
    prompts: Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]
    """Lengths that are tried [tokens]."""
    links: Annotated[tuple[BytesPerSecond, ...], Field(min_length=1, strict=False)]
    """Links that are tried, one way [B/s]."""
    matmul: FlopsPerSecond
    """Sustained arithmetic of matrix multiplications [FLOP/s]."""
    attention: FlopsPerSecond
    """Sustained arithmetic of attention [FLOP/s]."""
    overhead: Seconds
    """Least time of a layer [s]."""
    latency: Seconds
    """Of a message between processes [s]."""

    def _check_fields(self) -> None:
        sizes = len(self.processes), len(self.prompts), len(self.links)
        of_one = self.read not in ("largest_loss", "share_best")
        if of_one and sizes != (1, 1, 1):
            raise ValueError(f"{self.read} is that of one number of processes, one prompt and one link")
        if not of_one and len(self.processes) != _CHOICES:
            raise ValueError(f"the rule chooses from {_CHOICES} numbers of processes, got {len(self.processes)}")


Reading = Annotated[
    FrontierReading
    | ToyReading
    | SquareRootReading
    | StepReading
    | AttentionReading
    | AllReduceReading
    | RoundReading
    | PoolsReading
    | ChainReading,
    Field(discriminator="kind"),
]


class Value(Spec):
    """A number as it is."""

    kind: Literal["value"]
    """Names this kind of measure."""
    of: Reading
    """Which."""


class Ratio(Spec):
    """A number over another."""

    kind: Literal["ratio"]
    """Names this kind of measure."""
    of: Reading
    """Above the line."""
    over: Reading
    """Below it."""


class Exponent(Spec):
    """The exponent of a power law through two points: ln(of / over) / ln(by)."""

    kind: Literal["exponent"]
    """Names this kind of measure."""
    of: Reading
    """At the second point."""
    over: Reading
    """At the first."""
    by: Annotated[float, Field(gt=1, allow_inf_nan=False)]
    """Quotient of the second point over the first [1]."""


Measure = Annotated[Value | Ratio | Exponent, Field(discriminator="kind")]


class Published(Spec):
    """A published value, as text so that its digits count: a number, or bounds."""

    value: Printed | None = None
    """A number."""
    at_least: Printed | None = None
    """No less."""
    at_most: Printed | None = None
    """No more."""

    def _check_fields(self) -> None:
        bounds = self.at_least is not None or self.at_most is not None
        if (self.value is not None) == bounds:
            raise ValueError("give a value, or at_least, at_most or both")
        low, high = self.bounds
        if not 0 <= low <= high or high == 0:
            raise ValueError(f"bounds must ascend and be positive, got {low:g} and {high:g}")

    @property
    def bounds(self) -> tuple[float, float]:
        """From where to where; both are the number itself if it is one."""
        if self.value is not None:
            return float(self.value), float(self.value)
        return float(self.at_least or 0), float(self.at_most or "inf")


class Claim(Spec):
    """One claim of a publication, and what of ours answers it."""

    id: str = Field(pattern=r"^[a-z0-9_]+$")
    """A name for it."""
    claim: str = Field(min_length=1)
    """In our own words."""
    where: str = Field(min_length=1)
    """Section, equation or table."""
    published: Published
    """Expectations, never results."""
    unit: str = ""
    """Unit of the number; nothing of a quotient."""
    tolerance: Annotated[float, Field(ge=0, lt=1)]
    """Share of what was published by which ours may be beyond it, and the claim still holds [1]."""
    measure: Measure
    """Quantity that is computed."""
    bases: Annotated[tuple[Basis, ...], Field(min_length=1, strict=False)] = ("paper", "today")
    """Bases that it can be asked of."""
    why: str = ""
    """Why it does not hold, or holds only under one of them."""


class BasisSpec(Spec):
    """Settings and names under which all claims of a file are computed."""

    settings: Settings = Field(default_factory=Settings)
    """Settings that claims leave out."""
    names: dict[str, str] = Field(default_factory=dict)
    """Models and hardware that go by other names here."""


class ClaimsAsk(Spec):
    """Claims of one publication beside our numbers."""

    kind: Literal["claims"]
    """Names this kind of question."""
    seed: str = Field(min_length=1)
    """The publication."""
    paper: BasisSpec
    """Under the preset of the published study, or constants of the publication itself."""
    today: BasisSpec
    """Under the profiles that predictions rest on."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1, strict=False)]
    """All of them."""

    def _check_fields(self) -> None:
        names = [claim.id for claim in self.claims]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two claims have the id {repeated[0]!r}; an id names one claim")
