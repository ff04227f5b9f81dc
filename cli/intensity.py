"""The command that says where a step turns from memory traffic to arithmetic."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ import answers

from . import options
from .help import question
from .refusals import named_options, refuse


@question("intensity")
def intensity(over: answers.intensity.Axis, to: float | None, prefill: float | None, **choices: Any) -> ie.Intensity:
    """Arithmetic over memory traffic of each operator of a step, and from where on arithmetic is the limit.

    The critical batch of a model on a chip, in whole numbers, from the operators of one deployment, beside its closed
    form; or the same over the context, or the prompt tokens that a step reads. MODEL and HARDWARE as in 'frontier',
    other options as in 'explain'.
    """
    context, spread = _contexts(choices, over, prefill)
    setup, settings = options.setup(choices), {"over": over, "most": to, "prompt": prefill, "cut": choices["cut"]}
    return options.fewest(
        choices,
        lambda pinned: ie.intensity(setup, options.pins(pinned), context=context, spread=spread, **settings),
    )


def _contexts(
    choices: options.Choices, over: answers.intensity.Axis, prefill: float | None
) -> tuple[float | None, float]:
    """The context of the step, and how far contexts are spread around it; none where that is varied [tokens].

    Raises
    ------
    InputError
        If the context is given where it is varied, or lengths of requests for a prefill step.
    """
    if over != "context":
        return options.step_contexts(choices, 1.0 if over == "prompt" else prefill)
    refuse(
        named_options(choices, ("context", "isl", "osl")), "{} says what --over context varies; leave one of them out"
    )
    return None, 0.0
