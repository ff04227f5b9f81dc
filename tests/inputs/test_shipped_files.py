"""Every shipped file loads, and every number leads to a reference; also the chips of the study."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest
from bibtexparser.entrypoint import parse_string

import inference_econ
from inference_econ.inputs import _yaml, catalog, math_unit
from inference_econ.inputs._yaml import Value
from tests.reading import reader

KINDS: tuple[catalog.Kind, ...] = ("hardware", "models", "assumptions", "scenarios", "engines", "traffic")
NAMED = [(kind, name) for kind in KINDS for name in catalog.names(kind)]
FILES = sorted({path for kind in KINDS for path in catalog.folder(kind).rglob("*.yaml")})


def _label(value: object) -> str | None:
    return f"{value.parent.name}/{value.stem}" if isinstance(value, Path) else None


@cache
def _reference_keys() -> frozenset[str]:
    text = (Path(inference_econ.__file__).parent / "references.bib").read_text(encoding="utf-8")
    library = parse_string(text)
    assert not library.failed_blocks  # duplicate keys among them
    return frozenset(entry.key for entry in library.entries)


def _texts(value: Value, key: str = "", without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield texts at any depth with the key of their value or list; skip everything below some keys."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, (dict, list)):
        for name, item in value.items() if isinstance(value, dict) else ((key, item) for item in value):
            if name not in without:
                yield from _texts(item, name, without)


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_every_file_loads(kind: str, name: str) -> None:
    assert reader(kind)(name).name


@pytest.mark.parametrize("path", FILES, ids=_label)
def test_every_reference_is_in_the_bibliography(path: Path) -> None:
    refs = {text for key, text in _texts(_yaml.read_yaml(path).data) if key == "ref"}
    assert refs <= _reference_keys(), refs - _reference_keys()


def test_every_entry_of_the_bibliography_can_be_followed() -> None:
    text = (Path(inference_econ.__file__).parent / "references.bib").read_text(encoding="utf-8")
    for entry in parse_string(text).entries:
        fields = entry.fields_dict
        assert {"title", "author", "year"} <= set(fields), entry.key
        assert {"url", "doi", "eprint", "howpublished", "note", "booktitle", "journal"} & set(fields), entry.key


@pytest.mark.parametrize("name", catalog.names("hardware"))
def test_hardware_is_plausible(name: str) -> None:
    chip = catalog.hardware(name)
    # Wide enough for a laptop's chip, an LPU and a rack-scale GPU; an error in a unit or a prefix is outside.
    assert 5e12 < max(chip.dense_flops_per_second.values()) < 1e17
    assert 1e8 < chip.hbm_bytes < 1e12
    assert 1e11 < chip.hbm_bytes_per_second < 1e14
    assert chip.watts is None or 30 < chip.watts < 3000
    for price in chip.prices:
        assert 0.05 < price.dollars_per_accelerator_hour < 50


@pytest.mark.parametrize("name", [name for name in catalog.names("hardware") if "/" not in name])
def test_links_of_real_chips_are_one_way_and_slower_than_their_memory(name: str) -> None:
    chip = catalog.hardware(name)
    for rate in (chip.link_bytes_per_second_one_way, chip.nic_bytes_per_second_one_way):
        assert rate is None or 1e9 < rate < chip.hbm_bytes_per_second


def test_folders_hold_nothing_but_yaml_and_measurements() -> None:
    for kind in KINDS:
        strangers = [path for path in catalog.folder(kind).rglob("*") if path.is_file() and path.suffix != ".yaml"]
        computed = catalog.folder("assumptions") / "priors" / "frontiers.csv"
        others = [path for path in strangers if path != computed]
        measured = (catalog.folder("scenarios") / "measured", catalog.folder("scenarios") / "measured" / "servers")
        assert all(path.parent in measured and path.suffix in (".csv", ".md") for path in others)


def test_files_have_no_bare_text_that_was_meant_as_a_number() -> None:
    # A number that the reader took for text would look like one.
    number = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
    meant = ("date", "version", "versions", "printed", "published", "section", "newest", "since")
    for path in FILES:
        for _, text in _texts(_yaml.read_yaml(path).data, without=meant):
            assert not number.fullmatch(text) or text.isdigit(), (path, text)


MEASURED, PUBLISHED = catalog.folder("scenarios") / "measured", Path(__file__).parents[2] / "data" / "published"


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("folder", [MEASURED, PUBLISHED])
def test_files_of_measurements_have_as_many_rows_as_their_table_says(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `([\w/]+)\.csv` \| (\d+) \|", text, re.MULTILINE))
    assert {name: int(count) for name, count in said.items()} == {
        path.relative_to(folder).with_suffix("").as_posix(): len(_rows(path)) for path in folder.rglob("*.csv")
    }


@pytest.mark.parametrize(("folder", "title", "name"), [
    (MEASURED, "measured servers", "servers/serving_points"), (MEASURED, "`offers.csv`", "offers"),
    (PUBLISHED, "`serving_points.csv`", "serving_points"), (PUBLISHED, "`runs.csv`", "runs"),
])  # fmt: skip
def test_every_column_of_a_file_is_in_its_table(folder: Path, title: str, name: str) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"## Columns of {title}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    columns = set(_rows(folder / f"{name}.csv")[0])
    described = {column for cell in cells for column in re.findall(r"`(\w+)`", cell)}
    assert described - {"cached", "draft_tokens"} == columns  # which no shipped table has


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_checkpoint_has_a_source(name: str) -> None:
    model = catalog.model(name)
    for kind in model.checkpoints:
        assert {"checkpoints", f"checkpoints.{kind}"} & set(model.sources), kind


# The study's chips, and its caps, launches and prices.


def test_paper_hardware_equals_the_studys_code(hardware_row: dict[str, str]) -> None:
    chip = catalog.hardware(f"paper/{hardware_row['name'].lower()}")
    value = {name: float(text) for name, text in hardware_row.items() if name != "name" and text}
    peaks = {str(unit): peak for unit, peak in chip.dense_flops_per_second.items()}
    for bits, dtypes in ((4, ("fp4", "int4")), (8, ("fp8", "int8")), (16, ("bf16", "fp16"))):
        for dtype in dtypes:
            # Every number as the code has it, exactly.
            assert peaks.get(dtype) == value.get(f"theoretical_flops_{bits}")
    assert chip.hbm_bytes == value["hbm_bytes"]
    assert chip.hbm_bytes_per_second == value["hbm_Bps_theoretical"]
    assert chip.link_domain == value["node_size"]
    assert chip.nic_bytes_per_second_one_way == 2 * value["internode_Bps_halved"]
    if math.isfinite(value["intranode_Bps_halved"]):
        assert chip.link_bytes_per_second_one_way == 2 * value["intranode_Bps_halved"]
    else:
        assert chip.link_bytes_per_second_one_way is None
    # Prices are products there (3.5 / 2.5 x 2.1): relative 1e-12.
    assert chip.prices[0].dollars_per_accelerator_hour == pytest.approx(value["price_per_hour"], rel=1e-12)
    assert chip.prices[0].kind == "paper"


def test_the_preset_has_the_studys_caps_and_launches(hardware_row: dict[str, str]) -> None:
    chip = catalog.hardware(f"paper/{hardware_row['name'].lower()}")
    assumed = catalog.assumptions("paper").for_chip(chip)
    assert assumed.chip.math_efficiency == float(hardware_row["arith_cap"])
    assert assumed.chip.hbm_efficiency == float(hardware_row["mem_cap"])
    assert assumed.host.launch == pytest.approx(float(hardware_row["kernel_launch_s"]), rel=1e-15)


@pytest.mark.parametrize(("weights", "rate"), [("int8", 2e15), ("int4_channel", 2e15), ("bf16", 1e15)])
def test_the_studys_rate_follows_the_width_of_the_weights(weights: str, rate: float) -> None:
    chip = catalog.hardware("paper/h100")
    peaks = {str(unit): peak for unit, peak in chip.dense_flops_per_second.items()}
    assert peaks[math_unit(weights, peaks, chip.name)] == rate
