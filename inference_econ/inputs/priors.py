"""Beliefs of a closed model and its servers before anything is observed: opinions, as numbers."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from inference_econ.inputs._base import Count, DollarsPerHour, Dtype, Fraction, Seconds, SourcedSpec, Spec
from inference_econ.inputs.asks import Positive, Probability, ProposerName
from inference_econ.inputs.length import Tokens

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


class Family(Spec):
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

    families: Annotated[dict[str, Family], Field(min_length=1)]
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
