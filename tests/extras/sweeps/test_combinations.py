from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError, UnknownNameError
from inference_econ.extras.sweeps.combinations import Combinations, combinations_of
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from inference_econ.inputs import catalog
from tests.extras.sweeps.studies import AXES, study
from tests.reading import of


def _combinations(axes: dict[str, Any] | None = None, /, **further: Any) -> Combinations:
    ask = of(SweepAsk, study(axes, **further).ask)
    return combinations_of(ask)


def _labels(combinations: Combinations) -> list[tuple[str, ...]]:
    return [tuple(each.labels.values()) for index in range(combinations.parts) for each in combinations.part(index)]


def test_every_combination_is_asked_once_and_the_first_axis_changes_slowest() -> None:
    combinations = _combinations()
    assert _labels(combinations) == list(itertools.product(*(list(map(str, axis)) for axis in AXES.values())))
    numbers = [number for index in range(combinations.parts) for number in combinations.numbers(index)]
    assert numbers == list(range(combinations.product)) == list(range(12))


def test_points_are_laid_over_what_is_common() -> None:
    launches = ["assumptions.host.launch=0 us"]
    axes = {"traffic": AXES["traffic"], "hardware.hbm_bytes_per_second": ["4 TB/s"], "weights": ["bf16"]}
    named = {"model": "llama_3_8b", "hardware": "h100_sxm", "weights": "fp8", "changes": launches}
    (first, second) = _combinations(axes, common=named).part(0)[:1] + _combinations(axes, common=named).part(1)
    assert (first.settings.isl, second.settings.isl, first.settings.weights) == (500, 4000, "bf16")
    assert first.settings.changes == (*launches, "hardware.hbm_bytes_per_second=4 TB/s")


def test_what_is_left_out_is_not_asked() -> None:
    left = _labels(_combinations(AXES, leave_out=[{"hardware": ["l4", "gaudi3"], "model": "llama_3_70b"}]))
    assert len(left) == 8
    assert not [labels for labels in left if labels[1] == "llama_3_70b" and labels[2] != "h100_sxm"]


def test_all_is_the_catalogue_without_the_variants_of_the_study() -> None:
    combinations = _combinations({"model": ["llama_3_8b"], "hardware": "all"})
    chips = [name for name in catalog.names("hardware") if not name.startswith("paper/")]
    assert [chip for _, chip in _labels(combinations)] == chips


def test_names_are_those_of_the_catalogue() -> None:
    assert _labels(_combinations({"model": ["llama-3.1-8b"], "hardware": ["H100 SXM"]})) == [("llama_3_8b", "h100_sxm")]


@pytest.mark.rows
def test_what_asks_nothing_is_refused(axes: dict[str, Any], further: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        _combinations(axes, **further)


def test_what_is_asked_tells_sweeps_apart_and_what_is_shown_does_not() -> None:
    digest = _combinations().digest
    assert digest == _combinations(AXES, cheapest={"speeds": [10]}).digest
    others: list[dict[str, Any]] = [
        {"leave_out": [{"model": "llama_3_70b"}]},
        {"unlisted": ["refused"]},
        {"common": {"max_instance_gpus": 2}},
    ]
    assert len({digest, *(_combinations(AXES, **other).digest for other in others)}) == 4
    assert _combinations({**AXES, "model": ["llama_3_70b", "llama_3_8b"]}).digest != digest


def test_a_file_of_the_users_own_is_among_the_facts(tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    text = (catalog.folder("hardware") / "l4.yaml").read_text()
    chip.write_text(text)
    axes = {"model": ["llama_3_8b"], "hardware": [str(chip)]}
    before = _combinations(axes)
    assert before.facts == _combinations(axes).facts != _combinations().facts
    chip.write_text(text.replace("name: ", "name: another "))
    assert _combinations(axes).facts != before.facts
    assert _combinations(axes).digest == before.digest


@pytest.mark.parametrize(("sizes", "batch"), [((10,), 1), ((20, 20), 1), ((40, 100), 10), ((1000, 100, 100), 256)])
def test_parts_are_as_many_as_a_folder_can_have(sizes: tuple[int, ...], batch: int) -> None:
    lengths = {name: list(range(1, size + 1)) for name, size in zip(("isl", "osl", "slots"), sizes, strict=False)}
    combinations = _combinations({"model": ["llama_3_8b"], "hardware": ["l4"], **lengths})
    assert (combinations.product, combinations.batch) == (math.prod(sizes), batch)
    last = combinations.part(combinations.parts - 1)
    assert last[-1].number == combinations.product - 1
    assert last[-1].settings.isl == sizes[0]
