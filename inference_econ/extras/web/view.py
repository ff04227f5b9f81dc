"""Result as the page shows it: HTML, chart specifications, and points to select."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inference_econ.extras.web.asking import DEGREES, NOBODY, address
from inference_econ.extras.web.questions import Answer, Fields

if TYPE_CHECKING:
    from jinja2 import Environment


#: Preferred initial user speed, several times the reading speed of a person [tokens/s].
_USUAL_SPEED = 30.0


@functools.cache
def templates() -> Environment:
    """Templates of the explorer, with escaping."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("inference_econ.extras.web")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)


def text(question: str, fields: Fields, answer: Answer) -> str:
    """Result as JSON: ``html``, ``charts`` by name, ``series`` to select from, and measured ``runs``."""
    from inference_econ.records.plain import json_text
    from inference_econ.report import charts

    shown = {} if answer.page is None else answer.page.charts()
    specifications = {name: charts.specification(chart) for name, chart in shown.items()}
    titles = {name: _title(chart) for name, chart in specifications.items()}
    record = {} if answer.page is None else answer.page.plain()
    return json_text(
        {
            "html": _html(question, fields, answer, titles),
            "charts": specifications,
            "series": [_series(row, fields) for row in record.get("series", [])] if question == "compare" else [],
            "runs": _runs(record["rows"]) if question == "validate" else [],
        }
    )


def _series(record: Mapping[str, Any], fields: Fields) -> Mapping[str, object]:
    """Frontier with selectable points and the initial speed, or the reason why no layout fits."""
    from inference_econ.report.metrics import AXES

    axis = AXES[fields.get("y", "cost")]
    points = [{**_point(point), "y": axis.factor * point[axis.field]} for point in record["points"]]
    speeds = [point["tokens_per_second_per_user"] for point in record["points"]]
    first = min(max(_USUAL_SPEED, min(speeds)), max(speeds)) if points else None
    price = record.get("dollars_per_accelerator_hour")
    label, reason = record["label"], record.get("reason", "")
    return {"label": label, "reason": reason, "points": points, "first": first, "price": price}


def _runs(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    """Measured servers: tokens per second per user and per accelerator."""
    runs = [run for record in records for run in record["rows"]]
    complete = [run for run in runs if run["measured_tpot_ms"] and run["measured_output_tok_per_s_per_gpu"]]
    return [
        {"speed": 1e3 / run["measured_tpot_ms"], "rate": run["measured_output_tok_per_s_per_gpu"]} for run in complete
    ]


def _point(record: Mapping[str, Any]) -> Mapping[str, object]:
    from inference_econ.records.texts import amount, layout_label, size

    layout = record["layout"]
    groups = layout["dp"] * layout["pp"]  # each group has the same batch
    batch = max(1, round(record["batch"] / groups)) * groups
    dollars = record["dollars_per_million_output_tokens"]
    ends = [record[f"dollars_per_million_output_tokens_{end}"] for end in ("low", "high")]
    low, high = (dollars if end is None else end for end in ends)
    return {
        "speed": record["tokens_per_second_per_user"],
        "dollars": dollars,
        "low": low,
        "high": high,
        "cells": [
            f"{amount(1e3 * record['ttft_seconds'])} ms",
            size(record["accelerators"]),
            layout_label(layout),
            amount(record["concurrency"]),
            record["evidence"],
        ],
        "at": {
            **{name: int(layout[name]) for name in DEGREES},
            "batch": batch,
            "tpot": f"{1e3 * record['tpot_seconds']:.4g}",
            "engine": layout.get("engine", ""),
            "kv": record["kv"],
            **_proposed(record["speculation"]),
            **({"disaggregated": "true"} if "prefill" in layout else {}),
        },
    }


def _proposed(speculation: Mapping[str, Any] | None) -> Mapping[str, object]:
    """Options for a speculation method and draft length."""
    if speculation is None:
        return {"speculation": NOBODY}
    return {"speculation": speculation["method"], "draft_length": len(speculation["acceptance"])}


def _title(specification: Mapping[str, object]) -> str:
    """Title of a chart."""
    title = specification.get("title")
    return str(title.get("text", "")) if isinstance(title, dict) else str(title or "Picture")


def _html(question: str, fields: Fields, answer: Answer, figures: Mapping[str, str]) -> str:
    tables = [] if answer.page is None else answer.page.tables()
    return (
        templates()
        .get_template("answer.html.j2")
        .render(
            figures=figures,
            text=answer.text,
            tables=tables,
            command=answer.command,
            links={form: address(question, fields, form) for form in _forms(answer, pictures=bool(figures))},
            notes=[note for table in tables for note in table.notes],
        )
    )


def _forms(answer: Answer, *, pictures: bool) -> Sequence[str]:
    """Further forms of a result."""
    if answer.page is None:
        return ("txt",)
    scenario = () if answer.scenario is None else ("yaml",)
    return ("csv", "json", *scenario, *(("svg", "png", "html") if pictures else ()))
