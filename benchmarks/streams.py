"""Compare the analytical model of request streams with the simulator: ``sh run.sh validate closed-loop``.

Percentiles of TTFT, TPOT and request latency are compared over a grid of servers, lengths, spreads and loads. Writes
the shares that agree into docs/evidence/closed_loop.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from inference_econ.engine import Plans, Setup
from inference_econ.inputs import Requests
from inference_econ.serving import STATISTICS, Service, loaded, needs_simulation, slots_of
from inference_econ.serving.services import services
from inference_econ.serving.simulation import simulator

#: Model, weights, chip, number of chips, and tensor-parallel degree.
SERVERS = (
    ("llama_3_8b", "bf16", "h200_sxm", 1, 1),
    ("qwen3_32b", "fp8", "h100_sxm", 2, 2),
    ("gpt_oss_120b", "mxfp4", "h200_sxm", 2, 2),
    ("llama_3_70b", "fp8", "mi300x", 4, 4),
    ("deepseek_v3", "fp8_block", "h200_sxm", 8, 1),
)
#: Input and output lengths: short chats, chats about documents, long prompts, long outputs [tokens].
LENGTHS = ((300, 150), (2000, 500), (8000, 200), (500, 4000))
#: Distributions of lengths around their means.
SPREADS = ("fixed", "uniform", "lognormal 0.5", "lognormal 0.8", "lognormal 1.2")
#: Utilizations [1].
FILLED = (0.1, 0.4, 0.6, 0.8, 0.95)
#: Compared quantities by name in a trace, and largest accepted error [1].
QUANTITIES, CLOSE = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}, 0.1
DOCUMENT, BEGIN, END = Path("docs/evidence/closed_loop.md"), "<!-- streams -->", "<!-- end of streams -->"
_SEED = 1


@dataclass(frozen=True)
class Case:
    """Stream with ``errors``, ln(analytical / simulated) of each quantity at each percentile [1].

    ``close`` is True per quantity if all percentiles agree within :data:`CLOSE` and the confidence interval. ``proven``
    is True in the validated range of the analytical model.
    """

    waits: bool
    spread: str
    filled: float
    proven: bool
    errors: dict[str, list[float]]
    close: dict[str, bool]

    @property
    def worst(self) -> float:
        """Largest error [1]."""
        return max(abs(error) for errors in self.errors.values() for error in errors)


def length(mean: int, spread: str) -> str:
    """Length with a mean and spread, in the syntax of options."""
    kind, _, variation = spread.partition(" ")
    if kind == "uniform":
        return f"uniform:{mean // 2}:{mean + mean // 2}"
    return f"lognormal:{mean}:{variation}" if variation else str(mean)


def service_of(
    model: str, weights: str, chip: str, chips: int, ranks: int, lengths: Sequence[str], *, waits: bool
) -> Service:
    """Server under the profile of its chip; ``waits`` if decoding pauses for prefill."""
    requests = Requests.model_validate(dict(zip(("isl", "osl"), lengths, strict=True)))
    changes = ["assumptions.serving.prefill_chunk=0"] if waits else []
    setup = Setup.of(model, chip, weights=weights, context=requests.mean_context, changes=changes)
    one = np.ones(1)
    plans = Plans(one * chips, one * chips / ranks, one, one * ranks, one * (chips if chips > ranks else 1), whole=True)
    return services(setup, requests, plans, slots_of(setup, plans)).service(0)


def compared(service: Service, spread: str, filled: float, *, waits: bool) -> Case:
    """Compare a server at a load."""
    load = loaded(service, filled * service.most_requests_per_second)
    count = simulator.requests_of_a_run(service, load.arrivals)
    seen = simulator.rehearse(service, load.requests_per_second, count=count, seed=_SEED).summary()
    errors, close = {}, {}
    for name in QUANTITIES:
        ours = getattr(load, f"{name}_seconds")
        errors[name] = [float(np.log(ours[which] / seen[name][which].value)) for which in STATISTICS[1:]]
        close[name] = all(seen[name][which].agrees(ours[which], CLOSE) for which in STATISTICS[1:])
    return Case(waits, spread, filled, not needs_simulation(service, load), errors, close)


def cases_of(server: tuple[str, str, str, int, int], lengths: tuple[int, int]) -> list[Case]:
    """All spreads, loads and policies of a server and mean lengths."""
    found = []
    for waits, spread in product((False, True), SPREADS):
        service = service_of(*server, [length(mean, spread) for mean in lengths], waits=waits)
        found += [compared(service, spread, filled, waits=waits) for filled in FILLED]
    return found


def table(found: Sequence[Case]) -> Iterator[str]:
    """Table of shares that agree, by policy and spread of lengths."""
    names = " | ".join(QUANTITIES.values())
    yield f"| steps, lengths | analytical | {names} | worst | other loads |"
    yield "|---" * (len(QUANTITIES) + 4) + "|"
    for waits, spread in product((False, True), SPREADS):
        part = [case for case in found if case.waits is waits and case.spread == spread]
        proven, others = ([case for case in part if case.proven is which] for which in (True, False))
        agreed = [_share([case.close[name] for case in proven]) for name in QUANTITIES]
        worst = f"{max(case.worst for case in proven):.2f}" if proven else ""
        rest = _share([all(case.close.values()) for case in others])
        label = "prefill first" if waits else "mixed"
        cells = [f"{label}, {spread}", f"{len(proven)} of {len(part)}", *agreed, worst, rest]
        yield f"| {' | '.join(cells)} |"


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.0%}".replace("%", " %") if values else ""


def main() -> None:
    """Simulate the grid, and write the shares into the document."""
    every = list(product(SERVERS, LENGTHS))
    with ProcessPoolExecutor() as pool:
        found = [case for cases in pool.map(cases_of, *zip(*every, strict=True)) for case in cases]
    lines = list(table(found))
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"]))
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
