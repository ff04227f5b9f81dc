"""Models of every size: known ones with other numbers of experts and of parameters."""

from __future__ import annotations

from functools import lru_cache

from inference_econ.errors import InputError
from inference_econ.inputs import ModelSpec, catalog, scaled


@lru_cache(maxsize=256)
def sized(name: str, parameters: float, experts: int | None = None) -> ModelSpec:
    """A model in the proportions of a known one.

    Parameters
    ----------
    name : str
        Of the known one, or its path.
    parameters : float
        About how many it has [1]; what embeddings have besides does not follow its size.
    experts : int, optional
        Routed experts of a layer [1]; as in the known one if not given.

    Returns
    -------
    ModelSpec
        In whole numbers that split over chips; the known one itself if it is asked for what it has.

    Raises
    ------
    InputError
        If there is no such model, it has no experts or too few are asked for, or it cannot be scaled.

    Examples
    --------
    >>> sized("deepseek_v3", catalog.model("deepseek_v3").total_parameters, 256) == catalog.model("deepseek_v3")
    True
    """
    template = catalog.model(name)
    spread = template if experts is None else with_experts(template, experts)
    return scaled(spread, parameters / spread.total_parameters)


def with_experts(model: ModelSpec, experts: int) -> ModelSpec:
    """Model with another number of routed experts; as many of them work on a token.

    Parameters
    ----------
    model : ModelSpec
        A mixture.
    experts : int
        In every layer that has some [1].

    Raises
    ------
    InputError
        If the model has no experts, or more work on a token than there would be.
    """
    mixtures = model.mixtures
    if not mixtures:
        raise InputError(f"{model.name} has no experts; leave 'experts' out, or name a mixture")
    active = max(part.active_experts for part in mixtures)
    if experts < active:
        raise InputError(f"{model.name} works with {active} experts per token, and {experts} are fewer")
    if all(part.experts == experts for part in mixtures):
        return model
    blocks = tuple(
        block.model_copy(update={"feed_forward": block.feed_forward.model_copy(update={"experts": experts})})
        if block.feed_forward.routed_experts
        else block
        for block in model.blocks
    )
    return model.replace(name=f"{model.name} of {experts} experts", blocks=blocks)
