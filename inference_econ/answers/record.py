"""Parts of records that several answers have: facts of a setup, lengths of requests, sources."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inference_econ._shown import Shown
from inference_econ.answers.promises import Targets
from inference_econ.engine import Setup
from inference_econ.inputs import HardwareSpec, Requests, prices

if TYPE_CHECKING:
    import pandas as pd


class Recorded(Shown):
    """An answer that is data by itself: records need nothing of how answers look."""

    __slots__ = ()

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return all of the answer as plain data, as ``--format json`` prints it: numbers in base units, texts."""
        plain: dict[str, Any] = without_signed_zeros(self.record())
        return plain


class RecordedRows(Recorded):
    """An answer whose rows are records, too."""

    __slots__ = ()

    @abstractmethod
    def records(self) -> list[Mapping[str, Any]]:
        """Return the numbers behind the answer, one record per row."""

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers behind the answer, one row each, unrounded; units are part of the names of columns."""
        return flat_frame(self.records())


#: What every record begins with.
HEAD = ("model", "hardware", "assumptions", "price")


def facts(setup: Setup, *names: str, requests: Requests | None = None, calibration: object = None) -> dict[str, object]:
    """Some facts of a setup as plain data; where engines were left out, with the reasons (``left_out``).

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    *names : str
        Which facts, in their order: those of :data:`HEAD`, number formats (``weights``, ``expert_weights``,
        ``activations``, ``kv``, all ``formats``), ``math_unit``, ``context``, ``contexts``, and what follows.
    requests : Requests, optional
        For ``isl``, ``osl`` and ``cached`` [tokens].
    calibration : object
        For ``calibration``, see :func:`inference_econ.answers.deviations.calibration_record`.
    """
    precision = setup.precision
    values: dict[str, object] = {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "price": price_record(setup),
        "weights": precision.weights,
        "expert_weights": precision.experts,
        "activations": precision.activations,
        "kv": precision.kv,
        "formats": asdict(precision),
        "math_unit": setup.unit(precision.weights),
        "context": setup.context,
        "contexts": [{"tokens": length, "sequences": part} for length, part in setup.contexts],
        "calibration": calibration,
    }
    if requests is not None:
        values |= {"isl": requests.isl.mean, "osl": requests.osl.mean, "cached": requests.cached}
        values |= {"shared_prefix": requests.shared_prefix}
    left_out = {"left_out": list(setup.left_out)} if setup.left_out else {}
    return {name: values[name] for name in names} | left_out | bound(setup)


def bound(*setups: Setup) -> dict[str, object]:
    """That numbers are bounds, as headings say too: assumptions of a setup were fitted to no server with its chip."""
    return {"bound": True} if any(setup.is_bound for setup in setups) else {}


def price_record(setup: Setup) -> dict[str, object] | None:
    """Price of an accelerator and who says so; None where nobody does."""
    if setup.price is None:
        return None
    price = setup.hour_price
    return {
        "usd_per_gpu_hour": price.dollars,
        **node_record(setup.hardware, price.dollars),
        "kind": price.kind,
        "seller": price.seller or None,
        "years": price.years,
        "date": price.date,
        "verified": price.verified,
        "source": prices.GIVEN if price.kind == prices.GIVEN else f"{price.ref}: {price.where}",
    }


def node_record(chip: HardwareSpec, dollars_per_accelerator_hour: float) -> dict[str, float | int | None]:
    """Price of a whole node by the hour, and how many accelerators it has; None where no file knows nodes."""
    size = chip.rented_as[-1] if chip.rented_as else None
    return {
        "usd_per_node_hour": None if size is None else size * dollars_per_accelerator_hour,
        "gpus_per_node": size,
    }


def finite_or_none(value: float) -> float | None:
    """The value itself, or None if it has no end or is not known: records have no NaN and no infinity."""
    return value if math.isfinite(value) else None


def without_signed_zeros(value: Any) -> Any:
    """Plain data without the sign of a zero."""
    if isinstance(value, Mapping):
        return {key: without_signed_zeros(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_signed_zeros(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value


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


def targets_record(targets: Targets) -> dict[str, object]:
    """Promises as plain data; null where there is none."""
    return {
        **{f"{name}_seconds": finite_or_none(seconds) for name, seconds in targets.every.items()},
        **{f"{name}_percentile": targets.percentile_of(name) for name in targets.every},
        "confidence": targets.confidence,
    }
