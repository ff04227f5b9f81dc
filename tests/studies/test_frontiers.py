"""Full frontiers of the published code, point by point: Figures 1, 6, 8 and 9 of Erdil (2025), and other chips."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from inference_econ.inputs import FrontierAsk, PanelsAsk, Settings, Traffic, catalog
from inference_econ.search import Frontier, Sampling
from inference_econ.studies.results import Curve
from inference_econ.studies.scenario import run
from tests import asking
from tests.reading import present

FRONTIERS = Path(__file__).parents[1] / "fixtures" / "frontiers"
#: Relative; the two differ in the order of their sums.
TOLERANCE = 1e-9

Key = tuple[str, bool]


@cache
def _published(figure: str) -> dict[Key, list[dict[str, str]]]:
    """Return points by series and by the use of pipelines."""
    found: dict[Key, list[dict[str, str]]] = {}
    with (FRONTIERS / f"{figure}.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault((row["series"], row["pipeline"] == "true"), []).append(row)
    return found


def _check(ours: Curve | Frontier, rows: Sequence[dict[str, str]]) -> None:
    """Compare all points of the fixture; ours start with the slowest, theirs with the fastest."""
    assert len(ours.dollars) == int(rows[0]["points"])
    index = [-1 - int(row["idx"]) for row in rows]
    assert int(rows[0]["idx"]) == 0
    assert int(rows[-1]["idx"]) == len(ours.dollars) - 1
    columns = {
        "tokens_per_second": ours.tokens_per_second,
        "usd_per_million": ours.dollars,
        "n_gpu": ours.accelerators,
        "batch": ours.batch,
    }
    front = ours if isinstance(ours, Frontier) else ours.frontier
    if front is not None:
        assert isinstance(front, Frontier)
        columns["mfu"] = front.mfu
    else:
        assert "mfu" not in rows[0]
    for name, values in columns.items():
        theirs = np.array([float(row[name]) for row in rows])
        np.testing.assert_allclose(values[index], theirs, rtol=TOLERANCE, atol=0.0, err_msg=name)


@pytest.mark.parametrize("figure", ["figure_1", "figure_6", "figure_8", "figure_9"])
def test_the_curves_of_a_figure(figure: str) -> None:
    published = _published(figure)
    drawn_with_pipeline = figure != "figure_1"  # the toy model has none
    result = run(f"paper/{figure}")
    expected = {series for series, pipeline in published if pipeline == drawn_with_pipeline}
    assert {curve.label for curve in result.curves} == expected
    for curve in result.curves:
        _check(curve, published[curve.label, drawn_with_pipeline])


@pytest.mark.rows
def test_frontiers_without_pipeline_and_on_chips_that_no_figure_shows(
    file: str, series: str, model: str, hardware: str, weights: str, pipeline: bool
) -> None:
    settings = {"assumptions": "paper", "weights": weights, "grid": "paper", "pipeline": pipeline}
    front = asking.frontier(model, hardware, Traffic(context=0), sampling=Sampling(1000, 2.0), **settings)
    _check(front, _published(file)[series, pipeline])


def test_figure_1_lower_demand_never_helps_and_caps_never_help() -> None:
    """At equal speed, the curve with less demand or with achieved rates is not cheaper."""
    curves = {curve.label: curve for curve in run("paper/figure_1").curves}

    def cheapest(label: str, speed: float) -> float:
        fast_enough = curves[label].tokens_per_second >= speed
        return float(curves[label].dollars[fast_enough].min()) if fast_enough.any() else np.inf

    for model in ("Llama 3 70B", "Llama 3 8B"):
        for speed in (20.0, 60.0, 120.0, 145.0):
            for suffix in ("", ", capped rates"):
                assert cheapest(f"{model} (10K tok/s){suffix}", speed) >= cheapest(f"{model} (1M tok/s){suffix}", speed)
            for demand in ("10K", "1M"):
                label = f"{model} ({demand} tok/s)"
                assert cheapest(f"{label}, capped rates", speed) >= cheapest(label, speed)


def test_figure_2_the_square_root_law_through_the_smallest_model() -> None:
    found = present(run("paper/figure_2").comparison)
    assert found.labels == ("PaLM 8B", "PaLM 62B", "PaLM 540B")
    np.testing.assert_allclose(found.measured, [4e-3, 13e-3, 32e-3], rtol=1e-12)
    # Eq. (19): latency grows with the root of the parameters. 540.35 / 8.63 = 62.6, and its root is 7.91.
    np.testing.assert_allclose(found.predicted, 4e-3 * np.sqrt([1.0, 62.5 / 8.63, 540.35 / 8.63]), rtol=1e-12)


def _settings(name: str) -> dict[str, Settings]:
    """Return the settings of each series of a scenario, by its label."""
    ask = catalog.scenario(f"paper/{name}").ask
    assert isinstance(ask, FrontierAsk)
    return {series.label: series.settings.over(ask.common) for series in ask.series}


def test_figures_that_show_the_curves_of_tables() -> None:
    assert _settings("figure_4") == _settings("table_2") == _settings("table_3")
    assert _settings("figure_6") == _settings("table_4")
    assert _settings("figure_8") == _settings("table_6")
    assert _settings("table_5").items() <= _settings("figure_7").items()


def test_figure_5_is_figures_3_and_4_which_differ_by_the_draft() -> None:
    ask = catalog.scenario("paper/figure_5").ask
    assert isinstance(ask, PanelsAsk)
    assert ask.scenarios == ("paper/figure_3", "paper/figure_4")
    without = {label.partition(",")[0].rstrip(")"): settings for label, settings in _settings("figure_3").items()}
    for label, settings in _settings("figure_4").items():
        plain = settings.replace(draft=None, acceptance=None, max_draft=None)
        same = without[label.partition(",")[0].rstrip(")")]
        assert same.replace(draft=None, acceptance=None, max_draft=None) == plain
        assert same.draft is None


def test_figure_3_fastest_points() -> None:
    fastest = {  # tokens/s and chips
        "Mixtral 8x22B (16-bit)": (196.3, 34.3),
        "Llama 3 70B (8-bit)": (152.1, 24.3),
        "Llama 3.1 405B (8-bit)": (66.5, 101.8),
        "GPT-4 (16-bit)": (63.7, 119.5),
        "DeepSeek-V3 (8-bit)": (214.7, 14.0),
        # The study's list has these under 8-bit labels.
        "Llama 3 70B (16-bit)": (124.9, 32.9),
        "Llama 3.1 405B (16-bit)": (56.8, None),
    }
    curves = run("paper/figure_3").curves
    assert {curve.label for curve in curves} == fastest.keys()
    for curve in curves:
        speed, size = fastest[curve.label]
        assert curve.tokens_per_second[-1] == pytest.approx(speed, abs=0.051), curve.label
        assert size is None or curve.accelerators[-1] == pytest.approx(size, abs=0.051), curve.label


def test_figure_10_fastest_and_preferred_points() -> None:
    points = {  # tokens/s; tokens/s and USD
        "Short context": (214.67, 105.2, 1.42),
        "Short context, speculative": (214.67, 117.0, 1.09),
        "100K context": (206.75, 199.3, 22.4),
        "100K context, speculative": (206.75, 137.9, 6.34),
    }
    curves = run("paper/figure_10").curves
    assert [curve.label for curve in curves] == list(points)
    for curve in curves:
        fastest, speed, cost = points[curve.label]
        best = curve.preferred_index(3)
        assert curve.tokens_per_second[-1] == pytest.approx(fastest, abs=0.0051), curve.label
        assert curve.tokens_per_second[best] == pytest.approx(speed, abs=0.051), curve.label
        assert curve.dollars[best] == pytest.approx(cost, rel=4e-3), curve.label
