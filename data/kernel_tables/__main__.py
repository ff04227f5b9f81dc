"""Fit kernels of dense products, routed experts and attention to public tables: ``sh run.sh refit kernels``.

The command writes ``products``, ``kernels`` and ``scores`` of ``scenarios/assumptions``. Each chip family gets the
expert kernels that most engines select, and those of each engine, according to ``scenarios/engines``. It gets attention
kernels of all engines together, and of each engine. The command prints the fits, the errors by source, and the cost of
a skewed router.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from data.kernel_tables import experts, products, scores, skew, tables
from data.kernel_tables.tables import CALLED, FAMILIES, WHEEL, Fitted
from inference_econ.inputs import catalog

if TYPE_CHECKING:
    import pandas as pd

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
#: Formats without tables, with the formats whose kernels are used instead.
ALIKE = {"fp16": "bf16", "int4_g32": "int4", "int4_channel": "int4"}
#: Cache formats without tables, with the formats whose kernels are used instead.
ALIKE_CACHES = {"bf16": ("fp16",)}


@dataclass(frozen=True, slots=True)
class Entries:
    """Lines of an output file: constants by format, and their sources."""

    constants: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def add(self, dtype: str, line: str, where: str) -> None:
        """Add a fitted entry, and entries of the formats that use the same kernels."""
        self._put(dtype, line, where, "derived")
        for alike in (name for name, known in ALIKE.items() if known == dtype):
            self._put(alike, line, f"not measured: the kernels of {dtype}", "assumed")

    def add_phases(self, dtype: str, decode: scores.Curve, prompts: scores.Curve) -> None:
        """Add attention in both phases for a cache format, and for the formats that use the same kernels."""
        line = f"{{decode: {decode.fitted.line()}, prompts: {prompts.fitted.line()}}}"
        where = f"wheel {WHEEL}, {decode.where}; {prompts.where}"
        self._put(dtype, line, where, "derived")
        for alike in ALIKE_CACHES.get(dtype, ()):
            self._put(alike, line, f"not measured: caches in {dtype}", "assumed")

    def fill(self, others: Entries, whose: str) -> None:
        """Add missing formats from other entries."""
        for dtype in others.constants.keys() - self.constants.keys():
            self._put(dtype, others.constants[dtype], f"nothing known of this engine: {whose}", "assumed")

    def _put(self, dtype: str, line: str, where: str, kind: str) -> None:
        self.constants[dtype] = line
        self.sources[dtype] = f'{{ref: aiconfigurator, where: "{where}", kind: {kind}}}'

    @property
    def formats(self) -> list[str]:
        """Formats, in the same order in every file."""
        order = [*experts.FORMATS, *products.FORMATS, *ALIKE]
        return sorted(self.constants, key=order.index)

    def write(self, part: catalog.Part, name: str, *remarks: str) -> None:
        """Write the file to the folder of a part of the assumptions."""
        lines = [f"{dtype}: {self.constants[dtype]}" for dtype in self.formats]
        lines += ["sources:", *(f"  {dtype}: {self.sources[dtype]}" for dtype in self.formats)]
        _write(part, name, remarks, lines)


def _write(part: catalog.Part, name: str, remarks: Iterable[str], lines: Iterable[str]) -> None:
    text = [*(f"# {remark}" for remark in (*remarks, "Made by `sh run.sh refit kernels`.")), *lines]
    (catalog.folder("assumptions") / part / f"{name}.yaml").write_text("\n".join(text) + "\n", encoding="utf-8")


#: Constants and rows by format, kernel and engine; "" for all engines.
Kernels: TypeAlias = "Mapping[tuple[str, str, str], tuple[Fitted, pd.DataFrame]]"
#: Parts of entries by phase, and sources, for kernels after an all-to-all; by format and engine.
Exchanged: TypeAlias = "Mapping[tuple[str, str], tuple[str, str]]"


def picks(
    family: str, fact: Literal["expert_kernels", "exchanged_expert_kernels"] = "expert_kernels"
) -> Mapping[str, Mapping[str, str]]:
    """Expert kernels that engines select on a chip family, by engine and format."""
    facts = {name: getattr(catalog.engine(name).at(), fact) for name in ENGINES}
    return {name: cast("Mapping[str, Mapping[str, str]]", known).get(family, {}) for name, known in facts.items()}


def exchanged_parts(family: str, fitted: Kernels) -> Exchanged:
    """Kernels after an all-to-all: those of each phase for DeepGEMM; for others, the kernels without all-to-all.

    The entry for all engines has the kernels that the first engine selects.
    """
    phases = {phase: (one, rows) for phase, one, rows in experts.exchanged(family)}
    parts: dict[tuple[str, str], tuple[str, str]] = {}
    for engine, chosen in picks(family, "exchanged_expert_kernels").items():
        for dtype, kernel in chosen.items():
            unit = tables.unit(family, dtype)
            if kernel == "deepgemm":
                lines = [f"{phase}: {one.line(unit)}" for phase, (one, _) in phases.items()]
                spread = "; ".join(f"{phase} {one.spread}" for phase, (one, _) in phases.items())
                where = f"tables wideep_context_moe and wideep_generation_moe of SGLang: {spread}"
            else:
                one, _ = fitted.get((dtype, kernel, engine)) or fitted[dtype, kernel, ""]
                lines = [f"{phase}: {one.line(unit)}" for phase in ("prompts", "decode")]
                where = f"tables moe_perf: {one.spread}"
            known = f"exchanged: {{{', '.join(lines)}}}", f"exchanged tokens: {kernel}, {where}"
            parts[dtype, engine] = known
            parts.setdefault((dtype, ""), known)
    return parts


def picked_by_most(family: str, fitted: Kernels) -> Mapping[str, str]:
    """Kernel of each format that most engines select; if unknown, the kernel with the most shapes."""
    chosen = {}
    for dtype in experts.FORMATS:
        known = {
            kernel: len(rows) for (one, kernel, engine), (_, rows) in fitted.items() if (one, engine) == (dtype, "")
        }
        votes = Counter(of[dtype] for of in picks(family).values() if of.get(dtype) in known)
        if known:
            chosen[dtype] = max(known, key=lambda kernel: (votes[kernel], known[kernel]))
    return chosen


def write_experts(family: str) -> Iterator[str]:
    """Write the files of a family's expert kernels, and return lines to print."""
    fitted: dict[tuple[str, str, str], tuple[Fitted, pd.DataFrame]] = {}
    for dtype, kernel, rows in experts.balanced(family):
        for engine, one, some in experts.fits(family, dtype, kernel, rows):
            fitted[dtype, kernel, engine] = one, some
            yield f"{family} {dtype} {kernel} {engine or 'of all'}: {one.line()} {one.spread}"
            yield from (f"    {line}" for line in off(one, some))
    called, most, exchanged = CALLED[family], picked_by_most(family, fitted), exchanged_parts(family, fitted)
    yield from (f"{family} {dtype} {engine or 'of all'}, {where}" for (dtype, engine), (_, where) in exchanged.items())
    base = _entries(family, most, fitted, exchanged, "")
    who = "most engines pick" if any(picks(family).values()) else "most shapes of the tables have"
    base.write("kernels", family, f"Kernels of routed experts on {called}: of each format the one that {who}.")
    for engine, chosen in picks(family).items():
        if chosen:
            own = _entries(family, chosen, fitted, exchanged, engine)
            own.fill(base, f"what most engines pick on {called}")
            remark = (
                f"Kernels of routed experts on {called} that {ENGINES[engine]} picks (scenarios/engines/{engine}.yaml)."
            )
            own.write("kernels", f"{family}_{engine}", remark)


def _entries(family: str, chosen: Mapping[str, str], fitted: Kernels, exchanged: Exchanged, engine: str) -> Entries:
    """Selected kernels by format: those of an engine, or of all engines if the engine has too few shapes."""
    entries, chips = Entries(), " and ".join(FAMILIES[family])
    for dtype, kernel in chosen.items():
        known = fitted.get((dtype, kernel, engine)) or fitted.get((dtype, kernel, ""))
        if known is not None:
            one, rows = known
            engines = ", ".join(ENGINES[name] for name in ENGINES if name in set(rows["engine"]))
            beside = (
                "; with the grouped products of DeepGEMM (deepgemm2025)"
                if experts.published(family, dtype, kernel)
                else ""
            )
            what = f"{kernel} of {engines} on {chips}, balanced{beside}, wheel {WHEEL}, tables moe_perf: {one.spread}"
            part, behind = exchanged.get((dtype, engine), ("", ""))
            line = one.line(tables.unit(family, dtype), part)
            entries.add(dtype, line, f"{what}; {behind}" if behind else what)
    return entries


def off(fitted: Fitted, rows: pd.DataFrame) -> Iterator[str]:
    """Error of each source relative to the constants, over shapes of at least a millisecond."""
    for (engine, source), some in rows[rows["seconds"] > 1e-3].groupby(["engine", "kernel_source"]):
        errors = np.log(experts.predicted(list(fitted.constants.values()), some) / some["seconds"])
        yield f"{engine} {source}: {len(some)} shapes, bias {np.median(errors):+.2f}"


def write_products(family: str) -> Iterator[str]:
    """Write the file of a family's dense products, and return lines to print."""
    entries = Entries()
    for dtype, fitted, rows in products.kernels(family):
        yield f"{family} {dtype}, dense: {fitted.line()} {fitted.spread}"
        yield from (f"    {line}" for line in products.off(fitted, rows))
        engines = ", ".join(ENGINES[name] for name in ENGINES if name in set(rows["engine"]))
        what = f"matrices of 60 MB and more, the quickest of {engines} on {' and '.join(FAMILIES[family])}"
        where = f"{what}, wheel {WHEEL}, tables gemm_perf: {fitted.spread}"
        entries.add(dtype, fitted.line(tables.unit(family, dtype)), where)
    called = CALLED[family]
    entries.write(
        "products", family, f"Dense products on {called}: the quickest of vLLM, SGLang and TensorRT-LLM for each shape."
    )


def write_scores(family: str) -> Iterator[str]:
    """Write the files of a family's attention kernels, for all engines and for each, and return lines to print."""
    curves = list(scores.curves(family))
    for curve in curves:
        what = f"{curve.kind} {curve.phase} {curve.dtype} {curve.engine or 'of all'}"
        yield f"{family} {what}: {curve.fitted.line()} {curve.fitted.spread}"
    recurrences = {engine: (fitted, where) for engine, fitted, where in scores.recurrences(family)}
    yield from (f"{family} recurrent {where}: {fitted.line()}" for fitted, where in recurrences.values())
    called, base = CALLED[family], _attention(curves, "")
    remark = f"Attention on {called}: vLLM, SGLang and TensorRT-LLM together."
    _write_attention(family, base, recurrences.get(""), remark)
    for engine, known in picks(family).items():
        if known:
            own = _attention(curves, engine)
            for kind, entries in own.items():
                entries.fill(base[kind], f"what all engines together have on {called}")
            remark = f"Attention of {ENGINES[engine]} on {called}."
            _write_attention(f"{family}_{engine}", own, recurrences.get(engine) or recurrences.get(""), remark)


def _attention(curves: Iterable[scores.Curve], engine: str) -> Mapping[scores.Kind, Entries]:
    """Known rates of both phases, by kind and format of the cache."""
    known = {
        (curve.kind, curve.dtype, curve.phase): curve for curve in curves if curve.engine == engine and curve.is_usable
    }
    kinds: tuple[scores.Kind, ...] = ("grouped", "latent")
    both = {kind: Entries() for kind in kinds}
    for kind, dtype, phase in known:
        prompts, decode = known.get((kind, dtype, "prompts")), known[kind, dtype, phase]
        if phase == "decode" and prompts is not None:
            both[kind].add_phases(dtype, decode, prompts)
    return both


def _write_attention(
    name: str, entries: Mapping[scores.Kind, Entries], recurrence: tuple[Fitted, str] | None, remark: str
) -> None:
    lines, sources = [], ["sources:"]
    for kind, known in entries.items():
        if known.formats:
            lines += [f"{kind}:", *(f"  {dtype}: {known.constants[dtype]}" for dtype in known.formats)]
        sources += [f"  {kind}.{dtype}: {known.sources[dtype]}" for dtype in known.formats]
    if recurrence is not None:
        fitted, where = recurrence
        lines.append(f"recurrent: {fitted.line()}")
        sources.append(f'  recurrent: {{ref: aiconfigurator, where: "wheel {WHEEL}, {where}", kind: derived}}')
    _write("scores", name, [remark], [*lines, *sources])


def main() -> None:
    """Fit, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--skew", action="store_true", help="what a skewed router costs, too")
    asked = parser.parse_args()
    for family in asked.families:
        parts = [write_products(family)]
        if family != "ampere":
            # The tables of this family have a single untuned kernel for experts with balanced routing. In those for
            # attention, one engine takes twice as long as another.
            parts += [write_experts(family), write_scores(family)]
            parts += [skew.lines(family)] if asked.skew else []
        for line in (line for part in parts for line in part):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
