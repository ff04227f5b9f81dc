"""Closed models that could be behind offers: tables, data and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inference_econ.extras.closed_models import CredibleInterval, Inferred, ServedOffer
from inference_econ.extras.closed_models import posterior as predictive
from inference_econ.extras.closed_models.frontiers import manners
from inference_econ.extras.closed_models.posterior import interval
from inference_econ.records.texts import amount
from inference_econ.report import charts
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from inference_econ.report.page import AnswerPage, Pieces, Table

#: Fewer draws that count leave the ends of intervals to chance [1].
_FEW = 50
_BILLION = 1e9


class InferencePage(AnswerPage[Inferred]):
    """Page of the closed models that could be behind offers."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Sizes; kinds, chips and formats; the offers."""
        return (sizes_table(self.answer), options_table(self.answer), offers_table(self.answer))

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Active parameters before and after, and prices by speed beside those that were seen."""
        heading = f"How large could the model be?\n{title(self.answer)}"
        return {"infer": charts.line_charts(inferred_charts(self.answer), heading)}

    def question(self) -> str:
        """Question about the size of the model."""
        return "How large could the model behind these offers be?"

    def conclusion(self) -> Pieces:
        """An interval of its active parameters."""
        draws, weights = self.answer.draws, self.answer.weights
        low, middle, high = (amount(value / _BILLION) for value in interval(draws.active, weights))
        return (f"Between {low} and {high} billion active parameters with 80 %, {middle} in the median.",)


def sizes_table(inferred: Inferred) -> Table:
    """Sizes under the priors and the posterior."""
    draws, truth = inferred.draws, inferred.truth
    even = np.full_like(inferred.weights, 1.0 / inferred.weights.size)
    total, active = (math.nan, math.nan) if truth is None else (truth.total_parameters, truth.active_parameters)
    sizes = (
        ("all parameters (10^9)", draws.total, _BILLION, total),
        ("active parameters (10^9)", draws.active, _BILLION, active),
        ("active share (%)", draws.active / draws.total, 0.01, active / total),
    )
    rows = []
    for name, values, unit, true in sizes:
        ends = (value for weights in (even, inferred.weights) for value in interval(values, weights))
        actual = () if truth is None else (true,)
        rows.append((name, *(amount(value / unit) for value in (*ends, *actual))))
    heads = ("", "before: 10 %", "50 %", "90 %", "after: 10 %", "50 %", "90 %", *(["truth"] if truth else []))
    return Table(title(inferred), heads, tuple(rows), tuple(_notes(inferred)), tuple(_why(inferred)))


def title(inferred: Inferred) -> str:
    """Title: the model that is sought, and the offers that are known, in one line."""
    count = len(inferred.offers)
    seen = inferred.offers[0].words if count == 1 else f"{count} offers"
    return f"Sizes of a closed model, by {seen}"


def options_table(inferred: Inferred) -> Table:
    """Kinds of models, chips, formats and speculation, with their probabilities before and after."""
    priors = inferred.priors
    likely = manners(priors)
    families = {name: family.probability for name, family in priors.families.items()}
    before = {
        "model": {name: weight / sum(families.values()) for name, weight in families.items()},
        "chip": _summed((manner.chip, share) for manner, share in likely.items()),
        "weights": _summed((str(manner.weights), share) for manner, share in likely.items()),
        "speculation": {"yes": priors.speculation.probability},
    }
    served = inferred.manners
    after = {**served, "model": inferred.families, "chip": served["chips"]}
    rows = [
        (what, name, f"{100 * share:.0f}", f"{100 * after[what].get(name, 0.0):.0f}")
        for what, shares in before.items()
        for name, share in shares.items()
        if share > 0
    ]
    heads = ("what", "", "before %", "after %")
    notes = ("Chips, formats and speculation: means over the offers.",) if len(inferred.offers) > 1 else ()
    return Table("Kinds of models, and how they are served", heads, tuple(rows), (), notes)


def _summed(pairs: Any) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, share in pairs:
        sums[name] = sums.get(name, 0.0) + share
    return sums


def offers_table(inferred: Inferred) -> Table:
    """Table of how each offer is probably served."""
    rows = tuple(_offer_row(served) for served in inferred.served)
    heads = ("offer", "chip", "weights", "speculates %", "in flight", "price over cost", "stray %")
    why = (
        "In flight: requests of an instance. Price over cost: what tokens are sold for over what they cost, idle time "
        "included. Both from 10 to 90 %. A stray says nothing of the model.",
    )
    return Table("How the offers are probably served", heads, rows, (), why, ("stray %",))


def _offer_row(served: ServedOffer) -> tuple[str, ...]:
    chip, weights = (next(iter(shares.items())) for shares in (served.chips, served.formats))
    return (
        served.offer.words,
        *(f"{name} ({100 * share:.0f} %)" for name, share in (chip, weights)),
        f"{100 * served.speculation:.0f}",
        _ends(served.in_flight),
        "" if served.price_over_cost is None else _ends(served.price_over_cost),
        f"{100 * served.stray:.0f}",
    )


def _ends(values: CredibleInterval) -> str:
    return f"{amount(values.low)} to {amount(values.high)}"


def _notes(inferred: Inferred) -> list[str]:
    """The answer in a sentence, and what makes it doubtful."""
    total, active = inferred.total_parameters, inferred.active_parameters
    notes = [
        f"With 80 %: {amount(total.low / _BILLION)} to {amount(total.high / _BILLION)} billion parameters, "
        f"{amount(active.low / _BILLION)} to {amount(active.high / _BILLION)} billion of them active."
    ]
    if inferred.effective < _FEW:
        notes.append(
            f"Only {inferred.effective:.0f} effective draws of {inferred.weights.size}: the ends of the intervals are "
            "rough; draw more (--samples)."
        )
    strays = [offer.words for offer, stray in zip(inferred.offers, inferred.strays, strict=True) if stray > 0.5]
    return [*notes, *(f"Probably a stray, that hardly counts: {words}." for words in strays)]


def _why(inferred: Inferred) -> list[str]:
    """Sentences on the basis of the numbers."""
    priors = inferred.priors
    return [
        f"Priors: {priors.name}; they are opinions, and where the offers say little they are the answer.",
        f"{inferred.weights.size} models drawn, {inferred.effective:.0f} effective. A request has {priors.isl:g} input "
        f"and {priors.osl:g} output tokens.",
    ]


def inferred_charts(inferred: Inferred) -> tuple[Plot, ...]:
    """Active parameters before and after, and prices by speed beside those that were seen."""
    sizes = predictive.density(inferred.draws.active, inferred.weights)
    billions = (sizes.sizes / _BILLION).tolist()
    truth = inferred.truth
    marks = {} if truth is None else {"truth": truth.active_parameters / _BILLION}
    lines = (PlotSeries("before", billions, sizes.before.tolist()), PlotSeries("after", billions, sizes.after.tolist()))
    first = Plot("Active parameters", "active parameters (10^9)", "probability of a factor of two", lines, "x", marks)
    seen = [offer for offer in inferred.offers if offer.priced and offer.tokens_per_second is not None]
    return (first, _prices(inferred, seen)) if seen else (first,)


def _prices(inferred: Inferred, seen: Sequence[Any]) -> Plot:
    """Prices by speed, with those that were seen as points."""
    price = predictive.price_by_speed(inferred)
    speeds = price.speeds.tolist()
    band = Band(speeds, price.low.tolist(), speeds, price.high.tolist())
    points = [predictive.blended_price(offer, inferred.priors) for offer in seen]
    return Plot(
        "Prices by speed",
        "speed of a user (tokens/s)",
        "$ per 10^6 tokens, input and output",
        (
            PlotSeries("after", speeds, price.median.tolist(), band=band),
            PlotSeries("offers", [offer.tokens_per_second for offer in seen], points, points=True),
        ),
        bands="80 % of such offers",
    )
