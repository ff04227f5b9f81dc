"""Tokens that rounds of speculation give: facts of papers and measured servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Count, Seconds, Source, Spec
from inference_econ.inputs.scenario_kinds import Probability, ProposerName

#: Who proposes, as measurements write it: multi-token-prediction layers, an EAGLE head, a block-parallel drafter.
Method = Literal["MTP", "EAGLE3", "DSpark"]
#: On which prompts acceptance was measured: random tokens in the model's chat template, or texts of people.
Prompts = Literal["random", "text"]


class AcceptanceLengths(Spec):
    """Mean tokens of a round by its draft length: accepted proposals and the token that the target adds itself."""

    models: Annotated[tuple[str, ...], Field(strict=False)]
    """Catalogue names of the models that it holds for; none where the catalogue lacks them."""
    checkpoint: str = Field(min_length=1)
    """Checkpoint that it was measured on."""
    method: Method
    """Proposer."""
    prompts: Prompts
    """Prompts that it was measured with."""
    text: str = Field(min_length=1)
    """The prompts in words: data set, thinking, temperature."""
    simulated: bool = False
    """Whether engines were told to accept so many, in the place of what they would have accepted."""
    tokens: Annotated[dict[Annotated[int, Field(gt=0, strict=False)], float], Field(min_length=1)]
    """Draft length to tokens per round [1]."""
    source: Source
    """Where it is published."""

    def _check_fields(self) -> None:
        for length, tokens in self.tokens.items():
            if not 1.0 <= tokens <= length + 1.0:
                raise ValueError(f"a round with {length} proposals gives from 1 to {length + 1} tokens, got {tokens:g}")


class UsualAcceptance(Spec):
    """Acceptance of proposals where nobody says otherwise, drawn from what is published."""

    proposer: ProposerName
    """Proposer."""
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Catalogue names of the targets that it holds for; of all others if there are none."""
    acceptance: Annotated[tuple[Probability, ...], Field(min_length=1, strict=False)]
    """Probability that the first, second, .. proposal of a round is accepted, given that those before it were [1]."""
    longest: Count
    """Proposals of a round at most where no engine's recipe says another number [1]."""
    source: Source
    """Source that it was drawn from."""

    def _check_fields(self) -> None:
        if self.longest > len(self.acceptance):
            raise ValueError(
                f"the longest draft has {self.longest} tokens, but the acceptance of {len(self.acceptance)} positions "
                "is given"
            )


class ExposedRounds(Spec):
    """Servers whose host prepared no round of proposals while the one before ran, so that nothing hid its work."""

    engine: str = Field(min_length=1)
    """Of the catalogue."""
    hardware: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Catalogue names of their chips."""
    versions: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Of the engine."""
    seconds: Seconds
    """Time of the host per round [s]."""
    seconds_per_sequence: Seconds
    """Time of the host per round and sequence of it [s]."""
    source: Source
    """How they were started, and what others gained who had rounds prepared ahead."""


class SpeculationFacts(Spec):
    """Acceptance of proposals in measured servers, and what their rounds take beside the chips."""

    acceptance: Annotated[tuple[AcceptanceLengths, ...], Field(strict=False)]
    """Published acceptance lengths."""
    usual: Annotated[tuple[UsualAcceptance, ...], Field(strict=False)] = ()
    """Acceptance of proposers where nobody says otherwise."""
    exposed: Annotated[tuple[ExposedRounds, ...], Field(strict=False)] = ()
    """Servers whose rounds no host prepared ahead."""

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
        """Time of the host per round, and per sequence of it, that chips of measured servers waited for [s]."""
        for entry in self.exposed:
            if engine == entry.engine and hardware in entry.hardware and version in entry.versions:
                return entry.seconds, entry.seconds_per_sequence
        return 0.0, 0.0

    def lengths(self, model: str, method: str, prompts: Prompts) -> AcceptanceLengths | None:
        """The published acceptance of a model on such prompts, else on others; None if there is none."""
        entries = [entry for entry in self.acceptance if model in entry.models and entry.method == method]
        return min(entries, key=lambda entry: entry.prompts != prompts, default=None)

    def usually(self, proposer: ProposerName, is_one_of: Callable[[Iterable[str]], bool]) -> UsualAcceptance:
        """The usual acceptance of a proposer for a target; that for all other targets where it has none of its own.

        Parameters
        ----------
        proposer : str
            Who proposes.
        is_one_of : callable
            Whether the target is one of some models of the catalogue.

        Raises
        ------
        InputError
            If nothing is known of the proposer.
        """
        entries = [entry for entry in self.usual if entry.proposer == proposer]
        named = (entry for entry in entries if is_one_of(entry.models))
        entry = next(named, next((entry for entry in entries if not entry.models), None))
        if entry is None:
            raise InputError(
                f"nothing is published of how often {proposer} is accepted; give --acceptance", option="acceptance"
            )
        return entry
