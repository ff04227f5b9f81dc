"""Model, GPU, number formats and price of a result as plain data, for the first fields of its JSON record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inference_econ.engine import Setup
from inference_econ.inputs import HardwareSpec, Requests, prices

#: Facts at the start of every record.
HEAD = ("model", "hardware", "assumptions", "price")


def facts(setup: Setup, *names: str, requests: Requests | None = None, calibration: object = None) -> dict[str, object]:
    """Return facts of a setup by name as plain data; ``left_out`` lists the excluded engines with reasons.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    *names : str
        Names of the facts, in output order: those in :data:`HEAD`, number formats (``weights``, ``expert_weights``,
        ``activations``, ``kv``, ``formats`` for all), ``math_unit``, ``context`` and ``contexts``. ``calibration``,
        ``isl``, ``osl``, ``cached`` and ``shared_prefix`` are also valid.
    requests : Requests
        Requests that give ``isl``, ``osl``, ``cached`` and ``shared_prefix`` [tokens].
    calibration : object
        Value of the field ``calibration``, see :func:`inference_econ.records.deviations.calibration_record`.
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
        "math_unit": setup.rates.unit(precision.weights),
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
    """JSON field that marks a result as a lower bound if no server with its GPU was used for the fit."""
    return {"bound": True} if any(setup.is_bound for setup in setups) else {}


def without_unknown_costs(record: Mapping[str, Any], *setups: Setup) -> dict[str, Any]:
    """Copy a record; its costs become null if the price of a GPU is unknown."""
    return {**record} if all(setup.is_priced for setup in setups) else _without_dollars(record)


def _without_dollars(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: None if "dollars" in name else _without_dollars(item) for name, item in value.items()}
    return [*map(_without_dollars, value)] if isinstance(value, list) else value


def price_record(setup: Setup) -> dict[str, object] | None:
    """Price of a GPU with its source; None if the price is unknown."""
    if not setup.is_priced:
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
    """Hourly price of a node, and GPUs per node; both are None if the GPU file has no node size."""
    size = chip.rented_as[-1] if chip.rented_as else None
    return {"usd_per_node_hour": None if size is None else size * dollars_per_accelerator_hour, "gpus_per_node": size}
