"""Frontiers of models of many sizes, stored as a few points each, with interpolation between sizes."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Setup, Space, Speculation
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.closed_models.scenario_kinds import PriorFamily, Priors
from inference_econ.inputs import Dtype, ModelSpec, ProposerName, Requests, catalog, scaled
from inference_econ.inputs.units import integer

#: Number of stored points per frontier, from cheapest to fastest at equal speed ratios [1].
POINTS = 8
#: Columns of stored logarithms: user speed [tokens/s], chip-seconds per request [s], time to first token [s],
#: concurrency per instance [1].
SPEED, COST, TTFT, FLIGHT = range(4)
#: Typical time to compute a frontier [s].
_SECONDS = 0.15


class Case(NamedTuple):
    """Model, chip and requests for which a frontier is computed."""

    model: str
    """Name or path of the template model."""
    parameters: float
    """Parameters of the scaled model [1]."""
    experts: int
    """Number of experts per layer [1]; 0 for dense models."""
    chip: str
    """Chip, by catalog name."""
    weights: Dtype
    """Weight format."""
    proposer: ProposerName | None
    """Speculation method; None without speculation."""
    acceptance: float
    """Acceptance rate; 0 without speculation [1]."""
    draft_length: int
    """Maximum draft length; 0 without speculation [1]."""
    isl: float
    """Input length [tokens]."""
    osl: float
    """Output length [tokens]."""
    largest: int
    """Most chips per instance [1]."""


def points_of(case: Case) -> Array:
    """Compute a frontier as a few points.

    Parameters
    ----------
    case : Case
        Model, chip and requests.

    Returns
    -------
    ndarray, shape (POINTS, 4)
        Columns as in :data:`SPEED`; NaN if no layout fits.
    """
    try:
        model = sized(case.model, case.parameters, case.experts or None)
        setup = Setup.of(model, case.chip, weights=case.weights, price=1.0)
        requests = Requests.build({"isl": case.isl, "osl": case.osl}, origin="priors")
        proposer = None if case.proposer is None else Speculation.of(case.proposer, case.acceptance, case.draft_length)
        layouts = offer(setup, requests, Space(max_accelerators=case.largest), proposer)
        return reduced(service_frontier([Candidate(layouts)], ends=False))
    except NothingFitsError:
        return np.full((POINTS, 4), np.nan)


def reduced(front: ServiceFrontier) -> Array:
    """Points of a frontier at equal speed ratios, interpolated in logarithms."""
    speeds = np.log(front.tokens_per_second)
    places = np.linspace(speeds[0], speeds[-1], POINTS)
    chip_seconds = front.accelerators / front.requests_per_second
    kept = [np.interp(places, speeds, np.log(row)) for row in (chip_seconds, front.ttft_seconds, front.concurrency)]
    return np.stack([places, *kept], axis=-1)


@dataclass(frozen=True, slots=True)
class Surface:
    """Frontiers of a family on a chip in a format, interpolated between computed sizes.

    Attributes
    ----------
    axes : tuple of ndarray
        Axes: logarithm of parameters; for MoE families, logarithm of experts; with speculation, acceptance; and place
        on the frontier from 0 (cheapest) to 1 (fastest).
    values : ndarray, shape (.., POINTS, 4)
        Values over these axes.
    """

    axes: tuple[Array, ...]
    values: Array

    def at(self, *places: Array) -> Array:
        """Values at given places, shape (.., 4); one array of equal shape per axis.

        NaN next to sizes that do not fit.
        """
        from scipy.interpolate import RegularGridInterpolator

        return np.asarray(RegularGridInterpolator(self.axes, self.values)(np.stack(places, axis=-1)))


class Manner(NamedTuple):
    """Serving method of an offer: chip, weight format, and speculation."""

    chip: str
    """Chip, by catalog name."""
    weights: Dtype
    """Weight format."""
    speculates: bool
    """True with speculation."""


def manners(priors: Priors) -> dict[Manner, float]:
    """Possible serving methods, with their probabilities [1]."""
    chips = sum(chip.probability for chip in priors.chips.values())
    likely = {}
    for name, chip in priors.chips.items():
        for weights, weight in chip.weights.items():
            share = chip.probability / chips * weight / sum(chip.weights.values())
            for speculates in (False, True):
                proposed = priors.speculation.probability
                likely[Manner(name, weights, speculates)] = share * (proposed if speculates else 1.0 - proposed)
    return {manner: probability for manner, probability in likely.items() if probability > 0}


class Surfaces:
    """Interpolated frontiers of all families and serving methods, computed or read on first use.

    Parameters
    ----------
    priors : Priors
        Families, sizes, chips and formats.
    """

    def __init__(self, priors: Priors) -> None:
        self.priors = priors
        self._known: dict[Case, Array] = {}

    def prepare(self, wanted: Iterable[Manner], progress: Progress | None = None) -> None:
        """Compute the frontiers that the shipped file does not contain.

        Raises
        ------
        TooMuchError
            If the computation would take too long.
        """
        families = [family for family in self.priors.families.values() if family.probability > 0]
        cases = {case for manner in wanted for family in families for case in self.cases(family, manner)}
        shipped = shipped_points()
        self._known |= {case: shipped[case] for case in cases if case in shipped}
        missing = sorted(cases - self._known.keys(), key=str)
        _work.check(
            f"{len(missing)} frontiers",
            seconds=_SECONDS * len(missing),
            smaller="the chips, formats or sizes of the priors",
        )
        for index, case in enumerate(missing):
            if progress is not None:
                progress(index / len(missing), f"frontiers of models from {case.model}")
            self._known[case] = points_of(case)

    def of(self, family: PriorFamily, manner: Manner) -> Surface:
        """Interpolated frontiers of a family for one serving method."""
        accepted = self.priors.speculation.acceptance if manner.speculates else None
        axes = [np.log(family.parameters)]
        axes += [np.log(family.experts)] if family.experts else []
        axes += [np.array(accepted)] if accepted else []
        axes.append(np.linspace(0.0, 1.0, POINTS))
        values = np.stack([self._known[case] for case in self.cases(family, manner)])
        return Surface(tuple(axes), values.reshape(*(len(axis) for axis in axes), 4))

    def cases(self, family: PriorFamily, manner: Manner) -> list[Case]:
        """Frontiers that a surface needs, in the order of its axes."""
        priors, speculation = self.priors, self.priors.speculation
        accepted: Sequence[float] = speculation.acceptance if manner.speculates else (0.0,)
        return [
            Case(
                family.model,
                float(parameters),
                experts,
                manner.chip,
                manner.weights,
                speculation.proposer if manner.speculates else None,
                float(acceptance),
                speculation.draft_length if manner.speculates else 0,
                float(priors.isl),
                float(priors.osl),
                priors.max_instance_gpus,
            )
            for parameters, experts, acceptance in itertools.product(
                family.parameters, family.experts or (0,), accepted
            )
        ]


def counts(family: PriorFamily) -> tuple[Array, ...]:
    """Sizes of the models at the nodes of a family.

    Returns
    -------
    tuple of ndarray
        Logarithms of total and active parameters, over the axes of a surface without the last.
    """
    models = [
        sized(family.model, size, count or None) for size in family.parameters for count in family.experts or (0,)
    ]
    shape = (len(family.parameters), len(family.experts)) if family.experts else (len(family.parameters),)
    sizes = ([model.total_parameters for model in models], [model.active_parameters for model in models])
    return tuple(np.log(np.array(sizes_of_kind, dtype=float)).reshape(shape) for sizes_of_kind in sizes)


#: Columns of the shipped table that follow those of :class:`Case`; each has a number per point.
KEPT = ("speed", "cost", "ttft", "flight")


@cache
def shipped_points() -> Mapping[Case, Array]:
    """Shipped frontiers, for :file:`scenarios/assumptions/priors/usual.yaml`."""
    path = catalog.folder("assumptions") / "priors" / "frontiers.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return dict(_entry(row) for row in csv.DictReader(stream))


def _entry(row: Mapping[str, str]) -> tuple[Case, Array]:
    columns = [np.array([float(text) for text in row[name].split()]) for name in KEPT]
    if not columns[SPEED].size:
        return _case(row), np.full((POINTS, 4), np.nan)
    slowest, fastest = columns[SPEED]
    return _case(row), np.stack([np.linspace(slowest, fastest, POINTS), *columns[1:]], axis=-1)


def _case(row: Mapping[str, str]) -> Case:
    fields: dict[str, Any] = {name: row[name] or None for name in ("model", "chip", "weights", "proposer")}
    fields |= {name: float(row[name]) for name in ("parameters", "acceptance", "isl", "osl")}
    fields |= {name: integer(row[name]) for name in ("experts", "draft_length", "largest")}
    return Case(**fields)


@lru_cache(maxsize=256)
def sized(name: str, parameters: float, experts: int | None = None) -> ModelSpec:
    """Scale a known model to another size.

    Parameters
    ----------
    name : str
        Name or path of the known model.
    parameters : float
        Approximate number of parameters [1]; embeddings do not scale exactly.
    experts : int, optional
        Routed experts per layer [1]; by default as in the known model.

    Returns
    -------
    ModelSpec
        Model whose dimensions divide over chips; the known model itself if the sizes are equal.

    Raises
    ------
    InputError
        If the model is unknown or cannot be scaled, or if a number of experts is given for a dense model or is too
        small.

    Examples
    --------
    >>> sized("deepseek_v3", catalog.model("deepseek_v3").total_parameters, 256) == catalog.model("deepseek_v3")
    True
    """
    template = catalog.model(name)
    spread = template if experts is None else with_experts(template, experts)
    return scaled(spread, parameters / spread.total_parameters)


def with_experts(model: ModelSpec, experts: int) -> ModelSpec:
    """Change the number of routed experts; the number of active ones is unchanged.

    Parameters
    ----------
    model : ModelSpec
        MoE model.
    experts : int
        Experts of every MoE layer [1].

    Raises
    ------
    InputError
        If the model is dense, or has more active experts than ``experts``.
    """
    mixtures = model.mixtures
    if not mixtures:
        raise InputError(f"{model.name} has no experts; remove 'experts', or name a MoE model")
    active = max(part.active_experts for part in mixtures)
    if experts < active:
        raise InputError(f"{model.name} works with {active} experts per token, and {experts} are fewer")
    if all(part.experts == experts for part in mixtures):
        return model
    blocks = tuple(
        block.model_copy(update={"feed_forward": block.feed_forward.model_copy(update={"experts": experts})})
        if block.feed_forward.routed_experts
        else block
        for block in model.blocks
    )
    return model.replace(name=f"{model.name} of {experts} experts", blocks=blocks)
