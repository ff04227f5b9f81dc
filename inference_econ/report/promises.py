"""Promises, and how probable it is that they hold: as a column, a note and data."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.chances import Chances
from inference_econ.answers.promises import Targets
from inference_econ.report.fields import Column
from inference_econ.report.table import chance_percent

_COLUMN = "P(SLO) %"


def chances_column(targets: Targets, shown: Sequence[Chances]) -> list[Column]:
    """A column of the probabilities of what is promised; none where nothing is promised, or nobody knows."""
    if not _is_predicted(targets, shown):
        return []
    return [
        (_COLUMN, ["/".join(chance_percent(getattr(chances, name)) for name in targets.given) for chances in shown])
    ]


def planned_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column where deployments are chosen, and on how probable promises were made."""
    if targets.confidence is not None:
        return [f"{_meaning(targets, shown)} Planned so that each is at least {100 * targets.confidence:g} %."]
    named = _is_predicted(targets, shown)
    return [f"{note} --confidence 80 plans with a margin." if named else note for note in chances_notes(targets, shown)]


def chances_notes(targets: Targets, shown: Sequence[Chances]) -> list[str]:
    """Notes on the meaning of the column, or that nobody knows; none where nothing is promised."""
    if not targets.given:
        return []
    if _is_predicted(targets, shown):
        return [_meaning(targets, shown)]
    names = " or ".join(name.upper() for name in targets.given)
    return [
        f"Nobody knows how probable it is that the SLO of {names} is met: these assumptions were fitted to no such "
        "measurement. Take a fitted profile, or fit one: inference-econ calibrate."
    ]


def _is_predicted(targets: Targets, shown: Sequence[Chances]) -> bool:
    return any(getattr(chances, name) is not None for chances in shown for name in targets.given)


def _meaning(targets: Targets, shown: Sequence[Chances]) -> str:
    names = " / ".join(f"{targets.percentile_of(name)} {name.upper()}" for name in targets.given)
    carried = [chances.capacity for chances in shown if chances.capacity is not None]
    worst = " in the worst row" if len(carried) > 1 else ""
    traffic = f"; it carries the traffic with {chance_percent(min(carried))} %{worst}" if carried else ""
    unknown = any(getattr(chances, name) is None for chances in shown for name in targets.given)
    mark = "; ?: nobody knows" if unknown else ""
    return f"P(SLO) %: probability that a measured server meets the SLO of {names}, each by itself{mark}{traffic}."


def kept_with(chances: Chances, targets: Targets) -> list[str]:
    """Line on the promises and how probably one deployment keeps them; none without promises."""
    if not targets.given:
        return []
    if all(getattr(chances, name) is None for name in targets.given):
        return chances_notes(targets, [chances])
    kept = [f"{name.upper()} kept with {chance_percent(getattr(chances, name))} %" for name in targets.given]
    planned = "" if targets.confidence is None else f"; planned for {100 * targets.confidence:g} % each"
    if chances.capacity is not None:
        kept.append(f"the traffic carried with {chance_percent(chances.capacity)} %")
    return [f"{', '.join(kept)}{planned}."]
