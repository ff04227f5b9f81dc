"""Charts of results: the command, intervals of measured values, and measured servers."""

from __future__ import annotations

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.engine import bounds
from inference_econ.inputs import Length, Requests
from inference_econ.report import speed_cost as bands
from inference_econ.report.charts.plot import Plot
from inference_econ.report.questions.frontier import frontier_charts
from inference_econ.search import METRICS, Metric
from tests import asking
from tests.reading import present

MEASURED = "best measured: TensorRT-LLM (serving_points)"


@pytest.fixture(scope="module")
def decode() -> Plot:
    traffic = ie.Traffic(isl=1024, osl=1024)
    return frontier_charts(asking.frontier("llama_3_70b", "h200_sxm", traffic, weights="fp8", max_accelerators=8))[0]


@pytest.fixture(scope="module")
def services() -> ServiceFrontier:
    requests = Requests(isl=Length.parse("1024"), osl=Length.parse("1024"))
    layouts = asking.offer("llama_3_70b", "h200_sxm", requests, weights="fp8", max_accelerators=8)
    return service_frontier([Candidate(layouts)], ends=False)


def labels(chart: Plot) -> list[str]:
    return [line.label for line in chart.lines]


def test_the_edges_of_a_band_are_the_ends_of_the_interval(decode: Plot) -> None:
    line, ends = decode.lines[0], {"tokens_per_second_per_user": (0.8, 1.25), "dollars": (0.8, 1.25)}
    assert line.band is not None
    # Slower points are more expensive.
    assert line.band.x[0] > line.x[0] > line.band.other_x[0]
    assert line.band.y[0] < line.y[0] < line.band.other_y[0]
    np.testing.assert_allclose(np.array(line.band.x) * line.band.y, np.array(line.x) * line.y, rtol=1e-9)
    more = present(bands.around_curve([10.0], [3.0], ends, "dollars", cost=False))
    assert [*more.x, *more.y, *more.other_x, *more.other_y] == pytest.approx([12.5, 3.75, 8.0, 2.4])


def test_edges_of_a_band_are_what_the_best_of_the_moved_points_reaches() -> None:
    """The second point has less error than its neighbors: its pessimistic end is faster than that of the third."""
    slow, fast = np.array([0.8, 1.0, 0.5]), np.array([1.2, 1.0, 1.2])
    ends: bounds.Ends = {"tokens_per_second_per_user": (slow, fast), "dollars": (1.0 / fast, 1.0 / slow)}
    band = present(bands.around_curve([10.0, 20.0, 30.0], [1.0, 2.0, 3.0], ends, "dollars"))
    assert band.x == [12.0, 20.0, 36.0]
    assert band.y == pytest.approx([1 / 1.2, 2.0, 2.5])
    assert (band.other_x, band.other_y) == ([8.0, 15.0, 20.0], [1.25, 2.0, 2.0])


def test_there_is_no_band_where_nobody_knows_errors() -> None:
    unknown: bounds.Ends = {"tokens_per_second_per_user": (None, None), "dollars": (None, None)}
    assert bands.around_curve([1.0], [1.0], unknown, "dollars") is None
    assert bands.around_line([1.0], [1.0], (None, None)) is None
    (chart,) = frontier_charts(
        asking.frontier("llama_3_70b", "h200_sxm", ie.Traffic(context=500), max_accelerators=8, assumptions="ideal")
    )
    assert chart.lines[0].band is None
    assert len(chart.lines) == 2


#: Metrics that measured servers have, too.
MEASURED_METRICS: list[Metric] = [name for name in METRICS if name not in ("gpus", "mfu", "joules")]


@pytest.mark.parametrize("metric", MEASURED_METRICS)
def test_services_are_held_against_measured_servers_in_every_metric(services: ServiceFrontier, metric: Metric) -> None:
    cost, waits = frontier_charts(services, metric)
    assert cost.lines[0].band is not None
    assert MEASURED in labels(cost)
    assert labels(waits) == ["TTFT of its points"]
    scale = 1e3 if metric == "power" else 1.0
    near = [line for line in cost.lines if line.beside]
    values = np.concatenate([line.y for line in near])
    assert np.median(values) == pytest.approx(np.median(services.metric(metric)) / scale, rel=3.0)


def test_a_server_as_fast_as_a_point_has_its_metric(services: ServiceFrontier) -> None:
    from inference_econ.report.speed_cost import SimilarServer, measured_metric

    last = len(services) - 1
    server = SimilarServer("", "", 1.0, float(services.tokens_per_second_per_accelerator[last]))
    for metric in MEASURED_METRICS:
        assert measured_metric(services, metric, server) == pytest.approx(float(services.metric(metric)[last]))


def test_decode_steps_are_held_against_their_speed_in_every_metric() -> None:
    asked = ie.Traffic(isl=1000, osl=200)
    front = asking.frontier("llama_3_8b", "h100_sxm", asked, max_accelerators=2)
    points = front.points()
    by_hand = {
        "cost": [point.dollars_per_million_output_tokens for point in points],
        "throughput": [p.batch * p.tokens_per_second_per_user / p.accelerators for p in points],
        "power": [p.batch * p.tokens_per_second_per_user / p.accelerators / (1.2 * 1.4) for p in points],
        "gpus": [point.accelerators for point in points],
        "mfu": [100.0 * point.mfu for point in points],
    }
    for name in METRICS:
        if name in by_hand:
            line = frontier_charts(front, name)[0].lines[0]
            np.testing.assert_allclose(line.y, by_hand[name], err_msg=name)
    drawn = front.metric("joules") * by_hand["throughput"]
    assert np.all((drawn > 226.0) & (drawn <= 700.0 * (1 + 1e-9)))
    with pytest.raises(ie.InputError, match="y: got 'blended', which applies to services; allowed: cost, throughput"):
        front.metric("blended")
