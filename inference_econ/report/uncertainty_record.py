"""Uncertainty of costs and of a choice, as plain data and as rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from inference_econ.answers.sources import source_records, spec_sources
from inference_econ.inputs import Distribution
from inference_econ.report.fields import attributes
from inference_econ.report.table import Frame, frame_of, joined
from inference_econ.studies.uncertainty.answer import QUANTILES, Uncertainty
from inference_econ.studies.uncertainty.shares import Shares

#: What is said of shares of an input in data.
_SHARES = "first first_half_width total total_half_width"
#: Names of the quantiles in data.
_NAMES = ("p10", "median", "p90")


def gaps(values: Any) -> list[float]:
    """Numbers of a line; gaps where they are infinite."""
    return [float(value) if math.isfinite(value) else math.nan for value in values]


def uncertainty_record(study: Uncertainty) -> dict[str, object]:
    """Everything as plain data; what is not reached is null."""
    shares_by_name = {name: _share_records(study, shares) for name, shares in study.shares.items()}
    return {
        "scenario": study.scenario.name,
        "description": study.scenario.description,
        "speed": study.speed,
        "samples": study.plan.samples,
        "evaluations": len(study.plan.shares),
        "frontiers": study.frontiers,
        "seed": study.ask.seed,
        "series": [_series_record(study, index) for index in range(len(study.labels))],
        "inputs": [_input_record(study, column) for column in range(len(study.variables))],
        "shares": shares_by_name,
        "all_known": _knowledge_record(study, None),
        "sources": source_records((*study.used, *spec_sources("scenario", study.scenario))),
    }


def _series_record(study: Uncertainty, index: int) -> dict[str, object]:
    chance = study.chance(index, study.at)
    bands = {name: _nulls(study.bands[level, :, index]) for level, name in enumerate(_NAMES)}
    return {
        "label": study.labels[index],
        "cheapest_at_speed": {"value": chance.value, "standard_error": chance.standard_error},
        "tokens_per_second_per_user": study.speeds.tolist(),
        "dollars_per_million_output_tokens": {"present": _nulls(study.present[:, index]), **bands},
        "reached": study.reached[:, index].tolist(),
        "cheapest": study.chances[:, index].tolist(),
    }


def _input_record(study: Uncertainty, column: int) -> dict[str, object]:
    variable = study.variables[column]
    series = next(series for series in study.series if series.label in variable.series)
    distribution = variable.given
    return {
        "name": variable.name,
        "series": list(variable.series),
        "distribution": distribution.words if isinstance(distribution, Distribution) else distribution,
        "quantiles": dict(zip(_NAMES, series.quantiles(variable, np.asarray(QUANTILES)).tolist(), strict=True)),
        **(_knowledge_record(study, column) or {}),
    }


def _knowledge_record(study: Uncertainty, column: int | None) -> dict[str, object] | None:
    """Record of the worth of knowing an input, or all of them; None if there is nothing to choose."""
    if len(study.labels) == 1:
        return None
    knowledge = study.all_known if column is None else study.knowledge[column]
    return {
        "fewer_wrong_choices": knowledge.mistakes._asdict(),
        "saved_dollars_per_million_output_tokens": None if knowledge.dollars is None else knowledge.dollars._asdict(),
    }


def _share_records(study: Uncertainty, shares: Shares) -> list[dict[str, object]]:
    return [
        {
            "input": variable.label,
            **{name: float(values[column]) for name, values in attributes(shares, _SHARES).items()},
        }
        for column, variable in enumerate(study.variables)
    ]


def _nulls(values: Any) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def band_frame(study: Uncertainty) -> Frame:
    """One row per series and speed."""
    frames = [
        frame_of(
            {
                "series": label,
                "tokens_per_second_per_user": study.speeds,
                "dollars_per_million_output_tokens": gaps(study.present[:, index]),
                **{
                    f"dollars_per_million_output_tokens_{name}": gaps(study.bands[level, :, index])
                    for level, name in enumerate(_NAMES)
                },
                "reached": study.reached[:, index],
                "cheapest": study.chances[:, index],
            }
        )
        for index, label in enumerate(study.labels)
    ]
    return joined(frames)
