"""The dates of a measurement: valid and invalid forms."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from inference_econ.extras.servers import Measurement, Skipped, measurements
from inference_econ.extras.servers.measurements._record import days
from tests.reading import of

COLUMNS = (
    "model,hardware,isl,osl,batch_or_concurrency,batch_kind,metric,value,unit,tp,engine,source,version_date,measured"
)
ROW = "Llama-3.1-70B,H100,100,100,1,concurrency,TPOT,20,ms,4"


def _read(tmp_path: Path, engine: str = "vLLM", source: str = "", version_date: str = "", measured: str = "") -> object:
    file = tmp_path / "mine.csv"
    file.write_text(f"{COLUMNS}\n{ROW},{engine},{source},{version_date},{measured}\n", encoding="utf-8")
    (row,) = measurements.read_measurements(file)
    return row


@pytest.mark.rows
def test_dates_as_people_write_them(text: str, since: date, until: date) -> None:
    assert (days(text).since, days(text).until) == (since, until)


def test_a_column_of_dates_comes_before_what_the_source_says(tmp_path: Path) -> None:
    source = "db-dump/2026-04-27; measured=2026-04-17T00:00:00.000Z; image"
    for row, day in (
        (_read(tmp_path, source=source), date(2026, 4, 17)),
        (_read(tmp_path, source=source, measured="2026-04-20"), date(2026, 4, 20)),
        (_read(tmp_path, version_date="2025-08"), date(2025, 8, 31)),
    ):
        assert isinstance(row, Measurement) and row.days is not None
        assert row.days.until == day
    for text in ("0.11.0", "v1.0 docs", ""):
        row = _read(tmp_path, version_date=text)
        assert isinstance(row, Measurement) and row.days is None


@pytest.mark.parametrize("column", ["measured", "version_date", "source"])
def test_days_in_the_future_are_refused(tmp_path: Path, column: str) -> None:
    day = date.today() + timedelta(days=2)
    text = f"measured={day}" if column == "source" else f"{day}"
    row = of(Skipped, _read(tmp_path, **{column: text}))
    assert row.line == 2
    assert f"{day} is in the future: today is {date.today()}; give the day of the measurement" in row.reason


@pytest.mark.parametrize("text", ["yesterday", "2026-13", "2026-02-30"])
def test_what_is_no_date_is_refused(tmp_path: Path, text: str) -> None:
    row = of(Skipped, _read(tmp_path, measured=text))
    assert row.reason == f"{text!r} is not a date; write for example 2026-04-17, 2026-04, or 2025-12..2026-02"


def test_versions_of_a_later_series_than_all_that_are_known_are_refused(tmp_path: Path) -> None:
    row = _read(tmp_path, engine="vLLM 7.0.1")
    assert isinstance(row, Skipped) and row.line == 2
    assert row.reason.startswith(
        "vLLM 7.0.1: nothing is known of versions after 0.33.0 (2026-11-01); leave the version"
    )
    assert isinstance(_read(tmp_path, engine="vLLM 0.33.4"), Measurement)
