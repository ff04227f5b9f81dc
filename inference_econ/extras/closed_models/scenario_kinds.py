"""Scenarios and priors for the inference of closed models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Date, DollarsPerHour, Dtype, Field, Fraction, Seconds, SourcedSpec, Spec
from inference_econ.inputs._yaml import scalar
from inference_econ.inputs.offers import Offer, known_offers
from inference_econ.inputs.scenario_kinds import Positive, Probability, ProposerName
from inference_econ.inputs.workload.traffic import Tokens

#: Short names of fields of :class:`ObservedOffer`.
SHORT: Mapping[str, str] = {
    "input": "dollars_per_million_input_tokens",
    "output": "dollars_per_million_output_tokens",
    "speed": "tokens_per_second",
    "ttft": "ttft_seconds",
    "on": "hardware",
    "by": "provider",
}


class ObservedOffer(Spec):
    """Observations of one offer of a closed model."""

    provider: str = ""
    """Name of the provider."""
    hardware: str | None = None
    """Chip name, if known."""
    dollars_per_million_input_tokens: Positive | None = None
    """Price of input tokens [USD per 1e6 tokens]."""
    dollars_per_million_output_tokens: Positive | None = None
    """Price of output tokens [USD per 1e6 tokens]."""
    tokens_per_second: Positive | None = None
    """Speed of one user [tokens/s]."""
    ttft_seconds: Annotated[Seconds, Field(gt=0)] | None = None
    """Time to first token [s]."""

    def _check_fields(self) -> None:
        if self.model_fields_set <= {"provider", "hardware"}:
            raise ValueError(
                "an offer needs something that was observed: a price of input or output tokens, a speed, or a time to "
                "the first token"
            )

    @property
    def priced(self) -> bool:
        """True if a price is known."""
        return not (self.dollars_per_million_input_tokens is self.dollars_per_million_output_tokens is None)

    @property
    def words(self) -> str:
        """Observations as one line of text."""
        parts = [
            (self.dollars_per_million_input_tokens, "${:g}/M input"),
            (self.dollars_per_million_output_tokens, "${:g}/M output"),
            (self.tokens_per_second, "{:g} tokens/s"),
            (self.ttft_seconds, "first token after {:g} s"),
            (self.hardware, "on {}"),
        ]
        seen = ", ".join(text.format(value) for value, text in parts if value is not None)
        return f"{self.provider}: {seen}" if self.provider else seen


def observed_offer(text: str) -> ObservedOffer:
    """Parse an offer such as ``input=3,output=15,speed=60,ttft=0.8,on=h100_sxm,by=NAME``.

    Raises
    ------
    InputError
        If a part is unknown, repeated, or has an invalid value.

    Examples
    --------
    >>> observed_offer("output=15,speed=60").words
    '$15/M output, 60 tokens/s'
    """
    fields: dict[str, object] = {}
    for part in text.split(","):
        short, sign, value = (piece.strip() for piece in part.partition("="))
        if short not in SHORT or not sign or not value:
            raise InputError(
                f"--offer {text}: {part.strip()!r} cannot be read; write input=$, output=$ (per million tokens), "
                "speed=tokens/s, ttft=s, on=CHIP or by=NAME with commas between, for example input=3,output=15,speed=60"
            )
        if SHORT[short] in fields:
            raise InputError(f"--offer {text}: {short} is there twice")
        read = fields[SHORT[short]] = value if short in ("on", "by") else scalar(value)
        if isinstance(read, (int, float)) and not read > 0:
            raise InputError(f"--offer {text}: {short} must be above 0 (got {value})")
    try:
        return ObservedOffer.build(fields, origin=f"--offer {text}")
    except SpecError as error:
        raise InputError(str(error)) from error


class ClosedModel(Spec):
    """Closed model, whose size is inferred from its offers."""

    label: str = Field(min_length=1)
    """Name in tables and figures."""
    offers: Annotated[tuple[ObservedOffer, ...], Field(strict=False)] = ()
    """Observed offers."""
    recorded: str | None = None
    """Name of the model in ``scenarios/measured/offers.csv``, in place of ``offers``."""
    truth: str | None = None
    """Actual model, if known; used only for comparison."""

    def _check_fields(self) -> None:
        if bool(self.offers) == (self.recorded is not None):
            raise ValueError("give either offers or the name under which they are recorded, and one of them")


class InferAsk(Spec):
    """Scenario that infers the sizes of closed models from observed offers."""

    kind: Literal["infer"]
    """Kind of scenario."""
    models: Annotated[tuple[ClosedModel, ...], Field(min_length=1, strict=False)]
    """Models, each inferred separately."""
    priors: str = "usual"
    """Name or path of the priors."""
    samples: Annotated[int, Field(ge=64, le=32_768)] = 2048
    """Models drawn from the priors [1]."""
    date: Date | None = None
    """Day of the recorded offers; by default, any day."""
    leave_out: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Providers whose recorded offers are ignored."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""


#: Unnormalized probability.
Weight = Annotated[int | float, Field(ge=0, le=1e9, allow_inf_nan=False)]
#: Factor that corresponds to one standard deviation: with 2, 68% of the values are between half and twice the median.
Spread = Annotated[int | float, Field(gt=1, le=1e3, allow_inf_nan=False)]
Nodes = Annotated[tuple[Positive, ...], Field(min_length=2, strict=False)]
Experts = Annotated[tuple[Count, ...], Field(min_length=2, strict=False)]


class Lognormal(Spec):
    """Positive quantity with a lognormal distribution."""

    median: Positive
    """Median [as the quantity]."""
    spread: Spread
    """Factor that corresponds to one standard deviation [1]."""

    @property
    def mean_log(self) -> float:
        """Mean of the natural logarithm [1]."""
        return math.log(self.median)

    @property
    def sigma(self) -> float:
        """Standard deviation of the natural logarithm [1]."""
        return math.log(self.spread)


class PriorFamily(Spec):
    """Models that are scaled from a known model in size and, for MoE models, in number of experts."""

    model: str = Field(min_length=1)
    """Name or path of the known model."""
    probability: Weight
    """Unnormalized probability."""
    parameters: Nodes
    """Total parameters for which frontiers are computed, ascending [1].

    Sizes between these numbers are log-uniformly distributed.
    """
    experts: Experts | None = None
    """Experts per layer for which frontiers are computed; absent for dense models [1]."""
    common_speed: Lognormal
    """Ratio of measured to predicted speed that all offers of a model share [1]."""

    def _check_fields(self) -> None:
        for name in ("parameters", "experts"):
            nodes = getattr(self, name) or ()
            if list(nodes) != sorted(set(nodes)):
                raise ValueError(f"{name} must ascend, got {', '.join(f'{node:g}' for node in nodes)}")


class ChipPrior(Spec):
    """Chip on which a provider may serve."""

    probability: Weight
    """Unnormalized probability."""
    hour_price: DollarsPerHour
    """Median hourly cost to the provider [USD/h]."""
    weights: Annotated[dict[Dtype, Weight], Field(min_length=1)]
    """Weight formats with unnormalized probabilities."""

    def _check_fields(self) -> None:
        if not sum(self.weights.values()) > 0:
            raise ValueError("weights: all formats have the weight 0; give one of them more")


class SpeculationPrior(Spec):
    """Probability that an offer uses speculation, and its acceptance rate."""

    probability: Probability
    """Probability that an offer uses speculation [1]."""
    proposer: ProposerName
    """Speculation method, which determines its cost; ``draft`` is not allowed."""
    acceptance: tuple[Fraction, Fraction] = Field(strict=False)
    """Lowest and highest acceptance rate [1]. Acceptance rates between these limits are uniformly distributed."""
    draft_length: Count
    """Maximum draft length [1]."""

    def _check_fields(self) -> None:
        if self.proposer == "draft":
            raise ValueError("'proposer': the size of a separate draft model is unknown; write eagle, mtp or ngram")
        if not self.acceptance[0] < self.acceptance[1]:
            raise ValueError(f"acceptance must ascend, got {self.acceptance[0]:g} and {self.acceptance[1]:g}")


class Priors(SourcedSpec):
    """Prior beliefs about a closed model and its servers."""

    families: Annotated[dict[str, PriorFamily], Field(min_length=1)]
    """Kinds of models, by name."""
    chips: Annotated[dict[str, ChipPrior], Field(min_length=1)]
    """Chips, by catalog name."""
    hour_price_spread: Spread
    """Spread of the hourly cost around its median [1]."""
    speculation: SpeculationPrior
    """Probability and acceptance of speculation."""
    utilisation: Lognormal
    """Share of an instance's capacity that is sold [1]."""
    price_over_cost: Lognormal
    """Ratio of the price of tokens to their cost [1]."""
    stray: Fraction
    """Share of offers that are outliers, unrelated to their model: errors, or sales on other terms [1]."""
    alike: Probability
    """Correlation between the offers of one model [1], in addition to the common factors on price and speed."""
    common_price: Lognormal
    """Price factor that all offers of a model share: market level, and prediction errors [1]."""
    output_over_input: Lognormal
    """Ratio of output to input price [1], used if an offer lacks one of the two prices."""
    observed_speed: Spread
    """Spread of the observed speed around the speed of the server [1]."""
    observed_ttft: Spread
    """Spread of the observed time to first token, including queueing, around the time of an idle server [1]."""
    network: Seconds
    """Part of the time to first token that the network takes [s]."""
    isl: Tokens
    """Input tokens of a typical request [tokens]."""
    osl: Positive
    """Output tokens of a typical request [tokens]."""
    max_instance_gpus: Count
    """Maximum number of chips per instance [1]."""

    def _check_fields(self) -> None:
        for name in ("families", "chips"):
            if not sum(entry.probability for entry in getattr(self, name).values()) > 0:
                raise ValueError(f"{name}: all probabilities are 0; give one of them more")
        likely = self.utilisation.median * self.utilisation.spread**2
        if likely > 1.25:
            raise ValueError(
                f"'utilisation': a median of {self.utilisation.median:g} with a spread of {self.utilisation.spread:g} "
                f"often exceeds 1 ({likely:.3g} at two standard deviations); reduce one of them"
            )


def recorded_offers(listing: str, date: str | None = None, leave_out: Iterable[str] = ()) -> tuple[ObservedOffer, ...]:
    """Offers of a model with a speed in ``scenarios/measured/offers.csv``.

    Parameters
    ----------
    listing : str
        Name of the model in the offers file, such as ``meta-llama/llama-3.3-70b-instruct``, or in the catalog.
    date : str, optional
        Day of the offers.
    leave_out : iterable of str
        Providers to ignore.

    Raises
    ------
    InputError
        If the file has no offers of this model on this day.
    """
    without = set(leave_out)
    rows = [
        row
        for row in known_offers()
        if listing in (row.model_as_written, row.model)
        and date in (None, row.date)
        and row.provider not in without
        and row.tokens_per_second is not None
    ]
    if not rows:
        listed = sorted({row.model_as_written for row in known_offers() if row.tokens_per_second is not None})
        day = "" if date is None else f" of {date}"
        raise InputError(f"no offer of {listing!r}{day} with a speed is recorded; recorded: {', '.join(listed)}")
    observed = [name for name in ObservedOffer.fields if name in Offer.fields]
    return tuple(ObservedOffer(**{name: getattr(row, name) for name in observed}) for row in rows)


def priors(name: str) -> Priors:
    """Read priors by name or path; see ``catalog.tier`` for errors."""
    return catalog.of_assumptions(Priors, "priors", "priors", name)
