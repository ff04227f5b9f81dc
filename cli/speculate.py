"""Commands about speculation: where it pays on a deployment, and whether its rule keeps the target's distribution."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ import report, studies
from inference_econ.errors import InputError

from . import options, proposals
from .help import command, question


@question("speculate")
def speculate(**choices: Any) -> options.Shown:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals, a bound on what engines do;
    with --draft-length every round has that number, and where it does not pay the speed-up is below 1.
    """
    speculation = proposals.speculation(choices)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = options.setup(choices), options.requests(choices)
    return options.fewest(choices, lambda pinned: ie.speculate(setup, requests, speculation, options.pins(pinned)))


@command("speculate-check")
def check(file: str | None, vocabulary: int | None, draft_length: int, rounds: int, seed: int) -> options.Page:
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
