"""Sweeps as tables, data and pictures: what is the cheapest, and what has no frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.records.texts import dollars
from inference_econ.report import charts
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces
from inference_econ.report.table import Table
from inference_econ.studies.swept import Best, Reason, Swept

#: Behind what no measurement stands behind, and what that says.
_MARK = "*"
_PRICES_DIFFER = (
    "Prices are of different kinds or sellers, since no class is listed for all chips; 'price' in the study's 'common' "
    "takes one."
)
_UNKNOWN = "* by assumptions that were fitted to no measured server, so that nobody knows how far off it is."
#: Reasons that are listed; the column "reason" of the folder has all [1].
_REASONS = 12


class SweepPage(AnswerPage[Swept]):
    """A sweep, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """The cheapest of every row and speed, and why combinations have no frontier."""
        swept = self.answer
        best = {(cheapest.row, cheapest.speed): cheapest for cheapest in swept.best}
        rows = [(name, *(_cell(best.get((name, speed))) for speed in swept.speeds)) for name in swept.names]
        notes = (
            f"$ per million output tokens of the cheapest {swept.among} whose users see so many tokens/s or more; "
            "prefill is counted, a queue is not.",
        )
        unknown = () if all(cheapest.is_measured for cheapest in swept.best) else (_UNKNOWN,)
        columns = (swept.rows, *(f"at {speed:g}" for speed in swept.speeds))
        table = Table(_heading(swept), columns, tuple(rows), (*notes, *_priced(swept), *unknown))
        return [table, failures_table(swept)] if swept.reasons else [table]

    def blocks(self) -> Sequence[Block]:
        """The tables below how much there is."""
        return [Headline((counted(self.answer),)), *self.tables()]

    def markdown(self) -> str:
        """Markdown of the counts and of the tables below them."""
        tables = (f"**{table.title}**\n\n{table.markdown()}" for table in self.tables())
        return "\n".join([f"{counted(self.answer)}\n", *tables])

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the cheapest by colour."""
        swept = self.answer
        tiles = [
            charts.Tile(best.row, f"{best.speed:g}", best.among, _marked(best), _details(best))
            for best in swept.ordered()
        ]
        mark = "" if all(best.is_measured for best in swept.best) else "; * fitted to no measured server"
        grid = charts.Grid(
            _heading(swept),
            f"tokens/s per user, at least; $ per million output tokens{mark}",
            swept.among,
            tuple(swept.names),
            tuple(f"{speed:g}" for speed in swept.speeds),
            tuple(tiles),
        )
        return {"cheapest": charts.grid_chart(grid)}

    def question(self) -> str:
        """Question about the cheapest."""
        swept, only = self.answer, "".join(f", {name} {value}" for name, value in self.answer.where.items())
        return f"Which {swept.among} serves each {swept.rows} the cheapest at which speed{only}?"

    def conclusion(self) -> Pieces:
        """Sentence on the size of a sweep."""
        return [counted(self.answer)]


def counted(swept: Swept) -> str:
    """Sentence on the size of a sweep."""
    failed = f", {swept.failures:,} without a frontier" if swept.failures else ""
    missing = f" {swept.missing:,} have not been asked yet: run the same again." if swept.missing else ""
    return (
        f"{swept.combinations:,} combinations: {swept.frontiers:,} frontiers with {swept.points:,} points{failed}."
        f"{missing}"
    )


def _heading(swept: Swept) -> str:
    only = "".join(f", {name} {value}" for name, value in swept.where.items())
    return f"{swept.title}: the cheapest {swept.among} at a speed{only}"


def _priced(swept: Swept) -> tuple[str, ...]:
    """Sentence on whether chips have prices that can be compared; none where there are not several."""
    if swept.price is None:
        return ()
    # A kind without its seller is all that they have in common.
    return (f"Prices alike: {swept.price}." if ":" in swept.price else _PRICES_DIFFER,)


def _cell(best: Best | None) -> str:
    return "-" if best is None else f"{best.among} {_marked(best)}"


def _marked(best: Best) -> str:
    """Cost of the cheapest, with a mark if nobody knows how far off it may be."""
    return f"{dollars(best.dollars)}{'' if best.is_measured else _MARK}"


def failures_table(swept: Swept) -> Table:
    """Table of the reasons for which combinations have no frontier, the most frequent first."""
    rows = tuple((str(reason.combinations), _why(reason)) for reason in swept.reasons[:_REASONS])
    further = swept.reasons[_REASONS:]
    left = sum(reason.combinations for reason in further)
    more = f"{len(further)} further reasons of {left:,} combinations are in the column 'reason' of the folder."
    notes = (more,) if further else ()
    return Table("Without a frontier", ("combinations", "reason"), rows, notes)


def _why(reason: Reason) -> str:
    """The reason; of many that do not fit, one that says how little is missing."""
    if reason.kind == "nothing_fits" and reason.combinations > 1:
        return f"{reason.text}; and others"
    return reason.text


def _details(best: Best) -> dict[str, str]:
    """Texts of hovering over a tile."""
    point = best.point
    return {
        "layout": f"{point['layout']}, {point['accelerators']:g} GPUs",
        "formats": f"weights {point['weights']}, KV {point['kv']}",
        "tokens/s per user": f"{point['tokens_per_second_per_user']:.3g}",
        "$/GPU-hour": f"{point['dollars_per_accelerator_hour']:.4g}",
    }
