"""Promises in words: how probably they are kept, and what burstier arrivals would make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inference_econ.answers.burstiness import POISSON, Burstiness
from inference_econ.answers.chances import Chances
from inference_econ.answers.promises import Targets
from inference_econ.records.texts import chance_percent
from inference_econ.report.fields import Column
from inference_econ.serving import Loaded

_COLUMN = "P(SLO) %"


def chances_column(targets: Targets, shown: Sequence[Chances]) -> list[Column]:
    """A column of the probabilities of what is promised; none where nothing is promised, or nobody knows."""
    if not _is_predicted(targets, shown):
        return []
    return [
        (_COLUMN, ["/".join(chance_percent(getattr(chances, name)) for name in targets.given) for chances in shown])
    ]


def planned_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column where deployments are chosen, and on how probable promises were made."""
    if targets.confidence is not None:
        return [f"{_meaning(targets, shown)} Planned so that each is at least {100 * targets.confidence:g} %."]
    named = _is_predicted(targets, shown)
    return [f"{note} --confidence 80 plans with a margin." if named else note for note in chances_notes(targets, shown)]


def chances_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column, or that nobody knows; none where nothing is promised."""
    if not targets.given:
        return []
    if _is_predicted(targets, shown):
        return [_meaning(targets, shown)]
    names = " or ".join(name.upper() for name in targets.given)
    return [
        f"Nobody knows how probable it is that the SLO of {names} is met: these assumptions were fitted to no such "
        "measurement. Take a fitted profile, or fit one: inference-econ calibrate."
    ]


def _is_predicted(targets: Targets, shown: Sequence[Chances]) -> bool:
    return any(getattr(chances, name) is not None for chances in shown for name in targets.given)


def _meaning(targets: Targets, shown: Sequence[Chances]) -> str:
    names = " / ".join(f"{targets.percentile_of(name)} {name.upper()}" for name in targets.given)
    carried = [chances.capacity for chances in shown if chances.capacity is not None]
    worst = " in the worst row" if len(carried) > 1 else ""
    traffic = f"; it carries the traffic with {chance_percent(min(carried))} %{worst}" if carried else ""
    unknown = any(getattr(chances, name) is None for chances in shown for name in targets.given)
    mark = "; ?: nobody knows" if unknown else ""
    return f"P(SLO) %: probability that a measured server meets the SLO of {names}, each by itself{mark}{traffic}."


def kept_with(chances: Chances, targets: Targets) -> list[str]:
    """Line on the promises and how probably one deployment keeps them; none without promises."""
    if not targets.given:
        return []
    if all(getattr(chances, name) is None for name in targets.given):
        return chances_notes(targets, [chances])
    kept = [f"{name.upper()} kept with {chance_percent(getattr(chances, name))} %" for name in targets.given]
    planned = "" if targets.confidence is None else f"; planned for {100 * targets.confidence:g} % each"
    if chances.capacity is not None:
        kept.append(f"the traffic carried with {chance_percent(chances.capacity)} %")
    return [f"{', '.join(kept)}{planned}."]


#: What a TPOT has to be shorter by under bursts that it is said why [1].
_LESS = 0.02


def burstiness_note(compared: Burstiness, targets: Targets) -> str:
    """Sentence on the arrivals that are assumed, and on latencies under others at the same load."""
    load = compared.assumed
    return (
        f"{_assumed(compared)}; with {arrivals_label(compared.other_scv)} at "
        f"{100 * load.utilization:.0f} % load it would see {_instead(load, compared.other, targets)}."
    )


def promises_note(compared: Burstiness, targets: Targets) -> str:
    """Sentence on whether a fleet keeps its promises under other arrivals; :func:`burstiness_note` without promises."""
    if not targets.given:
        return burstiness_note(compared, targets)
    broken = targets.broken(compared.other)
    verdict = "meets its SLOs" if broken is None else f"breaks its SLO of the {broken.upper()}"
    return (
        f"{_assumed(compared)}; with {arrivals_label(compared.other_scv)} the "
        f"first fleet {verdict}: {_instead(compared.assumed, compared.other, targets)}."
    )


def _assumed(compared: Burstiness) -> str:
    """Words for the source of arrivals."""
    if compared.traffic:
        return f"Arrivals are those of {compared.traffic}"
    return f"Arrivals are assumed {arrivals_label(compared.assumed_scv)}"


def arrivals_label(scv: float) -> str:
    """Arrivals in words, with the option that asks for them.

    Examples
    --------
    >>> arrivals_label(1.0), arrivals_label(10.0)
    ('Poisson (--arrival-scv 1)', 'bursty (--arrival-scv 10)')
    """
    kind = "Poisson" if scv == POISSON else "bursty" if scv > POISSON else "more regular than Poisson"
    return f"{kind} (--arrival-scv {scv:g})"


def _instead(load: Loaded, other: Loaded, targets: Targets) -> str:
    """Both latencies under other arrivals, and as they are."""
    if other.saturated:
        waited = _rounded(targets.seen("ttft", load))
        return f"queues that grow without end (TTFT {targets.percentile_of('ttft')} now {waited})"
    texts = (
        f"{name.upper()} {targets.percentile_of(name)} {_rounded(targets.seen(name, other))}, not {_rounded(now)}"
        for name in ("ttft", "tpot")
        if (now := targets.seen(name, load))  # a request of one token has no time between tokens
    )
    quicker = targets.seen("tpot", other) < (1.0 - _LESS) * targets.seen("tpot", load)
    burstier = other.arrivals.scv > load.arrivals.scv
    return "; ".join(texts) + (", as prompts that come together share steps" if quicker and burstier else "")


def _rounded(seconds: float) -> str:
    """A time with two digits, as random numbers decide on the third."""
    if math.isinf(seconds):
        return "without end"
    if seconds >= 1.0:
        return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds:,.0f} s"
    return f"{float(f'{1e3 * seconds:.2g}'):g} ms"
