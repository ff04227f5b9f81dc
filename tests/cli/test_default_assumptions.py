"""Which assumptions commands answer under where none are named, and what they say of their errors."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ.answers.caveats import WITHOUT
from inference_econ.engine import Interval
from inference_econ.inputs import LEVELS, catalog, profiles
from tests import asking
from tests.cli.conftest import Command, record, rows
from tests.reading import tables

#: No server of it was measured, so that its intervals are the wide ones.
MODEL = "falcon_7b"
SMALL = ("--max-instance-gpus", 2)
COMMANDS: dict[str, list[object]] = tables(Path(__file__))["COMMANDS"]
#: Commands that say how far off they are.
DOUBTED = tuple(name for name in COMMANDS if name != "cache")


#: Commands that ask every engine; each answers under its own profile.
MARKET = ("frontier", "price", "recommend")
#: One way to serve of those that they ask.
ONE = dict.fromkeys(MARKET, ("--engine", "vllm", "--together"))
#: The engine that serves the model the best on chips that an engine is known for.
FIRST, SERVED = "vllm", ("h100_sxm", "b200")


def default(chip: str, engine: str | None = None) -> ie.Assumptions:
    return profiles.for_hardware(chip, engine)


def engine_of(found: dict[str, Any]) -> str | None:
    """The engine that serves what is preferred; None where no engine is known."""
    entry = found["disaggregated"][0] if "disaggregated" in found else found
    points = entry.get("points", [entry])
    best = max(points, key=lambda point: point.get("tokens_per_second_per_user", 0.0) ** 3 / _dollars(point))
    engine = best["layout"].get("engine")
    assert engine is None or isinstance(engine, str)
    return engine


def _dollars(point: dict[str, Any]) -> float:
    return float(point["dollars_per_million_output_tokens"])


def first_record(command: Command, *arguments: object) -> dict[str, Any]:
    answer = record(command, *arguments)
    return answer["choices"][0] if "choices" in answer else answer


def likely(found: dict[str, Any], quantity: str) -> Interval:
    """Where measured values lie over predicted ones, as a record says: those of the errors that it names."""
    factors = found["calibration"]["measured_over_predicted"][quantity]
    calibration = catalog.assumptions(found["assumptions"]).calibration
    assert calibration is not None
    quantiles = calibration.errors[factors["without"]][quantity].quantiles  # type: ignore[index]
    ends = [math.exp(quantiles[LEVELS.index(level)]) for level in (0.1, 0.9)]
    assert [factors["low"], factors["high"]] == pytest.approx([min(ends[0], 1.0), max(ends[1], 1.0)])
    return Interval(*ends)


def asked(name: str, chip: str) -> tuple[object, ...]:
    first, *flags = name.split()
    return (first, MODEL, chip, *flags, *COMMANDS[name])


@pytest.mark.long
@pytest.mark.parametrize("chip", ["h100_sxm", "b200", "mi300x", "tpu_v6e"])
@pytest.mark.parametrize("name", DOUBTED)
def test_a_command_answers_under_the_profile_of_the_generation(command: Command, name: str, chip: str) -> None:
    found = first_record(command, *asked(name, chip))
    assert found["assumptions"] == default(chip, engine_of(found) if name in MARKET else None).name


def test_a_cache_is_read_under_the_profile_of_the_generation(command: Command) -> None:
    assert first_record(command, *asked("cache", "b200"))["assumptions"] == default("b200").name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_named_preset_replaces_the_profile(command: Command, name: str) -> None:
    found = first_record(command, *asked(name, "h100_sxm"), "--assumptions", "deployable")
    assert found["assumptions"] == "deployable"


def test_what_ifs_change_the_profile(command: Command) -> None:
    found = first_record(command, *asked("explain", "h100_sxm"), "--set", "assumptions.host.step_overhead=9 ms")
    by_hand = ie.assumptions("profiles/hopper", changes=["host.step_overhead=9 ms"])
    assert found["step_seconds"] == asking.explain(MODEL, "h100_sxm", tp=1, assumptions=by_hand).seconds
    assert found["step_seconds"] > first_record(command, *asked("explain", "h100_sxm"))["step_seconds"] + 5e-3
    assert (found["calibration"], found["step_seconds_low"]) == (None, None)


def test_the_studys_grid_keeps_the_study(command: Command) -> None:
    assert first_record(command, "frontier", MODEL, "h100_sxm", "--grid", "paper", *SMALL)["assumptions"] == "paper"


def test_several_chips_have_their_own(command: Command) -> None:
    chips = ("h100_sxm", "b200", "tpu_v6e")
    compared = record(command, "compare", MODEL, *(word for chip in chips for word in ("--on", chip)), *SMALL)
    names = [default(chip, FIRST if chip in SERVED else None).name for chip in chips]
    assert [one["assumptions"] for one in compared["series"]] == names
    table = command("compare", MODEL, *(word for chip in chips for word in ("--on", chip)), *SMALL, "--why").out
    named = ", ".join(f"{name} ({chip})" for name, chip in zip(names, chips, strict=True))
    assert f"Assumptions: {named}." in " ".join(table.split())
    both = command("recommend", MODEL, "h100_sxm", "--on", "tpu_v6e", *SMALL, "--why").out
    assert f"{default('h100_sxm', FIRST).name} (NVIDIA H100 SXM5 80GB)" in " ".join(both.split())
    assert "deployable (Google TPU v6e (Trillium))" in " ".join(both.split())


def test_pools_of_two_kinds_of_chips_have_their_own(command: Command) -> None:
    words = ("frontier", MODEL, "h100_sxm", "--apart", "--decode-on", "b200", "--engine", FIRST, *SMALL, "--why")
    chips = (("h100_sxm", "NVIDIA H100 SXM5 80GB"), ("b200", "NVIDIA B200 SXM6 180GB"))
    named = ", ".join(f"{default(chip, FIRST).name} ({name})" for chip, name in chips)
    assert f"Assumptions: {named}." in " ".join(command(*words).out.split())


# How far off


@pytest.mark.parametrize("name", DOUBTED)
def test_tables_tell_where_measured_values_lie(command: Command, name: str) -> None:
    text = command(*asked(name, "h100_sxm"), "--why").said
    (low, high, rows, without) = re.findall(
        r"80 % of measured TPOTs lie from (\S+) % to (\S+) % around such predictions(?:, half of them beyond \S+ %)? "
        r"\((\S+) rows(?:, interval mostly of the \S+ of its base)?, by fits without (.*?)\)", text
    )[0]  # fmt: skip
    calibration = default("h100_sxm", FIRST if name in MARKET else None).calibration
    assert calibration is not None
    (kind,) = (kind for kind in calibration.errors if WITHOUT[kind] == without)
    quantiles = calibration.errors[kind]["tpot"].quantiles
    ends = [100 * math.exp(quantiles[LEVELS.index(level)]) - 100 for level in (0.1, 0.9)]
    assert (float(low), float(high)) == pytest.approx(ends, abs=0.5)
    spread = calibration.errors[kind]["tpot"]
    assert int(rows) == (spread.own or spread.rows)


@pytest.mark.parametrize("name", DOUBTED)
def test_tables_tell_that_nobody_knows(command: Command, name: str) -> None:
    text = command(*asked(name, "tpu_v6e"), "--why").said
    assert "No interval: deployable was fitted to no measured server." in text
    assert "Unlike what" not in text


#: What no one may miss of the least known row.
_LEAST = re.compile(
    r"(Unlike the measured servers|the least measured of these): no weights in int8 were measured [^;]*; "
    r"(times per token lie within a factor of [\d.]+ \(80 %\)|nobody knows how far off)"
)


@pytest.mark.long
@pytest.mark.parametrize("name", DOUBTED)
def test_what_is_unlike_the_measurements_is_told_with_its_factor(command: Command, name: str) -> None:
    words = (*asked(name, "h100_sxm"), "--weights", "int8", *ONE.get(name, ()))
    text = command(*words, "--why").said
    assert text.count("was fitted to, so that errors may be larger:") == 1
    assert text.count("no weights in int8 were measured") == 1 + bool(_LEAST.search(text))
    quiet = command(*words, "--quiet").out
    assert not any(said in quiet for said in ("no weights in int8", "of measured TPOTs"))
    assert any("no weights in int8 were measured" in reason for reason in _outside(first_record(command, *words)))


def _outside(found: dict[str, Any]) -> list[str]:
    calibration = found["calibration"]
    if "outside" not in calibration:  # by chip
        (calibration,) = calibration.values()
    return list(calibration["outside"])


def test_explain_shows_the_interval(command: Command) -> None:
    found = first_record(command, *asked("explain", "h100_sxm"))
    around = [found["step_seconds"] * factor for factor in likely(found, "tpot")]
    assert [found["step_seconds_low"], found["step_seconds_high"]] == pytest.approx(around)
    low, value, high = (found[f"tokens_per_second_per_user{end}"] for end in ("_low", "", "_high"))
    assert (low, high) == pytest.approx((1 / around[1], 1 / around[0]))
    assert low < value < high
    text = command(*asked("explain", "h100_sxm"), "--why").said
    ms = (f"{1e3 * seconds:.4g}" for seconds in (found["step_seconds"], *around))
    assert "Step {} ms, {} to {} ms with such errors: 80 % of measured TPOTs lie".format(*ms) in text


def test_a_prefill_step_alone_has_no_interval(command: Command) -> None:
    prefill = (*asked("explain", "h100_sxm"), "--prefill", 2000)
    text = command(*prefill, "--why").said
    said = "No interval: TTFTs were measured under load, and their errors are not those of a prefill step alone."
    assert text.count(said) == 1
    assert "with such errors" not in text
    assert "80 % of measured" not in text
    found = first_record(command, *prefill)
    for name in ("step_seconds", "tokens_per_second_per_user", "dollars_per_million_input_tokens"):
        assert found[name] is not None
        assert (found[f"{name}_low"], found[f"{name}_high"]) == (None, None)
    assert found["calibration"]["measured_over_predicted"] == {}
    unfitted = command(*prefill, "--assumptions", "ideal", "--why").said
    assert "No interval: ideal was fitted to no measured server." in unfitted
    assert said not in unfitted


def test_a_prefix_that_is_computed_has_its_interval(command: Command) -> None:
    found = first_record(command, *asked("cache", "h100_sxm"))
    around = [found["computing_seconds"] * factor for factor in likely(found, "ttft")]
    assert (found["computing_seconds_low"], found["computing_seconds_high"]) == pytest.approx(around)
    assert found["calibration"].keys() == {"level", "measured_over_predicted", "outside"}
    text = command(*asked("cache", "h100_sxm"), "--why").said
    assert "80 % of measured TTFTs lie" in text
    unfitted = first_record(command, *asked("cache", "h100_sxm"), "--assumptions", "deployable")
    assert (unfitted["calibration"], unfitted["ttft_seconds_low"]) == (None, None)


def test_lengths_are_told_by_their_names(command: Command) -> None:
    words = asked("frontier", "h100_sxm")
    reasons = _outside(first_record(command, *words, "--isl", 1, "--osl", 100000))
    assert [any(reason.startswith(f"{name} of ") for reason in reasons) for name in ("isl", "osl", "context")] == [
        True, True, False,
    ]  # fmt: skip
    reasons = _outside(first_record(command, *words, "--decode-only", "--context", 100000))
    assert [reason.split(" of ")[0] for reason in reasons if reason.startswith(("isl", "osl", "context"))] == [
        "context"
    ]
    reasons = _outside(first_record(command, *asked("assess", "h100_sxm"), "--context", 0))
    assert not any(reason.startswith(("isl", "osl", "context")) for reason in reasons)


def test_points_have_their_intervals(command: Command) -> None:
    words = asked("frontier --decode-only", "h100_sxm")
    found = first_record(command, *words)
    around = likely(found, "tpot")
    for point in found["points"]:
        cost = point["dollars_per_million_output_tokens"]
        ends = [point[f"dollars_per_million_output_tokens_{end}"] for end in ("low", "high")]
        assert ends == pytest.approx([cost * around.low, cost * around.high])
    lines = rows(command, *words)
    for line in lines:
        speed = float(line["tokens_per_second_per_user"])
        assert float(line["tokens_per_second_per_user_low"]) == pytest.approx(speed / around.high)
        assert float(line["tokens_per_second_per_user_high"]) == pytest.approx(speed / around.low)
    unmeasured = command(*asked("frontier --decode-only", "tpu_v6e"), "--format", "csv")
    unknown = list(csv.DictReader(io.StringIO(unmeasured.out)))
    assert {line["tokens_per_second_per_user_low"] for line in unknown} == {""}
    assert {*unknown[0], "engine"} == {*lines[0], "bound"}  # no engine is known for it, and nothing was fitted to it
