"""Terms that fleets of pools must keep: promises, arrivals, and how full and how unequal pools may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.margins import Margins, margins
from inference_econ.answers.promises import FILLED, FULLEST, Targets
from inference_econ.errors import InputError

#: Most instances of one kind for each of the other, so that ratios go from 1:16 to 16:1 [1]. Fleets of public
#: measurements have from 1:9 to 3:1 (servers/serving_points.csv); DeepSeek-V3's report (2024, section 3.4) has units of
#: 4 and of 40 nodes. Where one instance feeds or drains more than that, its loss stops them all.
MOST_RATIO = 16
#: Savings below this are not worth a second pool, a larger group or a dearer layout: 3P1D is deployed where 16P5D saves
#: two per cent [1].
NOTICED = 0.05
#: Speed that is gained below this is not worth pools of twice the chips [1]: nobody starts 136 where 56 are as fast
#: within a per cent.
FASTER = 0.02


def fewest_beside(instances: int) -> int:
    """Fewest instances of one pool beside some of the other [1]."""
    return math.ceil(instances / MOST_RATIO)


@dataclass(frozen=True, slots=True)
class Terms:
    """Promises, arrivals and loads of a fleet of prefill and decode instances.

    Attributes
    ----------
    targets : Targets
        Promised TTFT and TPOT, and which requests must see them. No e2e.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 if Poisson, more if bursty.
    fullest : float
        Share of what a pool completes beyond which it is not filled [1].

    Raises
    ------
    InputError
        If the share or the variation is impossible, or an e2e is promised.
    """

    targets: Targets = field(default_factory=Targets)
    arrival_scv: float = 1.0
    fullest: float = FILLED

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if "e2e" in self.targets.given:
            raise InputError(
                "--e2e: of pools that prefill and decode apart only the mean time to the last token is known; promise "
                "--ttft and --tpot, or ask 'recommend --together'",
                option="e2e",
            )
        if not 0.0 < self.fullest <= FULLEST:
            raise InputError(
                f"the share of what is completed that pools are filled to must be above 0 and at most {FULLEST:g} "
                f"(beyond it queues hang on the last digit), got {self.fullest:g}"
            )
        if not 0.0 <= self.arrival_scv < math.inf:
            raise InputError(f"arrival_scv must be a number >= 0, got {self.arrival_scv:g}")

    @property
    def kept(self) -> Targets:
        """The promises; where there is none of a TTFT, answers wait as little for a place in a batch as prompts do."""
        if "ttft" in self.targets.given:
            return self.targets
        return replace(self.targets, fullest=min(self.targets.fullest, self.fullest_reading))

    @property
    def fullest_reading(self) -> float:
        """Share of what prefill instances complete beyond which no question fills them, so that prompts wait little."""
        return min(self.fullest, FILLED)

    def predicted(self, pools: Pools) -> Terms:
        """Terms that predictions of any layouts of two pools must keep for measured ones to keep these."""
        if self.targets.confidence is None:
            return self
        by = self.margins(pools)
        return replace(self, targets=self.targets.less(by), fullest=self.fullest / float(by.throughput.max()))

    def margins(self, pools: Pools) -> Margins:
        """Divisors of promises before predictions for any layouts of two pools are held against them [1]."""
        confidence, promised = self.targets.confidence, set(self.targets.given)
        if confidence is None:
            return self.targets.margins(pools.decode.services)
        reading = margins(pools.prefill.services, confidence, promised & {"ttft"})
        decoding = margins(pools.decode.services, confidence, promised & {"tpot"})
        ones = np.ones_like(decoding.tpot)
        return Margins(reading.ttft, decoding.tpot, ones, np.append(reading.throughput, decoding.throughput))


def unreachable(pools: Pools, terms: Terms) -> str:
    """Promise that no pair of layouts keeps, the best that can be reached, and how far that is from it."""
    targets, by = terms.targets, terms.margins(pools)
    promised = {
        "TTFT": (targets.ttft_seconds, float(by.ttft.max() * pools.first_token_seconds.min())),
        "TPOT": (targets.tpot_seconds, float(by.tpot.max() * pools.decode.step_seconds.min())),
    }
    reached = ", ".join(
        f"{name} {1e3 * best:.4g} ms{_missed(best / limit)}" for name, (limit, best) in promised.items()
    )
    return (
        f"no pair of layouts keeps {targets.text or 'the SLOs'}. Best reachable with a single request: {reached}; that "
        f"is without queues, here at most {100 * terms.fullest:g} % busy, with 1:{MOST_RATIO} to {MOST_RATIO}:1 "
        "prefill to decode instances"
    )


def _missed(factor: float) -> str:
    return f" ({factor:.3g} times the SLO)" if factor > 1.0 else ""
