"""Series with known large errors: they match shipped rows, and results about them include a note."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from inference_econ.engine import Instances, Setup
from inference_econ.extras.servers import QUANTITIES, Measurement
from inference_econ.extras.servers.prediction.predict import predict, version_told
from inference_econ.extras.servers.validation import servers
from inference_econ.inputs import known_misfits
from inference_econ.report.notes import misfits
from tests.shipped import shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long

#: Rows of a series, and the smallest median error of a listed series: |ln(measured / predicted)| [1].
FEWEST, FAR = 10, 0.2
#: Rows of each other series that are predicted here, of all its loads alike [1].
SAMPLE = 10
TPOT = QUANTITIES[0]


def _series() -> dict[tuple[str, ...], list[Measurement]]:
    """Return rows with a predicted time per token that are included, by engine, model, chip and engine version.

    Runs under random arrivals are left out: docs/model/limits.md describes their errors.
    """
    series: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    for row in shipped_servers().counted():
        server = row.measurement
        if server is None or server.decode is not None or server.load == "rate":
            continue
        if row.measured(TPOT) and row.predicted(TPOT):
            series[server.engine, server.model, server.hardware, version_told(server)].append(server)
    return {name: rows for name, rows in series.items() if len(rows) >= FEWEST}


def test_all_series_that_are_far_off_are_listed_with_their_factor() -> None:
    """The factor is relative to the constants of the profile, without measured corrections."""
    series, listed = _series(), {(one.engine, one.model, one.hardware, one.version): one for one in known_misfits()}
    assert {name: len(series[name]) for name in listed} == {name: misfit.rows for name, misfit in listed.items()}
    chosen = {name: rows if name in listed else rows[:: -(-len(rows) // SAMPLE)] for name, rows in series.items()}
    plain = predict(
        [row for rows in chosen.values() for row in rows],
        lambda row: servers.of_hardware(row.hardware, row.engine, levels=False),
    )
    predicted = {id(prediction.measurement): prediction.tpot_seconds or math.nan for prediction in plain}
    errors = {
        name: np.median([math.log((row.tpot_seconds or math.nan) / predicted[id(row)]) for row in rows])
        for name, rows in chosen.items()
    }
    assert {name for name, error in errors.items() if abs(error) > FAR} == set(listed)
    for name, misfit in listed.items():
        assert misfit.factor == pytest.approx(math.exp(errors[name]), rel=0.02)


#: Notes on the series.
WHY = "in version 0.12 a token takes 35 to 58 ms at every load"


# engine of the query, and whether the note appears
ASKED = [(None, True), ("vllm", True), ("sglang", False), ("any", True)]


@pytest.mark.parametrize(("engine", "told"), ASKED)
def test_whoever_asks_about_one_is_told(engine: str | None, told: bool) -> None:
    """The factor is stated if no correction applies, and only for the same engine."""
    setup = Setup.of("qwen3_235b_a22b", "h200_sxm", weights="fp8_block", engine=engine).unmeasured
    said = misfits(Instances(setup))
    assert bool(said) == told
    if told:
        assert said[0].startswith(
            "Measured TPOT is 1.94x the prediction in 51 runs of Qwen3 235B-A22B on NVIDIA H200 SXM5 141GB with vllm. "
            f"Likely reason: {WHY}"
        )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_where_levels_are_counted_that_is_told_with_the_reason(engine: str) -> None:
    setup = Setup.of("qwen3_235b_a22b", "h200_sxm", weights="fp8_block", engine=engine)
    (said,) = misfits(Instances(setup))
    assert said.startswith("Predicted step times include these correction factors from measurements: decode ")
    assert f"versions of {engine}" in said
    assert (f"Outliers among the runs of vllm: {WHY}" in said) == (engine == "vllm")


def test_others_are_not_spoken_of() -> None:
    assert not misfits(Instances(Setup.of("qwen3_235b_a22b", "b200")))
    assert not misfits(Instances(Setup.of("llama_3_70b", "h200_sxm")))
