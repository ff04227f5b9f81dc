"""Equations of the published study by number, with the functions and the parts of a step that use each equation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from inference_econ.inputs.options import rows
from inference_econ.inputs.units import integer
from inference_econ.records.texts import PART_NAMES
from inference_econ.report.page import Page, Table

_COLUMNS = ("equation", "section", "formula", "function", "part of explain", "difference in the code")
_WRITTEN = """\
# Equations by number

This page lists the equations of Erdil (2025), *Inference economics of language models*, in their order. After this page
you can find the function of an equation, the part of `explain` that it determines, and where text and code of the study
differ. `inference-econ list equations --format markdown -o docs/reference/equations.md` writes the page.
[Step time](../model/token.md) explains the equations, and [the published study](../model/published_model.md) lists all
differences with their fields.

Hardware has a memory bandwidth B, an arithmetic rate C, N GPUs on M nodes, and a latency of T_h per hop. A model has P
parameters, L layers of width d, feed-forward blocks of width d_ff, and h heads of width d_h. g query heads share a KV
head. There are s experts per active expert. A weight has p bytes, and an activation p_a bytes. A step has the batch b
and the context l. Each layer has R all-reduces of time t_r over R_g ranks on M_g nodes, which sum X bytes per pass.
Speculation has n draft tokens, the acceptance a, and the times t_P and t_Q. A number in parentheses is an equation.

"""


@dataclass(frozen=True)
class EquationsPage(Page):
    """Page with the equations of the published study."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per equation."""
        cells = tuple(
            (f"({number})", section, formula, functions, ", ".join(PART_NAMES[part] for part in parts.split()), code)
            for number, section, formula, functions, parts, code in (row.values() for row in equations())
        )
        title = f"{len(cells)} equations of Erdil (2025), Inference economics of language models"
        return (Table(title, _COLUMNS, cells, least=("section", "difference in the code", "part of explain")),)

    def record(self) -> object:
        """Return one record per equation."""
        return equations()

    def markdown(self) -> str:
        """Return the documentation page of the equations in Markdown."""
        (table,) = self.tables()
        linked = tuple(
            (number, section, f"`{formula}`", ", ".join(map(_linked, functions.split())), *others)
            for number, section, formula, functions, *others in table.rows
        )
        return _WRITTEN + Table("", table.columns, linked).markdown()


def equations() -> list[dict[str, str]]:
    """Rows of ``equations.csv``: number, section, formula, functions, parts of a step, and how the code deviates."""
    return list(rows(Path(__file__).with_name("equations.csv")))


def equations_of(parts: Iterable[str]) -> str:
    """Sentence that lists the equations for some parts of a step.

    Examples
    --------
    >>> equations_of(["compute", "weights", "host"])
    "Equations of Erdil (2025), see 'list equations': arithmetic (36) to (38); weight reads (22), (31), (32)."
    """
    texts = []
    for part in parts:
        found = [integer(row["equation"]) for row in equations() if part in row["parts"].split()]
        # In a run of consecutive equations, the difference of number and position is constant.
        runs = [[f"({number})" for _, number in run] for _, run in groupby(enumerate(found), lambda at: at[1] - at[0])]
        numbers = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)
        texts += [f"{PART_NAMES[part]} {', '.join(numbers)}"] if runs else []
    return f"Equations of Erdil (2025), see 'list equations': {'; '.join(texts)}."


def _linked(function: str) -> str:
    """Function name as a link to the reference, if the reference has the function."""
    return f"{{func}}`~inference_econ.{function}`" if function.startswith("formulas.") else f"`{function}`"
