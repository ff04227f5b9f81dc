"""Burstiness of arrivals in words: which is assumed, and what users would see under another."""

from __future__ import annotations

import math

from inference_econ.answers.burstiness import POISSON, Burstiness
from inference_econ.answers.promises import Targets
from inference_econ.serving import Loaded

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
