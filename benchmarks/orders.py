"""Count order violations: ``sh run.sh sturdiness orders``; 20 minutes, ``--setups`` for fewer.

Counts are saved after each setup in ``tests/fuzz/orders.json``. The next run first repeats setups with a violation, and
then continues with new setups.

A better input never makes a result slower or more expensive. The tables of inputs have the good direction of each
input: the column ``good`` of ``inputs/options.csv``, and ``HIGH_IS_GOOD`` at the fields of GPUs. Random setups of usual
models, GPUs and lengths are evaluated again with one better input. Results are compared before the simplest deployment
within 10% is chosen. The exit status is 1 if an order is violated.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.progress import track

from inference_econ.answers.deployments.recommend import most_traffic, recommend
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import _groups, decoder, pools_under_load
from inference_econ.answers.slo import FILLED, Targets
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import HardwareSpec, catalog
from inference_econ.inputs.hardware import HIGH_IS_GOOD
from inference_econ.inputs.options import OPTIONS
from inference_econ.records.files import write_text
from inference_econ.requests import Request, subject, workload
from inference_econ.requests.request import Invocation
from inference_econ.serving import Loaded, loaded

#: Counts of all runs, and seed of the random setups.
TRIED, SEED = Path(__file__).parents[1] / "tests" / "fuzz" / "orders.json", 1
#: Allowed change for the worse of costs and speeds [1], from interpolation between batches, and because an engine
#: without measurements follows the mean of all engines.
TOLERANCE = 0.015
#: Allowed excess of costs at a constant concurrency over costs at a request rate [1]: groups of a frontier fill nodes,
#: and the smallest group within 10% is used.
GROUPS = 0.15
#: Factors by which inputs get better [1].
FACTORS = (1.01, 9 / 8, 1.5, 10.0)
MODELS = (
    "llama_3_8b", "qwen3_8b", "gpt_oss_20b", "qwen3_32b", "mixtral_8x7b", "nemotron_3_nano_30b_a3b", "gpt_oss_120b",
    "llama_3_70b", "deepseek_v3", "llama_3_1_8b", "gemma_3_27b", "glm_4_5_air", "qwen3_235b_a22b", "kimi_k2",
    "deepseek_v4_flash",
)  # fmt: skip
CHIPS = (
    "h100_sxm", "h200_sxm", "b200", "gb200_nvl72", "mi300x", "a100_sxm_80", "l40s", "h20_sxm", "mi355x", "tpu_v6e",
)  # fmt: skip
ENGINES = ("vllm", "sglang", "trtllm")
#: Speeds of a frontier that are compared, and better inputs of each setup [1].
_SPEEDS, _INPUTS = 5, 4
#: Request rate [1/s], and number of deployments, at which rounding to replicas hardly matters.
_MANY, _COPIES = 1e5, 1e3
#: Fields of GPUs with a good direction.
FIELDS = tuple(
    name
    for name, kind in get_type_hints(HardwareSpec, include_extras=True).items()
    if HIGH_IS_GOOD in getattr(kind, "__metadata__", ())
)
#: Options that are not drawn: fields of GPUs, inputs of decode steps (benchmarks/comparisons.py), host memory, and
#: layouts without an engine, whose steps have no measured corrections.
NOT_DRAWN = {
    "any_layout",
    "domain",
    "power_cap",
    "context",
    "no_kv_cache",
    "cpu_layers",
    "host_bandwidth",
    "host_memory",
}
#: Options that frontiers lack, or that limit a load.
_BY_RATE = {"request_rate", "throughput", "arrival_scv", "percentile", "confidence"}
_LIMITS = {"gpus", "budget", "power_budget"}
#: Options that do not change candidates, except a TTFT SLO of a frontier, which is a separate argument.
_OF_LOADS = _BY_RATE | {"budget", "power_budget", "ttft", "tpot", "e2e"}

Options = Mapping[str, Any]


class Order(NamedTuple):
    """Two results. The second has the better input, so it must not be worse."""

    relation: str
    """Result and input."""
    ratio: float
    """Second result divided by the first [1]. A ratio above 1 is worse; infinite if only the first result exists."""
    setup: str
    """Both queries, as text."""
    allowed: float = TOLERANCE
    """Allowed excess of the ratio above 1 [1]."""

    @property
    def violated(self) -> bool:
        """True if the second result is worse."""
        return self.ratio > 1.0 + self.allowed


class Query:
    """Options of a query, and its candidates."""

    def __init__(self, options: Options) -> None:
        self.options, self.request = options, _request(options)

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """Candidate deployments; none if nothing fits."""
        longest = math.inf if self.by_rate else self.promises.ttft_seconds
        needed = {name: value for name, value in self.options.items() if name not in _OF_LOADS}
        return _candidates(json.dumps(needed, sort_keys=True), longest)

    @property
    def largest(self) -> int:
        """GPUs of the largest instance [1]; 0 if nothing fits."""
        pools = [candidate.pools.pools for candidate in self.candidates if candidate.pools is not None]
        services = [*(candidate.services for candidate in self.candidates), *(pool.prefill.services for pool in pools)]
        return max((int(layouts.plans.accelerators.max()) for layouts in services), default=0)

    @property
    def by_rate(self) -> bool:
        """True for queries on a request rate or a limit, false for frontiers."""
        return bool({"request_rate", "throughput", "budget", "power_budget"} & self.options.keys())

    @property
    def promises(self) -> Targets:
        """SLOs on means."""
        return workload.targets(replace(self.request, percentile="mean"))

    @cached_property
    def speeds(self) -> Sequence[float]:
        """Speeds of the frontier [tokens/s]."""
        try:
            front = service_frontier(self.candidates, self.promises) if self.candidates else None
        except NothingFitsError:
            front = None
        return () if front is None else front.tokens_per_second.tolist()

    def cost_at(self, speed: float, *, pools: bool | None = None) -> float:
        """Lowest cost of all candidates at a speed, or of one arrangement [USD per 1e6 output tokens]."""
        least = [
            pareto.least_from(1.0 / candidate.metrics.tpot_seconds, candidate.kept_dollars(self.promises), speed)
            for candidate in self.candidates
            if pools is None or pools == (candidate.pools is not None)
        ]
        return min((found[0] for found in least if found is not None), default=math.inf)

    def alike(self, *, pools: bool) -> Iterator[Sequence[Candidate]]:
        """Candidates in groups of equal complexity. All disaggregated ones are in one group."""
        chosen = [candidate for candidate in self.candidates if (candidate.pools is not None) == pools]
        if pools:
            yield from [chosen] if chosen else []
            return
        for level in sorted({level for candidate in chosen for level in candidate.complexity.tolist()}):
            rows = [(candidate, np.flatnonzero(candidate.complexity == level)) for candidate in chosen]
            yield [Candidate(candidate.services.take(some)) for candidate, some in rows if some.size]

    def paid(self, rate: float | None = None, targets: Targets | None = None, *, pools: bool | None = None) -> float:
        """Cost of the best deployment: USD per 1e6 output tokens at a given rate, else USD/h, or s/request in a limit.

        Deployments of different complexity are searched separately, as a simpler one is preferred within 10%.
        """
        requests, scv = workload.requests(self.request), self.request.arrival_scv
        targets = workload.targets(self.request) if targets is None else targets
        means = workload.means(self.request)
        least = math.inf
        ways = (False, True) if pools is None else (pools,)
        for offers in (alike for way in ways for alike in self.alike(pools=way)):
            try:
                if rate is not None:
                    (best, *_) = recommend(offers, rate, targets, most=1, play=False)
                    paid = best.dollars_per_million_output_tokens
                elif means is not None:
                    (best, *_) = most_traffic(offers, means, targets, arrival_scv=scv, most=1)
                    paid = 1.0 / best.requests_per_second
                else:
                    wanted = workload.request_rate(self.request, requests)
                    (best, *_) = recommend(offers, wanted, targets, arrival_scv=scv, most=1, play=False)
                    paid = best.dollars_per_hour
            except (NothingFitsError, InputError):
                continue
            least = min(least, paid)
        return least


@lru_cache(maxsize=4)
def _candidates(options: str, ttft_seconds: float) -> Sequence[Candidate]:
    """Candidate deployments for options as JSON; none if nothing fits."""
    request = _request(json.loads(options))
    try:
        return subject.candidates(request, workload.requests(request), ttft_seconds=ttft_seconds)
    except NothingFitsError:
        return ()


def _request(options: Options) -> Request:
    """Request of ``recommend`` with some options."""
    typed = {**options, "price": [f"{options['price']:.12g}"]}
    request: Request = Invocation.of("recommend", typed).answer(ask=_itself)
    return request


def _itself(request: Request) -> Request:
    return request


def drawn_options(chance: random.Random, isl: int, osl: int) -> dict[str, Options]:
    """Usual value of each option with a good direction, with the options that it needs."""
    rate, cached = 10 ** chance.uniform(-0.3, 1.5), round(isl * chance.uniform(0.2, 0.9))
    ttft, tpot = chance.uniform(300, 5000), chance.uniform(10, 80)
    return {
        "isl": {},
        "cached": {"cached": cached},
        "shared_prefix": {"shared_prefix": cached},
        "request_rate": {"request_rate": rate},
        "throughput": {"throughput": rate * osl},
        "arrival_scv": {"arrival_scv": chance.choice((1.0, 4.0, 10.0))},
        "gpus": {"gpus": chance.choice((4, 8, 16))},
        "budget": {"budget": chance.choice((8.0, 16.0, 32.0))},
        "power_budget": {"power_budget": chance.choice((8e3, 16e3, 32e3))},
        "ttft": {"ttft": ttft},
        "tpot": {"tpot": tpot},
        "e2e": {"e2e": ttft + osl * tpot},
        "percentile": {"percentile": "p95"},
        "confidence": {"confidence": 80.0},
        "price": {},
        **{name: {name: True} for name in ("aggregated", "disaggregated")},
        **{name: {name: False} for name in ("any_group", "pipeline")},
        "loras": {"loras": 8},
        "lora_rank": {"loras": 8, "lora_rank": 64},
        "max_instance_gpus": {"max_instance_gpus": chance.choice((1, 2, 4, 8))},
        "slots": {"slots": chance.choice((8, 32, 128))},
        "usable_memory": {"usable_memory": 0.7},
        "acceptance": {"acceptance": 0.6, "ngram": True},
        # By rate, all queries have SLOs.
        "slo": {"request_rate": rate, "ttft": ttft, "tpot": tpot},
    }


def better_option(name: str, options: Options, factor: float) -> Options:
    """Query with a better value of an option."""
    value, up = options[name], OPTIONS[name].good == "high"
    if isinstance(value, bool):
        return {**options, name: up}
    if isinstance(value, str):
        return {**options, name: f"p{float(value.removeprefix('p')) / factor:.4g}"}
    changed = value * factor if up else value / factor
    if isinstance(value, int):
        changed = max(value + 1, round(changed)) if up else min(value - 1, int(changed))
    most = {"acceptance": 0.99, "usable_memory": 0.98}
    most |= dict.fromkeys(("cached", "shared_prefix"), options["isl"] - 1)
    return {**options, name: min(changed, most.get(name, math.inf))}


def better_field(name: str, options: Options, factor: float) -> tuple[Options, Options]:
    """Query, and query with a better value of a field of its GPU.

    Raises
    ------
    InputError
        If the GPU lacks the field.
    """
    chip, before = catalog.hardware(options["hardware"]), []
    value = getattr(chip, name)
    if name == "power_cap" and chip.watts is not None:
        value = 0.6 * chip.watts
        before = [f"hardware.{name}={value:g}"]
    if value is None:
        raise InputError(f"{chip.name} has no {name}")
    if isinstance(value, Mapping):
        after = {f"{name}.{unit}": factor * peak for unit, peak in value.items()}
    else:
        after = {name: max(value + 1, round(factor * value)) if isinstance(value, int) else factor * value}
    if name == "link_bytes_per_second_one_way" and chip.link_bytes_per_second_both_ways is not None:
        after["link_bytes_per_second_both_ways"] = factor * chip.link_bytes_per_second_both_ways
    changes = [f"hardware.{field}={number!r}" for field, number in after.items()]
    if name == "link_domain":
        # A larger domain removes pipeline stages (docs/model/limits.md), so neither query has them.
        options = {**options, "pipeline": False}
    return {**options, "changes": before} if before else options, {**options, "changes": changes}


def compared(name: str, base: Query, better: Query) -> Iterator[Order]:
    """Costs of two queries: at a rate, within a limit, or at several speeds of the first.

    By default, instances have the fewest machines that hold the weights and caches. If the queries differ in this size,
    instances of both queries may have the larger size.
    """
    if base.largest != better.largest and "max_instance_gpus" not in base.options:
        same = {"max_instance_gpus": max(base.largest, better.largest)}
        base, better = Query({**base.options, **same}), Query({**better.options, **same})
    changes = {key: value for key, value in better.options.items() if base.options.get(key) != value}
    text = f"{dict(base.options)}, then {changes}"
    if base.by_rate:
        if math.isfinite(paid := base.paid()):
            yield Order(f"`recommend`: {name}", better.paid() / paid, text)
        return
    for speed in sorted({*base.speeds[:: max(1, len(base.speeds) // _SPEEDS)], *base.speeds[-1:]}):
        ratio = better.cost_at(speed * (1.0 - TOLERANCE)) / base.cost_at(speed * (1.0 - 1e-9))
        yield Order(f"$ at a speed: {name}", ratio, f"{text}, at {speed:.6g}/s")


def agreement(base: Query) -> Iterator[Order]:
    """Costs at a speed, of ``recommend`` at a high rate and of ``frontier``.

    Costs of ``recommend`` may be higher, because requests arrive at random; see :func:`loads`.
    """
    if not base.speeds:
        return
    speed = float(base.speeds[len(base.speeds) // 2])
    targets = Targets(tpot_seconds=(1.0 + 1e-9) / speed, percentile="mean")
    for pools in (None, True):
        cost, text = base.cost_at(speed, pools=pools), f"{dict(base.options)}, at {speed:.6g}/s"
        if math.isfinite(cost):
            ratio = cost / base.paid(_MANY, targets, pools=pools)
            yield Order(f"`recommend`, then `frontier --speed`{_of_pools(pools)}", ratio, text, GROUPS)


def _of_pools(pools: bool | None) -> str:
    return ", disaggregated" if pools else ""


def loads(base: Query) -> Iterator[Order]:
    """Costs of deployments of ``frontier`` with random arrivals, and of ``recommend`` at the speed that they reach."""
    if not base.speeds:
        return
    speed, osl = float(base.speeds[len(base.speeds) // 2]), workload.requests(base.request).osl.mean
    for candidate in base.candidates:
        curve = 1.0 / candidate.metrics.tpot_seconds, candidate.kept_dollars(base.promises)
        if (found := pareto.least_from(*curve, speed)) is None:
            continue
        place = found[1], found[2] % curve[0].shape[1]
        rate, load = _with_random_arrivals(candidate, *place)
        price = candidate.setup.dollars_per_accelerator_hour
        cost = money.dollars_per_million_tokens(candidate.paid_chips[place], 1.0, rate * osl, price)
        targets = Targets(tpot_seconds=(1.0 + 1e-6) * load.tpot_seconds["mean"], percentile="mean")
        pools = candidate.pools is not None
        ratio = base.paid(max(_MANY, _COPIES * rate), targets, pools=pools) / float(cost)
        (layout,) = candidate.keys(np.array(place[:1]))
        text = f"{dict(base.options)}, {candidate.label}, {layout}, {rate:.6g} requests/s"
        yield Order(f"`load`, then `recommend`{_of_pools(pools)}", ratio, text)


def _with_random_arrivals(candidate: Candidate, row: int, column: int) -> tuple[float, Loaded]:
    """Request rate of a steady state within the planned load [1/s], and the load at this rate."""
    rate, pooled = float(candidate.metrics.requests_per_second[row, column]), candidate.pools
    if pooled is None:
        service = candidate.services.service(row)
        rate = min(rate, FILLED * service.most_requests_per_second)
        return rate, loaded(service, rate)
    at = np.array([row]), np.array([column])
    layouts, (instances,) = (int(pooled.reading_rows(*at)[0]), row), pooled.instances_at(*at)
    decode = decoder(pooled.pools, row, float(pooled.pools.transfer.receiving_seconds[layouts]))
    rate = min(rate, FILLED * instances[1] * float(decode.requests_per_second[-1]))
    return rate, pools_under_load(pooled.pools, layouts, instances, rate).load


def orders(seed: int, number: int) -> Iterator[Order]:
    """All comparisons of one random setup."""
    chance = random.Random(f"{seed} {number}")
    isl, osl = round(10 ** chance.uniform(2, 4)), round(10 ** chance.uniform(1.3, 3.2))
    common: dict[str, Any] = {"model": chance.choice(MODELS), "hardware": chance.choice(CHIPS), "price": 2.0}
    common |= {"isl": isl, "osl": osl}
    if chance.random() < 0.7:
        common["max_instance_gpus"] = chance.choice((1, 2, 4, 8, 16))
    options = drawn_options(chance, isl, osl)
    slo = options.pop("slo")
    base = _of_one_engine(common, random.Random(f"{seed} {number} engine"))
    common = dict(base.options)
    for name in chance.sample((*options, *FIELDS), _INPUTS):
        factor, by_rate = chance.choice(FACTORS), name in _BY_RATE or chance.random() < 0.5
        before = {**common, **(slo if by_rate or name in ("budget", "power_budget") else {}), **options.get(name, {})}
        if name in ("throughput", *_LIMITS):
            before.pop("request_rate", None)
        try:
            pair = (
                better_field(name, before, factor) if name in FIELDS else (before, better_option(name, before, factor))
            )
            yield from compared(name, base if pair[0] == common else Query(pair[0]), Query(pair[1]))
        except InputError:
            continue  # the option does not apply to the model or GPU
    yield from agreement(base)
    yield from loads(base)


def _of_one_engine(common: Options, chance: random.Random) -> Query:
    """Query with one engine in half of all setups; the query itself if the engine does not support the setup."""
    if chance.random() < 0.5:
        query = Query({**common, "engine": [chance.choice(ENGINES)]})
        with suppress(InputError):
            if query.candidates:
                return query
    return Query(common)


@contextmanager
def cheapest_groups() -> Iterator[None]:
    """Let frontiers use the cheapest disaggregated groups, instead of the smallest ones within 10%."""
    _groups.cache_clear()
    with patch("inference_econ.answers.disaggregated.load.SIMPLER", 0.0):
        yield
    _groups.cache_clear()


class State:
    """Results of all runs: number of the next setup, comparisons by relation, and relations violated by each setup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        plain = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.next, self.tried = plain.get("next", 0), Counter(plain.get("tried", {}))
        self.violated: dict[str, list[str]] = plain.get("violated", {})

    def compare(self, number: int) -> None:
        """Compare one random setup, print its violations, and save all counts."""
        again, violated = number < self.next, []
        with catalog.uncopied(), cheapest_groups():
            found = list(orders(SEED, number))
        for order in found:
            self.tried[order.relation] += not again
            if order.violated:
                violated.append(order.relation)
                sys.stdout.write(f"{number}: {order.relation}: {order.ratio:.4g} x: {order.setup}\n")
                sys.stdout.flush()
        self.violated.pop(str(number), None)
        if violated:
            self.violated[str(number)] = violated
        self.next = max(self.next, number + 1)
        plain = {"next": self.next, "tried": dict(sorted(self.tried.items())), "violated": self.violated}
        write_text(self.path, json.dumps(plain, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print counts and violations; 1 if an order is violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setups", type=int, default=300, help="new random setups [300]")
    parser.add_argument("--state", type=Path, default=TRIED, help="counts of earlier runs [tests/fuzz/orders.json]")
    given, console = parser.parse_args(arguments), Console(stderr=True)
    state = State(given.state)
    numbers = [*map(int, state.violated), *range(state.next, state.next + given.setups)]
    for number in track(numbers, console=console, description="setups"):
        state.compare(number)
    for relation, several in sorted(state.tried.items()):
        violated = sum(found.count(relation) for found in state.violated.values())
        sys.stdout.write(f"{relation}: {several:,} tried, {violated} violated\n")
    sys.stdout.write(f"{state.next:,} setups\n")
    return int(bool(state.violated))


if __name__ == "__main__":
    sys.exit(main())
