"""Inference of the possible sizes of a closed model from observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ._types import Progress
from inference_econ.errors import InputError
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.draws import Draws, draw, manners_on
from inference_econ.extras.closed_models.frontiers import Manner, Surfaces
from inference_econ.extras.closed_models.posterior import Inferred, posterior
from inference_econ.extras.closed_models.scenario_kinds import ClosedModel, InferAsk, ObservedOffer, Priors
from inference_econ.inputs import ModelSpec, Name, catalog

#: Default and largest number of drawn models [1].
SAMPLES, _MOST = 2048, 32_768


def infer(
    offers: Sequence[ObservedOffer | Mapping[str, object]],
    priors: Priors | str = "usual",
    *,
    samples: int = SAMPLES,
    truth: ModelSpec | Name | None = None,
    progress: Progress | None = None,
) -> Inferred:
    """Infer sizes, formats and margins of a closed model from observed offers.

    Parameters
    ----------
    offers : sequence of ObservedOffer or mapping
        Observed prices, speed, time to first token, and the chip if known; all of one model.
    priors : Priors or str
        Priors, or their name or path.
    samples : int
        Models drawn from the priors [1], from 64 to 32,768, rounded up to a power of two.
    truth : ModelSpec or name, optional
        Actual model. It is only shown next to the result, and not used.
    progress : callable, optional
        Receives the completed share and a description.

    Returns
    -------
    Inferred
        Posterior intervals and probabilities.

    Raises
    ------
    InputError
        If there are no observations, the priors cannot explain one, offers contradict each other, or the priors do not
        contain a chip.
    TooMuchError
        If the priors need too many new frontiers.

    Examples
    --------
    >>> from inference_econ.extras.closed_models.scenario_kinds import observed_offer
    >>> found = infer([observed_offer("input=0.9,output=0.9,speed=60")], samples=256)
    >>> found.active_parameters.low < 70e9 < found.active_parameters.high
    True
    """
    seen = [_observed(offer) for offer in offers]
    if not seen:
        raise InputError("nothing was observed; give at least one offer, for example input=3,output=15,speed=60")
    believed = scenario_kinds.priors(priors) if isinstance(priors, str) else priors
    true_model = truth if truth is None or isinstance(truth, ModelSpec) else catalog.model(truth)
    return posterior(drawn(believed, [offer.hardware for offer in seen], samples, progress=progress), seen, true_model)


def _observed(offer: ObservedOffer | Mapping[str, object]) -> ObservedOffer:
    if isinstance(offer, ObservedOffer):
        return offer
    if isinstance(offer, Mapping):
        return ObservedOffer.build(dict(offer), origin="offers")
    raise InputError(f"an offer is an ObservedOffer or a mapping of its fields, got {offer!r}")


def drawn(
    priors: Priors, chips: Sequence[str | None], samples: int = SAMPLES, *, progress: Progress | None = None
) -> Draws:
    """Sample models from priors, served on given chips (None for any chip).

    Raises
    ------
    InputError
        If the priors do not contain a chip, or the number of samples is out of range.
    """
    if not 64 <= samples <= _MOST:
        raise InputError(f"samples: from 64 to {_MOST:,} models can be drawn, got {samples:,}")
    names = [chip if chip is None else catalog.meaning("hardware", chip).name for chip in chips]
    wanted: tuple[Manner, ...] = tuple(dict.fromkeys(manner for name in names for manner in manners_on(priors, name)))
    surfaces = Surfaces(priors)
    surfaces.prepare(wanted, progress)
    return draw(priors, surfaces, wanted, samples)


def _offers(ask: InferAsk, model: ClosedModel) -> tuple[ObservedOffer, ...]:
    """Observed offers of one model of a scenario."""
    return (
        model.offers
        if model.recorded is None
        else scenario_kinds.recorded_offers(model.recorded, ask.date, ask.leave_out)
    )


def infer_all(ask: InferAsk, progress: Progress | None = None) -> list[Inferred]:
    """Infer every closed model of a scenario from the same sampled models.

    Raises
    ------
    InputError
        See :func:`infer`; the message names the model.
    """
    priors, answers = scenario_kinds.priors(ask.priors), []
    offers = [_offers(ask, model) for model in ask.models]
    chips = dict.fromkeys(offer.hardware for seen in offers for offer in seen)
    draws = drawn(priors, list(chips), ask.samples, progress=progress)
    for model, seen in zip(ask.models, offers, strict=True):
        try:
            answers.append(posterior(draws, seen, None if model.truth is None else catalog.model(model.truth)))
        except InputError as error:
            raise InputError(f"{model.label}: {error}") from error
    return answers
