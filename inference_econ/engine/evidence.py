"""Evidence behind a predicted deployment: what of it was measured, and the expected times of what was not."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from inference_econ.engine.layouts.plans import has_experts
from inference_econ.engine.measured_corrections import KnownLayouts
from inference_econ.engine.setup import Setup
from inference_econ.inputs import HardwareSpec, ModelSpec, Precision, catalog

#: How much of a deployment was measured.
Kind = Literal["measured", "near", "model only"]
KINDS: tuple[Kind, ...] = ("measured", "near", "model only")


class Facts(NamedTuple):
    """What says which measured servers a deployment is like."""

    engine: str
    """Name, without a version."""
    model: str
    """Name that is printed, without the format of its weights."""
    weights: str
    """Number format of the weights, or of the experts."""
    hardware: str
    """Name of the GPU that is printed."""
    arrangement: tuple[str, bool]
    """Whether it is ``aggregated`` or ``disaggregated``, and speculates."""

    @classmethod
    def of(
        cls, engine: str, model: ModelSpec, precision: Precision, hardware: HardwareSpec, arrangement: tuple[str, bool]
    ) -> Facts:
        """The facts of a deployment."""
        weights = precision.experts if has_experts(model) else precision.weights
        return cls(engine, bare_name(model.name, weights), weights, hardware.name, arrangement)


class Evidence(NamedTuple):
    """How much of a deployment was measured."""

    kind: Kind
    """``measured``: servers of the same engine, model, number format, GPU and arrangement; ``near``: of all but one of
    these; ``model only``: of less."""
    runs: int = 0
    """Measured runs that it is like [1]."""

    @property
    def text(self) -> str:
        """For a column: the kind, with the runs of what was measured.

        Examples
        --------
        >>> Evidence("measured", 44).text, Evidence("near", 3).text
        ('measured (44)', 'near')
        """
        return f"measured ({self.runs})" if self.kind == "measured" else self.kind

    def record(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"evidence": self.kind, "measured_runs": self.runs}


#: Of what nobody measured.
NO_EVIDENCE = Evidence("model only")


def bare_name(model: str, weights: str) -> str:
    """Name of a model without the format of its weights.

    Examples
    --------
    >>> bare_name("DeepSeek-V3 NVFP4", "nvfp4")
    'DeepSeek-V3'
    """
    return model[: -len(weights) - 1] if model.lower().endswith(f" {weights}") else model


def evidence_of(setup: Setup, *, disaggregated: bool, speculates: bool) -> Evidence:
    """How much was measured of a deployment of one engine; nothing of layouts that no engine starts.

    Source: ``scenarios/measured/evidence.csv``, the runs of all shipped measurements.
    """
    arrangement = "disaggregated" if disaggregated else "aggregated", speculates
    engine = setup.engines[0].name if len(setup.engines) == 1 else ""
    facts = Facts.of(engine, setup.model, setup.precision, setup.hardware, arrangement)
    every = runs().by_facts
    if facts in every:
        return Evidence("measured", every[facts])
    near = sum(count for other, count in every.items() if sum(map(str.__ne__, map(str, facts), map(str, other))) == 1)
    return Evidence("near", near) if near else NO_EVIDENCE


@dataclass(frozen=True)
class Runs:
    """Measured runs of all shipped servers."""

    lines: Sequence[Mapping[str, str]]
    """Of the table."""

    @cached_property
    def by_facts(self) -> Mapping[Facts, int]:
        """Runs by their facts [1]."""
        counts: Counter[Facts] = Counter()
        for line in self.lines:
            arrangement = line["arrangement"], line["speculates"] == "yes"
            name = bare_name(line["model"], line["weights"])
            counts[Facts(line["engine"], name, line["weights"], line["hardware"], arrangement)] += int(line["runs"])
        return counts

    def engines(self, model: str, hardware: str) -> frozenset[str]:
        """The engines that were measured with a model on a GPU."""
        return frozenset(facts.engine for facts in self.by_facts if (facts.model, facts.hardware) == (model, hardware))

    def layouts(self, model: str, hardware: str) -> KnownLayouts:
        """The layouts that were measured of a model on a GPU."""
        alike = [line for line in self.lines if line["hardware"] == hardware and _is_of(line, model)]
        apart = [line for line in alike if line["arrangement"] == "disaggregated"]
        together = frozenset(line["layout"] for line in alike if line not in apart)
        decode, prefill = (frozenset(line[name] for line in apart) for name in ("layout", "prefill_layout"))
        return KnownLayouts(together, decode, prefill)


def _is_of(line: Mapping[str, str], model: str) -> bool:
    return bare_name(line["model"], line["weights"]) == model


@cache
def runs() -> Runs:
    """The measured runs that come with the package."""
    with catalog.measured_files()["evidence"].open(encoding="utf-8", newline="") as stream:
        return Runs(tuple(csv.DictReader(stream)))
