"""Uncertainty of costs and choices as tables, data and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.slo import chance_below
from inference_econ.extras.uncertainty.answer import MARGIN, QUANTILES, Shares, Uncertainty
from inference_econ.extras.uncertainty.decisions import Estimate
from inference_econ.extras.uncertainty.scenario_kinds import PROFILE
from inference_econ.inputs import number
from inference_econ.records.plain import finite_or_nan
from inference_econ.records.sources import UsedSource
from inference_econ.records.texts import chance_percent, dollars
from inference_econ.report import charts
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from inference_econ.report.headings import frontiers_title
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces, Table
from inference_econ.report.questions.frontier import assumed, unranked, warned

#: Maximum standard error of the share of avoided wrong choices, above which inputs are not ranked [1].
_VAGUE = 0.02
#: Labels of the axes and columns.
_SPEED, _COST = "tokens per second per user", "US dollars per million output tokens"


class UncertaintyPage(AnswerPage[Uncertainty]):
    """Page of an uncertainty study."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Tables of costs by series and speed, and of inputs."""
        return (cost_table(self.answer), input_table(self.answer))

    def blocks(self) -> Sequence[Block]:
        """Sentences with the findings, followed by the tables."""
        return (Headline(findings(self.answer)), *self.tables())

    def markdown(self) -> str:
        """Markdown of the findings and the tables."""
        return "\n".join((*(f"{line}\n" for line in findings(self.answer)), super().markdown()))

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of intervals, probabilities and Sobol shares, and of the inputs to measure."""
        from inference_econ.extras.uncertainty.bars import Bar, Bars, bar_chart, bar_layers  # loads Altair

        study, several = self.answer, len(self.answer.labels) > 1
        panels = charts.panels([band_plot(study), *([chance_plot(study)] if several else [])])
        if (explanation := explained(study)) is not None:
            name, shares = explanation
            title = f"What the {name} at {study.speed:g} tokens/s depends on"
            bars = {
                variable.label: Bar(
                    100 * shares.total[column],
                    100 * shares.total_half_width[column],
                    " alone, ".join(_share_cells(shares, column)) + " with others",
                    max(100 * shares.first[column], 0.0),
                )
                for column, variable in enumerate(study.variables)
            }
            panels.append(charts.panel(bar_layers(Bars(title, "share of the variance [%]", bars)), title))
        question = "How certain are the costs and the choice?" if several else "How certain is the cost?"
        title = f"{question}\n{frontiers_title([series.present for series in study.series])}"
        drawn: dict[str, charts.AnyChart] = {"answer": charts.together(panels, title)}
        if several:
            worth = {
                variable.label: knowledge.mistakes
                for variable, knowledge in zip(study.variables, study.knowledge, strict=True)
            }
            known = {
                name: Bar(100 * estimate.value, 200 * estimate.standard_error, _points(estimate))
                for name, estimate in {**worth, "all of them": study.all_known.mistakes}.items()
            }
            title = f"Which input should be measured before choosing?\nAt {study.speed:g} tokens/s per user"
            drawn["knowledge"] = bar_chart(Bars(title, "wrong choices avoided, in 100", known))
        return drawn

    def question(self) -> str:
        """Title of the page."""
        several = len(self.answer.labels) > 1
        what = "are the costs and the choice" if several else "is the cost"
        return f"How certain {what} at {self.answer.speed:g} tokens/s per user?"

    def conclusion(self) -> Pieces:
        """Findings in a few sentences."""
        return [" ".join(findings(self.answer))]

    def sources(self) -> Sequence[UsedSource]:
        """Sources of all series."""
        return self.answer.used


def explained(study: Uncertainty) -> tuple[str, Shares] | None:
    """Output whose Sobol shares are shown: cost ratio of series, or cost of a single series; None without shares."""
    name = MARGIN if len(study.labels) > 1 else next(iter(study.outputs()))
    shares = study.shares.get(name)
    return None if shares is None else (name, shares)


def findings(study: Uncertainty) -> list[str]:
    """Main findings of the study, one per line."""
    at, speed = study.at, f"{study.speed:g} tokens/s"
    if len(study.labels) == 1:
        low, middle, high = (_dollars(study.bands[index, at, 0]) for index in range(len(QUANTILES)))
        return [f"{study.labels[0]} at {speed}: ${middle} per million output tokens (80% interval ${low} to ${high})."]
    best = int(np.argmax(study.chances[at]))
    lines = [
        f"At {speed}, {study.labels[best]} is cheapest in {_percent(study.chance(best, at))} of the samples, and "
        f"another choice in {100 * study.wrong:.0f}%.",
        _first_measured(study),
    ]
    if any(variable.name == PROFILE and len(variable.series) > 1 for variable in study.variables):
        # This probability assumes independent errors of each chip, as in the ``compare`` command.
        fronts = [series.present for series in study.series]
        costs = [front.at_speed(study.speed) if isinstance(front, ServiceFrontier) else None for front in fronts]
        likely = costs[best]
        chances = [
            None if likely is None or cost is None else chance_below(likely, cost)
            for place, cost in enumerate(costs)
            if place != best
        ]
        comparable = [chance for chance in chances if chance is not None]
        if len(comparable) == len(chances):
            lines.append(
                f"The errors of the {PROFILE} are assumed equal for all choices. With independent errors, as in "
                f"'compare', {study.labels[best]} is cheaper than each other choice with a probability of at least "
                f"{chance_percent(min(comparable))}%."
            )
    return lines


def _first_measured(study: Uncertainty) -> str:
    """Sentence on the input to measure first, and on inputs that are equally useful within the sampling error."""
    worth = [knowledge.mistakes for knowledge in study.knowledge]
    first = int(np.argmax([estimate.value for estimate in worth]))
    error = 2.0 * worth[first].standard_error
    if worth[first].value <= error:
        if worth[first].standard_error > _VAGUE:
            return "The samples are too few to rank the inputs. Use more samples."
        return "Knowing a single input exactly would not change the choice."
    others = [
        study.variables[column].label
        for column, estimate in enumerate(worth)
        if column != first and estimate.value >= worth[first].value - error
    ]
    equal = f" Within the sampling error, these inputs are equally useful: {', '.join(others)}." if others else ""
    variable = study.variables[first]
    named = f"the {variable.label}"
    if variable.name == PROFILE:
        named = f"a server of {' and '.join(variable.series)} ({variable.label})"
    return f"Measure {named} first: this avoids {_points(worth[first])} wrong choices in 100.{equal}"


def cost_table(study: Uncertainty) -> Table:
    """Table with one row per series and speed."""
    several, fronts = len(study.labels) > 1, {series.label: series.present for series in study.series}
    rows = []
    for index, label in enumerate(study.labels):
        for speed in study.shown:
            at = int(np.searchsorted(study.speeds, speed))
            costs, reached = (study.present[at, index], *study.bands[:, at, index]), float(study.reached[at, index])
            share = ">99" if 0.995 <= reached < 1.0 else "<1" if 0.0 < reached < 0.005 else f"{100 * reached:.0f}"
            chance = (_percent(study.chance(index, at)),) if several else ()
            rows.append((label, f"{speed:g}", *map(_dollars, costs), f"{share} %", *chance))
    notes = [*unranked(fronts), *warned(fronts)]
    samples = study.plan.samples
    why = [
        "'$ now': lowest cost per million output tokens at this speed or above, with the present inputs. '$ 10 %' to "
        "'$ 90 %': percentiles of the lowest cost over the samples.",
        "'reached': share of samples in which a deployment reaches the speed."
        + (" 'cheapest': share of samples in which this choice costs least." if several else ""),
        f"The study has {len(study.plan.shares):,} samples in Saltelli's design, from {samples:,} points of a "
        "scrambled "
        f"Sobol sequence (seed {study.ask.seed}). Percentiles and probabilities use the {2 * samples:,} independent "
        f"samples. {study.frontiers:,} frontiers were computed.",
        "± is one standard error of the samples. For shares of the variance, ± is half of the 95% confidence interval.",
    ]
    together = [variable.label for variable in study.variables if len(variable.series) > 1]
    if several and together:
        why.append(
            f"Within a sample, all choices have the same {', '.join(together)}. All other inputs are independent."
        )
    elif several:
        why.append("All inputs are independent.")
    if any(variable.name == PROFILE for variable in study.variables):
        why.append(
            f"{PROFILE}: within a sample, errors of TPOT, TTFT and throughput are correlated, because the same steps "
            "cause all three. Errors beyond the 5% and 95% quantiles follow a normal distribution."
        )
    levels, cheapest = (f"$ {100 * level:.0f} %" for level in QUANTILES), ("cheapest",) if several else ()
    columns = ("series", "tokens/s", "$ now", *levels, "reached", *cheapest)
    title, least = frontiers_title([*fronts.values()]), ("reached", "$ now")
    return Table(title, columns, tuple(rows), tuple(notes), (*why, *assumed(fronts)), least)


def input_table(study: Uncertainty) -> Table:
    """Table with one row per input: quantiles, Sobol shares, and benefit of a measurement of the input."""
    several, explanation = len(study.labels) > 1, explained(study)
    shares = ("alone", "with others") if explanation else ()
    rows = []
    for column, variable in enumerate(study.variables):
        # Quantiles of inputs are in base units. Prediction errors and relative factors have no unit.
        series = next(series for series in study.series if series.label in variable.series)
        values = series.quantiles(variable, np.asarray(QUANTILES))
        cells = [f"x {value:.3g}" if variable.name == PROFILE else number(value) for value in values]
        cells += _share_cells(explanation[1], column) if explanation else ()
        if several:
            knowledge = study.knowledge[column]
            saved = "-" if knowledge.dollars is None else _dollars(knowledge.dollars.value)
            cells += [_points(knowledge.mistakes), saved]
        rows.append((variable.label, *cells))
    notes, why = list[str](), list[str]()
    if explanation is not None:
        of = f"ln({study.labels[0]} / the cheapest other)" if several else "ln(cost)"
        why.append(
            f"'alone': share of the variance of {of} that this input causes by itself. 'with others': share including "
            "its interactions with other inputs."
        )
    elif np.isfinite(study.costs[:, study.at]).all():
        notes.append("There are no shares of the variance, because the inputs do not change the result.")
    else:
        notes.append(
            "There are no shares of the variance, because some samples do not reach this speed. All samples reach "
            f"{study.all_reach:.4g} tokens/s; use speed: {math.floor(study.all_reach)}."
        )
    if several:
        known = study.all_known
        saved = "-" if known.dollars is None else _dollars(known.dollars.value)
        rows.append(("all of them", *[""] * (3 + len(shares)), _points(known.mistakes), saved))
        why.append(
            "'fewer wrong': how many of 100 choices become right if you know the value of this input. 'saved $': mean "
            "saving per million output tokens if you know this value before you choose."
        )
    worth = ("fewer wrong", "saved $") if several else ()
    columns = ("input", *(f"{100 * level:.0f} %" for level in QUANTILES), *shares, *worth)
    title = f"Effect of inputs on the {'choice' if several else 'cost'} at {study.speed:g} tokens/s"
    return Table(title, columns, tuple(rows), tuple(notes), tuple(why), ("50 %",))


def _share_cells(shares: Shares, column: int) -> tuple[str, str]:
    return (
        f"{100 * shares.first[column]:z.0f} ± {100 * shares.first_half_width[column]:.0f} %",
        f"{100 * shares.total[column]:z.0f} ± {100 * shares.total_half_width[column]:.0f} %",
    )


def _points(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} ± {100 * estimate.standard_error:.1f}"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.0f} ± {100 * estimate.standard_error:.1f} %"


def _dollars(value: float) -> str:
    """Cost of a million tokens as text; a dash if the speed is not reached."""
    return str(dollars(float(value))) if math.isfinite(value) else "-"


def band_plot(study: Uncertainty) -> Plot:
    """Plot of cost over speed: median and 80% interval."""
    lines = []
    for index, label in enumerate(study.labels):
        low, middle, high = (list(map(finite_or_nan, study.bands[level, :, index])) for level in range(len(QUANTILES)))
        reached = [math.nan if math.isnan(top) else bottom for bottom, top in zip(low, high, strict=True)]
        speeds = study.speeds.tolist()
        details: dict[str, list[float | str]] = {
            "reached [%]": [100 * float(share) for share in study.reached[:, index]],
            "now [$]": [_dollars(cost) for cost in study.present[:, index]],
        }
        lines.append(PlotSeries(label, speeds, middle, band=Band(speeds, reached, speeds, high), details=details))
    legend = "80 % of the samples (line: median)"
    return Plot("Cost", _SPEED, _COST, tuple(lines), "y", bands=legend, from_zero=True)


def chance_plot(study: Uncertainty) -> Plot:
    """Plot of the probability that each series is the cheapest, over speed."""
    speeds = study.speeds.tolist()
    lines = [
        PlotSeries(label, speeds, (100 * study.chances[:, index]).tolist()) for index, label in enumerate(study.labels)
    ]
    mark = {f"{study.speed:g} tokens/s": study.speed}
    return Plot(
        "The cheapest", _SPEED, "samples of 100 in which it is the cheapest", tuple(lines), "", mark, from_zero=True
    )
