"""The catalogue as tables."""

from __future__ import annotations

import json

import pytest

from inference_econ.inputs import catalog
from inference_econ.report.catalog import detail, detail_table
from inference_econ.report.page import json_text

KINDS: tuple[catalog.Kind, ...] = ("hardware", "models", "scenarios", "assumptions", "engines")


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_the_catalogue_can_be_shown(kind: catalog.Kind) -> None:
    for name in catalog.names(kind):
        record = detail(kind, name)
        json.loads(json_text(record))
        table = detail_table(kind, name, record)
        assert table.columns == ("field", "value", "source")
        assert all(len(row) == 3 for row in table.rows)
        fields = [row[0] for row in table.rows]
        assert len(set(fields)) == len(fields)


def test_details_show_values_with_their_sources() -> None:
    record = detail("hardware", "h100_sxm")
    rows = {row[0]: row for row in detail_table("hardware", "h100_sxm", record).rows}
    assert rows["hbm_bytes_per_second"][1] == "3.35e+12"
    assert rows["hbm_bytes_per_second"][2].startswith("published: nvidia2024h100ds, ")
    assert rows["dense_flops_per_second.fp8"][2].startswith("published: ")
    model = detail("models", "llama_3_8b")
    assert model["total_parameters"] == 8_030_261_248
    assert isinstance(model["parameter_parts"], dict)
    assert sum(model["parameter_parts"].values()) == 8_030_261_248
