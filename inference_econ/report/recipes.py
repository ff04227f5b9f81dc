"""Recipes by which engines are run with a model on a chip, with who published them and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_econ.inputs import Practice, catalog, known_engines, practices
from inference_econ.report.fields import attributes
from inference_econ.report.page import Page
from inference_econ.report.table import Table

_COLUMNS = ("engine", "cache and proposals", "instances", "prefill + decode", "date", "source", "where")
#: Columns that a narrow terminal does without.
_LEAST = ("where",)
_NOTES = (
    "Instances are the degrees that a recipe names, prefill + decode those of its pools, how many of which '--format "
    "json' says. Without a source no recipe is known, and the engine is run with what it has by itself.",
)


@dataclass(frozen=True)
class RecipesPage(Page):
    """The practices of some engines with a model on a chip."""

    model: str
    """Name or path."""
    chip: str
    """Name or path."""
    weights: str | None = None
    """Format of the weights; as published without."""
    engine: str | None = None
    """Only this one; all that are known without."""

    def tables(self) -> Sequence[Table]:
        """One row per practice."""
        practices = self._practices()
        model, chip = catalog.model(self.model).name, catalog.hardware(self.chip).name
        title = f"Recipes of {model} on {chip}" + (f", weights {self.weights}" if self.weights else "")
        return (Table(title, _COLUMNS, tuple(_row(practice) for practice in practices), _NOTES, least=_LEAST),)

    def record(self) -> list[dict[str, object]]:
        """One record per practice."""
        return [_record(practice) for practice in self._practices()]

    def _practices(self) -> tuple[Practice, ...]:
        engines = (self.engine,) if self.engine else tuple(engine.name for engine in known_engines())
        model, chip = catalog.model(self.model), catalog.hardware(self.chip)
        return tuple(practice for engine in engines for practice in practices(engine, model, chip, self.weights))


def _record(practice: Practice) -> dict[str, object]:
    source = practice.source
    return {
        "engine": practice.engine,
        "practice": practice.text,
        **attributes(practice, "kv proposer draft_length head"),
        "options": dict(practice.options),
        "layouts": [dict(layout) for layout in practice.layouts],
        "pools": [
            {
                "prefill": pools.prefill.counts,
                "decode": pools.decode.counts,
                "workers": [list(pair) for pair in pools.workers],
            }
            for pools in practice.pools
        ],
        "date": practice.date,
        "source": None if source is None else source.model_dump(),
    }


def _row(practice: Practice) -> tuple[str, ...]:
    source = practice.source
    return (
        practice.engine,
        practice.text,
        ", ".join(map(_degrees, practice.layouts)) or "-",
        ", ".join(f"{_degrees(pools.prefill.counts)} + {_degrees(pools.decode.counts)}" for pools in practice.pools)
        or "-",
        practice.date or "-",
        "-" if source is None else source.ref,
        "-" if source is None else source.where,
    )


def _degrees(counts: Mapping[str, int]) -> str:
    """Degrees as people write them: ``tp8``, ``dp8ep8``.

    Examples
    --------
    >>> _degrees({"tp": 1, "dp": 8, "pp": 1, "ep": 8}), _degrees({"tp": 1, "dp": 1, "pp": 1, "ep": 1})
    ('dp8ep8', 'tp1')
    """
    return "".join(f"{name}{count}" for name, count in counts.items() if count > 1) or "tp1"
