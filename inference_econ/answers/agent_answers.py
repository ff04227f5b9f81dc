"""Fleets of agents as answers: what agents make of them, and what a task, an hour of an agent and a token cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.deployment import Deployment
from inference_econ.answers.load import LoadCurve, LoadPoint
from inference_econ.answers.means import Means
from inference_econ.answers.price import Sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import Recommendation
from inference_econ.engine import Setup, chip_power
from inference_econ.serving import Router, Trace


@dataclass(frozen=True, slots=True)
class Use:
    """Use that agents make of a fleet.

    Attributes
    ----------
    work : AgentSessions
        What they do.
    agents : float
        How many there are [1].
    instances : int
        Instances that were played together, with their share of the agents [1].
    router : str
        Where turns go.
    trace : Trace
        What their requests saw.
    rest_seconds : float
        Between two sessions of an agent [s].
    """

    work: AgentSessions
    agents: float
    instances: int
    router: Router
    trace: Trace
    rest_seconds: float

    def record(self, fleet: Deployment, replicas: int) -> dict[str, Any]:
        """Return their tasks and what these cost on some instances, as plain data."""
        trace, turns = self.trace, self.work.means.turns
        hourly = 3600.0 * trace.requests_per_second * replicas / self.instances / turns
        dollars, watts = fleet.dollars_per_hour, _watts(fleet.service.setup, fleet.accelerators)
        return {
            "traffic": self.work.name,
            "router": self.router,
            "agents": self.agents,
            "agents_per_accelerator": self.agents / fleet.accelerators,
            "agents_per_megawatt": None if watts is None else 1e6 * self.agents / watts,
            "requests_per_task": turns,
            "tasks_per_hour": hourly,
            "task_seconds": 3600.0 * self.agents / hourly - self.rest_seconds,
            "dollars_per_task": dollars / hourly,
            "dollars_per_agent_hour": dollars / self.agents,
            "hit_rate": sum(trace.hit_rates.values()),
            "hit_rates": dict(trace.hit_rates),
        }


def _watts(setup: Setup, accelerators: float) -> float | None:
    """Power that a facility provisions for some chips [W]; None where their file has none."""
    power = chip_power(setup.hardware)
    return None if power is None else accelerators * power.provisioned_watts


@dataclass(frozen=True, slots=True)
class AgentPoint(LoadPoint):
    """A fleet with some agents.

    Attributes
    ----------
    use : Use
        The agents.
    """

    use: Use

    def record(self, targets: Targets) -> dict[str, object]:
        """Return it as plain data, with the use that agents make of it."""
        return {
            **super(AgentPoint, self).record(targets),
            "agent_use": self.use.record(self.sheet, self.sheet.replicas),
        }


@dataclass(frozen=True, slots=True, repr=False)
class AgentCurve(LoadCurve):
    """A fleet with more and more agents: a :class:`~inference_econ.answers.load.LoadCurve` of :class:`AgentPoint`."""

    page = "report.agents:AgentCurvePage"

    points: tuple[AgentPoint, ...]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data: arrivals follow from the agents."""
        return {**super(AgentCurve, self).record(), "arrival_scv": None}


@dataclass(frozen=True, slots=True)
class AgentDeployment(Deployment):
    """A deployment that serves some agents within SLOs.

    Attributes
    ----------
    use : Use
        The agents.
    parts : int
        Instances, or groups of instances of both pools, of which :attr:`Use.instances` were simulated together [1].
    """

    use: Use = field(kw_only=True)
    parts: int = field(kw_only=True)

    def served_record(self, targets: Targets) -> dict[str, object]:
        """Return the instances, their bill and their load as plain data, with the use that agents make of them."""
        return {**super(AgentDeployment, self).served_record(targets), "agent_use": use_record(self)}


@dataclass(frozen=True, slots=True, repr=False)
class AgentRecommendation(Recommendation):
    """Deployments that carry some agents, the cheapest first."""

    page = "report.agents:AgentChoicesPage"

    choices: tuple[AgentDeployment, ...]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        return {"targets": self.targets.record(), "choices": self.records(), "first_is_cheaper": None}


@dataclass(frozen=True, slots=True, repr=False)
class MostAgents(AgentRecommendation):
    """Deployments that carry the most agents with some means, the best first.

    Attributes
    ----------
    means : Means
        Chips, money or power, for one kind of chip.
    """

    means: Means

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        return {"means": self.means.record(), "targets": self.targets.record(), "choices": self.records()}


@dataclass(frozen=True, slots=True, repr=False)
class AgentSheet(Sheet):
    """The bill of a fleet of agents: tasks and hours of agents beside kinds of tokens.

    Attributes
    ----------
    use : Use
        The agents.
    parts : int
        See :attr:`AgentDeployment.parts` [1].
    """

    page = "report.agents:AgentSheetPage"

    use: Use = field(kw_only=True)
    parts: int = field(kw_only=True)

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        return {**super(AgentSheet, self).record(), "agent_use": use_record(self)}


def use_record(fleet: AgentDeployment | AgentSheet) -> dict[str, Any]:
    """Return the use that agents make of a fleet, as plain data."""
    return fleet.use.record(fleet, fleet.parts)
