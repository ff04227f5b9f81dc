"""Recipes of disaggregated servers: pools that a public benchmark ran, by concurrency."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import (
    Cells,
    Days,
    RecordedPool,
    UnusableRowError,
    hardware_name,
    model_name,
    served,
)
from inference_econ.extras.servers.measurements._record import days, positive
from inference_econ.inputs import catalog

_POOL = ("workers", "tp", "pp", "attention_dp", "ep", "slots")
#: Columns of a file of recipes.
COLUMNS = (
    "model", "hardware", "engine", "version", "precision", "isl", "osl", "concurrencies", "speculation",
    *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in _POOL),
    "prefill_step_tokens", "memory", "first", "last", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Pools in one entry of a public benchmark, for several values of concurrency.

    Attributes
    ----------
    model, hardware : str
        Catalog names; a model without an entry has the name in the benchmark.
    weights : str or None
        Weight format; None for the published format.
    engine, version : str
        Serving engine; the version is empty if the image does not contain it.
    isl, osl : float
        Nominal input and output length [tokens].
    concurrencies : frozenset of float
        Concurrent requests of the full server [1].
    speculation : str
        ``none``, ``MTP3`` for three draft tokens, or ``MTP`` if their number is unknown.
    prefill, decode : RecordedPool
        Both pools, including the numbers of workers.
    step_tokens : float or None
        Maximum prompt tokens per step of one attention-DP group of a prefill worker [tokens].
    memory : float or None
        Share of GPU memory that the engine may use in both pools [1]; None if unknown or different.
    days : Days
        Days on which the benchmark had the recipe.
    source : str
        Path and commit of the source.
    """

    model: str
    hardware: str
    weights: str | None
    engine: str
    version: str
    isl: float
    osl: float
    concurrencies: frozenset[float]
    speculation: str
    prefill: RecordedPool
    decode: RecordedPool
    step_tokens: float | None
    memory: float | None
    days: Days
    source: str

    @property
    def drafted(self) -> float:
        """Draft tokens per round [1]; at least one if the number is unknown."""
        if self.speculation == "none":
            return 0.0
        return float(self.speculation.removeprefix("MTP") or 1.0)


@cache
def recipes() -> tuple[Recipe, ...]:
    """Recipes in ``scenarios/measured/recipes.csv``."""
    return read(catalog.measured_files()["recipes"])


def read(path: Path) -> tuple[Recipe, ...]:
    """Recipes in a file with the columns :data:`COLUMNS`.

    Raises
    ------
    InputError
        If the file has other columns, or a cell is invalid; names the line.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        columns = tuple(reader.fieldnames or ())
        if columns != COLUMNS:
            different = sorted(set(columns) ^ set(COLUMNS)) or ["their order"]
            raise InputError(f"{path}:1: recipes have the columns {', '.join(COLUMNS)}; check {', '.join(different)}")
        return tuple(_recipe(cells, f"{path}:{reader.line_num}") for cells in reader)


def _recipe(cells: dict[str, str], place: str) -> Recipe:
    row = Cells(cells)
    try:
        model, hardware, weights = _subject(*(row.text(name) for name in ("model", "hardware", "precision")))
        return Recipe(
            model=model,
            hardware=hardware,
            weights=weights,
            engine=row.text("engine"),
            version=row.text("version"),
            isl=row.needed("isl"),
            osl=row.needed("osl"),
            concurrencies=frozenset(positive(text, "concurrencies") for text in row.text("concurrencies").split()),
            speculation=_speculation(row.words("speculation")),
            prefill=_pool(row, "prefill"),
            decode=_pool(row, "decode"),
            step_tokens=row.number("prefill_step_tokens"),
            memory=row.number("memory"),
            days=days(f"{row.text('first')}..{row.text('last') or row.text('first')}"),
            source=row.text("source"),
        )
    except UnusableRowError as error:
        raise InputError(f"{place}: {error}") from error


@cache
def _subject(model: str, hardware: str, precision: str) -> tuple[str, str, str | None]:
    """Model, chip and weight format, as in measurements."""
    chip = hardware_name(hardware)
    try:
        name = model_name(model)
    except UnusableRowError:
        # A benchmark may run models that the catalog does not have yet. No row can be one of these.
        return model, chip, precision
    name, weights = served(name, chip, precision)
    return name, chip, weights


def _speculation(text: str) -> str:
    length = text.removeprefix("MTP")
    if text != "none" and (length == text or not (length.isdecimal() or length == "")):
        raise UnusableRowError(f"speculation must be none, MTP, or MTP with drafted tokens as in MTP3, got {text!r}")
    return text


def _pool(row: Cells, name: str) -> RecordedPool:
    workers, tp, pp, dp, ep, slots = (row.whole(f"{name}_{column}") for column in _POOL)
    if workers is None or tp is None or pp is None or dp is None or ep is None:
        raise UnusableRowError(f"{name}_workers, tp, pp, attention_dp and ep of {name} must all be given")
    return RecordedPool(workers=workers, tp=tp, dp=dp, pp=pp, ep=ep, slots=slots)
