"""Pictures: written whole, the same bytes every time, and showing what the data files hold."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import inference_econ as ie
from inference_econ.calibration.validation import Point
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.report import agreement, figures, gallery
from inference_econ.report import scenario as scenario_tables
from inference_econ.studies.results import Curve, Result
from inference_econ.studies.scenario import run
from tests import asking

PNG = b"\x89PNG\r\n\x1a\n"
NAMES = ["paper/table_1", "paper/figure_1", "paper/figure_2"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict the study to scenarios that take no time."""
    monkeypatch.setattr(gallery, "scenario_names", lambda: NAMES)


@pytest.fixture(scope="module")
def front() -> ie.Frontier:
    return asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(context=100), max_accelerators=2)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".PNG"])
def test_a_frontier_is_drawn_the_same_every_time(front: ie.Frontier, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        figures.draw_frontier(front, path, "A title")
    content = first.read_bytes()
    assert content == second.read_bytes()
    start = {".svg": b"<?xml", ".png": PNG, ".pdf": b"%PDF"}[suffix.lower()]
    assert content.startswith(start)
    assert len(content) > 3000


def test_the_picture_of_a_frontier_says_what_it_shows(front: ie.Frontier, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    figures.draw_frontier(front, path, "Costs $2 and not $3, at 5 % of a_b^c")
    text = path.read_text(encoding="utf-8")
    for words in (
        "tokens per second per user",
        "US dollars per million output tokens",
        "Llama 3.1 8B",
        "Costs $2 and not $3, at 5 % of a_b^c",
    ):
        assert words in text, words


def test_the_figures_of_scenarios(tmp_path: Path) -> None:
    for name in ("paper/figure_1", "paper/figure_2", "paper/table_1"):
        result = run(name)
        figure = figures.draw(result)
        assert isinstance(figure, Figure)
        (axes,) = figure.axes
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_yscale() == "log"
        path = tmp_path / "a.svg"
        figures.save(figure, [path])
        text = path.read_text(encoding="utf-8")
        for curve in result.curves:
            assert curve.label in text
        if result.scenario.figure is not None:
            assert axes.get_title() == result.scenario.figure.title


def test_curves_are_drawn_where_the_data_is() -> None:
    result = run("paper/figure_1")
    (axes,) = figures.draw(result).axes
    for curve, line in zip(result.curves, axes.lines, strict=True):
        assert line.get_label() == curve.label
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), curve.tokens_per_second)
        np.testing.assert_array_equal(np.asarray(line.get_ydata()), curve.dollars)


def test_curves_can_be_told_apart() -> None:
    (axes,) = figures.draw(run("paper/figure_1")).axes
    styles = {(str(line.get_color()), str(line.get_linestyle())) for line in axes.lines}
    assert len(styles) == len(axes.lines) == 8


def _result(labels: list[str], figure: dict[str, object]) -> Result:
    """Lines from nothing, under some labels."""
    scenario = catalog.scenario("paper/figure_6")
    assert scenario.figure is not None
    lines = [np.array([1.0, 2.0]) + index for index in range(len(labels))]
    curves = tuple(Curve(label, line, line, line, line) for label, line in zip(labels, lines, strict=True))
    return Result(scenario.model_copy(update={"figure": scenario.figure.replace(**figure)}), curves)


def test_limits_of_the_axes_are_kept() -> None:
    (axes,) = figures.draw(_result(["a"], {"x": (10.0, 90.0), "y": (0.1, 5.0)})).axes
    assert axes.get_xlim() == (10.0, 90.0)
    assert axes.get_ylim() == (0.1, 5.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_panels_share_the_cost_axis(count: int, tmp_path: Path) -> None:
    panel = run("paper/figure_1")
    result = Result(catalog.scenario("paper/figure_5"), (panel,) * count)
    figure = figures.draw(result)
    assert len(figure.axes) == count
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    figures.save(figure, [tmp_path / "a.svg", tmp_path / "a.png"])
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_labels_are_taken_as_they_are_written(tmp_path: Path) -> None:
    labels = [r"$\frac$", "50 % at $1, $2", "a_b", "x^2"]
    path = tmp_path / "a.svg"
    figures.save(figures.draw(_result(labels, {"title": "$1 or $2 & more"})), [path])
    text = path.read_text(encoding="utf-8")
    for label in (*labels, "$1 or $2 &amp; more"):
        assert label in text


@pytest.mark.parametrize("name", ["a.gif", "a", "a.svg.txt", ".svg", "a.jpeg"])
def test_pictures_need_a_suffix_that_says_how(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: a picture's name must end in \.svg, \.png, \.pdf"):
        figures.check_path(name)


def test_unwritable_pictures(front: ie.Frontier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing/a\.svg: cannot be written: No such file or directory"):
        figures.draw_frontier(front, tmp_path / "missing" / "a.svg", "t")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match=r"folder\.png: cannot be written: Is a directory"):
        figures.draw_frontier(front, tmp_path / "folder.png", "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png"]


# The gallery


@pytest.mark.usefixtures("few")
def test_reproduce_makes_every_file_and_compares_every_cell(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    folder = tmp_path / "new" / "folder"
    report = gallery.reproduce(folder, progress=lambda share, what: told.append((share, what)))
    expected = {"table_1.csv", *(f"figure_{n}.{suffix}" for n in (1, 2) for suffix in ("svg", "png", "csv"))}
    assert {path.name for path in report.files} == expected
    assert {path.name for path in folder.iterdir()} == expected
    assert all(path.stat().st_size > 100 for path in report.files)
    assert len(report.cells) == 10
    assert all(cell.match for cell in report.cells)
    assert report.record().keys() == {"cells", "seconds"}
    table = report.table()
    assert len(table.rows) == 10
    assert table.notes[0] == "10 of 10 printed cells match."
    assert table.notes[1].startswith("7 files written in ")
    assert [what for _, what in told] == [name.removeprefix("paper/") for name in NAMES]
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    # The same bytes again.
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    gallery.reproduce(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_the_data_behind_a_figure_equals_its_curves() -> None:
    result = run("paper/figure_1")
    rows = list(csv.DictReader(scenario_tables.result_csv(result).splitlines()))
    for curve in result.curves:
        mine = [row for row in rows if row["series"] == curve.label]
        for name, values in (
            ("tokens_per_second_per_user", curve.tokens_per_second),
            ("dollars_per_million_output_tokens", curve.dollars),
            ("accelerators", curve.accelerators),
            ("batch", curve.batch),
        ):
            # Ten digits are written.
            np.testing.assert_allclose([float(row[name]) for row in mine], values, rtol=1e-9)


@pytest.mark.usefixtures("few")
def test_reproduce_into_an_impossible_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"file.*: cannot be made: (File exists|Not a directory)"):
            gallery.reproduce(folder)


def test_the_study_is_made_in_the_order_of_its_numbers() -> None:
    names = gallery.scenario_names()
    assert names == [f"paper/table_{n}" for n in range(1, 7)] + [f"paper/figure_{n}" for n in range(1, 11)]


def test_the_committed_gallery_is_complete() -> None:
    folder = Path(__file__).parents[2] / "figures"
    expected = {f"table_{n}.csv" for n in range(1, 7)}
    expected |= {f"figure_{n}.{suffix}" for n in range(1, 11) for suffix in ("svg", "png", "csv")}
    assert expected <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["paper/figure_1", "paper/figure_6", "paper/table_1", "paper/table_4"])
def test_the_committed_data_is_what_the_code_gives(name: str) -> None:
    """To eight digits: another machine may round the last ones in another way."""
    path = Path(__file__).parents[2] / "figures" / f"{name.removeprefix('paper/')}.csv"
    committed = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    ours = list(csv.reader(scenario_tables.result_csv(run(name)).splitlines()))
    assert committed[0] == ours[0]
    assert len(committed) == len(ours)
    for theirs, mine in zip(committed[1:], ours[1:], strict=True):
        assert theirs[0] == mine[0]
        assert [float(value) for value in theirs[1:]] == pytest.approx([float(value) for value in mine[1:]], rel=1e-8)


def test_drawing_leaves_the_style_of_others_alone(front: ie.Frontier, tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.draw_frontier(front, tmp_path / "a.svg", "t")
    assert dict(mpl.rcParams) == before


def test_a_short_axis_has_numbers(tmp_path: Path) -> None:
    point = Point(id="1", series="mine", subject="", assumptions="", unit="s", measured=0.03, predicted=0.033)
    agreement.draw_panels([("TPOT", [point])], tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert all(f">{number}<" in drawn for number in ("0.02", "0.05"))
