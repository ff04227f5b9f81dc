"""Results of inverse calculations (hourly price, acceptance, preference) as tables, data and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from inference_econ.extras.closed_models.implied import ImpliedAcceptance, ImpliedHour, RevealedExponents
from inference_econ.records.plain import Frame
from inference_econ.records.texts import amount, dollars, formats_label, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import lengths_label
from inference_econ.report.notes import warnings
from inference_econ.report.page import AnswerPage, Pieces, Table

#: Speed-preference exponent of the published study (eq. 45) [1].
_STUDY = 3.0


class ImpliedHourPage(AnswerPage[ImpliedHour]):
    """Page of an implied hourly price."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Table of the implied hourly price, and of the service from which the price follows."""
        implied, point = self.answer, self.answer.point
        low, high = implied.ends()
        ends = "" if low is None or high is None else f"{low:.3g} to {high:.3g}"
        rows = (
            ("$ per GPU-hour at most", f"{implied.dollars_per_accelerator_hour:.3g}"),
            *([("80% interval", ends)] if ends else []),
            ("revenue, $/M output, including input", dollars(implied.revenue)),
            ("chips, layout", f"{point.accelerators:g}, {layout_label(point.layout)}"),
            ("concurrency", amount(point.concurrency)),
            ("tokens/s per user", amount(point.tokens_per_second_per_user)),
        )
        setup = implied.front.setup
        title = (
            f"Highest hourly price of {setup.hardware.name} that sales of {setup.model.name} tokens cover "
            f"({formats_label(setup.precision)}; {lengths_label(implied.front.requests)})"
        )
        why = (
            f"Tokens are assumed to sell at {implied.price_over_cost:g}x the cost of the cheapest deployment with this "
            "speed at full load. At a lower load, sales cover only a lower GPU price.",
        )
        return (Table(title, ("", ""), rows, tuple(warnings(implied.subjects())), why),)

    def question(self) -> str:
        """Title of the page."""
        setup = self.answer.front.setup
        return f"Which hourly price of {setup.hardware.name} do tokens of {setup.model.name} cover?"

    def conclusion(self) -> Pieces:
        """Sentence on the largest hourly price."""
        hour, speed = self.answer.dollars_per_accelerator_hour, amount(self.answer.tokens_per_second)
        return (f"At most ${hour:.3g} per GPU-hour, at {speed} tokens/s per user.",)


class AcceptancePage(AnswerPage[ImpliedAcceptance]):
    """Page of an implied acceptance rate."""

    def tables(self) -> Sequence[Table]:
        """Table with the acceptance rate in one row."""
        it = self.answer
        rows = ((f"{it.speedup:g}", f"{it.draft_length}", f"{it.draft_cost:g}", f"{it.acceptance:.3f}"),)
        heads = ("speed-up", "proposals per round", "cost of one, in steps", "acceptance")
        why = ("A step that verifies draft tokens is assumed to take as long as a plain decode step (small batches).",)
        return (Table("Acceptance rate implied by a speedup", heads, rows, (), why),)

    def frame(self) -> Frame:
        """Table row as text."""
        return self.tables()[0].frame()

    def question(self) -> str:
        """Title of the page."""
        return "What share of draft tokens is accepted?"


class ExponentsPage(AnswerPage[RevealedExponents]):
    """Page of revealed buyer preferences."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Table of the preference exponents for which a buyer chooses each offer."""
        revealed, records = self.answer, self.answer.records()
        chosen = [
            label
            for label, (low, high) in zip(revealed.labels, self.answer.pairs, strict=True)
            if low <= _STUDY <= high
        ]
        notes = [
            f"A buyer who maximizes speed^{_STUDY:g} / price, as in the published study, chooses {chosen[0]} out of "
            f"{len(records)} API offers."
        ]
        why = (
            "Each buyer chooses the API offer with the largest speed^a / price (equation 45 of the study). If "
            "the exponent a is large, the buyer prefers speed to a low price. For an offer with exponent 'none', "
            "another offer is better at every a.",
        )
        exponents = ("exponent a", [_words(low, high) for low, high in self.answer.pairs])
        columns = ("offer", "tokens_per_second", "dollars_per_million_tokens", exponents)
        return (view("Exponents of buyers who choose each offer", records, columns, notes=notes, why=why),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the speed that a buyer chooses over the preference exponent."""
        pairs = zip(self.answer.tokens_per_second, self.answer.pairs, strict=True)
        steps = [
            (low, high if math.isfinite(high) else max(2.0 * low, 2.0 * _STUDY), speed) for speed, (low, high) in pairs
        ]
        bought = sorted((end, speed) for low, high, speed in steps if low <= high for end in (low, high))
        line = PlotSeries("bought", [end for end, _ in bought], [speed for _, speed in bought])
        plot = Plot(
            "Which speed is bought?",
            "exponent of the preference",
            "speed of a user (tokens/s)",
            (line,),
            "",
            {"the study's": _STUDY},
        )
        return {"exponents": charts.line_chart(plot)}

    def question(self) -> str:
        """Title of the page."""
        return "Which buyers would choose which offer?"


def _words(low: float, high: float) -> str:
    """Interval of preference exponents as text."""
    if low > high:
        return "none"
    return f"{low:.2f} or more" if math.isinf(high) else f"{low:.2f} to {high:.2f}"
