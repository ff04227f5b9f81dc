"""Speculation of measured servers, as the engine model knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from inference_econ.calibration.measurements import Measurement
from inference_econ.engine import Speculation
from inference_econ.errors import InputError
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import BYTES_PER_ELEMENT, Precision, ProposerName, catalog, recommended_drafts

#: What measurements call a proposer, with the proposals of a round behind it where they are recorded.
_PROPOSERS: Mapping[str, ProposerName] = {"MTP": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle"}
_KIND = re.compile(r"(MTP|EAGLE3|EAGLE)(?:-?(\d))?(?: (?:vanilla|autoregressive)\b.*)?", re.IGNORECASE)


class _Rounds(NamedTuple):
    """Speculation of a server."""

    proposer: ProposerName
    length: int
    tokens: float
    assumed: str


def speculation_of(row: Measurement) -> Speculation | None:
    """Rounds of the draft length that a server ran, with published acceptance; None where it decodes plainly.

    What a row does not say is taken from the recipe of its engine for its model, and from what is usual of the
    proposer.

    Parameters
    ----------
    row : Measurement
        What was measured.

    Raises
    ------
    InputError
        If it is only suspected, or nobody knows who proposed.
    """
    rounds = _rounds(row)
    if rounds is None:
        return None
    weights = head_weights(row.model, row.weights) if rounds.proposer == "mtp" else None
    fixed = Speculation.fixed(rounds.proposer, rounds.length, rounds.tokens, weights=weights)
    host = catalog.speculation_facts().host_seconds(row.engine, row.hardware, row.engine_version)
    return replace(fixed, host_seconds=host)


def assumed_rounds(row: Measurement) -> str:
    """Parts of a server's rounds that are not recorded, and what was taken for them, in words; empty if nothing was.

    Examples
    --------
    >>> from inference_econ.calibration import Measurement
    >>> row = Measurement(
    ...     id="a", dataset="mine", source="", engine="sglang", engine_version="", model="deepseek_v3",
    ...     hardware="h200_sxm", accelerators=8, tp=8, dp=1, pp=1, ep=1, weights=None, isl=1e3, osl=1e3,
    ...     load="concurrency", concurrency=1.0, speculation="MTP",
    ... )
    >>> assumed_rounds(row)
    '3 proposals of a round, as in the recipe of sglang; 2.59 tokens of a round, as usual'
    """
    rounds = _rounds(row)
    return "" if rounds is None else rounds.assumed


def _rounds(row: Measurement) -> _Rounds | None:
    """Recorded rounds of a server, and what was assumed."""
    if not row.speculates:
        return None
    if row.speculation == "suspected":
        raise InputError("it may speculate or not: nothing tells which, or with how many proposals")
    kind = _KIND.fullmatch(row.speculation)
    if kind is None:
        raise InputError(f"it speculates ({row.speculation}), but how many tokens a round proposes is not recorded")
    proposer, target, assumed = _PROPOSERS[kind[1].upper()], catalog.model(row.model), []
    usual = catalog.usual_acceptance(proposer, target)
    if kind[2]:
        length = int(kind[2])
    else:
        recipe = recommended_drafts(row.engine, proposer, target)
        length, whose = recipe or usual.longest, f"in the recipe of {row.engine}" if recipe else "usual"
        assumed.append(f"{length} proposals of a round, as {whose}")
    tokens = row.tokens_per_round
    if tokens is None:
        if length > len(usual.acceptance):
            raise InputError(f"no acceptance length of {row.model} with {row.speculation} is published")
        tokens = float(expected_tokens_by_position(usual.acceptance[:length]))
        assumed.append(f"{tokens:.3g} tokens of a round, as usual")
    return _Rounds(proposer, length, tokens, "; ".join(assumed))


def head_weights(model: str, weights: str | None) -> str | None:
    """The format of multi-token-prediction layers: 16 bits in checkpoints of 4, else that of the target."""
    precision = Precision.of(catalog.model(model), weights)
    narrow = min(BYTES_PER_ELEMENT[name] for name in (precision.weights, precision.experts))
    return "bf16" if narrow < 1.0 else None
