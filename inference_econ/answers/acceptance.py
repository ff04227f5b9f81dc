"""Acceptance rates from the log-probabilities of drafted tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import speculation
from inference_econ.formulas.speculation import Acceptance

if TYPE_CHECKING:
    import pandas as pd


TARGET, DRAFT, POSITION = "target_logprob", "draft_logprob", "position"


@dataclass(frozen=True, slots=True)
class MeasuredAcceptance:
    """How often a target model accepts what a draft model proposes.

    Attributes
    ----------
    overall : Acceptance
        Over all drafted tokens.
    by_position : tuple of Acceptance
        Of the first, second, .. proposal of a draft; empty if the positions are not known.
    """

    overall: Acceptance
    by_position: tuple[Acceptance, ...] = ()

    def expected_tokens(self, draft_length: int) -> Array:
        """Expected tokens of a round with 0, 1, .. ``draft_length`` proposals, for ``best_draft_length``.

        Returns
        -------
        ndarray, shape (draft_length + 1,)
            By position where the positions are known, and otherwise as if all were alike [1].

        Raises
        ------
        InputError
            If the draft is longer than the known positions.
        """
        known = len(self.by_position)
        if self.by_position and draft_length > known:
            raise InputError(f"the acceptance of positions 1 to {known} is known, a draft of {draft_length} needs more")
        rates = [one.rate for one in self.by_position[:draft_length]] or [self.overall.rate] * draft_length
        return np.array([float(speculation.expected_tokens_by_position(rates[:n])) for n in range(draft_length + 1)])


def read(path: Path | str) -> MeasuredAcceptance:
    """Acceptance rates from a CSV file with one line per drafted token.

    Parameters
    ----------
    path : Path or str
        With the columns ``target_logprob`` and ``draft_logprob`` (natural logarithms of the probability that each
        model gives to the token) and, if known, ``position`` (1 for the first token of a draft). A position's rate is
        meant for tokens whose predecessors were accepted, so leave out those after a rejection where that is known.

    Returns
    -------
    MeasuredAcceptance
        Overall, and by position.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column or lines, or has an entry that cannot be.
    """
    frame = _frame(path)
    target, draft = (_numbers(path, frame, name) for name in (TARGET, DRAFT))
    try:
        overall = speculation.acceptance_from_log_probabilities(target, draft)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if POSITION not in frame.columns:
        return MeasuredAcceptance(overall)
    positions = _numbers(path, frame, POSITION)
    found = np.unique(positions)
    if found.tolist() != list(range(1, found.size + 1)):
        raise InputError(
            f"{path}: {POSITION} must be 1 for the first token of a draft, 2 for the second, and so on without gaps; "
            f"got {', '.join(f'{one:g}' for one in found[:8])}"
        )
    return MeasuredAcceptance(
        overall,
        tuple(
            speculation.acceptance_from_log_probabilities(target[positions == one], draft[positions == one])
            for one in found
        ),
    )


def _frame(path: Path | str) -> pd.DataFrame:
    """The lines of a file as text."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty; needed are the columns {TARGET} and {DRAFT}") from error
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no CSV file: {error}") from error
    missing = [name for name in (TARGET, DRAFT) if name not in frame.columns]
    if missing:
        raise InputError(
            f"{path}: no column {' and no column '.join(missing)}; needed are {TARGET} and {DRAFT}, "
            f"got {', '.join(map(str, frame.columns))}"
        )
    if frame.empty:
        raise InputError(f"{path}: no drafted tokens below the head of the table; give at least one line")
    return frame


def _numbers(path: Path | str, frame: pd.DataFrame, name: str) -> Array:
    values = []
    # Line 1 is the head.
    for line, text in enumerate(frame[name], start=2):
        try:
            values.append(float(text))
        except ValueError as error:
            raise InputError(f"{path}:{line}: {name} must be a number, got {text!r}") from error
    return np.array(values)
