"""Methods to prefill one prompt on several chips, as tables, data and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from inference_econ.extras.papers.prefill import WAYS, PrefillWays, SharedPrompt, Stages
from inference_econ.extras.papers.prompt_processes import Way
from inference_econ.records.texts import amount, dollars
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import Column, view
from inference_econ.report.headings import heading
from inference_econ.report.notes import setup_warnings, unit_notes, warnings
from inference_econ.report.page import AnswerPage, Pieces, Table

#: Cell of a method that is not possible.
_NONE = "-"


class PrefillPage(AnswerPage[PrefillWays]):
    """Page that compares methods to prefill prompts."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Tables of times by method, link traffic, and cost if the chip has a price."""
        ways = self.answer
        links = _columns(ways, "GB (%)", lambda row, name: _moved(row.ways.get(name)))
        parts = [row.ways["chain"].parts if "chain" in row.ways else () for row in ways.rows]
        shares = [
            " ".join(f"{100 * part / row.prompt:.0f}" for part in of_row) or _NONE
            for row, of_row in zip(ways.rows, parts, strict=True)
        ]
        links.append(("parts of the chain %", shares))
        why = (
            "Cells have the GB that all GPUs send in total, with ring algorithms. The percentage in parentheses is the "
            "share of the TTFT that infinitely fast links would save.",
        )
        least = ("sequence GB (%)", "even chain GB (%)")
        tables = [times_table(ways), view("Data sent over links", (), links, why=why, least=least)]
        if ways.setup.price is None:
            return tables

        def priced(way: Way | None, stages: Stages) -> str:
            cost = None if way is None else ways.dollars(way, stages)
            return _NONE if cost is None else dollars(1e3 * cost)

        columns = _columns(ways, "$", lambda row, name: priced(row.ways.get(name), row.stages))
        process = "one GPU" if ways.process_chips == 1 else f"{ways.process_chips} GPUs"
        alone = [priced(ways.alone.get(row.prompt), ways.one_process) for row in ways.rows]
        columns.append((f"on {process} $", alone))
        why = (
            "Costs include all GPUs from the start to the first token, also replicas of a chain that finish "
            "earlier and are idle.",
        )
        least = ("sequence $", "even chain $")
        return [*tables, view("Dollars per 1,000 prompts", (), columns, why=why, least=least)]

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of speedup over prompt length, or over chips for a single prompt."""
        asked = f"How much faster is one prompt on several GPUs?\n{title(self.answer)}"
        return {"prefill": charts.line_charts(speed_up_plots(self.answer), asked)}

    def question(self) -> str:
        """Title of the page."""
        return f"How do several GPUs prefill one prompt of {self.answer.setup.model.name} fastest?"

    def conclusion(self) -> Pieces:
        """Sentence with the fastest method for each prompt and number of chips."""
        fastest = [
            f"{row.prompt:,} tokens on {_name(self.answer, row)}: {WAYS[way]}, in {_ms(row.ways[way])} ms"
            for row in self.answer.rows
            if row.ways
            for way in [row.fastest]
        ]
        return (f"{'; '.join(fastest)}.",) if fastest else ()


def title(ways: PrefillWays) -> str:
    """Heading with prompts, model and chips."""
    prompts = "One prompt" if ways.batch == 1 else f"{ways.batch} prompts in one batch"
    after = f" after {ways.cached:,.10g} cached tokens" if ways.cached else ""
    return heading(f"{prompts}{after}, without other load", ways.setups, [])


def _name(ways: PrefillWays, row: SharedPrompt) -> str:
    return f"{row.ranks} GPUs" if ways.alike(row) else row.chips


def times_table(ways: PrefillWays) -> Table:
    """Table of TTFT by method, one row per prompt and number of chips."""
    ratios = [ways.speed_up(row, row.fastest) if row.ways else None for row in ways.rows]
    columns = [
        *_columns(ways, "ms", lambda row, name: _ms(row.ways.get(name))),
        ("fastest", [WAYS[row.fastest] if row.ways else _NONE for row in ways.rows]),
        ("speed-up", [_NONE if ratio is None else f"{ratio:.2f}" for ratio in ratios]),
    ]
    # Methods that are not possible, by reason.
    reasons: dict[str, dict[str, None]] = {}
    for row in ways.rows:
        for name, reason in row.missing.items():
            of_prompt = row.prompt not in ways.alone and name not in ("tensor", "sequence")
            case = f"{row.prompt:,} tokens" if of_prompt else _name(ways, row)
            reasons.setdefault(f"{case}, {{}}: {reason}.", {})[_SHORT[name]] = None
    notes = [text.format(", ".join(names)) for text, names in reasons.items()]
    size = ways.process_chips
    if ways.alone:
        process = "one GPU" if size == 1 else f"one process of {size} GPUs"
        alone = ", ".join(f"{prompt} tokens: {amount(1e3 * way.seconds)} ms" for prompt, way in ways.alone.items())
        notes.append(f"'speed-up': fastest way compared with {process} ({alone}).")
    notes += [*warnings(ways.subjects()), *setup_warnings(replace(ways.setup, context=ways.longest))]
    why = (
        f"Assumptions: {ways.setup.assumptions.name}. Each prompt is prefilled in one step, without chunks.",
        "'tensor' and 'sequence' shard every matrix over all GPUs. 'gathered', 'ring' and 'chain' split the prompt "
        "among "
        f"replicas of the model on {size} GPU{'s' if size > 1 else ''} each.",
        "'sequence': tensor parallelism with reduce-scatter and all-gather instead of all-reduce, so that each GPU "
        "computes the norms of its own tokens.",
        "'gathered' (context parallelism): each layer all-gathers the KV cache before its attention. 'ring': the KV "
        "cache "
        "passes from replica to replica during attention. Each replica has tokens from both ends of the prompt, so all "
        "replicas have equal work.",
        "'chain' (KV-Runahead): each replica sends its KV cache to the next one, layer by layer. 'even chain': the "
        "parts "
        "of the prompt have equal length.",
        "TTFT has no interval, because it was only measured under load and with tensor parallelism. No known engine "
        "has "
        "'chain'.",
        *unit_notes(ways.setup),
    )
    least = ("sequence ms", "gathered ms", "even chain ms")
    return view(title(ways), (), columns, notes=notes, why=why, least=least)


def _moved(way: Way | None) -> str:
    return _NONE if way is None else f"{amount(way.moved_bytes / 1e9)} ({_linked_percent(way)})"


def _linked_percent(way: Way) -> str:
    return f"{100 * way.linked_seconds / way.seconds:z.0f}"


def _columns(ways: PrefillWays, unit: str, cell: Callable[[SharedPrompt, str], str]) -> list[Column]:
    """Columns of prompts, chips, and a quantity of every method."""
    return [
        ("prompt", [f"{row.prompt}" for row in ways.rows]),
        ("GPUs", [(f"{row.ranks}" if ways.alike(row) else row.chips) for row in ways.rows]),
        *((f"{text} {unit}", [cell(row, name) for row in ways.rows]) for name, text in _SHORT.items()),
    ]


#: Column headings of the prefill methods.
_SHORT = {name: "even chain" if name == "even" else name for name in WAYS}


def _ms(way: Way | None) -> str:
    return _NONE if way is None else amount(1e3 * way.seconds)


def speed_up_plots(ways: PrefillWays) -> list[Plot]:
    """Plots of speedup by method: over prompt length for each number of chips, or over the number of chips."""
    alike = [row for row in ways.rows if ways.alike(row)]
    if alike and len({row.prompt for row in ways.rows}) == 1:
        return [_plot(f"{ways.rows[0].prompt} tokens", "GPUs", {row.ranks: row for row in alike}, ways)]
    names = dict.fromkeys(_name(ways, row) for row in sorted(ways.rows, key=lambda row: row.ranks))
    return [
        _plot(name, "prompt (tokens)", {row.prompt: row for row in ways.rows if _name(ways, row) == name}, ways)
        for name in names
    ]


def _plot(name: str, x_label: str, rows: Mapping[int, SharedPrompt], ways: PrefillWays) -> Plot:
    lines = []
    for key, text in WAYS.items():
        points = {x: row for x, row in rows.items() if key in row.ways and row.prompt in ways.alone}
        if points:
            drawn = [row.ways[key] for row in points.values()]
            speed_ups = [ways.speed_up(row, key) for row in points.values()]
            details: dict[str, Sequence[float | str]] = {
                "TTFT ms": [_ms(way) for way in drawn],
                "GB over links": [amount(way.moved_bytes / 1e9) for way in drawn],
                "due to links %": [_linked_percent(way) for way in drawn],
            }
            y = [speed_up for speed_up in speed_ups if speed_up is not None]
            lines.append(PlotSeries(text, [float(x) for x in points], y, details=details))
    process = "one GPU" if ways.process_chips == 1 else f"one process of {ways.process_chips} GPUs"
    return Plot(name, x_label, f"speed-up over {process}", tuple(lines), "x")
