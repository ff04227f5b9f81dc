"""Prompts that groups of attention ranks hold back for each other: what was priced of it, and how engines are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inference_econ.answers.launching.instance import Degrees, Engine, Instance, Role
from inference_econ.answers.launching.room import groups
from inference_econ.engine import Speculation
from inference_econ.serving import Service

#: Options, and what the configuration file holds.
Told = tuple[dict[str, Any], dict[str, Any]]


def priced(service: Service, role: Role) -> int:
    """Decode steps that an instance was priced to hold a prompt back for at most [1].

    Instances with one group have nothing to wait for, and pools either read or decode.
    """
    return round(service.setup.held_steps) if groups(service) > 1 and role == "both" else 0


def told(engine: Engine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """Options and keys of the file that make an engine hold prompts back; none where it cannot.

    Parameters
    ----------
    engine : Engine
        What shall do it.
    steps : int
        Decode steps at most [1]; 0 for not at all.
    stages : int
        Pipeline stages of the instance [1].
    speculation : Speculation or None
        Who proposes tokens.
    """
    telling = _TELLING.get(engine.name)
    return ({}, {}) if telling is None or not steps else telling(engine, steps, stages, speculation)


def remark(instance: Instance) -> str | None:
    """Remark on an instance that holds no prompts back though that was priced."""
    service, steps = instance.service, priced(instance.service, instance.role)
    if not steps or any(told(instance.engine, steps, Degrees.of(service).pp, service.speculation)):
        return None
    return (
        f"groups do not hold prompts back for each other, which {instance.engine.label} cannot do in this deployment; "
        f"up to {steps} steps of it were priced: ask again with --set assumptions.serving.held_steps=0"
    )


def _sglang(engine: Engine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """Its scheduler asserts that steps overlap (``managers/prefill_delayer.py``), which pipelines and speculation end.

    Speculation of n-grams does in all versions, that of heads in those that do not overlap rounds by default.
    """
    if engine.first("--enable-prefill-delayer") is None or stages > 1 or speculation is not None:
        return {}, {}
    return {"--enable-prefill-delayer": True, "--prefill-delayer-max-delay-passes": steps}, {}


def _trtllm(engine: Engine, steps: int, stages: int, speculation: Speculation | None) -> Told:
    """All that have come are read as soon as every group has one: no further wait for more of them was priced."""
    del stages, speculation
    if not engine.options.has("trtllm-serve config", "attention_dp_config.enable_balance"):
        return {}, {}
    return {}, {"attention_dp_config": {"enable_balance": True, "timeout_iters": steps, "batching_wait_iters": 0}}


#: Engines that can; vLLM has nothing of it.
_TELLING: Mapping[str, Callable[[Engine, int, int, Speculation | None], Told]] = {"sglang": _sglang, "trtllm": _trtllm}
