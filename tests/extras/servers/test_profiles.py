"""Shipped profiles: their subjects, physical limits and errors."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.engine import interval, outside
from inference_econ.engine.uncertainty import unlike
from inference_econ.extras.servers import CONSTANTS, Measurement, chosen, conditions, measurements, thinned
from inference_econ.extras.servers.accuracy import deployment_key, measured_subject
from inference_econ.extras.servers.fit import log_ratios
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.inputs import Source, catalog, value_of
from inference_econ.inputs.engine import profiles
from tests.reading import present

#: Files that profiles are fitted to.
FILES = (*measurements.SHIPPED, "atom_points", "rocm_points")
NAMES = tuple(name for name in catalog.names("assumptions") if name.startswith("profiles/"))
#: Largest ratio of an interval's end to the prediction, if above a factor of eight [1]. Of the times between tokens on
#: A100, 56 of 58 have prompts and outputs of one length. An interval from the other two must be stretched 5.5 times to
#: cover them, so little is known about other lengths.
WIDEST = {"profiles/ampere": 32.0}


@cache
def _rows() -> tuple[Measurement, ...]:
    found = measurements.shipped(["serving_points", "inferencemax_aggregated"])
    asked = conditions("engine=vllm|sglang|trtllm,model!=llama_3_8b")
    rows, _ = chosen(found, asked, [conditions("engine=vllm,model=qwen3_235b_a22b")])
    return tuple(thinned(rows, 60))


def _errors(rows: tuple[Measurement, ...], by_engine: bool) -> tuple[np.ndarray, list[Measurement]]:
    found = predict(rows, lambda row: profiles.for_hardware(row.hardware, row.engine if by_engine else None))
    ratios = log_ratios(found, ["tpot"])[:, 0]
    known = np.isfinite(ratios)
    return ratios[known], [one.measurement for one, kept in zip(found, known.tolist(), strict=True) if kept]


@pytest.mark.rows
def test_the_profile_of_a_chip_and_an_engine(chip: str, engine: str | None, name: str) -> None:
    spec = catalog.hardware(chip)
    assert profiles.name_for(spec.generation, engine) == name
    assert profiles.for_hardware(chip, engine) == profiles.for_hardware(spec, engine) == catalog.assumptions(name)


def test_bare_names_do() -> None:
    assert catalog.assumptions("hopper") == catalog.assumptions("profiles/hopper")


def _is_fitted(source: Source) -> bool:
    return source.where.startswith("fitted with the others")


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_is_physical_and_says_where_it_is_from(name: str) -> None:
    profile, unfitted = catalog.assumptions(name), catalog.assumptions("deployable")
    for field, one in CONSTANTS.items():
        value = value_of(profile, field)
        assert value in (None, value_of(unfitted, field)) or one.low <= value <= one.high, field
    # No exception for a chip hides a constant that was fitted to this chip. Constants set before the fit may have
    # exceptions: `deployable` has other shares of the peak for A100 and H200, which the fit also used.
    fitted = [field for field in CONSTANTS if field in profile.sources and _is_fitted(profile.sources[field])]
    assert {"host.graph_launch", "host.step_overhead", "chip.product_efficiency"} <= set(fitted)
    assert profile.calibration is not None
    for chip in profile.calibration.hardware:
        for field in fitted:
            assert value_of(profile.for_chip(catalog.hardware(chip)), field) == value_of(profile, field), (chip, field)
    assert profile.sources["calibration"].kind == "derived"
    assert profile.sources["host.graph_launch"].ref in catalog.references()


@cache
def _every_row() -> tuple[Measurement, ...]:
    found = [one for name in FILES for one in measurements.read_measurements(catalog.server_files()[name])]
    return tuple(one for one in found if isinstance(one, Measurement))


@pytest.mark.parametrize("name", NAMES)
def test_what_was_fitted_are_rows_that_come_with_the_package(name: str) -> None:
    known = present(catalog.assumptions(name).calibration)
    chips = {catalog.hardware(one).name for one in known.hardware}
    models = {catalog.model(one).name for one in known.models}
    for subject in known.subjects:
        engine, chip, model = subject.split(" / ")
        assert engine in known.engines
        assert chip in chips
        assert model in models
    assert known.deployments
    assert set(known.deployments.split()) <= {deployment_key(row) for row in _every_row()}


def test_some_rows_are_of_what_was_measured_and_others_are_not() -> None:
    kinds = [unlike(measured_subject(row), profiles.for_hardware(row.hardware, row.engine)) for row in _rows()]
    assert {"traffic"} in kinds
    odd = replace(_rows()[0], model="mistral_7b", engine="lmdeploy")
    assert {"model", "engine"} <= unlike(measured_subject(odd), profiles.for_hardware(odd.hardware, odd.engine))


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_has_intervals(name: str) -> None:
    profile = catalog.assumptions(name)
    found = interval(0.01, profile)
    assert found is not None and profile.calibration is not None
    # Intervals have some percent at least, and less than a factor of eight, even with few rows.
    assert 0.01 / WIDEST.get(name, 8.0) < found.low <= 0.01 <= found.high < 0.01 * WIDEST.get(name, 8.0)
    assert math.log(found.high / found.low) > 0.1
    # So is every class of errors that was made from more than a few groups of rows.
    spreads = [errors["tpot"] for errors in profile.calibration.errors.values() if "tpot" in errors]
    many = [spread.quantiles for spread in spreads if spread.groups is None or spread.groups > 3]
    assert all(-math.log(8.0) < low and high < math.log(8.0) for _, low, *_, high, _ in many)


@pytest.mark.long
@pytest.mark.parametrize(("by_engine", "most"), [(False, 0.16), (True, 0.12)])
def test_half_of_the_shipped_times_between_tokens_are_within(by_engine: bool, most: float) -> None:
    errors, rows = _errors(_rows(), by_engine)
    assert len(rows) > 150
    assert np.median(np.abs(errors)) < most
    assert abs(np.median(errors)) < 0.08


@pytest.mark.long
def test_an_interval_of_80_percent_holds_about_as_many() -> None:
    errors, rows = _errors(_rows(), by_engine=True)
    inside = 0
    for error, row in zip(errors.tolist(), rows, strict=True):
        found = present(
            interval(1.0, profiles.for_hardware(row.hardware, row.engine), subjects=[measured_subject(row)])
        )
        inside += found.low <= math.exp(-error) <= found.high
    # Since these come from rows outside the fit, they are somewhat wide for fitted rows.
    assert inside / len(rows) >= 0.7
    assert sum(
        bool(outside(measured_subject(row), profiles.for_hardware(row.hardware, row.engine))) for row in rows
    ) < 0.3 * len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_intervals_of_a_base_have_rows_of_their_own_beside_them(name: str) -> None:
    known = present(catalog.assumptions(name).calibration)
    for errors in known.errors.values():
        for spread in errors.values():
            assert (spread.own or spread.rows) <= known.rows
            assert spread.own is None or spread.rows > 0
    assert known.parallel is not None
    assert set(known.parallel) == {"dp", "pp", "ep"}
    assert known.parallel["pp"] == ()


def test_few_rows_are_printed_as_few() -> None:
    known = present(catalog.assumptions("profiles/cdna3").calibration)
    layout = known.errors["layout"]["ttft"]
    assert (layout.own, layout.rows) == (15, 234)
    traffic = known.errors["traffic"]["ttft"]
    assert (traffic.own, traffic.rows) == (15, 234)
