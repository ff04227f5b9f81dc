"""On which terms both ways of serving are held against each other: promises, arrivals, loads and sizes of pools."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.margins import Margins, margins
from inference_econ.answers.promises import FILLED, FULLEST, Targets
from inference_econ.errors import InputError

#: Of either kind in the smallest group that is deployed together, so that ratios go from 1:16 to 16:1 [1]. Fleets of
#: public measurements have from 1:9 to 3:1 (servers/serving_points.csv); DeepSeek-V3's report (2024, section 3.4)
#: has units of 4 and of 40 nodes. Where one instance feeds or drains more than that, its loss stops them all.
MOST_INSTANCES = 16
#: Savings below this are not worth a second pool, a larger group or a dearer layout: 3P1D is deployed where 16P5D saves
#: two per cent [1].
NOTICED = 0.05
#: Speed that is gained below this is not worth pools of twice the chips [1]: nobody starts 136 where 56 are as fast
#: within a per cent.
FASTER = 0.02
#: No pool of a fleet that is looked at has more instances, or the search would take minutes [1].
_LARGEST = 256
_RATIO = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


@dataclass(frozen=True, slots=True)
class Ratios:
    """How many prefill instances a fleet may have for how many that decode, whole numbers both.

    Attributes
    ----------
    least, most : Fraction
        Prefill instances over decode instances [1].
    instances : int
        Of either kind in the smallest group that is deployed together, at most [1].

    Raises
    ------
    InputError
        If the limits contradict each other, or leave no whole numbers.

    Examples
    --------
    >>> Ratios.parse("1:2,3:1").decoders(3)
    range(1, 4)
    """

    least: Fraction = Fraction(1, MOST_INSTANCES)
    most: Fraction = Fraction(MOST_INSTANCES)
    instances: int = MOST_INSTANCES

    def __post_init__(self) -> None:
        """Refuse limits between which there is nothing."""
        if self.least > self.most:
            raise InputError(
                f"ratios of prefill to decode instances: from {_shown(self.least)} to {_shown(self.most)} contradicts "
                f"itself; write the smaller first: {_shown(self.most)},{_shown(self.least)}"
            )
        if not 1 <= self.instances <= _LARGEST:
            raise InputError(
                f"ratios of prefill to decode instances: from 1 to {_LARGEST} of a kind are possible, got "
                f"{self.instances}"
            )

    @classmethod
    def parse(cls, text: str) -> Ratios:
        """Limits as people type them: the least and the most, ``1:16,16:1``.

        Raises
        ------
        InputError
            If the text has another form, or the limits contradict each other.
        """
        pairs = [_RATIO.fullmatch(part) for part in text.split(",")]
        numbers = [int(number) for pair in pairs if pair is not None for number in pair.groups()]
        if len(pairs) != 2 or len(numbers) != 4 or 0 in numbers:
            raise InputError(
                f"{text!r} is no range of ratios of prefill to decode instances; write the least and the most, each of "
                "two whole numbers from 1 on, for example 1:16,16:1"
            )
        return cls(Fraction(numbers[0], numbers[1]), Fraction(numbers[2], numbers[3]), max(numbers))

    def __str__(self) -> str:
        return f"{_shown(self.least)} to {_shown(self.most)}"

    def fewest_decoders(self, prefill_instances: int) -> int:
        """Fewest decode instances beside some that read prompts [1]."""
        return max(1, math.ceil(prefill_instances / self.most))

    def most_decoders(self, prefill_instances: int) -> int:
        """Most of them [1]; there may be fewer than :meth:`fewest_decoders`."""
        return math.floor(prefill_instances / self.least)

    def decoders(self, prefill_instances: int) -> range:
        """Numbers of decode instances beside some that read prompts, within :attr:`instances`."""
        most = min(self.most_decoders(prefill_instances), self.instances)
        return range(self.fewest_decoders(prefill_instances), most + 1)

    def readers(self, decode_instances: int) -> tuple[int, int]:
        """Fewest and most prefill instances beside some that decode [1]."""
        return max(1, math.ceil(decode_instances * self.least)), math.floor(decode_instances * self.most)


def _shown(ratio: Fraction) -> str:
    return f"{ratio.numerator}:{ratio.denominator}"


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms that both ways of serving have in common when their costs are compared.

    Attributes
    ----------
    targets : Targets
        Promised TTFT and TPOT, and which requests must see them; speeds are of the percentile of the TPOT. No e2e.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1]: 1 if Poisson, more if bursty.
    fullest : float
        Share of what a pool, or an instance that does both, completes, beyond which it is not filled [1].
    ratios : Ratios
        Prefill to decode instances of a fleet.

    Raises
    ------
    InputError
        If the share or the variation is impossible, or an e2e is promised.
    """

    targets: Targets = field(default_factory=Targets)
    arrival_scv: float = 1.0
    fullest: float = FILLED
    ratios: Ratios = field(default_factory=Ratios)

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
        f"no pair of layouts keeps {targets.text or 'the SLOs'}. Best reachable with a single "
        f"request: {reached}; that is without queues, here at most {100 * terms.fullest:g} % busy, with {terms.ratios} "
        "prefill to decode instances"
    )


def _missed(factor: float) -> str:
    return f" ({factor:.3g} times the SLO)" if factor > 1.0 else ""
