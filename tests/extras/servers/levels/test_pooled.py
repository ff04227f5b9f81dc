"""Partly pooled corrections compared with second calculations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from data.levels.fitted import corrected_releases, shared_data
from inference_econ._types import Array
from inference_econ.extras.servers import levels as pooling
from inference_econ.inputs import MeasuredLevels
from tests.extras.servers.levels.rows import GROUP, NESTED, SPREADS, observed
from tests.measured import measurement


def test_one_row_moves_every_effect_by_its_share_of_the_variance() -> None:
    """With a single row, its correction is its error times the variance of effects over that of the row."""
    levels = pooling.pooled([observed(0.5)], SPREADS)
    variances = SPREADS.effects[0, NESTED] ** 2
    share = variances.cumsum() / (variances.sum() + SPREADS.rows[0] ** 2)
    place = pooling.places_of(measurement())[0]
    for depth in range(len(pooling.DEPTHS)):
        assert levels[GROUP, 0, tuple(place[: depth + 1])] == pytest.approx(0.5 * share[depth], rel=1e-6)


def test_levels_are_the_mean_of_a_normal_distribution_given_the_rows() -> None:
    """Corrections equal the mean of the joint normal distribution conditioned on the rows, with its full covariance."""
    rows = [
        observed(0.4, 0.1, slopes=np.array([[0.9, 0.1], [0.2, 0.7]])),
        observed(0.1, -0.2, tp=4, slopes=np.array([[0.8, 0.2], [0.1, 0.6]])),
        observed(-0.3, 0.3, engine_version="0.15.0"),
    ]

    def shared(first: pooling.Place, second: pooling.Place, kind: int) -> float:
        same = 0
        while same < len(pooling.DEPTHS) and first[: same + 1] == second[: same + 1]:
            same += 1
        return float(np.sum(SPREADS.effects[kind][:same] ** 2))

    def covariance(first: pooling.Observed, second: pooling.Observed) -> Array:
        """Return the covariance of the corrections of two rows, for both kinds of steps."""
        return np.diag([shared(first.places[kind], second.places[kind], kind) for kind in range(2)])

    joint = np.block([[a.slopes @ covariance(a, b) @ b.slopes.T for b in rows] for a in rows])
    joint += np.diag(np.tile(SPREADS.rows**2, len(rows)))
    errors = np.concatenate([row.errors for row in rows])
    levels = pooling.pooled(rows, SPREADS)
    for row in rows:
        cross = np.hstack([covariance(row, other) @ other.slopes.T for other in rows])
        assert pooling.level_of(levels, row) == pytest.approx(cross @ np.linalg.solve(joint, errors), rel=1e-9)


def test_what_shares_nothing_has_no_level() -> None:
    """Another model or chip has exactly the prediction of its profile."""
    levels = pooling.pooled([observed(0.5)], SPREADS)
    changes: list[dict[str, Any]] = [{"model": "llama_3_8b"}, {"hardware": "h100_sxm"}]
    for change in changes:
        assert pooling.level_of(levels, observed(0.0, **change)).tolist() == [0.0, 0.0]


def test_proposals_are_those_of_an_engine_on_all_chips() -> None:
    """The excess time of speculation rounds belongs to the engine's host, separate from a model on a chip."""
    server = {"model": "deepseek_v3", "weights": "fp8_block", "engine": "sglang"}
    drafting: dict[str, Any] = server | {"speculation": "MTP2"}
    levels = pooling.pooled([observed(0.6, **drafting)], SPREADS)
    plain, other = observed(0.0, **drafting | {"speculation": "none"}), observed(0.0, **drafting | {"hardware": "b200"})
    name = (pooling.Group("sglang", ""), 0, ("speculation", ""))
    assert pooling.level_of(levels, other)[0] == pytest.approx(levels[name])
    both = pooling.level_of(levels, observed(0.0, **drafting))[0]
    assert 0.0 < levels[name] < both < 0.6
    assert pooling.level_of(levels, plain)[0] < both - levels[name] + 1e-9
    group, row = pooling.Group("sglang", "hopper"), observed(0.6, **drafting)
    entries, shared = pooling.entries_of(group, [row], levels), shared_data(group, [row], levels)
    data = pooling.levels_data(group, entries, SPREADS, {}, date="2026-11-01", shared=shared)
    file = MeasuredLevels.build(data, origin="")
    prefill = (pooling.Group("sglang", ""), 1, ("speculation", ""))
    assert pooling.known_shared(group, file) == {name: pytest.approx(levels[name], abs=1e-4), prefill: 0.0}


def test_a_release_moves_servers_of_all_models_from_then_on() -> None:
    """If two models take longer under a release, so does a third one, under later releases as well."""
    rows = [
        observed(error, kinds="release", model=model, engine_version=version)
        for model in ("llama_3_70b", "qwen3_32b")
        for version, error in (("0.12.0", 0.0), ("0.18.0", 0.4))
    ]
    levels = pooling.pooled(rows, SPREADS)
    name = (pooling.Group("vllm", ""), 0, ("release", "0.18.0"))
    assert levels[name] > 0.1
    for version in ("0.12.0", "0.18.0", "0.19.0", "0.24.0"):
        other = observed(0.0, kinds="release", model="llama_3_8b", engine_version=version)
        assert pooling.level_of(levels, other)[0] == pytest.approx(0.0 if version == "0.12.0" else levels[name])
    entries, shared = pooling.entries_of(GROUP, rows, levels), shared_data(GROUP, rows, levels)
    data = pooling.levels_data(GROUP, entries, SPREADS, {}, date="2026-11-01", newest="0.18.0", shared=shared)
    file = MeasuredLevels.build(data, origin="")
    assert pooling.known_shared(GROUP, file)[name] == pytest.approx(levels[name], abs=1e-4)
    assert pooling.known_releases(file) == {"vllm": {False: ["0.18.0"], True: []}}


def test_a_release_has_a_correction_if_several_architectures_were_measured_with_it() -> None:
    """With one architecture, it and the release are confounded. The first release is the reference."""

    def released(*rows: tuple[str, str]) -> object:
        return corrected_releases([measurement(model=model, engine_version=version) for model, version in rows])

    first = [("llama_3_70b", "0.12.0"), ("qwen3_32b", "0.12.0")]
    assert released(*first, ("gpt_oss_120b", "0.18.0"), ("qwen3_32b", "0.18.0")) == {"vllm": {False: []}}
    assert released(*first, ("llama_3_70b", "0.18.0")) == {"vllm": {False: []}}
    assert released(*first, ("llama_3_70b", "0.18.0"), ("llama_3_8b", "0.19.1")) == {"vllm": {False: []}}
    assert released(*first, ("llama_3_70b", "0.18.0"), ("qwen3_32b", "0.19.1")) == {"vllm": {False: ["0.18.0"]}}


def test_a_misfit_moves_its_own_version_only() -> None:
    series: dict[str, Any] = {"model": "qwen3_235b_a22b", "kinds": "release", "weights": "fp8_block"}
    row = observed(0.7, engine_version="0.12.0", **series)
    levels = pooling.pooled([row], SPREADS)
    assert row.misfit
    assert pooling.level_of(levels, row)[0] > 0.1
    assert pooling.level_of(levels, observed(0.0, engine_version="0.18.0", **series))[0] == 0.0


def shipped(*rows: pooling.Observed) -> MeasuredLevels:
    """Return a file that was fitted to some rows."""
    entries = pooling.entries_of(GROUP, rows, pooling.pooled(rows, SPREADS))
    return MeasuredLevels.build(pooling.levels_data(GROUP, entries, SPREADS, {}, date="2026-11-01"), origin="levels")


def test_a_file_holds_no_level_beyond_its_bounds() -> None:
    (subject,) = shipped(observed(9.0)).subjects
    assert subject.versions[0].ways[0].deployments[0].decode == 2.0


def test_a_file_says_what_was_fitted() -> None:
    """After writing and reading, corrections are equal except for their last digits."""
    rows = [observed(0.4, 0.1), observed(0.1, -0.2, tp=4), observed(-0.3, 0.3, engine_version="0.15.0")]
    levels, known = pooling.pooled(rows, SPREADS), pooling.known_entries(shipped(*rows))
    assert known
    for (_, kind, part), value in levels.items():
        assert (known[part].decode, known[part].prefill)[kind] == pytest.approx(value, abs=1e-4)
    assert known[("llama_3_70b", "h200_sxm"),].rows == 3


@pytest.mark.parametrize(("change", "narrower"), [({}, 1), ({"tp": 4}, 1), ({"engine_version": "1.0"}, 3)])
def test_one_point_of_ones_own_moves_what_it_may_differ_in(change: dict[str, Any], narrower: int) -> None:
    """One own row corrects a deployment alone; a row of a version corrects all narrower groups."""
    file = shipped(observed(0.4, 0.1), observed(0.3, 0.0))
    own = observed(0.9, **change)
    mine = MeasuredLevels.build(pooling.own_levels(file, GROUP, [own], date="2026-11-02"), origin="mine")
    known = pooling.known_entries(file)
    place = own.places[0]
    before = next(known[part] for length in (4, 3, 2, 1) if (part := tuple(place[:length])) in known).decode
    variance = float(np.sum(SPREADS.effects[0, NESTED][-narrower:] ** 2))
    moved = before + (0.9 - before) * variance / (variance + SPREADS.rows[0] ** 2)
    assert pooling.known_entries(mine)[tuple(place)].decode == pytest.approx(moved, abs=2e-4)
    for part, entry in known.items():
        if part != tuple(place):
            assert pooling.known_entries(mine)[part][1:] == pytest.approx(entry[1:], abs=1e-3)
