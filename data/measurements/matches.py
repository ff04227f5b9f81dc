"""Pools of disaggregated rows, from another row of the same run or from its recipe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, permutations

from data.measurements.inferencex import is_run
from data.measurements.recipes import Recipe
from inference_econ.extras.servers.measurements import Measurement, RecordedPool, Skipped
from inference_econ.extras.servers.measurements._record import MEAN_LENGTH

#: Maximum TPOT ratio of runs of one recipe; see ``_tables._FASTER`` of the package [1].
_APART = 1.1
#: Maximum relative TPOT difference of two runs of one deployment; other deployments hardly ever differ less [1].
_SAME_RUN = 0.01
#: Maximum number of recipes for one layout and concurrency that results can distinguish [1].
_MOST = 6
_OPEN = "the numbers of workers are not recorded"
#: Reason why a disaggregated row cannot be predicted.
NO_RECIPE = f"{_OPEN}, and no recipe of InferenceX has this layout for this concurrency"
SEVERAL_RECIPES = f"{_OPEN}, and recipes of InferenceX with other pools have this layout for this many requests"
SPECULATION = f"{_OPEN}; the recipes of InferenceX with this layout and this many requests speculate or do not"


def complete_pools(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Add missing pools to disaggregated rows from other rows of the same run.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. It contains several copies of a run, with more or less of its layout, and repeated runs. Two
        rows with equal load whose TPOT agrees within 1% have the same pools.
    """
    whole: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.decode is not None and row.accelerators is not None:
            whole[_traffic(row)].append(row)
    return [_completed(row, whole.get(_traffic(row), ())) if isinstance(row, Measurement) else row for row in rows]


def _completed(row: Measurement, others: Sequence[Measurement]) -> Measurement:
    if row.decode is None or row.accelerators is not None or row.tpot_seconds is None:
        return row
    for other in others:
        if other.tpot_seconds is not None and abs(row.tpot_seconds / other.tpot_seconds - 1) <= _SAME_RUN:
            remarks = (*row.remarks, f"pools of {other.id}, which is as fast")
            return replace(
                row, prefill=other.prefill, decode=other.decode, accelerators=other.accelerators, remarks=remarks
            )
    return row


def _traffic(row: Measurement) -> tuple[object, ...]:
    return (row.model, row.hardware, row.engine, row.isl, row.osl, row.load, row.concurrency)


def with_recipes(rows: Sequence[Measurement | Skipped], recipes: Sequence[Recipe]) -> list[Measurement | Skipped]:
    """Add the pools and the speculation of the recipe to disaggregated rows.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. Only rows of InferenceX are used. Their collection does not record attention-DP, and records
        the expert parallelism of the prefill pool for both pools.
    recipes : sequence of Recipe
        Recipes of the same benchmark.

    Returns
    -------
    list of Measurement or Skipped
        Rows in the same order. If the recipe of a row is ambiguous, ``unknown`` contains the reason.

    Notes
    -----
    If several recipes have one layout and concurrency, results that differ by at least 10% are runs of different
    recipes. Each result is assigned to a recipe under two conditions. The recorded workers must match. No run with more
    workers or more draft tokens may be slower than one with otherwise equal pools. The rows are resolved if only one
    assignment meets both conditions.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if isinstance(row, Measurement) and row.decode is not None and is_run(row.source):
            groups[_demand(row)].append(index)
    completed = list(rows)
    for indices in groups.values():
        runs = [row for row in (rows[index] for index in indices) if isinstance(row, Measurement)]
        for index, row in zip(indices, _of_one_demand(runs, recipes), strict=True):
            completed[index] = row
    return completed


def _demand(row: Measurement) -> tuple[object, ...]:
    assert row.prefill is not None and row.decode is not None
    subject = (row.model, row.weights, row.hardware, row.engine, row.engine_version, row.isl, row.osl)
    return (*subject, row.speculation, row.concurrency, _size(row.prefill), _size(row.decode), row.prefill.ep)


def _size(pool: RecordedPool) -> int:
    return pool.tp * pool.dp * pool.pp


def _of_one_demand(runs: Sequence[Measurement], recipes: Sequence[Recipe]) -> Iterator[Measurement]:
    """Rows of one layout and concurrency, with the facts of their recipes."""
    possible = _distinct([recipe for recipe in recipes if _has(recipe, runs[0])])
    results = _results(runs)
    ways = list(_assignments(results, possible))
    for row in runs:
        place = next((k for k, result in enumerate(results) if row in result), None)
        if len(ways) == 1 and place is not None:
            yield _run_of(row, ways[0][place])
        elif row.accelerators is not None:
            yield _narrowed(row, [recipe for recipe in possible if _has_workers(recipe, row)])
        else:
            yield replace(row, unknown=_reason(possible))


def _has(recipe: Recipe, row: Measurement) -> bool:
    """True if a recipe matches the subject, lengths, recorded layout and concurrency of a row."""
    subject = (recipe.model, recipe.weights, recipe.hardware, recipe.engine)
    lengths = (MEAN_LENGTH * recipe.isl, MEAN_LENGTH * recipe.osl)
    speculates = None if row.speculation == "unrecorded" else row.speculates
    return (
        subject == (row.model, row.weights, row.hardware, row.engine)
        and (recipe.version in ("", row.engine_version) or (not row.engine_version and _ran(recipe, row)))
        and speculates in (None, recipe.speculation != "none")
        and lengths == (row.isl, row.osl)
        and row.concurrency in recipe.concurrencies
        and _has_sizes(recipe, row)
    )


def _has_sizes(recipe: Recipe, row: Measurement) -> bool:
    """True if the recipe has the accelerators per worker of a row.

    A recipe with one accelerator per worker has degrees that only a script sets. Results without a version record the
    accelerators of the full server for both pools.
    """
    assert row.prefill is not None and row.decode is not None
    prefill, decode, ep = _size(row.prefill), _size(row.decode), row.prefill.ep
    total = sum(pool.accelerators or 0 for pool in (recipe.prefill, recipe.decode))
    if (prefill, decode) == (1, 1) or (not row.engine_version and (prefill, decode) == (total, total)):
        return ep in (None, 1)
    unsaid = ep == recipe.prefill.tp == 1 and 1 in (row.prefill.tp, row.decode.tp)
    return (_size(recipe.prefill), _size(recipe.decode)) == (prefill, decode) and (
        unsaid or ep in (None, recipe.prefill.ep)
    )


def _ran(recipe: Recipe, row: Measurement) -> bool:
    """True if the benchmark had a recipe on some day of a row."""
    return row.days is not None and recipe.days.since <= row.days.until and row.days.since <= recipe.days.until


def _distinct(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Recipes without duplicates of the pools."""
    alike: dict[tuple[object, ...], list[Recipe]] = defaultdict(list)
    for recipe in recipes:
        alike[(_layout(recipe), _workers(recipe), recipe.speculation)].append(recipe)
    return [_common(same) for same in alike.values()]


def _common(recipes: Sequence[Recipe]) -> Recipe:
    """First of several recipes with equal pools, without settings in which they differ."""
    first = recipes[0]
    prefill, decode = (
        replace(pool, slots=pool.slots if len(slots) == 1 else None)
        for pool, slots in (
            (first.prefill, {recipe.prefill.slots for recipe in recipes}),
            (first.decode, {recipe.decode.slots for recipe in recipes}),
        )
    )
    tokens, shares = {recipe.step_tokens for recipe in recipes}, {recipe.memory for recipe in recipes}
    same = len({recipe.speculation for recipe in recipes}) == 1
    return replace(
        first,
        prefill=prefill,
        decode=decode,
        step_tokens=first.step_tokens if len(tokens) == 1 else None,
        memory=first.memory if len(shares) == 1 else None,
        speculation=first.speculation if same else "unrecorded",
    )


def _layout(recipe: Recipe) -> tuple[int | None, ...]:
    return tuple(value for pool in (recipe.prefill, recipe.decode) for value in (pool.tp, pool.dp, pool.pp, pool.ep))


def _workers(recipe: Recipe) -> tuple[int, int]:
    return recipe.prefill.workers or 0, recipe.decode.workers or 0


def _results(runs: Sequence[Measurement]) -> list[list[Measurement]]:
    """Rows by TPOT, shortest first, in groups that differ by at least 10%."""
    ordered = sorted((row for row in runs if row.tpot_seconds is not None), key=lambda row: row.tpot_seconds or 0.0)
    results = [ordered[:1]] if ordered else []
    for before, row in pairwise(ordered):
        if (row.tpot_seconds or 0.0) < _APART * (before.tpot_seconds or 0.0):
            results[-1].append(row)
        else:
            results.append([row])
    return results


def _assignments(results: Sequence[Sequence[Measurement]], recipes: Sequence[Recipe]) -> Iterator[tuple[Recipe, ...]]:
    """All assignments of one recipe to each result."""
    if len(results) != len(recipes) or len(recipes) > _MOST:
        return
    for order in permutations(recipes):
        slower = any(_faster(later, sooner) for k, sooner in enumerate(order) for later in order[k + 1 :])
        recorded = all(
            _has_workers(recipe, row) for recipe, result in zip(order, results, strict=True) for row in result
        )
        if recorded and not slower:
            yield order


def _faster(recipe: Recipe, other: Recipe) -> bool:
    """True if a recipe has more workers or draft tokens than another, fewer of none, and otherwise equal pools."""
    more = [a - b for a, b in zip((*_workers(recipe), recipe.drafted), (*_workers(other), other.drafted), strict=True)]
    return _layout(recipe) == _layout(other) and min(more) >= 0 and max(more) > 0


def _has_workers(recipe: Recipe, row: Measurement) -> bool:
    """True if a recipe has the workers that a row records, if it records any."""
    assert row.prefill is not None and row.decode is not None
    recorded = (row.prefill.workers, row.decode.workers)
    return all(said in (None, workers) for said, workers in zip(recorded, _workers(recipe), strict=True))


def _run_of(row: Measurement, recipe: Recipe) -> Measurement:
    accelerators = sum(pool.accelerators or 0 for pool in (recipe.prefill, recipe.decode))
    return replace(
        row,
        prefill=recipe.prefill,
        decode=recipe.decode,
        accelerators=accelerators,
        step_tokens=recipe.step_tokens,
        memory=recipe.memory,
        speculation=recipe.speculation,
        remarks=(*row.remarks, f"pools of {recipe.source}"),
    )


def _narrowed(row: Measurement, recipes: Sequence[Recipe]) -> Measurement:
    """Row with recorded workers, with the facts on which all recipes with these workers agree.

    Rows that record speculation also record attention-DP.
    """
    if row.speculation != "unrecorded":
        recipes = [recipe for recipe in recipes if _degrees(recipe) == _degrees(row)]
    if not recipes or len({_layout(recipe) for recipe in recipes}) > 1:
        return row
    return _run_of(row, _common(recipes))


def _degrees(pools: Recipe | Measurement) -> list[tuple[int, int]]:
    return [(pool.tp, pool.dp) for pool in (pools.prefill, pools.decode) if pool is not None]


def _reason(recipes: Sequence[Recipe]) -> str:
    if not recipes:
        return NO_RECIPE
    pools = {(_layout(recipe), _workers(recipe)) for recipe in recipes}
    return SPECULATION if len(pools) == 1 and len(recipes) > 1 else SEVERAL_RECIPES
