"""The command about rollouts of training, and batches."""

from __future__ import annotations

from dataclasses import replace

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.requests import Request, prices, subject, workload


def rollout(
    request: Request,
    prompts: int,
    samples: int,
    isl: str,
    osl: str,
    max_tokens: int | None,
    gpus: int,
    concurrency: int | None,
    finished: float,
    learner: bool,
    mfu: float | None,
) -> ie.Rollout:
    """RL rollouts and batches: dollars and hours per 1,000 trajectories, and the tail of the longest.

    N prompts x G samples begin at once and are played request by request: fewer and fewer are left, and the longest run
    by themselves. With --learner training beside it, in turns or split. MODEL and HARDWARE as in 'frontier'.
    """
    if mfu is not None and not learner:
        raise InputError("--mfu is that of a --learner; give both, or neither", option="mfu")
    learning = catalog.learning() if learner else None
    if learning is not None and mfu is not None:
        learning = learning.replace(mfu=mfu)
    requests = workload.requests(request, isl=isl, osl=osl)
    # What a traffic says of arrivals and of its cache is not that of a batch.
    requests = type(requests)(requests.isl, requests.osl)
    offers = subject.of_chips(
        replace(request, price=prices.of_chips(request.price, request.chips), together=True), requests
    )
    return ie.rollout(
        offers,
        gpus,
        prompts=prompts,
        samples=samples,
        concurrency=concurrency,
        finished=finished,
        max_tokens=max_tokens,
        learner=learning,
        progress=request.progress,
    )
