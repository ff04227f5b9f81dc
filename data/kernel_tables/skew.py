"""Cost of a router with power-law expert popularity over a balanced one: measured, and predicted from popularity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from data.kernel_tables import experts
from data.kernel_tables.tables import FEWEST, Fitted, newest
from inference_econ.formulas.experts import expected_largest

if TYPE_CHECKING:
    import pandas as pd


def lines(family: str, dtype: str = "fp8_block") -> Iterator[str]:
    """Lines to print for the kernel with the most shapes, for both exponents in the tables."""
    rows = newest(experts.sized(experts.rows_of(family), family, dtype))
    rows = rows[rows["kernel"] == rows["kernel"].mode()[0]]
    if len(rows) < FEWEST:
        return
    fitted = experts.fit(rows[rows["distribution"] == "balanced"])
    for alpha in ("1.01", "1.2"):
        drawn = [round(popularity(float(alpha), tokens), 1) for tokens in (128, 1024, 8192)]
        yield f"{family}, power law {alpha}: popularity_scv of 128, 1,024 and 8,192 tokens {drawn}"
        yield from (f"    {line}" for line in skewed(fitted, rows, alpha))


def skewed(fitted: Fitted, rows: pd.DataFrame, alpha: str) -> Iterator[str]:
    """Median time over that of a balanced router, by expert-parallel ranks: measured and predicted [1]."""
    keys = [*experts.SHAPE, "kernel_source"]
    even, skew = (rows[rows["distribution"] == name] for name in ("balanced", f"power_law_{alpha}"))
    pairs = even.merge(skew[[*keys, "seconds"]], on=keys, suffixes=("", "_skewed"))
    pairs = pairs[(pairs["tokens"] > 64) & (pairs["seconds"] > 5e-4)]
    constants = list(fitted.constants.values())
    for _, some in pairs.groupby("moe_ep_size"):
        ranks = float(some["moe_ep_size"].iloc[0])
        base, parts = experts.predicted(constants, some), []
        for scv in (0.0, 0.5, 1.0, 2.3, 4.0):
            routed = float(np.median(some["tokens"] * some["num_experts"])) / ranks
            number = float(np.median(some["num_experts"]))
            variation = np.sqrt(1.0 / routed + scv * ranks / number)
            busiest = min(1.0 + float(expected_largest(ranks)) * variation, ranks)
            parts.append(f"{scv}: {np.median(experts.predicted(constants, some, busiest) / base):.2f}")
        ratio = np.median(some["seconds_skewed"] / some["seconds"])
        yield f"{ranks:3.0f} ranks, {len(some)} pairs: measured {ratio:.2f}; by popularity_scv {', '.join(parts)}"


def popularity(alpha: float, tokens: float) -> float:
    """Squared coefficient of variation of a power law from 1 to 0.8 of the tokens, as in the tables [1]."""
    from scipy.integrate import quad

    moments = [quad(lambda x, n=n: x ** (n - alpha), 1.0, 0.8 * tokens, limit=500)[0] for n in (0, 1, 2)]
    return float(moments[0] * moments[2] / moments[1] ** 2 - 1.0)
