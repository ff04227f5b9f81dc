"""Evidence for a predicted deployment: number and similarity of measured servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from inference_econ.engine.layouts.plans import has_experts
from inference_econ.engine.measured_corrections import KnownLayouts
from inference_econ.engine.setup import Setup
from inference_econ.inputs import HardwareSpec, ModelSpec, Precision, catalog
from inference_econ.inputs.options import rows
from inference_econ.inputs.units import integer

#: Similarity of the most similar measured servers to a deployment.
Kind = Literal["measured", "near", "model only"]
KINDS: tuple[Kind, ...] = ("measured", "near", "model only")


class Facts(NamedTuple):
    """Properties by which measured servers are compared with a deployment."""

    engine: str
    """Engine name, without the version."""
    model: str
    """Display name of the model, without the weight format."""
    weights: str
    """Number format of the weights, or of the experts for MoE models."""
    hardware: str
    """Display name of the GPU."""
    arrangement: tuple[str, bool]
    """``aggregated`` or ``disaggregated`` serving, and whether speculative decoding is used."""

    @classmethod
    def of(
        cls, engine: str, model: ModelSpec, precision: Precision, hardware: HardwareSpec, arrangement: tuple[str, bool]
    ) -> Facts:
        """Collect the compared properties of a deployment."""
        weights = precision.experts if has_experts(model) else precision.weights
        return cls(engine, bare_name(model.name, weights), weights, hardware.name, arrangement)


class Evidence(NamedTuple):
    """Number of similar measured servers, and how similar they are."""

    kind: Kind
    """``measured``: a measured server has the same engine, model, weight format, GPU and arrangement.

    ``near``: the most similar measured servers differ in exactly one of these properties. ``model only``: all measured
    servers differ in more properties.
    """
    runs: int = 0
    """Number of measured benchmark runs of servers with this similarity [1]."""

    @property
    def order(self) -> int:
        """Sort key of the kind: 0 for ``measured``, 1 for ``near``, 2 for ``model only``."""
        return KINDS.index(self.kind)

    @property
    def text(self) -> str:
        """Text of a table cell: the kind of evidence, and the number of runs if it is ``measured``.

        Examples
        --------
        >>> Evidence("measured", 44).text, Evidence("near", 3).text
        ('measured (44)', 'near')
        """
        return f"measured ({self.runs})" if self.kind == "measured" else self.kind

    def record(self) -> dict[str, object]:
        """Kind of evidence and number of runs as plain data."""
        return {"evidence": self.kind, "measured_runs": self.runs}


#: Evidence for deployments without any similar measurement.
NO_EVIDENCE = Evidence("model only")


def bare_name(model: str, weights: str) -> str:
    """Name of a model without its weight format.

    Examples
    --------
    >>> bare_name("DeepSeek-V3 NVFP4", "nvfp4")
    'DeepSeek-V3'
    """
    return model[: -len(weights) - 1] if model.lower().endswith(f" {weights}") else model


def evidence_of(setup: Setup, *, disaggregated: bool, speculates: bool) -> Evidence:
    """Evidence for a deployment of one engine; ``model only`` if the setup does not fix an engine.

    The measured runs are in ``scenarios/measured/evidence.csv``, a table of all measurements in the package.
    """
    arrangement = "disaggregated" if disaggregated else "aggregated", speculates
    engine = setup.engines[0].name if len(setup.engines) == 1 else ""
    return _evidence(Facts.of(engine, setup.model, setup.precision, setup.hardware, arrangement))


@cache
def _evidence(facts: Facts) -> Evidence:
    """Evidence for a deployment with given properties."""
    every = runs().by_facts
    if facts in every:
        return Evidence("measured", every[facts])
    near = sum(count for other, count in every.items() if sum(map(str.__ne__, map(str, facts), map(str, other))) == 1)
    return Evidence("near", near) if near else NO_EVIDENCE


@dataclass(frozen=True)
class Runs:
    """Measured benchmark runs of all servers in the package's data."""

    lines: Sequence[Mapping[str, str]]
    """Rows of the evidence table."""

    @cached_property
    def by_facts(self) -> Mapping[Facts, int]:
        """Number of benchmark runs by properties of the server [1]."""
        counts: Counter[Facts] = Counter()
        for line in self.lines:
            arrangement = line["arrangement"], line["speculates"] == "yes"
            name = bare_name(line["model"], line["weights"])
            counts[Facts(line["engine"], name, line["weights"], line["hardware"], arrangement)] += integer(line["runs"])
        return counts

    def engines(self, model: str, hardware: str) -> frozenset[str]:
        """Names of the engines that were measured with a model on a GPU."""
        return frozenset(facts.engine for facts in self.by_facts if (facts.model, facts.hardware) == (model, hardware))

    def layouts(self, model: str, hardware: str) -> KnownLayouts:
        """Layouts that were measured with a model on a GPU."""
        alike = [line for line in self.lines if line["hardware"] == hardware and _is_of(line, model)]
        apart = [line for line in alike if line["arrangement"] == "disaggregated"]
        together = frozenset(line["layout"] for line in alike if line not in apart)
        decode, prefill = (frozenset(line[name] for line in apart) for name in ("layout", "prefill_layout"))
        return KnownLayouts(together, decode, prefill)


def _is_of(line: Mapping[str, str], model: str) -> bool:
    return bare_name(line["model"], line["weights"]) == model


@cache
def runs() -> Runs:
    """Load the measured runs that are included in the package."""
    return Runs(tuple(rows(catalog.measured_files()["evidence"])))
