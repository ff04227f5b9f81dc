"""Page of prefix caching by tier: table, data and chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inference_econ.answers.deployments.service_record import layout_of
from inference_econ.answers.prefix_cache import Offloading, Routing, curve, reuse
from inference_econ.records.texts import dollars, layout_label, words
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import heading, subject_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import milliseconds

#: Routing policies as words.
_ROUTED = words("routing")
#: Prefix lengths of the chart [tokens].
_LENGTHS = 2.0 ** np.arange(4.0, 17.5, 0.5)


class PrefixCachePage(AnswerPage[Offloading]):
    """Page of a repeated prefix."""

    def tables(self) -> Sequence[Table]:
        """Table with one row for recomputing, then one per tier."""
        return (offload_table(self.answer),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of time against prefix length."""
        title = heading("Prefix cache", [self.answer.service.setup], [])
        names = {"computed": "computed again"}
        plot = Plot(
            f"Is a prefix quicker read again than computed again?\n{title}",
            f"tokens of the prefix, before {self.answer.new_tokens:,.0f} new ones",
            "seconds until it is there",
            tuple(
                # A time of 0 has no place on a logarithmic axis.
                PlotSeries(names.get(name, f"read from {name}"), list(_LENGTHS), np.where(y > 0, y, np.nan).tolist())
                for name, y in curve(self.answer, _LENGTHS).items()
            ),
        )
        return {"prefix": charts.line_chart(plot)}

    def question(self) -> str:
        """Question about whether a cache is faster."""
        subject = subject_label(self.answer.service.setup)
        return f"Is a repeated prefix of {subject} better read from a cache than computed again?"

    def conclusion(self) -> Pieces:
        """Sentence on the times of recomputing and of reading from each tier."""
        answer = self.answer
        read = " and ".join(
            f"{milliseconds(reading.seconds)} ms from {reading.tier}" for reading in answer.readings[1:]
        )
        reading = f", reading them {read}" if read else ""
        computing = (
            f"Computing its {answer.prefix_tokens:,.0f} tokens takes {milliseconds(answer.computing_seconds)} ms"
        )
        return (f"{computing} of an instance{reading}.",)


def offload_table(offloading: Offloading) -> Table:
    """Table of recomputing a prefix, then of reading it from each tier."""
    service, conversation = offloading.service, offloading.conversation
    notes = [
        f"{service.accelerators} x {service.setup.hardware.name}, {layout_label(layout_of(service))}, "
        f"{offloading.requests_per_second:.3g} requests/s per instance. Prefix {offloading.prefix_tokens:,.0f} tokens "
        f"({offloading.bytes_per_prefix / 1e6:,.0f} MB of KV cache), then {offloading.new_tokens:,.0f} new tokens."
    ]
    if conversation is not None and conversation.replicas > 1:
        other: Routing = "prefix_aware" if conversation.routing == "round_robin" else "round_robin"
        room, per_token = offloading.readings[0].capacity_bytes, offloading.bytes_per_token
        present, otherwise = (
            reuse(replace(conversation, routing=way), offloading.requests_per_second, room, per_token).hit_rate
            for way in (conversation.routing, other)
        )
        notes.append(
            f"{conversation.replicas} instances, {_ROUTED[conversation.routing]}: {100 * present:.1f}% of prompt "
            f"tokens hit in HBM, {100 * otherwise:.1f}% if {_ROUTED[other]}. Each instance has its own tiers."
        )
    seconds = offloading.keeping_seconds
    sizes = ((3600.0, "hours"), (60.0, "minutes"))
    size, unit = next(((size, unit) for size, unit in sizes if seconds >= 2 * size), (1.0, "seconds"))
    why = [
        "$/M tokens: upper limit for reading, if the GPUs wait for it. GB of HBM: what weights and running requests "
        "leave free.",
        "Quicker from: prefix length from which reading is faster than recomputing. Busy: share of the bandwidth of "
        "the tier, if all requests read from it.",
        f"In HBM a million cached tokens cost ${dollars(offloading.holding_dollars_per_million_hour)} per hour. After "
        f"{seconds / size:.1f} {unit}, recomputing the prefix is cheaper. "
        f"Assumptions: {service.setup.assumptions.name}.",
    ]
    if conversation is not None:
        system = f" after a system prompt of {conversation.system_tokens:g}" if conversation.system_tokens else ""
        why.append(
            f"Conversations: {conversation.turns:g} turns of {conversation.user_tokens:g} tokens and answers of "
            f"{conversation.answer_tokens:g}{system}, {conversation.think_seconds:g} s apart, kept for "
            f"{conversation.lifetime_seconds:g} s if there is room. Needs GB: memory for that. Kept: lifetime of "
            "entries under LRU eviction. Hit: prompt tokens found."
        )
    if offloading.traffic is not None:
        why.append(
            f"Hit: prompt tokens of {offloading.traffic} found in this tier and in no tier before it, simulated per "
            "block with LRU eviction."
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
