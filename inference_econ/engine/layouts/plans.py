"""Plans as arrays. A plan is one layout of an instance, with one batch.

The arrays of a :class:`Plans` broadcast against each other. A value that varies only along one axis is stored once per
entry of this axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.inputs import ExpertAssumptions, LayoutAssumptions, ModelSpec

#: Relative tolerance of pipeline depths [1]. The published study rounds depths, so an exact comparison would exclude
#: the largest depth.
DEPTH_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """Layouts and batches of an instance, as arrays that broadcast to one shape (...).

    Attributes
    ----------
    accelerators : ndarray
        Number of chips in the instance, N [1].
    batch : ndarray
        Number of sequences that the instance decodes at once, b [1].
    pp : ndarray
        Number of pipeline stages [1]. A stage has N / pp chips, and processes b / pp sequences at once.
    attention_ranks : ndarray
        Number of chips in a stage that share the attention weights, at most N / pp [1].
    ep : ndarray or None
        Number of expert-parallel ranks in a stage [1]; None for the number that the assumptions determine.
    new_tokens : float
        Tokens per sequence and step [1]: 1 in a decode step, more in prefill and in verification of draft tokens.
    prefill : bool
        True for a prefill step, in which only the last token of each sequence needs logits.
    whole : bool
        True if parallelism degrees must be integers that divide heads, layers and experts evenly.
    dcp : float
        Decode-context-parallel ranks, which split the cached tokens of each sequence; equal for all plans [1].
    fullest : ndarray, float or None
        Number of sequences of the fullest attention-DP group, divided by the mean of all groups [1]. None for
        round-robin assignment, see :func:`fullest_group`.
    riding, riding_fullest : ndarray or float
        Prompt tokens that a micro-batch prefills in the same step as decode tokens [tokens], and prompt tokens of the
        fullest group divided by the mean of all groups [1]. All operators except attention process prompt and decode
        tokens together.
    """

    accelerators: Array
    batch: Array
    pp: Array
    attention_ranks: Array
    ep: Array | None
    new_tokens: float = 1
    whole: bool = False
    prefill: bool = False
    dcp: float = 1.0
    fullest: Array | float | None = None
    riding: Array | float = 0.0
    riding_fullest: Array | float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of the arrays."""
        return np.broadcast_shapes(*(np.shape(array) for array in self.arrays().values()))

    @property
    def contents(self) -> tuple[object, ...]:
        """Hashable contents of all fields, as a key for caches."""
        values = (getattr(self, entry.name) for entry in fields(self))
        return tuple((value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value for value in values)

    def arrays(self) -> dict[str, Array]:
        """Fields that are arrays, by name."""
        values = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return {name: np.asarray(value) for name, value in values if isinstance(value, (np.ndarray, np.generic))}

    @property
    def stage(self) -> Array:
        """Number of chips in one pipeline stage, T = N / pp [1]."""
        return self.accelerators / self.pp

    @property
    def micro_batch(self) -> Array:
        """Number of sequences that a stage processes at once, u = b / pp [1]."""
        return self.batch / self.pp

    @classmethod
    def of(cls, accelerators: Array, batch: Array, pp: Array, new_tokens: float = 1) -> Plans:
        """Plans in which all chips of a stage compute attention.

        The assumptions determine the number of expert-parallel ranks.
        """
        return cls(accelerators, batch, pp, accelerators / pp, None, new_tokens)

    def at(self, index: tuple[npt.NDArray[np.intp], ...]) -> Plans:
        """Select plans by their indices in :attr:`shape`, as flat arrays."""
        shape = self.shape

        picked = {name: np.broadcast_to(array, shape)[index] for name, array in self.arrays().items()}
        return replace(self, **picked)  # type: ignore[arg-type]

    def row(self, index: int) -> Plans:
        """Select one plan out of n flat plans, as arrays of shape (1,)."""
        return self.at((np.array([index]),))

    def column(self, batch: Array) -> Plans:
        """Replace the batch of each plan by k batches.

        Parameters
        ----------
        batch : ndarray, shape (..., k)
            Number of sequences that each instance decodes at once [1]; it replaces the batch of the plans.

        Examples
        --------
        >>> one = np.ones(3)
        >>> Plans.of(8.0 * one, one, one).column(np.array([[1.0, 2.0]] * 3)).shape
        (3, 2)
        """
        layouts = {name: array[..., None] for name, array in self.arrays().items() if name != "batch"}
        return replace(self, batch=batch, **layouts)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[Plans]) -> Plans:
        """Concatenate flat plans; at least one part is required, and all parts must have the same fields."""
        names = parts[0].arrays()
        joined = {name: np.concatenate([part.arrays()[name] for part in parts]) for name in names}
        return replace(parts[0], **joined)  # type: ignore[arg-type]

    def stacked(self, **values: tuple[Array | float, ...]) -> Plans:
        """Copy the plans once for each of several values of some fields, along a new first axis.

        Examples
        --------
        >>> one = np.ones(3)
        >>> Plans.of(8.0 * one, one, one).stacked(batch=(one, 2.0)).shape
        (2, 3)
        """
        axes = np.ones((1,) * len(self.shape))
        arrays = {name: np.stack(np.broadcast_arrays(*each, axes)[:-1]) for name, each in values.items()}
        return replace(self, **arrays)  # type: ignore[arg-type]

    def verifying(self, new_tokens: int) -> Plans:
        """Copy the plans with another number of tokens per sequence and step."""
        return replace(self, new_tokens=new_tokens)


def attention_groups(plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Number of attention-DP groups in a stage [1]."""
    return 1.0 if assumed.attention_groups == "idle" else plans.stage / plans.attention_ranks


def fullest_group(plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Number of sequences in the fullest attention-DP group, divided by the mean of all groups [1].

    All attention-DP groups wait for the fullest group.

    Parameters
    ----------
    plans : Plans
        Deployments, shape (...).
    assumed : LayoutAssumptions
        Assumptions that state whether attention-DP groups share the batch.

    Returns
    -------
    ndarray or float, broadcastable to (...)
        ceil(u / G) G / u for a micro-batch of u sequences and G groups: 1 if G divides u, and G for a single sequence.
        For a fractional u, the result is interpolated between the neighboring integers. The result is 1 for real-valued
        parallelism degrees.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> one, layout = np.ones(4), catalog.assumptions("deployable").layout
    >>> batch = np.array([1.0, 4.0, 5.0, 8.0])
    >>> fullest_group(Plans(4.0 * one, batch, one, one, one, whole=True), layout).tolist()
    [4.0, 1.0, 1.6, 1.0]
    """
    if assumed.attention_groups != "data_parallel":
        return 1.0
    if plans.fullest is not None:
        return plans.fullest
    groups = plans.stage / plans.attention_ranks
    if not plans.whole or np.all(groups == 1.0):
        return 1.0
    return dealt(plans.micro_batch, groups) * groups / plans.micro_batch


def dealt(sequences: Array, groups: Array) -> Array:
    """Number of sequences in the fullest group under round-robin assignment [1]; fractions are interpolated."""
    below = np.floor(sequences)
    fewer, more = np.ceil(below / groups), np.ceil((below + 1.0) / groups)
    return np.asarray(fewer + (sequences - below) * (more - fewer))


def expert_ranks(plans: Plans, experts: int, sparsity: float, assumed: ExpertAssumptions) -> Array:
    """Number of expert-parallel ranks in a stage, for a block with ``experts`` experts [1], shape (...).

    The number is ``plans.ep`` if it is set, otherwise the smaller of the numbers of chips and experts. If the
    micro-batch is too small for expert parallelism, the number is 1 (published code of Erdil, 2025; the paper has no
    such limit).
    """
    if experts == 1:
        return np.ones(())
    if plans.ep is not None:
        return plans.ep
    if not assumed.parallel:
        return np.ones(())
    spread = np.minimum(plans.stage, experts)
    threshold = assumed.parallel_min_requests_per_sparsity * sparsity
    counted = plans.micro_batch
    if assumed.parallel_counts == "tokens":
        counted = counted * plans.new_tokens
    return np.where(counted < threshold, 1.0, spread)


def expert_slots(experts: float, ranks: npt.ArrayLike, assumed: ExpertAssumptions) -> Array:
    """Number of experts that all expert-parallel ranks store, including copies [1].

    Parameters
    ----------
    experts : float
        Number of different experts in a layer [1].
    ranks : array_like, shape (...)
        Number of expert-parallel ranks, which all store equally many experts [1].
    assumed : ExpertAssumptions
        Assumptions that set the minimum number of copies, if experts have copies.

    Returns
    -------
    ndarray, shape (...)
        Number of stored experts [1]. With copies, the number is a multiple of the number of ranks.

    Examples
    --------
    With 256 different experts, 72 ranks store 288 experts, four per rank:

    >>> from inference_econ.inputs import catalog
    >>> expert_slots(256, [1, 8, 72], catalog.assumptions("deployable").experts)
    array([256., 256., 288.])
    """
    several = np.asarray(ranks, dtype=float)
    if assumed.redundant is None:
        return np.full(several.shape, float(experts))
    filled = np.ceil((experts + assumed.redundant) / several) * several
    return np.where(several > 1.0, filled, float(experts))


def has_experts(model: ModelSpec) -> bool:
    """True if at least one layer of the model has routed experts."""
    return bool(model.mixtures)


def copied_by_groups(model: ModelSpec, assumed: LayoutAssumptions) -> bool:
    """True if each attention-DP group has its own dense layers, embeddings and routers."""
    held = assumed.attention_groups == "data_parallel" and assumed.group_copies == "held"
    return held and has_experts(model)


def domains_spanned(ranks: npt.ArrayLike, stride: npt.ArrayLike, stage: npt.ArrayLike, link_domain: int) -> Array:
    """Number of link domains over which a group of ranks extends.

    Parameters
    ----------
    ranks : array_like, shape (...)
        Number of members (ranks) in each group [1].
    stride : array_like, shape (...)
        Distance between members of a group in chips [1]: 1 for adjacent members, or the size of the inner groups.
    stage : array_like, shape (...)
        Number of chips in the stage [1]. The groups fill the chips one after the other.
    link_domain : int
        Number of chips that share the fast link [1].

    Returns
    -------
    ndarray, broadcastable to (...)
        Number of domains [1]. The number is at most the number of members of the group, and at most the number of
        domains of the stage.

    Notes
    -----
    Each stage starts at the beginning of a domain. A domain contains c = ``link_domain / stride`` members of a group,
    so R members span R / c domains, rounded up. A group that would cross the border of a domain starts in the next
    domain. Some chips may remain unused, but a larger domain never spans more domains per group. If a domain is smaller
    than a stage, tensor-parallel and expert-parallel groups cannot both fit inside a domain.

    Examples
    --------
    In the examples, domains have 8 chips. The first group has 4 adjacent members in a stage of 32 chips. The second
    group has 8 members that are 4 chips apart. The last two groups have 3 and 12 adjacent members in a stage of 24
    chips:

    >>> [float(domains_spanned(*group, 8)) for group in ((4, 1, 32), (8, 4, 32), (3, 1, 24), (12, 1, 24))]
    [1.0, 4.0, 1.0, 2.0]
    """
    if np.all(np.less_equal(stage, link_domain)):
        return np.ones(())
    members, apart = np.asarray(ranks, dtype=float), np.asarray(stride, dtype=float)
    touched = np.ceil(members / np.maximum(np.floor(link_domain / apart), 1.0))
    most = np.minimum(np.ceil(np.asarray(stage) / link_domain), np.maximum(np.ceil(members), 1.0))
    # Number of domains between the first and the last chip of a group, as an upper limit.
    reached = np.ceil(np.maximum(members - 1.0, 0.0) * apart / link_domain) + 1.0
    return np.asarray(np.minimum(np.minimum(touched, reached), most))


#: Largest pipeline depth to search, if stages may be uneven [1].
_DEEPEST = 16


def fullest_over_mean(layers: int, plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Number of layers in the fullest pipeline stage, divided by the mean of all stages.

    Parameters
    ----------
    layers : int
        Number of layers in the model, L [1].
    plans : Plans
        Deployments with p pipeline stages, shape (...).
    assumed : LayoutAssumptions
        Assumptions that state whether pipeline stages may be uneven.

    Returns
    -------
    ndarray, broadcastable to (...), or float
        ceil(L / p) p / L, at least 1 [1]; 1 for plans with real-valued degrees.

    Notes
    -----
    In vLLM, ``get_pp_indices`` (``vllm/distributed/utils.py``) gives every stage floor(L / p) layers. The remaining
    layers are added to stages, one layer per stage, from the second-to-last stage backward. The slowest stage limits
    the pipeline: p micro-batches take p times as long as this stage.
    """
    if assumed.pipeline_stages == "even" or not plans.whole:
        return 1.0
    # Pipelines with more stages than layers are rejected elsewhere.
    ratio = np.asarray(np.ceil(layers / plans.pp) * plans.pp / layers)
    return ratio if np.any(ratio > 1.0) else 1.0


def depths(layers: int, assumed: LayoutAssumptions) -> list[int]:
    """Pipeline depths to search, the smallest first [1].

    The depths are divisors of the number of layers L. If stages may be uneven, depths are at most 16, and powers of two
    are also included. A power of two p is omitted if a pipeline with one stage less is as fast: ceil(L / p) (p - 1) >=
    L.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> depths(61, catalog.assumptions("deployable").layout), depths(61, catalog.assumptions("paper").layout)
    ([1, 2, 4, 8, 16], [1, 61])
    """
    if assumed.pipeline_stages == "even":
        return [depth for depth in range(1, layers + 1) if layers % depth == 0]
    return [
        depth
        for depth in range(1, min(layers, _DEEPEST) + 1)
        if layers % depth == 0 or (math.log2(depth).is_integer() and math.ceil(layers / depth) * (depth - 1) < layers)
    ]
