"""Share of default results that engines can start: ``sh run.sh validate launchable`` writes a page in docs/evidence.

Every point of ``frontier`` and every choice of ``recommend``, of twelve models on eight chips, is converted to engine
options by independent rules of this file. The table also contains the share if any layout is allowed
(``--any-layout``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from inference_econ.answers.deployments.recommend import recommend
from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import market
from inference_econ.answers.slo import Targets
from inference_econ.engine import Plans, Setup, has_experts
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import ANY_LAYOUT, ModelSpec, Requests

MODELS = (
    "llama_3_8b", "llama_3_70b", "llama_3_405b", "qwen3_32b", "gemma_3_27b", "mixtral_8x22b", "gpt_oss_120b",
    "qwen3_235b_a22b", "glm_4_5", "minimax_m2_5", "kimi_k2", "deepseek_v3",
)  # fmt: skip
CHIPS = ("a100_sxm_80", "l40s", "h100_sxm", "h200_sxm", "b200", "gb200_nvl72", "mi300x", "mi355x")
REQUESTS = Requests.build({"isl": 2000, "osl": 500}, origin="the table")
#: Request rate [1/s], and SLOs of recommended fleets [s].
RATE, TARGETS = 20.0, Targets(tpot_seconds=0.05)
PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "startable_answers.md"

HEAD = """# Default answers that can be started

`sh run.sh validate launchable` writes this page. It tests whether engines can start the deployments that the program
recommends. The column "points" has the number of points of `frontier` and of rows of `recommend --request-rate 20
--tpot '50 ms'`, at 2,000 input and 500 output tokens. "expressible" is the share of these deployments that engine
options can express and that can be rented: 1, 2, 4 or 8 GPUs, full machines, or 16, 32 or 64 GPUs of a rack. The test
does not use the rules of the search (`benchmarks/launchable.py`). "any layout, expressible" is this share with
`--any-layout`. Pairs of model and GPU without a known engine, or that do not fit, are left out.

"""


@dataclass(frozen=True)
class Cell:
    """Numbers of points of default results and of any layout, and those that can be written as options [1]."""

    model: str
    chip: str
    engines: str
    points: int
    written: int
    any_points: int
    any_written: int


def options_of(engine: str, model: ModelSpec, tp: int, dp: int, pp: int, ep: int) -> str | None:
    """Options that start a layout in an engine; None if there are none."""
    return {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}[engine](model, tp, dp, pp, ep)


def _vllm(model: ModelSpec, tp: int, dp: int, pp: int, ep: int) -> str | None:
    options = f"--tensor-parallel-size {tp} --pipeline-parallel-size {pp}"
    if not has_experts(model):
        return options if dp == 1 else None
    if ep not in (1, tp * dp):
        return None
    return f"{options} --data-parallel-size {dp}{' --enable-expert-parallel' if ep > 1 else ''}"


def _sglang(model: ModelSpec, tp: int, dp: int, pp: int, ep: int) -> str | None:
    if dp > 1 and not has_experts(model) and not str(model.architecture).startswith(("Qwen2", "Qwen3")):
        return None
    if tp * dp % ep:
        return None
    options = f"--tp-size {tp * dp} --pp-size {pp} --ep-size {ep}"
    return options if dp == 1 else f"{options} --attn-dp-size {dp}"


def _trtllm(model: ModelSpec, tp: int, dp: int, pp: int, ep: int) -> str | None:
    if (dp > 1 and not has_experts(model)) or min(tp, dp) > 1 or tp * dp % ep:
        return None
    attention = " --enable_attention_dp" if dp > 1 else ""
    return f"--tp_size {tp * dp} --pp_size {pp} --ep_size {ep}{attention}"


def layouts_of(setup: Setup) -> Iterator[Plans]:
    """Layouts of every point of the default results, each of shape (1,); decode layouts for pools."""
    offered = market(setup, REQUESTS)
    front = service_frontier(offered)
    yield from (front.plan(index) for index in range(len(front)))
    try:
        yield from (choice.service.plans for choice in recommend(offered, RATE, TARGETS))
    except NothingFitsError:
        return


def _degrees(plan: Plans) -> tuple[int, int, int, int]:
    values = (
        plan.attention_ranks,
        plan.stage / plan.attention_ranks,
        plan.pp,
        np.ones(1) if plan.ep is None else plan.ep,
    )
    tp, dp, pp, spread = (int(np.ravel(value)[0]) for value in values)
    return tp, dp, pp, spread


def _written(setup: Setup, plan: Plans, engines: Sequence[str]) -> bool:
    """Check whether an engine can start a layout, and whether its chips can be rented."""
    chips, rack = int(plan.accelerators[0]), setup.hardware.link_domain > 8
    parts = (1, 2, 4, 8, 16, 32, 64) if rack else (1, 2, 4, 8)
    rented = chips in parts or chips % (72 if rack else 8) == 0
    return rented and any(options_of(engine, setup.model, *_degrees(plan)) is not None for engine in engines)


def cell(model: str, chip: str) -> Cell | None:
    """Numbers of layouts for a model on a chip; None if no engine supports it or nothing fits."""
    setup = Setup.of(model, chip, price=1.0)
    if not setup.engines:
        return None
    free = Setup.of(model, chip, price=1.0, engine=ANY_LAYOUT)
    try:
        plans, anything = list(layouts_of(setup)), list(layouts_of(free))
    except NothingFitsError:
        return None
    known = [engine.name for engine in setup.engines]
    written = sum(_written(setup, plan, setup.engines_of(plan)[0]) for plan in plans)
    any_written = sum(_written(free, plan, known) for plan in anything)
    return Cell(model, chip, ", ".join(known), len(plans), written, len(anything), any_written)


def page(cells: Sequence[Cell]) -> str:
    """Table in Markdown."""
    lines = ["| model | chip | engines | points | expressible | any layout, expressible |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.model} | {row.chip} | {row.engines} | {row.points} | {_share(row.written, row.points)} | "
        f"{_share(row.any_written, row.any_points)} |"
        for row in cells
    ]
    points, written, any_points, any_written = (
        sum(getattr(row, name) for row in cells) for name in ("points", "written", "any_points", "any_written")
    )
    lines.append(f"| all | | | {points} | {_share(written, points)} | {_share(any_written, any_points)} |")
    return HEAD + "\n".join(lines) + "\n"


def _share(some: int, everything: int) -> str:
    return f"{100 * some / everything:.0f} %"


def main() -> int:
    """Write the page; 1 if a default result cannot be started."""
    cells, console = [], Console(stderr=True)
    for model in MODELS:
        for chip in CHIPS:
            counted = cell(model, chip)
            console.print(f"{model} on {chip}: {counted}")
            cells += [] if counted is None else [counted]
    PAGE.write_text(page(cells), encoding="utf-8")
    return int(any(row.written < row.points for row in cells))


if __name__ == "__main__":
    sys.exit(main())
