"""Results as tables of text, with what is said below them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inference_econ.engine import Setup
from inference_econ.inputs import BYTES_PER_ELEMENT, UNSCALED
from inference_econ.records.plain import Frame, frame_of
from inference_econ.records.sources import setup_sources


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head, ready to be shown.

    Attributes
    ----------
    title : str
        Above the table.
    columns : tuple of str
        The head; units are part of it.
    rows : tuple of tuple of str
        One text per column.
    notes : tuple of str
        Below the table: what a reader must know to use the answer, warnings above all; a short line or two.
    why : tuple of str
        What the numbers rest on: assumptions, intervals, definitions, who can start what. A terminal shows it when it
        is asked for.
    least : tuple of str
        Columns that a narrow terminal may leave out, the least important first.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    least: tuple[str, ...] = ()

    @property
    def every_note(self) -> tuple[str, ...]:
        """All that is said below the table where there is room for it."""
        return (*self.notes, *self.why)

    def frame(self) -> Frame:
        """The table as a DataFrame of text."""
        return frame_of([list(row) for row in self.rows], list(self.columns))

    def markdown(self) -> str:
        """The table in Markdown, without its title and notes."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "".join(f"| {' | '.join(map(_markdown_cell, line))} |\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def remarks(setup: Setup) -> list[str]:
    """On which units the formats of a question run, where that is not their own."""
    notes = []
    for dtype, name in {setup.precision.experts: "experts", setup.precision.weights: "weights"}.items():
        unit = setup.unit(dtype)
        if BYTES_PER_ELEMENT[unit] > 1.5 * BYTES_PER_ELEMENT[dtype]:
            notes.append(f"{dtype} {name} run on the {unit} units of this chip.")
    return notes


def warnings(setup: Setup, *, lengths_told: bool = False) -> list[str]:
    """Warnings on the model and the what-ifs of a question, but on lengths that were told before."""
    model, notes = setup.model, []
    longest = max((length for length, _ in setup.contexts), default=setup.context)
    if not lengths_told and model.max_context is not None and longest > model.max_context:
        notes.append(f"The model was made for {model.max_context:,} tokens of context at most.")
    changed = dict.fromkeys(used.source.where for used in setup_sources(setup) if used.source.kind == "what_if")
    if changed:
        notes.append(f"What if: {', '.join(changed)}.")
    if model.rumoured:
        notes.append("The architecture of this model is a rumour.")
    return [*notes, *scale_notes([setup])]


def scale_notes(setups: Iterable[Setup]) -> list[str]:
    """The published study's formats of the same width, where weights with scales are asked of its assumptions."""
    formats = [setup.precision.weights for setup in setups if setup.assumptions.layout.attention_groups == "idle"]
    return [
        f"{weights} weights are {8 * BYTES_PER_ELEMENT[weights]:.3g} bits with their scales; the "
        f"{8 * BYTES_PER_ELEMENT[UNSCALED[weights]]:g} bits of the published study have none: "
        f"--weights {UNSCALED[weights]}."
        for weights in dict.fromkeys(formats)
        if weights in UNSCALED
    ]
