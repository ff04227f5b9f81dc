"""Colours, sizes and letters of charts."""

from __future__ import annotations

from inference_econ.report.charts import theme


def test_letters_are_as_wide_in_browsers_as_they_were_measured() -> None:
    """Arial, Liberation Sans and Helvetica have one width per letter; a wider font would be cut at the edge."""
    fonts = str(theme.config()["font"])
    assert fonts == "Arial, 'Liberation Sans', Helvetica, sans-serif"
