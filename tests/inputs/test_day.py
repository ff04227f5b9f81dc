"""Days of traffic as tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import read_day


def _day(folder: Path, *lines: str) -> Path:
    path = folder / "day.csv"
    path.write_text("\n".join(("hour,requests_per_second", *lines)) + "\n")
    return path


def test_a_day_is_read(tmp_path: Path) -> None:
    assert read_day(_day(tmp_path, "0,2.5", "1,0", "2,4")) == (2.5, 0.0, 4.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("0,1", "2,1"), r"day.csv:3: hour 1 is due, as hours count from 0, got 2"),
        (("0,1", "1,-3"), r"day.csv:3: .*requests_per_second must be >= 0, got -3"),
        (("0,1", "1,soon"), r"day.csv:3: .*soon"),
        (("0,1",), r"day.csv: a day has from 2 to 168 hours with a rate each, got 1"),
        (("0,0", "1,0"), r"day.csv: rates by hour must be requests/s from 0 to 1e9, one above 0"),
        (("0,1,2", "1,2"), r"day.csv:2: 2 cells are needed"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_day(_day(tmp_path, *lines))
