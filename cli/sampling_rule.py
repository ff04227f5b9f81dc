"""The command that checks whether the rule of speculation keeps the target's distribution."""

from __future__ import annotations

from inference_econ import report, studies
from inference_econ.errors import InputError

from . import options
from .help import command


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
