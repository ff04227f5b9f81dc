"""Page of a request trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.answers.traffic import TraceProfile
from inference_econ.inputs.workload import traces
from inference_econ.records.texts import amount
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.page import AnswerPage, Table

#: Quantiles that a chart of request lengths shows [1].
_SHARES = tuple(place / 100 for place in range(1, 100))


class ProfilePage(AnswerPage[TraceProfile]):
    """Page that shows the profile of a request trace."""

    def tables(self) -> Sequence[Table]:
        """Tables of statistics, lengths, and cache hit rates."""
        profile = self.answer
        lengths = tuple(
            (what, *(amount(value) for value in profile.lengths[name]))
            for what, name in (("prompt", "isl"), ("answer", "osl"))
        )
        shown = [
            facts_table(profile),
            Table("Lengths [tokens]", ("of", "mean", "p50", "p90", "p99", "longest"), lengths),
        ]
        if profile.found:
            rows = [(f"{room:,}", f"{100 * share:.1f}") for room, share in profile.found.items()]
            rows.append((f"any ({profile.distances.distinct:,})", f"{100 * profile.distances.share:.1f}"))
            title = f"Hit rates of LRU caches with blocks of {profile.block_tokens} tokens"
            shown.append(Table(title, ("cache size (blocks)", "hit %"), tuple(rows)))
        return shown

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of requests per minute, lengths, and cache hit rates, if the trace has them."""
        return {"traffic": charts.line_charts(plots(self.answer), f"What is in {self.answer.origin}?")}


def facts_table(profile: TraceProfile) -> Table:
    """Table of the statistics of a trace."""
    sessions, arrivals, notes = profile.sessions, profile.traffic.arrivals, []
    rows = [("requests", f"{profile.requests:,}")]
    minutes = None if profile.seconds is None else profile.seconds / 60
    measured = {"minutes": minutes, "requests/s": profile.rate, "variation of gaps (scv)": profile.gap_scv}
    rows += [(what, amount(value)) for what, value in measured.items() if value is not None]
    rows += [(f"dispersion in {size} s", amount(value)) for size, value in profile.dispersion.items()]
    if arrivals.rates:
        rows.append(("fitted: rates", f"{len(arrivals.rates)} of {amount(arrivals.interval)} s"))
        rows.append(("fitted: variation (scv) within an interval", amount(float(arrivals.scv))))
    rows.append(("correlation of isl and osl", f"{profile.correlation:.2f}"))
    if profile.reused is not None:
        rows.append(("cached prompt tokens %", f"{100 * profile.reused:.1f}"))
    if sessions is not None:
        rows.append(("sessions", f"{sessions.count:,}"))
        rows.append(("turns of a session", f"{amount(sessions.mean_turns)}, at most {sessions.most_turns:,}"))
    if profile.broken:
        more = "; ..." if profile.broken > len(profile.mistakes) else "."
        notes.append(f"{profile.broken:,} broken lines were left out: {'; '.join(profile.mistakes)}{more}")
    if profile.form == "ShareGPT":
        notes.append(
            f"The trace has text, so token counts are estimates ({traces.CHARACTERS_PER_TOKEN:g} characters per token)."
        )
    if profile.rate is None:
        notes.append("The trace has no common arrival times, so bursts are unknown and it cannot be replayed.")
    why = [
        "'dispersion': variance of the number of requests per window, divided by its mean. Poisson arrivals have 1.",
        "'cached prompt tokens %': share of prompt tokens that hit an unlimited prefix cache, in full blocks.",
    ]
    if profile.requests > len(profile.sample):
        why.append(f"Lengths are from a random sample of {len(profile.sample):,} requests.")
    return Table(f"{profile.origin}: {profile.form}", ("what", "value"), tuple(rows), tuple(notes), tuple(why))


def plots(profile: TraceProfile) -> list[Plot]:
    """Chart data of requests per minute, lengths, and cache hit rates."""
    shown: list[Plot] = []
    minutes = profile.windows.get(60, ())
    if len(minutes) > 1:
        line = PlotSeries("requests", [float(minute) for minute in range(len(minutes))], [float(n) for n in minutes])
        shown.append(Plot("Arrivals", "minute", "requests in it", (line,), "", from_zero=True))
    lengths = tuple(
        PlotSeries(what, [100 * share for share in _SHARES], profile.quantiles(name, _SHARES))
        for what, name in (("prompt", "isl"), ("answer", "osl"))
    )
    shown.append(Plot("Lengths", "% of requests that are not longer", "tokens", lengths, "y", from_zero=True))
    if profile.found:
        rooms, shares = zip(*profile.found.items(), strict=True)
        line = PlotSeries("hit rate", [float(room) for room in rooms], [100 * share for share in shares])
        ideal = {"unlimited cache": 100 * profile.distances.share}
        shown.append(Plot("Reuse", "cache capacity (blocks)", "hit rate (%)", (line,), "x", promises=ideal))
    return shown
