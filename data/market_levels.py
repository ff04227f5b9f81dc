"""Common errors of predicted prices and speeds of open models with known sizes, for use as priors.

For every open model with recorded offers, the frontiers of the model replace those of all sizes. The common factors of
its prices and speeds are nearly unrestricted. The command prints their posterior, and the mean over the models (random
effects, after DerSimonian and Laird). The mean is computed for dense models, for MoE models, and for all but one model.
The command takes about a minute.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import click
import numpy as np

from inference_econ import allow
from inference_econ._types import Array
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.infer import drawn, posterior
from inference_econ.extras.closed_models.scenario_kinds import Lognormal, PriorFamily
from inference_econ.inputs import ModelSpec, catalog, known_offers

#: Providers that use their own chips.
OWN = ("Groq", "Cerebras", "SambaNova")
DATE = "2025-06-27"
#: Nearly unrestricted prior while the factors are estimated.
FREE = Lognormal(median=1, spread=4)


class Level(NamedTuple):
    """Common factor of the prices or speeds of a model, as a natural logarithm."""

    mean: float
    variance: float


def without_prior(values: Array, weights: Array) -> Level:
    """Mean and variance of a posterior divided by its prior."""
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2)
    own = 1.0 / max(1.0 / variance - 1.0 / FREE.sigma**2, 0.05)
    return Level(mean / variance * own, own)


def levels(name: str, listing: str) -> tuple[Level, Level]:
    """Common factors of the prices and of the speeds of one model."""
    size = float(catalog.model(name).total_parameters)
    usual = scenario_kinds.priors("usual")
    family = PriorFamily(model=name, probability=1, parameters=(size, 1.02 * size), common_speed=FREE)
    sources = {field: source for field, source in usual.sources.items() if not field.startswith("families.")}
    priors = usual.replace(families={"true": family}, common_price=FREE, sources=sources)
    with allow():
        draws = drawn(priors, [None])
    weights = posterior(draws, scenario_kinds.recorded_offers(listing, DATE, OWN)).weights
    return without_prior(draws.common_price, weights), without_prior(draws.common_speed, weights)


class Mean(NamedTuple):
    """Mean over the factors of several models, as natural logarithms."""

    value: float
    error: float
    """Standard error of the mean."""
    between: float
    """Standard deviation of the factors of models around the mean."""


def together(each: list[Level]) -> Mean:
    """Mean of several factors, and their standard deviation between models."""
    means, variances = (np.array(column) for column in zip(*each, strict=True))
    certain = 1.0 / variances
    spread = float(certain @ (means - certain @ means / certain.sum()) ** 2)
    between = max(0.0, (spread - len(each) + 1) / (certain.sum() - (certain**2).sum() / certain.sum()))
    certain = 1.0 / (variances + between)
    return Mean(float(certain @ means / certain.sum()), math.sqrt(1.0 / certain.sum()), math.sqrt(between))


def is_mixture(model: ModelSpec) -> bool:
    """True if a model has experts."""
    return any(block.feed_forward.kind == "experts" for block in model.blocks)


def main() -> None:
    """Print the factors of all models, and their means."""
    offers = [row for row in known_offers() if row.model and row.tokens_per_second and row.date == DATE]
    listings = Counter((row.model, row.model_as_written) for row in offers if row.provider not in OWN)
    best: dict[str, str] = {}
    for (name, listing), _ in listings.most_common():
        best.setdefault(name, listing)
    known = {name: levels(name, listing) for name, listing in best.items()}
    for name, (price, speed) in known.items():
        click.echo(f"{name}: prices x {math.exp(price.mean):.2f}, speeds x {math.exp(speed.mean):.2f}")
    for kind in ("all", "dense", "mixtures"):
        names = [name for name in known if kind == "all" or is_mixture(catalog.model(name)) == (kind == "mixtures")]
        for index, what in enumerate(("prices", "speeds")):
            mean = together([known[name][index] for name in names])
            others = [together([known[other][index] for other in names if other != name]).value for name in names]
            least, most = math.exp(min(others)), math.exp(max(others))
            click.echo(
                f"{kind} ({len(names)}), {what}: x {math.exp(mean.value):.2f}, within a factor of "
                f"{math.exp(mean.error):.2f} (without one x {least:.2f} to {most:.2f}); models are apart by a factor "
                f"of {math.exp(mean.between):.2f}"
            )


if __name__ == "__main__":
    main()
