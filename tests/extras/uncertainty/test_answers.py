"""Results of uncertainty studies: bands, probabilities, shared errors, and the smallest number of frontiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import inference_econ as ie
from inference_econ import _work
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.engine import error_spread
from inference_econ.engine.bounds import subjects_of
from inference_econ.extras.uncertainty.answer import answer, errors_of, quantile
from inference_econ.extras.uncertainty.scenario_kinds import UncertaintyAsk
from inference_econ.inputs import LEVELS, catalog
from inference_econ.studies.settings import frontier_of
from tests.extras.uncertainty.studies import COMMON, MEMORY_BOUND, TWO, answered, factor, study
from tests.reading import present, tables


def own(*inputs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**series, "inputs": given} for series, given in zip(TWO, inputs, strict=True)]


def test_prices_scale_the_present_curve() -> None:
    sure = answered({"price": {"distribution": "uniform", "loc": 2, "scale": 2}}, common={**COMMON, "price": 2.5})
    reached = sure.reached[:, 0] == 1
    assert reached.any()
    assert sure.bands[:, reached, 0] == pytest.approx(
        np.outer([2.2, 3.0, 3.8], sure.present[reached, 0]) / 2.5, rel=1e-3
    )


def test_the_chance_that_one_is_cheaper_is_that_of_log_normal_prices() -> None:
    sure = answered({}, own({"price": factor(0.2)}, {"price": factor(0.3)}), common=MEMORY_BOUND, speed=1)
    margin = np.log(sure.present[sure.at, 0] / sure.present[sure.at, 1])
    exact = norm.cdf(-margin / np.hypot(0.2, 0.3))
    chance = sure.chance(0, sure.at)
    assert chance.value == pytest.approx(exact, abs=3 * chance.standard_error)
    assert chance.value + sure.chance(1, sure.at).value == pytest.approx(1.0)
    assert sure.wrong == pytest.approx(1 - max(chance.value, 1 - chance.value))


def test_what_all_series_share_decides_nothing() -> None:
    sure = answered({"price": factor(0.3)}, TWO, common=MEMORY_BOUND, speed=1)
    assert sure.chance(0, sure.at).value in (0.0, 1.0)
    assert sure.all_known.mistakes.value == 0.0


def test_knowing_a_price_of_its_own_is_worth_what_is_saved() -> None:
    common = {**MEMORY_BOUND, "price": 3.0}
    sure = answered({}, own({"price": factor(0.3)}, {"price": factor(0.01)}), common=common, speed=1)
    first, second, known = (present(one.dollars) for one in (*sure.knowledge, sure.all_known))
    # Nearly all that can be known is the first price.
    assert first.value == pytest.approx(known.value, rel=0.05)
    assert second.value <= 3 * second.standard_error


def test_only_inputs_that_change_the_frontier_need_one() -> None:
    inputs = {"price": factor(0.2), "profile": "held_out", "isl": factor(0.3)}
    sure = answered(inputs, common={**COMMON, "weights": "fp8"}, samples=16)
    assert len(sure.plan.shares) == 16 * 5
    # Two values of the length for each point, the present one, and the two ends that are tried first.
    assert sure.frontiers == 2 * 16 + 3


def test_an_interrupt_leaves_the_points_that_are_done() -> None:
    inputs, common = {"isl": factor(0.3)}, {**COMMON, "weights": "fp8"}

    def interrupted(share: float, _: str) -> None:
        if share > 0.6:
            raise KeyboardInterrupt

    def asked(progress: Any = None) -> Any:
        scenario = study(inputs, common=common, samples=32)
        assert isinstance(scenario.ask, UncertaintyAsk)
        return answer(scenario, scenario.ask, progress=progress)

    with _work.waited_for(lambda _: None) as waiting:
        part = asked(interrupted)
    assert waiting.stopped == "16 of 32 points"
    assert (part.plan.samples, len(part.costs), part.frontiers) == (16, 16 * 3, 2 * 16 + 3)
    np.testing.assert_array_equal(part.costs, asked().costs[: 16 * 3])
    with pytest.raises(KeyboardInterrupt):
        asked(interrupted)


def test_a_sample_is_the_frontier_of_its_values() -> None:
    inputs = {"isl": {"distribution": "uniform", "loc": 500, "scale": 3000}, "price": factor(0.2)}
    sure = answered(inputs, samples=16)
    row = 7
    isl, price = (float(sure.series[0].values(column, sure.plan.shares[row, column])) for column in (0, 1))
    # The candidates are the recipes on the present frontier, which were sampled.
    front = frontier_of(sure.series[0].settings.replace(isl=isl, price=price), sure.series[0].practices)
    assert isinstance(front, ServiceFrontier)
    likely = present(front.at_speed(sure.speed))
    assert sure.costs[row, sure.at, 0] == pytest.approx(likely.dollars)
    assert sure.fastest[row, 0] == pytest.approx(front.tokens_per_second[-1])


def test_errors_of_a_profile_are_its_held_out_quantiles() -> None:
    front = frontier_of(study({"profile": "held_out"}).ask.common)
    errors = errors_of("held_out", front)(np.array(LEVELS))
    subjects = subjects_of(front.subjects()[0])
    tpot, throughput = (
        present(error_spread(front.setup.assumptions, name, subjects)).spread.quantiles
        for name in ("tpot", "throughput")
    )
    assert np.log(errors.tpot) == pytest.approx(tpot)
    # Slow deployments have a low throughput, so costs are in reverse order.
    assert np.log(errors.cost) == pytest.approx(-np.array(throughput[::-1]))


def test_beyond_the_known_quantiles_errors_go_on_as_normal_ones() -> None:
    front = frontier_of(study({"profile": "held_out"}).ask.common)
    spread = present(error_spread(front.setup.assumptions, "tpot", subjects_of(front.subjects()[0])))
    normal = spread.spread.replace(quantiles=tuple(0.1 * norm.ppf(LEVELS)))
    shares = np.array([0.001, 0.03, 0.4, 0.99])
    assert quantile(normal, shares) == pytest.approx(0.1 * norm.ppf(shares))


def test_slow_servers_shift_the_whole_curve() -> None:
    sure = answered({"profile": {"distribution": "uniform", "loc": 1.0, "scale": 1.0, "relative": True}})
    front = sure.series[0].present
    assert sure.fastest[:, 0].max() == pytest.approx(front.tokens_per_second[-1], rel=0.01)
    assert sure.fastest[:, 0].min() == pytest.approx(front.tokens_per_second[-1] / 2, rel=0.01)
    # The median ends at the highest speed that half of the samples reach.
    median = sure.bands[1, :, 0]
    assert sure.speeds[np.isfinite(median)].max() == pytest.approx(front.tokens_per_second[-1] / 1.5, rel=0.05)


def test_errors_decide_whether_promises_are_kept() -> None:
    common = {**COMMON, "ttft": 0.13}
    inputs = {"profile": {"distribution": "uniform", "loc": 0.5, "scale": 1.0, "relative": True}}
    promised, free = (answered(inputs, common=each, samples=16, speed=40) for each in (common, COMMON))
    kept, every = promised.costs[:, promised.at, 0], free.costs[:, free.at, 0]
    assert (kept >= every - 1e-9).all()
    assert (kept > every).any()
    slow = int(np.argmax(promised.plan.shares[:, 0]))
    error = 0.5 + float(promised.plan.shares[slow, 0])
    points = frontier_of(free.series[0].settings.replace(ttft=0.13 / error))
    expected = points.cheapest(tokens_per_second=40 * error).dollars_per_million_output_tokens * error
    assert kept[slow] == pytest.approx(expected)


def test_a_shipped_study_is_answered() -> None:
    study = catalog.scenario("studies/h100_or_h200")
    assert isinstance(study.ask, UncertaintyAsk)
    sure = answer(study, study.ask.replace(samples=16))
    assert [series.label for series in sure.series] == ["H100", "H200"]
    for series in sure.series:
        (candidate,) = series.present.candidates  # type: ignore[union-attr]
        assert (candidate.speculation is not None, candidate.pools) == (True, None)
        assert candidate.engine.startswith("vllm")
    assert np.isfinite(sure.costs[:, sure.at]).all()


def test_nothing_fits_in_some_samples() -> None:
    inputs = {"hardware.hbm_bytes": {"distribution": "uniform", "loc": "10 GB", "scale": "60 GB"}}
    sure = answered(inputs, samples=16, speed=40)
    fits = np.isfinite(sure.costs[:, sure.at, 0])
    assert 0.5 < fits.mean() < 1.0
    assert (sure.fastest[~fits, 0] == 0).all()
    assert sure.shares == {}


@pytest.mark.rows
def test_bad_studies_are_refused(inputs: dict[str, Any], others: dict[str, Any], message: str) -> None:
    with pytest.raises(ie.InputError, match=f"(?s){message}"):
        answered(inputs, **others)


def test_a_mistake_of_one_series_names_it() -> None:
    two = [TWO[0], {"label": "H200", "settings": {"hardware": "h200_sxm", "assumptions": "ideal"}}]
    with pytest.raises(ie.InputError, match=r"^H200: profile: ideal was fitted to no measured server"):
        answered({"profile": "held_out"}, two)


def test_too_many_frontiers_are_refused_before_they_begin() -> None:
    with pytest.raises(ie.TooMuchError, match=r"131,072 frontiers of 65,536 samples take about .*; reduce samples"):
        answered({"isl": factor(0.1)}, samples=2**16)
    with pytest.raises(ie.TooMuchError, match=r"1,048,576 samples take about .* GB of memory"), ie.allow():
        answered({"price": factor(0.1)}, samples=2**20)


def test_lines_of_mistakes_are_named(tmp_path: Any) -> None:
    path = tmp_path / "mine.yaml"
    text: str = tables(Path(__file__))["STUDY"]
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ie.SpecError, match=r"mine\.yaml:8: ask\.inputs\.price: 'lognrm' is no .* 'lognorm'"):
        ie.run(str(path))
    path.write_text(text.replace("lognrm", "lognorm").replace("  ask: {ref", "  ask.series: {ref"), encoding="utf-8")
    with pytest.raises(ie.SpecError, match=r"mine\.yaml:7: ask\.inputs\.isl\.s has no source"):
        ie.run(str(path))
