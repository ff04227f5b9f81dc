"""The state of the page: what its controls are set to, as its address says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

#: Series that a picture holds.
MOST_SERIES = 6
#: Settings that each series has of its own; the names of options, as in the address.
OF_SERIES = ("model", "hardware", "weights", "kv", "engine")
#: What is shown where an address says nothing; everything else is as on the command line.
_FIRST = {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"}
#: Controls that all series share and that are empty at first.
_EMPTY = (
    *("traffic", "ttft", "tpot", "power_budget", "price", "set", "power_cap", "carbon", "speculation", "acceptance"),
    *("simulate", "y", "speed"),
)
#: Values of all that series share where an address says nothing.
_SHARED: Mapping[str, str] = dict.fromkeys(_EMPTY, "") | {
    "isl": "2000",
    "osl": "500",
    "request_rate": "5",
    "percentile": "p90",
    "arrangement": "",
    "chosen": "0",
}


@dataclass(frozen=True, slots=True)
class State:
    """Settings of the controls.

    Attributes
    ----------
    series : sequence of mapping
        Settings of each series by option.
    shared : mapping of str to str
        Of the others.
    """

    series: Sequence[Mapping[str, str]]
    shared: Mapping[str, str] = field(default_factory=dict)


def state(address: Iterable[tuple[str, str]]) -> State:
    """The state that the query of an address says; what it does not name is as at the start.

    Parameters
    ----------
    address : iterable of (str, str)
        Names and values in their order; those of series repeat.
    """
    values: dict[str, list[str]] = {}
    for name, value in address:
        values.setdefault(name, []).append(value)
    columns = {name: values[name] for name in OF_SERIES if name in values} or {
        name: [value] for name, value in _FIRST.items()
    }
    rows = zip_longest(*columns.values(), fillvalue="")
    series = [{**dict.fromkeys(OF_SERIES, ""), **dict(zip(columns, row, strict=True))} for row in rows]
    start = dict.fromkeys(_SHARED, "") | {"percentile": "p90", "chosen": "0"} if values else _SHARED
    return State(series[:MOST_SERIES], {name: values.get(name, [value])[0] for name, value in start.items()})
