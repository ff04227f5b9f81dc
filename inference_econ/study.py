"""Answer one question: from names and settings to frontiers, with the sources they rest on (floor 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inference_econ import catalog, economics, frontier, memory, plans
from inference_econ.engine import Question, StepCosts, evaluate, useful_flop_per_token
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto, roofline
from inference_econ.frontier import Frontier, Progress, Sampling
from inference_econ.serving import Chosen, Draft, fastest
from inference_econ.spec.assumptions import Assumptions, TensorLayout
from inference_econ.spec.hardware import HardwareSpec
from inference_econ.spec.model import ModelSpec
from inference_econ.spec.scenario import (
    FrontierAsk,
    GridName,
    Scenario,
    Series,
    Settings,
    SquareRootAsk,
    ToyAsk,
)
from inference_econ.spec.source import Source
from inference_econ.spec.traffic import Traffic
from inference_econ.work import Precision

Array = npt.NDArray[np.float64]

#: What a question assumes where neither the caller nor a scenario says.
DEFAULTS = Settings(grid="whole", pipeline=True, isl=2000, osl=500, acceptance=0.8, max_draft=5)
#: The preset that goes with a grid where none is named.
PRESETS: Mapping[GridName, str] = {"whole": "deployable", "paper": "paper"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One labelled frontier of points, slowest first.

    Attributes
    ----------
    label : str
        What the legend says.
    tokens_per_second, dollars, accelerators, batch : ndarray, shape (n,)
        Speed [tokens/s], cost [USD per 1e6 tokens], instance [1], sequences [1].
    frontier : Frontier or None
        Where it comes from; None for the toy model.
    """

    label: str
    tokens_per_second: Array
    dollars: Array
    accelerators: Array
    batch: Array
    frontier: Frontier | None = None

    def preferred_index(self, exponent: float) -> int:
        """The point that maximises speed^exponent / cost (eq. 45)."""
        return int(np.argmax(money.preference(self.tokens_per_second, self.dollars, exponent)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Published latencies beside the square-root law.

    Attributes
    ----------
    labels : tuple of str
        Models.
    parameters, measured, predicted : ndarray, shape (n,)
        Parameters [1] and seconds per token [s].
    """

    labels: tuple[str, ...]
    parameters: Array
    measured: Array
    predicted: Array


@dataclass(frozen=True, slots=True)
class UsedSource:
    """One source that a result rests on."""

    file: str
    """Which specification: its kind and name."""
    field: str
    """Which field of it."""
    source: Source
    """Where the field comes from."""

    def record(self) -> dict[str, str]:
        """Plain data, for JSON."""
        return {
            "file": self.file,
            "field": self.field,
            "ref": self.source.ref,
            "where": self.source.where,
            "kind": self.source.kind,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a scenario.

    Attributes
    ----------
    scenario : Scenario
        The question.
    curves : tuple of Curve
        One per series; a single point each for the closed-form toy model.
    comparison : Comparison or None
        For the square-root law.
    panels : tuple of Result
        For figures that show other scenarios side by side.
    sources : tuple of UsedSource
        What the numbers rest on.
    """

    scenario: Scenario
    curves: tuple[Curve, ...] = ()
    comparison: Comparison | None = None
    panels: tuple[Result, ...] = ()
    sources: tuple[UsedSource, ...] = ()


def run(scenario: Scenario | str, *, progress: Progress | None = None) -> Result:
    """Answer a scenario.

    Parameters
    ----------
    scenario : Scenario or str
        Or its name or path.
    progress : callable, optional
        Told the share of the work done, and what is being done.

    Returns
    -------
    Result
        Curves, comparison or panels, by the kind of question.

    Raises
    ------
    InputError
        If a name or setting cannot be used.
    NothingFitsError
        If a series has no feasible plan.
    """
    spec = catalog.scenario(scenario) if isinstance(scenario, str) else scenario
    ask = spec.ask
    if isinstance(ask, SquareRootAsk):
        return Result(spec, comparison=_square_root(ask), sources=_own_sources(spec))
    if isinstance(ask, (FrontierAsk, ToyAsk)):
        curves = []
        for index, series in enumerate(ask.series):
            if progress is not None:
                progress(index / len(ask.series), series.label)
            settings = series.settings.over(ask.common)
            curves.append(_curve(series, settings) if isinstance(ask, FrontierAsk) else _toy(ask, series, settings))
        used = dict.fromkeys(
            found for curve in curves if curve.frontier is not None for found in sources(curve.frontier)
        )
        return Result(spec, tuple(curves), sources=(*used, *_own_sources(spec)))
    panels = tuple(run(name, progress=progress) for name in ask.scenarios)
    return Result(spec, panels=panels, sources=tuple(dict.fromkeys(s for panel in panels for s in panel.sources)))


def ask_frontier(settings: Settings, *, progress: Progress | None = None) -> Frontier:
    """The frontier that some settings describe; what they leave out is :data:`DEFAULTS`."""
    filled = _with_defaults(settings)
    hardware = _hardware(filled)
    traffic = Traffic(
        context=filled.context, isl=filled.isl, osl=filled.osl, max_tokens_per_second=filled.max_tokens_per_second
    )
    draft = None
    if filled.draft is not None:
        assert filled.acceptance is not None and filled.max_draft is not None
        draft = DraftModel(catalog.model(filled.draft), filled.acceptance, filled.max_draft)
    assert filled.grid is not None and filled.pipeline is not None
    sampling = None if filled.sampling is None else Sampling(filled.sampling.points, filled.sampling.decades)
    return solve(
        _model(filled),
        hardware,
        traffic,
        assumptions=catalog.assumptions(
            filled.assumptions or PRESETS[filled.grid], changes=_changes(filled, "assumptions")
        ),
        weights=filled.weights,
        activations=filled.activations,
        kv=filled.kv,
        price=filled.price,
        grid=filled.grid,
        pipeline=filled.pipeline,
        draft=draft,
        max_accelerators=filled.max_accelerators,
        sampling=sampling,
        progress=progress,
    )


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A draft model and how good it is.

    Attributes
    ----------
    model : ModelSpec
        Proposes tokens, in its published number formats.
    acceptance : float
        Probability that a proposed token is accepted [1].
    longest : int
        Longest draft [tokens].
    """

    model: ModelSpec
    acceptance: float = 0.8
    longest: int = 5


def solve(
    model: ModelSpec | str,
    hardware: HardwareSpec | str,
    traffic: Traffic,
    *,
    assumptions: Assumptions | str | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    price: float | None = None,
    grid: GridName = "whole",
    pipeline: bool = True,
    draft: DraftModel | None = None,
    max_accelerators: float | None = None,
    sampling: Sampling | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The cost-speed frontier of a model on a chip (``inference_econ.frontier``).

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    traffic : Traffic
        Lengths, and demand if it is limited.
    assumptions : Assumptions, name or path, optional
        Opinions; by default ``deployable`` for whole numbers, ``paper`` for the study's grid.
    weights, activations, kv : str, optional
        Number formats; published ones and 16 bits by default.
    price : float, optional
        Of one accelerator [USD/h]; by default the first price of its file.
    grid : {'whole', 'paper'}
        Whole-number instances and layouts, or the published study's logarithmic grid.
    pipeline : bool
        Try pipeline depths other than 1.
    draft : DraftModel, optional
        Speculate with it where it helps.
    max_accelerators : float, optional
        Largest instance [1].
    sampling : Sampling, optional
        Only what a logarithmic scan visits, as in the published study; exact by default.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Frontier
        Slowest and cheapest point first.

    Raises
    ------
    InputError
        If a name, format, price or limit cannot be used.
    NothingFitsError
        If no plan of the grid is feasible, with the counts of the reasons.
    """
    opinions = assumptions or PRESETS[grid]
    question = ask(
        model, hardware, traffic.mean_context, assumptions=opinions, weights=weights, activations=activations, kv=kv
    )
    rate = economics.price(question.hardware).dollars_per_accelerator_hour if price is None else price
    if not rate > 0 or not np.isfinite(rate):
        raise InputError(f"the price must be a positive number of USD per hour, got {rate:g}")
    proposing = None
    if draft is not None:
        helper = ask(draft.model, question.hardware, traffic.mean_context, assumptions=opinions)
        proposing = Draft(helper, draft.acceptance, draft.longest)
    return frontier.compute(
        question,
        make_grid(question, grid, pipeline=pipeline, largest=max_accelerators),
        rate,
        draft=proposing,
        max_tokens_per_second=traffic.max_tokens_per_second,
        sampling=sampling,
        progress=progress,
    )


def ask(
    model: ModelSpec | str,
    hardware: HardwareSpec | str,
    context: float,
    *,
    assumptions: Assumptions | str = "paper",
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
) -> Question:
    """A question from specs or names.

    Raises
    ------
    InputError
        If a name or number format cannot be used, or the context is negative or not finite.
    """
    if not context >= 0 or not np.isfinite(context):
        raise InputError(f"the context must be a number of tokens from 0 on, got {context:g}")
    served = catalog.model(model) if isinstance(model, str) else model
    chip = catalog.hardware(hardware) if isinstance(hardware, str) else hardware
    opinions = catalog.assumptions(assumptions) if isinstance(assumptions, str) else assumptions
    return Question.of(served, chip, Precision.of(served, weights, activations, kv), context, opinions)


def make_grid(
    question: Question, grid: GridName, *, pipeline: bool, largest: float | None = None
) -> plans.Grid:
    """The grid of instances for a question.

    Raises
    ------
    NothingFitsError
        If the largest instance allowed cannot hold the weights.
    """
    smallest = memory.weight_bytes(question.model, question.precision) / question.hardware.hbm_bytes
    if largest is not None and largest < smallest:
        raise NothingFitsError(
            f"nothing fits: {question.model.name} ({question.precision.weights}) needs "
            f"{smallest * question.hardware.hbm_bytes / 1e9:.1f} GB for its weights, at least {int(np.ceil(smallest))} "
            f"accelerators of {question.hardware.hbm_bytes / 1e9:.1f} GB ({question.hardware.name}); "
            f"at most {largest:g} are allowed"
        )
    if grid == "whole":
        return plans.whole_grid(smallest, pipeline=pipeline, largest=None if largest is None else int(largest))
    return plans.paper_grid(smallest, sparsity(question), pipeline=pipeline, largest=largest)


def sparsity(question: Question) -> float:
    """Largest ratio of experts to active experts in the model, as the assumptions count it [1]."""
    found = [1.0]
    for block in question.model.blocks:
        if block.feed_forward.kind == "experts":
            exact = block.feed_forward.experts / block.feed_forward.active_experts
            found.append(float(np.floor(exact)) if question.assumptions.expert_sparsity == "floor" else exact)
    return max(found)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One step of one deployment, taken apart.

    Attributes
    ----------
    question : Question
        What, on what, how.
    layout : dict
        Degrees under the names that people use.
    batch : float
        Sequences decoded together [1].
    costs : StepCosts
        Seconds by part, arrays of shape (1,).
    memory : Memory
        What is needed and available [B].
    dollars : float or None
        Cost [USD per 1e6 tokens]; None without a price.
    """

    question: Question
    layout: Mapping[str, float | str]
    batch: float
    costs: StepCosts
    memory: memory.Memory
    dollars: float | None

    @property
    def accelerators(self) -> float:
        """Chips of the deployment [1]."""
        return float(self.layout["tp"]) * float(self.layout["pp"])

    @property
    def seconds(self) -> float:
        """Time of the step [s]."""
        return float(self.costs.seconds[0])

    @property
    def tokens_per_second(self) -> float:
        """Speed of one user [tokens/s]."""
        return 1.0 / self.seconds

    @property
    def limited_by(self) -> str:
        """The largest part of the step."""
        return max(self.costs.parts, key=lambda name: float(self.costs.parts[name][0]))

    @property
    def mfu(self) -> float:
        """Useful arithmetic over the theoretical peak [1]."""
        peak = self.question.hardware.dense_flops_per_second[self.question.unit(self.question.precision.weights)]  # type: ignore[index]
        return useful_flop_per_token(self.question) * self.batch / (self.accelerators * peak * self.seconds)

    @property
    def title(self) -> str:
        """Model and hardware in one line."""
        return f"One decode step of {self.question.model.name} on {self.accelerators:g} x {self.question.hardware.name}"


def explain(
    model: ModelSpec | str,
    hardware: HardwareSpec | str,
    *,
    tp: int,
    pp: int = 1,
    ep: int | None = None,
    batch: float = 1,
    context: float = 0.0,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    cut: TensorLayout = "1d",
    assumptions: Assumptions | str = "deployable",
    price: float | None = None,
) -> Explanation:
    """Take one decode step of one deployment apart.

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    tp, pp : int
        Accelerators per pipeline stage, and stages [1].
    ep : int, optional
        Expert-parallel ranks of a stage [1]; as many as possible if not given.
    batch : float
        Sequences decoded together [1].
    context : float
        Tokens in the cache of each sequence [tokens].
    weights, activations, kv : str, optional
        Number formats.
    cut : {'1d', '2d'}
        How weight matrices are cut.
    assumptions : Assumptions, name or path
        Opinions.
    price : float, optional
        Of one accelerator [USD/h]; by default the first of its file, if there is one.

    Returns
    -------
    Explanation
        With the costs of the step and the memory it needs.

    Raises
    ------
    InputError
        If a degree does not divide what it must, or a name or number cannot be used.
    NothingFitsError
        If the deployment does not fit in memory.
    """
    question = ask(
        model, hardware, context, assumptions=assumptions, weights=weights, activations=activations, kv=kv
    )
    for name, value in (("tp", tp), ("pp", pp), ("ep", 1 if ep is None else ep), ("batch", batch)):
        if not value > 0 or not np.isfinite(value):
            raise InputError(f"{name} must be positive, got {value:g}")
    deployment = _deployment(question, tp, pp, ep, batch)
    _check_divisible(question, deployment, cut)
    needed = question.memory(deployment)
    code = int(np.ravel(question.reasons(deployment, cut))[0])
    if code != memory.FITS:
        raise NothingFitsError(_does_not_fit(question, needed, code, tp * pp))
    costs = evaluate(question, deployment, cut)
    if price is None and question.hardware.prices:
        price = economics.price(question.hardware).dollars_per_accelerator_hour
    dollars = None
    if price is not None:
        dollars = float(money.dollars_per_million_tokens(tp * pp, float(costs.seconds[0]), batch, price))
    layout = frontier.layout_record(Chosen(deployment, cut))
    return Explanation(question, layout, float(batch), costs, needed, dollars)


def _deployment(question: Question, tp: int, pp: int, ep: int | None, batch: float) -> plans.Plans:
    spread = 1 if not plans.has_experts(question.model) else ep
    if spread is None:
        experts = min(
            block.feed_forward.experts for block in question.model.blocks if block.feed_forward.kind == "experts"
        )
        spread = max(ranks for ranks in range(1, tp + 1) if tp % ranks == 0 and experts % ranks == 0)
    elif ep is not None and ep > 1 and not plans.has_experts(question.model):
        raise InputError(f"{question.model.name} has no experts, so ep must be 1, got {ep}")
    one = np.ones(1)
    return plans.Plans(one * tp * pp, one * batch, one * pp, one * tp, one * spread, whole=True)


def _check_divisible(question: Question, deployment: plans.Plans, cut: TensorLayout) -> None:
    for problem, where in plans.indivisible(question.model, deployment, cut):
        if np.any(where):
            degrees = f"tp={deployment.attention_ranks[0]:g}, pp={deployment.pp[0]:g}"
            if deployment.ep is not None and plans.has_experts(question.model):
                degrees += f", ep={deployment.ep[0]:g}"
            raise InputError(f"{question.model.name}: {problem} ({degrees})")


def _does_not_fit(question: Question, needed: memory.Memory, code: int, accelerators: int) -> str:
    total = needed.weight_bytes + float(np.ravel(needed.kv_bytes)[0])
    available = float(np.ravel(needed.available_bytes)[0])
    smallest = int(np.ceil(total / question.hardware.hbm_bytes))
    message = f"{question.model.name} on {accelerators} x {question.hardware.name}: {memory.REASONS[code]}"
    if code in (memory.WEIGHTS, memory.CACHE):
        message += (
            f": {needed.weight_bytes / 1e9:.1f} GB of weights and {(total - needed.weight_bytes) / 1e9:.1f} GB of KV "
            f"cache > {available / 1e9:.1f} GB; at least {smallest} accelerators would do"
        )
    return message


def best_step_seconds(
    model: ModelSpec | str,
    hardware: HardwareSpec | str,
    accelerators: npt.ArrayLike,
    batch: npt.ArrayLike,
    *,
    context: float,
    new_tokens: int = 1,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    assumptions: Assumptions | str = "paper",
    pipeline: bool = False,
) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
    """Seconds of one decode step in the fastest layout of each instance.

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    accelerators, batch : array_like
        Instance sizes and sequences [1], positive; fractions allowed; broadcast to a common shape (...).
    context : float
        Tokens in the cache of each sequence [tokens].
    new_tokens : int
        Tokens per sequence and step [1]: more than 1 when a draft is verified.
    weights, activations, kv : str, optional
        Number formats.
    assumptions : Assumptions, name or path
        Opinions.
    pipeline : bool
        Try pipeline depths other than 1.

    Returns
    -------
    numpy.ma.MaskedArray, shape (...)
        [s]; infeasible instances are masked.

    Raises
    ------
    InputError
        If a name, format or number cannot be used.

    Examples
    --------
    >>> best_step_seconds("paper/llama_3_70b", "paper/h100", [1, 8], 16, context=0).round(5)
    masked_array(data=[--, 0.01217],
                 mask=[ True, False],
           fill_value=1e+20)
    """
    if new_tokens < 1:
        raise InputError(f"new_tokens must be at least 1, got {new_tokens}")
    question = ask(
        model, hardware, context, assumptions=assumptions, weights=weights, activations=activations, kv=kv
    )
    try:
        sizes, batches = np.broadcast_arrays(*(np.asarray(axis, dtype=float) for axis in (accelerators, batch)))
    except ValueError as error:
        raise InputError(f"accelerators and batch must be numbers that broadcast to one shape: {error}") from error
    for name, values in (("accelerators", sizes), ("batch", batches)):
        if not np.all((values > 0) & np.isfinite(values)):
            raise InputError(f"{name} must be positive and finite")
    found = fastest(
        question, sizes.ravel(), batches.ravel(), plans.ContinuousLayouts(pipeline), new_tokens=new_tokens
    ).seconds.reshape(sizes.shape)
    return np.ma.masked_array(found, mask=~np.isfinite(found))


def sources(front: Frontier) -> tuple[UsedSource, ...]:
    """Every source that a frontier rests on."""
    question = front.question
    unused = {"year", "watts", "link_bytes_per_second_both_ways", "max_context"}
    specs = [("model", question.model), ("hardware", question.hardware), ("assumptions", question.assumptions)]
    if front.draft is not None:
        specs.append(("draft model", front.draft.question.model))
    found = [
        UsedSource(f"{kind}: {spec.name}", field, source)
        for kind, spec in specs
        for field, source in spec.sources.items()
        if field not in unused
    ]
    for listed in question.hardware.prices:
        if listed.dollars_per_accelerator_hour == front.dollars_per_accelerator_hour:
            where = f"{listed.where} ({listed.kind}, {listed.date})"
            source = Source(ref=listed.ref, where=where, kind="published")
            found.append(UsedSource(f"hardware: {question.hardware.name}", "prices", source))
            break
    else:
        source = Source(ref="user", where=f"{front.dollars_per_accelerator_hour:g} USD/h", kind="assumed")
        found.append(UsedSource("price", "dollars_per_accelerator_hour", source))
    return tuple(found)


def _own_sources(spec: Scenario) -> tuple[UsedSource, ...]:
    return tuple(UsedSource(f"scenario: {spec.name}", field, source) for field, source in spec.sources.items())


def _with_defaults(settings: Settings) -> Settings:
    """Settings with the defaults; a given context replaces the default lengths."""
    filled = settings.over(DEFAULTS)
    return filled if settings.context is None else filled.replace(isl=None, osl=None)


def _changes(settings: Settings, kind: str) -> tuple[str, ...]:
    prefix = f"{kind}."
    return tuple(change.removeprefix(prefix) for change in settings.changes if change.startswith(prefix))


def _model(settings: Settings) -> ModelSpec:
    if settings.model is None:
        raise InputError("a series needs a model")
    return catalog.model(settings.model, changes=_changes(settings, "model"))


def _hardware(settings: Settings) -> HardwareSpec:
    if settings.hardware is None:
        raise InputError("a series needs hardware")
    return catalog.hardware(settings.hardware, changes=_changes(settings, "hardware"))


@lru_cache(maxsize=256)
def _cached_frontier(settings: Settings) -> Frontier:
    """Tables and figures share series; each is computed once."""
    return ask_frontier(settings)


def _curve(series: Series, settings: Settings) -> Curve:
    front = _cached_frontier(settings)
    return Curve(series.label, front.tokens_per_second, front.dollars, front.accelerators, front.batch, front)


def _toy(ask_toy: ToyAsk, series: Series, settings: Settings) -> Curve:
    """The toy model of section 2.2 for one series."""
    filled = _with_defaults(settings)
    question = ask(
        _model(filled),
        _hardware(filled),
        filled.context or 0.0,
        assumptions=catalog.assumptions(filled.assumptions or "paper", changes=_changes(filled, "assumptions")),
        weights=filled.weights,
    )
    price = filled.price or economics.price(question.hardware).dollars_per_accelerator_hour
    width = memory.weight_bytes(question.model, question.precision) / question.model.total_parameters
    if ask_toy.kind == "toy_optimum":
        best = roofline.toy_minimum_latency(
            question.model.total_parameters,
            question.model.layers,
            bytes_per_parameter=width,
            bytes_per_second=question.hardware.hbm_bytes_per_second,
            reductions=ask_toy.reductions,
            hop_seconds=ask_toy.hop,
        )
        batch = roofline.critical_batch(
            width, question.hardware.hbm_bytes_per_second, question.flops_per_second(question.precision.weights)
        )
        dollars = money.dollars_per_million_tokens(best.accelerators, best.seconds, batch, price)
        return Curve(series.label, *(np.atleast_1d(v) for v in (1 / best.seconds, dollars, best.accelerators, batch)))
    sizes, batches = make_grid(question, "paper", pipeline=False).pairs()
    seconds = roofline.toy_latency(
        question.model.total_parameters,
        question.model.layers,
        sizes,
        batches,
        bytes_per_parameter=width,
        bytes_per_second=question.bytes_per_second,
        flops_per_second=question.flops_per_second(question.precision.weights),
        reductions=ask_toy.reductions,
        hop_seconds=ask_toy.hop,
        base_seconds=ask_toy.base,
    )
    return _toy_curve(series.label, question, filled, sizes, batches, seconds, price)


def _toy_curve(
    label: str, question: Question, settings: Settings, sizes: Array, batches: Array, seconds: Array, price: float
) -> Curve:
    fits = question.memory(plans.Plans.of(sizes, batches, np.ones((1, 1)))).fits
    if settings.max_tokens_per_second is not None:
        fits = fits & (batches <= settings.max_tokens_per_second * seconds)
    sizes, batches = (np.broadcast_to(axis, seconds.shape)[fits] for axis in (sizes, batches))
    seconds = seconds[fits]
    dollars = money.dollars_per_million_tokens(sizes, seconds, batches, price)
    best = pareto.undominated(seconds, dollars)
    if settings.sampling is not None:
        best = best[pareto.sampled(seconds[best], settings.sampling.points, settings.sampling.decades)]
    best = best[::-1]
    return Curve(label, 1.0 / seconds[best], dollars[best], sizes[best], batches[best])


def _square_root(law: SquareRootAsk) -> Comparison:
    parameters = np.array([float(one.parameters) for one in law.measured])
    measured = np.array([one.latency for one in law.measured])
    predicted = roofline.square_root_law(parameters, parameters[0], measured[0])
    return Comparison(tuple(one.label for one in law.measured), parameters, measured, predicted)


def checked_changes(changes: Iterable[str]) -> tuple[str, ...]:
    """What-ifs as a scenario holds them; see :func:`split_changes` for the errors."""
    found = tuple(changes)
    split_changes(found)
    return found


def split_changes(changes: Iterable[str]) -> Mapping[str, list[str]]:
    """Sort what-ifs (``hardware.hbm_bytes=...``) by the specification they change.

    Raises
    ------
    InputError
        If one names no specification.
    """
    sorted_changes: dict[str, list[str]] = {"model": [], "hardware": [], "assumptions": []}
    for change in changes:
        kind, dot, rest = change.partition(".")
        if kind not in sorted_changes or not dot:
            raise InputError(
                f"--set {change!r}: write hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE"
            )
        sorted_changes[kind].append(rest)
    return sorted_changes
