"""Pages of catalog entries, GPU prices, API offers and recipes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_econ import inputs
from inference_econ.answers.deployments.default_slo import offers_of
from inference_econ.records.facts import node_record
from inference_econ.records.plain import attributes
from inference_econ.report.fields import GIGABYTES
from inference_econ.report.page import Page, Table


@dataclass(frozen=True)
class ListingPage(Page):
    """Page that lists the catalog entries of one kind."""

    kind: inputs.Kind

    def tables(self) -> Sequence[Table]:
        """Table with one row per entry."""
        records = listing(self.kind)
        notes = (GIGABYTES,) if self.kind == "hardware" else ()
        return (_listed(f"{len(records)} {self.kind}", records, {name: name for name in records[0]}, notes, _LEAST),)

    def record(self) -> object:
        """Return one record per catalog entry."""
        return listing(self.kind)


@dataclass(frozen=True)
class EntryPage(Page):
    """Page of one catalog entry, given by its name or path."""

    kind: inputs.Kind
    name: str

    def tables(self) -> Sequence[Table]:
        """Table with one row per number and its source."""
        return (detail_table(self.kind, self.name, detail(self.kind, self.name)),)

    def record(self) -> object:
        """Return all fields of the catalog entry, with derived values."""
        return detail(self.kind, self.name)


def listing(kind: inputs.Kind) -> list[dict[str, object]]:
    """Return the records of all catalog entries of one kind."""
    return [{"name": name, **_summary(inputs.catalog.read(kind, name))} for name in inputs.catalog.names(kind)]


#: Maximum number of shown elements of a long list [1].
_SHOWN = 12
#: Columns that narrow terminals leave out.
_LEAST = (
    *("domain", "link GB/s", "layers", "published in", "pipeline", "overlap", "redundant experts", "inside", "date"),
    *("exchange of wide groups", "8-bit TFLOP/s", "KV elements per token", "kind", "source"),
)


def _listed(
    title: str,
    records: Sequence[Mapping[str, object]],
    heads: Mapping[str, str],
    notes: tuple[str, ...],
    least: tuple[str, ...] = (),
) -> Table:
    """Create a table of records, with a heading for each field."""
    rows = tuple(tuple(_text(record[name]) for name in heads) for record in records)
    return Table(title, tuple(heads.values()), rows, notes, least=least)


def detail(kind: inputs.Kind, name: str) -> dict[str, object]:
    """Return the record of one catalog entry, with derived values."""
    spec = inputs.catalog.read(kind, name)
    record: dict[str, object] = spec.model_dump(mode="json", exclude_none=True)
    if isinstance(spec, inputs.ModelSpec):
        record |= attributes(spec, "total_parameters active_parameters kv_elements_per_token")
        record["parameter_parts"] = {part: round(count) for part, count in spec.parameter_parts().items()}
    return record


def detail_table(kind: inputs.Kind, name: str, record: Mapping[str, object]) -> Table:
    """Create the table of one catalog entry: one row per number, with its source."""
    sources, rows = record.get("sources"), []
    by_field = sources if isinstance(sources, Mapping) else {}
    for path, value in _leaves({key: item for key, item in record.items() if key != "sources"}, ""):
        # A field without a source has the source of the nearest enclosing field.
        parts = path.split(".")
        around = (by_field.get(".".join(parts[:end])) for end in range(len(parts), 0, -1))
        source = next((found for found in around if isinstance(found, Mapping)), None)
        origin = "" if source is None else f"{source['kind']}: {source['ref']}, {source['where']}"
        rows.append((path, _text(value), origin))
    return Table(f"{kind} {name}", ("field", "value", "source"), tuple(rows))


def _summary(spec: inputs.SourcedSpec) -> dict[str, object]:
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
        # Facts of the newest version. All-to-all facts of prefill or decode follow the other facts of this phase.
        facts = spec.at()
        redundant, phased = (
            facts.redundant_experts,
            [(fact, f"{'' if fact.phase == 'both' else f'{fact.phase}: '}{fact.name}") for fact in facts.exchanges],
        )
        recipe = "" if redundant.recommended is None else f", recipe {redundant.recommended}"
        overlaps = (f"{fact.kind} {fact.phase} {'on' if fact.default else 'off'}" for fact in facts.overlap)
        return {
            "version": facts.version,
            "date": facts.date,
            "EP groups": {"dp_x_tp": "dp x tp", "any": "any"}[facts.expert_groups],
            "inside": facts.inside,
            "exchange by default": "; ".join(text for fact, text in phased if fact.default) or None,
            "exchange of wide groups": "; ".join(text for fact, text in phased if fact.wide) or None,
            "redundant experts": f"{redundant.default}{recipe}" if redundant.supported else None,
            "overlap": "; ".join(overlaps) or None,
            "pipeline": facts.uneven_pipeline,
        }
    if isinstance(spec, inputs.TrafficSpec):
        requests = None if spec.lengths is None else spec.requests
        return {
            "full name": spec.name,
            "requests/s": spec.arrivals.rate,
            "gap scv": float(spec.arrivals.scv),
            "isl": requests and requests.isl.mean,
            "osl": requests and requests.osl.mean,
            "reused %": spec.reuse and 100.0 * spec.reuse.share,
        }
    return {"description": " ".join(spec.description.split())}


def _leaves(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list) and not (value and all(isinstance(item, (int, float)) for item in value)):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, f"{path}.{index}")]
    return [(path, value)]


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1e6 else f"{value:.6g}"
    if isinstance(value, list) and len(value) > _SHOWN:
        return f"{json.dumps(value[:_SHOWN])[:-1]}, .. {len(value)} values]"
    return value if isinstance(value, str) else json.dumps(value)


_PRICES = {
    **{name: name for name in ("chip", "kind", "seller", "years")}, "usd_per_gpu_hour": "$/GPU-h",
    "usd_per_node_hour": "$/node-h", "gpus_per_node": "node",
    **{name: name for name in ("date", "verified", "default", "source")},
}  # fmt: skip
_OF_PRICES = (
    "The default price (*) is the median of the on-demand offers of the last quarter. Without such offers, it comes "
    "from the first other kind that is listed. Kind tco is the cost of an hour for an owner. 'years' is the contract "
    "term.",
    "A price is verified if its source was read. Results with other prices, estimates or undated prices have a note.",
)


@dataclass(frozen=True)
class PricesPage(Page):
    """Page with the prices of some GPUs, with source and date."""

    chips: Sequence[str]
    """Names or paths of the GPUs."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per price."""
        rows = [
            {**record, "verified": "yes" if record["verified"] else "no", "default": "*" if record["default"] else ""}
            for record in self.record()
        ]
        return (_listed(f"{len(rows)} prices of {len(self.chips)} chips", rows, _PRICES, _OF_PRICES),)

    def record(self) -> list[dict[str, object]]:
        """One record per price, in file order."""
        chips = {name: inputs.catalog.hardware(name) for name in self.chips}
        usual = {name: inputs.prices.best(chip) for name, chip in chips.items()}
        return [
            {
                "chip": name,
                "kind": price.kind,
                "seller": price.seller or None,
                "years": price.years,
                "usd_per_gpu_hour": price.dollars,
                **node_record(chips[name], price.dollars),
                "date": price.date,
                "verified": price.verified,
                "default": price == usual[name],
                "source": f"{price.ref}: {price.where}",
            }
            for name in self.chips
            for price in inputs.prices.listed(chips[name])
        ]


_OFFERS = {
    "provider": "provider", "model_as_written": "model", "hours": "hours",
    "dollars_per_million_input_tokens": "$/M input", "dollars_per_million_cached_input_tokens": "$/M cached",
    "dollars_per_million_output_tokens": "$/M output", "tokens_per_second": "tokens/s", "date": "date",
    "source": "source",
}  # fmt: skip
_OF_OFFERS = (
    "Each row is the last recorded day of an offer. Add today's offers with --refresh FILE (JSON of models.dev, or a "
    "CSV file).",
)


@dataclass(frozen=True)
class OffersPage(Page):
    """Page with the latest recorded API offers of one model or of all models, with prices and sources."""

    model: str | None = None
    """Name or path of the model; None for all models."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per offer."""
        rows = [{**record, "hours": record["hours"] or None} for record in self.record()]
        of = "" if self.model is None else f" of {inputs.catalog.model(self.model).name}"
        return (_listed(f"{len(rows)} API offers{of}", rows, _OFFERS, _OF_OFFERS),)

    def record(self) -> list[dict[str, object]]:
        """One record per offer."""
        model = self.model
        listed = inputs.known_offers() if model is None else offers_of(inputs.catalog.model(model))
        return [offer.model_dump() for offer in inputs.offers.latest(listed)]


_RECIPES = {
    "engine": "engine", "recipe": "cache and speculation", "layouts": "instances", "pools": "prefill + decode",
    "date": "date", "ref": "source", "where": "where",
}  # fmt: skip
_OF_RECIPES = (
    "'instances': parallel degrees of aggregated instances in the recipe. 'prefill + decode': degrees of disaggregated "
    "instances. A row without a source is an engine with its defaults.",
)


@dataclass(frozen=True)
class RecipesPage(Page):
    """Page with the published engine recipes for a model on a GPU, with source and date."""

    model: str
    """Name or path of the model."""
    chip: str
    """Name or path of the GPU."""
    weights: str | None = None
    """Weight format; None for the published format."""
    engine: str | None = None
    """Engine of the recipes; None for all engines."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per recipe."""
        model, chip = inputs.catalog.model(self.model).name, inputs.catalog.hardware(self.chip).name
        title, rows = f"Recipes of {model} on {chip}" + (f", weights {self.weights}" if self.weights else ""), []
        for practice in self._practices():
            pools = (f"{_degrees(pair.prefill.counts)} + {_degrees(pair.decode.counts)}" for pair in practice.pools)
            row = {
                "engine": practice.engine,
                "recipe": practice.text,
                "layouts": ", ".join(map(_degrees, practice.layouts)) or None,
                "pools": ", ".join(pools) or None,
                "date": practice.date or None,
            }
            source = practice.source
            rows.append(row | ({"ref": None, "where": None} if source is None else attributes(source, "ref where")))
        return (_listed(title, rows, _RECIPES, _OF_RECIPES, ("where",)),)

    def record(self) -> list[dict[str, object]]:
        """One record per recipe."""
        return [
            {
                "engine": practice.engine,
                "recipe": practice.text,
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
                "source": None if practice.source is None else practice.source.model_dump(),
            }
            for practice in self._practices()
        ]

    def _practices(self) -> tuple[inputs.Practice, ...]:
        engines = (self.engine,) if self.engine else tuple(engine.name for engine in inputs.known_engines())
        subject = inputs.catalog.model(self.model), inputs.catalog.hardware(self.chip), self.weights
        return tuple(practice for engine in engines for practice in inputs.practices(engine, *subject))


def _degrees(counts: Mapping[str, int]) -> str:
    """Abbreviated parallelism degrees: ``tp8``, ``dp8ep8``.

    Examples
    --------
    >>> _degrees({"tp": 1, "dp": 8, "pp": 1, "ep": 8}), _degrees({"tp": 1, "dp": 1, "pp": 1, "ep": 1})
    ('dp8ep8', 'tp1')
    """
    return "".join(f"{name}{count}" for name, count in counts.items() if count > 1) or "tp1"
