"""Bursty arrivals compared with Poisson arrivals: the stated assumption, its alternatives, and simulated numbers."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import pytest

from inference_econ.answers.deployments.recommend import Burstiness, burstiness, burstiness_at, other_scv
from inference_econ.answers.slo import Targets
from inference_econ.report.service import arrivals_label, burstiness_note
from inference_econ.serving import Gamma, Service, loaded
from tests.offered import service_of


@cache
def service() -> Service:
    return service_of(isl="500", osl="500")


@pytest.fixture(scope="module")
def crowds() -> Burstiness:
    return burstiness(service(), replicas=3)


def test_a_fleet_is_looked_at_nearly_full(crowds: Burstiness) -> None:
    assert crowds.requests_per_second == pytest.approx(0.8 * 3 * service().most_requests_per_second)
    assert (crowds.assumed_scv, crowds.other_scv) == (1.0, 10.0)
    # Both are simulated, and each of three instances gets a third of the bursts.
    assert crowds.assumed.played
    assert crowds.other.played
    assert (crowds.assumed.arrivals, crowds.other.arrivals) == (Gamma(1.0), Gamma(4.0))
    closed = loaded(service(), crowds.requests_per_second / 3)
    assert crowds.assumed.tpot_seconds["p90"] == pytest.approx(closed.tpot_seconds["p90"], rel=0.1)
    assert crowds.other.ttft_seconds["p90"] > 1.3 * crowds.assumed.ttft_seconds["p90"]
    assert crowds.other.tpot_seconds["p90"] > crowds.assumed.tpot_seconds["p90"]


def test_crowds_are_held_against_poisson_and_anything_else_against_crowds() -> None:
    assert [other_scv(scv) for scv in (0.0, 1.0, 1.5, 10.0)] == [10.0, 10.0, 1.0, 1.0]
    asked = burstiness(service(), arrival_scv=4.0)
    assert asked.assumed.played
    assert asked.other.played
    assert "% load, Poisson arrivals (--arrival-scv 1) change TTFT p90 from" in burstiness_note(asked, Targets())


def test_promises_that_crowds_break_are_named(crowds: Burstiness) -> None:
    kept = Targets(ttft_seconds=100.0)
    broken = Targets(tpot_seconds=crowds.assumed.tpot_seconds["p90"] * 1.001)
    assert burstiness_note(crowds, kept, promised=True) == burstiness_note(crowds, kept)
    assert "violate the TPOT SLO of row 1: p90 " in burstiness_note(crowds, broken, promised=True)
    assert burstiness_note(crowds, Targets(), promised=True) == burstiness_note(crowds, Targets())


def test_queues_without_end_and_answers_of_one_token(crowds: Burstiness) -> None:
    endless = dataclasses.replace(crowds.other, saturated=True, ttft_seconds={"p90": math.inf})
    assert "overload the fleet, and queues grow without bound." in burstiness_note(
        dataclasses.replace(crowds, other=endless), Targets()
    )
    single = service_of(isl="3000", osl="1")
    assert "TPOT" not in burstiness_note(burstiness(single), Targets())
    load = loaded(single, 1.0)
    assert burstiness_at(single, load, replicas=2).requests_per_second == 2.0


def test_arrivals_in_words() -> None:
    assert arrivals_label(0.0) == "more regular than Poisson (--arrival-scv 0)"
