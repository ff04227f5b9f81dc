"""How an engine is started: its program and image, and what its options call number formats."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from inference_econ.inputs import catalog
from inference_econ.inputs._base import Bytes, Count, SourcedSpec
from inference_econ.inputs._spec import Spec
from inference_econ.inputs.asks import ProposerName
from inference_econ.inputs.dtype import Dtype
from inference_econ.inputs.model import ModelSpec


class DraftRecipe(Spec):
    """How many tokens an engine's own documents propose in a round."""

    proposer: ProposerName
    """Who proposes."""
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalogue names of the targets; all others if there are none."""
    drafts: Count
    """Proposals of a round, the most where documents give several [1]."""


class EngineLaunch(SourcedSpec):
    """What it takes to start an engine, besides its options."""

    command: str = Field(min_length=1)
    """The command among :attr:`EngineOptions.commands`."""
    program: tuple[str, ...] = Field(min_length=1, strict=False)
    """Words that come before its options."""
    image: str = Field(min_length=1)
    """Container image, with ``{version}`` where the version goes."""
    port: Count
    """Where it listens if nothing else is said [1]."""
    health: str = Field(pattern="^/")
    """Path that answers once it is ready."""
    vendors: tuple[str, ...] = Field(min_length=1, strict=False)
    """Vendors of chips that its images run on."""
    caches: dict[Dtype, str]
    """What the option for the cache's format calls each format that it has."""
    quantised_on_load: dict[Dtype, str]
    """What the option for weights calls each format that it makes of a 16-bit checkpoint while it loads."""
    graph_bytes: Bytes
    """Memory of one captured graph, about [B]."""
    recipes: Annotated[tuple[DraftRecipe, ...], Field(strict=False)] = ()
    """Draft lengths that the engine's documents recommend."""

    def drafts(self, proposer: ProposerName, target: ModelSpec | None) -> int | None:
        """Proposals of a round that the engine's documents recommend for a target; None if they say nothing [1]."""
        entries = [recipe for recipe in self.recipes if recipe.proposer == proposer]
        own = (recipe for recipe in entries if target is not None and catalog.is_one_of(target, recipe.models))
        recipe = next(own, next((recipe for recipe in entries if not recipe.models), None))
        return None if recipe is None else recipe.drafts
