"""Types of the questions of Python; ``python -m benchmarks.signatures`` writes them from the tables of commands."""

# fmt: off
# ruff: noqa
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, overload

from inference_econ._types import Progress
from inference_econ._answer import Shown
from inference_econ.answers.assess import Assessment
from inference_econ.answers.assess import Observation
from inference_econ.answers.deployments.deployment import Margin
from inference_econ.answers.deployments.recommend import Recommendation
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.deployments.serving_options import Pooling
from inference_econ.answers.deployments.serving_options import Proposer
from inference_econ.answers.explain import Explanation
from inference_econ.answers.fits import Fits
from inference_econ.answers.load import DeploymentEstimate
from inference_econ.answers.load import LoadCurve
from inference_econ.answers.prefix_cache import Conversation
from inference_econ.answers.prefix_cache import Offloading
from inference_econ.answers.price import Sheet
from inference_econ.answers.slo import Targets
from inference_econ.answers.speculate import Speculated
from inference_econ.engine import Contexts
from inference_econ.engine import Pins
from inference_econ.engine import Setup
from inference_econ.engine import Space
from inference_econ.engine import Speculation
from inference_econ.extras.closed_models.infer import Inferred
from inference_econ.extras.closed_models.scenario_kinds import ObservedOffer
from inference_econ.extras.closed_models.scenario_kinds import Priors
from inference_econ.extras.fleets.buy import Purchase
from inference_econ.extras.fleets.capacity_blocks import Way
from inference_econ.extras.fleets.day import DayOfFleet
from inference_econ.extras.fleets.day import Policy
from inference_econ.extras.fleets.hour_cost import HourCost
from inference_econ.extras.fleets.rollout import Rollout
from inference_econ.extras.papers.prefill import PrefillWays
from inference_econ.extras.papers.prefill import Stages
from inference_econ.inputs import Elasticity
from inference_econ.inputs import Grid
from inference_econ.inputs import HardwareSpec
from inference_econ.inputs import Learning
from inference_econ.inputs import ModelSpec
from inference_econ.inputs import Ownership
from inference_econ.inputs import Requests
from inference_econ.inputs import Settings
from inference_econ.inputs import TensorLayout
from inference_econ.inputs import Traffic
from inference_econ.inputs import catalog
from inference_econ.serving import Services
from inference_econ.studies.compare import Comparison
from inference_econ.studies.compare import Names
from inference_econ.studies.compare import Rate
from inference_econ.studies.what_if import WhatIf

#: A name of the catalog, or the path of a file.
Name: TypeAlias = str | PathLike[str]
#: A value as it is typed, with a unit if it has one.
Value: TypeAlias = str | float | PathLike[str] | None
#: One value, or several.
Values: TypeAlias = Value | Sequence[str | float | Mapping[str, str | float]] | Mapping[str, str | float]

@overload
def recommend(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, request_rate: float | None = None,
    throughput: float | None = None, arrival_scv: float | None = 1, ttft: Value = None, tpot: Value = None,
    e2e: Value = None, confidence: Value = None, percentile: Value = 'p90', trace: Value = None,
    agents: int | None = None, router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None,
    tier: Values = None, gpus: int | None = None, budget: float | None = None, power_budget: Value = None,
    carbon: Value = None, any_speed: bool | None = False, rent: Literal['gpu', 'node'] | None = 'gpu',
    slots: int | None = None, token_budget: int | None = None, usable_memory: float | None = None, tp: Value = None,
    pp: Value = None, dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    instance_gpus: int | None = None, max_instance_gpus: float | None = None, pipeline: bool | None = True,
    draft: Value = None, mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False,
    draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, aggregated: bool | None = False,
    disaggregated: bool | None = False, any_group: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, decode_on: Value = None,
    transfer: Literal['layers', 'whole'] | None = 'layers', prefill_chain: Values = None, on: Values = None,
    concurrency: float | None = None, users: float | None = None, burst: Value = None, headroom: Value = None,
    spare: int | None = None, think_time: Value = None, utilization: Value = None, choices: int | None = 5,
    yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> Recommendation | Any: ...
@overload
def recommend(
    offers: Sequence[Candidate | Services], requests_per_second: float | None, targets: Targets | None=..., *,
    arrival_scv: float=..., most: int=..., play: bool=..., margin: Margin=..., progress: Progress | None=...
) -> Recommendation: ...
@overload
def estimate(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, concurrency: Values = None,
    replicas: int | None = None, request_rate: float | None = None, arrival_scv: float | None = 1, ttft: Value = None,
    tpot: Value = None, e2e: Value = None, confidence: Value = None, percentile: Value = 'p90',
    rent: Literal['gpu', 'node'] | None = 'gpu', slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, tp: Value = None, pp: Value = None, dp: Value = None, ep: Value = None,
    redundant_experts: int | None = None, dcp: int | None = None, instance_gpus: int | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, draft: Value = None, mtp: bool | None = False,
    eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None,
    acceptance_file: Value = None, max_draft: int | None = None, no_speculation: bool | None = False,
    draft_length: int | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> DeploymentEstimate | Any: ...
@overload
def estimate(
    candidates: Sequence[Candidate], concurrency: Sequence[int]=..., *, replicas: int=...
) -> DeploymentEstimate: ...
@overload
def load(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, trace: Value = None,
    agents: Values = None, router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None,
    tier: Values = None, arrival_scv: float | None = 1, ttft: Value = None, tpot: Value = None, e2e: Value = None,
    confidence: Value = None, gpus: int | None = None, carbon: Value = None,
    rent: Literal['gpu', 'node'] | None = 'gpu', slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, tp: Value = None, pp: Value = None, dp: Value = None, ep: Value = None,
    redundant_experts: int | None = None, dcp: int | None = None, instance_gpus: int | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, draft: Value = None, mtp: bool | None = False,
    eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None,
    acceptance_file: Value = None, max_draft: int | None = None, no_speculation: bool | None = False,
    draft_length: int | None = None, aggregated: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, rates: Values = None, replicas: int | None = None,
    simulate: bool | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> LoadCurve: ...
@overload
def load(
    offers: Services | Sequence[Candidate | Services], requests_per_second: Sequence[float] | None=..., *,
    replicas: int | None=..., gpus: int | None=..., targets: Targets | None=..., arrival_scv: float=...,
    simulate: bool | None=..., progress: Progress | None=...
) -> LoadCurve: ...
@overload
def fits(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, concurrency: int | None = 1,
    gpus: int | None = None, token_budget: int | None = None, usable_memory: float | None = None, tp: Value = None,
    pp: Value = None, dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    instance_gpus: int | None = None, max_instance_gpus: float | None = None, pipeline: bool | None = True,
    intervals: bool | None = False, progress: Progress | None = None
) -> Fits: ...
@overload
def fits(
    setup: Setup, traffic: Traffic | Requests, space: Space | None=..., *, concurrency: int=...
) -> Fits: ...
@overload
def fleet(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, rates: Values = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, trace: Value = None,
    agents: Values = None, router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None,
    tier: Values = None, arrival_scv: float | None = 1, ttft: Value = None, tpot: Value = None, e2e: Value = None,
    confidence: Value = None, percentile: Value = 'p90', any_speed: bool | None = False, on: Values = None,
    stock: Values = None, pricing: Values = None,
    policy: Literal['in_flight', 'rate', 'utilization'] | None = 'in_flight', target: float | None = None,
    min_replicas: int | None = 1, start_up: Value = None, interruptions: float | None = None,
    spot_share: float | None = None, rent: Literal['gpu', 'node'] | None = 'gpu', slots: int | None = None,
    token_budget: int | None = None, usable_memory: float | None = None, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    instance_gpus: int | None = None, max_instance_gpus: float | None = None, pipeline: bool | None = True,
    draft: Value = None, mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False,
    draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, yes: bool | None = False,
    intervals: bool | None = False, progress: Progress | None = None
) -> DayOfFleet: ...
@overload
def fleet(
    offers: Sequence[Candidate | Services], rates: Sequence[float], targets: Targets | None=..., *,
    stock: Mapping[str, int] | None=..., ways: Collection[Way]=..., policy: Policy=..., target: float | None=...,
    min_replicas: int=..., arrival_scv: float=..., elasticity: Elasticity | None=..., progress: Progress | None=...
) -> DayOfFleet: ...
@overload
def price(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, request_rate: float | None = None,
    throughput: float | None = None, arrival_scv: float | None = 1, ttft: Value = None, tpot: Value = None,
    e2e: Value = None, confidence: Value = None, percentile: Value = 'p90', agents: int | None = None,
    router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None, tier: Values = None,
    rent: Literal['gpu', 'node'] | None = 'gpu', slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, tp: Value = None, pp: Value = None, dp: Value = None, ep: Value = None,
    redundant_experts: int | None = None, dcp: int | None = None, instance_gpus: int | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, draft: Value = None, mtp: bool | None = False,
    eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None,
    acceptance_file: Value = None, max_draft: int | None = None, no_speculation: bool | None = False,
    draft_length: int | None = None, aggregated: bool | None = False, disaggregated: bool | None = False,
    any_group: bool | None = False, evidence: Literal['measured', 'near'] | None = None, replicas: int | None = None,
    api_prices: Value = None, input_price: float | None = None, utilization: Value = None, carbon: Value = None,
    any_speed: bool | None = False, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> Sheet: ...
@overload
def price(
    offers: Services | Sequence[Candidate | Services], requests_per_second: float | None=..., *,
    targets: Targets | None=..., replicas: int | None=..., arrival_scv: float=..., utilization: float | None=...,
    progress: Progress | None=...
) -> Sheet: ...
@overload
def buy(
    model: Name, *chips: Name | Sequence[Name], weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: Value = '2000', osl: Value = '500', cached: float | None = 0,
    shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None, agents: int | None = None,
    router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None, tier: Values = None,
    arrival_scv: float | None = 1, ttft: Value = None, tpot: Value = None, e2e: Value = None, confidence: Value = None,
    percentile: Value = 'p90', request_rate: float | None = None, pricing: Values = None, api_prices: Value = None,
    any_speed: bool | None = False, rent: Literal['gpu', 'node'] | None = 'gpu', slots: int | None = None,
    token_budget: int | None = None, usable_memory: float | None = None, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    instance_gpus: int | None = None, max_instance_gpus: float | None = None, pipeline: bool | None = True,
    draft: Value = None, mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False,
    draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, aggregated: bool | None = False,
    disaggregated: bool | None = False, any_group: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> Purchase: ...
@overload
def buy(
    offers: Sequence[Candidate | Services], api: Mapping[str, Mapping[str, float]], targets: Targets | None=..., *,
    ways: Collection[Way]=..., arrival_scv: float=..., request_rate: float | None=...
) -> Purchase: ...
@overload
def gpu_cost(
    hardware: Name, *, purchase: float | None = None, lifetime: float | None = None, utilization: float | None = None,
    board_watts: Value = None, host_watts: Value = None, pue: float | None = None, kwh: float | None = None,
    operations: float | None = None, capital: float | None = None, carbon: Value = None, intervals: bool | None = False,
    progress: Progress | None = None
) -> HourCost: ...
@overload
def gpu_cost(
    hardware: HardwareSpec | catalog.Name, purchase_dollars: float | None=..., *, board_watts: float | None=...,
    terms: Ownership | None=..., grid: Grid | None=...
) -> HourCost: ...
@overload
def frontier(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, domain: int | None = None, context: float | None = None, isl: float | None = None,
    osl: float | None = None, grid: Literal['whole', 'paper'] | None = 'whole', max_throughput: float | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    batch: float | None = None, instance_gpus: float | None = None, contexts: Values = None, gpus: int | None = None,
    draft: Value = None, mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False,
    draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, aggregated: bool | None = False,
    disaggregated: bool | None = False, any_group: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, decode_on: Value = None,
    transfer: Literal['layers', 'whole'] | None = 'layers', prefill_chain: Values = None,
    decode_only: bool | None = False, traffic: Value = None, cached: float | None = None,
    shared_prefix: float | None = None, ttft: Value = None, tpot: Value = None, e2e: Value = None,
    confidence: Value = None, slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> ServiceFrontier | Any: ...
@overload
def frontier(
    setup: Setup | ModelSpec | Name, traffic: Traffic | Requests | HardwareSpec | Name=..., space: Space | None=..., *,
    speculation: Proposer=..., arrangement: Arrangement=..., pooling: Pooling | None=..., promises: Targets | None=...,
    slots: int | None=...
) -> ServiceFrontier: ...
@overload
def compare(
    models: Name | Sequence[Name] = ..., on: Name | Sequence[Name] = ..., *, weights: Values = None,
    activations: Values = None, kv: Values = None, assumptions: Values = None, engine: Values = None,
    any_layout: bool | None = False, price: Values = None, series: Values = None, set: Values = None,
    domain: int | None = None, power_cap: Value = None, context: Values = None, isl: Values = None, osl: Values = None,
    grid: Literal['whole', 'paper'] | None = 'whole', max_throughput: float | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    batch: float | None = None, instance_gpus: float | None = None, gpus: int | None = None, draft: Value = None,
    mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None,
    acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, aggregated: bool | None = False,
    disaggregated: bool | None = False, any_group: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, decode_only: bool | None = False, traffic: Value = None,
    cached: float | None = None, shared_prefix: float | None = None, ttft: Value = None, tpot: Value = None,
    e2e: Value = None, confidence: Value = None, slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> Comparison: ...
@overload
def compare(
    models: Names=..., hardware: Names=..., *, price: Rate | Mapping[str, Rate] | None=...,
    series: Mapping[str, Settings] | None=..., progress: Progress | None=..., **settings: Any
) -> Comparison: ...
@overload
def explain(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, domain: int | None = None, tp: int | None = None, pp: int | None = 1, dp: int | None = 1,
    ep: int | None = None, redundant_experts: int | None = None, dcp: int | None = None, batch: float | None = None,
    cut: Literal['1d', '2d'] | None = '1d', context: float | None = None, isl: float | None = None,
    osl: float | None = None, shared_prefix: float | None = 0, contexts: Values = None, no_kv_cache: bool | None = None,
    prefill: float | None = None, over: Literal['batch', 'context', 'prompt'] | None = None, to: float | None = None,
    intervals: bool | None = False, progress: Progress | None = None
) -> Explanation | Any: ...
@overload
def explain(
    setup: Setup, pins: Pins, *, context: float | None=..., prompt: float | None=..., cut: TensorLayout=...,
    shared_prefix: float=..., spread: float=..., contexts: Contexts=...
) -> Explanation: ...
@overload
def speculate(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, domain: int | None = None, draft: Value = None, mtp: bool | None = False,
    eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None,
    acceptance_file: Value = None, max_draft: int | None = None, no_speculation: bool | None = False,
    draft_length: int | None = None, tp: int | None = None, pp: int | None = 1, dp: int | None = 1,
    ep: int | None = None, redundant_experts: int | None = None, dcp: int | None = None, isl: Value = '2000',
    osl: Value = '500', cached: float | None = 0, shared_prefix: float | None = 0, traffic: Value = None,
    workloads: Values = None, yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> Speculated: ...
@overload
def speculate(
    setup: Setup, requests: Requests, speculation: Speculation, pins: Pins | None=...
) -> Speculated: ...
@overload
def cache(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, isl: float | None = None, hit_rate: float | None = None, osl: float | None = 500,
    turns: float | None = None, user_tokens: float | None = 300, system_tokens: float | None = 0,
    think_time: Value = '60 s', lifetime: Value = '10 min', replicas: int | None = None,
    routing: Literal['round_robin', 'prefix_aware'] | None = None, request_rate: float | None = None,
    traffic: Value = None, tier: Values = None, tp: int | None = None, pp: int | None = 1, dp: int | None = 1,
    ep: int | None = None, redundant_experts: int | None = None, dcp: int | None = None, yes: bool | None = False,
    intervals: bool | None = False, progress: Progress | None = None
) -> Offloading: ...
@overload
def cache(
    setup: Setup, space: Space | None=..., *, isl: float=..., hit_rate: float=..., osl: float=...,
    conversation: Conversation | None=..., tiers: Sequence[str]=..., requests_per_second: float | None=...
) -> Offloading: ...
def sensitivity(
    *names: Name | Sequence[Name], vary: Values = None, samples: int | None = None, seed: int | None = None,
    speed: Values = None, input: Values = None, range: Values = '0.8,1.25', weights: Value = None,
    activations: Value = None, kv: Value = None, price: Values = None, engine: Values = None,
    any_layout: bool | None = False, assumptions: Value = None, set: Values = None, loras: int | None = None,
    lora_rank: int | None = None, power_cap: Value = None, cpu_layers: int | None = None,
    n_gpu_layers: int | None = None, host_bandwidth: Value = None, host_memory: Value = None, domain: int | None = None,
    context: float | None = None, isl: float | None = None, osl: float | None = None,
    grid: Literal['whole', 'paper'] | None = 'whole', max_throughput: float | None = None,
    max_instance_gpus: float | None = None, pipeline: bool | None = True, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    batch: float | None = None, instance_gpus: float | None = None, draft: Value = None, mtp: bool | None = False,
    eagle: bool | None = False, ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None,
    acceptance_file: Value = None, max_draft: int | None = None, no_speculation: bool | None = False,
    draft_length: int | None = None, decode_only: bool | None = False, traffic: Value = None,
    cached: float | None = None, shared_prefix: float | None = None, ttft: Value = None, tpot: Value = None,
    e2e: Value = None, confidence: Value = None, slots: int | None = None, token_budget: int | None = None,
    usable_memory: float | None = None, yes: bool | None = False, intervals: bool | None = False,
    progress: Progress | None = None
) -> WhatIf | Any: ...
@overload
def prefill(
    model: Name, hardware: Name, *, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, domain: int | None = None, prompt: Values = '2000', ranks: Values = '2,4,8',
    chain: Values = None, tp: int | None = None, batch: int | None = 1, cached: float | None = None,
    yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> PrefillWays: ...
@overload
def prefill(
    setup: Setup, prompts: Sequence[int]=..., ranks: Sequence[int]=..., *, chains: Sequence[Stages]=...,
    tp: int | None=..., batch: int=..., cached: float=..., progress: Progress | None=...
) -> PrefillWays: ...
@overload
def infer(
    *, offer: Values = None, recorded: Value = None, truth: Value = None, priors: Value = 'usual',
    samples: int | None = 2048, hour_price: bool | None = False, price_over_cost: float | None = None,
    exponent: bool | None = False, speedup: float | None = None, draft_cost: float | None = None,
    draft_length: int | None = None, weights: Value = None, activations: Value = None, kv: Value = None,
    engine: Values = None, any_layout: bool | None = False, assumptions: Value = None, set: Values = None,
    loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None, isl: Value = '2000',
    osl: Value = '500', cached: float | None = 0, shared_prefix: float | None = 0, traffic: Value = None,
    workloads: Values = None, yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> Inferred | Any: ...
@overload
def infer(
    offers: Sequence[ObservedOffer | Mapping[str, object]], priors: Priors | str=..., *, samples: int=...,
    truth: ModelSpec | Name | None=..., progress: Progress | None=...
) -> Inferred: ...
@overload
def rollout(
    model: Name, hardware: Name, *, prompts: int, gpus: int, weights: Value = None, activations: Value = None,
    kv: Value = None, price: Values = None, engine: Values = None, any_layout: bool | None = False,
    assumptions: Value = None, set: Values = None, loras: int | None = None, lora_rank: int | None = None,
    power_cap: Value = None, cpu_layers: int | None = None, n_gpu_layers: int | None = None,
    host_bandwidth: Value = None, host_memory: Value = None, samples: int | None = 1, isl: Value = '2000',
    osl: Value = '500', max_tokens: int | None = None, traffic: Value = None, concurrency: int | None = None,
    finished: float | None = 1.0, learner: bool | None = False, mfu: float | None = None, on: Values = None,
    token_budget: int | None = None, usable_memory: float | None = None, rent: Literal['gpu', 'node'] | None = 'gpu',
    tp: Value = None, pp: Value = None, dp: Value = None, ep: Value = None, redundant_experts: int | None = None,
    dcp: int | None = None, instance_gpus: int | None = None, max_instance_gpus: float | None = None,
    pipeline: bool | None = True, draft: Value = None, mtp: bool | None = False, eagle: bool | None = False,
    ngram: bool | None = False, draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None,
    max_draft: int | None = None, no_speculation: bool | None = False, draft_length: int | None = None,
    yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> Rollout: ...
@overload
def rollout(
    offers: Sequence[Candidate | Services], gpus: int, prompts: int, samples: int=..., *, concurrency: int | None=...,
    finished: float=..., max_tokens: int | None=..., learner: Learning | None=..., most: int=...,
    progress: Progress | None=...
) -> Rollout: ...
@overload
def assess(
    model: Name, hardware: Name, *, gpus: int, weights: Value = None, activations: Value = None, kv: Value = None,
    price: Values = None, engine: Values = None, any_layout: bool | None = False, assumptions: Value = None,
    set: Values = None, loras: int | None = None, lora_rank: int | None = None, power_cap: Value = None,
    cpu_layers: int | None = None, n_gpu_layers: int | None = None, host_bandwidth: Value = None,
    host_memory: Value = None, domain: int | None = None, tokens_per_second: float | None = None,
    measured: Value = None, ttft: float | None = None, utilization: float | None = None, batch: float | None = None,
    throughput: float | None = None, instance_gpus: int | None = None, tp: Value = None, pp: Value = None,
    dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None, isl: Value = None,
    osl: Value = None, cached: float | None = None, shared_prefix: float | None = None, context: float | None = None,
    yes: bool | None = False, intervals: bool | None = False, progress: Progress | None = None
) -> Assessment: ...
@overload
def assess(
    setup: Setup, traffic: Traffic | Requests, observed: Observation, pins: Pins | None=..., *,
    progress: Progress | None=...
) -> Assessment: ...
@overload
def launch(
    model: Name, hardware: Name = ..., *, to: Literal['vllm', 'sglang', 'trtllm', 'llama_cpp', 'mlx'] | None = None,
    engine_version: Value = None,
    as_: Literal['command', 'compose', 'kubernetes', 'leaderworkerset', 'llm-d', 'dynamo', 'keda', 'llm-d-autoscaling'] | None = 'command',
    gpus_per_node: int | None = None, choice: int | None = None, image: Value = None, model_id: Value = None,
    draft_model_id: Value = None, max_model_len: int | None = None,
    bench: Literal['vllm', 'aiperf', 'guidellm'] | None = 'vllm', weights: Value = None, activations: Value = None,
    kv: Value = None, price: Values = None, engine: Values = None, any_layout: bool | None = False,
    assumptions: Value = None, set: Values = None, loras: int | None = None, lora_rank: int | None = None,
    power_cap: Value = None, cpu_layers: int | None = None, n_gpu_layers: int | None = None,
    host_bandwidth: Value = None, host_memory: Value = None, isl: Value = '2000', osl: Value = '500',
    cached: float | None = 0, shared_prefix: float | None = 0, traffic: Value = None, workloads: Values = None,
    request_rate: float | None = None, throughput: float | None = None, arrival_scv: float | None = 1,
    ttft: Value = None, tpot: Value = None, e2e: Value = None, confidence: Value = None, percentile: Value = 'p90',
    agents: int | None = None, router: Literal['round_robin', 'least_busy', 'prefix_aware'] | None = None,
    tier: Values = None, any_speed: bool | None = False, rent: Literal['gpu', 'node'] | None = 'gpu',
    slots: int | None = None, token_budget: int | None = None, usable_memory: float | None = None, tp: Value = None,
    pp: Value = None, dp: Value = None, ep: Value = None, redundant_experts: int | None = None, dcp: int | None = None,
    instance_gpus: int | None = None, max_instance_gpus: float | None = None, pipeline: bool | None = True,
    draft: Value = None, mtp: bool | None = False, eagle: bool | None = False, ngram: bool | None = False,
    draft_weights: Value = None, acceptance: Values = None, acceptance_file: Value = None, max_draft: int | None = None,
    no_speculation: bool | None = False, draft_length: int | None = None, aggregated: bool | None = False,
    disaggregated: bool | None = False, any_group: bool | None = False,
    evidence: Literal['measured', 'near'] | None = None, yes: bool | None = False, progress: Progress | None = None
) -> str: ...
@overload
def launch(
    answer: Shown, to: str | None=...
) -> str: ...
