"""Checks that every chart specification must pass."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import jsonschema

from inference_econ.report import charts

#: A report contains several charts and a megabyte of JavaScript in 1.5 MB.
LARGEST = 300_000
Spec = Mapping[str, Any]


@cache
def _schema() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(alt.load_schema())


def sound(chart: charts.AnyChart) -> dict[str, Any]:
    """Return a chart's specification if it is valid, its fields are in its data, and its numbers are finite."""
    spec = charts.specification(chart)
    assert not [error.message[:200] for error in _schema().iter_errors(_without_layout(spec))]
    assert len(json.dumps(spec, allow_nan=False)) < LARGEST
    for view in views(spec):
        _check_fields(view, rows_of(spec, view))
    return spec


def _without_layout(spec: Spec) -> dict[str, Any]:
    """Remove the legend layout, which Vega-Lite passes to Vega and its schema does not include."""
    settings = {**spec["config"], "legend": {**spec["config"]["legend"]}}
    del settings["legend"]["layout"]
    return {**spec, "config": settings}


def views(spec: Spec) -> Iterator[dict[str, Any]]:
    """Yield every view with its own marks."""
    for key in ("layer", "concat", "hconcat", "vconcat"):
        for part in spec.get(key, ()):
            yield from views({"data": spec.get("data"), **part})
    if "mark" in spec:
        yield dict(spec)


def marked(spec: Spec, kind: str) -> list[dict[str, Any]]:
    """Return the views of a kind of mark."""
    return [view for view in views(spec) if view["mark"]["type"] == kind]


def rows_of(spec: Spec, view: Spec) -> Sequence[dict[str, Any]]:
    """Return the data of a view."""
    data = view["data"]
    return list(data["values"] if "values" in data else spec["datasets"][data["name"]])


def encodings(view: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the channels of a view that show a field."""
    for channel, encoding in view.get("encoding", {}).items():
        for one in encoding if isinstance(encoding, list) else [encoding]:
            if "field" in one:
                yield channel, one


def hovering(view: Spec) -> set[str]:
    """Return the fields in the tooltip of a view's marks."""
    said = view.get("encoding", {}).get("tooltip", {})
    return set(re.findall(r'datum\)\["(.*?)"\]', said["value"]["expr"])) if "value" in said else set()


def _check_fields(view: Spec, rows: Sequence[dict[str, Any]]) -> None:
    assert rows
    assert hovering(view) <= {name for row in rows for name in row}
    calculated = {step["as"] for step in view.get("transform", ()) if "as" in step}
    for channel, encoding in encodings(view):
        name = encoding["field"]
        if name in calculated:
            continue
        values = [row[name] for row in rows if channel != "tooltip" or name in row]
        assert values
        if encoding.get("type") == "quantitative" or channel in ("x2", "y2"):
            assert all(isinstance(value, int | float) and math.isfinite(value) for value in values), name
        domain = (encoding.get("scale") or {}).get("domain")
        if domain is not None and encoding["type"] == "quantitative":
            low, high = domain
            assert all(low * (1 - 1e-5) <= value <= high * (1 + 1e-5) for value in values)
        elif domain is not None:
            assert set(values) <= set(domain)


def legend(spec: Spec) -> set[str]:
    """Return every text of a legend."""
    return {
        text
        for view in views(spec)
        for _, encoding in encodings(view)
        if encoding.get("scale") and encoding.get("legend", True) is not None
        for text in encoding["scale"].get("domain", ())
    }
