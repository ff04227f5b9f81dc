"""Tokens that the rounds of a server give which is recorded to speculate."""

from __future__ import annotations

import re
from dataclasses import replace

from inference_econ.calibration.measurements._record import Measurement
from inference_econ.inputs import catalog
from inference_econ.inputs.acceptance import Prompts

#: A method, and the proposals of a round.
_FIXED = re.compile(r"(?P<method>[A-Z][A-Za-z]*3?)(?P<drafts>\d)")


def with_tokens(row: Measurement, prompts: Prompts = "text") -> Measurement:
    """Return a row with the published tokens of a round, if its method and draft length are recorded ("MTP3").

    Parameters
    ----------
    row : Measurement
        Its waits are in rounds: engines that wait count these. Those of the result are in steps of one token each.
    prompts : str
        On which its requests were; where nothing is published for such, the others stand for them.
    """
    fixed = _FIXED.fullmatch(row.speculation)
    if fixed is None:
        return row
    lengths = catalog.speculation_facts().lengths(row.model, fixed["method"], prompts)
    tokens = None if lengths is None else lengths.tokens.get(int(fixed["drafts"]))
    steps = tokens or 1.0
    return replace(row, tokens_per_round=tokens, wait_steps=row.wait_steps * steps, held_steps=row.held_steps * steps)
