"""Deployments that answers choose, as they are started and held to account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated_record import fleet_record
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.benchmark import OfferedLoad
from inference_econ.answers.launching.plan import Part, Start
from inference_econ.answers.offer import offer
from inference_econ.answers.price import Sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.record import targets_record
from inference_econ.answers.service_record import bounded_load, layout_of
from inference_econ.engine import Setup, Space, Speculation, instance_pins
from inference_econ.inputs import Requests
from inference_econ.report.chosen import expected_under_load
from inference_econ.serving import Loaded, Service

#: Degrees of a layout by name, and how many instances have it.
Pool = tuple[Mapping[str, Any], int]
#: Degrees that decide a layout.
_DEGREES = ("tp", "pp", "dp", "ep")


def start_of_sheet(sheet: Sheet, targets: Targets, pick: str) -> Start:
    """The fleet that a bill is of, under its load."""
    if sheet.fleet is not None:
        return start_of_fleet(sheet.fleet, targets, pick)
    return start_of_instances(sheet.service, sheet.replicas, sheet.load, targets, pick)


def start_of_instances(service: Service, replicas: int, load: Loaded, targets: Targets, pick: str) -> Start:
    """Equal instances that prefill and decode, with the load of one of them."""
    record = bounded_load(service, load, replicas, targets)
    expected = expected_under_load(record, targets_record(targets), service.requests.osl.mean)
    return Start([Part(service, replicas)], _offered(load, replicas), expected, pick)


def start_of_fleet(fleet: Fleet, targets: Targets, pick: str) -> Start:
    """Pools that prefill and decode apart, under their load."""
    pools, count = fleet.pools, fleet.decode_instances
    reading = layout_of(pools.prefill.services.service(fleet.prefill)), fleet.prefill_instances
    writing = layout_of(pools.decode.services.service(fleet.decode)), count
    record = fleet_record(fleet, targets)
    expected = expected_under_load(record, targets_record(targets), pools.requests.osl.mean)
    parts = parts_of_pools(pools, reading, writing, fleet.load.in_flight / count, fleet.slots)
    return Start(parts, _offered(fleet.load, 1), expected, pick)


def _offered(load: Loaded, replicas: int) -> OfferedLoad:
    return OfferedLoad(load.requests_per_second * replicas, arrival_scv=load.arrivals.among(1.0 / replicas).scv)


def parts_of_pools(
    pools: Pools, reading: Pool, writing: Pool, in_flight: float, slots: int | None = None
) -> list[Part]:
    """Both pools as services of whole requests, which engines are told of.

    Parameters
    ----------
    pools : Pools
        What competed.
    reading, writing : (mapping, int)
        Layouts and numbers of instances that prefill and that decode.
    in_flight : float
        Requests under way in an instance that decodes [1]; both pools propose as many tokens as is best with them.
    slots : int, optional
        The most of them [1]; by default as many as its memory holds.
    """
    decode, requests, proposing = pools.decode.setup, pools.requests, pools.decode.services.speculation
    if proposing is not None:
        proposing = plan.priced_drafts(_service(decode, requests, writing[0], proposing), in_flight)
    return [
        Part(_service(pools.prefill.setup, requests, reading[0], proposing), reading[1], "prefill"),
        Part(_service(decode, requests, writing[0], proposing), writing[1], "decode", slots),
    ]


def _service(setup: Setup, requests: Requests, layout: Mapping[str, Any], speculation: Speculation | None) -> Service:
    pins = instance_pins({name: layout.get(name) for name in _DEGREES}, dcp=layout.get("dcp"))
    return offer(setup, requests, Space(pins), speculation).service(0)
