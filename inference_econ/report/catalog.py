"""The catalogue as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inference_econ import inputs
from inference_econ.report.fields import GIGABYTES, attributes
from inference_econ.report.page import Page
from inference_econ.report.table import Table


@dataclass(frozen=True)
class ListingPage(Page):
    """All entries of a kind."""

    kind: inputs.Kind

    def tables(self) -> Sequence[Table]:
        """One row per entry."""
        return (listing_table(self.kind, listing(self.kind)),)

    def record(self) -> object:
        """One record per entry."""
        return listing(self.kind)


@dataclass(frozen=True)
class EntryPage(Page):
    """One entry, by its name or path."""

    kind: inputs.Kind
    name: str

    def tables(self) -> Sequence[Table]:
        """One line per number, with its source."""
        return (detail_table(self.kind, self.name, detail(self.kind, self.name)),)

    def record(self) -> object:
        """Every field, derived counts included."""
        return detail(self.kind, self.name)


def listing(kind: inputs.Kind) -> list[dict[str, object]]:
    """One record per entry of the catalogue."""
    return [{"name": name, **_summary(_read(kind, name))} for name in inputs.catalog.names(kind)]


#: Any entry of the catalogue.
_Entry: TypeAlias = (
    inputs.HardwareSpec
    | inputs.ModelSpec
    | inputs.Scenario
    | inputs.Assumptions
    | inputs.EngineSpec
    | inputs.TrafficSpec
)
#: Numbers of a long list that are shown [1].
_SHOWN = 12
#: Columns of listings that a narrow terminal does without.
_LEAST = (
    *("domain", "link GB/s", "layers", "published in", "pipeline", "overlap", "redundant experts", "inside", "date"),
    *("exchange of wide groups", "8-bit TFLOP/s", "KV elements per token", "kind", "source"),
)


def listing_table(kind: inputs.Kind, records: Sequence[Mapping[str, object]]) -> Table:
    """Table of all entries of a kind."""
    columns = tuple(records[0])
    rows = tuple(tuple(_text(record[column]) for column in columns) for record in records)
    notes = (GIGABYTES,) if kind == "hardware" else ()
    return Table(f"{len(records)} {kind}", columns, rows, notes, least=_LEAST)


def detail(kind: inputs.Kind, name: str) -> dict[str, object]:
    """Everything about one entry as plain data, derived counts included."""
    spec = _read(kind, name)
    record: dict[str, object] = spec.model_dump(mode="json", exclude_none=True)
    if isinstance(spec, inputs.ModelSpec):
        record |= attributes(spec, "total_parameters active_parameters kv_elements_per_token")
        record["parameter_parts"] = {part: round(count) for part, count in spec.parameter_parts().items()}
    return record


def detail_table(kind: inputs.Kind, name: str, record: Mapping[str, object]) -> Table:
    """Table of one entry: a line per number, with its source."""
    sources = record.get("sources")
    by_field = sources if isinstance(sources, Mapping) else {}
    leaves = _leaves({key: item for key, item in record.items() if key != "sources"}, "")
    rows = tuple((path, _text(value), _source(path, by_field)) for path, value in leaves)
    return Table(f"{kind} {name}", ("field", "value", "source"), rows)


def _read(kind: inputs.Kind, name: str) -> _Entry:
    readers: Mapping[inputs.Kind, Callable[[str], _Entry]] = {
        "hardware": inputs.catalog.hardware, "models": inputs.catalog.model, "scenarios": inputs.catalog.scenario,
        "engines": inputs.catalog.engine, "traffic": inputs.catalog.traffic, "assumptions": inputs.catalog.assumptions,
    }  # fmt: skip
    return readers[kind](name)


def _summary(spec: _Entry) -> dict[str, object]:
    if isinstance(spec, inputs.HardwareSpec):
        peaks = spec.dense_flops_per_second
        wide = peaks.get("bf16", peaks.get("fp16", 0.0))
        narrow, price = peaks.get("fp8", peaks.get("int8")), inputs.prices.best(spec)
        link = spec.link_bytes_per_second_one_way
        return {
            "full name": spec.name,
            "16-bit TFLOP/s": wide / 1e12,
            "8-bit TFLOP/s": None if narrow is None else narrow / 1e12,
            "HBM GB": spec.hbm_bytes / 1e9,
            "HBM TB/s": spec.hbm_bytes_per_second / 1e12,
            "link GB/s": None if link is None else link / 1e9,
            "domain": spec.link_domain,
            "$/h": None if price is None else price.dollars,
            "seen": None if price is None else price.date,
            "kind": None if price is None else " ".join(filter(None, (price.kind, price.seller))),
            "source": None if price is None else price.ref,
        }
    if isinstance(spec, inputs.ModelSpec):
        return {
            "full name": spec.name + (" (rumoured)" if spec.rumoured and "rumour" not in spec.name else ""),
            "parameters (10^9)": spec.total_parameters / 1e9,
            "active (10^9)": spec.active_parameters / 1e9,
            "KV elements per token": spec.kv_elements_per_token,
            "layers": spec.layers,
            "published in": ", experts ".join(filter(None, (spec.weights, spec.expert_weights))),
            "source": next((source.ref for source in spec.sources.values()), None),
        }
    if isinstance(spec, inputs.EngineSpec):
        return _engine_summary(spec)
    if isinstance(spec, inputs.TrafficSpec):
        return _traffic_summary(spec)
    return {"description": " ".join(spec.description.split())}


def _traffic_summary(spec: inputs.TrafficSpec) -> dict[str, object]:
    """Summary of a traffic: how often its users send requests, and how long these are."""
    requests = None if spec.lengths is None else spec.requests
    return {
        "full name": spec.name,
        "requests/s": spec.arrivals.rate,
        "gap scv": float(spec.arrivals.scv),
        "isl": requests and requests.isl.mean,
        "osl": requests and requests.osl.mean,
        "reused %": spec.reuse and 100.0 * spec.reuse.share,
    }


def _engine_summary(spec: inputs.EngineSpec) -> dict[str, object]:
    """Summary of the newest version of an engine."""
    facts = spec.at()
    redundant = facts.redundant_experts
    recipe = "" if redundant.recommended is None else f", recipe {redundant.recommended}"
    return {
        "version": facts.version,
        "date": facts.date,
        "EP groups": {"dp_x_tp": "dp x tp", "any": "any"}[facts.expert_groups],
        "inside": facts.inside,
        "exchange by default": _exchanges([fact for fact in facts.exchanges if fact.default]),
        "exchange of wide groups": _exchanges([fact for fact in facts.exchanges if fact.wide]),
        "redundant experts": f"{redundant.default}{recipe}" if redundant.supported else None,
        "overlap": _joined(f"{fact.kind} {fact.phase} {'on' if fact.default else 'off'}" for fact in facts.overlap),
        "pipeline": facts.uneven_pipeline,
    }


def _exchanges(exchanges: Sequence[inputs.Exchange]) -> str | None:
    """Their names, behind the phase where they have one of their own."""
    phases = ("" if exchange.phase == "both" else f"{exchange.phase}: " for exchange in exchanges)
    return _joined(phase + exchange.name for phase, exchange in zip(phases, exchanges, strict=True))


def _joined(parts: Iterable[str]) -> str | None:
    return "; ".join(parts) or None


def _leaves(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list) and not (value and all(isinstance(item, (int, float)) for item in value)):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, f"{path}.{index}")]
    return [(path, value)]


def _source(path: str, sources: Mapping[object, object]) -> str:
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        source = sources.get(".".join(parts[:end]))
        if isinstance(source, Mapping):
            return f"{source['kind']}: {source['ref']}, {source['where']}"
    return ""


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1e6 else f"{value:.6g}"
    if isinstance(value, list) and len(value) > _SHOWN:
        return f"{json.dumps(value[:_SHOWN])[:-1]}, .. {len(value)} values]"
    return value if isinstance(value, str) else json.dumps(value)
