"""Deployments that answers choose, or chose when they were saved: which they are, their load, and what is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.fleet_record import fleet_record
from inference_econ.answers.deployments.service_record import bounded_load, layout_of
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.instance import Role
from inference_econ.answers.launching.plan import Expected, Measure, OfferedLoad, PlanPart, Scaling, Start
from inference_econ.answers.layout_services import offer
from inference_econ.answers.prefix_cache import HBM
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup, Space, Speculation, instance_pins, key_degrees
from inference_econ.errors import InputError
from inference_econ.inputs import Requests
from inference_econ.records.saved import SavedAnswer, of_command, read_json
from inference_econ.serving import Loaded, Service

Record = Mapping[str, Any]
#: Options that offload caches of prompts, for people.
_OFFLOADING = "see --kv-offloading-size of vLLM, --enable-hierarchical-cache of SGLang, host_cache_size of TensorRT-LLM"
_LATENCIES: tuple[Measure, ...] = ("ttft", "tpot", "e2e")
_HOW = "write one with 'inference-econ recommend ... -o answer.json' (or frontier)"


@dataclass(frozen=True, slots=True)
class ChosenPart:
    """Some equal instances of a chosen deployment, in the words of the answer.

    Attributes
    ----------
    hardware : str
        Name of the chip.
    layout : mapping
        Its degrees.
    replicas : int
        How many instances there are [1].
    role : str
        What they do.
    practice : mapping
        The engine (``engine``), the format of the cache (``kv``) and who proposes tokens (``speculation``) of a recipe
        that the answer chose; empty where the question says all.
    slots : int or None
        Requests under way in each at most [1]; None for as many as its memory holds.

    Raises
    ------
    ValueError
        If there are no instances.
    """

    hardware: str
    layout: Record
    replicas: int
    role: Role = "both"
    practice: Record = field(default_factory=dict)
    slots: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no answer has."""
        for count, of in ((self.replicas, "instances"), (1 if self.slots is None else self.slots, "slots")):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{count!r} {of}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen deployment.

    Attributes
    ----------
    parts : sequence of ChosenPart
        Its instances, of each kind.
    load : OfferedLoad
        The load of all of them that was predicted.
    expected : sequence of Expected
        What was predicted under it.
    in_flight : float
        Requests under way in all instances that give answers [1].
    scaling : Scaling or None
        How many of its instances there are over a day, of an answer about one.
    remarks : sequence of str
        What else whoever starts it must know.
    """

    parts: Sequence[ChosenPart]
    load: OfferedLoad
    expected: Sequence[Expected]
    in_flight: float
    scaling: Scaling | None = None
    remarks: Sequence[str] = ()


def read(path: str) -> SavedAnswer:
    """Read an answer of the command line that says which deployment to start.

    Raises
    ------
    InputError
        If the file cannot be read, is no answer of this program or one of another release, or starts nothing.
    """
    return startable(read_json(path, _HOW), path)


def startable(record: object, origin: str) -> SavedAnswer:
    """Answer of a record that says which deployment to start; see :func:`read` for the errors."""
    saved = of_command(record, origin, _HOW)
    if saved.kind not in _DEPLOYMENTS:
        raise InputError(f"{origin}: an answer of {saved.kind!r} starts nothing; {_HOW}")
    return saved


def chosen(saved: SavedAnswer, number: int | None = None) -> Chosen:
    """Deployment of an answer with a number, counted from 1.

    Raises
    ------
    InputError
        If there is no such number, or the answer has no deployment.
    """
    try:
        return _DEPLOYMENTS[saved.kind](saved, number)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(mistake(saved, error)) from error


def mistake(saved: SavedAnswer, error: Exception) -> str:
    """Message on what an answer that somebody has changed lacks, or has in the place of something else."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return f"{saved.origin}: not what {saved.kind} writes ({reason}); {_HOW}"


def _entry(entries: Sequence[Record], number: int | None, origin: str) -> Record:
    if number is None and len(entries) > 1:
        raise InputError(
            f"{origin}: {len(entries)} deployments; name one with --choice 1 to {len(entries)}", option="choice"
        )
    index = (number or 1) - 1
    if not 0 <= index < len(entries):
        raise InputError(f"{origin}: --choice {number}: there are {len(entries)}", option="choice")
    return entries[index]


def _recommended(saved: SavedAnswer, number: int | None) -> Chosen:
    choice = _entry(saved.record["choices"], number or 1, saved.origin)
    practice = _practice(choice, choice["layout"])
    expected = expected_under_load(choice, saved.record["targets"], choice["osl"])
    use, apart = choice.get("agent_use"), choice.get("serving") == "apart"
    remarks = () if use is None else agents_said(use, choice["prefill_instances" if apart else "replicas"])
    if apart:
        parts = _pools(choice, (choice.get("prefill_hardware", choice["hardware"]), choice["hardware"]), practice)
        return Chosen(parts, _rate(saved, choice), expected, choice["in_flight"], remarks=remarks)
    part = ChosenPart(choice["hardware"], choice["layout"], choice["replicas"], practice=practice)
    in_flight = choice["in_flight_per_instance"] * choice["replicas"]
    return Chosen((part,), _rate(saved, choice), expected, in_flight, remarks=remarks)


def agents_said(use: Record, replicas: int) -> tuple[str, ...]:
    """Remarks for whoever starts a deployment of agents: its router, memories behind HBM, the limits of a run.

    Of pools the instances are those that read prompts.
    """
    behind = ", ".join(name for name in use["hit_rates"] if name != HBM)
    return (
        f"predicted of {use['agents']:,.0f} agents ({use['traffic']}), who find {100 * use['hit_rate']:.0f} % of their "
        "prompts in caches; the load generator sends their mean turn at their rate, its known part the same in all",
        *((f"put a router before the {replicas} instances: {use['router']} was played",) if replicas > 1 else ()),
        *((f"predicted with {behind} behind HBM, which is not started here: {_OFFLOADING}",) if behind else ()),
    )


def _practice(entry: Record, layout: Record) -> Record:
    """Engine, cache and proposer of an entry."""
    return {"engine": layout.get("engine"), "kv": entry.get("kv"), "speculation": entry.get("speculation")}


def _pools(entry: Record, chips: tuple[str, str], practice: Record) -> tuple[ChosenPart, ChosenPart]:
    """Both pools of an entry."""
    refuse_chain("chain" in entry["prefill_layout"])
    decoders = entry["decode_instances"]
    return (
        ChosenPart(chips[0], entry["prefill_layout"], entry["prefill_instances"], "prefill", practice),
        ChosenPart(chips[1], entry["decode_layout"], decoders, "decode", practice, entry["decode_slots"]),
    )


def refuse_chain(chained: bool) -> None:
    """Refuse to start pools whose prompts are read by chains."""
    if chained:
        raise InputError("no engine that is known reads prompts in a chain; ask again without --prefill-chain")


def _on_frontier(saved: SavedAnswer, number: int | None) -> Chosen:
    if "isl" not in saved.record:
        raise InputError(f"{saved.origin}: decode steps alone start nothing, as nobody reads prompts; {_HOW}")
    point = _entry(saved.record["points"], number, saved.origin)
    practice = _practice(point, point["layout"])
    parts: tuple[ChosenPart, ...] = (ChosenPart(saved.record["hardware"], point["layout"], 1, practice=practice),)
    decoders = 1
    if "prefill" in point["layout"]:
        layout = point["layout"]
        refuse_chain("chain" in layout["prefill"])
        decoders = round(layout["decode_instances"])
        reading = key_degrees(layout["prefill"])
        prefill_chip = layout.get("prefill_hardware", saved.record["hardware"])
        parts = (
            ChosenPart(prefill_chip, reading, round(layout["prefill_instances"]), "prefill", practice),
            ChosenPart(saved.record["hardware"], layout, decoders, "decode", practice),
        )
    load = OfferedLoad(concurrency=max(1, round(point["concurrency"])))
    return Chosen(parts, load, expected_in_flight(point), decoders * point["batch"])


def _of_a_day(saved: SavedAnswer, number: int | None) -> Chosen:
    """Replicas of one lot of a mixture under the load that they carry, and how an autoscaler changes their number."""
    record = saved.record
    lot = _entry(record["lots"], number, saved.origin)
    limits, seconds, part = lot["scaling"], record["autoscaler"], lot["replicas"]
    if not limits["most"]:
        raise InputError(
            f"{saved.origin}: the autoscaled fleet has no replica of choice {number or 1}", option="choice"
        )
    scaling = Scaling(
        limits["fewest"],
        limits["most"],
        "in_flight" if record["policy"] == "in_flight" else "rate",
        _finite(limits["per_replica"]),
        _finite(limits["held_before"]),
        _finite(seconds["polling_seconds"]),
        _finite(seconds["scale_down_seconds"]),
        _finite(lot["dollars_per_hour"]) / part,
        str(lot["paid"]),
    )
    parts = (ChosenPart(lot["hardware"], lot["layout"], part, practice=_practice(lot, lot["layout"])),)
    expected = expected_under_load(lot, record["targets"], lot["osl"])
    return Chosen(parts, _rate(saved, lot), expected, lot["in_flight_per_instance"] * part, scaling)


#: The deployments of an answer, by the command that gave it.
_DEPLOYMENTS: Mapping[str, Callable[[SavedAnswer, int | None], Chosen]] = {
    "recommend": _recommended,
    "frontier": _on_frontier,
    "fleet": _of_a_day,
}


def _rate(saved: SavedAnswer, entry: Record) -> OfferedLoad:
    return OfferedLoad(_finite(entry["request_rate"]), arrival_scv=_finite(saved.options["arrival_scv"]))


def expected_in_flight(point: Record) -> tuple[Expected, ...]:
    """Mean latencies and output tokens per second of a service with a constant number of requests in flight."""
    latencies = [_expected(name, "mean", point, key) for name in _LATENCIES if (key := f"{name}_seconds") in point]
    throughput = _expected("throughput", "mean", point, "tokens_per_second_per_accelerator", point["accelerators"])
    return (*latencies, throughput)


def expected_under_load(entry: Record, targets: Record, osl: float, usual: str = "p50") -> tuple[Expected, ...]:
    """Latencies of the usual statistic and of the one that is promised, and output tokens per second."""
    latencies = [
        _expected(name, statistic, entry, f"{name}_seconds", promised=_promise(targets, name, statistic))
        for name in _LATENCIES
        for statistic in dict.fromkeys((usual, targets.get(f"{name}_percentile", usual)))
        # Of disaggregated pools, under too much load, and in older answers, not every latency is known.
        if entry.get(f"{name}_seconds", {}).get(statistic) is not None
    ]
    return (*latencies, Expected("throughput", "mean", _finite(entry["completed_requests_per_second"] * osl)))


def _promise(targets: Record, name: str, statistic: str) -> float | None:
    promise = targets.get(f"{name}_seconds") if statistic == targets.get(f"{name}_percentile") else None
    return None if promise is None else _finite(promise)


def _finite(value: Any) -> float:
    """A number of an answer.

    Raises
    ------
    TypeError, ValueError
        If it is none.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number:g} is no number of an answer")
    return number


def _expected(
    measure: Measure, statistic: str, entry: Record, key: str, factor: float = 1.0, promised: float | None = None
) -> Expected:
    """A number of an entry with its ends, in base units."""
    values = [entry[key], entry.get(f"{key}_low"), entry.get(f"{key}_high")]
    value, low, high = (item[statistic] if isinstance(item, dict) else item for item in values)
    ends = [None if end is None else _finite(end) * factor for end in (low, high)]
    return Expected(measure, statistic, _finite(value) * factor, ends[0], ends[1], promised)


#: Degrees of a layout by name, and how many instances have it.
Pool = tuple[Mapping[str, Any], int]
#: Degrees that decide a layout.
_DEGREES = ("tp", "pp", "dp", "ep")


def start_of(deployed: Deployment, targets: Targets, pick: str) -> Start:
    """A deployment under its load."""
    if deployed.fleet is not None:
        return start_of_fleet(deployed.fleet, targets, pick)
    service, load, replicas = deployed.service, deployed.load, deployed.replicas
    record = bounded_load(service, load, replicas, targets)
    expected = expected_under_load(record, targets.record(), service.requests.osl.mean)
    return Start([PlanPart(service, replicas)], _offered(load, replicas), expected, pick)


def start_of_fleet(fleet: PooledFleet, targets: Targets, pick: str) -> Start:
    """Pools that prefill and decode apart, under their load."""
    pools, count = fleet.pools, fleet.decode_instances
    refuse_chain(pools.prefill.processes_of(fleet.prefill) > 1)
    reading = layout_of(pools.prefill.services.service(fleet.prefill)), fleet.prefill_instances
    writing = layout_of(pools.decode.services.service(fleet.decode)), count
    record = fleet_record(fleet, targets)
    expected = expected_under_load(record, targets.record(), pools.requests.osl.mean)
    parts = parts_of_pools(pools, reading, writing, fleet.load.in_flight / count, fleet.slots)
    return Start(parts, _offered(fleet.load, 1), expected, pick)


def _offered(load: Loaded, replicas: int) -> OfferedLoad:
    return OfferedLoad(load.requests_per_second * replicas, arrival_scv=load.arrivals.among(1.0 / replicas).scv)


def parts_of_pools(
    pools: Pools, reading: Pool, writing: Pool, in_flight: float, slots: int | None = None
) -> list[PlanPart]:
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
        PlanPart(_service(pools.prefill.setup, requests, reading[0], proposing), reading[1], "prefill"),
        PlanPart(_service(decode, requests, writing[0], proposing), writing[1], "decode", slots),
    ]


def _service(setup: Setup, requests: Requests, layout: Mapping[str, Any], speculation: Speculation | None) -> Service:
    pins = instance_pins({name: layout.get(name) for name in _DEGREES}, dcp=layout.get("dcp"))
    return offer(setup, requests, Space(pins), speculation).service(0)
