"""How probable it is that measured pools keep what is promised of predicted ones."""

from __future__ import annotations

from inference_econ.answers.chances import Chances, chances_of
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.margins import instances_of
from inference_econ.answers.promises import Targets


def fleet_chances(fleet: Fleet, targets: Targets) -> Chances:
    """Of TTFTs by the pool that reads prompts, of TPOTs and traffic by the one that decodes, each by itself.

    Parameters
    ----------
    fleet : Fleet
        Both pools under their load.
    targets : Targets
        What is promised; its confidence does not count.
    """
    sides = ((fleet.pools.prefill, fleet.prefill), (fleet.pools.decode, fleet.decode))
    reading, decoding = (instances_of(pool.services.service(index)) for pool, index in sides)
    return chances_of(reading, decoding, fleet.load, targets)
