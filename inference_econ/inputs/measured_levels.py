"""By how much measured servers differ from what fitted assumptions predict of them: levels, and what error is left."""

from __future__ import annotations

import difflib
import hashlib
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from inference_econ.inputs import places
from inference_econ.inputs._base import Count, Date, Spec
from inference_econ.inputs._yaml import title
from inference_econ.inputs.calibration import ErrorSpread, Quantity

#: Form of the files that are read.
LEVELS_FORM = 1
#: What was left out where errors of predictions with levels were counted: the load of a row, or all that its
#: deployment, its way of serving, or its version of the engine say.
Unseen = Literal["load", "deployment", "way", "version"]
#: ln(measured / predicted): a factor of 7 either way is no level but a mistake [1].
Log = Annotated[int | float, Field(ge=-2, le=2, allow_inf_nan=False)]
Spread = Annotated[int | float, Field(ge=0, le=2, allow_inf_nan=False)]
#: Digits of a hash of a file that tell it from its other versions [1].
_DIGITS = 12


def _known(kind: places.Kind) -> AfterValidator:
    """Names of the catalogue only."""

    def check(name: str) -> str:
        if name not in places.names(kind):
            close = difflib.get_close_matches(name, places.names(kind), n=1)
            hint = f", did you mean {close[0]}" if close else f", see inference-econ {kind}"
            raise PydanticCustomError("name", "unknown name{hint}", {"hint": hint})
        return name

    return AfterValidator(check)


def _this_form(form: int) -> int:
    if form != LEVELS_FORM:
        raise PydanticCustomError(
            "form",
            "only levels of form {form} can be read; make the file again with 'inference-econ calibrate'",
            {"form": LEVELS_FORM},
        )
    return form


class MeasuredLevel(Spec):
    """By how much steps of some measured servers differ from predictions, all that is wider included."""

    rows: Count
    """Measurements [1]."""
    decode: Log
    """Of steps that decode: natural logarithm of what they take over what is predicted [1]."""
    prefill: Log
    """Of steps that read prompts [1]."""


class MeasuredDeployment(MeasuredLevel):
    """One layout in one format."""

    layout: str = Field(min_length=1)
    """Of an instance, as :func:`inference_econ.engine.layout_key` has it, without ep."""
    weights: str = Field(min_length=1)
    """Number format of the weights that take most room."""


class MeasuredWay(MeasuredLevel):
    """One way of serving."""

    apart: bool = False
    """Prompts are read by other instances than those that decode."""
    speculates: bool = False
    """Tokens are proposed and verified."""
    deployments: Annotated[tuple[MeasuredDeployment, ...], Field(strict=False)] = ()
    """Deployments that were measured so."""


class MeasuredVersion(MeasuredLevel):
    """One version of the engine."""

    version: str
    """As the measurements have it; empty where they do not say."""
    ways: Annotated[tuple[MeasuredWay, ...], Field(strict=False)] = ()
    """Ways of serving that were measured of it."""


class MeasuredSubject(MeasuredLevel):
    """One model on one chip."""

    model: Annotated[str, _known("models")]
    """Name in the catalogue."""
    hardware: Annotated[str, _known("hardware")]
    """Name in the catalogue."""
    versions: Annotated[tuple[MeasuredVersion, ...], Field(strict=False)] = ()
    """Versions of the engine that were measured with them."""


class SharedLevel(Spec):
    """By how much steps that decode differ where tokens are proposed and verified, whatever the model and chip."""

    rows: Count
    """Measurements [1]."""
    decode: Log
    """Natural logarithm of what steps take over what is predicted [1]."""


class LevelSpreads(Spec):
    """Standard deviations of the logarithms of one quantity, from which levels are pooled [1]."""

    subject: Spread
    """Models on chips around the profile."""
    version: Spread
    """Versions around those."""
    way: Spread
    """Ways of serving around those."""
    deployment: Spread
    """Deployments around those."""
    speculation: Spread = 0
    """Engines that propose tokens, around theirs that do not."""
    row: Spread
    """Rows around their deployment."""


class MeasuredLevels(Spec):
    """Levels of one engine on one generation of chips, over the predictions of its fitted profile."""

    form: Annotated[int, AfterValidator(_this_form)]
    """Of the file."""
    profile: Annotated[str, _known("assumptions")]
    """Fitted assumptions that the levels are over."""
    constants: str = Field(pattern=rf"^[0-9a-f]{{{_DIGITS}}}$")
    """Short hash of the file of the profile."""
    engine: Annotated[str, _known("engines")]
    """Serving engine."""
    date: Date
    """Of the fit."""
    rows: Count
    """Measurements [1]."""
    spreads: dict[Quantity, LevelSpreads]
    """Spreads that the levels are pooled with, by quantity."""
    errors: dict[Unseen, dict[Quantity, ErrorSpread]] = Field(default_factory=dict)
    """Of predictions with levels, by what the levels had not seen of a row."""
    shared: Annotated[tuple[SharedLevel, ...], Field(strict=False)] = ()
    """Of all models and chips, beside which those of subjects are."""
    subjects: Annotated[tuple[MeasuredSubject, ...], Field(min_length=1, strict=False)]
    """Subjects of the measurements."""

    def of(self, model: str, hardware: str) -> MeasuredSubject | None:
        """Subject of a model on a chip, None if nobody measured it, by the names that are printed of both."""
        for subject in self.subjects:
            files = places.files("hardware")[subject.hardware], places.files("models")[subject.model]
            if tuple(map(title, files)) == (hardware, model):
                return subject
        return None


def constants_of(profile: str) -> str:
    """The short hash of the file of a profile, so that levels over another version of it are told."""
    path = places.folder("assumptions") / f"{profile}.yaml"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
