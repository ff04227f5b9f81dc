"""Scenarios that compare claims of publications with predictions."""

from __future__ import annotations

from typing import Annotated, Literal

from inference_econ.extras.papers.study_kinds import Implementation
from inference_econ.inputs._spec import Bytes, BytesPerSecond, Count, Field, FlopsPerSecond, Seconds, Spec
from inference_econ.inputs.scenario_kinds import Positive, Printed, Probability, Settings

#: Number of process counts from which the rule in the summary of KV-Runahead chooses: one, two and many [1].
_CHOICES = 3
#: Basis of a comparison: the preset of the published study, or today's profiles.
Basis = Literal["paper", "today"]


def _check_parts(read: str, parts: tuple[str, ...]) -> None:
    if (read == "share") != bool(parts):
        raise ValueError("give parts where a share is read, and only there")


class FrontierReading(Spec):
    """Predicted quantity at one point of a frontier."""

    kind: Literal["frontier"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that override those of the basis (published study or today's profiles)."""
    series: Annotated[tuple[str, str], Field(strict=False)] | None = None
    """Name of a frontier scenario, and label of one of its series, which provides all settings that are not given."""
    read: Literal["speed", "cost", "chips", "power", "joules", "batch", "utilization", "share", "balance"]
    """Quantity to compute at the selected point.

    For services and decode steps: tokens/s per user, USD per million output tokens, chips, output tokens/s per megawatt
    of facility power, or board joules per output token. For decode steps only: sequences, utilization of peak
    arithmetic, share of parts in the step, or ratio of arithmetic to memory time (with or without overlap).
    """
    parts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Parts of the step whose shares of the step time are added."""
    at: Literal["fastest", "cheapest", "preferred"] = "fastest"
    """Point of the frontier. The preferred point maximizes speed^3 / price (eq. 45)."""
    cost: Positive | None = None
    """Alternative to ``at``: the fastest point up to this cost [USD per 1e6 tokens]."""
    times_cheapest: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Alternative to ``at``: the fastest point up to this multiple of the lowest cost [1]."""
    share_of_fastest: Annotated[float, Field(gt=0, le=1)] | None = None
    """Alternative to ``at``: the cheapest point with at least this share of the highest speed [1]."""
    speed: Positive | None = None
    """Alternative to ``at``: the cheapest point with at least this speed [tokens/s]."""

    def _check_fields(self) -> None:
        places = ("at", "cost", "times_cheapest", "share_of_fastest", "speed")
        set_places = [name for name in places if name in self.model_fields_set]
        if len(set_places) > 1:
            raise ValueError(f"give one of {', '.join(places)}, got {' and '.join(set_places)}")
        _check_parts(self.read, self.parts)


class ToyReading(Spec):
    """Predicted quantity of the fastest instance of the toy model (eqs. 13 to 17)."""

    kind: Literal["toy"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that override those of the basis (published study or today's profiles)."""
    read: Literal["speed", "asymptotic_speed", "chips", "cost", "least_cost"]
    """Quantity of the instance to compute.

    ``speed`` is exact (eq. 14) and ``asymptotic_speed`` is the limit for large instances (eq. 18) [tokens/s]. ``chips``
    is the number of chips. ``cost`` is the total cost and ``least_cost`` the cost of arithmetic only [USD per 1e6
    tokens].
    """
    reductions: Positive = 4
    """All-reduces per layer [1]."""
    hop: Seconds
    """Latency of a message between neighboring chips [s]."""


class StepReading(Spec):
    """Predicted quantity of one step of one deployment."""

    kind: Literal["step"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the basis, including the deployment (``tp``, ``dp``, ``ep``, ``pp``, ``batch``)."""
    read: Literal["seconds", "utilization", "balance", "intensity", "share"]
    """Quantity of the step to compute.

    The quantities are time, utilization of peak arithmetic, ratio of arithmetic to memory time, FLOP per byte, and
    share of parts in the step.
    """
    parts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Parts of the step whose shares of the step time are added."""
    rows: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Rows of the operator table that are included in the ratio or the intensity; by default, all rows."""
    prompt: Count | None = None
    """Prompt tokens of a prefill step, in place of a decode step [tokens]."""
    verified: Count | None = None
    """Tokens per sequence of a decode step that verifies draft tokens [tokens]."""

    def _check_fields(self) -> None:
        _check_parts(self.read, self.parts)
        if self.verified is not None and (self.read != "seconds" or self.prompt is not None):
            raise ValueError("verified applies to the seconds of a decode step")
        if self.rows and self.read not in ("balance", "intensity"):
            raise ValueError("give rows where a balance or an intensity is read, and only there")


class SquareRootReading(Spec):
    """Speed of a model, scaled from the speed of a reference model by eq. (19) [tokens/s].

    The speed falls with the square root of the parameters.
    """

    kind: Literal["square_root"]
    """Kind of quantity."""
    model: str
    """Name or path of the model."""
    reference: str
    """Name or path of the model with known speed."""
    speed: Positive
    """Speed of the reference model [tokens/s]."""


class AttentionReading(Spec):
    """Predicted memory, work or time of attention."""

    kind: Literal["attention"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the basis, including context and batch."""
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
    """Quantity of attention to compute.

    - ``cache_bytes``: cache of the batch [B].
    - ``token_cache_bytes``: cache per token of context [B].
    - ``read_dollars``: cost to read the cache of a sequence a million times at peak bandwidth [USD].
    - ``overtakes``: context above which attention dominates decode work [tokens].
    - ``layer_cache_bytes``: cache per token of context and layer [B].
    - ``layer_flop``: work per token of context and layer [FLOP].
    - ``layer_bytes``: memory of the batch in one layer, including copies [B].
    - ``layer_seconds``: attention time of one layer in a decode step [s].
    """
    implementation: Implementation = "absorbed"
    """Implementation of latent attention."""


class AllReduceReading(Spec):
    """Time of one all-reduce [s]."""

    kind: Literal["all_reduce"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that override those of the basis (published study or today's profiles)."""
    ranks: Count
    """Chips in the all-reduce [1]."""
    size: Bytes
    """Tensor size per chip [B]."""


class RoundReading(Spec):
    """Expected tokens per speculation round [1]."""

    kind: Literal["round"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that override those of the basis (published study or today's profiles)."""
    acceptance: Probability
    """Acceptance rate of draft tokens [1]."""
    drafted: Annotated[int, Field(ge=1, le=64)]
    """Draft length [tokens]."""


class PoolsReading(Spec):
    """Cost ratio of aggregated to disaggregated serving at equal speed [1].

    Ratios are computed at evenly spaced speeds, up to 80% of the highest speed that both kinds of serving reach.
    """

    kind: Literal["pools"]
    """Kind of quantity."""
    read: Literal["median", "largest"]
    """Median or largest cost ratio over all speeds."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the basis, including lengths and the ``ttft`` SLO."""


class ChainReading(Spec):
    """Quantity of a prefill chain (KV-Runahead): processes that each prefill one part of the prompt."""

    kind: Literal["chain"]
    """Kind of quantity."""
    settings: Settings = Field(default_factory=Settings)
    """Settings that differ from the basis. If given, the rate of ``hardware`` replaces ``matmul`` and ``attention``."""
    read: Literal["speedup", "over_single", "traffic", "first_part", "largest_loss", "share_best"]
    """Quantity of the chain to compute.

    - ``speedup``: time of all-gather over the time of the chain [1].
    - ``over_single``: time of a single process over the time of the chain [1].
    - ``traffic``: traffic of all-gather over the traffic of the chain [1].
    - ``first_part``: share of the prompt on the first process [1].
    - ``largest_loss``: largest ratio of the time of the rule's choice to the time of the best choice [1].
    - ``share_best``: share of cases in which the rule's choice is as fast as the best choice [1].
    """
    processes: Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, strict=False)]
    """Number of processes of the chain, or three numbers from which the rule chooses: one, two and many [1]."""
    prompts: Annotated[tuple[Count, ...], Field(min_length=1, strict=False)]
    """Prompt lengths [tokens]."""
    links: Annotated[tuple[BytesPerSecond, ...], Field(min_length=1, strict=False)]
    """Link bandwidths, one way [B/s]."""
    matmul: FlopsPerSecond
    """Sustained arithmetic of matrix multiplications [FLOP/s]."""
    attention: FlopsPerSecond
    """Sustained arithmetic of attention [FLOP/s]."""
    overhead: Seconds
    """Minimum time of a layer [s]."""
    latency: Seconds
    """Latency of a message between processes [s]."""

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
    """Predicted quantity as such, not a ratio or exponent."""

    kind: Literal["value"]
    """Kind of measure."""
    of: Reading
    """Predicted quantity."""


class Ratio(Spec):
    """Ratio of two predicted quantities."""

    kind: Literal["ratio"]
    """Kind of measure."""
    of: Reading
    """Numerator of the ratio."""
    over: Reading
    """Denominator of the ratio."""


class Exponent(Spec):
    """Exponent of a power law through two points: ln(of / over) / ln(by)."""

    kind: Literal["exponent"]
    """Kind of measure."""
    of: Reading
    """Quantity at the second point of the power law."""
    over: Reading
    """Quantity at the first point of the power law."""
    by: Annotated[float, Field(gt=1, allow_inf_nan=False)]
    """Ratio of the varied input at the second point to that at the first point [1]."""


Measure = Annotated[Value | Ratio | Exponent, Field(discriminator="kind")]


class Published(Spec):
    """Published value or bounds, as text to preserve digits."""

    value: Printed | None = None
    """Published value, if the publication gives no bounds."""
    at_least: Printed | None = None
    """Published lower bound."""
    at_most: Printed | None = None
    """Published upper bound."""

    def _check_fields(self) -> None:
        bounds = self.at_least is not None or self.at_most is not None
        if (self.value is not None) == bounds:
            raise ValueError("give a value, or at_least, at_most or both")
        low, high = self.bounds
        if not 0 <= low <= high or high == 0:
            raise ValueError(f"bounds must ascend and be positive, got {low:g} and {high:g}")

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound; both are ``value`` if ``value`` is given."""
        if self.value is not None:
            return float(self.value), float(self.value)
        return float(self.at_least or 0), float(self.at_most or "inf")


class Claim(Spec):
    """Claim of a publication, with the predicted quantity to compare."""

    id: str = Field(pattern=r"^[a-z0-9_]+$")
    """Name of the claim."""
    claim: str = Field(min_length=1)
    """Claim in our own words."""
    where: str = Field(min_length=1)
    """Section, equation or table of the publication."""
    published: Published
    """Published values, for comparison only."""
    unit: str = ""
    """Unit of the number; empty for a ratio."""
    tolerance: Annotated[float, Field(ge=0, lt=1)]
    """Relative tolerance within which the claim holds [1]."""
    measure: Measure
    """Predicted quantity."""
    bases: Annotated[tuple[Basis, ...], Field(min_length=1, strict=False)] = ("paper", "today")
    """Bases to which the claim applies."""
    why: str = ""
    """Reason why the claim does not hold, or holds only under one basis."""


class BasisSpec(Spec):
    """Basis of the predictions: settings and names that apply to all claims of a file."""

    settings: Settings = Field(default_factory=Settings)
    """Settings for all claims. Settings of a claim override these settings."""
    names: dict[str, str] = Field(default_factory=dict)
    """Names of models and hardware that replace those in the claims."""


class ClaimsAsk(Spec):
    """Claims of one publication compared with predictions."""

    kind: Literal["claims"]
    """Kind of scenario."""
    seed: str = Field(min_length=1)
    """Title of the publication."""
    paper: BasisSpec
    """Basis with the preset of the published study, or the publication's own constants."""
    today: BasisSpec
    """Basis with today's profiles."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1, strict=False)]
    """Claims of the publication."""

    def _check_fields(self) -> None:
        names = [claim.id for claim in self.claims]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two claims have the id {repeated[0]!r}; an id names one claim")
