"""Make every table and figure of the published study, and compare cell by cell."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from inference_econ._types import Progress
from inference_econ.errors import InputError
from inference_econ.inputs import Scenario, catalog
from inference_econ.records import files
from inference_econ.records.plain import attributes, csv_text
from inference_econ.report import figures
from inference_econ.report.page import Page, Table
from inference_econ.report.questions import scenario_figure
from inference_econ.studies.exhibits import Cell
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of :func:`reproduce`.

    Attributes
    ----------
    cells : tuple of Cell
        Every published cell beside ours.
    files : tuple of Path
        Figures, and the CSV behind each figure and table.
    seconds : float
        Time it took [s].
    """

    cells: tuple[Cell, ...]
    files: tuple[Path, ...]
    seconds: float


@dataclass(frozen=True)
class ReproductionPage(Page):
    """Page of a reproduction."""

    reproduction: Reproduction

    def record(self) -> dict[str, object]:
        """Every cell, and the time it took."""
        made = self.reproduction
        return {"cells": [cell.record() for cell in made.cells], "seconds": round(made.seconds, 3)}

    def tables(self) -> Sequence[Table]:
        """Every published cell beside ours."""
        made = self.reproduction
        rows = tuple(
            (*attributes(cell, "item row column printed").values(), f"{cell.ours:.5g}", match, cell.note)
            for cell in made.cells
            for match in ["yes" if cell.match else "NO"]
        )
        matched = sum(cell.match for cell in made.cells)
        notes = (
            f"{matched} of {len(made.cells)} printed cells match.",
            f"{len(made.files)} files written in {made.seconds:.1f} s.",
        )
        columns = ("item", "row", "column", "printed", "ours", "match", "note")
        return (Table("Reproduction of Erdil (2025), Tables 1-6", columns, rows, notes),)


def scenario_names() -> list[str]:
    """Scenarios of the study, tables before figures, in the order of their numbers."""
    names = [name for name in catalog.names("scenarios") if name.startswith(("paper/table_", "paper/figure_"))]
    return sorted(names, key=lambda name: (name.startswith("paper/figure"), int(name.rsplit("_", 1)[1])))


def reproduce(folder: Path | str, *, progress: Progress | None = None) -> Reproduction:
    """Compute every scenario of the study, and fill a folder with figures and data.

    Parameters
    ----------
    folder : Path or str
        Where to; made if it is missing.
    progress : callable, optional
        Told the share of the work done, and which item is being made.

    Returns
    -------
    Reproduction
        The cells and the files.

    Raises
    ------
    InputError
        If the folder or a file in it cannot be written.
    """
    start = time.perf_counter()
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be made: {error.strerror or error}") from error
    for place in places(target):
        files.check_place(place)
    compared: list[Cell] = []
    written: list[Path] = []
    names = scenario_names()
    # Drawing takes about as long as computing, so that a second process draws what has been computed.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_parent) as artist:
        drawings = []
        for index, name in enumerate(names):
            if progress is not None:
                progress(index / len(names), name.removeprefix("paper/"))
            result = run(name)
            compared += result.cells
            drawings.append(artist.submit(write_scenario, result, target / name.removeprefix("paper/")))
        for drawing in drawings:
            written += drawing.result()
    return Reproduction(tuple(compared), tuple(written), time.perf_counter() - start)


def _end_with_parent() -> None:
    """Make a process end with the one that has it, also when that is killed and can say nothing."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def places(folder: Path | str) -> list[Path]:
    """Every file that :func:`reproduce` writes into a folder."""
    return [
        place
        for name in scenario_names()
        for place in _places(catalog.scenario(name), Path(folder) / name.removeprefix("paper/"))
    ]


def _places(scenario: Scenario, stem: Path) -> list[Path]:
    """The files of a scenario: the data behind its figure or table, after the figure if it has one."""
    endings = (".csv",) if scenario.figure is None else (".svg", ".png", ".csv")
    return [stem.with_suffix(ending) for ending in endings]


def write_scenario(result: Result, stem: Path) -> list[Path]:
    """Write the figure (SVG and PNG) of a scenario if it has one, and the data behind figure or table as CSV."""
    *pictures, data = made = _places(result.scenario, stem)
    files.write_text(data, csv_text(result.to_frame()))
    if pictures:
        figures.save(scenario_figure.draw(result), pictures)
    return made
