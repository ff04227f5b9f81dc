"""The catalog as tables, and the page of all prices."""

from __future__ import annotations

import json

import pytest

from inference_econ.inputs import catalog
from inference_econ.records.plain import json_text
from inference_econ.report.questions.catalog import PricesPage, detail, detail_table

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


def test_every_price_of_every_file_is_shown_with_one_default_of_a_chip() -> None:
    names = catalog.names("hardware")
    records = PricesPage(names).record()
    assert len(records) == sum(len(catalog.hardware(name).prices) for name in names)
    for name in names:
        defaults = [entry for entry in records if entry["chip"] == name and entry["default"]]
        assert len(defaults) == bool(catalog.hardware(name).prices), name
    (rumoured,) = (entry for entry in records if entry["chip"] == "tpu_v4")
    assert (rumoured["kind"], rumoured["verified"]) == ("estimate", False)


def test_shipped_defaults_are_dated_and_verified_but_for_those_that_are_known_to_have_no_such_price() -> None:
    doubtful = {
        str(entry["chip"])
        for entry in PricesPage(catalog.names("hardware")).record()
        if entry["default"] and (entry["kind"] == "estimate" or entry["date"] == "undated" or not entry["verified"])
    }
    assert doubtful == {"h800_sxm", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e"}


def test_the_prices_of_the_published_study_are_its_own() -> None:
    for name in catalog.names("hardware"):
        if name.startswith("paper/"):
            assert [price.kind for price in catalog.hardware(name).prices] == ["paper"], name
