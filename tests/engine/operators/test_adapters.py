"""LoRA adapters: weights, bytes and FLOP by hand, and the effect on engines and memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space, step_seconds
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.operators.table import Operator, distinct
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests
from tests.planned import plan_of

#: Rank-1 weights of a layer of Llama 3 8B: hidden 4,096, feed-forward 14,336, queries 4,096, keys and values 1,024
#: each. These are inputs and outputs of qkv (three adapters), attention output, gate and up, and down.
QKV, OUTPUT, FF_IN, FF_OUT = 3 * 4096 + 6144, 4096 + 4096, 2 * 4096 + 2 * 14336, 14336 + 4096
LAYER = QKV + OUTPUT + FF_IN + FF_OUT


def setup(model: str = "llama_3_8b", loras: int = 4, rank: int = 16, engine: str | None = "vllm") -> Setup:
    changes = [f"assumptions.adapters.loras={loras}", f"assumptions.adapters.rank={rank}"]
    return Setup.of(model, "h100_sxm", engine=engine, changes=changes if loras else ())


def rows(asked: Setup, plans: Plans) -> dict[str, Operator]:
    return {row.name: row for row in asked.work(plans).operators if row.name.startswith("adapters")}


def held(asked: Setup, plans: Plans) -> float:
    """Return the bytes of adapters of an instance."""
    without = replace(asked, assumptions=asked.assumptions.changed({"adapters.loras": 0}))
    both = [each.memory(plans).weight_bytes for each in (asked, without)]
    return float(np.ravel(both[0] - both[1])[0])


def test_the_weights_of_an_adapter_by_hand() -> None:
    """Two thin matrices for each of the seven matrices of a block, in 16 bits."""
    assert 32 * 16 * LAYER == 41_943_040
    assert held(setup(loras=1), plan_of(batch=8)) == 2.0 * 41_943_040
    assert held(setup(loras=5, rank=8), plan_of(batch=8)) == 5 * 41_943_040
    # Both ranks store the uncut side of an adapter: inputs of qkv, gate and up; outputs of the others.
    cut = (3 * 4096 + 6144 / 2) + (4096 / 2 + 4096) + (2 * 4096 + 14336) + (14336 / 2 + 4096)
    assert held(setup(loras=1), plan_of(2.0, batch=8)) == 2 * 32 * 16 * 2 * cut
    # Each of two stages has half of the layers.
    assert held(setup(loras=1), plan_of(pp=2.0, batch=2.0)) == 2.0 * 41_943_040


def test_rows_of_a_step_by_hand() -> None:
    found = rows(setup(), plan_of(batch=8))
    widths = {"qkv": QKV, "attention output": OUTPUT, "ff in": FF_IN, "ff out": FF_OUT}
    assert set(found) == {f"adapters ({name})" for name in widths}
    met = 4 * (1 - 0.75**8)
    for name, elements in widths.items():
        row = found[f"adapters ({name})"]
        assert float(np.ravel(row.flop_per_token)[0]) == 2 * 16 * elements
        assert float(np.ravel(row.weight_bytes)[0]) == pytest.approx(2 * 16 * elements * met)
        assert float(np.ravel(row.repeats)[0]) == 32
    # Inputs are read for each matrix; outputs are read and written.
    qkv = found["adapters (qkv)"].activation_bytes_per_token
    assert float(np.ravel(qkv)[0]) == 2 * (3 * 4096 + 2 * 6144)
    assert rows(setup(loras=0), plan_of(batch=8)) == {}


def test_each_request_asks_for_one_of_all_adapters() -> None:
    assert distinct(1, np.array([1.0, 64.0])).tolist() == [1.0, 1.0]
    assert distinct(100, np.array([1.0])) == pytest.approx(1.0)
    assert 63.0 < float(distinct(10_000, np.array([64.0]))[0]) < 64.0


def test_adapters_cost_time_and_room() -> None:
    plain, few, many = (setup(loras=loras) for loras in (0, 1, 64))
    seconds = [float(np.min(step_seconds(each, plan_of(batch=32.0)))) for each in (plain, few, many)]
    assert seconds == sorted(seconds)
    assert seconds[0] < seconds[1] < seconds[2] < 2.0 * seconds[0]
    lengths, space = Requests(1000, 200), Space(Pins(tp=1))
    slots = [int(offer(each, lengths, space).slots[0]) for each in (plain, few, many)]
    assert slots[0] > slots[1] > slots[2]
    with pytest.raises(NothingFitsError, match=r"beside|2000 adapters of rank 64 included"):
        offer(setup(loras=2000, rank=64), lengths, space)


def test_engines_that_are_not_known_to_serve_adapters_are_left_out() -> None:
    open_setup = setup(engine=None)
    assert [engine.name for engine in open_setup.engines] == ["sglang", "vllm"]
    assert any("is not known to serve adapters beside Llama 3.1 8B" in reason for reason in open_setup.left_out)
    message = r"--loras: trtllm .* is not known to serve adapters beside Llama 3.1 8B; leave"
    with pytest.raises(InputError, match=message):
        setup(engine="trtllm")


def test_what_was_measured_of_a_server_still_counts_beside_adapters() -> None:
    assert setup().levels == setup(loras=0).levels
    assert setup().assumptions.calibration == setup(loras=0).assumptions.calibration


def test_experts_have_none_and_shared_ones_do() -> None:
    mixture = rows(setup("deepseek_v2", engine=None), plan_of(8.0, batch=8))
    assert {"adapters (shared expert in)", "adapters (latent down)"} <= set(mixture)
    assert not any("(expert" in name or "router" in name for name in mixture)
