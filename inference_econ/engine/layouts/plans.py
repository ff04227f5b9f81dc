"""Which deployments could be: arrays of plans.

The arrays of a :class:`Plans` broadcast against each other, so that what depends on one
axis is stored, and later computed, once on that axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from inference_econ.inputs.assumptions import Assumptions, TensorLayout
from inference_econ.inputs.model import Attention, ModelSpec

Array = npt.NDArray[np.float64]

#: The study writes depths as rounded powers, so an exact comparison would lose the deepest one.
DEPTH_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Plans:
    """Deployments of one instance, as arrays that broadcast to one shape (...).

    Attributes
    ----------
    accelerators : ndarray
        Chips of the instance, N [1].
    batch : ndarray
        Sequences decoded at the same time by the instance, b [1].
    pp : ndarray
        Pipeline stages; each holds N / pp chips and works on b / pp sequences at a time [1].
    attention_ranks : ndarray
        Chips of a stage that share the attention weights, at most N / pp [1].
    ep : ndarray or None
        Expert-parallel ranks of a stage [1]; None leaves the choice to the assumptions' rule.
    new_tokens : float
        Tokens per sequence in one step: 1, or more when a draft is verified or a prompt is read [1].
    prefill : bool
        The step reads prompts: only the last token of each sequence needs logits.
    whole : bool
        Degrees must be whole numbers that divide heads, layers and experts.
    """

    accelerators: Array
    batch: Array
    pp: Array
    attention_ranks: Array
    ep: Array | None
    new_tokens: float = 1
    whole: bool = False
    prefill: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the arrays broadcast to."""
        return np.broadcast_shapes(*(np.shape(array) for array in self.arrays().values()))

    def arrays(self) -> dict[str, Array]:
        """The fields that are arrays, by name."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: np.asarray(value) for name, value in values if isinstance(value, (np.ndarray, np.generic))}

    @property
    def stage(self) -> Array:
        """Chips of one pipeline stage, T = N / pp [1]."""
        return self.accelerators / self.pp

    @property
    def micro_batch(self) -> Array:
        """Sequences that a stage works on at a time, u = b / pp [1]."""
        return self.batch / self.pp

    @classmethod
    def of(cls, accelerators: Array, batch: Array, pp: Array, new_tokens: int = 1) -> Plans:
        """Plans with attention on every chip of a stage, and experts by the assumptions' rule."""
        return cls(accelerators, batch, pp, accelerators / pp, None, new_tokens)

    def at(self, index: tuple[npt.NDArray[np.intp], ...]) -> Plans:
        """The plans at some positions of :attr:`shape`, as arrays of equal length."""
        shape = self.shape

        picked = {name: np.broadcast_to(array, shape)[index] for name, array in self.arrays().items()}
        return replace(self, **picked)  # type: ignore[arg-type]

    def column(self, batch: Array) -> Plans:
        """Plans of shape (...) with some batches each, shape (..., k)."""
        accelerators, pp, ranks = (array[..., None] for array in (self.accelerators, self.pp, self.attention_ranks))
        ep = None if self.ep is None else self.ep[..., None]
        return replace(self, accelerators=accelerators, batch=batch, pp=pp, attention_ranks=ranks, ep=ep)

    @classmethod
    def joined(cls, parts: Sequence[Plans]) -> Plans:
        """Flat plans one after the other; at least one part, and all with the same fields."""
        names = parts[0].arrays()
        joined = {name: np.concatenate([part.arrays()[name] for part in parts]) for name in names}
        return replace(parts[0], **joined)  # type: ignore[arg-type]

    def verifying(self, new_tokens: int) -> Plans:
        """The same deployments, with another number of tokens per sequence and step."""
        return replace(self, new_tokens=new_tokens)


def expert_ranks(plans: Plans, experts: int, sparsity: float, assumptions: Assumptions) -> Array:
    """Expert-parallel ranks of one stage for a block with ``experts`` experts [1], shape (...).

    With ``plans.ep`` given, it is that number. Otherwise experts are spread as far as there are chips and
    experts, unless the micro-batch is too small (Erdil 2025, published code; its text has no such limit).
    """
    if experts == 1:
        return np.ones(())
    if plans.ep is not None:
        return plans.ep
    if not assumptions.experts.parallel:
        return np.ones(())
    spread = np.minimum(plans.stage, experts)
    threshold = assumptions.experts.parallel_min_requests_per_sparsity * sparsity
    counted = plans.micro_batch
    if assumptions.experts.parallel_counts == "tokens":
        counted = counted * plans.new_tokens
    return np.where(counted < threshold, 1.0, spread)


def has_experts(model: ModelSpec) -> bool:
    """Whether any layer is a mixture of experts."""
    return any(block.feed_forward.kind == "experts" for block in model.blocks)


def indivisible(
    model: ModelSpec,
    plans: Plans,
    layout: TensorLayout,
    assumptions: Assumptions,
    blocks: tuple[int, int] = (1, 1),
) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """What whole-number plans would have to split unevenly.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        How weight matrices are cut.
    assumptions : Assumptions
        Whether groups of attention ranks share the batch.
    blocks : (int, int)
        Elements that share a scale and must stay together, of dense matrices and of experts [1].

    Returns
    -------
    list of (str, ndarray of bool)
        What does not divide, and where, broadcastable to ``plans.shape``.
    """
    stage, ranks = plans.stage, plans.attention_ranks
    found = [
        ("the batch does not split into micro-batches", _uneven(plans.batch, plans.pp)),
        (f"{model.layers} layers do not split into the pipeline's stages", _uneven(model.layers, plans.pp)),
        ("the accelerators do not split into the pipeline's stages", _uneven(plans.accelerators, plans.pp)),
        ("the stage does not split into groups of attention ranks", _uneven(stage, ranks)),
    ]
    if assumptions.layout.attention_groups == "data_parallel":
        uneven = _uneven(plans.micro_batch, stage / ranks)
        found.append(("the micro-batch does not split over the groups of attention ranks", uneven))
    if layout == "2d":
        found.append(("a 2-D cut needs a square number of ranks", np.sqrt(ranks) % 1 > 0))
        found.append(("a 2-D cut needs a square number of ranks", np.sqrt(stage) % 1 > 0))
    for block in model.blocks:
        found += _indivisible_heads(block.attention, ranks)
        part = stage
        if block.feed_forward.kind == "none":
            continue
        if block.feed_forward.kind == "experts" and plans.ep is not None:
            experts = block.feed_forward.experts
            found.append((f"{experts} experts do not split over the expert-parallel ranks", _uneven(experts, plans.ep)))
            found.append(("the stage does not split over the expert-parallel ranks", _uneven(stage, plans.ep)))
            part = stage / plans.ep
        width = block.feed_forward.intermediate_size
        unit = blocks[block.feed_forward.kind == "experts"]
        if block.feed_forward.kind == "dense" and has_experts(model):
            # Engines keep the few dense layers of a mixture whole where they cannot cut them.
            unit = 1
        whole = f"a feed-forward width of {width:g} does not split over the ranks"
        if unit > 1 and not width % unit:
            whole += f" in whole quantisation blocks of {unit}"
            width = width / unit
        found.append((whole, _uneven(width, part)))
    return found


def _heads(spec: Attention) -> float:
    if spec.kind == "none":
        return 1.0
    return float(spec.value_heads if spec.kind == "recurrent" else spec.query_heads)


def _indivisible_heads(spec: Attention, ranks: Array) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    if spec.kind == "none":
        return []
    heads = _heads(spec)
    name = "state" if spec.kind == "recurrent" else "query"
    found = [(f"{heads:g} {name} heads do not split over the attention ranks", _uneven(heads, ranks))]
    if spec.kind == "grouped_query":
        uneven = _uneven(spec.kv_heads, ranks) & _uneven(ranks, spec.kv_heads)
        found.append((f"{spec.kv_heads:g} KV heads neither split over nor repeat on the attention ranks", uneven))
    return found


def _uneven(whole: npt.ArrayLike, parts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether ``whole`` does not split into a whole number of ``parts``, or their number is no whole one."""
    return np.asarray((np.mod(whole, parts) != 0) | (np.mod(parts, 1) != 0) | (np.asarray(parts) < 1))


def attention_degrees(model: ModelSpec) -> Array:
    """Numbers of chips that the heads of all layers split over, 1 at least [1], shape (n,)."""
    specs = [block.attention for block in model.blocks if block.attention.kind != "none"]
    most = max((_heads(spec) for spec in specs), default=1.0)
    return _even([where for spec in specs for _, where in _indivisible_heads(spec, _up_to(most))], most)


def expert_degrees(model: ModelSpec) -> Array:
    """Numbers of ranks that the experts of all layers split over, 1 at least [1], shape (n,)."""
    experts = [block.feed_forward.experts for block in model.blocks if block.feed_forward.kind == "experts"]
    most = max(experts, default=1)
    return _even([_uneven(count, _up_to(most)) for count in experts], most)


def _up_to(most: float) -> Array:
    return np.arange(1.0, np.floor(most) + 1.0)


def _even(uneven: list[npt.NDArray[np.bool_]], most: float) -> Array:
    """Numbers up to the largest where nothing is uneven."""
    possible = ~np.any([np.zeros(_up_to(most).shape, dtype=bool), *uneven], axis=0)
    possible[0] = True  # where nothing divides, one plan is left to say so
    return np.asarray(_up_to(most)[possible])
