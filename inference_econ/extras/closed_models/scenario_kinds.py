"""The question turned round: what was seen of closed models, whose sizes are sought."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Date, DollarsPerHour, Dtype, Fraction, Seconds, SourcedSpec, Spec
from inference_econ.inputs._yaml import scalar
from inference_econ.inputs.offers import Offer, known_offers
from inference_econ.inputs.scenario_kinds import Positive, Probability, ProposerName
from inference_econ.inputs.workload.traffic import Tokens

#: What a user types for a field of :class:`ObservedOffer`.
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
    """Provider."""
    hardware: str | None = None
    """Name of the chip, if it is known."""
    dollars_per_million_input_tokens: Positive | None = None
    """[USD per 1e6 tokens]"""
    dollars_per_million_output_tokens: Positive | None = None
    """[USD per 1e6 tokens]"""
    tokens_per_second: Positive | None = None
    """Speed of one user [tokens/s]."""
    ttft_seconds: Annotated[Seconds, Field(gt=0)] | None = None
    """Time to the first token [s]."""

    def _check_fields(self) -> None:
        if self.model_fields_set <= {"provider", "hardware"}:
            raise ValueError(
                "an offer needs something that was observed: a price of input or output tokens, a speed, or a time to "
                "the first token"
            )

    @property
    def priced(self) -> bool:
        """Whether a price is known."""
        return not (self.dollars_per_million_input_tokens is self.dollars_per_million_output_tokens is None)

    @property
    def words(self) -> str:
        """The observations in a line."""
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
    """An offer as people type it: ``input=3,output=15,speed=60,ttft=0.8,on=h100_sxm,by=NAME``.

    Raises
    ------
    InputError
        If a part is none of these, is there twice, or has no value that can be meant.

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
        fields[SHORT[short]] = value if short in ("on", "by") else scalar(value)
    try:
        return ObservedOffer.build(fields, origin=f"--offer {text}")
    except SpecError as error:
        raise InputError(str(error)) from error


class ClosedModel(Spec):
    """A model whose size is sought."""

    label: str = Field(min_length=1)
    """Name in tables and figures."""
    offers: Annotated[tuple[ObservedOffer, ...], Field(strict=False)] = ()
    """Observed offers of it."""
    recorded: str | None = None
    """Or its name in ``scenarios/measured/offers.csv``."""
    truth: str | None = None
    """Name of the model that it is, where that is known: it is looked at in the end only."""

    def _check_fields(self) -> None:
        if bool(self.offers) == (self.recorded is not None):
            raise ValueError("give either offers or the name under which they are recorded, and one of them")


class InferAsk(Spec):
    """Sizes that closed models could have, by their observed offers."""

    kind: Literal["infer"]
    """Names this kind of question."""
    models: Annotated[tuple[ClosedModel, ...], Field(min_length=1, strict=False)]
    """Each by itself."""
    priors: str = "usual"
    """Name or path of what is believed before."""
    samples: Annotated[int, Field(ge=64, le=65_536)] = 2048
    """Models drawn from the priors [1]."""
    date: Date | None = None
    """Day of recorded offers; any if not given."""
    leave_out: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Providers whose recorded offers do not count."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""


#: Something that a probability is in proportion to.
Weight = Annotated[int | float, Field(ge=0, le=1e9, allow_inf_nan=False)]
#: What a standard deviation multiplies or divides by: 2 holds 68 % between half and twice the median.
Spread = Annotated[int | float, Field(gt=1, le=1e3, allow_inf_nan=False)]
Nodes = Annotated[tuple[Positive, ...], Field(min_length=2, strict=False)]
Experts = Annotated[tuple[Count, ...], Field(min_length=2, strict=False)]


class Lognormal(Spec):
    """A positive quantity whose logarithm is normal."""

    median: Positive
    """Half of all are below [as the quantity]."""
    spread: Spread
    """Factor of a standard deviation [1]."""

    @property
    def mean_log(self) -> float:
        """Mean of the natural logarithm [1]."""
        return math.log(self.median)

    @property
    def sigma(self) -> float:
        """Standard deviation of the natural logarithm [1]."""
        return math.log(self.spread)


class PriorFamily(Spec):
    """Models that are made from a known one by its size and, if it has experts, their number."""

    model: str = Field(min_length=1)
    """Name or path of the known one."""
    probability: Weight
    """In proportion to this."""
    parameters: Nodes
    """Totals at which frontiers are computed, ascending; between the ends all are equally likely on a logarithmic scale
    [1]."""
    experts: Experts | None = None
    """Experts of a layer in the same way; absent for a model without [1]."""
    common_speed: Lognormal
    """Quotient of measured over predicted speeds that all offers of such a model share [1]."""

    def _check_fields(self) -> None:
        for name in ("parameters", "experts"):
            nodes = getattr(self, name) or ()
            if list(nodes) != sorted(set(nodes)):
                raise ValueError(f"{name} must ascend, got {', '.join(f'{node:g}' for node in nodes)}")


class ChipPrior(Spec):
    """A chip that a provider may serve on."""

    probability: Weight
    """In proportion to this."""
    hour_price: DollarsPerHour
    """Median of what an hour of it costs its user [USD/h]."""
    weights: Annotated[dict[Dtype, Weight], Field(min_length=1)]
    """Formats of the weights, in proportion to these."""

    def _check_fields(self) -> None:
        if not sum(self.weights.values()) > 0:
            raise ValueError("weights: all formats have the weight 0; give one of them more")


class SpeculationPrior(Spec):
    """Probability that tokens are proposed, and how well."""

    probability: Probability
    """Of an offer to speculate [1]."""
    proposer: ProposerName
    """Whose cost counts; not ``draft``."""
    acceptance: tuple[Fraction, Fraction] = Field(strict=False)
    """Share of proposals accepted, from and to, all between equally likely [1]."""
    draft_length: Count
    """Proposals of a round at most [1]."""

    def _check_fields(self) -> None:
        if self.proposer == "draft":
            raise ValueError(
                "proposer: a draft model would be another model of unknown size; write eagle, mtp or ngram"
            )
        if not self.acceptance[0] < self.acceptance[1]:
            raise ValueError(f"acceptance must ascend, got {self.acceptance[0]:g} and {self.acceptance[1]:g}")


class Priors(SourcedSpec):
    """Beliefs of a closed model and its servers before anything is observed."""

    families: Annotated[dict[str, PriorFamily], Field(min_length=1)]
    """Kinds of models, by name."""
    chips: Annotated[dict[str, ChipPrior], Field(min_length=1)]
    """Chips, by their names in the catalogue."""
    hour_price_spread: Spread
    """Of what an hour costs around its median [1]."""
    speculation: SpeculationPrior
    """Whether an offer speculates."""
    utilisation: Lognormal
    """Share of what an instance could complete that is sold [1]."""
    price_over_cost: Lognormal
    """Quotient of the price of tokens over their cost [1]."""
    stray: Fraction
    """Share of offers that say nothing of their model: errors, and what is sold on other terms [1]."""
    alike: Probability
    """Correlation of what offers of one model say, beyond what is told here to be common to them [1]."""
    common_price: Lognormal
    """Quotient that all offers of a model share of prices over those that follow from the rest: the level of a market,
    and what is wrong with predictions [1]."""
    output_over_input: Lognormal
    """Price of an output token over that of an input token, where one of them is not known [1]."""
    observed_speed: Spread
    """Of a speed that was seen from outside around that of the server [1]."""
    observed_ttft: Spread
    """Of a time to first token, queue included, around that of an idle server behind its network [1]."""
    network: Seconds
    """Part of the time to first token that no server causes [s]."""
    isl: Tokens
    """Input tokens of a request that prices are meant for [tokens]."""
    osl: Positive
    """Output tokens of it [tokens]."""
    max_instance_gpus: Count
    """Largest instance [1]."""

    def _check_fields(self) -> None:
        for name in ("families", "chips"):
            if not sum(entry.probability for entry in getattr(self, name).values()) > 0:
                raise ValueError(f"{name}: all probabilities are 0; give one of them more")
        likely = self.utilisation.median * self.utilisation.spread**2
        if likely > 1.25:
            raise ValueError(
                f"utilisation: a median of {self.utilisation.median:g} with a spread of {self.utilisation.spread:g} "
                f"is often more than all there is ({likely:.3g} at two standard deviations); make one of them less"
            )


def recorded_offers(listing: str, date: str | None = None, leave_out: Iterable[str] = ()) -> tuple[ObservedOffer, ...]:
    """The offers of a model in ``scenarios/measured/offers.csv`` that have a speed.

    Parameters
    ----------
    listing : str
        Its name there, ``meta-llama/llama-3.3-70b-instruct``, or in the catalogue.
    date : str, optional
        The day.
    leave_out : iterable of str
        Providers that do not count.

    Raises
    ------
    InputError
        If there are none.
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
    observed = [name for name in ObservedOffer.model_fields if name in Offer.model_fields]
    return tuple(ObservedOffer(**{name: getattr(row, name) for name in observed}) for row in rows)


def priors(name: str) -> Priors:
    """Read what is believed before anything is observed, by name or path; see ``catalog.tier`` for errors."""
    return catalog.of_assumptions(Priors, "priors", "priors", name)
