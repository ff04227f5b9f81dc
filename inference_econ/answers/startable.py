"""Engines that can start what is shown, and how far off it may be, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inference_econ.answers import caveats
from inference_econ.engine import Instances, Setup
from inference_econ.inputs import Quantity, engines_for, known_engines, lacks
from inference_econ.search import Saving

#: A smaller share of the cost is not worth a word [1].
_NOTICED = 0.01


def saving_note(saving: Saving | None) -> list[str]:
    """Sentence on the savings of any layout over those that can be started; none where that was not asked."""
    if saving is None:
        return []
    if saving.share < _NOTICED:
        return ["At no speed is an unrestricted layout more than 1 % cheaper than one that can be started."]
    return [
        f"An unrestricted layout is up to {100 * saving.share:.0f} % cheaper than one that can be started (at "
        f"{saving.tokens_per_second:.3g} tokens/s per user)."
    ]


def doubts(setups: Sequence[Setup], subjects: Iterable[Instances]) -> list[str]:
    """Warnings on a table: layouts that cannot be started, and numbers that can be doubted."""
    return [*cannot_start(setups), *caveats.warnings(subjects)]


def grounds(
    setups: Iterable[Setup], subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)
) -> list[str]:
    """Notes on the basis of a table: who can start what is shown, and how far off predictions are."""
    return [*startable_notes(setups), *caveats.remarks(subjects, quantities)]


def startable_notes(setups: Iterable[Setup]) -> list[str]:
    """Remarks on who can start what is shown, or on why nobody is asked; one per kind of chip."""
    return list(dict.fromkeys(note for setup in setups for note in _notes(setup)))


def cannot_start(setups: Sequence[Setup]) -> list[str]:
    """Engines and pools that were left out, and chips on which no known engine can start it; in sentences."""
    left_out = dict.fromkeys(reason for setup in setups for reason in setup.left_out)
    chips = dict.fromkeys(setup.hardware.name for setup in setups if _is_startable_by_none(setup))
    nobody = [f"No known engine can start it on {', '.join(chips)}: any layout is shown."] if chips else []
    return [*(f"Left out: {reason}." for reason in left_out), *nobody]


def is_bound(setup: Setup) -> bool:
    """Return whether nothing is known to be as good: it was fitted to no server, or no known engine can start it."""
    return setup.is_bound or _is_startable_by_none(setup)


def _is_startable_by_none(setup: Setup) -> bool:
    """Return whether no engine is known for a model on a chip, where any is asked for."""
    idle = setup.assumptions.layout.attention_groups == "idle"
    return not setup.engines and not idle and not engines_for(setup.model, setup.hardware, setup.precision)


def _notes(setup: Setup) -> list[str]:
    """Nothing where attention ranks idle: the published study means no engine."""
    if setup.engines:
        *others, last = [engine.label for engine in setup.engines]
        return [f"Layouts are those that {', '.join(others)}{' or ' if others else ''}{last} can start."]
    if setup.assumptions.layout.attention_groups == "idle":
        return []
    if engines_for(setup.model, setup.hardware, setup.precision):
        return ["Any layout: some can be started by no engine that is known."]
    reasons = [lacks(engine, setup.model, setup.hardware, setup.precision) for engine in known_engines()]
    return [f"No known engine can start it ({reasons[-1]}), so any layout is shown."]
