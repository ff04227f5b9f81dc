"""State of the page's controls, from its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

#: Maximum number of series in a chart [1].
MOST_SERIES = 6
#: Settings of each series, named as options.
OF_SERIES = ("model", "hardware", "weights", "kv", "engine")
#: Defaults of the first series. Other defaults are those of the command line.
_FIRST = {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"}
#: Shared controls that are empty by default.
_EMPTY = (
    *("traffic", "ttft", "tpot", "power_budget", "price", "set", "power_cap", "carbon", "speculation", "acceptance"),
    *("simulate", "y", "speed"),
)
#: Defaults of shared controls.
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
        Settings that all series share.
    """

    series: Sequence[Mapping[str, str]]
    shared: Mapping[str, str] = field(default_factory=dict)


def state(address: Iterable[tuple[str, str]]) -> State:
    """Parse the query of an address; missing controls have their defaults.

    Parameters
    ----------
    address : iterable of (str, str)
        Names and values in order; those of series repeat.
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
