"""Every command states its prediction error: low and high in data, outliers, layouts outside the calibration,
uncalibrated chips.
"""

from __future__ import annotations

import pytest

from tests.commands import Command, record, rows


@pytest.mark.rows
def test_every_row_is_a_bound(command: Command, asked: list[object]) -> None:
    tpu, gpu = ([chip if part == "{}" else part for part in asked] for chip in ("tpu_v5e", "h100_sxm"))
    assert {row["bound"] for row in rows(command, *tpu)} == {"True"}
    assert not any("bound" in row for row in rows(command, *gpu))
    if asked[0] != "recommend":
        assert record(command, *tpu)["bound"] is True
        assert "bound" not in record(command, *gpu)


@pytest.mark.parametrize("chips", [("tpu_v5e", "h100_sxm"), ("h100_sxm", "tpu_v5e")])
def test_a_pool_of_such_chips_makes_the_pair_a_bound(command: Command, chips: tuple[str, str]) -> None:
    pools = ("--decode-on", chips[1], "--disaggregated", "--max-instance-gpus", 2, "--no-speculation")
    asked = ("recommend", "llama_3_8b", chips[0], *pools, "--request-rate", 1)
    assert record(command, *asked)["choices"][0]["bound"] is True
    assert {row["bound"] for row in rows(command, *asked)} == {"True"}
    assert record(command, "frontier", *asked[1:-2])["bound"] is True
