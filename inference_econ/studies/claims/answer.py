"""Answers to claims: their numbers under each basis, for one claim, a publication or all of them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference_econ._types import Progress
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import (
    Basis,
    BasisSpec,
    Claim,
    ClaimsAsk,
    Exponent,
    Measure,
    Ratio,
    Scenario,
    Value,
    catalog,
)
from inference_econ.records.sources import UsedSource, spec_sources
from inference_econ.studies.claims.readings import read
from inference_econ.studies.ledger import Finding, Ledger


def measured(measure: Measure, basis: BasisSpec) -> float:
    """Quantity of a claim under one basis; see :func:`inference_econ.studies.claims.readings.read` for errors."""
    return _MEASURES[type(measure)](measure, basis)


def _ratio(measure: Ratio | Exponent, basis: BasisSpec) -> float:
    return read(measure.of, basis) / read(measure.over, basis)


_MEASURES: Mapping[type, Callable[[Any, BasisSpec], float]] = {
    Value: lambda measure, basis: read(measure.of, basis),
    Ratio: _ratio,
    Exponent: lambda measure, basis: math.log(_ratio(measure, basis)) / math.log(measure.by),
}


def claims(name: str | None = None, *, progress: Progress | None = None) -> Ledger:
    """Claims of publications beside our numbers (``inference_econ.claims``).

    Parameters
    ----------
    name : str, optional
        The id of a claim; or a scenario of the kind ``claims``, by name or path. By default every claim of every such
        scenario that comes with the package.
    progress : callable, optional
        Told the share of the work done, and which claim is computed.

    Returns
    -------
    Ledger
        Each claim with the published number, ours under the published preset and under today's profiles, and whether
        it holds.

    Raises
    ------
    InputError
        If there is no such claim or scenario, or a claim names what cannot be used.

    Examples
    --------
    >>> claims("tokens_per_round")["tokens_per_round"].verdict
    'does not hold'
    """
    shipped = {scenario_name: catalog.scenario(scenario_name) for scenario_name in _shipped()}
    if name is None:
        return _together(list(shipped.values()), progress)
    for scenario in shipped.values():
        named = [claim for claim in _ask(scenario).claims if claim.id == name]
        if named:
            return answered(scenario, named, progress=progress)
    return _together([_named(name, shipped)], progress)


def answered(scenario: Scenario, some: Sequence[Claim] | None = None, *, progress: Progress | None = None) -> Ledger:
    """All claims of a scenario, or some of them, beside our numbers; see :func:`claims`."""
    ask = _ask(scenario)
    chosen = ask.claims if some is None else some
    findings = []
    for index, claim in enumerate(chosen):
        if progress is not None:
            progress(index / len(chosen), claim.id)
        findings.append(_found(ask, claim))
    return Ledger(tuple(findings), tuple(spec_sources("scenario", scenario)))


def _found(ask: ClaimsAsk, claim: Claim) -> Finding:
    ours: dict[Basis, float] = {}
    missing: dict[Basis, str] = {}
    for basis in claim.bases:
        try:
            ours[basis] = measured(claim.measure, ask.paper if basis == "paper" else ask.today)
        except NothingFitsError as error:
            missing[basis] = str(error)
        except InputError as error:
            raise InputError(f"claim {claim.id}, under {basis!r}: {error}") from error
    return Finding(ask.seed, claim, ours, missing)


def _together(scenarios: Sequence[Scenario], progress: Progress | None) -> Ledger:
    """The ledgers of some scenarios, one after the other."""
    total, done = sum(len(_ask(scenario).claims) for scenario in scenarios), 0
    findings: list[Finding] = []
    sources: list[UsedSource] = []
    for scenario in scenarios:
        count = len(_ask(scenario).claims)
        part = answered(scenario, progress=_part(progress, done / total, count / total))
        findings, sources, done = [*findings, *part.findings], [*sources, *part.sources], done + count
    return Ledger(tuple(findings), tuple(dict.fromkeys(sources)))


def _part(progress: Progress | None, before: float, share: float) -> Progress | None:
    """Progress of a part as progress of the whole."""
    if progress is None:
        return None
    return lambda done, what: progress(before + share * done, what)


def _shipped() -> list[str]:
    """Scenarios with claims that come with the package, the published study first."""
    names = [name for name in catalog.names("scenarios") if name.startswith("seeds/claims_")]
    return sorted(names, key=lambda name: (name != "seeds/claims_study", name))


def _named(name: str, shipped: Mapping[str, Scenario]) -> Scenario:
    """A scenario of claims by name or path.

    Raises
    ------
    InputError
        With the claims and scenarios that there are.
    """
    try:
        scenario = catalog.scenario(name)
    except InputError as error:
        if "no such file" in str(error) or name.endswith((".yaml", ".yml")):
            raise
        ids = [claim.id for shipped_scenario in shipped.values() for claim in _ask(shipped_scenario).claims]
        near = difflib.get_close_matches(name, [*ids, *shipped], n=4, cutoff=0.7)
        near += [claim_id for claim_id in ids if name and name in claim_id and claim_id not in near]
        hint = f"did you mean {', '.join(near[:4])}?" if near else f"of a publication: {', '.join(shipped)}"
        raise InputError(f"unknown claim {name!r}; {hint} ('inference-econ claims' lists all)") from error
    _ask(scenario)
    return scenario


def _ask(scenario: Scenario) -> ClaimsAsk:
    if not isinstance(scenario.ask, ClaimsAsk):
        raise InputError(
            f"{scenario.name} has no claims: it is a scenario of the kind {scenario.ask.kind!r}; "
            "'inference-econ run' answers it"
        )
    return scenario.ask
