from __future__ import annotations

from typing import Any

import pytest

from inference_econ.errors import SpecError
from tests.sweeps import AXES, study


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, r"ask\.axes.*at least 1 item"),
        ({"model": []}, r"ask\.axes\.model.*at least 1 item"),
        ({"weights": ["fp9"]}, r"axis 'weights': weights: got 'fp9'; allowed: .*'fp8'"),
        ({"wieghts": ["fp8"]}, r"axis 'wieghts': unknown key 'wieghts'; did you mean 'weights'"),
        ({"traffic": {"chat": {"isl": -1}}}, r"axis 'traffic': isl must be >= 0, got -1 \(chat\)"),
        ({"weights": "all"}, r"axis 'weights': only model and hardware can be 'all'; list its values"),
        ({"weights": ["fp8", "fp8"]}, r"axis 'weights': fp8 is given twice"),
        (
            {"chip.watts": [700]},
            r"'chip\.watts' is no number of a specification; allowed: model\.FIELD, ",
        ),
        (
            {"isl": [500], "traffic": {"chat": {"isl": 1000}}},
            r"isl is set by two axes, 'isl' and 'traffic'; leave one out",
        ),
    ],
)
def test_axes_that_are_no_settings_are_refused(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        study(axes)


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"leave_out": [{"chip": "l4"}]}, r"leave_out: 'chip' is no axis; axes: traffic, model, hardware"),
        ({"leave_out": [{"hardware": "h100"}]}, r"leave_out: 'h100' is not on the axis 'hardware', which has l4, "),
        ({"leave_out": [{}]}, r"an entry of leave_out names no axis, and would leave everything out"),
        ({"unlisted": ["slow"]}, r"unlisted.*got 'slow'; allowed: 'nothing_fits' or 'refused'"),
        ({"cheapest": {"speeds": [100, 50]}}, r"speeds must ascend, got 100, 50"),
        ({"cheapest": {"speeds": [0]}}, r"speeds\.0 must be > 0, got 0"),
    ],
)
def test_what_contradicts_the_axes_is_refused(further: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        study(AXES, **further)


def test_a_sweep_has_tables_of_its_own() -> None:
    from inference_econ.inputs import Scenario

    record = study().model_dump(exclude_unset=True)
    columns = [{"key": "batch", "title": "batch"}]
    with pytest.raises(SpecError, match="the kind 'sweep' has its own tables; leave 'table' out"):
        Scenario.build({**record, "table": {"point": "fastest", "columns": columns}}, origin="study")
