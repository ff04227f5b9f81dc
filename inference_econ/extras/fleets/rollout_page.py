"""Rollouts and batch generation as a table, data and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.deployments.serving_options import practice_of
from inference_econ.engine import Instances
from inference_econ.extras.fleets.rollout import Rollout, RolloutRun
from inference_econ.records.texts import amount, assumptions_label, dollars, layout_label
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import heading, lengths_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import fleet_label, started, with_engines, with_recipes

#: Deployments in the chart [1].
_DRAWN = 3


class RolloutPage(AnswerPage[Rollout]):
    """Page of deployments that generate batches."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per deployment."""
        runs, setups = self.answer.runs, self.setups()
        columns = (
            *(("hardware",) if len({setup.hardware.name for setup in setups}) > 1 else ()),
            *(("schedule",) if self.answer.learner else ()), "replicas", "layout",
            *(("learner_gpus", "generation_seconds", "learning_seconds") if self.answer.learner else ()),
            "batch_seconds", "output_tokens_per_second", "busy_share", "tail_share", "hours_per_1000_trajectories",
            "dollars_per_1000_trajectories",
        )  # fmt: skip
        # Error notes refer to the mean concurrency.
        subjects = [
            Instances(
                service.setup, [float(service.accelerators)],
                [float(run.generation.curve.in_flight.mean()) / run.instances],
                service.requests.isl.mean, service.requests.osl.mean, speculates=service.speculation is not None,
            )
            for run in runs
            for service in [run.service]
        ]  # fmt: skip
        batch = self.answer.batch
        answers = batch.drawn.left
        cut = "" if batch.max_tokens is None else f", cut at {batch.max_tokens:,}"
        notes, why = list[str](), list[str]()
        why.append(
            f"Outputs have {answers.mean():,.0f} tokens on average, and at most {answers.max():,}{cut}. 'util. %': "
            "mean "
            "throughput divided by maximum throughput. 'tail %': share of time with fewer than half of the maximum "
            "concurrent trajectories."
        )
        if batch.finished < 1.0:
            notes.append(
                f"A batch ends when {100 * batch.finished:g}% of its trajectories are complete. The next batch "
                "recomputes the KV cache of the others and completes them."
            )
        learner = self.answer.learner
        if learner is not None:
            why.append(
                f"Learning takes {learner.terms.flop_per_parameter_and_token:g} FLOP per active parameter and token, "
                f"at {100 * learner.terms.mfu:g}% of the 16-bit peak. With the schedule one_step_off, learning from a "
                "batch overlaps with generation of the next batch. With asynchronous, each finished trajectory is "
                "replaced at once."
            )
            if len(self.answer.runs) == len({run.chip for run in self.answer.runs}):
                notes.append(
                    f"No GPUs are left for the learner, which needs {learner.fewest}. Give more --gpus or smaller "
                    "instances (--tp)."
                )
        if any(run.service.speculation for run in self.answer.runs):
            notes.append(
                "Training changes the model, so the acceptance of draft tokens may fall below this prediction."
            )
        table = view(
            self._title(),
            self.answer.records(),
            columns,
            kind="rollout_run",
            notes=(*notes, *doubts(setups, subjects)),
            why=(
                *why,
                "Requests are simulated. Samples of one prompt share its cache blocks. For each instance size, the "
                "table has the layout that is fastest by the analytical model.",
                f"Assumptions: {assumptions_label(setups)}.",
                *grounds(setups, subjects, ("tpot",)),
            ),
            least=(
                *("generation_seconds", "learning_seconds", "replicas"),
                *("output_tokens_per_second", "hours_per_1000_trajectories"),
            ),
        )
        table = with_engines(table, [layout_of(run.service) for run in runs], setups)
        return (with_recipes(table, [practice_of(run.service.setup, run.service.speculation) for run in runs]),)

    def _title(self) -> str:
        batch = self.answer.batch
        setups = list({setup.hardware.name: setup for setup in self.setups()}.values())
        counted = f"{batch.prompts:,} prompts x {batch.samples} on {self.answer.runs[0].accelerators} GPUs"
        proposers = [run.service.speculation for run in self.answer.runs]
        return heading(counted, setups, [lengths_label(batch.requests)], speculations=proposers)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of concurrency and throughput over the time of a batch."""
        runs = self.answer.runs[:_DRAWN]
        several = len({run.service.setup.hardware.name for run in runs}) > 1
        shown = {}
        for run in runs:
            layout, chip = layout_of(run.service), run.service.setup.hardware.name.split()
            on = f" on {chip[1]}" if several else ""
            shown[f"{_way(run)}{run.instances} x {layout_label(layout)}{on}{started(layout)}"] = run.generation.curve
        plots = []
        for title, unit, of in (
            ("Concurrent trajectories", "trajectories", "in_flight"),
            ("Throughput", "tokens/s", "tokens_per_second"),
        ):
            lines = (PlotSeries(name, list(curve.seconds), list(getattr(curve, of))) for name, curve in shown.items())
            plots.append(Plot(title, "seconds", unit, tuple(lines), "", from_zero=True))
        return {"rollout": charts.line_charts(plots, f"{self.question()}\n{self._title()}")}

    def question(self) -> str:
        """Title of the page."""
        best = self.answer.runs[0]
        return f"What do 1,000 trajectories of {best.service.setup.model.name} cost, and how long do they take?"

    def conclusion(self) -> Pieces:
        """Sentence on the cheapest deployment."""
        best = self.answer.runs[0]
        beside = "" if best.learner_gpus in (0, best.accelerators) else f" with {best.learner_gpus} learner GPUs"
        return (
            f"{_way(best)}{fleet_label(best.service, best.instances)}{beside}: $", dollars(best.dollars),
            f" and {amount(best.hours)} h per 1,000 trajectories; "
            f"the tail takes {100 * best.generation.curve.tail_share:.0f} % of the generation time.",
        )  # fmt: skip


def _way(run: RolloutRun) -> str:
    return "" if run.way == "generation" else f"{run.way.replace('_', ' ')}: "
