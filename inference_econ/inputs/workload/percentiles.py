"""Statistics of latency SLOs: mean, and percentiles from p1 to p99.9."""

from __future__ import annotations

import re
from typing import NamedTuple

from inference_econ.errors import InputError

#: Name of the statistic that is a mean, not a percentile.
MEAN = "mean"
#: Smallest and largest percentile.
_LEAST, _MOST = 1.0, 99.9
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")
_ALLOWED = f"allowed: {MEAN}, and p{_LEAST:g} to p{_MOST:g}, for example p95"
#: Reason why a frontier only allows SLOs on means.
MEANS_ONLY = "a frontier has no queues, so SLOs apply to means"
_EXAMPLE = "write for example p95:1000 or 'mean:30 ms'"


class Promise(NamedTuple):
    """Latency SLO as the user wrote it: ``p95:1000 ms``."""

    percentile: str | None
    """Statistic: percentile or mean; None if the text states no statistic."""
    time: str
    """Text of the latency."""


def percentile(text: str) -> str:
    """Canonical name of a statistic: ``mean``, ``p50``, ``p99.9``.

    Raises
    ------
    InputError
        If the text is neither the mean nor a percentile from p1 to p99.9.

    Examples
    --------
    >>> percentile("P95"), percentile("p99.90"), percentile("mean")
    ('p95', 'p99.9', 'mean')
    """
    name = str(text).strip().lower()
    if name == MEAN:
        return name
    match = _PERCENTILE.fullmatch(name)
    if match is None or not _LEAST <= float(match[1]) <= _MOST:
        raise InputError(f"percentile: got {text!r}; {_ALLOWED}")
    return f"p{float(match[1]):g}"


def share(name: str) -> float | None:
    """Share of requests that must be below the latency [1]; None for the mean.

    Raises
    ------
    InputError
        If :func:`percentile` rejects the name.

    Examples
    --------
    >>> share("p95"), share("mean")
    (0.95, None)
    """
    statistic = percentile(name)
    return None if statistic == MEAN else float(statistic[1:]) / 100.0


def in_order(names: set[str]) -> tuple[str, ...]:
    """Statistics without duplicates, the mean first and then ascending percentiles.

    Examples
    --------
    >>> in_order({"p99", "p95", "mean", "p50"})
    ('mean', 'p50', 'p95', 'p99')
    """
    return tuple(sorted(names, key=lambda name: share(name) or 0.0))


def promise(text: str) -> Promise:
    """Split a latency SLO into statistic and latency: ``p95:1000`` is a limit of 1000 on the 95th percentile.

    Raises
    ------
    InputError
        If the percentile is invalid or given twice, or if the latency is missing.

    Examples
    --------
    >>> promise("p95:2 s"), promise("30")
    (Promise(percentile='p95', time='2 s'), Promise(percentile=None, time='30'))
    """
    head, colon, time = (part.strip() for part in text.partition(":"))
    if not colon:
        if head.lower() == MEAN or _PERCENTILE.fullmatch(head.lower()):
            raise InputError(f"{text!r} names no time; {_EXAMPLE}")
        return Promise(None, text)
    which = percentile(head)
    if ":" in time:
        raise InputError(f"{text!r}: one SLO has one percentile; {_EXAMPLE}")
    if not time:
        raise InputError(f"{text!r} names no time; {_EXAMPLE}")
    return Promise(which, time)
