"""Frontiers of services as tables, data and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inference_econ.answers.any_layout import Saving
from inference_econ.answers.serving_frontier import Metric, ServiceFrontier
from inference_econ.report import caveats
from inference_econ.report.page import Block, Page, Sketch
from inference_econ.report.record import HEAD, facts
from inference_econ.report.service import SERVED, cached_label, milliseconds
from inference_econ.report.startable import saving_note, startable_notes, with_engines, with_notes
from inference_econ.report.table import Table, dollars, layout_label, size
from inference_econ.studies.exhibits import Chart, Line

if TYPE_CHECKING:
    import pandas as pd

#: What a metric is called: in a table, and on an axis.
NAMES: dict[Metric, tuple[str, str]] = {
    "cost": ("$/M tokens", "US dollars per million tokens, input and output"),
    "throughput": ("tok/s per GPU", "output tokens per second per GPU"),
    "power": ("tok/s per MW", "output tokens/s per megawatt"),
}


@dataclass(frozen=True)
class ServingFrontierPage(Page):
    """A frontier of services, ready to be shown.

    Attributes
    ----------
    front : ServiceFrontier
        The answer.
    y : str
        What is held against speed.
    saving : Saving or None
        Of any layout, what it saves over those that can be started.
    """

    front: ServiceFrontier
    y: Metric
    saving: Saving | None = None

    def tables(self) -> Sequence[Table]:
        """Some points."""
        return (with_notes(service_frontier_table(self.front, self.y), saving_note(self.saving)),)

    def record(self) -> object:
        """Every point."""
        record = service_frontier_record(self.front)
        return record if self.saving is None else {**record, "any_layout": self.saving._asdict()}

    def frame(self) -> pd.DataFrame:
        """Every point."""
        return service_frontier_frame(self.front)

    def blocks(self) -> Sequence[Block]:
        """The table, and the frontier drawn with characters."""
        speed, metric = self.front.tokens_per_second_per_user.tolist(), self.front.metric(self.y).tolist()
        return (*self.tables(), Sketch(speed, metric, "tokens/s per user", NAMES[self.y][0]))

    def draw(self, path: str) -> None:
        """Draw what is held against speed, and the time to first token."""
        from inference_econ.report import figures

        figures.draw_charts(service_frontier_charts(self.front, self.y), path, service_frontier_title(self.front))


def layout_of(front: ServiceFrontier, index: int) -> dict[str, float | str]:
    """The degrees of a point, under the names that people use."""
    setup = front.deployments.setup
    return setup.layout_record(front.plan(index), setup.assumptions.layout.tensor_layouts[0])


def service_frontier_table(front: ServiceFrontier, y: Metric, rows: int = 14) -> Table:
    """A frontier for people: some points, evenly spaced in speed.

    Parameters
    ----------
    front : ServiceFrontier
        The frontier.
    y : str
        What is held against speed.
    rows : int
        Points to show at most [1].

    Raises
    ------
    InputError
        If the hardware file has no watts, and power is asked for.
    """
    speed, metric = front.tokens_per_second_per_user, front.metric(y)
    wanted = np.linspace(speed[0], speed[-1], rows)
    shown = sorted({int(np.argmin(np.abs(speed - value))) for value in wanted})
    columns = ["tokens/s per user", NAMES[y][0], "$/M output", "TTFT ms", "TPOT ms", "GPUs", "layout", "in flight"]
    lines = [
        (
            f"{speed[index]:.1f}",
            dollars(float(metric[index])) if y == "cost" else f"{metric[index]:,.0f}",
            dollars(float(front.dollars_per_million_output_tokens[index])),
            milliseconds(float(front.ttft_seconds[index])),
            milliseconds(float(front.tpot_seconds[index])),
            size(float(front.plans.accelerators[index])),
            layout_label(layout_of(front, index)),
            f"{front.concurrency[index]:.1f}",
        )
        for index in shown
    ]
    notes = (
        f"{len(shown)} of {len(front)} points. Continuous batching with so many requests in flight all the time; the "
        "prefill of others is in TTFT and TPOT, a queue is not: see 'inference-econ load'. Assumptions: "
        f"{front.deployments.setup.assumptions.name}.",
        *startable_notes([front.deployments.setup]),
        *caveats.remarks(front.subjects(shown), SERVED),
    )
    table = Table(service_frontier_title(front), tuple(columns), tuple(lines), notes)
    return with_engines(table, [layout_of(front, index) for index in shown], [front.deployments.setup])


def service_frontier_title(front: ServiceFrontier) -> str:
    """Model, hardware, lengths and formats in one line."""
    setup, requests = front.deployments.setup, front.deployments.requests
    cached, speculation = cached_label(requests), front.deployments.speculation
    proposer = "" if speculation is None else f"; {speculation.label}"
    return (
        f"{setup.model.name} on {setup.hardware.name}: {requests.isl.mean:g} input tokens{cached}, "
        f"{requests.osl.mean:g} output tokens, weights {setup.precision.weights}, KV {setup.precision.kv}, "
        f"{setup.price_label}{proposer}"
    )


def service_frontier_record(front: ServiceFrontier) -> dict[str, object]:
    """A frontier as plain data, the fastest point last; null where the hardware file has no watts."""
    (instances,) = front.subjects()
    columns = front.bounded_columns()
    return {
        **facts(
            front.deployments.setup,
            *(*HEAD, "weights", "expert_weights", "activations", "kv", "isl", "osl", "cached", "shared_prefix"),
            requests=front.deployments.requests,
        ),
        "dollars_per_accelerator_hour": front.deployments.setup.dollars_per_accelerator_hour,
        "calibration": caveats.calibration_record(instances, SERVED),
        "points": [
            {
                **{name: None if values is None else float(values[index]) for name, values in columns.items()},
                "layout": layout_of(front, index),
            }
            for index in range(len(front))
        ],
    }


def service_frontier_frame(front: ServiceFrontier) -> pd.DataFrame:
    """Every point, one row each."""
    frame = front.to_frame()
    layouts = [layout_of(front, index) for index in range(len(front))]
    frame["layout"] = [layout_label(layout) for layout in layouts]
    return frame.assign(engine=[layout["engine"] for layout in layouts]) if "engine" in layouts[0] else frame


def service_frontier_charts(front: ServiceFrontier, y: Metric) -> list[Chart]:
    """What is held against speed, and the time to first token of the same points."""
    speed, metric = front.tokens_per_second_per_user.tolist(), front.metric(y)
    label = NAMES[y][1]
    if y == "power":
        metric, label = metric / 1e3, f"thousand {label}"
    line = Line("frontier", speed, metric.tolist())
    waits = Line("time to first token of its points", speed, (1e3 * front.ttft_seconds).tolist(), points=True)
    x_label = "tokens per second per user"
    return [
        Chart(label, x_label, label, (line,), "y" if y == "cost" else ""),
        Chart("time to first token", x_label, "milliseconds", (waits,), "y"),
    ]
