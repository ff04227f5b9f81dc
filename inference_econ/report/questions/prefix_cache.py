"""Page that compares recomputing a prefix with reading it from each cache tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.prefix_cache import Offloading, Routing, curve, reuse
from inference_econ.records.texts import dollars, layout_label, words
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import heading
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Table

#: Routing policies as words.
_ROUTED = words("routing")
#: Prefix lengths of the chart [tokens].
_LENGTHS = 2.0 ** np.arange(4.0, 17.5, 0.5)


class PrefixCachePage(AnswerPage[Offloading]):
    """Page that compares recomputing a repeated prefix with reading it from each cache tier."""

    def tables(self) -> Sequence[Table]:
        """Table with a first row for recomputing the prefix, and one further row per cache tier."""
        return (offload_table(self.answer),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the times to recompute and to read a prefix, against prefix length."""
        title = heading("Prefix cache", [self.answer.service.setup], [])
        names = {"computed": "computed again"}
        plot = Plot(
            f"Is reading a prefix from a cache faster than recomputing it?\n{title}",
            f"tokens of the prefix, before {self.answer.new_tokens:,.0f} new ones",
            "seconds",
            tuple(
                # A logarithmic axis cannot show a time of 0.
                PlotSeries(names.get(name, f"read from {name}"), list(_LENGTHS), np.where(y > 0, y, np.nan).tolist())
                for name, y in curve(self.answer, _LENGTHS).items()
            ),
        )
        return {"prefix": charts.line_chart(plot)}


def offload_table(offloading: Offloading) -> Table:
    """Create a table whose first row is for recomputing the prefix, and each further row for reading it from a tier."""
    service, conversation = offloading.service, offloading.conversation
    notes = [
        f"{service.accelerators} x {service.setup.hardware.name}, {layout_label(layout_of(service))}, "
        f"{offloading.requests_per_second:.3g} requests/s per instance. A prompt has a repeated prefix of "
        f"{offloading.prefix_tokens:,.0f} tokens ({offloading.bytes_per_prefix / 1e6:,.0f} MB of KV cache) and "
        f"{offloading.new_tokens:,.0f} new tokens.",
        "The cost of computing is the GPU time in steps full of prompts. 'ms' is the longer time of a single prompt.",
    ]
    if conversation is not None and conversation.replicas > 1:
        other: Routing = "prefix_aware" if conversation.routing == "round_robin" else "round_robin"
        room, per_token = offloading.readings[0].capacity_bytes, offloading.bytes_per_token
        present, otherwise = (
            reuse(replace(conversation, routing=way), offloading.requests_per_second, room, per_token).hit_rate
            for way in (conversation.routing, other)
        )
        notes.append(
            f"With {conversation.replicas} instances, {_ROUTED[conversation.routing]}, {100 * present:.1f}% of prompt "
            f"tokens hit the cache in HBM ({_ROUTED[other]}: {100 * otherwise:.1f}%). Instances do not share caches."
        )
    seconds = offloading.keeping_seconds
    sizes = ((3600.0, "hours"), (60.0, "minutes"))
    size, unit = next(((size, unit) for size, unit in sizes if seconds >= 2 * size), (1.0, "seconds"))
    why = [
        "'$/M tokens' of a tier is an upper limit, which assumes that the GPUs wait for the read. 'GB' of HBM: memory "
        "that weights and running requests leave free.",
        "'quicker from': prefix length in tokens from which reading is faster than recomputing. 'util. %': share of "
        "the tier's bandwidth that is used if all requests read from it.",
        f"A million cached tokens in HBM cost ${dollars(offloading.holding_dollars_per_million_hour)} per hour. If a "
        f"prefix is reused after more than {seconds / size:.1f} {unit}, recomputing it is cheaper. "
        f"Assumptions: {service.setup.assumptions.name}.",
    ]
    if conversation is not None:
        system = f" after a system prompt of {conversation.system_tokens:g}" if conversation.system_tokens else ""
        why.append(
            f"Conversations have {conversation.turns:g} turns of {conversation.user_tokens:g} input and "
            f"{conversation.answer_tokens:g} output tokens{system}. Turns are {conversation.think_seconds:g} s apart. "
            f"'needs GB': memory that holds every entry for {conversation.lifetime_seconds:g} s. 'kept': time until "
            "LRU eviction of an entry. 'hit %': share of prompt tokens that hit the cache."
        )
    if offloading.traffic is not None:
        why.append(
            f"'hit %': share of the {offloading.traffic} workload's prompt tokens that hit this tier but no faster "
            "tier. Cache blocks are simulated with LRU eviction."
        )
    return view(
        heading("Prefix cache", [service.setup], []),
        offloading.records(),
        (
            *("tier", "bytes_per_second", "capacity_bytes", "seconds", "dollars_per_million_tokens", "ttft_seconds"),
            *("break_even_tokens", "utilization"),
            *(() if conversation is None else ("needed_bytes", "kept_seconds")),
            *(() if offloading.readings[0].hit_rate is None else ("hit_rate",)),
        ),
        kind="tier",
        notes=[*notes, *doubts([service.setup], offloading.subjects())],
        why=[*why, *grounds([service.setup], offloading.subjects(), ("ttft",))],
        least=("kept_seconds", "needed_bytes", "bytes_per_second", "utilization"),
    )
