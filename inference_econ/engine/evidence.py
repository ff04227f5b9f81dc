"""Measured evidence of a deployment, and the setup of an engine that the query leaves open.

Expected step times of an engine that was not measured with a model on a GPU are derived from other engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.engine.measured_corrections import KnownLayouts, SetupLevels
from inference_econ.engine.memory import weight_bytes
from inference_econ.engine.prefill import prefill
from inference_econ.engine.setup import Setup, changed, real_changes, with_usual_cache, without_exceptions
from inference_econ.engine.step import step_seconds
from inference_econ.engine.uncertainty import changed_values
from inference_econ.errors import InputError
from inference_econ.inputs import (
    Assumptions,
    HardwareSpec,
    ModelSpec,
    Precision,
    ServingEngine,
    catalog,
    check_dtype,
    engines_for,
    lacks,
    with_engine,
)
from inference_econ.inputs.engine import profiles
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
        return cls(engine, bare_name(model.known_as, weights), weights, hardware.name, arrangement)


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

    The measured runs are in ``scenarios/measured/evidence.csv``, a table of all measurements in the package. A model or
    GPU with values changed by what-ifs was not measured.
    """
    arrangement = "disaggregated" if disaggregated else "aggregated", speculates
    engine = setup.engines[0].name if len(setup.engines) == 1 else ""
    facts = Facts.of(engine, setup.model, setup.precision, setup.hardware, arrangement)
    if changed_values(setup.model):
        facts = facts._replace(model=f"{facts.model} (changed)")
    if changed_values(setup.hardware):
        facts = facts._replace(hardware=f"{facts.hardware} (changed)")
    return _evidence(facts)


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
        lines = (line for line in self.lines if line["hardware"] == hardware)
        alike = [line for line in lines if bare_name(line["model"], line["weights"]) == model]
        apart = [line for line in alike if line["arrangement"] == "disaggregated"]
        together = frozenset(line["layout"] for line in alike if line not in apart)
        decode, prefill = (frozenset(line[name] for line in apart) for name in ("layout", "prefill_layout"))
        return KnownLayouts(together, decode, prefill)


@cache
def runs() -> Runs:
    """Load the measured runs that are included in the package."""
    return Runs(tuple(rows(catalog.measured_files()["evidence"])))


#: Weight of the geometric mean of all engines in the expected step time [1]; the engine's own prediction has the
#: remaining weight.
#:
#: Predicted differences between engines without measurements are unreliable. In 89 pairs of servers that were left out
#: of the fits, measured differences (ln) have a standard deviation of 0.46. Predicted differences have a standard
#: deviation of 0.31, and the correlation is 0.26. The regression of measured on predicted differences has a slope of
#: 0.47, so about half of a predicted difference is real.
PULL = 0.5
#: ln of the factor on step times in layouts that were not measured with any engine [1]. The factor applies if other
#: layouts of the model were measured on the GPU. The key is True if the engine was measured with the model on the GPU.
#:
#: The values are based on the fixed servers in docs/evidence/costs.md. In unmeasured layouts, predicted costs were
#: below measured costs, by a median of 16 % if the engine was measured and of 30 to 50 % if not. In measured layouts,
#: predicted costs were unbiased. A 1 % longer step raises the cost of a token at equal speed by about 1.7 %.
UNKNOWN_LAYOUT = {True: 0.1, False: 0.25}
#: Batches [1], and context and prompt length [tokens], at which step times of engines are compared.
_BATCHES, _TOKENS = (8.0, 64.0), 2000.0


def opinions_of(engine: ServingEngine, hardware: HardwareSpec, changes: tuple[str, ...] = ()) -> Assumptions:
    """Assumptions for an engine on a GPU: the engine's profile, with the engine's settings and the query's changes."""
    given = profiles.for_hardware(hardware, engine.name, changes=changes)
    if not changes:
        return _opinions(given, engine, hardware, ())
    fields = real_changes(changes, given, opinions_of(engine, hardware).for_chip(hardware))
    return _opinions(profiles.for_hardware(hardware, engine.name, changes=fields), engine, hardware, fields)


@by_identity
def _opinions(
    profile: Assumptions, engine: ServingEngine, hardware: HardwareSpec, changes: tuple[str, ...]
) -> Assumptions:
    """Profile with settings and changes; the same object for equal arguments, since caches compare identities."""
    return with_engine(without_exceptions(profile, changes), engine.facts, hardware, changed(changes))


def expected(setup: Setup) -> Setup:
    """Correct the step times of a setup with one engine to their expected values.

    Parameters
    ----------
    setup : Setup
        Setup of one engine, under its own profile.

    Returns
    -------
    Setup
        Setup with up to two corrections. First, steps in layouts without measurements take longer if other servers of
        the model on the GPU were measured; see :data:`UNKNOWN_LAYOUT`. Second, if the engine itself was not measured,
        its step times move toward the geometric mean of all engines that support the model, with the weight
        :data:`PULL`. Both corrections apply to decode and prefill. The second correction does not apply to speculation
        rounds, because engines support different speculation methods.
    """
    left = setup.left_open
    if left is None or len(setup.engines) != 1 or setup.assumptions != left.assumptions:
        return setup
    engine = setup.engines[0].name
    weights = setup.precision.experts if has_experts(setup.model) else setup.precision.weights
    subject = bare_name(setup.model.known_as, weights), setup.hardware.name
    engines = runs().engines(*subject)
    measured = engine in engines
    levels = setup.levels or SetupLevels(engine, None, (), (), (), weights)
    if engines:
        levels = replace(levels, known=runs().layouts(*subject), unknown=UNKNOWN_LAYOUT[measured])
        setup = replace(setup, levels=levels)
    if measured:
        return setup
    precision = replace(setup.precision, kv=setup.precision.activations)
    times = _times(_Question(setup.model, setup.hardware, precision, left.changes))
    if len(times) < 2 or engine not in times:
        return setup
    decode, reading = (PULL * (np.mean(list(times.values()), axis=0) - times[engine])).tolist()
    return replace(setup, levels=replace(levels, pull=(decode, reading)))


class _Question(NamedTuple):
    """Model, GPU and formats for which step times of engines are compared.

    The hash uses the identity of the specification objects, which is faster than a hash of their contents.
    """

    model: ModelSpec
    hardware: HardwareSpec
    precision: Precision
    changes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash((id(self.model), id(self.hardware), self.precision, self.changes))


@lru_cache(maxsize=256)
def _times(question: _Question) -> Mapping[str, Array]:
    """Mean of ln(step time) over common layouts and batches, by engine; shape (2,) for decode and prefill [1]."""
    model, hardware, precision, changes = question
    least = weight_bytes(model, precision) / hardware.hbm_bytes
    sizes = [size for size in (1.0, 2.0, 4.0, 8.0) if size > least] or [16.0]
    chips, batches = (axis.ravel() for axis in np.meshgrid(sizes, _BATCHES))
    plans = Plans.of(chips, batches, np.ones(chips.size))
    times: dict[str, Array] = {}
    with catalog.uncopied():
        for engine in engines_for(model, hardware, precision):
            setup = Setup(
                model, hardware, precision, _TOKENS, opinions_of(engine, hardware, changes), engines=(engine,)
            ).with_corrections(engine.name, engine.version)
            steps = np.minimum.reduce(step_seconds(setup, plans))
            reads = prefill(setup, plans, _TOKENS).seconds
            times[engine.name] = np.array([np.log(steps).mean(), np.log(reads).mean()])
    return times


def has_recipes(setup: Setup) -> bool:
    """True if published recipes of engines apply to a setup, which is only the case under the default profiles."""
    return setup.left_open is not None and setup.left_open.assumptions == setup.assumptions


def lacks_engine(setup: Setup) -> bool:
    """True if no known engine can run the model on the chip in these formats.

    The result is False for the published study, which assumes no engine.
    """
    idle = setup.assumptions.layout.attention_groups == "idle"
    return not setup.engines and not idle and not engines_for(setup.model, setup.hardware, setup.precision)


def with_cache(setup: Setup, kv: str | None) -> Setup:
    """Return the setup with the KV-cache format of a recipe, if the query does not set a format.

    If the recipe has no cache format (None), the format of the activations is used.

    Raises
    ------
    InputError
        If the chip or an engine does not support the format.
    """
    kv = kv or setup.precision.activations
    if setup.left_open is None or not setup.left_open.cache or kv == setup.precision.kv:
        return setup
    check_dtype(kv, "kv")
    precision = replace(setup.precision, kv=kv)
    missing = [lacks(engine, setup.model, setup.hardware, precision) for engine in setup.engines]
    if any(missing):
        raise InputError(str(missing[0]))
    return replace(setup, precision=precision)


def for_engine(setup: Setup, engine: ServingEngine) -> Setup:
    """Return the setup for one engine.

    The returned setup has the engine's profile and KV-cache format, and only layouts that the engine can start. If the
    setup allows all layouts, only its profile changes.

    Raises
    ------
    InputError
        If a change of an input (``assumptions.FIELD=VALUE``) in the setup is invalid.
    """
    left = setup.left_open
    if left is None:
        return setup
    if not left.engine:
        return expected(setup)
    able = (engine,) if setup.engines else ()
    precision = setup.precision
    if left.cache:
        precision = with_usual_cache(precision, able, setup.model, setup.hardware)
    opinions = opinions_of(engine, setup.hardware, left.changes)
    run = replace(setup, assumptions=opinions, engines=able, precision=precision)
    run = run.with_corrections(engine.name, engine.version)
    return expected(replace(run, left_open=replace(left, engine=False, assumptions=run.assumptions)))
