"""The command that takes one step apart."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ import report

from . import options, provenance, show
from .help import command
from .refusals import named_options, refuse


@command("explain")
def explain(
    operators: bool | None,
    memory: bool | None,
    prefill: float | None,
    contexts: tuple[tuple[float, int], ...] | None,
    roofline: str | None,
    output: options.Output,
    **choices: Any,
) -> None:
    """Take one step apart, of decode or of prefill: seconds by part and by operator, what bounds them, the memory.

    A decode step sees the mean context of --isl and --osl, as in 'frontier', or --context; with --prefill nothing is
    cached before but --context. MODEL and HARDWARE as in 'frontier'.
    """
    context, spread = _contexts(choices, prefill, contexts)
    with show.progress_bar(quiet=output.quiet):
        explanation = options.fewest(
            choices,
            lambda pinned: ie.explain(
                options.setup(choices),
                options.pins(pinned),
                context=context,
                prompt=prefill,
                cut=choices["cut"],
                shared_prefix=choices["shared_prefix"],
                spread=spread,
                contexts=contexts or (),
            ),
        )
    page = report.explain.ExplanationPage(explanation, operators, memory)
    show.emit(page, output, provenance.question())
    if roofline is not None:
        page.draw_roofline(roofline)
        show.remark(f"wrote {roofline}", quiet=output.quiet)


def _contexts(choices: options.Choices, prefill: float | None, mix: object) -> tuple[float | None, float]:
    """The context that the step sees, and how far contexts are spread around it [tokens].

    Raises
    ------
    InputError
        If lengths of requests are given for a prefill step or a mix, or a mix for a prefill step.
    """
    if mix is not None:
        stray = named_options({**choices, "prefill": prefill}, ("prefill", "context", "isl", "osl", "batch"))
        refuse(stray, "--contexts says the context of every sequence that decodes; leave {} out", "contexts")
        return 0.0, 0.0
    return options.step_contexts(choices, prefill)
