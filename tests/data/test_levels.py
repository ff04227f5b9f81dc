"""Shipped measured corrections: their fit, and errors on left-out rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from data.levels.fitted import usable
from data.levels.judged import deployment_of, without_deployments
from data.levels.left_out import UNSEEN, errors_left, left_out_levels
from data.levels.spreads import spreads_of
from inference_econ.extras.servers.levels import level_of, pooled
from inference_econ.extras.servers.measurements import Measurement, shipped
from tests.extras.servers.levels.rows import SPREADS, observed


def test_no_level_is_fitted_to_prompts_that_were_cached() -> None:
    """A cached prefix belongs to requests other than those that the row describes."""
    rows = [row for row in shipped(["serving_points"]) if isinstance(row, Measurement) and row.model == "llama_3_8b"]
    cached = [row for row in rows if row.engine == "vllm" and row.engine_version == "0.12.0"]
    assert len(cached) == 21 and all("prefix cache" in row.spoilt for row in cached)
    assert {row.engine for row in usable(rows)} == {"sglang", "trtllm"}


@pytest.mark.long
def test_spreads_are_found_again() -> None:
    """A fit to rows drawn with known spreads finds about these spreads."""
    draw = np.random.default_rng(1)
    rows = []
    for version in range(60):
        own = draw.normal(0.0, 0.2)
        for tp in (1, 2, 4, 8):
            deployment = own + draw.normal(0.0, 0.1)
            for concurrency in (1.0, 8.0, 64.0, 256.0):
                error = deployment + draw.normal(0.0, 0.03)
                rows.append(observed(error, engine_version=str(version), tp=tp, concurrency=concurrency))
    spreads = spreads_of(rows)
    assert math.hypot(*spreads.effects[0, 1:3]) == pytest.approx(0.2, rel=0.25)
    assert spreads.effects[0, 3] == pytest.approx(0.1, rel=0.2)
    assert spreads.rows[0] == pytest.approx(0.03, rel=0.2)


def test_rows_that_are_left_out_have_not_been_seen() -> None:
    """A left-out row alone in its deployment gets the correction of the next wider group."""
    rows = [observed(0.5, id="1"), observed(0.5, id="2", tp=4)]
    without = left_out_levels(rows, SPREADS, UNSEEN["load"])
    rest = pooled(rows[1:], SPREADS)
    assert without[0] == pytest.approx(level_of(rest, rows[0]))
    assert 0.0 < without[0][0] < level_of(pooled(rows, SPREADS), rows[0])[0]
    left = errors_left(rows, without)
    assert left[0, 0] == pytest.approx(0.5 - without[0][0])


def test_levels_without_a_deployment_have_not_seen_it_in_any_version() -> None:
    rows = [observed(0.5, id="1"), observed(0.5, id="2", engine_version="0.13.0"), observed(0.1, id="3", tp=4)]
    keys = [deployment_of(row.row) for row in rows]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] == "vllm hopper llama_3_70b h200_sxm tp8 tp8 fp8"
    found = without_deployments(rows, SPREADS, keys[:1])
    assert list(found) == keys[:1]
    (subject,) = found[keys[0]]["subjects"]
    assert [version["version"] for version in subject["versions"]] == ["0.12.0"]
    assert subject["rows"] == 1
    assert found[keys[0]]["shared"] == []
