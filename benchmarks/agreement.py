"""Compare commands that must agree on the same query: ``sh run.sh validate agreement``; ten minutes.

Every setup is queried in several ways through Python, whose names, options and defaults equal those of the command line
and HTTP (``tests/extras/web/test_doors.py`` checks this). Costs are compared before the simplest deployment within 10%
is chosen, if a command shows them.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import inference_econ as ie
from inference_econ.answers.simplest import SIMPLER
from inference_econ.errors import InputError, NothingFitsError

MODELS = ("llama_3_8b", "llama_3_70b", "qwen3_32b", "gpt_oss_120b", "deepseek_v3", "qwen3_235b_a22b", "mixtral_8x7b",
          "gemma_3_27b")  # fmt: skip
CHIPS = ("h100_sxm", "h200_sxm", "b200", "mi300x", "l40s")
#: Models and GPUs of the setups.
SETUPS: Sequence[tuple[str, str]] = tuple(itertools.product(MODELS, CHIPS))
#: Largest relative difference of equal costs, because curves are interpolated between batches [1].
TOLERANCE = 0.05
#: Request rate at which rounding to replicas hardly matters [1/s].
_MANY = 2000.0


class Pair(NamedTuple):
    """Two results for one query."""

    question: str
    first: float
    second: float
    below: float = TOLERANCE
    """Allowed relative decrease of the second [1]."""
    above: float = TOLERANCE
    """Allowed relative increase of the second [1]."""

    @property
    def agrees(self) -> bool:
        """True if both agree within the allowed difference."""
        ratio = self.second / self.first if self.first else math.inf
        return 1.0 / (1.0 + self.below) <= ratio <= 1.0 + self.above


def pairs(model: str, hardware: str) -> Iterator[Pair]:
    """Every query on a model and a GPU, made in two ways."""
    front = ie.frontier(model, hardware)
    speeds = front.tokens_per_second
    middle = float(speeds[len(speeds) // 2])
    cost = float(front.dollars_at(middle))
    (curve,) = ie.compare(model, on=hardware).curves
    assert isinstance(curve.front, ie.ServiceFrontier)
    yield Pair("frontier and compare, $ at a speed", cost, float(curve.front.dollars_at(middle)), 1e-9, 1e-9)
    named, slowest = ie.frontier(model, hardware, engine=str(front.point(0).layout["engine"])), float(front.dollars[0])
    yield Pair("frontier and frontier --engine, $ of the slowest point", slowest, float(named.dollars[0]), 1e-9, 1e-9)
    tpot, of_one_kind = f"mean:{1e3 / middle * (1.0 + 1e-9)}", ie.frontier(model, hardware, aggregated=True)
    assert isinstance(of_one_kind, ie.ServiceFrontier)
    by_rate = ie.recommend(model, hardware, request_rate=_MANY, tpot=tpot, aggregated=True)[0]
    # A simpler deployment may cost 10% more.
    near, alike = SIMPLER + TOLERANCE, float(of_one_kind.dollars_at(middle))
    paid = by_rate.dollars_per_million_output_tokens
    yield Pair("frontier and recommend, aggregated, $ at a TPOT", alike, paid, near, near)
    # With a rate, prefill and decode instances are not limited to published groups, which can only lower the cost.
    paid = ie.recommend(model, hardware, request_rate=_MANY, tpot=tpot)[0].dollars_per_million_output_tokens
    yield Pair("frontier and recommend, $ at a TPOT", cost, paid, math.inf, near)
    few: dict[str, Any] = {"request_rate": 5.0, "ttft": "2 s", "tpot": "60 ms"}
    first, priced = ie.recommend(model, hardware, **few)[0], ie.price(model, hardware, **few)
    yield Pair("recommend and price, $ per hour", first.dollars_per_hour, priced.dollars_per_hour, 1e-9, 1e-9)
    yield from _restricted(model, hardware, few)
    first, priced = ie.recommend(model, hardware, request_rate=5.0)[0], ie.price(model, hardware, request_rate=5.0)
    default = first.dollars_per_hour, priced.dollars_per_hour
    yield Pair("recommend and price without an SLO, $ per hour", *default, 1e-9, 1e-9)
    gpus = int(of_one_kind.accelerators.min())
    seen = ie.assess(model, hardware, gpus=gpus, isl=2000, osl=500, tokens_per_second=middle, batch=8)
    assert isinstance(seen.anywhere.frontier, ie.ServiceFrontier)
    beside = float(seen.anywhere.frontier.dollars_at(middle))
    # The measured concurrency is tried too.
    yield Pair("frontier and assess, $ at a speed", cost, beside, TOLERANCE, 1e-9)


def _restricted(model: str, hardware: str, few: Mapping[str, Any]) -> Iterator[Pair]:
    """A restriction lowers no cost, and as many GPUs as a rate needs serve at least this rate (to 1%)."""
    found = ie.recommend(model, hardware, **few)
    least = min(choice.dollars_per_hour for choice in found)
    limits: list[dict[str, Any]] = [{"aggregated": True}, {"max_instance_gpus": 8}, {"ep": 1}]
    limits += [{"instance_gpus": size} for size in (1, 2, 4, 8)]
    limits += [{"engine": engine.name} for setup in found.setups for engine in setup.engines]
    for limit in limits:
        try:
            paid = ie.recommend(model, hardware, **few, **limit)[0].dollars_per_hour
        except (InputError, NothingFitsError):
            continue
        yield Pair(f"recommend without and with {limit}, $ per hour", least, paid, SIMPLER, math.inf)
    slos = {name: value for name, value in few.items() if name != "request_rate"}
    most = ie.recommend(model, hardware, gpus=found[0].rented, **slos)[0].requests_per_second
    yield Pair("request rate, and largest rate of as many GPUs", few["request_rate"], most, 0.01, math.inf)


def disagreements(setups: Sequence[tuple[str, str]], tell: Callable[[str], object]) -> int:
    """Print pairs that disagree, and return their number."""
    wrong = tried = 0
    for model, hardware in setups:
        try:
            found = list(pairs(model, hardware))
        except NothingFitsError as error:
            tell(f"{model} on {hardware}: {error}")
            continue
        tried += len(found)
        for pair in found:
            if not pair.agrees:
                wrong += 1
                tell(f"{model} on {hardware}: {pair.question}: {pair.first:.5g} and {pair.second:.5g}")
    tell(f"{tried} pairs of {len(setups)} setups, {wrong} disagree")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all or every n-th setup; 1 if results disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="ask one of so many setups")
    every: Mapping[str, Any] = vars(parser.parse_args(arguments))
    return int(disagreements(SETUPS[:: every["every"]], print) > 0)


if __name__ == "__main__":
    sys.exit(main())
