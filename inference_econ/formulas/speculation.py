"""Speculative decoding: tokens per round, time per token, and acceptance of draft tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.errors import InputError
from inference_econ.formulas import special

#: Tolerance for the sum of probabilities, wide enough for single precision [1].
_SUM_TOLERANCE = 1e-5


def expected_tokens(acceptance: float, checked: int) -> float:
    """Expected tokens per verification if each draft token is accepted independently.

    Parameters
    ----------
    acceptance : float
        Probability that a draft token is accepted, from 0 to 1 [1].
    checked : int
        Number of terms n of the geometric series [1]: the draft length in the published study; the draft length plus
        one in Leviathan et al. (2023), who include the token from the target.

    Returns
    -------
    float
        (1 - a^n) / (1 - a) for ``acceptance`` a [1]; n if every token is accepted.

    Notes
    -----
    Eq. (46) of Erdil (2025); eq. (1) of Leviathan et al., arXiv:2211.17192.

    Examples
    --------
    >>> round(expected_tokens(0.8, 5), 4), expected_tokens(0.0, 5), expected_tokens(1.0, 5)
    (3.3616, 1.0, 5.0)
    """
    if acceptance == 1.0:
        return float(checked)
    return (1.0 - acceptance**checked) / (1.0 - acceptance)


def seconds_per_token(
    verify_seconds: npt.ArrayLike, draft_seconds: npt.ArrayLike, draft_length: int, tokens: float
) -> Array:
    """Mean time per output token with speculative decoding.

    Parameters
    ----------
    verify_seconds : array_like, shape (...)
        Time in which the target verifies the draft tokens [s].
    draft_seconds : array_like, shape (...)
        Time in which the draft model generates one token [s].
    draft_length : int
        Number of draft tokens per round [1].
    tokens : float
        Expected number of tokens per round, from :func:`expected_tokens` [1].

    Returns
    -------
    ndarray, shape (...)
        (t_P + gamma t_Q) / V [s], from verification time t_P, drafting time t_Q, draft length gamma and tokens V.

    Notes
    -----
    Eq. (46) of Erdil (2025).
    """
    verify, draft = np.asarray(verify_seconds, dtype=float), np.asarray(draft_seconds, dtype=float)
    return np.asarray((verify + draft_length * draft) / tokens)


def expected_tokens_by_position(acceptance: npt.ArrayLike) -> Array:
    """Expected tokens per verification if acceptance depends on the position in the draft.

    Parameters
    ----------
    acceptance : array_like, shape (..., k)
        Probability that the first, second, ... k-th draft token is accepted, if all draft tokens before it were
        accepted [1].

    Returns
    -------
    ndarray, shape (...)
        1 + a_1 + a_1 a_2 + ... [1]: the accepted draft tokens plus the token from the target.

    Raises
    ------
    InputError
        If a probability is not from 0 to 1.

    Notes
    -----
    Eq. (1) of Leviathan et al. (2023), without the assumption that all positions are equal. If all probabilities are
    equal, the result equals :func:`expected_tokens` for k + 1.

    Examples
    --------
    >>> round(float(expected_tokens_by_position([0.8, 0.7, 0.6])), 3)
    2.696
    """
    chances = _probabilities("acceptance", acceptance)
    return np.asarray(1.0 + np.cumprod(chances, axis=-1).sum(axis=-1))


def implied_acceptance(speedup: float, draft_length: int, draft_cost: float = 0.0) -> float:
    """Acceptance rate that follows from a measured speedup of speculative decoding.

    Parameters
    ----------
    speedup : float
        Time per token without speculation, divided by the time per token with speculation [1].
    draft_length : int
        Number of draft tokens in every round [1].
    draft_cost : float
        Time to draft one token, divided by the time of a step of the target [1].

    Returns
    -------
    float
        Probability that a draft token is accepted, from 0 to 1 [1].

    Raises
    ------
    InputError
        If a number is out of range, or if no acceptance rate gives this speedup.

    Notes
    -----
    Theorem 3.8 of Leviathan et al. (2023), speedup = (1 - a^(k+1)) / ((1 - a) (1 + k c)), solved for a. The equation is
    valid if verification of k draft tokens takes no longer than a decode step without speculation, as in small batches.

    Examples
    --------
    >>> round(implied_acceptance(2.3, 4, 0.05), 3)
    0.697
    """
    if draft_length < 1 or not draft_cost >= 0.0:
        raise InputError(
            f"draft_length must be at least 1 and draft_cost at least 0, got {draft_length} and {draft_cost:g}"
        )
    slower = 1.0 + draft_length * draft_cost
    least, most = 1.0 / slower, (draft_length + 1) / slower
    if not least <= speedup <= most:
        raise InputError(
            f"{draft_length} draft tokens per round, at {draft_cost:g} of a step each, speed up by {least:.3g} (none "
            f"accepted) to {most:.3g} (all accepted), got {speedup:g}"
        )
    tokens = speedup * slower
    return special.root(lambda chance: float(expected_tokens(chance, draft_length + 1)) - tokens, 0.0, 1.0, 1e-12)


def round_seconds(verify_seconds: npt.ArrayLike, draft_seconds: npt.ArrayLike) -> Array:
    """Time of a speculation round with 0, 1, ... k draft tokens.

    Parameters
    ----------
    verify_seconds : array_like, shape (..., k + 1)
        Time in which the target verifies 0, 1, ... k draft tokens [s]; the first entry is a step without speculation.
    draft_seconds : array_like, shape (...)
        Time to draft one token [s]; ``inf`` if the draft model cannot run, so that only plain decoding remains.

    Returns
    -------
    ndarray, shape (..., k + 1)
        t_P(n) + n t_Q [s].

    Notes
    -----
    The time is the numerator of eq. (46) of Erdil (2025).

    Examples
    --------
    >>> round_seconds([0.5, 0.5, 0.75], 0.25).tolist(), round_seconds([1.0, 2.0], np.inf).tolist()
    ([0.5, 0.75, 1.25], [1.0, inf])
    """
    verify, draft = np.asarray(verify_seconds, dtype=float), np.asarray(draft_seconds, dtype=float)
    lengths = np.arange(1, verify.shape[-1])
    return np.concatenate([verify[..., :1], verify[..., 1:] + lengths * draft[..., None]], axis=-1)


class BestDraft(NamedTuple):
    """Draft length with the shortest time per output token; fields have the shape of the leading axes."""

    length: Indices
    """Number of draft tokens per round [1]; 0 if decoding without speculation is the fastest."""
    seconds: Array
    """Time per token [s]."""
    speedup: Array
    """Time per token without speculation, divided by ``seconds`` [1]; at least 1 if the draft length may be 0."""


def best_draft_length(
    verify_seconds: npt.ArrayLike, draft_seconds: npt.ArrayLike, tokens: npt.ArrayLike, shortest: int = 0
) -> BestDraft:
    """Find the draft length with the shortest time per token.

    Parameters
    ----------
    verify_seconds : array_like, shape (..., k + 1)
        Time in which the target verifies 0, 1, ... k draft tokens [s]; the first entry is a step without speculation.
    draft_seconds : array_like, shape (...)
        Time to draft one token [s].
    tokens : array_like, shape (..., k + 1)
        Expected number of tokens from a round with 0, 1, ... k draft tokens [1]; the first entry is 1.
    shortest : int
        Minimum draft length [1]. The value k fixes the draft length at k.

    Returns
    -------
    BestDraft
        Draft length [1], time per token [s] and speedup [1]. If several draft lengths are equally fast, the shortest is
        returned.

    Raises
    ------
    InputError
        If ``verify_seconds`` and ``tokens`` differ in length, a round yields less than one token, or ``shortest``
        exceeds k.

    Notes
    -----
    Minimum of (t_P(n) + n t_Q) / V(n), eq. (46) of Erdil (2025), over the draft lengths n.

    Examples
    --------
    Each draft token adds 2% to the verification time, and drafting a token takes 10% of a step. Four of five draft
    tokens are accepted.

    >>> tokens = [expected_tokens(0.8, n + 1) for n in range(4)]
    >>> best = best_draft_length([0.0100, 0.0102, 0.0104, 0.0106], 0.001, tokens)
    >>> int(best.length), round(float(best.speedup), 2)
    (3, 2.17)
    """
    verify, gained = np.asarray(verify_seconds, dtype=float), np.asarray(tokens, dtype=float)
    if verify.ndim == 0 or gained.ndim == 0 or verify.shape[-1] != gained.shape[-1]:
        raise InputError(
            "verify_seconds and tokens must list the same draft lengths 0, 1, .. along the last axis, got the shapes "
            f"{verify.shape} and {gained.shape}"
        )
    if not (gained >= 1.0).all():
        raise InputError(f"a round yields at least 1 token, got {_first(gained, gained < 1.0)}")
    if not 0 <= shortest < gained.shape[-1]:
        raise InputError(f"the shortest draft must be from 0 to {gained.shape[-1] - 1} tokens, got {shortest}")
    seconds = round_seconds(verify, draft_seconds) / gained
    best = shortest + np.argmin(seconds[..., shortest:], axis=-1)
    least = np.take_along_axis(seconds, best[..., None], axis=-1)[..., 0]
    return BestDraft(best, least, np.asarray(seconds[..., 0] / least))


def acceptance_probability(target: npt.ArrayLike, draft: npt.ArrayLike) -> Array:
    """Probability that a draft token is accepted, from the token distributions of target and draft model.

    Parameters
    ----------
    target, draft : array_like, shape (..., vocabulary)
        Probabilities of each next token [1].

    Returns
    -------
    ndarray, shape (...)
        Sum of min(p, q) over the vocabulary [1]: 1 minus the total variation distance.

    Raises
    ------
    InputError
        If a distribution does not sum to 1, or has a probability that is not from 0 to 1.

    Notes
    -----
    Theorem 3.5 of Leviathan et al. (2023).

    Examples
    --------
    >>> float(acceptance_probability([0.5, 0.5, 0.0], [0.25, 0.5, 0.25]))
    0.75
    """
    p, q = _distribution("target", target), _distribution("draft", draft)
    return np.asarray(np.minimum(p, q).sum(axis=-1))


class Acceptance(NamedTuple):
    """Acceptance rate estimated from a sample."""

    rate: float
    """Share of draft tokens that are accepted [1]."""
    standard_error: float
    """Standard error of the acceptance rate if tokens are independent [1]; NaN for a single token."""
    tokens: int
    """Number of draft tokens in the sample [1]."""


def acceptance_from_log_probabilities(target: npt.ArrayLike, draft: npt.ArrayLike) -> Acceptance:
    """Estimate the acceptance rate from the probabilities that target and draft model assign to draft tokens.

    Parameters
    ----------
    target, draft : array_like, shape (n,)
        Natural logarithms of the probability that each model assigns to each draft token [1].

    Returns
    -------
    Acceptance
        Mean of min(1, p / q) [1] and its standard error [1].

    Raises
    ------
    InputError
        If there are no tokens, the lists differ in length, or a logarithm is above 0 or not a number.

    Notes
    -----
    alpha = E[min(1, p(x) / q(x))] for x drawn from q, definition 3.1 and theorem 3.5 of Leviathan et al. (2023). The
    estimate is valid if the draft model sampled its tokens at the temperature of its logarithms, but not for greedy
    drafts. The estimate is the mean of acceptance probabilities instead of outcomes (accepted or rejected), which
    reduces the variance.

    Examples
    --------
    >>> found = acceptance_from_log_probabilities(np.log([0.5, 0.2, 0.9]), np.log([0.25, 0.4, 0.9]))
    >>> round(found.rate, 4), round(found.standard_error, 4), found.tokens
    (0.8333, 0.1667, 3)
    """
    p, q = np.asarray(target, dtype=float), np.asarray(draft, dtype=float)
    if p.ndim != 1 or p.shape != q.shape:
        raise InputError(f"give one log-probability of each model per token, got the shapes {p.shape} and {q.shape}")
    if not p.size:
        raise InputError("no drafted tokens; give at least one")
    for name, logs in (("target", p), ("draft", q)):
        if not (logs <= 0.0).all():
            bad = int(np.argmax(~(logs <= 0.0)))
            raise InputError(f"log-probabilities must be <= 0, got {logs[bad]:g} of the {name} for token {bad + 1}")
    if np.isneginf(q).any():
        token = int(np.argmax(np.isneginf(q))) + 1
        raise InputError(
            f"token {token} was drafted, but the draft model gives it no probability (log-probability -inf)"
        )
    chances = np.exp(np.minimum(p - q, 0.0))
    error = float(chances.std(ddof=1)) / p.size**0.5 if p.size > 1 else float("nan")
    return Acceptance(float(chances.mean()), error, p.size)


class Rounds(NamedTuple):
    """Sampled rounds of speculative decoding."""

    tokens: Indices
    """Tokens of each round, shape (rounds, k + 1): accepted draft tokens and the token of the target, followed by -1.
    """
    produced: Indices
    """Number of tokens in each round, from 1 to k + 1, shape (rounds,) [1]."""


def speculative_sample(
    target: npt.ArrayLike, draft: npt.ArrayLike, draft_length: int, random: np.random.Generator, rounds: int = 1
) -> Rounds:
    """Sample tokens by speculative decoding from known distributions.

    Parameters
    ----------
    target : array_like, shape (vocabulary,) or (k + 1, vocabulary)
        Probabilities of the target [1]: the same for all positions, or one row for each position.
    draft : array_like, shape (vocabulary,) or (k, vocabulary)
        Probabilities of the draft model [1]: the same for all positions, or one row for each position.
    draft_length : int
        Number k of draft tokens per round, at least 1 [1].
    random : Generator
        Random number generator, ``numpy.random.default_rng(seed)``.
    rounds : int
        Number of independent rounds [1].

    Returns
    -------
    Rounds
        Tokens as indices into the vocabulary, and number of tokens per round [1].

    Raises
    ------
    InputError
        If a distribution does not sum to 1, has a probability that is not from 0 to 1, or has the wrong shape.

    Notes
    -----
    Algorithm 1 of Leviathan et al. (2023). A draft token x is accepted with the probability min(1, p(x) / q(x)). The
    first rejected token is replaced by a sample from max(0, p - q), normalized. If all k draft tokens are accepted, the
    target adds one token. Distributions may depend on the position, but not on earlier tokens. The sampled tokens have
    the target's distribution for any draft model.

    Examples
    --------
    >>> found = speculative_sample([0.6, 0.4], [0.5, 0.5], 3, np.random.default_rng(0), rounds=2)
    >>> found.tokens.shape, found.produced.tolist() == (found.tokens >= 0).sum(axis=1).tolist()
    ((2, 4), True)
    """
    if draft_length < 1 or rounds < 1:
        raise InputError(f"draft_length and rounds must be at least 1, got {draft_length} and {rounds}")
    p = _by_position("target", target, draft_length + 1)
    q = _by_position("draft", draft, draft_length)
    if p.shape[-1] != q.shape[-1]:
        raise InputError(f"target and draft must have one vocabulary, got {p.shape[-1]} and {q.shape[-1]} tokens")
    places = np.arange(draft_length)
    proposed = np.stack([_draw(np.broadcast_to(q[i], (rounds, q.shape[-1])), random) for i in places], axis=-1)
    chance = np.minimum(1.0, p[places, proposed] / q[places, proposed])
    accepted = np.cumprod(random.random((rounds, draft_length)) < chance, axis=-1).sum(axis=-1)
    remainders = np.maximum(p[:-1] - q, 0.0)
    weights = np.concatenate((remainders, p[-1:]))[accepted]
    tokens = np.where(places < accepted[:, None], proposed, -1)
    tokens = np.concatenate((tokens, np.full((rounds, 1), -1)), axis=-1)
    tokens[np.arange(rounds), accepted] = _draw(weights, random)
    return Rounds(tokens, accepted + 1)


def _draw(weights: Array, random: np.random.Generator) -> Indices:
    """Draw one column index per row of ``weights``, with probabilities proportional to the weights of the row."""
    steps = np.cumsum(weights, axis=-1)
    reached = random.random((len(weights), 1)) * steps[:, -1:]
    # The comparison is strict, so that an index with weight 0 is never drawn.
    return np.asarray(np.argmax(steps > reached, axis=-1))


def _by_position(name: str, values: npt.ArrayLike, positions: int) -> Array:
    chances = _distribution(name, values)
    if chances.ndim == 2 and chances.shape[0] == positions:
        return chances
    if chances.ndim == 1:
        return np.broadcast_to(chances, (positions, chances.size))
    raise InputError(
        f"{name} must be one distribution or a row for each of {positions} positions, got the shape {chances.shape}"
    )


def _distribution(name: str, values: npt.ArrayLike) -> Array:
    chances = _probabilities(name, values)
    if chances.ndim == 0 or chances.shape[-1] == 0:
        raise InputError(f"{name} must list the probabilities of a vocabulary")
    sums = chances.sum(axis=-1)
    if not (np.abs(sums - 1.0) <= _SUM_TOLERANCE).all():
        raise InputError(
            f"the probabilities of {name} must sum to 1, got {_first(sums, np.abs(sums - 1.0) > _SUM_TOLERANCE)}"
        )
    return chances


def _probabilities(name: str, values: npt.ArrayLike) -> Array:
    chances = np.asarray(values, dtype=float)
    good = (chances >= 0.0) & (chances <= 1.0)
    if not good.all():
        raise InputError(f"{name}: probabilities must be from 0 to 1, got {_first(chances, ~good)}")
    return chances


def _first(values: Array, where: npt.NDArray[np.bool_]) -> str:
    return f"{values[where].flat[0]:.6g}"
