"""How measured servers speculated, as the engine model knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inference_econ.calibration.measurements import Measurement
from inference_econ.engine import Speculation
from inference_econ.errors import InputError
from inference_econ.inputs import BYTES_PER_ELEMENT, Precision, ProposerName, catalog

#: What measurements call a proposer, with the proposals of a round behind it.
_PROPOSERS: Mapping[str, ProposerName] = {"MTP": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle"}
_FIXED = re.compile(r"(MTP|EAGLE3|EAGLE)-?(\d)")


def speculation_of(row: Measurement) -> Speculation | None:
    """Rounds of the draft length that a server ran, with published acceptance; None where it decodes plainly.

    Parameters
    ----------
    row : Measurement
        What was measured.

    Raises
    ------
    InputError
        If it is only suspected, the draft length is not recorded, or nothing is published about its acceptance.
    """
    if not row.speculates:
        return None
    fixed = _FIXED.fullmatch(row.speculation)
    if row.speculation == "suspected":
        raise InputError("it may speculate or not: nothing tells which, or with how many proposals")
    if fixed is None:
        raise InputError(f"it speculates ({row.speculation}), but how many tokens a round proposes is not recorded")
    if row.tokens_per_round is None:
        raise InputError(f"no acceptance length of {row.model} with {row.speculation} is published")
    proposer = _PROPOSERS[fixed[1]]
    weights = head_weights(row.model, row.weights) if proposer == "mtp" else None
    return Speculation.fixed(proposer, int(fixed[2]), row.tokens_per_round, weights=weights)


def head_weights(model: str, weights: str | None) -> str | None:
    """The format of multi-token-prediction layers: 16 bits in checkpoints of 4, else that of the target."""
    precision = Precision.of(catalog.model(model), weights)
    narrow = min(BYTES_PER_ELEMENT[name] for name in (precision.weights, precision.experts))
    return "bf16" if narrow < 1.0 else None
