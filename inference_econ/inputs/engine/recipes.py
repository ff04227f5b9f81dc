"""Recipes of serving engines: what their documents and public benchmarks run a model with on a chip, with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.inputs._spec import Count, Dtype, Formats, Source, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, family
from inference_econ.inputs.engine import launch_options
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
#: What a heading calls who proposes.
_PROPOSERS: Mapping[ProposerName, str] = {"mtp": "MTP", "eagle": "EAGLE-3", "draft": "draft model", "ngram": "n-grams"}


class RecipeDegrees(Spec):
    """Degrees of an instance in a recipe."""

    tp: Count = 1
    """Accelerators that share the attention of a sequence [1]."""
    dp: Count = 1
    """Groups of them that attend to sequences of their own [1]."""
    pp: Count = 1
    """Pipeline stages [1]."""
    ep: Count = 1
    """Ranks that experts are spread over [1]."""

    @property
    def counts(self) -> dict[str, int]:
        """Every degree by its name [1]."""
        return self.model_dump()

    @property
    def degrees(self) -> Degrees:
        """Every degree: tp, dp, pp and ep [1]."""
        return self.tp, self.dp, self.pp, self.ep

    @property
    def chips(self) -> int:
        """GPUs of the instance [1]."""
        return self.tp * self.dp * self.pp

    def _check_fields(self) -> None:
        if self.ep > self.tp * self.dp:
            raise ValueError(f"experts are spread over {self.ep} ranks of a stage of {self.tp * self.dp}")


class RecipePools(Spec):
    """Instances that read prompts, and others that write answers."""

    prefill: RecipeDegrees
    """Degrees of instances that read."""
    decode: RecipeDegrees
    """Degrees of instances that write."""
    workers: Annotated[tuple[Annotated[tuple[Count, Count], Field(strict=False)], ...], Field(strict=False)]
    """Numbers of both that go together: one pair for each size that is published [1]."""

    @property
    def shape(self) -> tuple[Degrees, Degrees]:
        """Degrees (tp, dp, pp, ep) of both [1]."""
        return self.prefill.degrees, self.decode.degrees


class Recipe(Spec):
    """One way to run some models on some chips, as somebody published it."""

    models: Names
    """Names of the catalogue: those that the source speaks of, and those that it says are run alike."""
    families: Names
    """Families of chips that the source speaks of (:attr:`HardwareSpec.family`)."""
    chips: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of the catalogue: only these chips of the families, on which it takes the place of a recipe of the whole
    family with the same cache and proposals."""
    weights: Formats
    """Formats of the weights, or of the experts where these are narrower."""
    kv: Dtype | None = None
    """Format of the cache that is asked for; absent where nothing is: that of the checkpoint, or 16 bits."""
    proposer: ProposerName | None = None
    """Proposer of tokens; nobody if absent."""
    drafts: Count | None = None
    """Proposals of a round [1]."""
    head: str | None = Field(default=None, pattern="/")
    """Hugging Face id of the head that proposes, where it is no part of the checkpoint."""
    options: dict[str, str] = Field(default={})
    """Options of the engine's command, or dotted keys of its file, that name kernels; those that follow from the rest
    are not repeated here."""
    layouts: Annotated[tuple[RecipeDegrees, ...], Field(strict=False)] = ()
    """Degrees of instances; any that fits if nothing is said."""
    pools: Annotated[tuple[RecipePools, ...], Field(strict=False)] = ()
    """Pools that read prompts apart from answers; nothing if the source has no such pools."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    """When it was last changed, or found unchanged; absent where what was read does not say."""
    source: Source
    """Where it is published."""

    def _check_fields(self) -> None:
        if (self.proposer is None) != (self.drafts is None):
            raise ValueError("a proposer and its number of drafts are stated together, or neither")
        if self.head is not None and self.proposer != "eagle":
            raise ValueError(f"a head belongs to the proposer 'eagle', got {self.proposer or 'none'}")

    def is_of(self, model: ModelSpec, hardware: HardwareSpec, weights: str) -> bool:
        """Whether the recipe speaks of a model on a chip, with weights in a format."""
        return family(weights) in self.weights and self.is_on(hardware) and catalog.is_one_of(model, self.models)

    def is_on(self, hardware: HardwareSpec) -> bool:
        """Whether the recipe speaks of a GPU; of one that nobody ships, whether it does of those of its family."""
        if generations.usual().family(hardware) not in self.families:
            return False
        if self.chips and any(catalog.title("hardware", name) == hardware.name for name in catalog.names("hardware")):
            return any(catalog.title("hardware", chip) == hardware.name for chip in self.chips)
        # a chip that nobody ships is like those of its family with as many chips in a domain
        like = [catalog.hardware(chip) for chip in self.chips]
        return not like or (hardware.family, hardware.link_domain) in [(c.family, c.link_domain) for c in like]

    @property
    def practice(self) -> tuple[str | None, ProposerName | None, int | None]:
        """Key of a way to run a model: cache, proposer and proposals [1]."""
        return self.kv, self.proposer, self.drafts


class DraftLength(Spec):
    """Proposals of a round in an engine's own documents, whatever the chip."""

    proposer: ProposerName
    """Proposer."""
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalogue names of the targets; all others if there are none."""
    drafts: Count
    """Proposals of a round, the most where documents give several [1]."""
    source: Source
    """Where it is published."""


class EngineRecipes(Spec):
    """All recipes of an engine."""

    drafts: Annotated[tuple[DraftLength, ...], Field(strict=False)] = ()
    """Draft lengths for models that no recipe is of."""
    recipes: Annotated[tuple[Recipe, ...], Field(strict=False)]
    """In the order of the answers, in which those without speculation come first."""


@dataclass(frozen=True)
class Practice:
    """Practice of an engine with a model on a chip; its fields are those of :class:`Recipe`."""

    engine: str
    """Name of the engine, without a version."""
    kv: str | None = None
    """Number format of the cache; 16 bits without."""
    proposer: ProposerName | None = None
    draft_length: int | None = None
    """Draft tokens of a round [1]."""
    layouts: tuple[Mapping[str, int], ...] = field(default=(), hash=False)
    """Degrees of instances: ``tp``, ``dp``, ``pp`` and ``ep`` [1]."""
    pools: tuple[RecipePools, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: Source | None = None
    """None for engine defaults, which no recipe is behind."""
    date: str | None = None
    head: str | None = None

    @property
    def text(self) -> str:
        """Words of a heading: cache, and who proposes how many tokens.

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
    """Practices of an engine with a model on a chip: by its recipes, or plainly where there are none.

    Parameters
    ----------
    engine : str
        ``sglang``, or ``sglang@0.5.9``.
    model : ModelSpec
        What is served.
    hardware : HardwareSpec
        On what.
    weights : str, optional
        Format of the weights; as published without.

    Returns
    -------
    tuple of Practice
        At least one, each once. Recipes are left out whose cache the engine has not on the chip, whose proposer the
        model or the engine has not, and whose drafts nobody published an acceptance of. Practices without speculation
        come first.

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
    """Practices of an engine with weights in some formats, see :func:`practices`; the cache of them is not asked."""
    name, facts = launch_options.named(engine)
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
    """Disaggregated groups that are tried: which instances prefill and decode together, and how many GPUs."""

    shapes: frozenset[tuple[Degrees, Degrees]] | None
    """Degrees (tp, dp, pp, ep) of prefill and decode instances that go together [1]; None for any."""
    most: int
    """GPUs of the largest group [1]."""


def published_groups(model: ModelSpec, hardware: HardwareSpec) -> Groups:
    """The disaggregated groups that recipes of any engine have for a model on a GPU.

    Where no recipe is of the model, groups of other models on the GPU count that fit in one link domain.

    Parameters
    ----------
    model, hardware
        What is served, on what; number formats do not matter.

    Returns
    -------
    Groups
        Without shapes where nothing is published.

    Examples
    --------
    >>> groups = published_groups(catalog.model("llama_3_8b"), catalog.hardware("h100_sxm"))
    >>> sorted(groups.shapes or ())[:2], groups.most
    ([((1, 1, 1, 1), (2, 1, 1, 1)), ((1, 1, 1, 1), (4, 1, 1, 1))], 8)
    """
    engines = [path.stem for path in sorted((catalog.folder("engines") / "recipes").glob("*.yaml"))]
    recipes = [recipe for engine in engines for recipe in _recipes(engine).recipes if recipe.is_on(hardware)]
    own = [recipe for recipe in recipes if recipe.pools and catalog.is_one_of(model, recipe.models)]
    sized = [
        (pools.shape, readers * pools.prefill.chips + writers * pools.decode.chips)
        for recipe in own or recipes
        for pools in recipe.pools
        for readers, writers in pools.workers
    ]
    kept = [(shape, chips) for shape, chips in sized if own or chips <= hardware.link_domain]
    return Groups(frozenset(shape for shape, _ in kept), max((chips for _, chips in kept), default=0))


def practice_of(
    engine: str,
    model: ModelSpec,
    hardware: HardwareSpec,
    precision: Precision,
    proposer: ProposerName | None = None,
    drafts: int | None = None,
) -> Practice | None:
    """The practice that a deployment follows: with its cache and proposals; None if it follows none of a recipe.

    Parameters
    ----------
    engine, model, hardware
        As of :func:`practices`.
    precision : Precision
        Formats of weights and cache.
    proposer : str, optional
        Who proposes tokens.
    drafts : int, optional
        Proposals of a round [1].
    """
    for practice in practices_in(engine, model, hardware, precision):
        kv = practice.kv or precision.activations
        if practice.source and (kv, practice.proposer, practice.draft_length) == (precision.kv, proposer, drafts):
            return practice
    return None


def head_of(engine: str, model: ModelSpec, hardware: HardwareSpec, precision: Precision) -> str | None:
    """Hugging Face id of the EAGLE head that an engine's recipes have for a model, whatever else they say."""
    return next((practice.head for practice in practices_in(engine, model, hardware, precision) if practice.head), None)


def recommended_drafts(engine: str | None, proposer: ProposerName, target: ModelSpec | None) -> int | None:
    """Proposals of a round in the recipes of an engine, the most where they give several; None if they say nothing [1].

    Parameters
    ----------
    engine : str, optional
        With or without a version: ``sglang``, ``vllm@0.24.0``.
    proposer : str
        Who proposes.
    target : ModelSpec, optional
        To whom.

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
    """Whether engine and model have the proposer of a recipe, and how often its drafts are accepted is published."""
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
    """The recipes of an engine; none where nobody wrote them down."""
    path = catalog.folder("engines") / "recipes" / f"{engine}.yaml"
    return EngineRecipes.from_file(path) if path.is_file() else EngineRecipes(recipes=())
