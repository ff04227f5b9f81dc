"""Prefill chains compared with all-gather, and with published times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.extras.papers.study_kinds import ChainAsk, RunaheadAsk
from inference_econ.formulas import kv_runahead as formulas
from inference_econ.formulas.attention import grouped_query_flop
from inference_econ.formulas.kv_runahead import LayerWork, ProcessRates
from inference_econ.inputs import BYTES_PER_ELEMENT, ModelSpec, catalog
from inference_econ.records.sources import spec_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Names of prefill methods, by field of published values.
METHODS: Mapping[str, str] = {
    "one_process": "one process",
    "all_gather": "all-gather",
    "even": "even parts",
    "searched": "searched parts",
    "interpolated": "interpolated parts",
}
#: Largest small error, and smallest large error [%].
_NEAR, _FAR = 10, 25
#: Points per line [1].
_POINTS = 17


def compare_kv_runahead(ask: RunaheadAsk) -> Compared:
    """Compare prefill chains with context parallelism by all-gather.

    Parameters
    ----------
    ask : RunaheadAsk
        Chains, prompts and assumptions.

    Returns
    -------
    Compared
        Times to first token.

    Raises
    ------
    InputError
        If layers are not all grouped-query attention with a dense feed-forward block.
    """
    models = {chain.model: catalog.model(chain.model) for chain in ask.chains}
    players = [_Player(ask, chain, models[chain.model]) for chain in ask.chains]
    times = {(player.chain.label, context): player.seconds(context) for player in players for context in ask.contexts}
    # Published values with predictions.
    columns = ("TTFT s", "speed-up")
    rows = []
    for chain in ask.chains:
        for row in chain.printed:
            ours = times[chain.label, row.context]
            for name in ("one_process", "all_gather", "searched"):
                texts = (getattr(row, name), row.speedup if name == "searched" else None)
                printed = {column: text for column, text in zip(columns, texts, strict=True) if text is not None}
                if printed:
                    values = (ours[name], _speedup(ours) if columns[1] in printed else "")
                    rows.append(CellRow((chain.label, row.context, METHODS[name]), values, printed))
    names = ("processes", "prompt", "method")
    notes = (*_summaries(ask, columns, rows), *ask.notes)
    tables = (
        CellTable("Published times to the first token", names, columns, tuple(rows), notes, errors=True),
        _by_method(ask, players, times),
    )
    charts = tuple(player.chart(ask.contexts) for player in players if player.chain.processes > 1)
    return Compared(tables, charts, tuple(models.values()))


class _Player:
    """Prefill chain, with its look-up table of partitions."""

    def __init__(self, ask: RunaheadAsk, chain: ChainAsk, model: ModelSpec) -> None:
        self.chain = chain
        self.work = layer_work(model, BYTES_PER_ELEMENT[ask.kv])
        link = float("inf") if chain.link is None else chain.link
        self.machine = ProcessRates(ask.matmul, ask.attention, ask.overhead, link, ask.latency)
        self.lookup = ask.lookup
        self.known = np.array([self._searched(context) for context in ask.lookup])

    def _searched(self, context: float) -> Array:
        return formulas.searched_partition(self.work, self.machine, context, self.chain.processes)

    def partitions(self, context: float) -> dict[str, Array]:
        """Partitions of a prompt by method [tokens]."""
        return {
            "even": formulas.even_partition(context, self.chain.processes),
            "searched": self._searched(context),
            "interpolated": formulas.interpolated_partition(self.lookup, self.known, context),
        }

    def seconds(self, context: float) -> dict[str, float]:
        """Time to first token by method [s]."""
        alone = {"one_process": float(formulas.single_seconds(self.work, self.machine, context))}
        if self.chain.processes == 1:
            return alone
        gathered = formulas.all_gather_seconds(self.work, self.machine, context, self.chain.processes)
        chained = {
            name: float(formulas.chain_seconds(self.work, self.machine, parts))
            for name, parts in self.partitions(context).items()
        }
        return {**alone, "all_gather": float(gathered), **chained}

    def chart(self, contexts: tuple[int, ...]) -> Chart:
        """Chart of times over prompt length, with published points."""
        prompts = [float(prompt) for prompt in np.geomspace(contexts[0], contexts[-1], _POINTS)]
        times = [self.seconds(prompt) for prompt in prompts]
        lines = [ChartLine(title, prompts, [time[name] for time in times]) for name, title in METHODS.items()]
        for name in ("all_gather", "searched"):
            points = {row.context: float(text) for row in self.chain.printed if (text := getattr(row, name))}
            if points:
                label = f"published, {METHODS[name]}"
                lines.append(ChartLine(label, list(points), list(points.values()), points=True))
        return Chart(self.chain.label, "prompt (tokens)", "time to first token (s)", tuple(lines))


def layer_work(model: ModelSpec, bytes_per_element: float) -> LayerWork:
    """FLOP and cache bytes of a layer of a model.

    Raises
    ------
    InputError
        If layers differ, or are not grouped-query attention with a dense feed-forward block.
    """
    block = model.blocks[0]
    attention, feed_forward = block.attention, block.feed_forward
    if len(model.blocks) > 1 or attention.kind != "grouped_query" or feed_forward.kind != "dense":
        kinds = ", ".join(f"{other.attention.kind} with {other.feed_forward.kind}" for other in model.blocks)
        raise InputError(
            f"a kv_runahead needs a model whose layers all are grouped_query attention with a dense feed-forward "
            f"block; {model.name} has {kinds}"
        )
    queries, keys = attention.query_heads * attention.head_dim, attention.kv_heads * attention.head_dim
    matrices = (feed_forward.input_matrices + feed_forward.output_matrices) * feed_forward.intermediate_size
    return LayerWork(
        layers=model.layers,
        projection_flop=2.0 * model.hidden_size * (queries + 2 * keys),
        other_flop=2.0 * model.hidden_size * (queries + matrices),
        pair_flop=grouped_query_flop(attention.query_heads, attention.head_dim),
        kv_bytes=2 * keys * bytes_per_element,
    )


Times = Mapping[tuple[str, int], Mapping[str, float]]


def _speedup(times: Mapping[str, float]) -> float:
    return times["all_gather"] / times["searched"]


def _summaries(ask: RunaheadAsk, columns: tuple[str, ...], rows: list[CellRow]) -> list[str]:
    """Sentences on the distance from published values, by chain, by section and in total."""
    errors: dict[str, list[float]] = {}
    sections: dict[str, list[float]] = {}
    of = {chain.label: chain.section for chain in ask.chains}
    for row in rows:
        for column, value in zip(columns, row.values, strict=True):
            if column in row.printed and not isinstance(value, str):
                error = 100.0 * (value / float(row.printed[column]) - 1.0)
                errors.setdefault(str(row.names[0]), []).append(error)
                sections.setdefault(of[str(row.names[0])], []).append(abs(error))
    texts = [
        f"{label}: ours are {min(some):+z.0f} to {max(some):+z.0f} % off, {median(map(abs, some)):.0f} % in the median."
        for label, some in errors.items()
    ]
    texts += [_met(f"section {section}", sizes) for section, sizes in sections.items() if section]
    sizes = [size for some in sections.values() for size in some]
    return [*texts, _met("all sections", sizes)] if sizes else texts


def _met(where: str, sizes: list[float]) -> str:
    """Sentence on the number of small errors, and on the sizes of all errors [%]."""
    near, far = sum(size <= _NEAR for size in sizes), sum(size > _FAR for size in sizes)
    return (
        f"Of {where}, {near} of {len(sizes)} published values are met within {_NEAR} %, and {far} are off by more than "
        f"{_FAR} %; the median is {median(sizes):.0f} %."
    )


def _by_method(ask: RunaheadAsk, players: list[_Player], times: Times) -> CellTable:
    """Table of times of all methods, and of the optimized partitions."""
    rows = []
    for player in players:
        for context in ask.contexts:
            ours = times[player.chain.label, context]
            several = player.chain.processes > 1
            shares = 100.0 * player.partitions(context)["searched"] / context if several else np.zeros(0)
            rows.append(
                CellRow(
                    (player.chain.label, context),
                    (
                        *(ours.get(name, "") for name in METHODS),
                        _speedup(ours) if several else "",
                        " ".join(f"{share:.0f}" for share in shares),
                    ),
                )
            )
    columns = (*(f"{title} s" for title in METHODS.values()), "speed-up", "searched parts %")
    note = (
        "Even, searched and interpolated parts are those of a chain; the speed-up is that of searched parts over the "
        f"all-gather. Parts are interpolated between those searched for {', '.join(map(str, ask.lookup))} tokens."
    )
    return CellTable("Time to the first token by method", ("processes", "prompt"), columns, tuple(rows), (note,))


def answer_kv_runahead(run: ScenarioRun, ask: RunaheadAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_kv_runahead(ask), partial(spec_sources, "model"))
