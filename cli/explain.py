"""The ``explain`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import answers, report
from inference_econ.requests import Request, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def explain(
    request: Request, operators: bool | None, memory: bool | None, prefill: float | None, to: float | None
) -> Page:
    """Break one decode or prefill step down into time, bottlenecks and memory.

    With --over, the command shows the arithmetic intensity of each operator, and the batch size, context or prompt
    length from which an operator is compute-bound.

    A decode step uses the mean context of --isl and --osl, or --context. A prefill step (--prefill) starts from an
    empty cache unless --context is given. MODEL and HARDWARE are names or paths of YAML files.
    """
    refuse(["to"] if to is not None else [], "{} goes with --over")
    context, spread = _contexts(request, prefill)
    explanation = subject.fewest(
        request,
        lambda pinned: ie.explain(
            subject.setup(request),
            subject.pins(pinned),
            context=context,
            prompt=prefill,
            cut=request.cut,
            shared_prefix=request.shared_prefix or 0.0,
            spread=spread,
            contexts=request.contexts or (),
        ),
    )
    return report.explain.ExplanationPage(explanation, operators, memory)


def _contexts(request: Request, prefill: float | None) -> tuple[float | None, float]:
    """Mean context of the step, and width of the range of contexts around this mean [tokens].

    Raises
    ------
    InputError
        If a prefill step has request lengths, or ``--contexts`` is combined with another option that it replaces.
    """
    if request.contexts is None:
        return workload.step_contexts(request, prefill)
    stray = [*(["prefill"] if prefill is not None else []), *request.named(("context", "isl", "osl", "batch"))]
    refuse(stray, "--contexts says the context of every sequence that decodes; leave {} out", "contexts")
    return 0.0, 0.0


def intensity(request: Request, over: answers.intensity.Axis, to: float | None, prefill: float | None) -> ie.Intensity:
    """Show the arithmetic intensity of each operator, and the value from which the operator is compute-bound."""
    of_steps = ("operators", "memory", "roofline", "contexts", "no_kv_cache", "shared_prefix")
    refuse(filter(request.is_given, of_steps), "{} is of one step; leave it out with --over")
    if over == "context":
        varied = request.named(("context", "isl", "osl"))
        refuse(varied, "{} says what --over context varies; leave one of them out")
        context, spread = None, 0.0
    else:
        context, spread = workload.step_contexts(request, 1.0 if over == "prompt" else prefill)
    setup = subject.setup(request)
    return subject.fewest(
        request,
        lambda pinned: ie.intensity(
            setup,
            subject.pins(pinned),
            context=context,
            spread=spread,
            over=over,
            most=to,
            prompt=prefill,
            cut=request.cut,
        ),
    )
