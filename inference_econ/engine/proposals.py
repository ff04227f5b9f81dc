"""Speculation methods, and the acceptance rates of draft tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import speculation as formulas
from inference_econ.inputs import ModelSpec, ProposerName, ServingAssumptions, catalog, recommended_drafts

if TYPE_CHECKING:
    from inference_econ.engine.setup import Setup

#: Display names of speculation methods.
PROPOSERS: Mapping[ProposerName, str] = {
    "draft": "draft model",
    "mtp": "multi-token-prediction layers",
    "eagle": "EAGLE head",
    "ngram": "n-grams of the text so far",
}
#: Maximum number of draft tokens per round [1].
_MOST = 64


@dataclass(frozen=True, slots=True)
class UsualDrafts:
    """Default acceptance rates and draft length of a speculation method.

    Attributes
    ----------
    who : str
        Speculation method and target model as text, for error messages.
    acceptance : tuple of float
        Probability that the first, second, ... draft token is accepted, if all draft tokens before it were accepted
        [1]. Positions without a published rate are missing.
    longest : int
        Maximum draft tokens per round [1].
    """

    who: str
    acceptance: tuple[float, ...]
    longest: int

    @classmethod
    def of(cls, proposer: ProposerName, setup: Setup | None = None) -> UsualDrafts:
        """Default acceptance rates and draft length of a speculation method, from the assumptions of the setup.

        If the assumptions have no acceptance rates, published rates are used. In this case, the draft length comes from
        the recipe of the setup's engine, if the setup has exactly one engine.

        Parameters
        ----------
        proposer : str
            See :class:`Speculation`.
        setup : Setup, optional
            Setup of the target model. Without a setup, published rates that are not specific to a model are used.

        Examples
        --------
        >>> from inference_econ.engine import Setup
        >>> UsualDrafts.of("mtp", Setup.of("glm_4_5", "h200_sxm")).longest
        3
        >>> UsualDrafts.of("mtp", Setup.of("glm_4_5", "h200_sxm", engine="vllm")).longest
        1
        """
        target = None if setup is None else setup.model
        published = catalog.usual_acceptance(proposer, target)
        rates: tuple[float, ...] = tuple(float(rate) for rate in published.acceptance)
        if setup is None or target is None:
            return cls(PROPOSERS[proposer], rates, published.longest)
        who, assumed = f"{PROPOSERS[proposer]} of {target.name}", setup.assumptions.serving
        engine = setup.engines[0].name if len(setup.engines) == 1 else None
        recipe = recommended_drafts(engine, proposer, target)
        longest = min(recipe or published.longest, len(rates))
        if assumed.acceptance != "published":
            rates = (assumed.acceptance,) * _MOST
        return cls(who, rates, longest if assumed.longest_draft == "recipe" else assumed.longest_draft)

    def positions(self, drafts: int) -> tuple[float, ...]:
        """Acceptance rates of the first ``drafts`` draft tokens [1].

        Raises
        ------
        InputError
            If the acceptance rate of one of these draft tokens is unknown.
        """
        if drafts > len(self.acceptance):
            raise InputError(
                f"how often a draft of {drafts} tokens by {self.who} is accepted is not known, only that of positions "
                f"1 to {len(self.acceptance)}; give a draft of at most {len(self.acceptance)}, or its acceptance "
                "(--acceptance)",
                option="acceptance",
            )
        return self.acceptance[:drafts]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculation method with the acceptance rates of its draft tokens.

    Attributes
    ----------
    proposer : str
        ``draft`` (a smaller model), ``mtp`` (layers published with the target), ``eagle`` (one extra layer trained for
        the target) or ``ngram`` (a lookup of n-grams in the previous text).
    acceptance : tuple of float
        Probability that the first, second, ... draft token of a round is accepted, if all draft tokens before it were
        accepted [1]. The number of entries is the maximum draft length.
    model : ModelSpec or None
        Draft model; None for methods without a draft model.
    weights : str or None
        Number format of the draft model or head. By default, a draft model has its published format, and an MTP or
        EAGLE head has the target's format.
    shortest : int
        Minimum number of draft tokens per round [1]. If the minimum is 0, decoding without speculation is possible. If
        the minimum equals the maximum, all rounds have the same draft length (:meth:`fixed`).
    host_seconds : (float, float)
        CPU time per round, and CPU time per sequence of a round, during which the chips wait [s]. Both times were
        measured on servers that do not prepare the next round in advance.

    Raises
    ------
    InputError
        If the method is unknown, a probability is not from 0 to 1, or the number of probabilities is 0 or too large. If
        the minimum draft length exceeds the maximum, if a draft model is missing, or if a draft model is given for
        another method.
    """

    proposer: ProposerName
    acceptance: tuple[float, ...]
    model: ModelSpec | None = None
    weights: str | None = None
    shortest: int = 0
    host_seconds: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Reject unknown methods, invalid acceptance rates, and inconsistent draft lengths and draft models."""
        _check_proposer(self.proposer)
        if not 1 <= len(self.acceptance) <= _MOST:
            raise InputError(f"the longest draft must be from 1 to {_MOST} tokens, got {len(self.acceptance)}")
        formulas.expected_tokens_by_position(self.acceptance)
        if not 0 <= self.shortest <= self.longest:
            raise InputError(
                f"the shortest draft must be from 0 to the {self.longest} tokens of the longest, got {self.shortest}"
            )
        if (self.model is None) == (self.proposer == "draft"):
            name = "none" if self.model is None else self.model.name
            raise InputError(f"only the speculation method 'draft' takes a draft model, got {name}")
        if self.weights is not None and self.proposer == "ngram":
            raise InputError(f"n-grams have no weights, got the format {self.weights}")

    @classmethod
    def of(
        cls,
        proposer: ProposerName,
        acceptance: float | Sequence[float] | None = None,
        longest: int | None = None,
        *,
        model: ModelSpec | None = None,
        weights: str | None = None,
        setup: Setup | None = None,
    ) -> Speculation:
        """Create a speculation method from given or published acceptance rates.

        Parameters
        ----------
        proposer : str
            Speculation method, as in the class attributes.
        acceptance : float or sequence of float, optional
            Acceptance rate of every draft token, or one rate for each position [1]. The default is the published rate
            for the method and the target, see :class:`UsualDrafts`.
        longest : int, optional
            Maximum number of draft tokens per round [1]. The default is the number of given rates, the value in the
            engine's recipe, or the published value.
        model, weights
            Speculation method, as in the class attributes.
        setup : Setup, optional
            Setup of the target. The model, engine and assumptions of the setup determine the defaults.

        Raises
        ------
        InputError
            If the number of probabilities differs from ``longest``, or the acceptance rate of a position is unknown;
            also for the reasons in the class docstring.

        Examples
        --------
        >>> Speculation.of("ngram", 0.5, 3).acceptance, Speculation.of("mtp", [0.9, 0.7]).acceptance
        ((0.5, 0.5, 0.5), (0.9, 0.7))
        >>> from inference_econ.engine import Setup
        >>> Speculation.of("mtp", setup=Setup.of("deepseek_v3", "h200_sxm")).acceptance
        (0.9, 0.53, 0.44)
        """
        _check_proposer(proposer)
        if longest is not None and not 1 <= longest <= _MOST:
            raise InputError(f"the longest draft must be from 1 to {_MOST} tokens, got {longest}")
        if isinstance(acceptance, Sequence):
            rates = tuple(float(rate) for rate in acceptance)
            if longest is not None and len(rates) != longest:
                raise InputError(
                    f"the acceptance of {len(rates)} positions is given, for drafts of at most {longest} tokens; "
                    "give one probability per position, or a single one for all"
                )
            return cls(proposer, rates, model, weights)
        usual_drafts = UsualDrafts.of(proposer, setup)
        drafts = usual_drafts.longest if longest is None else longest
        rates = usual_drafts.positions(drafts) if acceptance is None else (float(acceptance),) * drafts
        return cls(proposer, rates, model, weights)

    @classmethod
    def fixed(
        cls,
        proposer: ProposerName,
        length: int,
        tokens: float,
        *,
        model: ModelSpec | None = None,
        weights: str | None = None,
    ) -> Speculation:
        """Create a speculation method with a fixed draft length and a given mean acceptance length.

        Parameters
        ----------
        proposer : str
            Speculation method, as in the class attributes.
        length : int
            Draft tokens of every round [1].
        tokens : float
            Mean acceptance length: accepted draft tokens plus the token that the target generates [1].
        model, weights
            Speculation method, as in the class attributes.

        Raises
        ------
        InputError
            If a round with ``length`` draft tokens cannot yield ``tokens`` tokens; also for the reasons in the class
            docstring.

        Notes
        -----
        Times depend only on the mean acceptance length. The number of accepted tokens is assumed to have the smallest
        possible variance, as in engines with a synthetic acceptance length. The first floor(tokens - 1) draft tokens
        are always accepted. The next draft token is accepted with the probability that gives the mean. Later draft
        tokens are never accepted.

        Examples
        --------
        >>> from inference_econ.inputs import catalog
        >>> Speculation.fixed("mtp", 3, 2.5).acceptance
        (1.0, 0.5, 0.0)
        >>> float(Speculation.fixed("mtp", 3, 2.5).tokens(catalog.assumptions("deployable").serving)[-1])
        2.5
        """
        if not 1 <= length <= _MOST:
            raise InputError(f"the draft length must be from 1 to {_MOST} tokens, got {length}")
        if not 1.0 <= tokens <= length + 1.0:
            raise InputError(
                f"a round with {length} draft tokens gives from 1 to {length + 1} tokens, got {tokens:g}; include the "
                "token that the target adds"
            )
        accepted = np.clip(tokens - 1.0 - np.arange(length), 0.0, 1.0)
        return cls(proposer, tuple(accepted.tolist()), model, weights, shortest=length)

    def of_one_length(self) -> Speculation:
        """Return the method with the maximum number of draft tokens in every round.

        Examples
        --------
        >>> Speculation.of("ngram", 0.5, 3).of_one_length().shortest
        3
        """
        return replace(self, shortest=self.longest)

    def of_length(self, length: int) -> Speculation | None:
        """Return the method with ``length`` draft tokens in every round (at most :attr:`longest`); None without any.

        Examples
        --------
        >>> Speculation.of("mtp", [0.9, 0.7]).of_length(1)
        Speculation(proposer='mtp', acceptance=(0.9,), model=None, weights=None, shortest=1, host_seconds=(0.0, 0.0))
        """
        return replace(self, acceptance=self.acceptance[:length], shortest=length) if length else None

    @property
    def longest(self) -> int:
        """Maximum draft tokens per round [1]."""
        return len(self.acceptance)

    def tokens(self, assumptions: ServingAssumptions) -> Array:
        """Expected number of tokens from a round with 0, 1, ... draft tokens [1], shape (k + 1,).

        Examples
        --------
        >>> from inference_econ.inputs import catalog
        >>> study = catalog.assumptions("paper").serving
        >>> Speculation.of("ngram", 0.5, 3).tokens(study).tolist(), Speculation.of("ngram", 0.5, 3).verified(study)
        ([1.0, 1.0, 1.5, 1.75], (1, 1, 2, 3))
        """
        gains = np.cumprod((1.0, *self.acceptance)).cumsum()
        return gains if assumptions.expected_tokens == "draft_length_plus_one" else np.append(1.0, gains[:-1])

    def verified(self, assumptions: ServingAssumptions) -> tuple[int, ...]:
        """Number of tokens per sequence that the target processes in a round with 0, 1, ... draft tokens [1]."""
        one_more = assumptions.expected_tokens == "draft_length_plus_one"
        return (1, *(length + one_more for length in range(1, self.longest + 1)))

    def record(self) -> dict[str, object]:
        """Convert the speculation method to plain data."""
        return {
            "method": self.proposer,
            "draft_model": None if self.model is None else self.model.name,
            "draft_weights": self.weights,
            "acceptance": list(self.acceptance),
            "shortest_draft": self.shortest,
        }


def recorded_speculation(record: Mapping[str, Any]) -> Speculation:
    """Create a speculation method from the result of :meth:`Speculation.record`, for methods without a draft model.

    Raises
    ------
    InputError
        If the record is invalid.
    """
    rates = tuple(float(rate) for rate in record["acceptance"])
    return Speculation(record["method"], rates, None, record["draft_weights"], int(record["shortest_draft"]))


def _check_proposer(name: str) -> None:
    if name not in PROPOSERS:
        raise InputError(f"unknown speculation method {name!r}; known: {', '.join(PROPOSERS)}")
