"""What charts say of a point when somebody points at it."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.report.caveats import Factors
from inference_econ.report.table import amount


def between(value: float, factors: Factors) -> str:
    """A value and where measured ones probably lie, if that is known.

    Examples
    --------
    >>> between(20.0, (0.9, 1.2)), between(20.0, (None, None))
    ('20.0 (18.0 to 24.0)', '20.0')
    """
    low, high = factors
    return amount(value) if low is None or high is None else f"{amount(value)} ({_ends(value, low, high)})"


def _ends(value: float, low: float, high: float) -> str:
    return f"{amount(value * low)} to {amount(value * high)}"


def priced(costs: Sequence[float], factors: Factors) -> dict[str, list[float | str]]:
    """Costs and where measured ones probably lie, as numbers: what is proportional to the price of a chip.

    Parameters
    ----------
    costs : sequence of float
        [USD per 1e6 output tokens].
    factors : tuple of float or None
        To the ends [1].
    """
    low, high = factors
    named: dict[str, list[float | str]] = {"$/M output": list(costs)}
    if low is not None and high is not None:
        named |= {"$/M low": [cost * low for cost in costs], "$/M high": [cost * high for cost in costs]}
    return named
