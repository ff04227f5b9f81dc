"""Test the acceptance rule of speculative sampling on known distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inference_econ import _work
from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.extras.papers.study_kinds import SamplingRuleAsk
from inference_econ.formulas import speculation as formulas
from inference_econ.serving import SimulatedEstimate
from inference_econ.studies.exhibits import CellRow, CellTable, Compared

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Minimum expected count of a cell in the chi-square test; rarer tokens share a cell (Cochran, 1954) [1].
_FEWEST = 5.0
#: Smallest p-value of distributions that are treated as equal [1].
UNLIKELY = 1e-3
#: Maximum number of random numbers in memory at the same time [1].
_AT_ONCE = 4_000_000
#: Run time per draft token, run time per vocabulary token at usually reached positions [s], and number of such
#: positions [1].
_DRAFT_SECONDS, _TOKEN_SECONDS, _ACCEPTED = 1e-7, 6e-8, 4
_MOST_TOKENS, _MOST_ROUNDS = 10_000, 100_000_000


@dataclass(frozen=True, slots=True)
class ChiSquareFit:
    """Pearson chi-square test of sampled tokens.

    Attributes
    ----------
    tokens : int
        Sampled tokens [1].
    statistic : float
        Sum of (observed - expected)^2 / expected [1]; infinite if a token of zero probability occurred.
    degrees : int
        Degrees of freedom [1].
    """

    tokens: int
    statistic: float
    degrees: int

    @property
    def p_value(self) -> float:
        """Probability of at least this difference if the distributions are equal [1]."""
        from scipy.special import chdtrc

        return float(chdtrc(self.degrees, self.statistic)) if self.degrees else 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """Tokens of speculative sampling compared with their expected distribution.

    Attributes
    ----------
    vocabulary, draft_length, rounds : int
        Vocabulary size, draft length, and number of speculation rounds [1].
    fits : tuple of ChiSquareFit
        Test of the tokens at each position against the target's distribution.
    acceptance : ndarray, shape (k,)
        Expected acceptance rate by position, the sum of min(p, q) over tokens [1].
    accepted : tuple of SimulatedEstimate
        Acceptance rate at each position, for rounds in which all earlier draft tokens were accepted [1].
    expected_tokens : float
        Tokens per speculation round by formula [1].
    tokens : SimulatedEstimate
        Sampled tokens per speculation round [1].
    """

    vocabulary: int
    draft_length: int
    rounds: int
    fits: tuple[ChiSquareFit, ...]
    acceptance: Array
    accepted: tuple[SimulatedEstimate, ...]
    expected_tokens: float
    tokens: SimulatedEstimate

    @property
    def fit(self) -> ChiSquareFit:
        """Joint test of the tokens at all positions."""
        return ChiSquareFit(
            sum(fit.tokens for fit in self.fits),
            math.fsum(fit.statistic for fit in self.fits),
            sum(fit.degrees for fit in self.fits),
        )

    @property
    def exact(self) -> bool:
        """True if random variation explains all differences from the target's distribution."""
        return self.fit.p_value >= UNLIKELY


def compare_sampling_rule(ask: SamplingRuleAsk) -> Compared:
    """Sample the tokens of a scenario, and compare their distributions with the target's."""
    if ask.target is None or ask.draft is None:
        distributions = random_distributions(ask.vocabulary, ask.draft_length, ask.seed)
    else:
        distributions = np.array(ask.target), np.array(ask.draft)
    return Compared((table_of(check(*distributions, ask.draft_length, rounds=ask.rounds, seed=ask.seed)),), (), ())


def table_of(drawn: Check) -> CellTable:
    """Table of sampled tokens and the target's distribution, by position."""
    rows = []
    for position, fit in enumerate((*drawn.fits, drawn.fit)):
        share: tuple[str, str] = ("", "")
        if position < drawn.draft_length:
            accepted = drawn.accepted[position]
            words = "not reached" if math.isnan(accepted.value) else f"{accepted.value:.4f} ± {accepted.half_width:.4f}"
            share = (f"{drawn.acceptance[position]:.4f}", words)
        statistic = f"{fit.statistic:.1f}" if math.isfinite(fit.statistic) else "impossible"
        name = position + 1 if position <= drawn.draft_length else "all"
        rows.append(CellRow((name,), (f"{fit.tokens:,}", statistic, str(fit.degrees), fit.p_value, *share)))
    verdict = "EXACT: " if drawn.exact else "NOT EXACT: "
    follow = "follow" if drawn.exact else "do not follow"
    meets = "inside" if drawn.tokens.agrees(drawn.expected_tokens) else "OUTSIDE"
    notes = (
        f"{verdict}{drawn.fit.tokens:,} sampled tokens {follow} the distribution of the target model (chi-square test, "
        f"p-value {100 * drawn.fit.p_value:.2g} %; a p-value below {100 * UNLIKELY:.2g} % fails).",
        f"By the formula, a round gives {drawn.expected_tokens:.5f} tokens; in the simulation, a round gives "
        f"{drawn.tokens.value:.5f} ± {drawn.tokens.half_width:.5f} (95% confidence). The value of the formula "
        f"is {meets} the interval of the simulation.",
    )
    title = (
        f"Speculative sampling: vocabulary of {drawn.vocabulary}, {drawn.draft_length} draft tokens, "
        f"{drawn.rounds:,} rounds"
    )
    columns = ("tokens", "chi-square", "degrees", "p-value", "accepted, formula", "accepted, drawn")
    return CellTable(title, ("position",), columns, tuple(rows), notes)


def check(
    target: npt.ArrayLike, draft: npt.ArrayLike, draft_length: int, *, rounds: int = 1_000_000, seed: int = 0
) -> Check:
    """Sample tokens by speculative sampling, and compare them with the target and the formulas.

    Parameters
    ----------
    target, draft, draft_length
        See :func:`inference_econ.formulas.speculation.speculative_sample`.
    rounds : int
        Number of speculation rounds [1].
    seed : int
        Seed of the random numbers.

    Returns
    -------
    Check
        Result of the test. Equal seeds give equal results.

    Raises
    ------
    InputError
        If a distribution is invalid, or a number is out of range.
    TooMuchError
        If the simulation would take too long.

    Notes
    -----
    Tokens at a position have the target's distribution, even if only some rounds reach the position: appendix A.1 of
    Leviathan et al. (2023). The mean number of tokens per round is 1 + a_1 + a_1 a_2 + .., where a_i is the sum of
    min(p, q).
    """
    if not 1 <= rounds <= _MOST_ROUNDS:
        raise InputError(f"rounds must be from 1 to {_MOST_ROUNDS:,}, got {rounds}")
    if seed < 0:
        raise InputError(f"the seed must not be negative, got {seed}")
    if draft_length < 1:
        raise InputError(f"the draft length must be at least 1, got {draft_length}")
    random = np.random.default_rng(seed)
    p = np.asarray(target, dtype=float)
    size = p.shape[-1] if p.ndim else 0
    seconds = rounds * (_DRAFT_SECONDS * draft_length + _TOKEN_SECONDS * size * min(draft_length, _ACCEPTED))
    _work.check(f"{rounds:,} rounds over {size:,} tokens", seconds=seconds, smaller="rounds")
    counts = np.zeros((draft_length + 1, size), dtype=np.int64)
    lengths = np.zeros(draft_length + 2, dtype=np.int64)
    left = rounds
    while left:
        some = min(left, max(1, _AT_ONCE // max(size, draft_length)))
        drawn = formulas.speculative_sample(p, draft, draft_length, random, some)
        lengths += np.bincount(drawn.produced, minlength=draft_length + 2)
        for position in range(draft_length + 1):
            tokens = drawn.tokens[:, position]
            counts[position] += np.bincount(tokens[tokens >= 0], minlength=size)
        left -= some
    by_position = np.broadcast_to(p, (draft_length + 1, size))
    chances = np.broadcast_to(formulas.acceptance_probability(by_position[:-1], draft), (draft_length,))
    return Check(
        size,
        draft_length,
        rounds,
        tuple(_fit(*pair) for pair in zip(counts, by_position, strict=True)),
        chances,
        tuple(_shares(lengths)),
        float(formulas.expected_tokens_by_position(chances)),
        _mean(np.arange(draft_length + 2.0), lengths),
    )


def random_distributions(vocabulary: int, draft_length: int, seed: int) -> tuple[Array, Array]:
    """Random target and draft distributions with an overlap of about 75%, different at every position.

    Returns
    -------
    (ndarray, ndarray), shapes (k + 1, vocabulary) and (k, vocabulary)
        Probabilities [1]: the target is uniform on the simplex, and the draft is half the target and half random.

    Raises
    ------
    InputError
        If the vocabulary or the draft length is out of range.
    """
    if not 2 <= vocabulary <= _MOST_TOKENS:
        raise InputError(f"the vocabulary must have from 2 to {_MOST_TOKENS} tokens, got {vocabulary}")
    if draft_length < 1:
        raise InputError(f"the draft length must be at least 1, got {draft_length}")
    random = np.random.default_rng([seed, vocabulary, draft_length])
    target = random.dirichlet(np.ones(vocabulary), draft_length + 1)
    return target, (target[:-1] + random.dirichlet(np.ones(vocabulary), draft_length)) / 2.0


def _fit(counts: npt.NDArray[np.int64], chances: Array) -> ChiSquareFit:
    total = int(counts.sum())
    if np.any(counts[chances == 0.0]):
        return ChiSquareFit(total, math.inf, max(chances.size - 1, 1))
    expected = total * chances / chances.sum()
    often = expected >= _FEWEST
    seen, due = counts[often].astype(float), expected[often]
    if expected[~often].sum() > 0.0:
        seen, due = np.append(seen, counts[~often].sum()), np.append(due, expected[~often].sum())
    # A position that no round reached has no degrees of freedom.
    return ChiSquareFit(total, float(((seen - due) ** 2 / due).sum()), max(due.size - 1, 0))


def _shares(lengths: npt.NDArray[np.int64]) -> list[SimulatedEstimate]:
    """Acceptance rate at each position, from the counts of rounds with 1, 2, .. tokens."""
    estimates = []
    for position in range(1, lengths.size - 1):
        reached, accepted = int(lengths[position:].sum()), int(lengths[position + 1 :].sum())
        share = accepted / reached if reached else math.nan
        estimates.append(_normal(share, share * (1.0 - share) / reached if reached else math.nan))
    return estimates


def _mean(values: Array, counts: npt.NDArray[np.int64]) -> SimulatedEstimate:
    """Mean of ``values``, each of which occurred ``counts`` times, with a 95% confidence interval."""
    total = int(counts.sum())
    mean = float(values @ counts) / total
    if total < 2:
        return SimulatedEstimate(mean, math.nan)
    variance = float((values - mean) ** 2 @ counts) / (total - 1)
    return _normal(mean, variance / total)


def _normal(mean: float, variance: float) -> SimulatedEstimate:
    """Estimate with the 95% confidence interval of a normal distribution."""
    from scipy.special import ndtri

    return SimulatedEstimate(mean, float(ndtri(0.975)) * math.sqrt(variance))


def answer_sampling_rule(run: ScenarioRun, ask: SamplingRuleAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_sampling_rule(ask), lambda _: ())
