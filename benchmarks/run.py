"""Time the published study's frontiers: this package compared with a naive implementation.

``python -m benchmarks.run`` takes minutes, mostly for the naive implementation; ``--quick`` uses 100 x 100 instead of
400 x 400 instances. The exit status is 1 if the points differ.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import naive
from inference_econ._types import Array
from inference_econ.engine import InstanceGrid, Setup, Speculation, paper_grid
from inference_econ.inputs import BYTES_PER_ELEMENT, Precision, catalog
from inference_econ.search import Frontier, Sampling, compute

Result = TypeVar("Result")

_DOLLARS_PER_HOUR = 2.1
_ACCEPTANCE, _LONGEST_DRAFT = 0.8, 5
_LIMITS, _DECADES = 1000, 2.0
#: Relative tolerance for the order of summation [1].
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Case:
    """Frontier, with the time of the published code on two cores of an AMD EPYC."""

    name: str
    model: str
    weights: str
    pipeline: bool
    speculative: bool
    published_seconds: float


CASES = (
    Case("70B int8", "paper/llama_3_70b", "int8", False, False, 4.2),
    Case("70B int8 PP", "paper/llama_3_70b", "int8", True, False, 15.4),
    Case("DeepSeek-V3 PP", "paper/deepseek_v3", "int8", True, False, 19.8),
    Case("70B int8 spec", "paper/llama_3_70b", "int8", False, True, 9.2),
    Case("70B int8 spec PP", "paper/llama_3_70b", "int8", True, True, 52.0),
)


def question_of(model: str, weights: str | None) -> Setup:
    """Model of the study on its H100, with an empty context."""
    spec = catalog.model(model)
    study = catalog.assumptions("paper")
    precision = Precision.of(spec, weights, embeddings=study.capacity.embedding_format)
    return Setup(spec, catalog.hardware("paper/h100"), precision, 0.0, study)


def naive_model(setup: Setup) -> naive.Llm:
    """Model of a setup in the terms of :mod:`benchmarks.naive`."""
    model, (block,) = setup.model, setup.model.blocks
    ff, attention = block.feed_forward, block.attention
    assert ff.kind != "none" and attention.kind in ("latent", "grouped_query")
    experts, active = (ff.experts, ff.active_experts) if ff.kind == "experts" else (1, 1)
    latent, group, head_dim = None, 1.0, 0.0
    if attention.kind == "latent":
        latent, head_dim = (float(attention.kv_rank), float(attention.query_rank or 0)), attention.value_head_dim
    else:
        group, head_dim = attention.query_heads / attention.kv_heads, attention.head_dim
    return naive.Llm(
        model.hidden_size,
        ff.intermediate_size,
        (ff.input_matrices, ff.output_matrices),
        model.layers,
        experts,
        active,
        attention.query_heads,
        group,
        head_dim,
        model.vocab_size,
        BYTES_PER_ELEMENT[setup.precision.weights],
        latent,
    )


def naive_chip(setup: Setup) -> naive.Chip:
    """Chip of a setup in the terms of :mod:`benchmarks.naive`; an all-reduce gets half of a direction of each link."""
    hardware = setup.hardware
    inside, between = hardware.link_bytes_per_second_one_way, hardware.nic_bytes_per_second_one_way
    assert inside is not None
    assert between is not None
    return naive.Chip(
        setup.rates.flops_per_second(setup.precision.weights),
        setup.rates.bytes_per_second,
        hardware.hbm_bytes,
        inside / 2,
        between / 2,
        setup.assumptions.host.launch,
        hardware.link_domain,
    )


def naive_frontier(case: Case, grid: InstanceGrid) -> tuple[Array, Array]:
    """Speeds and costs of the naive implementation, fastest first."""
    target, draft = question_of(case.model, case.weights), question_of("paper/llama_3_8b", None)
    sizes, batches = (axis.ravel() for axis in np.meshgrid(grid.accelerators, grid.batch, indexing="ij"))
    seconds = naive.token_seconds(
        naive_model(target),
        naive_chip(target),
        sizes,
        batches,
        0.0,
        pipeline=case.pipeline,
        draft=naive_model(draft) if case.speculative else None,
        draft_chip=naive_chip(draft) if case.speculative else None,
        acceptance=_ACCEPTANCE,
        longest=_LONGEST_DRAFT,
    )
    dollars = sizes * seconds / batches * (_DOLLARS_PER_HOUR / 3600) * 1e6
    return naive.frontier(seconds, dollars, _LIMITS, _DECADES)


def our_frontier(case: Case, grid: InstanceGrid) -> Frontier:
    """Frontier of a case by this package."""
    speculation = None
    if case.speculative:
        draft = catalog.model("paper/llama_3_8b")
        speculation = Speculation.of("draft", _ACCEPTANCE, _LONGEST_DRAFT, model=draft)
    setup = question_of(case.model, case.weights)
    return compute(
        replace(setup, price=_DOLLARS_PER_HOUR), grid, speculation=speculation, sampling=Sampling(_LIMITS, _DECADES)
    )


def grid_of(case: Case, points: int) -> InstanceGrid:
    """Grid of the study for one model."""
    llm = naive_model(question_of(case.model, case.weights))
    smallest = llm.weight_bytes * llm.parameters / 8e10
    return paper_grid(smallest, llm.sparsity, pipeline=case.pipeline, points=points)


def difference(front: Frontier, speeds: Array, dollars: Array) -> float:
    """Largest relative difference of two frontiers [1]; ``inf`` if their lengths differ."""
    if len(front) != speeds.size:
        return float("inf")
    pairs = ((front.tokens_per_second, speeds[::-1]), (front.dollars, dollars[::-1]))
    return max(float(np.abs(ours / theirs - 1.0).max()) for ours, theirs in pairs)


def timed(work: Callable[[], Result], repeats: int) -> tuple[float, Result]:
    """Shortest of several runs [s], and the result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def peak_bytes(work: Callable[[], object]) -> int:
    """Peak allocated memory of a run [B]; measured separately, because tracing is slow."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main(arguments: list[str] | None = None) -> int:
    """Run all cases and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a grid of 100 x 100 instances")
    points = 100 if parser.parse_args(arguments).quick else 400

    console = Console()
    table = Table(title=f"Frontiers of {points} x {points} instances", padding=0)
    for heading in ("frontier", "points", "rel. diff", "paper s", "naive s", "ours s", "ratio", "ours MB"):
        table.add_column(heading, justify="left" if heading == "frontier" else "right")
    worst = 0.0
    for case in CASES:
        grid = grid_of(case, points)
        with console.status(f"{case.name}: the naive way"):
            naive_seconds, (speeds, dollars) = timed(functools.partial(naive_frontier, case, grid), 1)
        with console.status(f"{case.name}: this package"):
            our_seconds, front = timed(functools.partial(our_frontier, case, grid), 3)
            peak = peak_bytes(functools.partial(our_frontier, case, grid))
        apart = difference(front, speeds, dollars)
        worst = max(worst, apart)
        table.add_row(
            case.name,
            f"{len(front)}",
            f"{apart:.1e}",
            "-" if points != 400 else f"{case.published_seconds:.1f}",
            f"{naive_seconds:.2f}",
            f"{our_seconds:.3f}",
            f"{naive_seconds / our_seconds:.0f}x",
            f"{peak / 1e6:.0f}",
        )
    console.print(table)
    console.print(
        "paper: the published code on its own machine; naive: one run; ours: best of three; ratio: naive / ours"
    )
    if worst > _TOLERANCE:
        console.print(f"[red]The two ways differ by {worst:.1e}, which is more than rounding.[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
