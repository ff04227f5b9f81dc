"""Which promise to relax, and to what, where no deployment keeps all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inference_econ.answers.offer import beyond_model
from inference_econ.answers.promises import Targets
from inference_econ.serving import Loaded, Service, Services, loaded

#: Load of an instance that is nearly idle, and of one that never serves two requests at a time, over what it completes
#: [1].
_IDLE, _ALONE = 1e-3, 1e-6
#: Room above what an idle instance reaches, so that more than one request can be served; and what is added to it, so
#: many times at most, until some number of instances keeps it [1].
_ROOM, _MORE, _TIMES = 1.02, 1.1, 12


@dataclass(frozen=True, slots=True)
class Relaxed:
    """One promise, relaxed so far that all others can be kept.

    Attributes
    ----------
    name : str
        Which promise: ttft, tpot or e2e.
    seconds : float
        What could be promised [s], in two digits.
    service : Service
        An instance of the deployment that keeps it.
    """

    name: str
    seconds: float
    service: Service


def nothing_kept(every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]) -> str:
    """One message: that no deployment keeps the promises, and which of them to relax to what.

    Parameters
    ----------
    every : sequence of Services
        Layouts to choose from.
    targets : Targets
        The promises.
    keeps : callable
        Whether a deployment of some service can keep some promises under the traffic.

    Notes
    -----
    Which promise to relax is not looked for where requests are longer than the model was made for: shorter ones are
    what helps, and with such long ones the search takes several times as long as everything else.
    """
    sentence = f"no deployment keeps {targets.text or 'up'}, even with one request in flight"
    if too_long := beyond_model(every[0].setup.model, every[0].requests):
        return f"{sentence}: {too_long}, or promise less. {best_reachable(every, targets)}"
    relaxed = list(relaxations(every, targets, keeps))
    ways = [f"{way.name.upper()} {1e3 * way.seconds:,.9g} ms would do ({_label(way.service)})" for way in relaxed]
    helpless = [name.upper() for name in targets.given if name not in {way.name for way in relaxed}]
    if helpless and len(targets.given) > 1:
        ways.append(f"{' or '.join(helpless)} alone, however long, would not")
    would_do = f": {'; '.join(ways)}" if ways else ""
    return f"{sentence}{would_do}. {best_reachable(every, targets)}"


def relaxations(
    every: Sequence[Services], targets: Targets, keeps: Callable[[Service, Targets], bool]
) -> Iterator[Relaxed]:
    """Each promise by itself at the least value with which all others are kept; none where that takes more.

    The least that somebody would pay for: below it, instances that are nearly always idle may keep it too.
    """
    idle = [
        (service, _filled(service, _IDLE)) for layouts in every for service in map(layouts.service, range(len(layouts)))
    ]
    for name in targets.given:
        others = targets.relaxed(name, math.inf)
        possible = [
            (targets.seen(name, load), index)
            for index, (service, load) in enumerate(idle)
            if others.predicted(service).broken(load) is None
        ]
        if possible:
            least, index = min(possible)
            seconds = _least_kept(idle[index][0], targets, name, least, keeps)
            if seconds is not None:
                yield Relaxed(name, seconds, idle[index][0])


def _least_kept(
    service: Service, targets: Targets, name: str, least: float, keeps: Callable[[Service, Targets], bool]
) -> float | None:
    """Least that a service can promise beside all else, from what it reaches when it is idle [s]; None if nothing."""
    wanted = least * _ROOM
    for _ in range(_TIMES):
        seconds = _rounded_up(wanted)
        if keeps(service, targets.relaxed(name, seconds)):
            return seconds
        wanted = seconds * _MORE
    return None


def _rounded_up(seconds: float) -> float:
    """The next number of two digits [s]."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(f"{math.ceil(seconds / unit - 1e-9) * unit:.2g}")


def _filled(service: Service, share: float) -> Loaded:
    return loaded(service, share * service.most_requests_per_second)


def _label(service: Service) -> str:
    """Chips and degrees of an instance in words."""
    degrees = service.setup.layout_record(service.plans, service.setup.assumptions.layout.tensor_layouts[0])
    named = ", ".join(f"{name}{degrees[name]:g}" for name in ("tp", "dp", "pp", "ep") if degrees.get(name, 1) != 1)
    chips = f"{service.accelerators} x {service.setup.hardware.name}"
    return f"{chips}, {named}" if named else chips


def best_reachable(every: Sequence[Services], targets: Targets) -> str:
    """Latencies that the quickest layouts on each chip reach with a single request in flight."""
    chips: dict[str, list[tuple[Loaded, Service]]] = {}
    for layouts in every:
        services = map(layouts.service, range(len(layouts)))
        chips.setdefault(layouts.setup.hardware.name, []).extend(
            (_filled(layout, _ALONE), layout) for layout in services
        )
    best: list[str] = []
    for chip, loads in chips.items():
        reached = []
        for name in targets.given or ("ttft", "tpot"):
            seconds, size = min((targets.seen(name, load), service.accelerators) for load, service in loads)
            reached.append(f"{name.upper()} {float(f'{1e3 * seconds:.4g}'):,.9g} ms on {size} accelerators")
        best.append(f"{chip}: {', '.join(reached)}")
    return f"Best reachable: {'; '.join(best)}"
