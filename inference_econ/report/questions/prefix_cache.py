"""Prefix caches on their tiers, as a table, as data and as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inference_econ.answers.deployments.service_record import layout_of
from inference_econ.answers.notes import doubts, grounds, heading, subject_label
from inference_econ.answers.prefix_cache import Conversation, Offloading, Routing, curve, reuse
from inference_econ.records.texts import dollars, layout_label, words
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import milliseconds

#: Where turns go, in words.
_ROUTED = words("routing")
#: Lengths that a chart shows [tokens].
_LENGTHS = 2.0 ** np.arange(4.0, 17.5, 0.5)


class PrefixCachePage(AnswerPage[Offloading]):
    """A repeated prefix, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """Computing the prefix again, then every tier."""
        return (offload_table(self.answer),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Seconds against the length of the prefix."""
        return {"prefix": charts.line_chart(offload_chart(self.answer))}

    def question(self) -> str:
        """Question about whether a cache is quicker."""
        subject = subject_label(self.answer.service.setup)
        return f"Is a repeated prefix of {subject} better read from a cache than computed again?"

    def conclusion(self) -> Pieces:
        """Seconds of computing the prefix and of reading it from every tier."""
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
    """Computing a prefix again, then reading it from every tier."""
    service = offloading.service
    notes = [
        f"{service.accelerators} x {service.setup.hardware.name}, {layout_label(layout_of(service))}, at "
        f"{offloading.requests_per_second:.3g} requests/s per instance. A prompt repeats "
        f"{offloading.prefix_tokens:,.0f} tokens ({offloading.bytes_per_prefix / 1e6:,.0f} MB of cache) before "
        f"{offloading.new_tokens:,.0f} new ones.",
        *_routing(offloading),
        *doubts([service.setup], offloading.subjects()),
    ]
    why = [
        "$/M tokens of reading: at most, if its chips wait for it; GB of HBM: what weights and running requests "
        "leave. Quicker from: tokens of prefix from which reading takes less time than computing. Busy: share of "
        "what the tier delivers, if all requests read from it.",
        f"In HBM a million tokens cost ${dollars(offloading.holding_dollars_per_million_hour)} per hour of the room "
        f"for caches: after {_time(offloading.keeping_seconds)} it would have been cheaper to compute the prefix "
        f"again. Assumptions: {service.setup.assumptions.name}.",
        *([] if offloading.conversation is None else [_conversation(offloading.conversation)]),
        *([] if offloading.traffic is None else [_played(offloading.traffic)]),
        *grounds([service.setup], offloading.subjects(), ("ttft",)),
    ]
    columns = (
        "tier", "bytes_per_second", "capacity_bytes", "seconds", "dollars_per_million_tokens", "ttft_seconds",
        "break_even_tokens", "utilization",
        *(() if offloading.conversation is None else ("needed_bytes", "kept_seconds")),
        *(() if offloading.readings[0].hit_rate is None else ("hit_rate",)),
    )  # fmt: skip
    least = ("kept_seconds", "needed_bytes", "bytes_per_second", "utilization")
    return view(_title(offloading), offloading.records(), columns, kind="tier", notes=notes, why=why, least=least)


def _conversation(conversation: Conversation) -> str:
    system = f" after a system prompt of {conversation.system_tokens:g}" if conversation.system_tokens else ""
    return (
        f"{conversation.turns:g} turns of {conversation.user_tokens:g} tokens and answers of "
        f"{conversation.answer_tokens:g}{system}, {conversation.think_seconds:g} s between them, kept for "
        f"{conversation.lifetime_seconds:g} s where there is room. Needs GB: the room for "
        "that; kept: how long entries stay if the least recently used go first; hit: prompt tokens found."
    )


def _played(traffic: str) -> str:
    return (
        f"Hit: prompt tokens of {traffic} found there and in no tier before it, turns played block by block; what was "
        "used least recently goes first."
    )


def _routing(offloading: Offloading) -> list[str]:
    """Sentence on how turns reach replicas, and on what the other way would find in HBM; none of a single instance."""
    conversation = offloading.conversation
    if conversation is None or conversation.replicas == 1:
        return []
    other: Routing = "prefix_aware" if conversation.routing == "round_robin" else "round_robin"
    present, otherwise = (
        reuse(
            replace(conversation, routing=way), offloading.requests_per_second, offloading.readings[0].capacity_bytes,
            offloading.bytes_per_token,
        ).hit_rate
        for way in (conversation.routing, other)
    )  # fmt: skip
    return [
        f"{conversation.replicas} instances share the requests, {_ROUTED[conversation.routing]}: of prompts "
        f"{100 * present:.1f} % are found in HBM; {_ROUTED[other]} {100 * otherwise:.1f} %. Tiers are those of each "
        "instance."
    ]


def _title(offloading: Offloading) -> str:
    return heading("Prefix cache", [offloading.service.setup], [])


def _time(seconds: float) -> str:
    for size, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} seconds"


def offload_chart(offloading: Offloading) -> Plot:
    """Seconds against the length of the prefix."""
    lines = curve(offloading, _LENGTHS)
    names = {"computed": "computed again"}
    return Plot(
        f"Is a prefix quicker read again than computed again?\n{_title(offloading)}",
        f"tokens of the prefix, before {offloading.new_tokens:,.0f} new ones",
        "seconds until it is there",
        tuple(PlotSeries(names.get(name, f"read from {name}"), list(_LENGTHS), list(y)) for name, y in lines.items()),
    )
