"""Recipes of engines compared with the engines' rules: both are facts and must not contradict each other."""

from __future__ import annotations

import pytest

from inference_econ.engine import Pins, Setup, check_startable
from inference_econ.inputs import Precision, _yaml, catalog
from inference_econ.inputs.engine.recipes import EngineRecipes, Recipe

FILES = {path.stem: path for path in sorted((catalog.folder("engines") / "recipes").glob("*.yaml"))}


@pytest.mark.parametrize("engine", FILES)
def test_what_recipes_name_can_be_started(engine: str) -> None:
    """The engine's rules accept every degree of an instance and a pool, and the formats."""
    checked = 0
    for recipe in EngineRecipes.from_document(_yaml.read_yaml(FILES[engine])).recipes:
        degrees = {*recipe.layouts, *(part for pools in recipe.pools for part in (pools.prefill, pools.decode))}
        for setup in (_setup(engine, model, recipe) for model in recipe.models):
            for part in degrees:
                check_startable(setup, Pins(**part.counts))  # type: ignore[arg-type]
                checked += 1
    assert checked > 50


def _setup(engine: str, model: str, recipe: Recipe) -> Setup:
    """Return a deployment of the recipe's formats on one of its chips; the engine must support all of them."""
    chips = recipe.chips or catalog.names("hardware")
    chip = next(name for name in chips if catalog.hardware(name).family == recipe.families[0])
    published = set(recipe.weights) & set(Precision.of(catalog.model(model)).of_weights)
    return Setup.of(model, chip, weights=None if published else recipe.weights[0], kv=recipe.kv, engine=engine)
