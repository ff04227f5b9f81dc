"""Read the deployment that a saved result selected: instances, load, predictions, and its services computed again."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import inputs
from inference_econ.answers.deployments.deployment import Deployment, bounded_load, fleet_record, layout_of
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.instance import Role
from inference_econ.answers.launching.plan import Expected, Measure, OfferedLoad, PlanPart, Scaling, Start
from inference_econ.answers.layout_services import offer
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup, Space, instance_pins, key_degrees
from inference_econ.errors import InputError
from inference_econ.inputs import HBM
from inference_econ.inputs.options import request_name
from inference_econ.records.saved import SavedAnswer, of_command, read_json
from inference_econ.requests import Request, subject, workload
from inference_econ.serving import Service

if TYPE_CHECKING:
    from inference_econ.engine import Speculation


Record = Mapping[str, Any]
#: Engine options that offload prompt caches.
_OFFLOADING = "see --kv-offloading-size of vLLM, --enable-hierarchical-cache of SGLang, host_cache_size of TensorRT-LLM"
_LATENCIES: tuple[Measure, ...] = ("ttft", "tpot", "e2e")
_HOW = "write one with 'inference-econ recommend ... -o answer.json' (or frontier)"


@dataclass(frozen=True, slots=True)
class ChosenPart:
    """Equal instances of a selected deployment, as the saved result describes them.

    Raises
    ------
    ValueError
        If a number of instances or of slots is not a positive integer.
    """

    hardware: str
    """Name of the GPU."""
    layout: Record
    """Parallelism degrees of an instance."""
    replicas: int
    """Number of instances [1]."""
    role: Role = "both"
    """Role of the instances: aggregated, prefill or decode."""
    slots: int | None = None
    """Maximum concurrent requests of each instance [1]; None for the memory limit."""

    def __post_init__(self) -> None:
        for count, of in ((self.replicas, "instances"), (1 if self.slots is None else self.slots, "slots")):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{count!r} {of}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Deployment that a saved result selected."""

    parts: Sequence[ChosenPart]
    """Instances, one entry per role (prefill, decode or aggregated)."""
    practice: Record
    """Engine (``engine``), KV-cache format (``kv``) and speculation method (``speculation``) of the selected recipe."""
    load: OfferedLoad
    """Total load of the prediction."""
    expected: Sequence[Expected]
    """Predicted values under the total load."""
    in_flight: float
    """Number of concurrent requests on all decode instances [1]."""
    scaling: Scaling | None = None
    """Settings of the autoscaler, if the result is a fleet over a day; else None."""
    remarks: Sequence[str] = ()
    """Further notes for the operator."""


def read(path: str) -> SavedAnswer:
    """Read a saved result that has a deployment to launch.

    Raises
    ------
    InputError
        If the file cannot be read, is not a result of this release, or has no deployment.
    """
    return startable(read_json(path, _HOW), path)


def startable(record: object, origin: str) -> SavedAnswer:
    """Convert the record of a result that has a deployment to launch; see :func:`read` for the errors."""
    saved = of_command(record, origin, _HOW)
    if saved.kind not in _DEPLOYMENTS:
        raise InputError(f"{origin}: an answer of {saved.kind!r} starts nothing; {_HOW}")
    return saved


def chosen(saved: SavedAnswer, number: int | None = None) -> Chosen:
    """Return the deployment with a number in a result, counted from 1.

    Raises
    ------
    InputError
        If the number does not exist, or the result has no deployment.
    """
    record, (entries, usual) = saved.record, _DEPLOYMENTS[saved.kind]
    if entries == "points" and "isl" not in record:
        raise InputError(
            f"{saved.origin}: a result for decode steps only cannot be started, because it has no prefill; {_HOW}"
        )
    try:
        entry = _entry(record[entries], number or usual, saved.origin)
        practice = {
            "engine": entry["layout"].get("engine"),
            "kv": entry.get("kv"),
            "speculation": entry.get("speculation"),
        }
        if entries == "points":
            parts, in_flight = _at_concurrency(record["hardware"], entry)
            load = OfferedLoad(concurrency=max(1, round(entry["concurrency"])))
            return Chosen(parts, practice, load, expected_in_flight(entry), in_flight)
        expected = expected_under_load(entry, record["targets"], entry["osl"])
        scaling = _scaling(saved, entry, number or 1) if entries == "rental_units" else None
        parts, in_flight = _at_rate(entry)
        load = OfferedLoad(_finite(entry["request_rate"]), arrival_scv=_finite(saved.options["arrival_scv"]))
        use = entry.get("agent_use")
        remarks = () if use is None else agents_said(use, parts[0].replicas)
        return Chosen(parts, practice, load, expected, in_flight, scaling, remarks)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(mistake(saved, error)) from error


#: For each command: the record key of the deployments, and the number of the default deployment (None for no default).
_DEPLOYMENTS: Mapping[str, tuple[str, int | None]] = {
    "recommend": ("choices", 1),
    "frontier": ("points", None),
    "fleet": ("rental_units", None),
}


def mistake(saved: SavedAnswer, error: Exception) -> str:
    """Error message for an edited result file; it names the missing or invalid part."""
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


def _at_rate(entry: Record) -> tuple[Sequence[ChosenPart], float]:
    """Instances of a deployment under a request rate, and total concurrency of its decode instances [1]."""
    chip = entry["hardware"]
    if entry.get("serving") != "disaggregated":
        replicas = entry["replicas"]
        return (ChosenPart(chip, entry["layout"], replicas),), entry["concurrency_per_replica"] * replicas
    refuse_chain("chain" in entry["prefill_layout"])
    prefill = entry.get("prefill_hardware", chip), entry["prefill_layout"], entry["prefill_instances"]
    decode = ChosenPart(chip, entry["decode_layout"], entry["decode_instances"], "decode", entry["decode_slots"])
    return (ChosenPart(*prefill, "prefill"), decode), entry["in_flight"]


def _at_concurrency(chip: str, point: Record) -> tuple[Sequence[ChosenPart], float]:
    """Instances of a frontier point, and total concurrency of its decode instances [1]."""
    layout = point["layout"]
    if "prefill" not in layout:
        return (ChosenPart(chip, layout, 1),), point["batch"]
    refuse_chain("chain" in layout["prefill"])
    prefill, decoders = key_degrees(layout["prefill"]), round(layout["decode_instances"])
    readers = layout.get("prefill_hardware", chip), prefill, round(layout["prefill_instances"])
    return (ChosenPart(*readers, "prefill"), ChosenPart(chip, layout, decoders, "decode")), decoders * point["batch"]


def agents_said(use: Record, replicas: int) -> tuple[str, ...]:
    """Notes for the operator of a deployment for agents: router, offload tiers, and limits of a test run.

    ``replicas`` is the number of aggregated instances, or of prefill instances [1].
    """
    behind = ", ".join(name for name in use["hit_rates"] if name != HBM)
    return (
        f"predicted for {use['agents']:,.0f} agents ({use['traffic']}) with a cache hit rate of "
        f"{100 * use['hit_rate']:.0f} %; the load generator sends their mean turn at their rate, and all turns share "
        "one cached prefix",
        *(
            (f"put a router before the {replicas} instances; the prediction simulates {use['router']}",)
            if replicas > 1
            else ()
        ),
        *((f"predicted with {behind} behind HBM, which this script does not start: {_OFFLOADING}",) if behind else ()),
    )


def refuse_chain(chained: bool) -> None:
    """Reject the launch of a deployment with prefill chains."""
    if chained:
        raise InputError("no known engine prefills prompts in a chain; use the command without --prefill-chain")


def _scaling(saved: SavedAnswer, lot: Record, number: int) -> Scaling:
    """Autoscaler settings for one rental unit of a fleet."""
    limits, seconds = lot["scaling"], saved.record["autoscaler"]
    if not limits["most"]:
        raise InputError(f"{saved.origin}: the autoscaled fleet has no replica of choice {number}", option="choice")
    return Scaling(
        limits["fewest"],
        limits["most"],
        "in_flight" if saved.record["policy"] == "in_flight" else "rate",
        _finite(limits["per_replica"]),
        _finite(limits["held_before"]),
        _finite(seconds["polling_seconds"]),
        _finite(seconds["scale_down_seconds"]),
        _finite(lot["dollars_per_hour"]) / lot["replicas"],
        str(lot["paid"]),
    )


def expected_in_flight(point: Record) -> tuple[Expected, ...]:
    """Predicted mean latencies and output rate of a frontier point, which has a constant concurrency."""
    latencies = [_expected(name, "mean", point, key) for name in _LATENCIES if (key := f"{name}_seconds") in point]
    throughput = _expected("throughput", "mean", point, "tokens_per_second_per_accelerator", point["accelerators"])
    return (*latencies, throughput)


def expected_under_load(entry: Record, targets: Record, osl: float, usual: str = "p50") -> tuple[Expected, ...]:
    """Predicted latencies, at the default statistic and at the statistic of the SLO, and predicted output rate."""
    latencies = [
        _expected(
            name,
            statistic,
            entry,
            f"{name}_seconds",
            promised=targets.get(f"{name}_seconds") if statistic == targets.get(f"{name}_percentile") else None,
        )
        for name in _LATENCIES
        for statistic in dict.fromkeys((usual, targets.get(f"{name}_percentile", usual)))
        # Pools, overloaded services and older records lack some latencies.
        if entry.get(f"{name}_seconds", {}).get(statistic) is not None
    ]
    return (*latencies, Expected("throughput", "mean", _finite(entry["completed_requests_per_second"] * osl)))


def _finite(value: Any) -> float:
    """Convert a number in a record.

    Raises
    ------
    TypeError, ValueError
        If the number is missing or infinite.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number:g} is not a valid number in a result")
    return number


def _expected(
    measure: Measure, statistic: str, entry: Record, key: str, factor: float = 1.0, promised: float | None = None
) -> Expected:
    """Convert a predicted number in a record, with its interval, to base units."""
    values = [entry[key], entry.get(f"{key}_low"), entry.get(f"{key}_high")]
    value, low, high = (item[statistic] if isinstance(item, dict) else item for item in values)
    ends = [None if end is None else _finite(end) * factor for end in (low, high)]
    limit = None if promised is None else _finite(promised)
    return Expected(measure, statistic, _finite(value) * factor, ends[0], ends[1], limit)


#: Parallelism degrees of a layout by name, and number of instances with this layout.
Pool = tuple[Mapping[str, Any], int]


def start_of(deployed: Deployment, targets: Targets, pick: str) -> Start:
    """Convert a deployment under its load to the input of a launch plan."""
    service, load, replicas, fleet = deployed.service, deployed.load, deployed.replicas, deployed.fleet
    if fleet is None:
        parts = [PlanPart(service, replicas)]
        record: Record = bounded_load(service, load, replicas, targets)
    else:
        pools, count = fleet.pools, fleet.decode_instances
        refuse_chain(pools.prefill.processes_of(fleet.prefill) > 1)
        reading = layout_of(pools.prefill.services.service(fleet.prefill)), fleet.prefill_instances
        parts = parts_of_pools(pools, reading, (layout_of(service), count), load.in_flight / count, fleet.slots)
        record = fleet_record(fleet, targets)
    expected = expected_under_load(record, targets.record(), service.requests.osl.mean)
    offered = OfferedLoad(load.requests_per_second * replicas, arrival_scv=load.arrivals.among(1.0 / replicas).scv)
    return Start(parts, offered, expected, pick)


def parts_of_pools(
    pools: Pools, reading: Pool, writing: Pool, in_flight: float, slots: int | None = None
) -> list[PlanPart]:
    """Convert prefill and decode instances to parts of a launch plan.

    Prefill and decode instances are both configured for requests with outputs, as engines require.

    Parameters
    ----------
    pools : Pools
        Prefill and decode layouts.
    reading, writing : (mapping, int)
        Layout and number of the prefill instances, and layout and number of the decode instances.
    in_flight : float
        Concurrent requests of one decode instance [1]; all instances use the best draft length at this concurrency.
    slots : int, optional
        Maximum concurrent requests of a decode instance [1]; by default the memory limit.
    """
    decode, proposing = pools.decode.setup, pools.decode.services.speculation

    def service(setup: Setup, layout: Mapping[str, Any]) -> Service:
        pins = instance_pins({name: layout.get(name) for name in ("tp", "pp", "dp", "ep")}, dcp=layout.get("dcp"))
        return offer(setup, pools.requests, Space(pins), proposing).service(0)

    if proposing is not None:
        proposing = plan.priced_drafts(service(decode, writing[0]), in_flight)
    return [
        PlanPart(service(pools.prefill.setup, reading[0]), reading[1], "prefill"),
        PlanPart(service(decode, writing[0]), writing[1], "decode", slots),
    ]


#: Parallelism degrees that define a layout.
_DEGREES = ("tp", "dp", "pp", "ep", "dcp")


def check_alone(request: Request, path: str, free: Collection[str]) -> None:
    """Reject options that a saved result already fixes; ``free`` lists the allowed options by their Python names."""
    assert request.asked is not None
    parameters = request.asked.command.parameters
    typed = [parameters[name].spelled[:1] for name in parameters if name in request.asked.given and name not in free]
    if typed:
        option = "".join(typed[0])
        raise InputError(
            f"{option} contradicts {path}, whose query fixes it; remove {option}, or repeat the command that wrote "
            f"{path} with {option}",
            option=request_name(option),
        )


def of_model(request: Request, text: str) -> Request:
    """Copy of a request with a model name in place of a saved result."""
    return replace(request, model=subject.meant(request, "model", text))


def parts(saved: SavedAnswer, chosen: Chosen) -> list[PlanPart]:
    """Recompute the instances of a selected deployment.

    Instances have the best draft length at their load, as in the prediction.

    Raises
    ------
    InputError
        If the saved result lacks an input, or a layout is invalid.
    """
    try:
        answering, proposing = chosen.parts[-1], asked_speculation(saved, chosen)
        if proposing is not None:
            service = _part(saved, chosen, answering, proposing).service
            proposing = plan.priced_drafts(service, chosen.in_flight / answering.replicas)
        return [_part(saved, chosen, part, proposing) for part in chosen.parts]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(mistake(saved, error)) from error
    except InputError as error:
        message = str(error).removeprefix(f"{saved.origin}: ")
        raise InputError(f"{saved.origin}: {message}") from error


def asked_speculation(saved: SavedAnswer, chosen: Chosen) -> Speculation | None:
    """Speculation method of the query, or of the selected recipe; None without speculation."""
    from inference_econ.engine import recorded_speculation

    question = Request.saved(saved.options)
    named = subject.speculation(question, question.hardware)
    recorded = chosen.practice["speculation"]
    return recorded_speculation(recorded) if named is None and recorded is not None else named


def _part(saved: SavedAnswer, chosen: Chosen, part: ChosenPart, speculation: Speculation | None) -> PlanPart:

    question, options = Request.saved(saved.options), saved.options
    # Engine of the recipe, at the requested version.
    engine, settled = question.engine, str(chosen.practice["engine"] or "")
    if settled and "," not in settled and not question.any_layout and not question.assumptions:
        engine = (next((name for name in engine if name.partition("@")[0] == settled), settled),)
    kv = chosen.practice["kv"] or question.kv
    open_sizes: dict[str, Any] = {"instance_gpus": None, "max_instance_gpus": None, "pipeline": True}
    degrees: dict[str, Any] = {name: part.layout.get(name) for name in _DEGREES}
    alone = replace(question, engine=engine, kv=kv, **open_sizes, **degrees)
    # Requests of the query; for agents, their mean turn.
    if options.get("agents") is not None:
        requests = ie.Agents.of(options["traffic"]).requests
    else:
        reused: dict[str, Any] = {"cached": question.cached or 0, "shared_prefix": question.shared_prefix or 0}
        requests = workload.requests(question, **workload.context_or_lengths(replace(question, context=None)), **reused)
    # Find the GPU by the name in its file.
    tried = [options["hardware"], *(options.get("further") or ()), options.get("decode_on")]
    named = (chip for chip in dict.fromkeys(filter(None, tried)) if inputs.catalog.hardware(chip).name == part.hardware)
    chip = next(named, None)
    if chip is None:
        listed = ", ".join(filter(None, tried))
        raise InputError(f"{saved.origin}: {part.hardware} is not among the hardware of the query: {listed}")
    services = subject.offer(alone, requests, str(chip), speculation)
    return PlanPart(services.service(0), part.replicas, part.role, part.slots)
