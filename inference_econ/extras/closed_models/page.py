"""Inferred closed models as tables, data and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inference_econ.extras.closed_models import CredibleInterval, Inferred
from inference_econ.extras.closed_models.infer import density, interval, manners, price_by_speed, revenue
from inference_econ.records.texts import amount
from inference_econ.report import charts
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from inference_econ.report.page import AnswerPage, Pieces, Table

#: Minimum effective sample size for reliable ends of intervals [1].
_FEW = 50
_BILLION = 1e9


class InferencePage(AnswerPage[Inferred]):
    """Page of an inferred closed model."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Tables of model sizes, of kinds of models, chips and formats, and of each offer."""
        rows = []
        for served in self.answer.served:
            likely = (next(iter(shares.items())) for shares in (served.chips, served.formats))
            margin = served.price_over_cost
            rows.append(
                (
                    served.offer.words,
                    *(f"{name} ({100 * share:.0f} %)" for name, share in likely),
                    f"{100 * served.speculation:.0f}",
                    _ends(served.in_flight),
                    "" if margin is None else _ends(margin),
                    f"{100 * served.stray:.0f}",
                )
            )
        heads = ("offer", "chip", "weights", "speculates %", "concurrency", "price over cost", "stray %")
        why = (
            "Concurrency is per instance. 'price over cost' includes idle time. Concurrency and price over cost "
            "show the 10th to the 90th percentile. 'stray %': probability that the offer is an outlier, with a price "
            "unrelated to the model.",
        )
        offers = Table("Most likely serving of each offer", heads, tuple(rows), (), why, ("stray %",))
        return (sizes_table(self.answer), options_table(self.answer), offers)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of active parameters under prior and posterior, and of prices by speed with the observations."""
        heading = f"How large could the model be?\n{title(self.answer)}"
        return {"infer": charts.line_charts(inferred_charts(self.answer), heading)}

    def question(self) -> str:
        """Title of the page."""
        return "How large could the model behind these offers be?"

    def conclusion(self) -> Pieces:
        """Sentence with the interval of active parameters."""
        draws, weights = self.answer.draws, self.answer.weights
        low, middle, high = (amount(value / _BILLION) for value in interval(draws.active, weights))
        return (f"The model has {low} to {high} billion active parameters (80 % interval), median {middle}.",)


def sizes_table(inferred: Inferred) -> Table:
    """Table of sizes under the priors and the posterior."""
    draws, truth, priors, effective = inferred.draws, inferred.truth, inferred.priors, inferred.effective
    even = np.full_like(inferred.weights, 1.0 / inferred.weights.size)
    total, active = (math.nan, math.nan) if truth is None else (truth.total_parameters, truth.active_parameters)
    rows = []
    for name, values, unit, true in (
        ("all parameters (10^9)", draws.total, _BILLION, total),
        ("active parameters (10^9)", draws.active, _BILLION, active),
        ("active share (%)", draws.active / draws.total, 0.01, active / total),
    ):
        ends = (value for weights in (even, inferred.weights) for value in interval(values, weights))
        actual = () if truth is None else (true,)
        rows.append((name, *(amount(value / unit) for value in (*ends, *actual))))
    sizes = [
        f"{amount(size.low / _BILLION)} to {amount(size.high / _BILLION)} billion"
        for size in (inferred.total_parameters, inferred.active_parameters)
    ]
    notes = [f"80% intervals: {sizes[0]} parameters, {sizes[1]} active."]
    if effective < _FEW:
        notes.append(
            f"Only {effective:.0f} of {inferred.weights.size} samples are effective, so intervals are rough. Increase "
            "--samples."
        )
    strays = [offer.words for offer, stray in zip(inferred.offers, inferred.strays, strict=True) if stray > 0.5]
    notes += [
        f"The offer {words} is probably an outlier, because no sampled model explains its price. It hardly affects the "
        "result."
        for words in strays
    ]
    why = (
        f"The prior distributions ({priors.name}) are assumptions. The fewer offers are known, the more the result "
        "depends on the priors.",
        f"The result is a weighted sample of {inferred.weights.size} models, with an effective sample size of "
        f"{effective:.0f}. A request has {priors.isl:g} input and {priors.osl:g} output tokens.",
    )
    heads = ("", "prior: 10 %", "50 %", "90 %", "posterior: 10 %", "50 %", "90 %", *(["truth"] if truth else []))
    return Table(title(inferred), heads, tuple(rows), tuple(notes), why)


def title(inferred: Inferred) -> str:
    """Title with the model and its offers."""
    count = len(inferred.offers)
    seen = inferred.offers[0].words if count == 1 else f"{count} offers"
    return f"Size of a closed model, inferred from {seen}"


def options_table(inferred: Inferred) -> Table:
    """Table of kinds, chips, formats and speculation, with prior and posterior probabilities."""
    priors = inferred.priors
    families = {name: family.probability for name, family in priors.families.items()}
    chips: dict[str, float] = {}
    weights: dict[str, float] = {}
    for manner, share in manners(priors).items():
        chips[manner.chip] = chips.get(manner.chip, 0.0) + share
        weights[str(manner.weights)] = weights.get(str(manner.weights), 0.0) + share
    before: dict[str, Mapping[str, float]] = {
        "model": {name: weight / sum(families.values()) for name, weight in families.items()},
        "chip": chips,
        "weights": weights,
        "speculation": {"yes": priors.speculation.probability},
    }
    after = {**inferred.manners, "model": inferred.families, "chip": inferred.manners["chips"]}
    rows = [
        (what, name, f"{100 * share:.0f}", f"{100 * after[what].get(name, 0.0):.0f}")
        for what, shares in before.items()
        for name, share in shares.items()
        if share > 0
    ]
    heads = ("what", "", "prior %", "posterior %")
    notes = (
        ("Probabilities of GPUs, formats and speculation are means over the offers.",)
        if len(inferred.offers) > 1
        else ()
    )
    return Table("Architecture and serving", heads, tuple(rows), (), notes)


def _ends(values: CredibleInterval) -> str:
    return f"{amount(values.low)} to {amount(values.high)}"


def inferred_charts(inferred: Inferred) -> tuple[Plot, ...]:
    """Plots of active parameters under prior and posterior, and of prices by speed with the observations."""
    sizes, truth = density(inferred.draws.active, inferred.weights), inferred.truth
    billions = (sizes.sizes / _BILLION).tolist()
    marks = {} if truth is None else {"truth": truth.active_parameters / _BILLION}
    lines = (PlotSeries("before", billions, sizes.before.tolist()), PlotSeries("after", billions, sizes.after.tolist()))
    first = Plot("Active parameters", "active parameters (10^9)", "probability of a factor of two", lines, "x", marks)
    tokens = inferred.priors.isl + inferred.priors.osl
    seen = [
        (offer.tokens_per_second, 1e6 * revenue(offer, inferred.priors) / tokens)
        for offer in inferred.offers
        if offer.priced and offer.tokens_per_second is not None
    ]
    if not seen:
        return (first,)
    prices = price_by_speed(inferred)
    speeds = prices.speeds.tolist()
    band = Band(speeds, prices.low.tolist(), speeds, prices.high.tolist())
    lines = (
        PlotSeries("after", speeds, prices.median.tolist(), band=band),
        PlotSeries("offers", [speed for speed, _ in seen], [price for _, price in seen], points=True),
    )
    labels = ("Prices by speed", "speed of a user (tokens/s)", "$ per 10^6 tokens, input and output")
    return (first, Plot(*labels, lines, bands="80 % of such offers"))
