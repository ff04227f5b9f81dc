"""Files of levels: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import catalog, constants_of

PROFILE = "profiles/vllm_hopper"
TEXT = """extends: {profile}
name: mine
levels:
  form: 1
  profile: {profile}
  constants: {constants}
  engine: vllm
  date: '2026-11-01'
  rows: 1
  spreads:
    tpot: {{subject: 0.1, version: 0.1, way: 0.1, deployment: 0.1, row: 0.1}}
    ttft: {{subject: 0.1, version: 0.1, way: 0.1, deployment: 0.1, row: 0.1}}
  subjects:
  - {{model: llama_3_70b, hardware: h200_sxm, rows: 1, decode: 0.1, prefill: 0.0}}
sources:
  levels: {{ref: user, where: my run, kind: derived}}
"""


def written(folder: Path, *changes: tuple[str, str]) -> str:
    """A file with some texts in the place of others."""
    text = TEXT.format(profile=PROFILE, constants=constants_of(PROFILE))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return str(folder / "mine.yaml")


def test_levels_leave_a_profile_as_it_was_fitted(tmp_path: Path) -> None:
    """A file that only adds levels keeps the errors of the fit; a what-if forgets both."""
    mine = catalog.assumptions(written(tmp_path))
    assert mine.levels is not None
    assert mine.calibration == catalog.assumptions(PROFILE).calibration
    changed = catalog.assumptions(written(tmp_path), changes=["host.launch=10 us"])
    assert changed.levels is None
    assert changed.calibration is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("form: 1", "form: 2"), r"mine.yaml:4: levels.form: only levels of form 1 can be read"),
        (("rows: 1,", "rows: -3,"), r"mine.yaml:14: levels.subjects.0.rows must be > 0, got -3"),
        (("llama_3_70b", "llama_3_70"), r"mine.yaml:14: .*unknown name, did you mean llama_3_70b, got 'llama_3_70'"),
        (("h200_sxm", "h2000"), r"mine.yaml:14: .*unknown name"),
        (("engine: vllm", "engine: vlm"), r"mine.yaml:7: .*unknown name, did you mean vllm"),
        (("decode: 0.1", "decode: 5"), r"mine.yaml:14: .*decode must be <= 2, got 5"),
        (("row: 0.1", "rows: 0.1"), r"mine.yaml:11: .*unknown key"),
    ],
)
def test_mistakes_are_refused_with_their_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    """Another form, negative counts, unknown names, levels that nobody can have measured."""
    with pytest.raises(SpecError, match=message):
        catalog.assumptions(written(tmp_path, change))


def test_levels_over_another_fit_are_refused(tmp_path: Path) -> None:
    """A profile that was fitted again since has other residuals."""
    path = written(tmp_path, (constants_of(PROFILE), "0123456789ab"))
    with pytest.raises(InputError, match=r"mine.yaml:6: levels over another version of profiles/vllm_hopper"):
        catalog.assumptions(path)
