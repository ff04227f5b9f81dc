"""Options of commands and queries, declared once with group, type, help text, and the fields that they set.

The command line, the HTTP API, scenarios and what-if studies use the table ``options.csv``. Options of a single command
are declared with the command.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Value


#: Input and output length of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Mean context of a decode step for requests of the default lengths [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed per user at which tokens are priced by default. It is used if there is no TPOT SLO, and no offers of the model
#: are known. The value is an assumption of this project [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Think time between a response and the next request of the user; assumed, as in the workload ``chat`` [s].
THINK_SECONDS = 60
#: Current names of arrangements of prefill and decode, by their old names, which are accepted until version 0.3.0.
OLD_ARRANGEMENTS = {"together": "aggregated", "apart": "disaggregated"}
#: Names of the constants that the command ``calibrate`` fits by default.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Maximum number of deployments in a fit. If more are measured, deployments at equal distances in the list are used
#: [1].
MOST_DEPLOYMENTS = 150
#: Values for the names in braces that the texts of the tables contain.
_DEFAULTS: Mapping[str, object] = {
    "DEFAULT_ISL": DEFAULT_ISL,
    "DEFAULT_OSL": DEFAULT_OSL,
    "MEAN_CONTEXT": f"{MEAN_CONTEXT:g}",
    "MOST_DEPLOYMENTS": MOST_DEPLOYMENTS,
    "THINK_SECONDS": THINK_SECONDS,
    "USUAL_CONSTANTS": ",".join(USUAL_CONSTANTS),
}
#: Columns of the tables that contain "yes" or are empty.
_BOOLEANS = ("shown", "number", "repeat", "required")


class Option(NamedTuple):
    """Option that several commands share."""

    group: str
    """Heading of the group of options in the help."""
    name: str
    """Name of the parameter in Python, and of the field in scenarios (:class:`~inference_econ.inputs.Settings`)."""
    kind: str
    """Kind of value. Limits and error messages of each kind are in ``requests/kinds.py``."""
    typed: str
    """Spelling on the command line, if it differs from the Python name."""
    default: str
    """Default value; empty if the option has no default."""
    shown: bool
    """True if the help shows the default."""
    counted: str
    """Kind of frontier for which the option is valid: ``services`` or ``decode_steps``; empty if valid for both
    kinds."""
    what_if: str
    """Field of a specification that the option sets, as ``--set`` does; empty if the option sets no field."""
    number: bool
    """True if the value is a number that uncertainty studies and what-if studies may vary."""
    good: str
    """``high`` or ``low`` if higher or lower values never make a result slower or more expensive; empty otherwise."""
    help: str
    """Text of the help and the HTTP API, with the unit; the default is in brackets."""

    @property
    def spelled(self) -> str:
        """Spelling on the command line, including dashes."""
        return (self.typed or f"--{self.name.replace('_', '-')}").split()[0]


def rows(table: Path) -> Iterator[dict[str, Any]]:
    """Read a table of options. Names in braces are replaced by defaults, and the text "yes" by true."""
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            texts = {name: text.format_map(_DEFAULTS) if "{" in text else text for name, text in row.items()}
            yield {**texts, **{name: row[name] == "yes" for name in _BOOLEANS if name in row}}


#: Options by name, in the order of the help.
OPTIONS: Mapping[str, Option] = {row["name"]: Option(**row) for row in rows(Path(__file__).with_suffix(".csv"))}
#: Options by group.
GROUPS: Mapping[str, tuple[Option, ...]] = {
    group: tuple(options) for group, options in groupby(OPTIONS.values(), lambda option: option.group)
}
#: Options that set lengths or caching. They cannot be combined with a workload, which also sets these values.
SAID_BY_TRAFFIC = ("context", "contexts", "isl", "osl", "cached", "shared_prefix")
#: Fields of specifications that options set, by option.
WHAT_IFS: Mapping[str, str] = {option.name: option.what_if for option in OPTIONS.values() if option.what_if}


def request_name(spelled: str) -> str:
    """Name of an option in requests and errors: ``request_rate`` for ``--request-rate``."""
    return spelled.removeprefix("--").replace("-", "_")


def counted_by(counted: Literal["services", "decode_steps"]) -> tuple[str, ...]:
    """Names of the options that are valid only for services, or only for decode steps."""
    return tuple(option.name for option in OPTIONS.values() if option.counted == counted)


#: Specifications whose fields can be changed.
SPECIFICATIONS = ("model", "hardware", "assumptions")


def split_changes(changes: Iterable[str]) -> Mapping[str, list[str]]:
    """Group changes of fields by specification: model, hardware or assumptions.

    Parameters
    ----------
    changes : str or iterable of str
        ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.

    Returns
    -------
    mapping of str to list of str
        ``FIELD=VALUE`` for each of :data:`SPECIFICATIONS`.

    Raises
    ------
    InputError
        If a change names no specification.

    Examples
    --------
    >>> split_changes(["hardware.watts=700 W", "model.kv=fp8"])
    {'model': ['kv=fp8'], 'hardware': ['watts=700 W'], 'assumptions': []}
    """
    sorted_changes: dict[str, list[str]] = {name: [] for name in SPECIFICATIONS}
    for change in [changes] if isinstance(changes, str) else changes:
        specification, dot, rest = change.partition(".")
        if specification not in sorted_changes or not dot:
            raise InputError(
                f"--set {change!r}: write hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE",
                option="set",
            )
        sorted_changes[specification].append(rest)
    return sorted_changes


def checked_changes(changes: Iterable[str]) -> tuple[str, ...]:
    """Check changes of fields, and return them as scenarios store them; see :func:`split_changes` for errors."""
    checked = tuple(changes)
    split_changes(checked)
    return checked


def parsed_value(text: str, origin: str) -> Value:
    """Convert the value in ``FIELD=VALUE`` by the rules of YAML files.

    Parameters
    ----------
    text : str
        Text after the equals sign: a scalar, or a list or mapping on one line.
    origin : str
        Name for messages.

    Raises
    ------
    SpecError
        If a list or mapping is not valid.

    Examples
    --------
    >>> parsed_value("3 us", "--set"), parsed_value("[1, a]", "--set")
    ('3 us', [1, 'a'])
    """
    from inference_econ.inputs import _yaml

    if text.startswith(("[", "{")):
        return _yaml.parse(f"value: {text}", origin).data["value"]
    return _yaml.scalar(text)
