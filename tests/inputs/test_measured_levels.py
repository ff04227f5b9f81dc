"""Files of corrections: rejected content, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import catalog, constants_of
from tests.reading import tables

PROFILE = "profiles/vllm_hopper"
TEXT: str = tables(Path(__file__))["TEXT"]


def written(folder: Path, *changes: tuple[str, str]) -> str:
    """Write a file with some texts replaced."""
    text = TEXT.format(profile=PROFILE, constants=constants_of(PROFILE))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return str(folder / "mine.yaml")


def test_levels_leave_a_profile_as_it_was_fitted(tmp_path: Path) -> None:
    """A file that only adds corrections preserves the errors of the fit; a what-if removes both."""
    mine = catalog.assumptions(written(tmp_path))
    assert mine.levels is not None
    assert mine.calibration == catalog.assumptions(PROFILE).calibration
    changed = catalog.assumptions(written(tmp_path), changes=["host.launch=10 us"])
    assert changed.levels is None
    assert changed.calibration is None


@pytest.mark.rows
def test_mistakes_are_refused_with_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Try another format, negative counts, unknown names, and corrections that cannot have been measured."""
    with pytest.raises(SpecError, match=message):
        catalog.assumptions(written(tmp_path, (old, new)))


def test_levels_over_another_fit_are_refused(tmp_path: Path) -> None:
    """A profile that was fitted again since has other residuals."""
    path = written(tmp_path, (constants_of(PROFILE), "0123456789ab"))
    with pytest.raises(InputError, match=r"mine.yaml:6: levels over another version of profiles/vllm_hopper"):
        catalog.assumptions(path)
