"""Inference of the sizes of a closed model: priors, sampled models with their frontiers, and the posterior."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from inference_econ import _work
from inference_econ._answer import Shown
from inference_econ._types import Array, Indices, Progress
from inference_econ.answers import layout_services
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.engine import Setup, Space, Speculation, error_spread
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.scenario_kinds import (
    ClosedModel,
    InferAsk,
    Lognormal,
    ObservedOffer,
    PriorFamily,
    Priors,
)
from inference_econ.inputs import (
    LEVELS,
    Dtype,
    ModelSpec,
    Name,
    ProposerName,
    Quantity,
    Requests,
    catalog,
    number,
    scaled,
)
from inference_econ.inputs.engine import profiles
from inference_econ.inputs.units import integer
from inference_econ.records.plain import attributes, records_of

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
    """Maximum number of chips per instance [1]."""


def points_of(case: Case) -> Array:
    """Compute the frontier of a case, and reduce it to :data:`POINTS` points.

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
        layouts = layout_services.offer(setup, requests, Space(max_accelerators=case.largest), proposer)
        return reduced(service_frontier([Candidate(layouts)], ends=False))
    except NothingFitsError:
        return np.full((POINTS, 4), np.nan)


def reduced(front: ServiceFrontier) -> Array:
    """Points of a frontier at equal speed ratios, interpolated on logarithmic scales."""
    speeds = np.log(front.tokens_per_second)
    places = np.linspace(speeds[0], speeds[-1], POINTS)
    chip_seconds = front.accelerators / front.requests_per_second
    kept = [np.interp(places, speeds, np.log(row)) for row in (chip_seconds, front.ttft_seconds, front.concurrency)]
    return np.stack([places, *kept], axis=-1)


@dataclass(frozen=True, slots=True)
class Surface:
    """Frontiers of a model family for one serving method, interpolated between computed model sizes.

    Attributes
    ----------
    axes : tuple of ndarray
        Axes: logarithm of parameters; for MoE families, logarithm of experts; with speculation, acceptance; and place
        on the frontier from 0 (cheapest) to 1 (fastest).
    values : ndarray, shape (.., POINTS, 4)
        Columns of :data:`SPEED` over the axes.
    """

    axes: tuple[Array, ...]
    values: Array

    def at(self, *places: Array) -> Array:
        """Interpolated values, shape (.., 4); ``places`` has one array of coordinates per axis, all of equal shape.

        Values are NaN next to a model size that does not fit in memory.
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
    """True if the method uses speculative decoding."""


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
        Priors, with families, sizes, chips and formats.
    """

    def __init__(self, priors: Priors) -> None:
        self.priors = priors
        self._known: dict[Case, Array] = {}

    def prepare(self, wanted: Iterable[Manner], progress: Progress | None = None) -> None:
        """Compute the frontiers that are missing in the shipped file.

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
        """Cases whose frontiers a surface interpolates, in the order of the axes of the surface."""
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
    """Logarithms of total and active parameters of the models at the grid points of a family.

    Returns
    -------
    tuple of ndarray
        Logarithms of total and active parameters, over all axes of a surface except the last.
    """
    models = [
        sized(family.model, size, count or None) for size in family.parameters for count in family.experts or (0,)
    ]
    shape = (len(family.parameters), len(family.experts)) if family.experts else (len(family.parameters),)
    sizes = ([model.total_parameters for model in models], [model.active_parameters for model in models])
    return tuple(np.log(np.array(sizes_of_kind, dtype=float)).reshape(shape) for sizes_of_kind in sizes)


#: Columns of the shipped table after the fields of :class:`Case`; each contains one number per frontier point.
KEPT = ("speed", "cost", "ttft", "flight")


@cache
def shipped_points() -> Mapping[Case, Array]:
    """Frontiers that are shipped for the priors in :file:`scenarios/assumptions/priors/usual.yaml`."""
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
    """Change the number of routed experts. The number of active experts is unchanged.

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


#: Number of frontier points considered for an offer, each with an acceptance rate [1]; a power of two.
_PLACES = 16
#: Seconds per hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Draws:
    """N models sampled from priors, each with C serving methods at M points of its frontier.

    Attributes
    ----------
    priors : Priors
        Priors of the models.
    families : tuple of str
        Names of the model families; ``family`` has indices into them.
    family : ndarray of int, shape (N,)
        Family of each model, as an index.
    common_price, common_speed : ndarray, shape (N,)
        Logarithms of a factor on prices, and of a factor on speeds, that all offers of a model share [1].
    total, active : ndarray, shape (N,)
        Total and active parameters of each model [1].
    manners : tuple of Manner
        The C serving methods.
    likely : ndarray, shape (C,)
        Prior probabilities of the serving methods [1].
    acceptance : ndarray, shape (M,)
        Acceptance rates for methods with speculation [1].
    speed, cost, ttft, flight : ndarray, shape (N, C, M)
        Logarithms of user speed [tokens/s], cost of a request [USD], time to first token [s], and concurrency per
        instance [1]. The cost assumes a full instance and the median hourly price. The time to first token excludes
        queueing and network. All values include a prediction error that is common to all offers of a model. NaN means
        that the model does not fit.
    """

    priors: Priors
    families: tuple[str, ...]
    family: Indices
    common_price: Array
    common_speed: Array
    total: Array
    active: Array
    manners: tuple[Manner, ...]
    likely: Array
    acceptance: Array
    speed: Array
    cost: Array
    ttft: Array
    flight: Array


def draw(priors: Priors, surfaces: Surfaces, wanted: Sequence[Manner], samples: int) -> Draws:
    """Sample models and compute their observable quantities.

    Parameters
    ----------
    priors : Priors
        Priors of the models.
    surfaces : Surfaces
        Frontiers of the priors, which must be prepared for ``wanted``.
    wanted : sequence of Manner
        Serving methods to evaluate.
    samples : int
        Number of models [1], rounded up to a power of two.

    Notes
    -----
    The draws are a Sobol sequence in seven dimensions: family, size, experts, quantiles of two cross-validated errors,
    and common factors of prices and of speeds. A second sequence, which all models share, determines the points on the
    frontier and the acceptance rates.
    """
    uniform = sobol(7, samples)
    names = tuple(name for name, family in priors.families.items() if family.probability > 0)
    shares = np.cumsum([priors.families[name].probability for name in names])
    family = np.searchsorted(shares / shares[-1], uniform[:, 0], side="right")
    place, chance = sobol(2, _PLACES).T
    low, high = priors.speculation.acceptance
    acceptance = low + (high - low) * chance
    likely = manners(priors)
    seen = np.full((len(uniform), len(wanted), _PLACES, 4), np.nan)
    total, active = np.empty(len(uniform)), np.empty(len(uniform))
    for index, name in enumerate(names):
        members, kind = np.flatnonzero(family == index), priors.families[name]
        where = [_between(kind.parameters, uniform[members, 1])]
        where += [_between(kind.experts, uniform[members, 2])] if kind.experts else []
        axes = tuple(np.log(nodes) for nodes in (kind.parameters, kind.experts) if nodes)
        sizes = (np.exp(Surface(axes, values).at(*where)) for values in counts(kind))
        total[members], active[members] = sizes
        for column, manner in enumerate(wanted):
            spots = [np.repeat(coordinates[:, None], _PLACES, axis=1) for coordinates in where]
            spots += [np.broadcast_to(acceptance, spots[0].shape)] if manner.speculates else []
            spots.append(np.broadcast_to(place, spots[0].shape))
            seen[members, column] = surfaces.of(kind, manner).at(*spots)
    dearer = _normal(priors.common_price, uniform[:, 5])
    faster = np.select(
        [family == index for index in range(len(names))],
        [_normal(priors.families[name].common_speed, uniform[:, 6]) for name in names],
    )
    for column, manner in enumerate(wanted):
        slower = _error(manner.chip, "tpot", uniform[:, 3])
        cheaper = _error(manner.chip, "throughput", uniform[:, 4])
        hour = math.log(priors.chips[manner.chip].hour_price / _HOUR)
        seen[:, column, :, SPEED] += (faster - slower)[:, None]
        seen[:, column, :, COST] += (hour + dearer - cheaper)[:, None]
    return Draws(
        priors,
        names,
        family,
        dearer,
        faster,
        total,
        active,
        tuple(wanted),
        np.array([likely[manner] for manner in wanted]),
        acceptance,
        *(seen[..., kept] for kept in (SPEED, COST, TTFT, FLIGHT)),
    )


def sobol(dimensions: int, points: int) -> Array:
    """Sobol points in the open unit cube, shape (n, dimensions), where n is the next power of two."""
    power = max(math.ceil(math.log2(points)), 0)
    return np.asarray(stats.qmc.Sobol(dimensions, scramble=False).random_base2(power) + 0.5 / 2**power)


def _between(nodes: Sequence[float], uniform: Array) -> Array:
    """Logarithms of log-uniform values between the first and the last node, at given quantiles."""
    low, high = math.log(nodes[0]), math.log(nodes[-1])
    return low + (high - low) * uniform


def _normal(quantity: Lognormal, uniform: Array) -> Array:
    """Logarithms of a quantity at given quantiles [1]."""
    return np.asarray(quantity.mean_log + quantity.sigma * stats.norm.ppf(uniform))


def _error(chip: str, quantity: Quantity, uniform: Array) -> Array:
    """ln(measured / predicted) at given quantiles for a model outside the fit [1]; 0 if unknown."""
    spread = spread_of(chip, quantity)
    return np.zeros_like(uniform) if spread is None else np.interp(uniform, LEVELS, spread)


@lru_cache(maxsize=64)
def spread_of(chip: str, quantity: Quantity) -> tuple[float, ...] | None:
    """Error quantiles of a chip's profile for models that were left out of the fit; None if unknown."""
    profile = profiles.assumed(None, catalog.hardware(chip), None)
    errors = {} if profile.calibration is None else profile.calibration.errors
    of_models = errors.get("model", {}).get(quantity)
    if of_models is not None:
        return tuple(of_models.quantiles)
    widest = error_spread(profile, quantity)
    return None if widest is None else tuple(widest.spread.quantiles)


def manners_on(priors: Priors, chip: str | None) -> tuple[Manner, ...]:
    """Serving methods on a given chip, or on any chip.

    Raises
    ------
    InputError
        If the priors do not contain the chip, or its probability is zero.
    """
    every = tuple(manners(priors))
    on_it = tuple(manner for manner in every if chip in (None, manner.chip))
    if not on_it:
        chips = ", ".join(dict.fromkeys(manner.chip for manner in every))
        raise InputError(
            f"the priors {priors.name!r} have no chip {chip!r}; known: {chips}; to add a chip, list it under 'chips' "
            "in your priors (--priors FILE), with its price per hour and its formats"
        )
    return on_it


#: Maximum distance of an observation from the nearest draw [standard deviations of its noise].
_REACH = 2.0
#: Distance between the 10% and 90% quantiles of a normal distribution [standard deviations].
_EIGHTY = 2.5631


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal distribution of the logarithm of a factor.

    Attributes
    ----------
    mean, sigma : float
        Mean and standard deviation [1].
    """

    mean: float
    sigma: float

    def log_density(self, values: Array) -> Array:
        """Log density of each value [1]."""
        return np.asarray(-0.5 * ((values - self.mean) / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(math.tau)))


def revenue(offer: ObservedOffer, priors: Priors) -> float:
    """Revenue of a request [USD]. A missing input or output price is derived from the other price."""
    ratio = priors.output_over_input.median
    first, then = offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens
    if then is None:
        assert first is not None
        then = first * ratio
    if first is None:
        first = then / ratio
    return (priors.isl * first + priors.osl * then) / 1e6


def markup(offer: ObservedOffer, priors: Priors) -> Normal:
    """Distribution of the ratio of revenue to cost of a request, for a full instance at the median hourly price."""
    over, used = priors.price_over_cost, priors.utilisation
    guessed = None in (offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens)
    parts = [over.sigma, used.sigma, math.log(priors.hour_price_spread)]
    return Normal(over.mean_log - used.mean_log, math.hypot(*parts, priors.output_over_input.sigma if guessed else 0.0))


def log_likelihood(draws: Draws, offer: ObservedOffer) -> Array:
    """Log likelihood of an offer for every sampled model, serving method and frontier point; shape (N, C, M) [1].

    The log likelihood is minus infinity if the model does not fit, or if the serving method uses another chip than the
    offer.
    """
    priors = draws.priors
    likely = np.where(np.isfinite(draws.speed), 0.0, -np.inf)
    if offer.hardware is not None:
        likely[:, [manner.chip != offer.hardware for manner in draws.manners]] = -np.inf
    if offer.tokens_per_second is not None:
        noise = Normal(0.0, math.log(priors.observed_speed))
        likely += noise.log_density(math.log(offer.tokens_per_second) - draws.speed)
    if offer.priced:
        likely += markup(offer, priors).log_density(math.log(revenue(offer, priors)) - draws.cost)
    if offer.ttft_seconds is not None:
        waits = np.log(np.exp(draws.ttft) + priors.network)
        noises = [_waiting(priors, manner.chip) for manner in draws.manners]
        off = math.log(offer.ttft_seconds) - waits
        likely += np.stack([noise.log_density(off[:, column]) for column, noise in enumerate(noises)], axis=1)
    return np.nan_to_num(likely, nan=-np.inf)


def _waiting(priors: Priors, chip: str) -> Normal:
    """Distribution of the ratio of observed to predicted time to first token: noise, and errors of the profile."""
    spread = spread_of(chip, "ttft")
    wide = 0.0 if spread is None else (spread[LEVELS.index(0.9)] - spread[LEVELS.index(0.1)]) / _EIGHTY
    return Normal(0.0, math.hypot(math.log(priors.observed_ttft), wide))


def manner_weights(draws: Draws, offer: ObservedOffer) -> Array:
    """Prior probabilities of the serving methods for an offer; shape (1, C, 1) [1]."""
    on_it = np.array([offer.hardware in (None, manner.chip) for manner in draws.manners])
    weights = np.where(on_it, draws.likely, 0.0)
    return np.asarray(weights / weights.sum() / draws.speed.shape[-1])[None, :, None]


def check_reach(draws: Draws, offer: ObservedOffer) -> None:
    """Reject observations that no sampled model explains.

    Raises
    ------
    InputError
        If no sampled model explains an observation; the message has the distance to the nearest sampled model.
    """
    priors = draws.priors
    on_it = [offer.hardware in (None, manner.chip) for manner in draws.manners]
    where = "" if offer.hardware is None else f" on {offer.hardware}"
    if not np.isfinite(draws.speed[:, on_it]).any():
        raise InputError(f"none of the models of the priors {priors.name!r} fits{where}; change their sizes or chips")
    if offer.tokens_per_second is not None:
        noise = Normal(0.0, math.log(priors.observed_speed))
        _within(offer.tokens_per_second, draws.speed[:, on_it], noise, ("{} tokens/s", "fastest", "slowest"), where)
    if offer.priced:
        bringing = ("${} per request (" + offer.words + ")", "dearest", "cheapest")
        _within(revenue(offer, priors), draws.cost[:, on_it], markup(offer, priors), bringing, where)
    if offer.ttft_seconds is not None:
        waits = np.log(np.exp(draws.ttft[:, on_it]) + priors.network)
        noise = Normal(0.0, max(_waiting(priors, manner.chip).sigma for manner in draws.manners))
        _within(offer.ttft_seconds, waits, noise, ("a first token after {} s", "latest", "soonest"), where)


def _within(value: float, logs: Array, noise: Normal, words: tuple[str, str, str], where: str) -> None:
    """Reject a value that noise cannot explain for any sampled model."""
    low, high = float(np.nanmin(logs)) + noise.mean, float(np.nanmax(logs)) + noise.mean
    text, most, least = words
    seen, slack = math.log(value), _REACH * noise.sigma
    for missed, end, name in ((seen - high - slack, high, most), (low - slack - seen, low, least)):
        if missed > 0:
            factor = math.exp(abs(seen - end))
            times = f"{factor:.2g} times" if end == high else f"1/{factor:.2g} of"
            raise InputError(
                f"{text.format(_rounded(value))} is {times} the {name} of any prior sample{where} "
                f"({_shown(text, end)}), "
                "further than what was seen can be off; check its unit, or widen the priors (--priors FILE)"
            )


def _shown(text: str, log: float) -> str:
    return text.partition(" (")[0].format(_rounded(math.exp(log)))


def _rounded(value: float) -> str:
    """Number with three significant digits as text."""
    return number(float(f"{value:.3g}"))


#: Quantiles of results: 80% interval and median [1].
QUANTILES = (0.1, 0.5, 0.9)
#: Number of posterior samples of the serving method per offer [1].
_SERVED = 4096
#: Maximum deficit of the log likelihood of an offer under the best common model [1]. An offer with a larger deficit is
#: not explained. The limit corresponds to 4.9 standard deviations.
_APART = 12.0


class CredibleInterval(NamedTuple):
    """Quantiles of 10, 50 and 90% of a quantity."""

    low: float
    """10% quantile [as the quantity]."""
    median: float
    """Median [as the quantity]."""
    high: float
    """90% quantile [as the quantity]."""

    def holds(self, value: float) -> bool:
        """Check whether a value is within the interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class ServedOffer:
    """Offer with its probable serving method.

    Attributes
    ----------
    offer : ObservedOffer
        Observations of the offer.
    stray : float
        See :attr:`Inferred.strays` [1].
    chips, formats : mapping of str to float
        Posterior probabilities of chips, and of weight formats [1].
    speculation : float
        Posterior probability of speculation [1].
    acceptance : CredibleInterval or None
        Acceptance rate if the offer uses speculation [1].
    in_flight : CredibleInterval
        Concurrency per instance [1].
    price_over_cost : CredibleInterval or None
        Ratio of the price of tokens to their cost, including idle time [1]; None without a price.
    hour_price : CredibleInterval or None
        Hourly price of the chip [USD/h]; None without a price.
    """

    offer: ObservedOffer
    stray: float
    chips: Mapping[str, float]
    formats: Mapping[str, float]
    speculation: float
    acceptance: CredibleInterval | None
    in_flight: CredibleInterval
    price_over_cost: CredibleInterval | None
    hour_price: CredibleInterval | None

    def record(self) -> dict[str, Any]:
        """Offer and its probable serving method, as plain data."""
        intervals = attributes(self, "acceptance in_flight price_over_cost hour_price")
        return {
            **self.offer.model_dump(exclude_none=True, exclude_unset=True),
            "stray": self.stray,
            "chips": dict(self.chips),
            "weights": dict(self.formats),
            "speculation": self.speculation,
            **{name: None if value is None else value._asdict() for name, value in intervals.items()},
        }


@dataclass(frozen=True, repr=False)
class Inferred(Shown):
    """Posterior of a closed model given its offers.

    Attributes
    ----------
    offers : tuple of ObservedOffer
        Observations of each offer.
    draws : Draws
        Models sampled from the priors.
    weights : ndarray, shape (N,)
        Posterior probability of each sampled model [1].
    strays : tuple of float
        Posterior probability that each offer is an outlier, because its price or speed contradicts the other offers
        [1].
    truth : ModelSpec or None
        Actual model, if known.
    """

    page = "extras.closed_models.page:InferencePage"

    offers: tuple[ObservedOffer, ...]
    draws: Draws
    weights: Array
    strays: tuple[float, ...]
    truth: ModelSpec | None = None

    @property
    def priors(self) -> Priors:
        """Priors from which the models were sampled."""
        return self.draws.priors

    @property
    def effective(self) -> float:
        """Effective sample size [1]."""
        return float(1.0 / np.sum(self.weights**2))

    @cached_property
    def total_parameters(self) -> CredibleInterval:
        """Posterior of total parameters [1]."""
        return interval(self.draws.total, self.weights)

    @cached_property
    def active_parameters(self) -> CredibleInterval:
        """Posterior of active parameters [1]."""
        return interval(self.draws.active, self.weights)

    @cached_property
    def served(self) -> tuple[ServedOffer, ...]:
        """Probable serving method of each offer."""
        pairs = zip(self.offers, self.strays, strict=True)
        return tuple(_served(self.draws, offer, self.weights, stray) for offer, stray in pairs)

    @property
    def families(self) -> dict[str, float]:
        """Posterior probabilities of the kinds of models [1]."""
        names = self.draws.families
        return {name: float(self.weights[self.draws.family == index].sum()) for index, name in enumerate(names)}

    def mean_of(self, probabilities: Callable[[ServedOffer], Mapping[str, float]]) -> dict[str, float]:
        """Probabilities averaged over the offers [1]."""
        by_offer = [probabilities(served) for served in self.served]
        names = dict.fromkeys(name for shares in by_offer for name in shares)
        return {name: sum(shares.get(name, 0.0) for shares in by_offer) / len(by_offer) for name in names}

    @property
    def manners(self) -> dict[str, dict[str, float]]:
        """Probabilities of chips, formats and speculation, averaged over the offers [1]."""
        return {
            "chips": self.mean_of(lambda served: served.chips),
            "weights": self.mean_of(lambda served: served.formats),
            "speculation": self.mean_of(lambda served: {"yes": served.speculation}),
        }

    def record(self) -> dict[str, Any]:
        """Sizes, families and serving methods as plain data, with the actual model if known."""
        record: dict[str, Any] = {
            "priors": self.priors.name,
            "samples": int(self.weights.size),
            "effective_samples": self.effective,
            "total_parameters": self.total_parameters._asdict(),
            "active_parameters": self.active_parameters._asdict(),
            "families": self.families,
            **self.manners,
            "speculation": self.manners["speculation"]["yes"],
            "offers": [served.record() for served in self.served],
        }
        if self.truth is not None:
            record["truth"] = {
                "model": self.truth.name,
                **attributes(self.truth, "total_parameters active_parameters"),
                "total_inside": self.total_parameters.holds(self.truth.total_parameters),
                "active_inside": self.active_parameters.holds(self.truth.active_parameters),
            }
        return record

    def records(self) -> list[dict[str, Any]]:
        """One record per sampled model, with its weight."""
        draws = self.draws
        return records_of(
            {
                "family": [draws.families[index] for index in draws.family],
                "total_parameters": draws.total,
                "active_parameters": draws.active,
                "weight": self.weights,
            }
        )


def interval(values: Array, weights: Array) -> CredibleInterval:
    """Weighted quantiles: smallest values that reach the cumulative weights."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(QUANTILES) * reached[-1])
    return CredibleInterval(*(float(values[order[place]]) for place in places))


def posterior(draws: Draws, offers: Sequence[ObservedOffer], truth: ModelSpec | None = None) -> Inferred:
    """Calculate the posterior of the draws given offers of one model.

    Parameters
    ----------
    draws : Draws
        Models sampled from the priors.
    offers : sequence of ObservedOffer
        Observations of each offer.
    truth : ModelSpec, optional
        Actual model, for comparison; the posterior does not depend on the actual model.

    Raises
    ------
    InputError
        If no sampled model explains an offer, or the offers contradict each other.

    Notes
    -----
    The method is importance sampling from the prior. The weight of a model is the product of the likelihoods of its
    offers, averaged over chips, formats, speculation and places on the frontier. With a small prior probability, an
    offer is an outlier (stray) that is unrelated to the model. The likelihood of an outlier is its mean over all
    sampled models.

    Offers of one model have more in common than the priors describe, such as workload, engine and the published format.
    Therefore n offers of a model have the weight of n / (1 + (n - 1) r) offers. This is the effective size of a sample
    with correlation r (Kish 1965, design effect of clusters).
    """
    for offer in offers:
        check_reach(draws, offer)
    # Log likelihood of each offer, averaged over serving methods and frontier points; shape (N,) [1].
    alone = [
        np.asarray(special.logsumexp(log_likelihood(draws, offer), axis=(1, 2), b=manner_weights(draws, offer)))
        for offer in offers
    ]
    logs = np.stack([_with_strays(likelihood, draws.priors.stray) for likelihood in alone])
    weights = special.softmax(logs.sum(axis=0) / (1.0 + (len(offers) - 1) * draws.priors.alike))
    strays = tuple(float(weights @ _stray(likelihood, draws.priors.stray)) for likelihood in alone)
    _check_agreement(offers, np.stack(alone), strays)
    return Inferred(tuple(offers), draws, weights, strays, truth)


def _evidence(likely: Array) -> float:
    """Logarithm of the mean likelihood of an offer over all draws [1]."""
    return float(special.logsumexp(likely) - math.log(likely.size))


def _with_strays(likely: Array, share: float) -> Array:
    """Log likelihoods of the sampled models, if a share of the offers are outliers."""
    return np.asarray(np.logaddexp(math.log1p(-share) + likely, math.log(share) + _evidence(likely)))


def _stray(likely: Array, share: float) -> Array:
    """Probability that an offer is an outlier, for each sampled model [1]."""
    return np.exp(math.log(share) + _evidence(likely) - _with_strays(likely, share))


def _check_agreement(offers: Sequence[ObservedOffer], likely: Array, strays: Sequence[float]) -> None:
    """Reject offers if at least half of them are outliers and no model explains all.

    Raises
    ------
    InputError
        If the offers contradict each other; the message names two offers that no sampled model explains together.
    """
    gone = np.array(strays) > 0.5
    if gone.sum() * 2 < len(offers) or len(offers) == 1:
        return
    best = int(np.argmax(likely.sum(axis=0)))
    missed = likely.max(axis=1) - likely[:, best]
    if missed.max() < _APART:
        return
    first = int(np.argmax(missed))
    apart = [float((likely[first] + row).max() - likely[first].max() - row.max()) for row in likely]
    second = int(np.argmin(apart))
    raise InputError(
        f"the offers contradict each other: no model of the priors explains both '{offers[first].words}' and "
        f"'{offers[second].words}' (the best one is {math.sqrt(-2.0 * apart[second]):.1f} standard deviations off); "
        "ask about them one by one, or widen the priors (--priors FILE)"
    )


def _served(draws: Draws, offer: ObservedOffer, weights: Array, stray: float) -> ServedOffer:
    """Probable serving method of an offer, from posterior samples."""
    likely = log_likelihood(draws, offer)
    flat = np.exp(likely - likely.max(axis=(1, 2), keepdims=True, initial=-700.0)) * manner_weights(draws, offer)
    sums = flat.sum(axis=(1, 2), keepdims=True)
    shares = weights[:, None, None] * flat / np.where(sums > 0, sums, 1.0)
    # Systematic sampling of indices in proportion to their shares.
    reached = np.cumsum(shares)
    steps = (np.arange(_SERVED) + 0.5) / _SERVED * reached[-1]
    chosen = np.minimum(np.searchsorted(reached, steps), shares.size - 1)
    model, column, place = np.unravel_index(chosen, shares.shape)
    manners = [draws.manners[index] for index in column]
    speculates = np.array([manner.speculates for manner in manners])
    hour = np.array([draws.priors.chips[manner.chip].hour_price for manner in manners])
    sold = _sold(draws, offer, draws.cost[model, column, place], hour)
    return ServedOffer(
        offer,
        stray,
        _shares(manner.chip for manner in manners),
        _shares(str(manner.weights) for manner in manners),
        float(speculates.mean()),
        _plain_interval(draws.acceptance[place[speculates]]) if speculates.any() else None,
        _plain_interval(np.exp(draws.flight[model, column, place])),
        *sold,
    )


def _sold(
    draws: Draws, offer: ObservedOffer, cost: Array, hour: Array
) -> tuple[CredibleInterval | None, CredibleInterval | None]:
    """Posterior of the ratio of price to cost, and of the hourly price.

    Both logarithms are normally distributed under the priors. Their sum is known for each sampled model, so their
    distributions given the sum are normal too.
    """
    if not offer.priced:
        return None, None
    priors, whole = draws.priors, markup(offer, draws.priors)
    surprise = math.log(revenue(offer, priors)) - cost - whole.mean
    # Both factors use the same evenly spread normal numbers, in two independent orders.
    normal = stats.norm.ppf((np.arange(len(cost)) * np.array([[0.6180339887498949], [0.7548776662466927]]) + 0.5) % 1.0)
    parts = []
    for mean, sigma, draw in (
        (priors.price_over_cost.mean_log, priors.price_over_cost.sigma, normal[0]),
        (0.0, math.log(priors.hour_price_spread), normal[1]),
    ):
        share = (sigma / whole.sigma) ** 2
        parts.append(np.exp(mean + share * surprise + sigma * math.sqrt(1.0 - share) * draw))
    return _plain_interval(parts[0]), _plain_interval(hour * parts[1])


def _plain_interval(values: Array) -> CredibleInterval:
    return CredibleInterval(*(float(value) for value in np.quantile(values, QUANTILES)))


def _shares(names: Iterable[str]) -> dict[str, float]:
    """Share of each name in ``names``, most frequent name first [1]."""
    distinct, times = np.unique(list(names), return_counts=True)
    return {str(distinct[index]): float(times[index] / times.sum()) for index in np.argsort(-times, kind="stable")}


#: Bins of a chart [1].
_BINS = 16


class Density(NamedTuple):
    """Prior and posterior probabilities of model sizes."""

    sizes: Array
    """Centers of logarithmic bins."""
    before: Array
    """Prior probability per factor of two [1]."""
    after: Array
    """Posterior probability per factor of two [1]."""


def density(values: Array, weights: Array) -> Density:
    """Histogram of positive values, with equal and with posterior weights."""
    logs = np.log2(values)
    edges = np.linspace(logs.min(), logs.max(), _BINS + 1)
    width = edges[1] - edges[0]
    before, after = (
        np.histogram(logs, edges, weights=masses)[0] / masses.sum() / width
        for masses in (np.ones_like(weights), weights)
    )
    return Density(2.0 ** ((edges[1:] + edges[:-1]) / 2.0), before, after)


class PriceBySpeed(NamedTuple):
    """Predicted token prices by user speed: quantiles of 10, 50 and 90%."""

    speeds: Array
    """User speeds [tokens/s]."""
    low: Array
    """10% quantile of the price [USD per 1e6 tokens of input and output]."""
    median: Array
    """Median price [USD per 1e6 tokens]."""
    high: Array
    """90% quantile of the price [USD per 1e6 tokens]."""


def price_by_speed(inferred: Inferred) -> PriceBySpeed:
    """Token price of the inferred model at every speed."""
    draws, priors = inferred.draws, inferred.priors
    weights = inferred.weights[:, None, None] * draws.likely[:, None] * np.ones_like(draws.speed)
    usable = np.isfinite(draws.speed) & (weights > weights.max() * 1e-6)
    speed, cost, weight = draws.speed[usable], draws.cost[usable], weights[usable]
    over = markup(inferred.offers[0], priors)
    noise = stats.norm.ppf((np.arange(cost.size) * 0.6180339887498949 + 0.5) % 1.0)
    price = np.exp(cost + over.mean + over.sigma * noise) * 1e6 / (priors.isl + priors.osl)
    ends = interval(speed, weight)
    edges = np.linspace(ends.low - math.log(2.0), ends.high + math.log(2.0), _BINS + 1)
    place = np.digitize(speed, edges)
    filled = [index for index in range(1, _BINS + 1) if (place == index).sum() > _BINS]
    quantiles = np.array([interval(price[place == index], weight[place == index]) for index in filled])
    middles = np.exp((edges[:-1] + edges[1:]) / 2.0)[np.array(filled) - 1]
    return PriceBySpeed(middles, *quantiles.T)


#: Default and largest number of drawn models [1].
SAMPLES, _MOST = 2048, 32_768


def infer(
    offers: Sequence[ObservedOffer | Mapping[str, object]],
    priors: Priors | str = "usual",
    *,
    samples: int = SAMPLES,
    truth: ModelSpec | Name | None = None,
    progress: Progress | None = None,
) -> Inferred:
    """Infer sizes, formats and margins of a closed model from observed offers.

    Parameters
    ----------
    offers : sequence of ObservedOffer or mapping
        Offers of one model, with observed prices, speed, time to first token, and the chip if known.
    priors : Priors or str
        Priors, or their name or path.
    samples : int
        Models sampled from the priors [1], from 64 to 32,768, rounded up to a power of two.
    truth : ModelSpec or name, optional
        Actual model, which is shown next to the result and does not change the result.
    progress : callable, optional
        Function that receives the completed share of the work [1] and a description.

    Returns
    -------
    Inferred
        Posterior intervals and probabilities.

    Raises
    ------
    InputError
        If there are no observations, the priors cannot explain an observation, the offers contradict each other, or the
        priors do not contain a chip.
    TooMuchError
        If the priors need too many new frontiers.

    Examples
    --------
    >>> from inference_econ.extras.closed_models.scenario_kinds import observed_offer
    >>> found = infer([observed_offer("input=0.9,output=0.9,speed=60")], samples=256)
    >>> found.active_parameters.low < 70e9 < found.active_parameters.high
    True
    """
    seen = [_observed(offer) for offer in offers]
    if not seen:
        raise InputError("nothing was observed; give at least one offer, for example input=3,output=15,speed=60")
    believed = scenario_kinds.priors(priors) if isinstance(priors, str) else priors
    true_model = truth if truth is None or isinstance(truth, ModelSpec) else catalog.model(truth)
    return posterior(drawn(believed, [offer.hardware for offer in seen], samples, progress=progress), seen, true_model)


def _observed(offer: ObservedOffer | Mapping[str, object]) -> ObservedOffer:
    if isinstance(offer, ObservedOffer):
        return offer
    if isinstance(offer, Mapping):
        return ObservedOffer.build(dict(offer), origin="offers")
    raise InputError(f"an offer is an ObservedOffer or a mapping of its fields, got {offer!r}")


def drawn(
    priors: Priors, chips: Sequence[str | None], samples: int = SAMPLES, *, progress: Progress | None = None
) -> Draws:
    """Sample models from priors, served on given chips (None for any chip).

    Raises
    ------
    InputError
        If the priors do not contain a chip, or the number of samples is out of range.
    """
    if not 64 <= samples <= _MOST:
        raise InputError(f"samples: from 64 to {_MOST:,} models can be drawn, got {samples:,}")
    names = [chip if chip is None else catalog.meaning("hardware", chip).name for chip in chips]
    wanted: tuple[Manner, ...] = tuple(dict.fromkeys(manner for name in names for manner in manners_on(priors, name)))
    surfaces = Surfaces(priors)
    surfaces.prepare(wanted, progress)
    return draw(priors, surfaces, wanted, samples)


def _offers(ask: InferAsk, model: ClosedModel) -> tuple[ObservedOffer, ...]:
    """Observed offers of one model of a scenario."""
    return (
        model.offers
        if model.recorded is None
        else scenario_kinds.recorded_offers(model.recorded, ask.date, ask.leave_out)
    )


def infer_all(ask: InferAsk, progress: Progress | None = None) -> list[Inferred]:
    """Infer every closed model of a scenario from the same sampled models.

    Raises
    ------
    InputError
        See :func:`infer`; the message names the model.
    """
    priors, answers = scenario_kinds.priors(ask.priors), []
    offers = [_offers(ask, model) for model in ask.models]
    chips = dict.fromkeys(offer.hardware for seen in offers for offer in seen)
    draws = drawn(priors, list(chips), ask.samples, progress=progress)
    for model, seen in zip(ask.models, offers, strict=True):
        try:
            answers.append(posterior(draws, seen, None if model.truth is None else catalog.model(model.truth)))
        except InputError as error:
            raise InputError(f"{model.label}: {error}") from error
    return answers
