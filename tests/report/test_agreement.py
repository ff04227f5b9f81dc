"""Pictures of predictions against measurements."""

from __future__ import annotations

from pathlib import Path

from inference_econ.calibration import ComparedPoint
from inference_econ.report import agreement


def test_a_short_axis_has_numbers(tmp_path: Path) -> None:
    point = ComparedPoint(id="1", series="mine", subject="", assumptions="", unit="s", measured=0.03, predicted=0.033)
    agreement.draw_panels([("TPOT", [point])], tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert all(f">{number}<" in drawn for number in ("0.02", "0.05"))
