"""Gain of pools over aggregated serving of the same model on the same chips, as published and as answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from inference_econ.answers.deployments.candidates import Arrangement
from inference_econ.answers.deployments.serving_frontier import frontier
from inference_econ.engine import Setup, Space
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers.measurements import UnusableRowError
from inference_econ.extras.servers.validation._files import NumberedRow, read
from inference_econ.extras.servers.validation._report import ComparedPoint, Dataset, Report
from inference_econ.inputs import Requests

#: What stands for the profile that belongs to chip and engine.
OWN = "profile"
#: Any price: the chips of both sides are alike.
_PRICE = 1.0
_WAYS: tuple[Arrangement, ...] = ("together", "apart")


def report(dataset: Dataset, path: Path, names: Sequence[str]) -> Report:
    """Every row of a file, answered under each of some assumptions."""
    return dataset.report(path, (_point(line, name) for line in read(path, dataset.columns) for name in names))


def _point(line: NumberedRow, name: str) -> ComparedPoint:
    """A row under some assumptions; one that cannot be used says why."""
    try:
        return _answered(line, name)
    except UnusableRowError as error:
        subject = f"{line.text('model')} on {line.text('hardware')}, {line.text('engine')}"
        return ComparedPoint(
            id=line.id, series="factor of pools", subject=subject, assumptions=name, unit="x", note=str(error)
        )


def _answered(line: NumberedRow, name: str) -> ComparedPoint:
    lengths = line.needed("isl"), line.needed("osl")
    model, hardware, speed = line.text("model"), line.text("hardware"), line.needed("tokens_per_second")
    subject = (
        f"{model} on {hardware}, {line.text('engine')}, {lengths[0]:g} + {lengths[1]:g} tokens at {speed:g} tokens/s"
    )
    blank = ComparedPoint(
        id=line.id,
        series="factor of pools",
        subject=subject,
        assumptions=name,
        unit="x",
        measured=line.number("value"),
    )
    requests = Requests.build({"isl": lengths[0], "osl": lengths[1], "cached": 0}, origin=line.where)
    try:
        setup = Setup.of(
            model,
            hardware,
            weights=line.text("weights") or None,
            assumptions=None if name == OWN else name,
            price=_PRICE,
            engine=line.text("engine") or None,
        )
        space = Space(max_accelerators=int(line.needed("largest_instance")))
        # None of the published pairs speculates.
        fronts = [frontier(setup, requests, space, speculation=None, arrangement=way) for way in _WAYS]
    except (InputError, NothingFitsError) as error:
        return replace(blank, note=str(error))
    together, apart = (float(front.dollars_at(speed)) for front in fronts)
    if math.isinf(together) or math.isinf(apart):
        return replace(blank, note="neither is so quick" if math.isinf(apart) else "only pools are so quick")
    return replace(blank, predicted=together / apart)
