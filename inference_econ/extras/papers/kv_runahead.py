"""Prefill chains (KV-Runahead) compared with all-gather context parallelism, and with published times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.extras.papers import runahead_formulas as formulas
from inference_econ.extras.papers.runahead_formulas import LayerWork, ProcessRates
from inference_econ.extras.papers.study_kinds import ChainAsk, RunaheadAsk
from inference_econ.formulas.attention import grouped_query_flop
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
_HEADS: Mapping[str, str] = {**{name: f"{title} s" for name, title in METHODS.items()}, "speedup": "speed-up"}
_PARTS = "searched parts %"
_METHODS_NOTE = (
    "In a chain, the parts of the prompt have equal length ('even'), optimized length ('searched'), or a length that "
    "is interpolated from optimized lengths for {} tokens. 'speed-up': searched parts compared with the all-gather."
)
#: Upper limit of small errors, and lower limit of large errors [%].
_NEAR, _FAR = 10, 25
#: Points per line [1].
_POINTS = 17


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

    def table(self, contexts: tuple[int, ...]) -> CellTable:
        """Table of predicted and published times for each prompt length."""
        rows, published = [], {row.context: row for row in self.chain.printed}
        several = self.chain.processes > 1
        names = ("all_gather", "searched", "speedup", "even", "interpolated", "one_process") if several else METHODS
        for context in contexts:
            ours = self.seconds(context)
            if several:
                ours["speedup"] = ours["all_gather"] / ours["searched"]
            shown = {name: _HEADS[name] for name in names if name in ours}
            texts = {head: getattr(published.get(context), name, None) for name, head in shown.items()}
            printed = {head: text for head, text in texts.items() if text is not None}
            shares = 100.0 * self.partitions(context)["searched"] / context if several else ()
            parts = [" ".join(f"{share:.0f}" for share in shares)] * several
            values: tuple[float | str, ...] = (*(ours[name] for name in shown), *parts)
            rows.append(CellRow((context,), values, printed))
        columns, title = (*shown.values(), *([_PARTS] * several)), f"{self.chain.label}: time to the first token"
        return CellTable(title, ("prompt",), columns, tuple(rows), errors=True, subject=self.chain.label)


def _chart(players: Sequence[_Player], contexts: tuple[int, ...]) -> Chart:
    """Chart of speedups of chains over all-gathers by prompt length, with published points."""
    prompts = [float(prompt) for prompt in np.geomspace(contexts[0], contexts[-1], _POINTS)]
    lines = []
    for player in players:
        label, times = player.chain.label, [player.seconds(prompt) for prompt in prompts]
        lines.append(ChartLine(label, prompts, [time["all_gather"] / time["searched"] for time in times]))
        points = {float(row.context): float(row.speedup) for row in player.chain.printed if row.speedup}
        if points:
            lines.append(ChartLine(f"{label}, published", [*points], [*points.values()], points=True, beside=label))
    link = f"{(players[0].chain.link or 0.0) / 1e9:g} GB/s"
    return Chart(f"Links of {link}", "prompt (tokens)", f"speedup over all-gather at {link}", tuple(lines), "x")


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


def _summaries(chains: Sequence[ChainAsk], tables: list[CellTable]) -> list[str]:
    """Sentences on errors against published values, in total and by section. Each table gets a note on its errors."""
    sections: dict[str, list[float]] = {}
    for index, (chain, table) in enumerate(zip(chains, tables, strict=True)):
        some = [100.0 * (cell.ours / float(cell.printed) - 1.0) for cell in table.cells("")]
        sections.setdefault(chain.section, []).extend(map(abs, some))
        if some:
            middle = median(map(abs, some))
            text = f"Predictions are {min(some):+z.0f} to {max(some):+z.0f} % off (median {middle:.0f} %)."
            tables[index] = replace(table, notes=(text,))
    sizes = [size for some in sections.values() for size in some]
    by_section = [_met(f"section {section}", some) for section, some in sections.items() if section and some]
    return [_met("all sections", sizes), *by_section] if sizes else []


def _met(where: str, sizes: list[float]) -> str:
    """Sentence on the number of small errors, and on the size of all errors [%]."""
    near, far = sum(size <= _NEAR for size in sizes), sum(size > _FAR for size in sizes)
    return (
        f"In {where}, {near} of {len(sizes)} predictions are within {_NEAR} % of the published values, and {far} are "
        f"off by more than {_FAR} %. The median error is {median(sizes):.0f} %."
    )


def answer_kv_runahead(run: ScenarioRun, ask: RunaheadAsk) -> Result:
    """Run a scenario of this kind."""
    # Compare prefill chains with context parallelism by all-gather.
    models = {chain.model: catalog.model(chain.model) for chain in ask.chains}
    players = [_Player(ask, chain, models[chain.model]) for chain in ask.chains]
    tables = [player.table(ask.contexts) for player in players]
    summaries, methods = _summaries(ask.chains, tables), _METHODS_NOTE.format(", ".join(map(str, ask.lookup)))
    tables[0] = replace(tables[0], notes=(*summaries, *tables[0].notes, methods, *ask.notes))
    links = dict.fromkeys(chain.link for chain in ask.chains if chain.link is not None)
    charts = (_chart([player for player in players if player.chain.link == link], ask.contexts) for link in links)
    return run.compared(Compared(tuple(tables), tuple(charts), tuple(models.values())), partial(spec_sources, "model"))
