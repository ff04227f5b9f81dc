"""Commands about speculation: where it pays on a deployment, and whether its rule keeps the target's distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import report, studies
from inference_econ.errors import InputError
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._shown import Shown
    from inference_econ.report.page import Page


def speculate(request: Request) -> Shown:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals, a bound on what engines do;
    with --draft-length every round has that number, and where it does not pay the speed-up is below 1.
    """
    speculation = subject.speculation(request)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = subject.setup(request), workload.requests(request)
    return subject.fewest(request, lambda pinned: ie.speculate(setup, requests, speculation, subject.pins(pinned)))


def check(file: str | None, vocabulary: int | None, draft_length: int, rounds: int, seed: int) -> Page:
    """Draw tokens by the accept/reject rule, and hold them against the target's distribution and the formula.

    FILE is a CSV table with the columns target and draft, the probabilities of one token per line; without it random
    distributions are drawn, others at each position.
    """
    if file is not None and vocabulary is not None:
        raise InputError("--vocabulary is for random distributions; with a file its lines are the vocabulary")
    if file is None:
        target, draft = studies.sampling_rule.random_distributions(vocabulary or 20, draft_length, seed)
    else:
        target, draft = studies.sampling_rule.read(file)
    try:
        drawn = studies.sampling_rule.check(target, draft, draft_length, rounds=rounds, seed=seed)
    except InputError as error:
        raise error if file is None else InputError(f"{file}: {error}") from error
    return report.sampling_rule.SamplingRulePage(drawn)
