"""Pairs of steps whose times must be ordered, and documented exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.random_setups import FORMATS, Case
from inference_econ._types import Array
from inference_econ.engine import (
    Plans,
    Setup,
    expert_thresholds,
    has_experts,
    prefill,
    step_seconds,
    unhindered,
)
from inference_econ.engine.layouts.plans import fullest_group
from inference_econ.inputs import BYTES_PER_ELEMENT, HardwareSpec, Mesh, NcclTree, Precision, catalog, math_units

Flags = npt.NDArray[np.bool_]

#: Relative tolerance for the order of summation [1].
ROUNDING = 1e-9

#: Reasons why a step may take longer than one with more work or fewer resources, and by how much.
EXCEPTIONS: Mapping[str, str] = {
    "study": "Published formulas are not changed. The study's tree passes through all ranks of a domain in sequence "
    "(`chain` of its collectives is null). It distributes experts from a minimum number of requests on "
    "(`parallel_min_requests_per_sparsity`), which makes that step faster. With fractional groups, the number of "
    "domains is rounded up, so a domain can have less than one chip of a group. There is no bound.",
    "groups": "Attention-DP groups step together. If the sequences do not divide evenly, all groups wait for the "
    "fullest one. The bound is the number of sequences of the fullest group divided by the mean.",
    "chunk": "Chunked attention (Llama 4) reads least just after the start of a chunk, so a long context uses the "
    "mean of a chunk. A long context is compared with half a chunk, or with a shorter context.",
    "chunks": "A longer prompt has two steps, which two pipeline stages process at the same time. The single step of a "
    "shorter prompt passes the stages in sequence. The bound is the ratio of the numbers of steps.",
    "host": "Steps with prompts of up to `captured_tokens` tokens are launched as a few graphs, and longer ones "
    "kernel by kernel. Their tokens per second are compared without launch time.",
    "experts": "On GPUs without measured expert kernels, a dense product of all tokens with all experts in use bounds "
    "the time (`dense_bound`). The time per token grows with the number of experts in use. Tokens per second are "
    "compared without this bound.",
}


@dataclass(frozen=True)
class Comparison:
    """Times that must not exceed others; arrays of shape (cuts, plans) or (plans).

    Attributes
    ----------
    kind, change : str
        Kind of comparison, and change in this case.
    most, least : ndarray
        Larger and smaller time [s]; for rates, times over sequences.
    allowed : ndarray or float
        Largest ratio of ``least`` to ``most`` under an exception [1].
    exception : str
        Key of :data:`EXCEPTIONS`.
    """

    kind: str
    change: str
    most: Array
    least: Array
    allowed: Array | float = 1.0
    exception: str = ""

    @property
    def ratio(self) -> Array:
        """Ratio of ``least`` to ``most``; above 1 is a contradiction [1]."""
        return np.asarray(self.least / self.most)

    @property
    def violated(self) -> Flags:
        """True where the order is violated."""
        return np.asarray(self.ratio > 1.0 + ROUNDING)

    @property
    def excused(self) -> Flags:
        """True where an exception covers the violation."""
        return self.violated & (self.ratio <= np.asarray(self.allowed) * (1.0 + ROUNDING))


def seconds(setup: Setup, plans: Plans) -> Array:
    """Step times for every tensor-parallel cut [s], shape (cuts, plans)."""
    return np.stack(step_seconds(setup, plans))


def _other_chip(setup: Setup, **changes: object) -> Setup:
    return replace(setup, hardware=setup.hardware.model_copy(update=changes))


def domain(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """A larger link domain is never slower."""
    setup, chip = case.setup, case.setup.hardware
    if chip.link_peers is not None:
        return
    # A chip without links gets one as fast as its network.
    link = chip.link_bytes_per_second_one_way or chip.nic_bytes_per_second_one_way or 50e9
    smaller = _other_chip(setup, link_bytes_per_second_one_way=link)
    before = seconds(smaller, case.plans)
    for larger in (2 * chip.link_domain, chip.link_domain + round(2.0 ** random.uniform(0, 9))):
        wider = _other_chip(smaller, link_domain=larger)
        after, change = seconds(wider, case.plans), f"link_domain {chip.link_domain} to {larger}"
        yield Comparison("link domain", change, before, after, np.inf if _study(setup) else 1.0, "study")


def _study(setup: Setup) -> bool:
    """Check whether collectives are those of the published study."""
    model = setup.assumptions.network.collectives
    return isinstance(model, NcclTree) and getattr(model, "chain", None) is None


def rates(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """More bandwidth of memory, links or network, or more arithmetic, is never slower."""
    factor, before = float(random.uniform(1, 10)), seconds(case.setup, case.plans)
    for kind, changes in _faster(case.setup.hardware, factor):
        after = seconds(_other_chip(case.setup, **changes), case.plans)
        yield Comparison(kind, f"{kind} x {factor:.3g}", before, after)


def _faster(chip: HardwareSpec, factor: float) -> Iterator[tuple[str, dict[str, object]]]:
    peaks = chip.dense_flops_per_second
    for name in ("hbm", "link", "nic"):
        field = f"{name}_bytes_per_second" + ("" if name == "hbm" else "_one_way")
        rate = getattr(chip, field)
        if rate is not None:
            yield f"{name} bandwidth", {field: factor * rate}
    for unit, peak in peaks.items():
        yield "peak of a unit", {"dense_flops_per_second": {**peaks, unit: factor * peak}}


#: Latencies of a preset other than those of its collectives.
_LATENCIES = (
    "host.launch", "host.graph_launch", "host.step_overhead", "host.sequence_overhead", "network.collective_overhead",
)  # fmt: skip


def latencies(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """Shorter latencies are never slower."""
    setup, factor = case.setup, float(random.random())
    before, assumed = seconds(setup, case.plans), setup.assumptions
    model = assumed.network.collectives
    changes: list[dict[str, object]] = []
    for name in _LATENCIES:
        group, _, field = name.partition(".")
        changes.append({name: factor * getattr(getattr(assumed, group), field)})
    if isinstance(model, NcclTree):
        changes += [{"network.collectives": _shorter(model, field, factor)} for field in ("base", "per_rank")]
    if isinstance(model, Mesh):
        changes.append({"network.collectives": model.model_copy(update={"hop": factor * model.hop})})
    for change in changes:
        after = seconds(replace(setup, assumptions=assumed.changed(change)), case.plans)
        # The study rounds domains up, so fractional numbers of chips can have less than one per domain.
        allowed = np.inf if "network.collectives" in change and not case.plans.whole else 1.0
        yield Comparison("latency", f"{next(iter(change))} x {factor:.3g}", before, after, allowed, "study")


def _shorter(model: NcclTree, field: str, factor: float) -> NcclTree:
    tables = {
        name: {
            key: one.model_copy(update={field: factor * getattr(one, field)})
            for key, one in getattr(model, name).items()
        }
        for name in ("protocols", "ring", "kernels", "exchange_kernels")
    }
    return model.model_copy(update=tables)


def batch(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """A larger batch takes at least as long, and has at least the same throughput."""
    setup, plans = case.setup, case.plans
    few, depth = np.broadcast_to(plans.batch, plans.shape), np.broadcast_to(plans.pp, plans.shape)
    factor = random.uniform(1.0, 8.0, plans.shape)
    larger = [few + depth, np.round(few / depth * factor) * depth] if plans.whole else [few * factor]
    before = seconds(setup, plans)
    for many in larger:
        grown = replace(plans, batch=many)
        after = seconds(setup, grown)
        passed = _crossing(setup, plans, grown) if plans.ep is None else np.zeros(plans.shape, dtype=bool)
        yield Comparison("batch, time", "larger", after, before, np.where(passed, np.inf, 1.0), "study")
        fullest = fullest_group(grown, setup.assumptions.layout) * np.ones(plans.shape)
        ready = unhindered(setup) if plans.prefill or np.any(plans.riding) else setup
        if ready.assumptions.experts.dense_bound and has_experts(setup.model):
            ready = replace(ready, assumptions=ready.assumptions.changed({"experts.dense_bound": False}))
        same = ready is setup
        rates = (before if same else seconds(ready, plans)) / few, (after if same else seconds(ready, grown)) / many
        yield Comparison("batch, rate", "larger", *rates, fullest, "groups")


def _crossing(setup: Setup, plans: Plans, grown: Plans) -> Flags:
    """Check whether the study distributes experts for the larger batch only."""
    marks = expert_thresholds(setup.model, setup.assumptions.experts) if has_experts(setup.model) else []
    counted = plans.new_tokens if setup.assumptions.experts.parallel_counts == "tokens" else 1.0
    crossed = np.zeros(plans.shape, dtype=bool)
    for mark in marks:
        crossed |= (plans.micro_batch * counted < mark) & (grown.micro_batch * counted >= mark)
    return crossed


def context(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """A longer context or prompt is never faster."""
    setup, more = case.setup, float(10 ** random.uniform(0, 5))
    chunks = [
        float(chunk) for block in setup.model.blocks if (chunk := getattr(block.attention, "chunk", None)) is not None
    ]
    longer, shorter = replace(setup, context=setup.context + more), setup
    if chunks and longer.context >= min(chunks):
        shorter = replace(setup, context=min(setup.context, (min(chunks) - 1.0) / 2.0))
    plans = case.plans
    yield Comparison("context", f"{more:.4g} tokens more", seconds(longer, plans), seconds(shorter, plans))
    if plans.whole and not chunks and not plans.prefill and not np.any(plans.riding):
        tokens = float(round(2.0 ** random.uniform(3, 14)))
        grown = float(round(tokens * random.uniform(1, 8)))
        few, many = (prefill.prefill(setup, plans, each).seconds for each in (tokens, grown))
        limit = setup.assumptions.serving.prefill_chunk or np.inf
        # Both have at least one chunk.
        chunks_of = [max(1.0, np.ceil(each / limit)) for each in (tokens, grown)]
        allowed = np.where(plans.pp > 1.0, chunks_of[1] / chunks_of[0], 1.0)
        yield Comparison("prompt", f"{tokens:g} to {grown:g} tokens", many, few, allowed, "chunks")


def bound(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """Nothing is faster than the preset ``ideal`` with the same parts of the model.

    The study treats a shared expert as one more routed expert, and omits projections of indexers.
    """
    del random
    setup = case.setup
    opinions, ideal = setup.assumptions, catalog.assumptions("ideal")
    indexer = "scan" if opinions.attention.indexer == "scan" else ideal.attention.indexer
    ideal = ideal.changed({"experts.shared": opinions.experts.shared, "attention.indexer": indexer})
    bounded = Setup(setup.model, setup.hardware, setup.precision, setup.context, ideal)
    # Communication is free in this preset, so all cuts are equally fast.
    best = seconds(bounded, case.plans)[0]
    own = seconds(setup, case.plans)
    yield Comparison("ideal", setup.assumptions.name, own, np.broadcast_to(best, own.shape))


def formats(case: Case, random: np.random.Generator) -> Iterator[Comparison]:
    """Fewer bytes per weight are never slower with the same math unit and kernels."""
    setup = case.setup
    pair = [str(name) for name in random.choice(FORMATS, 2, replace=False)]
    wide, narrow = sorted(pair, key=BYTES_PER_ELEMENT.__getitem__, reverse=True)
    # Kernel launches for quantization depend on the format.
    launches = {"host.launch": 0.0, "host.graph_launch": 0.0, "attention.latent_graph_launch": None}
    still = setup.assumptions.changed(launches)
    asked = []
    for name in (wide, narrow):
        embeddings = setup.assumptions.capacity.embedding_format
        precision = Precision.of(setup.model, name, setup.precision.activations, setup.precision.kv, embeddings)
        if not all(math_units(each, setup.peaks) for each in precision.of_weights):
            return
        asked.append(replace(setup, precision=precision, assumptions=still))
    if _alike(asked[0], asked[1], wide, narrow):
        most, least = (seconds(each, case.plans) for each in asked)
        yield Comparison("bytes per weight", f"{wide} to {narrow}", most, least)


def _alike(one: Setup, other: Setup, wide: str, narrow: str) -> bool:
    """Check whether two setups differ only in the bytes of weights."""
    kinds = ("dense", "experts")
    same = all(one.rates.kernel(wide, kind) == other.rates.kernel(narrow, kind) for kind in kinds)  # type: ignore[arg-type]
    sent = {name in ("fp8", "fp8_block", "nvfp4") for name in (wide, narrow)}
    dispatched = not has_experts(one.model) or one.assumptions.experts.dispatch != "weights" or len(sent) == 1
    return same and dispatched and one.rates.unit(wide) == other.rates.unit(narrow)


#: Kinds of comparisons; each draws its own changes.
KINDS: tuple[Callable[[Case, np.random.Generator], Iterator[Comparison]], ...] = (
    domain, rates, latencies, batch, context, bound, formats,
)  # fmt: skip
