"""Options of questions, each declared once: its group, what it takes, what it says, and what it means for others.

The command line and its help, the questions of the HTTP API, scenarios and what-ifs derive what they need from the
table ``options.csv``. What a single command has for itself is declared there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from inference_econ.inputs import defaults

#: What texts of tables say in braces: what is taken where nothing is said.
_DEFAULTS: Mapping[str, object] = {
    **{name: getattr(defaults, name) for name in ("DEFAULT_ISL", "DEFAULT_OSL", "MOST_DEPLOYMENTS", "THINK_SECONDS")},
    "MEAN_CONTEXT": f"{defaults.MEAN_CONTEXT:g}",
    "USUAL_CONSTANTS": ",".join(defaults.USUAL_CONSTANTS),
}
#: Columns of tables that say yes or nothing.
_BOOLEANS = ("shown", "number", "repeat", "required")


class Option(NamedTuple):
    """An option of several questions."""

    group: str
    """Subject, a heading of the help."""
    name: str
    """Of the parameter in Python, and of the field in scenarios (:class:`~inference_econ.inputs.Settings`)."""
    kind: str
    """Kind of value that it takes; limits and refusals are in ``requests/kinds.py``."""
    typed: str
    """Spelling with its dashes, where that is not the name."""
    default: str
    """Value where it is not given; empty leaves it open."""
    shown: bool
    """The help says the default."""
    counted: str
    """Count of a frontier that it is for, ``services`` or ``decode_steps``; empty of both."""
    what_if: str
    """Field of a specification that it sets, as ``--set`` does."""
    number: bool
    """It is a number that studies of uncertainty and what-ifs may vary."""
    help: str
    """Text of the help and of the HTTP API, with the unit; what is meant by default stands in brackets."""

    @property
    def spelled(self) -> str:
        """Spelling on the command line, with its dashes."""
        return self.typed or f"--{self.name.replace('_', '-')}"


def rows(table: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table of options: texts, in which defaults stand in braces, and yes or no as booleans."""
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            texts = {name: text.format_map(_DEFAULTS) if "{" in text else text for name, text in row.items()}
            yield {**texts, **{name: row[name] == "yes" for name in _BOOLEANS if name in row}}


#: All of them by name, in the order of the help.
OPTIONS: Mapping[str, Option] = {row["name"]: Option(**row) for row in rows(Path(__file__).with_suffix(".csv"))}
#: The same by what they are about.
GROUPS: Mapping[str, tuple[Option, ...]] = {
    group: tuple(options) for group, options in groupby(OPTIONS.values(), lambda option: option.group)
}
#: Options whose values a traffic says, too.
SAID_BY_TRAFFIC = ("context", "contexts", "isl", "osl", "cached", "shared_prefix")
#: Fields of specifications that options of their own set, by option.
WHAT_IFS: Mapping[str, str] = {option.name: option.what_if for option in OPTIONS.values() if option.what_if}


def request_name(spelled: str) -> str:
    """Return the name of an option in requests, which errors carry: ``request_rate`` of ``--request-rate``."""
    return spelled.removeprefix("--").replace("-", "_")


def counted_by(counted: Literal["services", "decode_steps"]) -> tuple[str, ...]:
    """Return the names of options that mean something only where a frontier counts services, or decode steps alone."""
    return tuple(option.name for option in OPTIONS.values() if option.counted == counted)
