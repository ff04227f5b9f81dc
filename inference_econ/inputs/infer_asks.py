"""The question turned round: what was seen of closed models, whose sizes are sought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._base import Seconds, Spec
from inference_econ.inputs._yaml import scalar
from inference_econ.inputs.asks import Positive

#: What a user types for a field of :class:`ObservedOffer`.
SHORT: Mapping[str, str] = {
    "input": "dollars_per_million_input_tokens",
    "output": "dollars_per_million_output_tokens",
    "speed": "tokens_per_second",
    "ttft": "ttft_seconds",
    "on": "hardware",
    "by": "provider",
}


class ObservedOffer(Spec):
    """Observations of one offer of a closed model."""

    provider: str = ""
    """Provider."""
    hardware: str | None = None
    """Name of the chip, if it is known."""
    dollars_per_million_input_tokens: Positive | None = None
    """[USD per 1e6 tokens]"""
    dollars_per_million_output_tokens: Positive | None = None
    """[USD per 1e6 tokens]"""
    tokens_per_second: Positive | None = None
    """Speed of one user [tokens/s]."""
    ttft_seconds: Annotated[Seconds, Field(gt=0)] | None = None
    """Time to the first token [s]."""

    def _check_fields(self) -> None:
        if self.model_fields_set <= {"provider", "hardware"}:
            raise ValueError(
                "an offer needs something that was observed: a price of input or output tokens, a speed, or a time to "
                "the first token"
            )

    @property
    def priced(self) -> bool:
        """Whether a price is known."""
        return not (self.dollars_per_million_input_tokens is self.dollars_per_million_output_tokens is None)

    @property
    def words(self) -> str:
        """The observations in a line."""
        parts = [
            (self.dollars_per_million_input_tokens, "${:g}/M input"),
            (self.dollars_per_million_output_tokens, "${:g}/M output"),
            (self.tokens_per_second, "{:g} tokens/s"),
            (self.ttft_seconds, "first token after {:g} s"),
            (self.hardware, "on {}"),
        ]
        seen = ", ".join(text.format(value) for value, text in parts if value is not None)
        return f"{self.provider}: {seen}" if self.provider else seen


def observed_offer(text: str) -> ObservedOffer:
    """An offer as people type it: ``input=3,output=15,speed=60,ttft=0.8,on=h100_sxm,by=NAME``.

    Raises
    ------
    InputError
        If a part is none of these, is there twice, or has no value that can be meant.

    Examples
    --------
    >>> observed_offer("output=15,speed=60").words
    '$15/M output, 60 tokens/s'
    """
    fields: dict[str, object] = {}
    for part in text.split(","):
        short, sign, value = (piece.strip() for piece in part.partition("="))
        if short not in SHORT or not sign or not value:
            raise InputError(
                f"--offer {text}: {part.strip()!r} cannot be read; write input=$, output=$ (per million tokens), "
                "speed=tokens/s, ttft=s, on=CHIP or by=NAME with commas between, for example input=3,output=15,speed=60"
            )
        if SHORT[short] in fields:
            raise InputError(f"--offer {text}: {short} is there twice")
        fields[SHORT[short]] = value if short in ("on", "by") else scalar(value)
    try:
        return ObservedOffer.build(fields, origin=f"--offer {text}")
    except SpecError as error:
        raise InputError(str(error)) from error


class ClosedModel(Spec):
    """A model whose size is sought."""

    label: str = Field(min_length=1)
    """Name in tables and figures."""
    offers: Annotated[tuple[ObservedOffer, ...], Field(strict=False)] = ()
    """Observed offers of it."""
    recorded: str | None = None
    """Or its name in ``scenarios/measured/offers.csv``."""
    truth: str | None = None
    """Name of the model that it is, where that is known: it is looked at in the end only."""

    def _check_fields(self) -> None:
        if bool(self.offers) == (self.recorded is not None):
            raise ValueError("give either offers or the name under which they are recorded, and one of them")


class InferAsk(Spec):
    """Sizes that closed models could have, by their observed offers."""

    kind: Literal["infer"]
    """Names this kind of question."""
    models: Annotated[tuple[ClosedModel, ...], Field(min_length=1, strict=False)]
    """Each by itself."""
    priors: str = "usual"
    """Name or path of what is believed before."""
    samples: Annotated[int, Field(ge=64, le=65_536)] = 2048
    """Models drawn from the priors [1]."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """Day of recorded offers; any if not given."""
    leave_out: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Providers whose recorded offers do not count."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Notes for readers."""
