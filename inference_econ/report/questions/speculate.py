"""Page that compares speculation with plain decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.speculate import Speculated, chosen_speculation
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import assumptions_label, dollars, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import heading, lengths_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Table
from inference_econ.report.service import fleet_label

#: Smallest reported relative difference of the vocabulary sizes of target and draft model [1].
_OTHER_VOCABULARY = 0.01
_COLUMNS = (
    "concurrency", "batch", "plain_tpot_seconds", "tpot_seconds", "draft_tokens", "tokens_per_round", "speedup",
    "plain_dollars_per_million_output_tokens", "dollars_per_million_output_tokens",
)  # fmt: skip

#: Sentence on constants that several engines share.
_SHARED = " All engines share these constants. Select the constants of one engine with --engine, as 'frontier' does."


class SpeculationPage(AnswerPage[Speculated]):
    """Page that compares a deployment with and without speculation."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per concurrency, in powers of two."""
        speculated, speculation = self.answer, chosen_speculation(self.answer)
        setup, subjects = speculated.plain.setup, speculated.subjects()
        draft, model, notes, why = speculation.model, setup.model, [_verdict(speculated)], []
        if draft is not None and abs(draft.vocab_size / model.vocab_size - 1.0) > _OTHER_VOCABULARY:
            notes.append(
                f"Draft and target model need the same vocabulary, but {draft.name} has {draft.vocab_size:,} tokens "
                f"and {model.name} {model.vocab_size:,}."
            )
        if speculated.speculating.prefill_seconds > speculated.plain.prefill_seconds:
            why.append("The draft model also prefills each prompt, so speculation can be slower without draft tokens.")
        speculating, alone = speculated.speculating.slots, speculated.plain.slots
        if speculating < alone:
            why.append(f"Drafting needs memory, so {speculating} requests fit with speculation and {alone} without.")
        running = int(speculated.speculating.states.concurrency[-1])
        if running < speculating:
            notes.append(
                f"Preemptions leave some of the {speculating:,} slots empty: {running:,} requests run on average."
            )
        without, full = speculated.full_dollars()
        why.append(
            f"At maximum concurrency, a million output tokens cost ${dollars(without)} without speculation and "
            f"${dollars(full)} with it."
        )
        proposal_ms = 1e3 * float(speculated.draft_seconds[0])
        if 0.0 < proposal_ms < np.inf:
            why.append(f"At concurrency 1, drafting a token takes {proposal_ms:.3g} ms.")
        drafted = "'drafted': best number of draft tokens; at 0, steps without draft tokens are fastest"
        if speculation.shortest == speculation.longest:
            drafted = "All steps draft the same number of tokens, as engines do"
        why.append(
            f"The table compares {fleet_label(speculated.plain, 1)} with and without speculation, at equal "
            f"concurrency. {drafted}. TPOT includes the prefill of other requests by both models."
        )
        why.append(
            "'$/M': total cost, including input, divided by the output tokens. Assumptions: "
            f"{assumptions_label([setup])}.{_SHARED if len(setup.engines) > 1 else ''}"
        )
        table = view(
            title(speculated),
            speculated.records(),
            _COLUMNS,
            kind="speculated",
            notes=(*notes, *doubts([setup], subjects)),
            why=(*why, *grounds([setup], subjects, SEEN)),
            least=("batch", "tokens_per_round"),
        )
        return (table,)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of speedup and draft length against concurrency."""
        heading = f"At which concurrency does speculation pay?\n{title(self.answer)}"
        return {"speculation": charts.line_charts(speculation_charts(self.answer), heading)}


def title(speculated: Speculated) -> str:
    """Heading in one line: quantity, model, layout and lengths."""
    setup, requests = speculated.plain.setup, speculated.plain.requests
    return heading(
        f"Speculation on {speculated.plain.accelerators} GPUs, {layout_label(layout_of(speculated.plain))} "
        f"({assumptions_label([setup])})",
        [setup],
        [lengths_label(requests)],
        speculations=[chosen_speculation(speculated)],
    )


def _loss(speculated: Speculated) -> str:
    """Sentence on the largest slowdown compared with plain decoding; empty if there is none."""
    worst = int(np.argmin(speculated.speedup))
    if speculated.speedup[worst] >= 1.0 - 1e-6:
        return ""
    flight = f"{speculated.concurrency[worst]:.0f}"
    return f" At concurrency {flight}, speculation is slower ({speculated.speedup[worst]:.2f}x)."


def _verdict(speculated: Speculated) -> str:
    """Sentence on the concurrencies at which speculation is faster."""
    pays = np.flatnonzero(speculated.pays)
    if not pays.size:
        most = f"{speculated.concurrency[-1]:.0f}"
        return f"Speculation is not faster at 1 to {most} concurrent requests.{_loss(speculated)}"
    first, last = speculated.concurrency[pays[[0, -1]]]
    best = int(np.argmax(speculated.speedup))
    flight = speculated.concurrency[best]
    start = "" if pays[0] == 0 else f"from {first:.0f} "
    top = f"The largest speedup is {speculated.speedup[best]:.2f}x, at concurrency {flight:.0f}"
    if speculated.pays[-1]:
        return f"Speculation is faster {start}up to {last:.0f} concurrent requests, the most that fit. {top}."
    gaps = "" if speculated.pays[pays[0] : pays[-1]].all() else ", with exceptions"
    batch = f"batch {speculated.state.batch[pays[-1]]:.4g}"
    fast = f"Speculation is faster {start}up to {last:.0f} concurrent requests ({batch}){gaps}."
    return f"{fast} {top}.{_loss(speculated)}"


def speculation_charts(speculated: Speculated) -> tuple[Plot, Plot]:
    """Charts of speedup and draft length against the concurrency."""
    lines = {
        "time per output token": speculated.speedup,
        "cost per output token": speculated.dollars(speculated.plain_state) / speculated.dollars(speculated.state),
    }
    x, marks = speculated.concurrency.tolist(), {}
    if speculated.pays.any() and not speculated.pays[-1]:
        marks = {"not faster from": float(speculated.concurrency[np.flatnonzero(speculated.pays)[-1] + 1])}
    speedups = tuple(PlotSeries(label, x, values.tolist()) for label, values in lines.items())
    name = "best draft length" if chosen_speculation(speculated).shortest == 0 else "draft length"
    lengths = (PlotSeries(name, x, [float(length) for length in speculated.drafted]),)
    flight = "concurrent requests"
    return (
        Plot("Time and cost without speculation, divided by those with it", flight, "ratio", speedups, "x", marks),
        Plot("Draft tokens per round", flight, "tokens", lengths, "x", marks),
    )
