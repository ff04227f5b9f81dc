"""Parts of records that several answers have: facts of a setup, lengths of requests, sources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inference_econ.answers.sources import UsedSource
from inference_econ.engine import Setup
from inference_econ.inputs import Requests

if TYPE_CHECKING:
    import pandas as pd

#: What every record begins with.
HEAD = ("model", "hardware", "assumptions")


def facts(setup: Setup, *names: str, requests: Requests | None = None, calibration: object = None) -> dict[str, object]:
    """Some facts of a setup as plain data.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    *names : str
        Which facts, in their order: those of :data:`HEAD`, number formats (``weights``, ``expert_weights``,
        ``activations``, ``kv``, all ``formats``), ``math_unit``, ``context``, and what follows.
    requests : Requests, optional
        For ``isl``, ``osl`` and ``cached`` [tokens].
    calibration : object
        For ``calibration``, see :func:`inference_econ.report.caveats.calibration_record`.
    """
    precision = setup.precision
    known: dict[str, object] = {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "weights": precision.weights,
        "expert_weights": precision.experts,
        "activations": precision.activations,
        "kv": precision.kv,
        "formats": asdict(precision),
        "math_unit": setup.unit(precision.weights),
        "context": setup.context,
        "calibration": calibration,
    }
    if requests is not None:
        known |= {"isl": requests.isl.mean, "osl": requests.osl.mean, "cached": requests.cached}
        known |= {"shared_prefix": requests.shared_prefix}
    return {name: known[name] for name in names}


def finite_or_none(value: float) -> float | None:
    """The value itself, or None if it has no end or is not known: records have no NaN and no infinity."""
    return value if math.isfinite(value) else None


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Plain data without nesting: names joined by underscores.

    Examples
    --------
    >>> flat({"gpus": 8, "ttft_seconds": {"p50": 0.2}})
    {'gpus': 8, 'ttft_seconds_p50': 0.2}
    """
    joined: dict[str, Any] = {}
    for name, value in record.items():
        joined |= flat(value, f"{before}{name}_") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return joined


def flat_frame(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Plain data as rows, unrounded; what is said of a whole answer's errors is left out."""
    import pandas as pd

    return pd.DataFrame(
        [flat({name: value for name, value in record.items() if name != "calibration"}) for record in records]
    )


def source_records(used: Sequence[UsedSource]) -> list[dict[str, str]]:
    """Sources as plain data."""
    return [source.record() for source in used]
