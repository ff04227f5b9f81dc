"""Claims of publications: published values, predictions under each basis, and verdicts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.explain import Explanation, explain, stepped
from inference_econ.answers.settings import setup_of
from inference_econ.engine import (
    Collective,
    Network,
    Pins,
    Setup,
    Speculation,
    collective_seconds,
    evaluate,
    instance_pins,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers import latent_attention
from inference_econ.extras.papers import runahead_formulas as formulas
from inference_econ.extras.papers.claim_kinds import (
    AllReduceReading,
    AttentionReading,
    Basis,
    BasisSpec,
    ChainReading,
    Claim,
    ClaimsAsk,
    Exponent,
    FrontierReading,
    Measure,
    PoolsReading,
    Published,
    Reading,
    RoundReading,
    SquareRootReading,
    StepReading,
    ToyReading,
    Value,
)
from inference_econ.extras.papers.kv_runahead import layer_work
from inference_econ.extras.papers.runahead_formulas import LayerWork, ProcessRates
from inference_econ.extras.papers.toy import bytes_per_parameter
from inference_econ.formulas import money, roofline
from inference_econ.inputs import BYTES_PER_ELEMENT, FrontierAsk, Scenario, Settings, catalog, with_defaults
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records, spec_sources
from inference_econ.search import Frontier
from inference_econ.search.fastest import fastest
from inference_econ.studies.results import AnyFrontier, Study
from inference_econ.studies.settings import shared_frontier

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun

#: Descriptions of the bases.
BASES: Mapping[Basis, str] = {
    "paper": "published constants (preset of Erdil 2025, or constants fitted to KV-Runahead)",
    "today": "the fitted profiles",
}
#: Relative rounding tolerance [1].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """Claim with its predictions.

    Attributes
    ----------
    seed : str
        Title of the publication.
    claim : Claim
        Claim with its published value.
    ours : mapping of str to float
        Predictions by basis (settings of the published study, or of today), where available.
    missing : mapping of str to str
        Reasons for missing predictions, by basis.
    """

    seed: str
    claim: Claim
    ours: Mapping[Basis, float]
    missing: Mapping[Basis, str]

    def holds(self, basis: Basis) -> bool | None:
        """Check whether the claim is true under a basis; None if the claim has no prediction under this basis."""
        if basis not in self.claim.bases:
            return None
        return basis in self.ours and met(self.ours[basis], self.claim.published, self.claim.tolerance)

    @property
    def verdict(self) -> str:
        """Verdict as text."""
        answers = {basis: self.holds(basis) for basis in self.claim.bases}
        kept = [basis for basis, holds in answers.items() if holds]
        if len(kept) == len(answers):
            return "holds"
        return f"holds only under {' and '.join(kept)}" if kept else "does not hold"

    def record(self) -> dict[str, object]:
        """Claim, published value and predictions as plain data."""
        claim = self.claim
        return {
            "id": claim.id,
            "seed": self.seed,
            **attributes(claim, "claim where unit"),
            "published": {
                name: None if text is None else float(text)
                for name, text in attributes(claim.published, "value at_least at_most").items()
            },
            "tolerance": claim.tolerance,
            **{basis: self.ours.get(basis) for basis in BASES},
            **{f"{basis}_holds": self.holds(basis) for basis in BASES},
            "verdict": self.verdict,
            "why": claim.why,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Ledger(Study):
    """Claims with predictions.

    Attributes
    ----------
    findings : tuple of Finding
        Claims with predictions, grouped by publication.
    sources : tuple of UsedSource
        Sources of published values and settings.
    """

    page = "extras.papers.claims_page:ClaimsPage"

    findings: tuple[Finding, ...]
    sources: tuple[UsedSource, ...] = ()

    def __getitem__(self, name: str) -> Finding:
        """Look up a claim by id."""
        return next(finding for finding in self.findings if finding.claim.id == name)

    def record(self) -> dict[str, object]:
        """One record per claim, and the sources."""
        return {"claims": self.records(), "sources": source_records(self.sources)}

    def records(self) -> list[dict[str, object]]:
        """One record per claim."""
        return [finding.record() for finding in self.findings]


def met(ours: float, published: Published, tolerance: float) -> bool:
    """Check whether a number equals the published value, or is within its bounds, up to a tolerance.

    Examples
    --------
    >>> met(3.69, Published(value="4.0"), 0.05), met(3.69, Published(at_least="3", at_most="5"), 0.0)
    (False, True)
    """
    low, high = published.bounds
    share = tolerance + _ROUNDING
    return low * (1.0 - share) <= ours <= high * (1.0 + share)


#: Thresholds of the rule in section 7.2 of the summary: lengths [tokens] and a bandwidth [B/s].
_SHORT, _MIDDLE, _LONG, _SLOW = 1000, 4000, 8000, 1e9

#: Maximum ratio of two times that are treated as equal [1].
_AS_FAST = 1.01


def picked(prompt: float, link: float) -> int:
    """Number of processes that the rule in section 7.2 of the KV-Runahead summary selects: 0 means one, 1 two, 2 many.

    Parameters
    ----------
    prompt : float
        Prompt length [tokens].
    link : float
        Bandwidth between processes, one way [B/s].

    Examples
    --------
    >>> picked(500, 1e10), picked(2000, 5e8), picked(2000, 1e10), picked(16384, 1e8)
    (0, 0, 1, 2)
    """
    if prompt < _SHORT or (prompt < _MIDDLE and link < _SLOW):
        return 0
    return 1 if prompt < _LONG else 2


@lru_cache(maxsize=256)
def _loss(work: LayerWork, machine: ProcessRates, prompt: float, choices: tuple[int, ...]) -> float:
    """Time with the number of processes that the rule selects, over the time with the best number [1]."""
    times = [_seconds(work, machine, prompt, processes) for processes in choices]
    return times[picked(prompt, machine.link_bytes_per_second)] / min(times)


def _machine(reading: ChainReading, link: float, rate: float | None) -> ProcessRates:
    return ProcessRates(rate or reading.matmul, rate or reading.attention, reading.overhead, link, reading.latency)


def _seconds(work: LayerWork, machine: ProcessRates, prompt: float, processes: int) -> float:
    """Time to first token with an optimized partition of the prompt [s]."""
    if processes == 1:
        return float(formulas.single_seconds(work, machine, prompt))
    parts = formulas.searched_partition(work, machine, prompt, processes)
    return float(formulas.chain_seconds(work, machine, parts))


#: Share of the common speed range in which cost ratios are computed [1]. Near the end of this range, one frontier ends,
#: so ratios are not meaningful.
_WITHIN = 0.8
#: Number of speeds at which cost ratios are computed [1].
_SPEEDS = 200


def read(reading: Reading, basis: BasisSpec) -> float:
    """Compute one quantity with the settings of one basis: the published preset, or the profiles of today.

    Parameters
    ----------
    reading : Reading
        Quantity to compute.
    basis : BasisSpec
        Default settings, and replacement names of models and chips.

    Returns
    -------
    float
        Quantity in base units.

    Raises
    ------
    InputError
        If a name or setting is invalid, or the quantity does not exist.
    NothingFitsError
        If no deployment fits.
    """
    own = getattr(reading, "settings", Settings())
    if isinstance(reading, FrontierReading) and reading.series is not None:
        own = own.over(_of_series(*reading.series))
    # Missing settings are those of the basis, which may also replace names.
    merged = own.over(basis.settings)
    named = {
        field: basis.names.get(name, name)
        for field in ("model", "hardware", "draft")
        if (name := getattr(merged, field)) is not None
    }
    return _READERS[type(reading)](reading, merged.replace(**named))


def _of_series(name: str, label: str) -> Settings:
    """Settings of one series of a frontier scenario."""
    ask = catalog.scenario(name).ask
    series = (
        {series.label: series.settings.over(ask.common) for series in ask.series}
        if isinstance(ask, FrontierAsk)
        else {}
    )
    if label not in series:
        raise InputError(f"{name} has no series {label!r}; series: {', '.join(series) or 'none'}")
    return series[label]


def _of_frontier(reading: FrontierReading, settings: Settings) -> float:
    front = shared_frontier(settings)
    index = _place(reading, front)
    speed, dollars = front.axes()
    if reading.read == "speed":
        return float(speed[index])
    if reading.read == "cost":
        return float(dollars[index])
    if reading.read == "chips":
        return float(front.accelerators[index])
    if reading.read in ("power", "joules"):
        return float(front.metric(reading.read)[index])
    if not isinstance(front, Frontier):
        raise InputError(f"{reading.read} is known of decode steps only; add decode_only: true")
    if reading.read == "balance":
        # Ratio of arithmetic to memory time at one point of a frontier without speculation.
        setup, at = front.setup, [index]
        best = fastest(setup, front.accelerators[at], front.batch[at], front.grid.layouts)
        cut = setup.assumptions.layout.tensor_layouts[int(best.cut[0])]
        busy = {name: float(np.ravel(part)[0]) for name, part in evaluate(setup, best.plans, cut).busy.items()}
        compute = busy.pop("compute")
        return compute / sum(busy.values())
    if reading.read == "share":
        return _share(front.point(index).parts, reading.parts)
    return float((front.batch if reading.read == "batch" else front.mfu)[index])


def _place(reading: FrontierReading, front: AnyFrontier) -> int:
    """Index of the selected point of a frontier."""
    speeds, dollars = front.axes()
    if reading.share_of_fastest is not None:
        return int(np.searchsorted(speeds, reading.share_of_fastest * speeds[-1]))
    if reading.speed is not None:
        if reading.speed > speeds[-1]:
            raise InputError(f"nothing is as fast as {reading.speed:g} tokens/s; the fastest {speeds[-1]:.3g}")
        return int(np.searchsorted(speeds, reading.speed))
    most = reading.cost if reading.times_cheapest is None else reading.times_cheapest * float(dollars[0])
    if most is None:
        return {"fastest": -1, "cheapest": 0, "preferred": front.preferred_index()}[reading.at]
    index = int(np.searchsorted(dollars, most, side="right")) - 1
    if index < 0:
        raise InputError(f"nothing costs {most:g} dollars or less per million tokens; the cheapest {dollars[0]:.3g}")
    return index


def _of_toy(reading: ToyReading, settings: Settings) -> float:
    setup = setup_of(with_defaults(settings))
    width, bandwidth = bytes_per_parameter(setup), setup.hardware.hbm_bytes_per_second
    model, rate = setup.model, setup.rates.flops_per_second(setup.precision.weights)
    network = roofline.ToyNetwork(reading.reductions, reading.hop)
    toy = roofline.ToyModel(model.total_parameters, model.layers, width, bandwidth, network=network)
    best = roofline.toy_minimum_latency(toy)
    if reading.read == "asymptotic_speed":
        return 1.0 / float(roofline.toy_asymptotic_latency(toy))
    if reading.read in ("speed", "chips"):
        return 1.0 / float(best.seconds) if reading.read == "speed" else float(best.accelerators)
    batch = roofline.critical_batch(width, bandwidth, rate)
    alone = 2.0 * model.total_parameters * batch / rate
    chips, seconds = (best.accelerators, best.seconds) if reading.read == "cost" else (1.0, alone)
    return float(money.dollars_per_million_tokens(chips, seconds, batch, setup.dollars_per_accelerator_hour))


def _of_square_root(reading: SquareRootReading, _: Settings) -> float:
    parameters, reference = (float(catalog.model(name).total_parameters) for name in (reading.model, reading.reference))
    return 1.0 / float(roofline.square_root_law(parameters, reference, 1.0 / reading.speed))


def _of_step(reading: StepReading, settings: Settings) -> float:
    if reading.verified is not None:
        filled, setup, pins = _deployed(settings)
        served, deployment = stepped(setup, pins, context=filled.context)
        return float(evaluate(served, deployment.verifying(int(reading.verified)), "1d").seconds[0])
    step = _explained(reading.prompt, settings)
    if reading.read == "seconds":
        return step.seconds
    if reading.read == "utilization":
        return step.mfu
    if reading.read == "share":
        return _share({name: float(part[0]) for name, part in step.costs.parts.items()}, reading.parts)
    rows = [row for row in step.operators if not reading.rows or row.name in reading.rows]
    if not rows:
        raise InputError(f"no row of the step is called {', '.join(reading.rows)}; rows: {_names(step)}")
    if reading.read == "intensity":
        return sum(row.flop for row in rows) / sum(row.moved_bytes for row in rows)
    return sum(row.compute_seconds for row in rows) / sum(row.memory_seconds for row in rows)


def _names(step: Explanation) -> str:
    return ", ".join(dict.fromkeys(row.name for row in step.operators))


def _share(seconds: Mapping[str, float], parts: tuple[str, ...]) -> float:
    """Share of the given parts in the time of a step."""
    odd = next((name for name in parts if name not in seconds), None)
    if odd is not None:
        raise InputError(f"{odd!r} is not a part of a step; parts: {', '.join(seconds)}")
    return sum(seconds[name] for name in parts) / sum(seconds.values())


@lru_cache(maxsize=64)
def _explained(prompt: float | None, settings: Settings) -> Explanation:
    filled, setup, pins = _deployed(settings)
    return explain(setup, pins, context=filled.context, prompt=prompt)


def _deployed(settings: Settings) -> tuple[Settings, Setup, Pins]:
    """Deployment that the settings determine; missing parallelism degrees are 1."""
    filled = with_defaults(settings)
    degrees = {name: getattr(filled, name) for name in ("tp", "pp", "dp", "ep")}
    return filled, setup_of(filled), instance_pins(degrees, filled.instance_gpus, batch=filled.batch)


def _of_attention(reading: AttentionReading, settings: Settings) -> float:
    filled = with_defaults(settings)
    how, batch = reading.implementation, filled.batch or 1.0
    if reading.implementation != "absorbed":
        change = f"assumptions.attention.latent={latent_attention.VARIANTS[how]}"
        filled = filled.replace(changes=(*filled.changes, change))
    setup = setup_of(filled)
    context, layers = filled.context or 0.0, setup.model.layers
    if reading.read == "cache_bytes":
        return batch * latent_attention.cache_bytes(setup, context)
    if reading.read == "read_dollars":
        seconds = latent_attention.cache_bytes(setup, context) / setup.hardware.hbm_bytes_per_second
        return float(money.dollars_per_million_tokens(1.0, seconds, 1.0, setup.dollars_per_accelerator_hour))
    if reading.read == "overtakes":
        return latent_attention.flop(setup, 0.0) / latent_attention.of_a_token(setup)[1]
    if reading.read in ("token_cache_bytes", "layer_cache_bytes"):
        share = layers if reading.read == "layer_cache_bytes" else 1
        return latent_attention.of_a_token(setup)[0] / share
    if reading.read == "layer_flop":
        return latent_attention.of_a_token(setup)[1] / layers
    alone = replace(setup, model=latent_attention.attention_alone(setup.model), context=context)
    plans = latent_attention.unpiped_plans(1, 1, 1, batch)
    if not latent_attention.fits(alone, plans, how):
        raise InputError(f"one layer with {batch:g} sequences of {context:g} tokens does not fit")
    timed = latent_attention.layer_seconds if reading.read == "layer_seconds" else latent_attention.layer_bytes
    return timed(alone, plans, how)


def _of_all_reduce(reading: AllReduceReading, settings: Settings) -> float:
    setup = setup_of(with_defaults(settings))
    ranks = np.array([float(reading.ranks)])
    domains = np.ceil(ranks / setup.hardware.link_domain)
    summed = Collective("all_reduce", ranks, domains, np.array([reading.size / reading.ranks]))
    network = Network.of(setup.hardware, setup.assumptions.network)
    return float(collective_seconds(network, summed, np.ones(1))[0])


def _of_round(reading: RoundReading, settings: Settings) -> float:
    serving = setup_of(with_defaults(settings)).assumptions.serving
    proposed = Speculation.of("ngram", float(reading.acceptance), reading.drafted)
    return float(proposed.tokens(serving)[-1])


def _of_pools(reading: PoolsReading, settings: Settings) -> float:
    together, apart = (shared_frontier(settings.replace(arrangement=way)) for way in ("aggregated", "disaggregated"))
    assert isinstance(together, ServiceFrontier) and isinstance(apart, ServiceFrontier)
    slowest, fastest_both = (
        pick(together.tokens_per_second[end], apart.tokens_per_second[end]) for pick, end in ((max, 0), (min, -1))
    )
    speeds = np.linspace(slowest, max(slowest, _WITHIN * fastest_both), _SPEEDS)
    gains = together.dollars_at(speeds) / apart.dollars_at(speeds)
    return float(np.median(gains) if reading.read == "median" else gains.max())


def _of_chain(reading: ChainReading, settings: Settings) -> float:
    """Quantity of a prefill chain. The GPU of the settings, if any, replaces the arithmetic rates of the reading."""
    if settings.model is None:
        raise InputError("a chain needs a model in its settings")
    rate = None if settings.hardware is None else setup_of(with_defaults(settings)).rates.flops_per_second("bf16")
    work = layer_work(catalog.model(settings.model), BYTES_PER_ELEMENT["fp16"])
    if reading.read not in ("largest_loss", "share_best"):
        (processes,), (prompt,), (link,) = reading.processes, reading.prompts, reading.links
        machine = _machine(reading, link, rate)
        if reading.read in ("traffic", "first_part"):
            parts = formulas.searched_partition(work, machine, prompt, processes)
            shares = {"traffic": formulas.gathered_over_handed(parts), "first_part": parts[0] / prompt}
            return float(shares[reading.read])
        before = formulas.single_seconds(work, machine, prompt)
        if reading.read == "speedup":
            before = formulas.all_gather_seconds(work, machine, prompt, processes)
        return float(before) / _seconds(work, machine, prompt, processes)
    losses = [
        _loss(work, _machine(reading, link, rate), prompt, reading.processes)
        for prompt, link in product(reading.prompts, reading.links)
    ]
    return max(losses) if reading.read == "largest_loss" else sum(loss <= _AS_FAST for loss in losses) / len(losses)


#: Function that computes each kind of quantity.
_READERS: Mapping[type, Callable[[Any, Settings], float]] = {
    FrontierReading: _of_frontier,
    ToyReading: _of_toy,
    SquareRootReading: _of_square_root,
    StepReading: _of_step,
    AttentionReading: _of_attention,
    AllReduceReading: _of_all_reduce,
    RoundReading: _of_round,
    PoolsReading: _of_pools,
    ChainReading: _of_chain,
}


def measured(measure: Measure, basis: BasisSpec) -> float:
    """Predicted quantity of a claim under one basis. See :func:`read` for the errors."""
    number = read(measure.of, basis)
    if isinstance(measure, Value):
        return number
    ratio = number / read(measure.over, basis)
    return math.log(ratio) / math.log(measure.by) if isinstance(measure, Exponent) else ratio


def claims(name: str | None = None, *, progress: Progress | None = None) -> Ledger:
    """Compare claims of publications with predictions (``inference_econ.claims``).

    Parameters
    ----------
    name : str, optional
        Id of a claim, or a scenario of the kind ``claims`` by name or path. By default all claims of all shipped
        scenarios.
    progress : callable, optional
        Function that receives the completed share of the work [1] and the current claim.

    Returns
    -------
    Ledger
        Claims with published values, predictions under both bases, and verdicts.

    Raises
    ------
    InputError
        If the claim or scenario is unknown, or a claim contains an invalid name.

    Examples
    --------
    >>> claims("tokens_per_round")["tokens_per_round"].verdict
    'does not hold'
    """
    names = [scenario_name for scenario_name in catalog.names("scenarios") if scenario_name.startswith("seeds/claims_")]
    # The published study comes first.
    names.sort(key=lambda scenario_name: (scenario_name != "seeds/claims_study", scenario_name))
    shipped = {scenario_name: catalog.scenario(scenario_name) for scenario_name in names}
    if name is None:
        return answered(list(shipped.values()), progress=progress)
    for scenario in shipped.values():
        if any(claim.id == name for claim in _ask(scenario).claims):
            return answered([scenario], name, progress=progress)
    return answered([_named(name, shipped)], progress=progress)


def answered(scenarios: Sequence[Scenario], name: str | None = None, *, progress: Progress | None = None) -> Ledger:
    """Compare all claims of scenarios, or the claim with an id, with predictions; see :func:`claims`."""
    chosen = [(ask, claim) for ask in map(_ask, scenarios) for claim in ask.claims if name in (None, claim.id)]
    findings = []
    for index, (ask, claim) in enumerate(chosen):
        if progress is not None:
            progress(index / len(chosen), claim.id)
        ours: dict[Basis, float] = {}
        missing: dict[Basis, str] = {}
        for basis in claim.bases:
            try:
                ours[basis] = measured(claim.measure, ask.paper if basis == "paper" else ask.today)
            except NothingFitsError as error:
                missing[basis] = str(error)
            except InputError as error:
                raise InputError(f"claim {claim.id}, under {basis!r}: {error}") from error
        findings.append(Finding(ask.seed, claim, ours, missing))
    sources = dict.fromkeys(source for scenario in scenarios for source in spec_sources("scenario", scenario))
    return Ledger(tuple(findings), tuple(sources))


def _named(name: str, shipped: Mapping[str, Scenario]) -> Scenario:
    """Scenario of claims by name or path.

    Raises
    ------
    InputError
        If no claim or scenario has this name; the message suggests known names.
    """
    try:
        scenario = catalog.scenario(name)
    except InputError as error:
        if "no such file" in str(error) or name.endswith((".yaml", ".yml")):
            raise
        ids = [claim.id for shipped_scenario in shipped.values() for claim in _ask(shipped_scenario).claims]
        near = difflib.get_close_matches(name, [*ids, *shipped], n=4, cutoff=0.7)
        near += [claim_id for claim_id in ids if name and name in claim_id and claim_id not in near]
        hint = f"did you mean {', '.join(near[:4])}?" if near else f"of a publication: {', '.join(shipped)}"
        raise InputError(f"unknown claim {name!r}; {hint} ('inference-econ paper claims' lists all)") from error
    _ask(scenario)
    return scenario


def _ask(scenario: Scenario) -> ClaimsAsk:
    if not isinstance(scenario.ask, ClaimsAsk):
        raise InputError(
            f"{scenario.name} has no claims: it is a scenario of the kind {scenario.ask.kind!r}; "
            "'inference-econ paper run' answers it"
        )
    return scenario.ask


def answer_claims(run: ScenarioRun, ask: ClaimsAsk) -> Result:
    """Run a scenario of this kind."""
    del ask  # The scenario of the run contains the ask too.
    return run.result(study=answered([run.scenario], progress=run.progress))
