"""Assessment of a measured deployment: what is known once it is held against what could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inference_econ._shown import Shown
from inference_econ.answers.gaps import NEAR, Deployment, Gap, StepPart
from inference_econ.answers.operating_point import OperatingPoint
from inference_econ.engine import Instances, Interval, Setup, interval
from inference_econ.inputs import Requests

#: A measured time per token beside the predicted one.
Expected = Literal["faster", "as expected", "slower"]


@dataclass(frozen=True, slots=True)
class Shortage:
    """A measured batch that the memory cannot hold.

    Attributes
    ----------
    batch : float
        Sequences [1].
    needed_bytes, available_bytes : float
        Weights and cache of the deployment, in the layout that lacks least, and what it has [B].
    most : int
        Sequences that fit in that layout [1].
    """

    batch: float
    needed_bytes: float
    available_bytes: float
    most: int


@dataclass(frozen=True, slots=True, repr=False)
class Assessment(Shown):
    """A measured deployment held against frontiers and a bound.

    Attributes
    ----------
    setup : Setup
        What, on what, how: under the profile.
    requests : Requests or None
        Lengths of the service that is compared; None where decode steps at the context are.
    measured : OperatingPoint
        The measured point.
    anywhere : Gap
        Against deployments of any number of chips, under the profile.
    same_size : Gap
        Against deployments of the same number of chips, under the profile.
    ideal : Gap
        Against the bound ``ideal`` for the same number of chips.
    predicted : Deployment or None
        The measured chips, batch and layout (the fastest one, where it is open) as the profile predicts them; None
        for decode steps whose batch does not fit.
    tried : int
        Layouts of which that is the fastest [1].
    parts : tuple of StepPart
        The predicted step by part, prompts of others, and the unexplained time: the measured time per token.
    shortage : Shortage or None
        Why there is no prediction, or one of fewer requests in flight.
    """

    page = "report.assess:AssessmentPage"

    setup: Setup
    requests: Requests | None
    measured: OperatingPoint
    anywhere: Gap
    same_size: Gap
    ideal: Gap
    predicted: Deployment | None
    tried: int
    parts: tuple[StepPart, ...]
    shortage: Shortage | None

    def subjects(self) -> tuple[Instances]:
        """The measured deployment."""
        subject = self.anywhere.subject
        assert subject.accelerators is not None and subject.concurrency is not None
        return (Instances(self.setup, [subject.accelerators], [subject.concurrency], subject.isl, subject.osl),)

    @property
    def likely_seconds(self) -> Interval | None:
        """Where 80 % of times per token lie that are predicted as this one is [s]; None if nobody knows."""
        if self.predicted is None:
            return None
        return interval(self._predicted_seconds, self.setup.assumptions, subjects=[self.anywhere.subject])

    @property
    def expected(self) -> Expected | None:
        """Beside the prediction: inside its interval, or within 2 % where none is known; None without one."""
        if self.predicted is None:
            return None
        likely = self.likely_seconds or Interval(*(share * self._predicted_seconds for share in (1 - NEAR, 1 + NEAR)))
        if self.measured.seconds > likely.high:
            return "slower"
        return "as expected" if self.measured.seconds >= likely.low else "faster"

    @property
    def _predicted_seconds(self) -> float:
        assert self.predicted is not None
        return 1.0 / self.predicted.tokens_per_second_per_user

    @property
    def unexplained_seconds(self) -> float | None:
        """Measured time per token beyond the predicted one [s], negative if it is less; None without a prediction."""
        return self.parts[-1].seconds if self.parts else None
