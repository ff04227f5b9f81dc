"""Series that are known to be far off: they are what shipped rows say, and whoever asks about one is told."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from inference_econ.calibration import QUANTITIES
from inference_econ.calibration.validation import servers
from inference_econ.engine import Instances, Setup
from inference_econ.inputs import known_misfits
from inference_econ.report.caveats import misfits
from tests.shipped import shipped_servers

#: Rows of a series, and how far off its median must be to be listed: |ln(measured / predicted)| [1].
FEWEST, FAR = 10, 0.2


def test_all_series_that_are_far_off_are_listed_with_their_factor() -> None:
    """Far from what the constants of their profile say, without the levels of measured servers."""
    series: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in servers.held(shipped_servers().files, levels=False).counted():
        measured, predicted = row.measured(QUANTITIES[0]), row.predicted(QUANTITIES[0])
        if measured and predicted and row.measurement is not None and row.measurement.decode is None:
            server = row.measurement
            series[server.engine, server.model, server.hardware].append(math.log(measured / predicted))
    far = {name: errors for name, errors in series.items() if len(errors) >= FEWEST}
    far = {name: errors for name, errors in far.items() if abs(np.median(errors)) > FAR}
    listed = {(one.engine, one.model, one.hardware): one for one in known_misfits()}
    assert set(far) == set(listed)
    for name, misfit in listed.items():
        assert misfit.rows == len(far[name])
        assert misfit.factor == pytest.approx(math.exp(np.median(far[name])), rel=0.02)


#: What is said of the series that is asked about.
WHY = "version 0.12 at 35 to 58 ms whatever the load"


# engine that is asked for, whether the remark is made
ASKED = [(None, True), ("vllm", True), ("sglang", False), ("any", True)]


@pytest.mark.parametrize(("engine", "told"), ASKED)
def test_whoever_asks_about_one_is_told(engine: str | None, told: bool) -> None:
    """Where no level is counted, by how much; nobody who means another engine."""
    setup = Setup.of("qwen3_235b_a22b", "h200_sxm", weights="fp8_block", engine=engine).unmeasured
    said = misfits(Instances(setup))
    assert bool(said) == told
    if told:
        assert said[0].startswith(
            "Measured servers of vllm with Qwen3 235B-A22B on NVIDIA H200 SXM5 141GB took 2.02 times the predicted "
            f"time per token (51 rows): {WHY}"
        )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_where_levels_are_counted_that_is_told_with_the_reason(engine: str) -> None:
    setup = Setup.of("qwen3_235b_a22b", "h200_sxm", weights="fp8_block", engine=engine)
    (said,) = misfits(Instances(setup))
    assert said.startswith("Measured: ")
    assert f"rows of {engine}" in said
    assert "counted" in said
    assert (f"Of vllm: {WHY}" in said) == (engine == "vllm")


def test_others_are_not_spoken_of() -> None:
    assert not misfits(Instances(Setup.of("qwen3_235b_a22b", "b200")))
    assert not misfits(Instances(Setup.of("llama_3_70b", "h200_sxm")))
