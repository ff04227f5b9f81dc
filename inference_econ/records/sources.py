"""Sources of a result, collected from all specifications that it uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.engine import Setup, Speculation
from inference_econ.inputs import HardwareSpec, ModelSpec, Source, SourcedSpec, catalog, prices

#: Fields that have no effect on times or prices.
_UNUSED = frozenset({"year", "watts", "link_bytes_per_second_both_ways", "max_context", "checkpoints"})


@dataclass(frozen=True, slots=True)
class UsedSource:
    """Publication or file that is the source of an input of a result."""

    file: str
    """Kind and name of the specification file."""
    field: str
    """Field of the specification."""
    source: Source
    """Source of the field."""

    def record(self) -> dict[str, str]:
        """The source as plain data, with title and address of the publication if they are known."""
        reference = catalog.references().get(self.source.ref, {})
        return {
            "file": self.file,
            "field": self.field,
            "ref": self.source.ref,
            "where": self.source.where,
            "kind": self.source.kind,
            **{name: reference[name] for name in ("title", "url") if name in reference},
        }


def power_sources(chip: HardwareSpec) -> tuple[UsedSource, ...]:
    """Sources of the power of a GPU, its host and its facility; empty if unknown."""
    if chip.watts is None:
        return ()
    board = (UsedSource(f"hardware: {chip.name}", "watts", chip.sources["watts"]),) if "watts" in chip.sources else ()
    terms = (used for used in spec_sources("ownership", catalog.ownership()) if used.field in ("host_watts", "pue"))
    return (*board, *spec_sources("power", catalog.power()), *terms)


def priced_sources(setup: Setup, speculation: Speculation | None = None) -> tuple[UsedSource, ...]:
    """Sources of the model, GPU, assumptions, draft model and price of a setup."""
    used = setup_sources(setup, None if speculation is None else speculation.model)
    price, file = setup.hour_price, f"hardware: {setup.hardware.name}"
    if price.kind == prices.UNPRICED:
        return used
    if price.kind == prices.GIVEN:
        source = Source.model_construct(ref="user", where=f"{price.dollars:g} USD/h", kind="assumed")
        return (*used, UsedSource("price", "dollars_per_accelerator_hour", source))
    if price.kind == prices.OWNED:
        source = Source.model_construct(ref=price.ref, where=f"{price.where}, {price.date}", kind="derived")
        return (*used, UsedSource(file, "purchase", source), *spec_sources("ownership", catalog.ownership()))
    source = Source.model_construct(ref=price.ref, where=f"{price.where} ({price.terms})", kind="published")
    return (*used, UsedSource(file, "prices", source))


def setup_sources(setup: Setup, draft: ModelSpec | None = None) -> tuple[UsedSource, ...]:
    """Sources of the model, the GPU and the assumptions of a setup."""
    specs = [("model", setup.model), ("hardware", setup.hardware), ("assumptions", setup.assumptions)]
    if draft is not None:
        specs.append(("draft model", draft))
    every = (used for kind, spec in specs for used in spec_sources(kind, spec))
    return tuple(used for used in every if setup.assumptions.cpu.layers or not used.field.startswith("cpu."))


def spec_sources(kind: str, spec: SourcedSpec) -> tuple[UsedSource, ...]:
    """Sources of the fields of a specification that affect predictions."""
    return tuple(
        UsedSource(f"{kind}: {spec.name}", field, source)
        for field, source in spec.sources.items()
        if field.partition(".")[0] not in _UNUSED
    )


def source_records(used: Sequence[UsedSource]) -> list[dict[str, str]]:
    """Sources as plain data."""
    return [source.record() for source in used]
