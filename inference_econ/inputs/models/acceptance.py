"""Acceptance rates of draft tokens: published and measured values, by model and speculation method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Count, Field, Seconds, Source, Spec
from inference_econ.inputs.scenario_kinds import Probability, ProposerName

#: Speculation methods in measurements: multi-token-prediction layers, an EAGLE head, or a block-parallel draft model.
Method = Literal["MTP", "EAGLE3", "DSpark"]
#: Prompts of an acceptance measurement: random tokens in the chat template of the model, or texts by humans.
Prompts = Literal["random", "text"]


class AcceptanceLengths(Spec):
    """Mean number of tokens per speculation round, by draft length.

    The number includes the token of the target model.
    """

    models: Annotated[tuple[str, ...], Field(strict=False)]
    """Catalog names of the models for which the entry is valid; empty for models that are not in the catalog."""
    checkpoint: str = Field(min_length=1)
    """Name of the measured checkpoint."""
    method: Method
    """Speculation method."""
    prompts: Prompts
    """Prompts of the measurement."""
    text: str = Field(min_length=1)
    """Description of the prompts: data set, thinking mode, temperature."""
    simulated: bool = False
    """True if the engine only simulated these acceptance lengths; false if they were measured."""
    tokens: Annotated[dict[Annotated[int, Field(gt=0, strict=False)], float], Field(min_length=1)]
    """Tokens per speculation round, by draft length [1]."""
    source: Source
    """Publication of the acceptance lengths."""

    def _check_fields(self) -> None:
        for length, tokens in self.tokens.items():
            if not 1.0 <= tokens <= length + 1.0:
                raise ValueError(
                    f"a round with {length} draft tokens gives from 1 to {length + 1} tokens, got {tokens:g}"
                )


class UsualAcceptance(Spec):
    """Default acceptance rates of a speculation method, derived from published values."""

    proposer: ProposerName
    """Speculation method."""
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalog names of the target models for which the entry is valid; empty for all models without their own entry."""
    acceptance: Annotated[tuple[Probability, ...], Field(min_length=1, strict=False)]
    """Acceptance probability of the first, second, ... draft token, if all earlier ones are accepted [1].
    """
    longest: Count
    """Maximum draft tokens per speculation round, if the engine has no recipe [1]."""
    source: Source
    """Source of the values."""

    def _check_fields(self) -> None:
        if self.longest > len(self.acceptance):
            raise ValueError(
                f"the longest draft has {self.longest} tokens, but the acceptance of {len(self.acceptance)} positions "
                "is given"
            )


class ExposedRounds(Spec):
    """Servers that do not prepare speculation rounds in advance, so that work of the CPU delays the GPUs."""

    engine: str = Field(min_length=1)
    """Catalog name of the engine."""
    hardware: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Catalog names of the chips."""
    versions: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Engine versions of these servers."""
    seconds: Seconds
    """CPU time per speculation round [s]."""
    seconds_per_sequence: Seconds
    """CPU time per speculation round and sequence [s]."""
    source: Source
    """Source for the settings of the servers, and for the time that the servers would save by preparing rounds in
    advance."""


class SpeculationFacts(Spec):
    """Acceptance rates on measured servers, and CPU times of their speculation rounds."""

    acceptance: Annotated[tuple[AcceptanceLengths, ...], Field(strict=False)]
    """Published acceptance lengths."""
    usual: Annotated[tuple[UsualAcceptance, ...], Field(strict=False)] = ()
    """Default acceptance rates by speculation method."""
    exposed: Annotated[tuple[ExposedRounds, ...], Field(strict=False)] = ()
    """Servers that do not prepare speculation rounds in advance."""

    def _check_fields(self) -> None:
        measured = [(model, entry.method, entry.prompts) for entry in self.acceptance for model in entry.models]
        for model, method, prompts in measured:
            if measured.count((model, method, prompts)) > 1:
                raise ValueError(f"acceptance of {model} with {method} on {prompts} prompts is given twice")
        named = [(entry.proposer, model) for entry in self.usual for model in entry.models or ("",)]
        for proposer, model in named:
            if named.count((proposer, model)) > 1:
                raise ValueError(f"the usual acceptance of {proposer} for {model or 'all other models'} is given twice")

    def host_seconds(self, engine: str, hardware: str, version: str) -> tuple[float, float]:
        """CPU time per speculation round, and per round and sequence, that delayed the GPUs of measured servers [s].

        Both times are 0 for servers that are not listed.
        """
        for entry in self.exposed:
            if engine == entry.engine and hardware in entry.hardware and version in entry.versions:
                return entry.seconds, entry.seconds_per_sequence
        return 0.0, 0.0

    def lengths(self, model: str, method: str, prompts: Prompts) -> AcceptanceLengths | None:
        """Published acceptance lengths of a model, preferably for the given kind of prompts; None if unknown."""
        entries = [entry for entry in self.acceptance if model in entry.models and entry.method == method]
        return min(entries, key=lambda entry: entry.prompts != prompts, default=None)

    def usually(self, proposer: ProposerName, is_one_of: Callable[[Iterable[str]], bool]) -> UsualAcceptance:
        """Default acceptance rates of a speculation method for a target model.

        Parameters
        ----------
        proposer : str
            Speculation method.
        is_one_of : callable
            Function that returns true if the target is one of the given catalog models.

        Raises
        ------
        InputError
            If no acceptance rate of the method is known.
        """
        entries = [entry for entry in self.usual if entry.proposer == proposer]
        named = (entry for entry in entries if is_one_of(entry.models))
        entry = next(named, next((entry for entry in entries if not entry.models), None))
        if entry is None:
            raise InputError(
                f"nothing is published of how often {proposer} is accepted; give --acceptance", option="acceptance"
            )
        return entry
