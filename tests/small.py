"""Small results of every kind of the Python API, for several tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ._answer import Shown

if TYPE_CHECKING:
    from inference_econ.answers.deployments.serving_options import Candidate

SPACE = ie.Space(max_accelerators=1, any_group=True)
LENGTHS = ie.Requests(isl=ie.Length.parse("1000"), osl=ie.Length.parse("200"))
TRAFFIC, TARGETS = ie.Traffic(isl=1000, osl=200), ie.Targets(tpot_seconds=0.05)
PRICE = "lognorm(s=0.2, relative)"


@cache
def setup(**options: Any) -> ie.Setup:
    return ie.Setup.of("llama_3_8b", "h100_sxm", weights="fp8", **options)


@cache
def layouts() -> Any:
    return ie.layouts(setup(), LENGTHS, SPACE)


@cache
def market(arrangement: Any = "both") -> tuple[Candidate, ...]:
    return ie.candidates(setup(), LENGTHS, SPACE, arrangement=arrangement)


ANSWERS: dict[str, Callable[[], Shown]] = {
    "frontier": lambda: ie.frontier(setup(), TRAFFIC, SPACE),
    "decode_frontier": lambda: ie.decode_frontier(setup(), TRAFFIC, SPACE),
    "recommend": lambda: ie.recommend(market(), 5.0, TARGETS),
    "most_traffic": lambda: ie.most_traffic(market(), ie.Means(8), TARGETS),
    "estimate": lambda: ie.estimate(market("aggregated"), [1, 4]),
    "load": lambda: ie.load(market("aggregated"), [1.0, 5.0], targets=TARGETS),
    "price": lambda: ie.price(market(), 5.0),
    "cache": lambda: ie.cache(setup(), ie.Space(ie.Pins(tp=1))),
    "prefill": lambda: ie.prefill(setup(), [2048], [2]),
    "speculate": lambda: ie.speculate(setup(), LENGTHS, ie.Speculation.of("ngram", 0.5), ie.Pins(tp=1)),
    "explain": lambda: ie.explain(setup(), ie.Pins(tp=1, batch=8)),
    "intensity": lambda: ie.intensity(setup(), ie.Pins(tp=1)),
    "assess": lambda: ie.assess(setup(), TRAFFIC, ie.Observation(100.0, 1, batch=8.0)),
    "compare": lambda: ie.compare("llama_3_8b", ["h100_sxm", "h200_sxm"], max_instance_gpus=1),
    "run": lambda: ie.run("paper/table_1"),
    "claims": lambda: ie.claims("tokens_per_round"),
    "fits": lambda: ie.fits(setup(), LENGTHS, SPACE),
    "buy": lambda: ie.buy(market("aggregated"), {"given": {"input": 0.3, "output": 0.9}}, TARGETS),
    "fleet": lambda: ie.fleet(market("aggregated"), [5.0, 30.0, 80.0], TARGETS, target=0.8),
    "rollout": lambda: ie.rollout(market("aggregated"), 2, prompts=8, samples=2),
    "hour_cost": lambda: ie.hour_cost(ie.hardware("h100_sxm")),
    "what_if": lambda: ie.what_if("llama_3_8b", "h100_sxm", inputs=["price"], max_instance_gpus=1),
    "implied_hour_price": lambda: ie.implied_hour_price(ie.frontier(setup(), TRAFFIC, SPACE), 0.4, 40.0),
    "revealed_exponents": lambda: ie.revealed_exponents([10.0, 20.0], [1.0, 2.0]),
    "infer": lambda: ie.infer(ie.recorded_offers("qwen/qwen3-8b-04-28"), samples=300),
    "uncertainty": lambda: ie.uncertainty("llama_3_8b", "h100_sxm", {"price": PRICE}, max_instance_gpus=1),
}
#: Names of results in records.toml that differ from names in Python.
QUESTIONS = {
    "decode_frontier": "frontier",
    "most_traffic": "recommend",
    "hour_cost": "gpu-cost",
    "what_if": "sensitivity",
    "implied_hour_price": "implied-hour-price",
    "revealed_exponents": "revealed-exponent",
}
