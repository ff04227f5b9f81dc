"""Search for the best member of a family of chips or architectures: all combinations of choices, ranked by cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference_econ._types import Progress
from inference_econ.answers.deployments.serving_frontier import PROMPTS, ServiceFrontier
from inference_econ.answers.settings import setup_of
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.papers.study_kinds import FamilyAsk
from inference_econ.inputs import Settings, catalog, split_changes
from inference_econ.inputs.models.sizes import hidden_size, layer_parameters
from inference_econ.records.sources import priced_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared
from inference_econ.studies.layout_curves import LayoutCurves
from inference_econ.studies.settings import frontier_of

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Maximum number of lines of a chart, including the base [1].
_LINES = 6
#: Texts for speeds that are not reached, and for members without a deployment that fits.
_TOO_FAST, _NONE = "too fast", "nothing fits"
#: Largest relative change of TPOT that is ignored [1].
_NOTHING = 0.005


@dataclass(frozen=True, slots=True)
class Member:
    """Member of a family: one combination of choices.

    Attributes
    ----------
    labels : tuple of str
        Labels of its choices, one per axis.
    settings : Settings
        Settings of its frontier.
    front : ServiceFrontier or None
        Frontier; None if nothing fits.
    costs : tuple of float
        Costs at the given speeds [USD per 1e6 output tokens]; NaN if not reached.
    """

    labels: tuple[str, ...]
    settings: Settings
    front: ServiceFrontier | None
    costs: tuple[float, ...]


def compare_families(ask: FamilyAsk, progress: Progress | None = None) -> Compared:
    """Compute the frontier of every member of a family.

    Parameters
    ----------
    ask : FamilyAsk
        Family.
    progress : callable, optional
        Receives the completed share and a description.

    Raises
    ------
    InputError
        If a name or what-if is invalid, or the first member of the family exceeds the budget.
    NothingFitsError
        If the first member of the family does not fit.
    """
    combinations = list(itertools.product(*(axis.choices for axis in ask.axes)))
    price = setup_of(ask.common).dollars_per_accelerator_hour
    practice = _practice(ask.common, ask.speeds[0])
    left_out, members = [], []
    for index, choices in enumerate(combinations):
        labels = tuple(choice.label for choice in choices)
        if progress is not None:
            progress(index / len(combinations), ", ".join(labels))
        settings = ask.common.replace(changes=(*ask.common.changes, *(c for member in choices for c in member.changes)))
        if ask.kind == "chip":
            cost = price + sum(choice.dollars for choice in choices)
            if ask.budget is not None and cost > ask.budget * (1.0 + 1e-9):
                left_out.append(f"{', '.join(labels)} at ${cost:.2f}/h")
                continue
            settings = settings.replace(price=cost)
        elif ask.equal_parameters is not False and index:
            settings = _of_equal_parameters(ask.common, settings, ", ".join(labels))
        members.append(_member(labels, settings, ask.speeds, practice))
    base = members[0] if members and members[0].labels == tuple(member.label for member in combinations[0]) else None
    if base is None:
        raise InputError(f"the first choices cost more than the budget of ${ask.budget:g}/h: nothing to compare with")
    if base.front is None:
        frontier_of(base.settings)  # this raises an error with the reason
    return _shown(ask, members, base, left_out)


def _of_equal_parameters(common: Settings, settings: Settings, label: str) -> Settings:
    """Settings with a hidden size for which the model has as many layer parameters as the first member."""
    assert common.model is not None
    base = setup_of(common).model
    changed = catalog.model(common.model, changes=split_changes(settings.changes)["model"])
    wanted = layer_parameters(base.blocks, base.hidden_size)
    try:
        hidden = hidden_size(changed.blocks, wanted, base.hidden_size)
    except InputError as error:
        raise InputError(f"{label}: {error}; equal_parameters: false leaves the hidden size as it is") from error
    return settings.replace(changes=(*settings.changes, f"model.hidden_size={hidden}"))


def _practice(settings: Settings, speed: float) -> tuple[str, ...]:
    """Cheapest engine configuration for the common settings, at a speed or at the highest speed. All members use it."""
    try:
        front = frontier_of(settings)
    except NothingFitsError:
        return ()
    assert isinstance(front, ServiceFrontier)
    return (front.candidate(front.place(min(speed, float(front.tokens_per_second[-1])))).label,)


def _member(labels: tuple[str, ...], settings: Settings, speeds: Sequence[float], practice: tuple[str, ...]) -> Member:
    try:
        front = frontier_of(settings, practice)
    except NothingFitsError:
        return Member(labels, settings, None, tuple(math.nan for _ in speeds))
    except InputError as error:
        raise InputError(f"{', '.join(labels)}: {error}") from error
    assert isinstance(front, ServiceFrontier)
    curves = LayoutCurves(front)
    return Member(labels, settings, front, tuple(curves.cheapest(speed).dollars for speed in speeds))


def _shown(ask: FamilyAsk, members: Sequence[Member], base: Member, left_out: Sequence[str]) -> Compared:
    ranked = sorted(members, key=lambda member: [math.inf if math.isnan(cost) else cost for cost in member.costs])
    sizes = ("$/h",) if ask.kind == "chip" else ("10^9 parameters", "active")
    columns = (*sizes, *(f"$ at {speed:g}" for speed in ask.speeds), "fastest", "change of time per token")
    rows = tuple(CellRow(member.labels, _values(ask, member, base)) for member in ranked)
    names, notes = tuple(axis.name for axis in ask.axes), (*_notes(ask, ranked, base, left_out), *ask.notes)
    setup = setup_of(ask.common)
    what = "variants of the chip" if ask.kind == "chip" else "variants of the model"
    table = CellTable(f"{setup.model.name} on {setup.hardware.name}: {what}", names, columns, rows, notes)
    drawn = [*ranked[:_LINES], *([] if base in ranked[:_LINES] else [base])]
    lines = tuple(_line(member, base) for member in drawn if member.front is not None)
    x_label, y_label = "tokens per second per user", "US dollars per million output tokens"
    chart = Chart("Cost at each speed", x_label, y_label, lines, "y")
    setups = tuple(member.front.setup for member in members if member.front is not None)
    return Compared((table,), (chart,), setups)


def _values(ask: FamilyAsk, member: Member, base: Member) -> tuple[float | str, ...]:
    if member.front is None:
        return (*("" for _ in _sizes(ask, setup_of(member.settings))), *(_NONE for _ in member.costs), "", "")
    sizes = _sizes(ask, member.front.setup)
    costs = tuple(_TOO_FAST if math.isnan(cost) else cost for cost in member.costs)
    reason = "the base" if member is base else reason_of(member, base, ask.speeds[0])
    return (*sizes, *costs, float(member.front.tokens_per_second[-1]), reason)


def _sizes(ask: FamilyAsk, setup: Setup) -> tuple[float, ...]:
    """Price of a chip, or total and active parameters of a model."""
    if ask.kind == "chip":
        return (setup.dollars_per_accelerator_hour,)
    return setup.model.total_parameters / 1e9, setup.model.active_parameters / 1e9


def reason_of(member: Member, base: Member, speed: float) -> str:
    """Part of the step whose time differs most from the base, if the member can run the base's deployment."""
    assert base.front is not None and member.front is not None
    if base.front.speculation is not None:
        return "its tokens come in rounds"
    best = LayoutCurves(base.front).cheapest(speed)
    if best.layout is None:
        return "the base is not as fast"
    before, after = (
        dict(LayoutCurves(front).parts(best.layout, best.concurrency)) for front in (base.front, member.front)
    )
    if not after:
        return "the base's layout is not possible"
    change = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    most, whole = max(change, key=lambda name: abs(change[name])), sum(before.values())
    if abs(change[most]) < _NOTHING * whole:
        return "nothing"
    return f"{_part(most)} {100 * change[most] / whole:+.0f} of {100 * sum(change.values()) / whole:+.0f} %"


def _part(name: str) -> str:
    return "prefill of other requests" if name == PROMPTS else name.replace("_", " ")


def _notes(ask: FamilyAsk, ranked: Sequence[Member], base: Member, left_out: Sequence[str]) -> tuple[str, ...]:
    assert base.front is not None
    notes = [
        f"All variants use the engine and recipe of the base: {base.front.candidates[0].label}.",
        f"Variants are ranked by their cost at {ask.speeds[0]:g} tokens/s per user, in $ per million output tokens "
        "with prefill.",
        "The last column is the change of the time per output token, if the base's deployment at this speed runs the "
        "variant at equal concurrency. 'A of B %': change by the part that changes most, and total change.",
    ]
    for index, speed in enumerate(ask.speeds):
        able = [member for member in ranked if not math.isnan(member.costs[index])]
        if able:
            best = min(able, key=lambda member: member.costs[index])
            over = base.costs[index] / best.costs[index]
            notes.append(
                f"At {speed:g} tokens/s: {', '.join(best.labels)}"
                + (f", {over:.2f} times cheaper than the base." if over > 1.0 else ".")
            )
    if ask.kind == "architecture" and ask.equal_parameters is not False:
        notes.append("The hidden size is chosen so that all layers together have as many parameters as in the base.")
    if left_out:
        notes.append(f"These variants exceed the budget of ${ask.budget:g}/h: {'; '.join(left_out)}.")
    return tuple(notes)


def _line(member: Member, base: Member) -> ChartLine:
    assert member.front is not None
    label = ", ".join(member.labels) + (" (base)" if member is base else "")
    return ChartLine(label, member.front.tokens_per_second.tolist(), member.front.dollars.tolist())


def answer_families(run: ScenarioRun, ask: FamilyAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_families(ask, run.progress), priced_sources)
