"""Published recipes: engine configurations for a model on a chip, with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Dtype, Field, Formats, Source, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, family
from inference_econ.inputs.engine import launch_options
from inference_econ.inputs.kept import from_file
from inference_econ.inputs.models.model import Precision
from inference_econ.inputs.presets import generations
from inference_econ.inputs.scenario_kinds import ProposerName

if TYPE_CHECKING:
    from inference_econ.inputs.engine_specs import EngineVersion
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.models.model import ModelSpec

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False, min_length=1)]

#: Degrees of an instance: tp, dp, pp and ep [1].
Degrees = tuple[int, int, int, int]
#: Display names of speculation methods.
_PROPOSERS: Mapping[ProposerName, str] = {"mtp": "MTP", "eagle": "EAGLE-3", "draft": "draft model", "ngram": "n-grams"}


class RecipeDegrees(Spec):
    """Parallelism degrees of an instance in a recipe."""

    tp: Count = 1
    """Number of accelerators that share the attention of a sequence [1]."""
    dp: Count = 1
    """Number of attention-DP groups [1]."""
    pp: Count = 1
    """Number of pipeline stages [1]."""
    ep: Count = 1
    """Number of expert-parallel ranks [1]."""

    @property
    def counts(self) -> dict[str, int]:
        """Parallelism degrees by name [1]."""
        return self.model_dump()

    @property
    def degrees(self) -> Degrees:
        """Parallelism degrees tp, dp, pp and ep [1]."""
        return self.tp, self.dp, self.pp, self.ep

    @property
    def chips(self) -> int:
        """Number of GPUs of the instance [1]."""
        return self.tp * self.dp * self.pp

    def _check_fields(self) -> None:
        if self.ep > self.tp * self.dp:
            raise ValueError(f"experts are spread over {self.ep} ranks of a stage of {self.tp * self.dp}")


class RecipePools(Spec):
    """Disaggregated pools of prefill and decode instances in a recipe."""

    prefill: RecipeDegrees
    """Parallelism degrees of prefill instances."""
    decode: RecipeDegrees
    """Parallelism degrees of decode instances."""
    workers: Annotated[tuple[Annotated[tuple[Count, Count], Field(strict=False)], ...], Field(strict=False)]
    """Published sizes of the deployment, each as number of prefill instances and number of decode instances [1].
    """

    @property
    def shape(self) -> tuple[Degrees, Degrees]:
        """Parallelism degrees (tp, dp, pp, ep) of the prefill instances and of the decode instances [1]."""
        return self.prefill.degrees, self.decode.degrees


class Recipe(Spec):
    """Configuration of an engine that was published for some models on some chips."""

    models: Names
    """Catalog names of the covered models, including models that the source describes as equivalent."""
    families: Names
    """Families of the covered chips (:attr:`HardwareSpec.family`)."""
    chips: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalog names of chips, if the recipe is limited to some chips of the families.

    For these chips, the recipe replaces the family's recipe that has the same cache format and speculation.
    """
    weights: Formats
    """Weight formats for which the recipe is valid; the narrowest weight format of a model must be one of them."""
    kv: Dtype | None = None
    """KV-cache format that the recipe sets.

    If absent, the cache has the format that the checkpoint states, or else 16 bits.
    """
    proposer: ProposerName | None = None
    """Speculation method; absent without speculation."""
    drafts: Count | None = None
    """Draft tokens per speculation round [1]."""
    head: str | None = Field(default=None, pattern="/")
    """Hugging Face id of the draft head; absent if the checkpoint contains the head."""
    options: dict[str, str] = Field(default={})
    """Options of the engine's command, or dotted keys of its configuration file, that select kernels.

    Options that follow from other fields are not listed.
    """
    layouts: Annotated[tuple[RecipeDegrees, ...], Field(strict=False)] = ()
    """Parallelism degrees of instances; empty if the recipe does not limit the layout."""
    pools: Annotated[tuple[RecipePools, ...], Field(strict=False)] = ()
    """Disaggregated pools; empty if the source describes none."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """Date of the last change or check of the source; absent if unknown."""
    source: Source
    """Publication of the recipe."""

    def _check_fields(self) -> None:
        if (self.proposer is None) != (self.drafts is None):
            raise ValueError("state both 'proposer' and 'drafts', or neither")
        if self.head is not None and self.proposer != "eagle":
            raise ValueError(f"'head' requires 'proposer: eagle', got {self.proposer or 'none'}")

    def is_of(self, model: ModelSpec, hardware: HardwareSpec, weights: str) -> bool:
        """True if the recipe covers a model on a chip with weights in a format."""
        return family(weights) in self.weights and self.is_on(hardware) and catalog.is_one_of(model, self.models)

    def is_on(self, hardware: HardwareSpec) -> bool:
        """True if the recipe covers a GPU. User-defined GPUs are treated like the GPUs of their family."""
        if generations.usual().family(hardware) not in self.families:
            return False
        if self.chips and any(catalog.title("hardware", name) == hardware.name for name in catalog.names("hardware")):
            return any(catalog.title("hardware", chip) == hardware.name for chip in self.chips)
        # A user-defined chip is treated like the chips of its family with the same link domain.
        like = [catalog.hardware(chip) for chip in self.chips]
        return not like or (hardware.family, hardware.link_domain) in [(c.family, c.link_domain) for c in like]

    @property
    def practice(self) -> tuple[str | None, ProposerName | None, int | None]:
        """Cache format, speculation method and draft length, which identify a configuration."""
        return self.kv, self.proposer, self.drafts


class DraftLength(Spec):
    """Draft length that an engine's documentation recommends, regardless of the chip."""

    proposer: ProposerName
    """Speculation method."""
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalog names of the target models; empty for all models without another entry."""
    drafts: Count
    """Draft tokens per speculation round; the maximum if the documentation lists several [1]."""
    source: Source
    """Publication of the recipe."""


class EngineRecipes(Spec):
    """All recipes of an engine."""

    drafts: Annotated[tuple[DraftLength, ...], Field(strict=False)] = ()
    """Draft lengths for models that no recipe covers."""
    recipes: Annotated[tuple[Recipe, ...], Field(strict=False)]
    """Recipes in the order of results, except that results list recipes without speculation first."""


@dataclass(frozen=True)
class Practice:
    """Configuration of an engine for a model on a chip: the fields of :class:`Recipe` that affect a prediction."""

    engine: str
    """Engine name, without a version."""
    kv: str | None = None
    """Number format of the KV cache; None for 16 bits."""
    proposer: ProposerName | None = None
    draft_length: int | None = None
    """Draft tokens per speculation round [1]."""
    layouts: tuple[Mapping[str, int], ...] = field(default=(), hash=False)
    """Parallelism degrees of instances: ``tp``, ``dp``, ``pp`` and ``ep`` [1]."""
    pools: tuple[RecipePools, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: Source | None = None
    """Source of the recipe; None for the defaults of the engine."""
    date: str | None = None
    head: str | None = None

    @property
    def text(self) -> str:
        """Display name: cache format, speculation method and draft length.

        Examples
        --------
        >>> Practice("sglang", "fp8", "mtp", 2).text, Practice("vllm").text
        ('fp8 cache, MTP 2', '16-bit cache')
        """
        cache = f"{self.kv or '16-bit'} cache"
        return cache if self.proposer is None else f"{cache}, {_PROPOSERS[self.proposer]} {self.draft_length}"


def practices(
    engine: str, model: ModelSpec, hardware: HardwareSpec, weights: str | None = None
) -> tuple[Practice, ...]:
    """Recipes of an engine for a model on a chip; engine defaults if there are none.

    Parameters
    ----------
    engine : str
        ``sglang``, or ``sglang@0.5.9``.
    model : ModelSpec
        Model that is served.
    hardware : HardwareSpec
        Chip that runs the model.
    weights : str, optional
        Weight format; by default the published one.

    Returns
    -------
    tuple
        At least one configuration, without duplicates. Configurations without speculation come first. A recipe is
        skipped if the engine does not support its cache format on the chip or its speculation method. A recipe is also
        skipped if the model does not support its speculation method, or if no acceptance rate is published for its
        draft length.

    Raises
    ------
    InputError
        If the engine is unknown.

    Examples
    --------
    >>> deepseek, h200 = catalog.model("deepseek_v3"), catalog.hardware("h200_sxm")
    >>> [practice.text for practice in practices("trtllm", deepseek, h200)]
    ['fp8 cache', 'fp8 cache, MTP 3', 'fp8 cache, MTP 1']
    >>> [practice.text for practice in practices("vllm", catalog.model("falcon_7b"), h200)]
    ['16-bit cache']
    """
    return practices_in(engine, model, hardware, Precision.of(model, weights))


def practices_in(engine: str, model: ModelSpec, hardware: HardwareSpec, precision: Precision) -> tuple[Practice, ...]:
    """Recipes for given weight formats; see :func:`practices`. The cache format of ``precision`` is ignored."""
    name, facts, _ = launch_options.named(engine)
    narrowest = min(precision.of_weights, key=lambda dtype: BYTES_PER_ELEMENT[dtype])
    kernels = facts.kernels_on(hardware.generation)
    recipes = [
        recipe
        for recipe in _recipes(name).recipes
        if recipe.is_of(model, hardware, narrowest)
        and (recipe.kv is None or (kernels is not None and recipe.kv in kernels.kv))
        and (recipe.proposer is None or _can_propose(recipe, facts, model, hardware))
    ]
    of_chip = {recipe.practice for recipe in recipes if recipe.chips}
    chosen = [recipe for recipe in recipes if recipe.chips or recipe.practice not in of_chip]
    chosen.sort(key=lambda recipe: recipe.proposer is not None)
    return tuple(
        Practice(
            engine=name,
            kv=recipe.kv or model.kv,
            proposer=recipe.proposer,
            draft_length=recipe.drafts,
            layouts=tuple(degrees.counts for degrees in recipe.layouts),
            pools=recipe.pools,
            options=recipe.options,
            source=recipe.source,
            date=recipe.date,
            head=recipe.head,
        )
        for recipe in chosen
    ) or (Practice(name, model.kv),)


class Groups(NamedTuple):
    """Disaggregated deployments to search: layouts of prefill and decode instances, and the maximum size."""

    shapes: frozenset[tuple[Degrees, Degrees]] | None
    """Pairs of parallelism degrees (tp, dp, pp, ep), for prefill and for decode [1]; None allows any pair."""
    most: float
    """Number of GPUs of the largest deployment [1]; infinite without a limit."""


def published_groups(model: ModelSpec, hardware: HardwareSpec) -> frozenset[tuple[Degrees, Degrees]]:
    """Layouts of disaggregated deployments in the recipes of all engines for a model on a GPU.

    Recipes for other models on the GPU are used too, if their deployments fit in one link domain.

    Parameters
    ----------
    model, hardware
        Model and GPU. Number formats are ignored.

    Returns
    -------
    frozenset
        Published pairs of layouts, see :attr:`Groups.shapes`; empty if there are none.

    Examples
    --------
    >>> groups = published_groups(catalog.model("llama_3_8b"), catalog.hardware("h100_sxm"))
    >>> sorted(groups)[:2]
    [((1, 1, 1, 1), (2, 1, 1, 1)), ((1, 1, 1, 1), (4, 1, 1, 1))]
    """
    engines = [path.stem for path in sorted((catalog.folder("engines") / "recipes").glob("*.yaml"))]
    recipes = [recipe for engine in engines for recipe in _recipes(engine).recipes if recipe.is_on(hardware)]
    return frozenset(
        pools.shape
        for recipe in recipes
        for pools in recipe.pools
        for readers, writers in pools.workers
        if catalog.is_one_of(model, recipe.models)
        or readers * pools.prefill.chips + writers * pools.decode.chips <= hardware.link_domain
    )


def practice_of(
    engine: str,
    model: ModelSpec,
    hardware: HardwareSpec,
    precision: Precision,
    proposer: ProposerName | None = None,
    drafts: int | None = None,
) -> Practice | None:
    """Recipe with the same cache format and speculation as a deployment; None if there is none.

    Parameters
    ----------
    engine, model, hardware
        As in :func:`practices`.
    precision : Precision
        Number formats of weights and cache.
    proposer : str, optional
        Speculation method.
    drafts : int, optional
        Draft tokens per speculation round [1].
    """
    for practice in practices_in(engine, model, hardware, precision):
        kv = practice.kv or precision.activations
        if practice.source and (kv, practice.proposer, practice.draft_length) == (precision.kv, proposer, drafts):
            return practice
    return None


def head_of(engine: str, model: ModelSpec, hardware: HardwareSpec, precision: Precision) -> str | None:
    """Hugging Face id of the EAGLE head in an engine's recipes for a model; None if no recipe names one."""
    return next((practice.head for practice in practices_in(engine, model, hardware, precision) if practice.head), None)


def recommended_drafts(engine: str | None, proposer: ProposerName, target: ModelSpec | None) -> int | None:
    """Largest draft length [1] that an engine recommends for a speculation method; None if the engine recommends none.

    Values for the target model have priority over values for all models.

    Parameters
    ----------
    engine : str, optional
        Engine name, optionally with a version: ``sglang``, ``vllm@0.24.0``.
    proposer : str
        Speculation method.
    target : ModelSpec, optional
        Target model.

    Examples
    --------
    >>> recommended_drafts("sglang", "mtp", catalog.model("deepseek_v3")), recommended_drafts(None, "mtp", None)
    (3, None)
    """
    recipes = _recipes((engine or "").partition("@")[0])
    entries: tuple[Recipe | DraftLength, ...] = (*recipes.recipes, *recipes.drafts)
    drafts = [(entry.models, entry.drafts) for entry in entries if entry.proposer == proposer and entry.drafts]
    lengths = [length for models, length in drafts if target is not None and catalog.is_one_of(target, models)]
    return max(lengths or [length for models, length in drafts if not models], default=None)


def _can_propose(recipe: Recipe, facts: EngineVersion, model: ModelSpec, hardware: HardwareSpec) -> bool:
    """True if engine and model support the speculation method of a recipe, and its acceptance rate is published."""
    support = facts.support(model.architecture, hardware.generation)
    heads = () if support is None else support.speculation
    if recipe.proposer is None or recipe.drafts is None or recipe.proposer not in (*facts.speculation, *heads):
        return False
    if recipe.proposer == "mtp" and not model.mtp_layers:
        return False
    try:
        usual = catalog.usual_acceptance(recipe.proposer, model)
    except InputError:
        return False
    return recipe.drafts <= len(usual.acceptance)


@cache
def _recipes(engine: str) -> EngineRecipes:
    """Recipes of an engine; empty if none are published."""
    path = catalog.folder("engines") / "recipes" / f"{engine}.yaml"
    return from_file(EngineRecipes, path) if path.is_file() else EngineRecipes.model_construct(recipes=())
