"""Effect of bursts on a fleet: the same load with other times between arrivals."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.answers.service_record import finite
from inference_econ.serving import Gamma, Loaded, Service, arrivals_of, is_unproven, loaded, served

#: Squared coefficients of variation of the times between arrivals: of independent users, and of users that come in
#: crowds, where so many is a choice of ours and not a measurement [1].
POISSON, CROWDS = 1.0, 10.0
#: Load at which a fleet is looked at that nobody chose, over what it completes [1].
_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Burstiness:
    """An instance under one load with two kinds of arrivals.

    Attributes
    ----------
    requests_per_second : float
        Offered to the fleet [1/s].
    assumed_scv, other_scv : float
        Squared coefficients of variation of the times between arrivals: as assumed, and another [1].
    assumed, other : Loaded
        An instance under both.
    traffic : str
        What the traffic is called that says how requests arrive; nothing where that is assumed.
    """

    requests_per_second: float
    assumed_scv: float
    other_scv: float
    assumed: Loaded
    other: Loaded
    traffic: str = ""


def other_scv(arrival_scv: float) -> float:
    """Variation that an assumed one is held against: crowds, or Poisson arrivals if more than these are assumed [1]."""
    return CROWDS if arrival_scv <= POISSON else POISSON


def burstiness(service: Service, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """A fleet at 80 % of what it completes, under arrivals as they are assumed, and under others.

    Parameters
    ----------
    service : Service
        One instance.
    replicas : int
        Instances that share the traffic evenly [1].
    arrival_scv : float
        As assumed [1].
    """
    rate = _SHARE * service.most_requests_per_second
    assumed = served(service, arrivals_of(service.requests, arrival_scv))(rate, replicas)
    return burstiness_at(service, assumed, replicas=replicas, arrival_scv=arrival_scv)


def burstiness_at(service: Service, load: Loaded, *, replicas: int = 1, arrival_scv: float = POISSON) -> Burstiness:
    """Burstiness at a load of an instance that is known; both are played if one of them has to be."""
    rate, other = load.requests_per_second, other_scv(arrival_scv)
    player = served(service, Gamma(max(other, load.arrivals.scv)))
    others = loaded(service, rate, arrivals=Gamma(other).among(replicas))
    if is_unproven(service, others) or load.played:
        # What closed forms and the player differ in is no effect of bursts.
        others, load = player.played(others), load if load.played else player.played(load)
    return Burstiness(rate * replicas, arrival_scv, other, load, others, service.requests.traffic)


def burstiness_record(compared: Burstiness) -> dict[str, object]:
    """Burstiness as plain data."""
    return {
        "request_rate": compared.requests_per_second,
        "loads": [
            {
                "arrival_scv": scv,
                "saturated": load.saturated,
                "played": load.played,
                "ttft_seconds": finite(load.ttft_seconds),
                "tpot_seconds": finite(load.tpot_seconds),
            }
            for scv, load in ((compared.assumed_scv, compared.assumed), (compared.other_scv, compared.other))
        ],
    }
