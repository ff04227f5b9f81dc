"""Equations (29) to (44) of Erdil (2025) as printed: the preset ``paper_text`` against the equations by hand."""

from __future__ import annotations

import math

import pytest

from inference_econ.answers.layout_services import decode_frontier
from inference_econ.engine import Setup, Space, evaluate
from inference_econ.formulas.collectives import reduced_bytes
from inference_econ.inputs import Traffic
from tests.planned import plan_of

#: Fastest tokens per second of Llama 3 70B in 8 bits, by a program of the equations alone, and on how many chips.
FASTEST = {"h100": (131.7, 15.6), "a100": (114, 23.6), "v100": (94.2, 40)}


@pytest.mark.parametrize("chip", FASTEST)
def test_the_equations_alone_are_slower_than_the_tables(chip: str) -> None:
    setup = Setup.of("paper/llama_3_70b", f"paper/{chip}", weights="int8", assumptions="paper_text", price=2.0)
    front = decode_frontier(setup, Traffic(context=0), Space(grid="paper", pipeline=False))
    speed, chips = FASTEST[chip]
    assert front.tokens_per_second[-1] == pytest.approx(speed, rel=4e-3)
    assert front.accelerators[-1] == pytest.approx(chips, rel=1e-2)


@pytest.mark.parametrize(("chips", "batch"), [(16.0, 1.0), (64.0, 8.0)])
def test_one_step_by_hand(chips: float, batch: float) -> None:
    setup = Setup.of("paper/llama_3_70b", "paper/h100", weights="int8", assumptions="paper_text")
    nodes, plan = chips / 8, plan_of(chips, batch=batch, whole=False)
    sizes = {"hidden_size": 8192, "intermediate_size": 28672, "query_heads": 64, "kv_heads": 8, "head_dim": 128}
    summed = float(reduced_bytes(batch, 80, **sizes, bytes_per_element=2.0, input_matrices=2.0))
    inter, intra = 2 * (math.sqrt(nodes) - 1), 2 * (math.sqrt(chips / nodes) - 1) * math.sqrt(nodes)
    # Half of the one-way rate of links, under LL: 25 GB/s between nodes, 225 GB/s inside.
    transfers = summed * (inter / (chips * 25e9) + intra / (chips * 225e9))
    reduction = 6.8e-6 + 1.2e-6 * (math.sqrt(chips / nodes) - 1) + 10e-6 * math.log2(math.sqrt(nodes))
    parameters = setup.model.total_parameters - 8192 * 128_256
    # Eq. (35), with the input of the gate's matrix.
    reads = (parameters + 2 * 80 * batch * (5 * 8192 + (64 + 16 + 64) * 128 + 3 * 28672)) / (chips * 0.75 * 3.3e12)
    expected = 80 * 4 * (4e-6 + reduction) + transfers + reads
    assert float(evaluate(setup, plan, "2d").seconds[0]) == pytest.approx(expected, rel=1e-9)
