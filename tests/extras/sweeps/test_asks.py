from __future__ import annotations

from typing import Any

import pytest

from inference_econ.errors import SpecError
from tests.extras.sweeps.studies import AXES, study


@pytest.mark.rows
def test_axes_that_are_no_settings_are_refused(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        study(axes)


@pytest.mark.rows
def test_what_contradicts_the_axes_is_refused(further: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        study(AXES, **further)


def test_a_sweep_has_tables_of_its_own() -> None:
    from inference_econ.inputs import Scenario

    record = study().model_dump(exclude_unset=True)
    columns = [{"key": "batch", "title": "batch"}]
    with pytest.raises(SpecError, match="the kind 'sweep' has its own tables; leave 'table' out"):
        Scenario.build({**record, "table": {"point": "fastest", "columns": columns}}, origin="study")
