"""Comparison of published gains of disaggregated over aggregated serving with predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Compared, NumberedRow
from inference_econ.answers.deployments.serving_frontier import frontier
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.engine import Setup, Space
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.servers.measurements import UnusableRowError
from inference_econ.inputs import Requests

#: Name of the assumptions that means the profile of chip and engine.
_OWN = "profile"
#: Arbitrary price, because both sides use the same chips [USD/h].
_PRICE = 1.0
_WAYS: tuple[Arrangement, Arrangement] = ("aggregated", "disaggregated")


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Predictions of every row under each preset."""
    return [_answered(line, name) for line in lines for name in names], (), ()


def _answered(line: NumberedRow, name: str) -> ComparedPoint:
    model, hardware, engine = line.text("model"), line.text("hardware"), line.text("engine")
    subject = f"{model} on {hardware}, {engine}"
    blank = ComparedPoint(id=line.id, series="factor of pools", subject=subject, assumptions=name, unit="x")
    try:
        isl, osl, speed = line.needed("isl"), line.needed("osl"), line.needed("tokens_per_second")
        subject = f"{blank.subject}, {isl:g} + {osl:g} tokens at {speed:g} tokens/s"
        known = replace(blank, subject=subject, measured=line.number("value"))
        requests = Requests.build({"isl": isl, "osl": osl, "cached": 0}, origin=line.where)
        largest = line.needed("largest_instance")
    except UnusableRowError as error:
        return replace(blank, note=str(error))
    try:
        assumptions, weights = None if name == _OWN else name, line.text("weights") or None
        setup = Setup.of(model, hardware, weights=weights, assumptions=assumptions, price=_PRICE, engine=engine or None)
        # Published groups can differ from the default groups, which are from the recipes of InferenceX.
        space = Space(max_accelerators=int(largest), any_group=True)
        # No published pair uses speculation.
        fronts = [frontier(setup, requests, space, speculation=None, arrangement=way) for way in _WAYS]
    except (InputError, NothingFitsError) as error:
        return replace(known, note=str(error))
    together, apart = (float(front.dollars_at(speed)) for front in fronts)
    if math.isinf(together) or math.isinf(apart):
        return replace(known, note="neither is so quick" if math.isinf(apart) else "only pools are so quick")
    return replace(known, predicted=together / apart)
