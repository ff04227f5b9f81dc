"""Intervals of predictions by engine and generation of chips: how many measured values they hold, how wide they are."""

from __future__ import annotations

from inference_econ.extras.servers import Servers
from inference_econ.extras.servers.validation.servers import BY_NAME, JUDGED, Held, held_record
from inference_econ.records.texts import ENGINE_NAMES
from inference_econ.report.page import Table

_LEGEND = (
    "Each cell: rows, how many of them lie in their interval, between which shares that is in 19 of 20 samples where "
    "80 % is true, as rows of a deployment go together (off: it is not), and the median of an interval's highest "
    "over its lowest value. Left out: each deployment against an interval made from the others of its profile. No fact "
    "explains: series of scenarios/measured/misfits.yaml, of which whoever asks is told."
)


def held(report: Servers) -> Table:
    """Table of the share of measured values in the intervals of 80 %, and of the width of these, by engine and chips.

    Of rows that were and were not fitted, with the interval of each; and of deployments that were left out one after
    the other, as their profile says.
    """
    lines = tuple(
        (
            ENGINE_NAMES[line["engine"]],
            line["chips"].capitalize(),
            line["which"],
            *(_cell(line[name]) for name in JUDGED),
        )
        for line in held_record(report)
    )
    columns = ("engine", "chips", "which", *(BY_NAME[name].title for name in JUDGED))
    return Table("Intervals of 80 % by engine and generation of chips", columns, lines, (), (_LEGEND,))


def of_chance(share: float, chance: tuple[float, float]) -> str:
    """Between which shares chance leaves what should be 80 %, and whether it explains one; in brackets."""
    low, high = chance
    return f" ({100 * low:.0f} to {100 * high:.0f}{'' if low <= share <= high else ': off'})"


def _cell(intervals: Held) -> str:
    share, width, chance = intervals["inside"], intervals["width"], intervals["by_chance"]
    if share is None or width is None:
        return ""
    return f"{intervals['rows']}: {100 * share:.0f} %{of_chance(share, chance) if chance else ''}, {width:.2f}"
