"""Subject of a measured row: what its prediction is compared with, and grouped by."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from inference_econ.calibration.measurements import Days, Measurement, Pool
from inference_econ.engine import UNKNOWN, SetupLevels, Subject, has_experts, layout_key, subject_key
from inference_econ.inputs import HardwareSpec, MeasuredLevels, ModelSpec, Precision, Unseen, catalog


def subject_of(row: Measurement) -> str:
    """The :func:`subject_key` of a measurement."""
    model, hardware = specs(row.model, row.hardware)
    return subject_key(row.engine, hardware, model)


def instance_chips(row: Measurement) -> float | None:
    """Accelerators of an instance, of the largest pool's if there are two; None if the layout is not recorded [1]."""
    if row.prefill is not None or row.decode is not None:
        pools = [pool for pool in (row.prefill, row.decode) if pool is not None]
        return float(max(pool.tp * pool.dp * pool.pp for pool in pools))
    return None if row.tp is None else float(row.tp * (row.dp or 1) * (row.pp or 1))


def version_of(row: Measurement) -> str:
    """The engine of a measurement with its version, as far as they are recorded."""
    return f"{row.engine} {row.engine_version}".strip()


def days_of(rows: Iterable[Measurement]) -> Days | None:
    """From the first to the last day on which some rows were measured; None if no date is recorded."""
    dated = [row.days for row in rows if row.days is not None]
    return Days(min(day.since for day in dated), max(day.until for day in dated)) if dated else None


def layout_of(row: Measurement) -> str:
    """The :func:`inference_econ.engine.layout_key` of an instance, or of both pools; empty if it is not recorded."""
    if row.prefill is not None and row.decode is not None:
        return "+".join(pool_key(pool) for pool in (row.prefill, row.decode))
    if row.tp is None:
        return ""
    # Without experts, data parallelism means instances of their own.
    groups = row.dp or 1 if has_experts(specs(row.model, row.hardware)[0]) else 1
    return layout_key(row.tp, groups, row.pp or 1)


def pool_key(pool: Pool) -> str:
    """The :func:`inference_econ.engine.layout_key` of a worker."""
    return layout_key(pool.tp, pool.dp, pool.pp)


def requests_per_accelerator(row: Measurement) -> float | None:
    """Requests at a time, over all accelerators; None if one is not recorded, or left to chance [1]."""
    if row.load == "rate" or not row.concurrency or not row.accelerators:
        return None
    return row.concurrency / row.accelerators


def unseen_of(row: Measurement, levels: MeasuredLevels | None) -> Unseen | None:
    """Parts that levels of measured servers have not seen of a row that they are of; None if they say nothing of it."""
    if levels is None or row.engine != levels.engine:
        return None
    model, hardware = specs(row.model, row.hardware)
    precision = Precision.of(model, row.weights)
    levels_of_setup = SetupLevels.of(levels, model, hardware, precision, row.engine_version or row.ran)
    if levels_of_setup is None:
        return None
    layouts = [layout_of(row)] if row.decode is None else [pool_key(row.decode)]
    return levels_of_setup.served(apart=row.decode is not None, speculates=row.speculates).unseen(layouts)


def measured_subject(row: Measurement, levels: MeasuredLevels | None = None) -> Subject:
    """The :class:`Subject` of a measurement that is predicted with some levels."""
    chips, per_accelerator = instance_chips(row), requests_per_accelerator(row)
    together = None if chips is None or per_accelerator is None else per_accelerator * chips
    return Subject(
        *specs(row.model, row.hardware), row.weights, row.isl, row.osl, chips, together, row.engine or UNKNOWN,
        version=row.engine_version, layout=layout_of(row), unseen=unseen_of(row, levels),
    )  # fmt: skip


@cache
def specs(model: str, hardware: str) -> tuple[ModelSpec, HardwareSpec]:
    """The catalogue copies what it gives; measurements are many and only looked at."""
    return catalog.model(model), catalog.hardware(hardware)
