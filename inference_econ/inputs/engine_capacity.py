"""Division of a chip's memory by a named engine: its facts as assumptions of the capacity check."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_econ.inputs.assumptions import Assumptions
    from inference_econ.inputs.engines import EngineFacts
    from inference_econ.inputs.hardware import HardwareSpec


def divided(
    facts: EngineFacts, hardware: HardwareSpec, *, step_tokens: float, slots: float | None, share: float | None
) -> dict[str, float]:
    """Assumptions of the capacity check for a server with a given largest step, slots and share of the memory.

    Parameters
    ----------
    facts : EngineFacts
        Of the engine at a version.
    hardware : HardwareSpec
        Whose memory it divides.
    step_tokens : float
        Tokens of the largest step [tokens].
    slots : float or None
        Requests that are under way together [1].
    share : float or None
        Of the memory that it may take [1]; what its rule leaves without.

    Returns
    -------
    dict of str to float
        By dotted name; nothing where the engine's memory is not known.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> facts, chip = catalog.engine("vllm").at(), catalog.hardware("h100_sxm")
    >>> assumed = divided(facts, chip, step_tokens=8192, slots=1024, share=0.92)
    >>> assumed["capacity.usable_memory"], assumed["capacity.workspace_tokens"]
    (0.92, 8192)
    """
    kept = facts.memory
    if kept is None:
        return {}
    if share is None:
        left = (kept.outside or 0.0) + (kept.outside_per_token or 0.0) * step_tokens
        share = max(1.0 - left / hardware.hbm_bytes, 0.0)
    return {
        "capacity.usable_memory": share,
        "capacity.workspace_tokens": step_tokens if kept.step_inside else 0,
        "capacity.sampled_logits": kept.logit_copies * (slots or 0.0) if kept.step_inside else 0,
        "capacity.reserved_bytes": kept.reserved + (kept.graphs or 0.0),
        "capacity.communication_bytes": kept.communication,
        "capacity.compressed_padding": kept.compressed_padding,
        "capacity.state_pages": kept.state_pages,
        "capacity.states_held": kept.states_held,
        "capacity.profiled_images": kept.step_inside and kept.profiled_images,
    }


def with_engine(
    assumptions: Assumptions, facts: EngineFacts, hardware: HardwareSpec, fixed: Collection[str] = ()
) -> Assumptions:
    """Assumptions for a server that is started without options, in which its engine divides the memory.

    Fields that are ``fixed`` keep their values, and all do where the engine's defaults are not known.
    """
    usual = facts.defaults_on(hardware.hbm_bytes)
    if usual is None:
        return assumptions
    capacity = divided(facts, hardware, step_tokens=usual.step_tokens, slots=usual.slots, share=usual.memory_fraction)
    return assumptions.changed({name: value for name, value in capacity.items() if name not in fixed})
