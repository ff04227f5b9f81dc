"""Compare the analytical closed loop with the simulator: ``sh run.sh validate closed-loop``.

For each number of clients, lengths and spread of lengths, print TPOT and TTFT of ``Service.at`` over those of a long
run without its first rounds, and the share of cases that agree within 5%.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from inference_econ.engine import Plans, Setup
from inference_econ.extras.servers.prediction import predict as load_generator
from inference_econ.inputs import Requests
from inference_econ.serving import Service
from inference_econ.serving.services import services
from inference_econ.serving.simulation import arrivals, simulator

#: Model, weights, chips, and tensor-parallel degree.
SERVERS = (("llama_3_8b", "bf16", 1, 1), ("gpt_oss_120b", "mxfp4", 2, 2), ("deepseek_v3", "fp8_block", 8, 1))
LENGTHS = ((1000, 1000), (8000, 1000), (1000, 100), (8000, 100))
CLIENTS = (1, 8, 64, 256)
#: Range of lengths over the mean: equal, as in InferenceX, and wide [1].
SPREADS = (0.0, 0.22, 1.0)
POLICIES = {False: "mixed steps", True: "prompts first"}
#: Simulated rounds, and first rounds that are ignored [1].
_ROUNDS, _FIRST = 12, 4
_SEED = 1


@dataclass(frozen=True)
class Case:
    """Closed loop, with ratios of analytical to simulated values [1]."""

    server: str
    isl: int
    osl: int
    clients: int
    spread: float
    prefill_first: bool
    prefill_share: float
    tpot: float
    ttft: float


def service_of(model: str, weights: str, chips: int, ranks: int, isl: int, osl: int) -> Service:
    """Server of H200s under the profile of Hopper."""
    requests = Requests.model_validate({"isl": isl, "osl": osl})
    setup = Setup.of(model, "h200_sxm", weights=weights, context=requests.mean_context)
    one = np.ones(1)
    experts = one * (chips if chips > ranks else 1)
    plans = Plans(one * chips, one * chips / ranks, one, one * ranks, experts, whole=True)
    return services(setup, requests, plans, np.array([max(CLIENTS)])).service(0)


def compared(service: Service, name: str, clients: int, spread: float, *, prefill_first: bool) -> Case:
    """Ratios for one case, from medians between the first and last rounds."""
    count, random = _ROUNDS * clients + _ROUNDS, np.random.default_rng(_SEED)
    means = (service.requests.new_tokens, service.requests.osl.mean)
    isl, osl = (load_generator.uniform_lengths(mean, spread, count, random) for mean in means)
    ends = load_generator.rounded_ends(service, spread)
    seen = simulator.play(
        service, simulator.server(service, ends, prefill_first=prefill_first), arrivals.Loop(clients, isl, osl),
        warm_up=_FIRST / _ROUNDS, cool_down=1.5 / _ROUNDS,
    )  # fmt: skip
    state = service.at(clients)
    return Case(
        name, int(means[0]), int(means[1]), clients, spread, prefill_first, float(state.prefill_share),
        float(state.tpot_seconds) / float(np.mean(seen.tpot)), float(state.ttft_seconds) / float(np.mean(seen.ttft)),
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """All cases of the grid."""
    for (model, weights, chips, ranks), (isl, osl) in product(SERVERS, LENGTHS):
        service = service_of(model, weights, chips, ranks, isl, osl)
        for clients, spread, first in product(CLIENTS, SPREADS, (False, True)):
            yield compared(service, model, clients, spread, prefill_first=first)


def summary(found: Sequence[Case]) -> Iterator[str]:
    """Shares that agree, by policy, spread and prefill share of time."""
    for first, spread, (low, high) in product((False, True), SPREADS, ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01))):
        part = [
            case
            for case in found
            if case.prefill_first is first and case.spread == spread and low <= case.prefill_share < high
        ]
        tpot, ttft = (np.abs([np.log(getattr(case, name)) for case in part]) for name in ("tpot", "ttft"))
        agreed = f"{len(part)} loops, TPOT within 5 % in {np.mean(tpot < 0.05):.0%}, worst {tpot.max():.2f}"
        yield (
            f"{POLICIES[first]}, spread {spread}, prefill {low:.0%} to {high:.0%}: {agreed}; "
            f"TTFT median {np.median(ttft):.2f}, worst {ttft.max():.2f}"
        )


def main() -> None:
    """Print the grid, and the shares that agree."""
    found = []
    for case in cases():
        found.append(case)
        sys.stdout.write(
            f"{case.server:14} {case.isl:5}+{case.osl:4} tokens {case.clients:4} clients, spread {case.spread:4}, "
            f"{POLICIES[case.prefill_first]:13} prefill {case.prefill_share:4.0%}: TPOT {case.tpot:5.2f}, "
            f"TTFT {case.ttft:5.2f}\n"
        )
    sys.stdout.write("\n".join(["", *summary(found), ""]))


if __name__ == "__main__":
    main()
