"""Speculation beside plain decoding, and the check of its rule, as tables and as data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inference_econ.answers.speculate import Speculated
from inference_econ.engine.speculation import Speculation
from inference_econ.report import caveats
from inference_econ.report.service import SEEN, layout_of
from inference_econ.report.table import Table, dollars, layout_label
from inference_econ.studies.exhibits import Chart, Line
from inference_econ.studies.sampling_rule import Check, Fit

#: Columns of latencies.
_FOLLOWS: caveats.Follows = {
    **dict.fromkeys(("plain_ttft_seconds", "ttft_seconds"), ("ttft", 1)),
    **dict.fromkeys(("plain_tpot_seconds", "tpot_seconds"), ("tpot", 1)),
}
#: Vocabularies that differ by more are said to [1].
_OTHER_VOCABULARY = 0.01
#: Smaller probabilities of such a difference say that the distributions are not equal [1].
_UNLIKELY = 1e-3
_COLUMNS = (
    "in flight", "batch", "TPOT plain ms", "TPOT ms", "drafted", "tokens/round", "speed-up", "$/M plain", "$/M output",
)  # fmt: skip


def speculation_table(found: Speculated) -> Table:
    """Rows by requests in flight, in powers of two."""
    some = found.at(_shown(found))
    plain, fast = some.plain_state, some.state
    columns = (
        [f"{value:.0f}" for value in some.concurrency],
        [f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in fast.batch],
        [f"{1e3 * value:.4g}" for value in plain.tpot_seconds],
        [f"{1e3 * value:.4g}" for value in fast.tpot_seconds],
        [str(value) for value in some.drafted],
        [f"{value:.2f}" for value in some.tokens],
        [f"{value:.2f}" for value in some.speedup],
        [dollars(value) for value in some.dollars(plain)],
        [dollars(value) for value in some.dollars(fast)],
    )
    return Table(title(found), _COLUMNS, tuple(zip(*columns, strict=True)), tuple(_notes(found)))


def title(found: Speculated) -> str:
    """Model, layout and lengths in one line."""
    setup, requests = found.plain.setup, found.plain.requests
    return (
        f"{setup.model.name} ({setup.precision.weights}) on {found.plain.accelerators} x "
        f"{setup.hardware.name}, {layout_label(layout_of(found.plain))}: {requests.isl.mean:g} input and "
        f"{requests.osl.mean:g} output tokens, with {_speculation(found).label}"
    )


def speculation_record(found: Speculated) -> dict[str, object]:
    """The same as plain data."""
    some, setup = found.at(_shown(found)), found.plain.setup
    pays, batches = found.concurrency[found.pays], found.state.batch[found.pays]
    plain, fast = some.plain_state, some.state
    columns = {
        "concurrency": some.concurrency,
        "batch": fast.batch,
        "plain_batch": plain.batch,
        "plain_tpot_seconds": plain.tpot_seconds,
        "tpot_seconds": fast.tpot_seconds,
        "plain_ttft_seconds": plain.ttft_seconds,
        "ttft_seconds": fast.ttft_seconds,
        "draft_tokens": some.drafted,
        "tokens_per_round": some.tokens,
        "propose_seconds": some.propose_seconds,
        "speedup": some.speedup,
        "plain_dollars_per_million_output_tokens": some.dollars(plain),
        "dollars_per_million_output_tokens": some.dollars(fast),
    }
    values = zip(*(one.tolist() for one in columns.values()), strict=True)
    ends = caveats.ends(_asked(found), _FOLLOWS)
    rows = [caveats.bounded(dict(zip(columns, one, strict=True)), ends) for one in values]
    full_plain, full = found.full_dollars()
    return {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "calibration": caveats.calibration_record(_asked(found), SEEN),
        "weights": setup.precision.weights,
        "layout": layout_of(found.plain),
        "isl": found.plain.requests.isl.mean,
        "osl": found.plain.requests.osl.mean,
        "speculation": _speculation(found).record(),
        "dollars_per_accelerator_hour": found.dollars_per_accelerator_hour,
        "plain_slots": found.plain.slots,
        "slots": found.speculating.slots,
        "pays_from": float(pays[0]) if pays.size else None,
        "pays_to": float(pays[-1]) if pays.size else None,
        "pays_to_batch": float(batches[-1]) if pays.size else None,
        "stops_paying": bool(pays.size and not found.pays[-1]),
        "plain_dollars_per_million_when_full": full_plain,
        "dollars_per_million_when_full": full,
        "rows": rows,
    }


def check_table(check: Check) -> Table:
    """Drawn tokens beside the target's distributions, by position."""
    rows = []
    for position, fit in enumerate(check.fits):
        share = ("", "")
        if position < check.draft_length:
            drawn = check.accepted[position]
            share = (f"{check.acceptance[position]:.4f}", f"{drawn.value:.4f} ± {drawn.half_width:.4f}")
        rows.append((str(position + 1), *_fit_cells(fit), *share))
    rows.append(("all", *_fit_cells(check.fit), "", ""))
    columns = ("position", "tokens", "chi-square", "degrees", "p-value", "accepted, formula", "accepted, drawn")
    verdict = "agree with" if check.fit.p_value >= _UNLIKELY else "DIFFER from"
    meets = "inside" if check.tokens.agrees(check.expected_tokens) else "OUTSIDE"
    notes = (
        f"The tokens {verdict} the target's distribution: chi-square p-value {check.fit.p_value:.3g}.",
        f"Tokens per round: {check.expected_tokens:.5f} by formula, {check.tokens.value:.5f} ± "
        f"{check.tokens.half_width:.5f} drawn (95 % confidence): {meets} the interval.",
    )
    name = f"Speculative sampling: {check.vocabulary} tokens, {check.draft_length} proposals, {check.rounds:,} rounds"
    return Table(name, columns, tuple(rows), notes)


def check_record(check: Check) -> dict[str, object]:
    """The same as plain data; a p-value of an impossible token is 0, and its chi-square null."""
    fits = [
        {
            "position": position + 1,
            "tokens": fit.tokens,
            "chi_square": fit.statistic if np.isfinite(fit.statistic) else None,
            "degrees_of_freedom": fit.degrees,
            "p_value": fit.p_value,
        }
        for position, fit in enumerate(check.fits)
    ]
    accepted = [
        {
            "expected": float(chance),
            "drawn": None if np.isnan(drawn.value) else drawn.value,
            "half_width": None if np.isnan(drawn.half_width) else drawn.half_width,
        }
        for chance, drawn in zip(check.acceptance, check.accepted, strict=True)
    ]
    width = check.tokens.half_width
    return {
        "vocabulary": check.vocabulary,
        "draft_length": check.draft_length,
        "rounds": check.rounds,
        "p_value": check.fit.p_value,
        "expected_tokens_per_round": check.expected_tokens,
        "drawn_tokens_per_round": check.tokens.value,
        "half_width_95": None if np.isnan(width) else width,
        "positions": fits,
        "acceptance": accepted,
    }


def _fit_cells(fit: Fit) -> tuple[str, str, str, str]:
    return f"{fit.tokens:,}", f"{fit.statistic:.1f}", str(fit.degrees), f"{fit.p_value:.3g}"


def _shown(found: Speculated) -> Sequence[float]:
    last = float(found.concurrency[-1])
    powers = 2.0 ** np.arange(np.floor(np.log2(last)) + 1.0)
    return [*powers[powers < last].tolist(), last]


def _speculation(found: Speculated) -> Speculation:
    assert found.speculating.speculation is not None
    return found.speculating.speculation


def _notes(found: Speculated) -> list[str]:
    speculation, setup = _speculation(found), found.plain.setup
    notes = [_verdict(found)]
    if found.speculating.slots < found.plain.slots:
        notes.append(
            f"The proposer takes memory: {found.speculating.slots} requests fit beside it, {found.plain.slots} without."
        )
    without, full = found.full_dollars()
    notes.append(f"All slots taken: ${dollars(without)}/M output tokens without speculation, ${dollars(full)} with it.")
    each = 1e3 * float(found.propose_seconds[0])
    if each:
        notes.append(f"Proposing a token takes {each:.3g} ms with one request in flight.")
    notes.append(
        "At equal numbers in flight. The batch is what a round works on; drafted is its best number of proposals, 0 "
        "where plain decoding is quickest. TPOT includes the prefill of others, by the proposer too. $/M output "
        f"carries the whole bill, at ${found.dollars_per_accelerator_hour:g} per GPU-hour. Assumptions: "
        f"{setup.assumptions.name}."
    )
    if speculation.model is not None:
        ratio = speculation.model.vocab_size / setup.model.vocab_size
        if abs(ratio - 1.0) > _OTHER_VOCABULARY:
            notes.append(
                f"The rule needs one vocabulary: {speculation.model.name} has {speculation.model.vocab_size:,} tokens, "
                f"{setup.model.name} {setup.model.vocab_size:,}."
            )
    return [*notes, *caveats.remarks(_asked(found), SEEN)]


def _asked(found: Speculated) -> caveats.Asked:
    """Both deployments, to be told how far off they may be."""
    shown, plain = _shown(found), found.plain
    sizes, requests = [float(plain.accelerators)] * len(shown), plain.requests
    return caveats.Asked(plain.setup, sizes, shown, requests.isl.mean, requests.osl.mean, speculates=True)


def _verdict(found: Speculated) -> str:
    """Where speculation pays, in words."""
    pays = np.flatnonzero(found.pays)
    if not pays.size:
        return f"It never pays: no speed-up at any of 1 to {found.concurrency[-1]:.0f} requests in flight."
    first, last = found.concurrency[pays[[0, -1]]]
    best = int(np.argmax(found.speedup))
    start = "" if pays[0] == 0 else f" from {first:.0f} on"
    top = f"at most {found.speedup[best]:.2f} times as quick per token, with {found.concurrency[best]:.0f} in flight"
    if found.pays[-1]:
        return f"It pays{start} up to all {last:.0f} requests that fit: {top}."
    gaps = "" if found.pays[pays[0] : pays[-1]].all() else ", not everywhere between"
    batch = f"a batch of {found.state.batch[pays[-1]]:.4g}"
    return f"It pays{start} up to {last:.0f} requests in flight ({batch}){gaps}: {top}."


def charts(found: Speculated) -> tuple[Chart, Chart]:
    """Speed-up, and draft length, over the requests in flight."""
    lines = {
        "time per output token": found.speedup,
        "cost per output token": found.dollars(found.plain_state) / found.dollars(found.state),
    }
    x, marks = found.concurrency.tolist(), {}
    if found.pays.any() and not found.pays[-1]:
        marks = {"stops paying": float(found.concurrency[np.flatnonzero(found.pays)[-1] + 1])}
    speedups = tuple(Line(label, x, values.tolist()) for label, values in lines.items())
    lengths = (Line("best draft length", x, [float(length) for length in found.drafted]),)
    flight = "requests in flight"
    return (
        Chart("Without speculation over with it", flight, "ratio", speedups, "x", marks),
        Chart("Proposals per round", flight, "tokens", lengths, "x", marks),
    )
