"""Functions name the invalid argument; tests of calls with preparation are next to their functions."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import pytest

from inference_econ import errors


@pytest.mark.rows
def test_a_call_is_refused(error: str, call: str, arguments: list[Any], named: dict[str, Any], message: str) -> None:
    function = resolve_name(f"inference_econ.{call}")
    with pytest.raises(getattr(errors, error), match=message):
        function(*arguments, **named)
