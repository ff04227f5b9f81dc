"""Sessions of agents or users of a traffic, their means, and how many of them send requests at a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, SessionSpec, catalog
from inference_econ.inputs.catalog import Name
from inference_econ.serving import Services, Session, Usual, draw_sessions, usual


@dataclass(frozen=True)
class AgentSessions:
    """Sessions that agents or users play, one after the other; see :class:`inference_econ.Agents`."""

    name: str
    spec: SessionSpec
    place: str = ""

    @classmethod
    def of(cls, traffic: Name) -> Self:
        """Return those of a traffic with sessions, by name or path (``--traffic``).

        Raises
        ------
        InputError
            If it is unknown, or has no sessions.
        """
        sessions = catalog.traffic(traffic).sessions
        if sessions is None:
            raise InputError(
                f"{traffic} has no sessions that agents could play; name coding_agent, chat, rag or batch, or a file "
                "with sessions"
            )
        return cls(str(traffic), sessions, catalog.place("traffic", traffic, ("sessions",)))

    @cached_property
    def drawn(self) -> tuple[Session, ...]:
        """Sessions that stand for all."""
        return draw_sessions(self.spec)

    @cached_property
    def means(self) -> Usual:
        """Means over their turns."""
        return usual(self.drawn, self.spec.shared_tokens)

    @property
    def requests(self) -> Requests:
        """The mean turn, with all in the cache that was there before; layouts are offered for it."""
        isl, osl, known = (
            round(float(np.mean(tokens))) for tokens in (self.means.prompts, self.means.answers, self.means.known)
        )
        # Few sessions are drawn of short ones: what most of them do not reach follows from their lengths.
        longest = max(self.longest, math.ceil(self.spec.longest_context))
        return Requests(isl, osl, cached=min(known, isl - 1), longest_turn=longest)

    @property
    def longest(self) -> int:
        """Prompt and answer of the longest turn of all that are drawn [tokens]."""
        return int(np.max(self.means.prompts + self.means.answers))

    def check(self, layouts: Services) -> None:
        """Refuse contexts that a model was not made for, and layouts that were offered for other requests.

        Raises
        ------
        InputError
            Beginning with the place of the sessions in their file.
        """
        most = layouts.setup.model.max_context
        if most is not None and self.longest > most:
            shipped = self.name in catalog.names("traffic")
            start = (
                f"write {self.name} to a file ('inference-econ traffic {self.name} -o mine.yaml'), " if shipped else ""
            )
            end = ", and name the file in its place (--traffic mine.yaml)" if shipped else ""
            raise InputError(
                f"{'' if shipped else f'{self.place or self.name}: '}sessions of {self.name} grow to {self.longest:,} "
                f"tokens, beyond the {most:,} that {layouts.setup.model.name} was made for; {start}give 'compacts_at: "
                f"{most}' or less, or fewer and shorter turns{end}",
                option="traffic",
            )
        if layouts.requests != self.requests:
            raise InputError(
                f"these layouts are offered for other requests than those of {self.name}; offer them for the requests "
                "of the agents (agents.requests)"
            )

    def agents(self, requests_per_second: Array | float, in_flight: Array | float) -> Array:
        """Sessions under way that send requests at a rate [1/s] while so many are in flight, by Little's law [1]."""
        waiting = requests_per_second * self.means.pause_seconds
        return np.asarray((waiting + in_flight) / self.means.side_by_side)

    def all_agents(self, requests_per_second: Array | float, in_flight: Array | float) -> Array:
        """Agents who send requests at a rate [1/s] while so many are in flight, those between two sessions too [1]."""
        resting = requests_per_second * self.spec.rest / self.means.turns
        return np.asarray(self.agents(requests_per_second, in_flight) + resting)

    def sending(self, requests_per_second: float, ttft_seconds: float, tpot_seconds: float) -> int:
        """Agents that send requests at a rate [1/s] where answers take such times [s], those that rest included [1]."""
        in_flight = requests_per_second * (ttft_seconds + tpot_seconds * float(np.mean(self.means.answers) - 1.0))
        return max(round(float(self.all_agents(requests_per_second, in_flight))), 1)
