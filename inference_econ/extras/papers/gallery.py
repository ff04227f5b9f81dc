"""Reproduction of all tables and figures of the published study, with a comparison of every cell."""

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
from inference_econ.inputs.units import integer
from inference_econ.records import files
from inference_econ.records.plain import attributes, csv_text
from inference_econ.report.page import Page, Table
from inference_econ.studies.exhibits import Cell
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import computing, run


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of :func:`reproduce`.

    Attributes
    ----------
    cells : tuple of Cell
        Published cells with the reproduced values.
    files : tuple of Path
        Figures, and the CSV data of each figure and table.
    seconds : float
        Run time [s].
    """

    cells: tuple[Cell, ...]
    files: tuple[Path, ...]
    seconds: float


@dataclass(frozen=True)
class ReproductionPage(Page):
    """Page of a reproduction."""

    reproduction: Reproduction

    def record(self) -> dict[str, object]:
        """Cells and run time as plain data."""
        made = self.reproduction
        return {"cells": [cell.record() for cell in made.cells], "seconds": round(made.seconds, 3)}

    def tables(self) -> Sequence[Table]:
        """Table of published and reproduced cells."""
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
    """Scenarios of the study, tables before figures, by number."""
    names = [name for name in catalog.names("scenarios") if name.startswith(("paper/table_", "paper/figure_"))]
    return sorted(names, key=lambda name: (name.startswith("paper/figure"), integer(name.rsplit("_", 1)[1])))


def reproduce(folder: Path | str, *, progress: Progress | None = None) -> Reproduction:
    """Compute every scenario of the published study, and write figures and data to a folder.

    Parameters
    ----------
    folder : Path or str
        Folder, which is created if missing.
    progress : callable, optional
        Receives the completed share of the work and the current item.

    Returns
    -------
    Reproduction
        Compared cells, and written files.

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
    with (
        ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), _start) as pool,
        computing(pool, names),
    ):
        drawings = []
        for index, name in enumerate(names):
            if progress is not None:
                progress(index / len(names), name.removeprefix("paper/"))
            result = run(name)
            compared += result.cells
            drawings.append(pool.submit(write_scenario, result, target / name.removeprefix("paper/")))
        for drawing in drawings:
            written += drawing.result()
    return Reproduction(tuple(compared), tuple(written), time.perf_counter() - start)


def _start() -> None:
    """Prepare a worker process: share catalog entries, and end the process when its parent process ends."""
    catalog.uncopied().__enter__()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def places(folder: Path | str) -> list[Path]:
    """Files that :func:`reproduce` writes to a folder."""
    return [
        place
        for name in scenario_names()
        for place in _places(catalog.scenario(name), Path(folder) / name.removeprefix("paper/"))
    ]


def _places(scenario: Scenario, stem: Path) -> list[Path]:
    """Files that a scenario is written to: the figure, if there is one, and the data."""
    endings = (".csv",) if scenario.figure is None else (".svg", ".png", ".csv")
    return [stem.with_suffix(ending) for ending in endings]


def write_scenario(result: Result, stem: Path) -> list[Path]:
    """Write the figure of a scenario (SVG and PNG), if there is one, and its data as CSV."""
    *pictures, data = made = _places(result.scenario, stem)
    files.write_text(data, csv_text(result.to_frame()))
    if pictures:
        from inference_econ.report.questions import figures

        figures.save(figures.draw(result), pictures)
    return made
