"""User scenarios in YAML, with and without mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference_econ import errors
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, service_frontier
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.settings import speculation_of
from inference_econ.engine import Instances, Setup, Speculation, bounds
from inference_econ.errors import InputError, NothingFitsError, SpecError
from inference_econ.inputs import FrontierAsk, Requests, Settings, Traffic, catalog
from inference_econ.records.plain import csv_text
from inference_econ.report.page import Headline
from inference_econ.report.pages import page
from inference_econ.report.questions import figures
from inference_econ.report.questions.assess import verdict
from inference_econ.report.questions.scenario import scenario_table, scenario_tables
from inference_econ.studies.scenario import run
from tests import asking
from tests.reading import present, tables

SCENARIO: str = tables(Path(__file__))["SCENARIO"]

TOY: str = tables(Path(__file__))["TOY"]

LAW: str = tables(Path(__file__))["LAW"]

Write = Callable[[str], str]


def _edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_users_scenario_is_answered(write: Write) -> None:
    result = run(write(SCENARIO))
    assert [curve.label for curve in result.curves] == ["16 bits", "8 bits"]
    wide, narrow = result.curves
    assert narrow.tokens_per_second[-1] > wide.tokens_per_second[-1]
    assert wide.frontier is not None
    assert wide.frontier.setup.context == 110.0
    assert wide.frontier.setup.assumptions == catalog.assumptions("profiles/hopper").for_chip(
        catalog.hardware("h100_sxm")
    )
    table = scenario_table(result)
    assert table.columns == ("series", "speed", "MFU")
    assert len(table.rows) == 2
    assert table.notes[0] == (
        "Decode steps without prefill: Llama 3.1 8B on H100 SXM5 80GB at $3.99/GPU-h (on-demand, 2026-09-20); formats "
        "as in each row; context 110."
    )
    assert table.why[0] == "Assumptions: profiles/hopper."
    assert any("TPOT is " in note and "the prediction of" in note for note in table.every_note)
    # Intervals of all points are at least as wide as those of their common properties.
    (points,) = wide.frontier.subjects()
    spread = bounds.ends(points, bounds.STEP)["milliseconds"]
    common = bounds.ends(Instances(wide.frontier.setup, isl=100, osl=20), bounds.STEP)["milliseconds"]
    assert None not in (*spread, *common)
    assert spread[1] / spread[0] >= common[1] / common[0]  # type: ignore[operator]
    record: Any = result.record()
    assert record["assumptions"] == dict.fromkeys(("16 bits", "8 bits"), "profiles/hopper")
    speeds = [record["rows"][0][f"tokens_per_second_per_user{end}"] for end in ("_high", "", "_low")]
    assert [speeds[1] / speed for speed in speeds[::2]] == pytest.approx(spread)
    # A table without a figure: its rows are the default, and the curves can be had.
    assert [len(curve["batch"]) for curve in record["curves"]] == [curve.batch.size for curve in result.curves]
    assert len(result.to_frame()) == 2
    assert len(result.to_frame(drawn=True)) == sum(curve.batch.size for curve in result.curves)
    drawn = run(write(SCENARIO.replace("sources:", "figure: {title: Mine}\nsources:")))
    shown: Any = drawn.record()
    line = shown["curves"][0]
    assert len(line["tokens_per_second_per_user_low"]) == len(line["batch"])
    assert "tokens_per_second_per_user_low" in csv_text(drawn.to_frame()).splitlines()[0]


SERVICES = SCENARIO.replace("decode_only: true, ", "assumptions: profiles/hopper, arrangement: together, ").replace(
    "mfu, title: MFU", "concurrency, title: flight"
)


def test_services_are_what_a_scenario_counts(write: Write) -> None:
    result = run(write(SERVICES))
    requests = Requests(100, 20)
    layouts = asking.offer(
        "llama_3_8b", "h100_sxm", requests, max_accelerators=4, weights="fp8", assumptions="profiles/hopper"
    )
    narrow = result.curves[1]
    # Each engine is a candidate; without delayed prefill, their costs equal those of all together.
    assert narrow.dollars.tolist() == pytest.approx(service_frontier([Candidate(layouts)]).dollars.tolist(), rel=1e-9)
    table = scenario_table(result)
    assert table.columns == ("series", "speed", "flight")
    assert table.notes[0].startswith("Services: Llama 3.1 8B on H100 SXM5 80GB at $3.99")
    assert table.notes[0].endswith("formats as in each row; ISL 100, OSL 20.")
    shown: Any = run(write(SERVICES.replace("sources:", "figure: {title: Mine}\nsources:"))).record()
    line = shown["curves"][0]
    assert len(line["ttft_seconds_low"]) == len(line["concurrency"]) == len(line["dollars_per_million_output_tokens"])
    steps = run(write(SCENARIO)).curves[1]
    speed = float(narrow.tokens_per_second[len(narrow.dollars) // 2])
    assert narrow.frontier is not None and steps.frontier is not None
    whole, alone = (front.cheapest(speed) for front in (narrow.frontier, steps.frontier))
    assert whole.dollars_per_million_output_tokens > 1.2 * alone.dollars_per_million_output_tokens


def test_promises_and_caches_of_a_scenario(write: Write) -> None:
    asked = "max_instance_gpus: 4, ttft: 60 ms, tpot: 8 ms, cached: 50, slots: 9}"
    text = _edited(SERVICES, ("max_instance_gpus: 4}", asked))
    front = run(write(text)).curves[0].frontier
    assert isinstance(front, ServiceFrontier)
    assert front.ttft_seconds.max() <= 0.06
    assert front.tpot_seconds.max() <= 0.008
    assert front.concurrency.max() <= 9.0 * (1 + 1e-3)
    assert front.requests.cached == 50
    assert "mean TTFT <= 60 ms, TPOT <= 8 ms" in scenario_table(run(write(text))).notes[0]
    none = _edited(SERVICES, ("max_instance_gpus: 4}", "max_instance_gpus: 4, tpot: 0.1 ms}"))
    with pytest.raises(NothingFitsError, match=r"nothing keeps a mean TPOT of 0.1 ms, .*; relax the SLO"):
        run(write(none))


@pytest.mark.rows
def test_settings_that_mean_nothing_for_what_is_counted(write: Write, old: str, new: str, message: str) -> None:
    text = _edited(SERVICES, (old, new))
    if "decode" in new or "paper" in new:
        text = text.replace("key: concurrency", "key: batch")
    with pytest.raises(InputError, match=message):
        run(write(text))


def test_a_column_of_services_is_none_of_decode_steps(write: Write) -> None:
    with pytest.raises(InputError, match=r"the column 'concurrency' is one of services, .*; leave it out"):
        run(write(_edited(SCENARIO, ("key: mfu", "key: concurrency"))))


def test_the_studys_grid_is_not_held_against_servers(write: Write) -> None:
    text = _edited(SCENARIO, ("max_instance_gpus: 4}", "grid: paper}")).replace(
        "sources:", "figure: {title: A}\nsources:"
    )
    result = run(write(text))
    assert scenario_table(result).every_note == ()
    assert "low" not in csv_text(result.to_frame()).splitlines()[0]
    assert "low" not in str(result.record()["curves"])


def test_series_may_speculate_in_every_way(write: Write) -> None:
    text = _edited(
        SCENARIO,
        ("max_instance_gpus: 4}", "max_instance_gpus: 4, eagle: true, acceptance: [0.9, 0.7], draft_weights: fp8}"),
        ("{label: 8 bits, settings: {weights: fp8}}", "{label: n-grams, settings: {ngram: true, draft_weights: null}}"),
    )
    fronts = [curve.frontier for curve in run(write(text)).curves]
    said = [None if front is None or front.speculation is None else front.speculation for front in fronts]
    assert said == [Speculation.of("eagle", (0.9, 0.7), weights="fp8"), Speculation.of("ngram", (0.9, 0.7))]
    settings = Settings(model="llama_3_8b", draft="qwen3_0_6b")
    target = Setup.of("llama_3_8b", "h100_sxm")
    # Draft models are accepted 73 times of 100, and five tokens are drafted at most.
    assert speculation_of(settings, target) == Speculation.of("draft", 0.73, 5, model=catalog.model("qwen3_0_6b"))
    assert speculation_of(Settings(acceptance=0.5), target) is None


def test_series_override_what_is_common(write: Write) -> None:
    text = _edited(
        SCENARIO,
        ("{label: 16 bits}", "{label: 16 bits, settings: {context: 7}}"),
        ("{weights: fp8}", "{hardware: h200_sxm, assumptions: ideal, price: 1.25 USD/h, pipeline: false, grid: null}"),
    )
    wide, other = (curve.frontier for curve in run(write(text)).curves)
    assert wide is not None and other is not None
    # A context replaces the common lengths.
    assert wide.setup.context == 7.0
    assert other.setup.context == 110.0
    assert other.setup.hardware.name == "NVIDIA H200 SXM5 141GB"
    assert other.setup.assumptions.name == "ideal"
    assert other.dollars_per_accelerator_hour == 1.25
    assert {point.layout["pp"] for point in other.points()} == {1.0}


def test_settings_over_others() -> None:
    common = Settings(model="a", context=5, draft="d")
    assert Settings(model="b").over(common) == Settings(model="b", context=5, draft="d")
    assert Settings(isl=3, osl=4).over(common) == Settings(model="a", isl=3, osl=4, draft="d", context=None)
    assert Settings(context=9, draft=None).over(Settings(isl=3, osl=4, draft="d")).context == 9
    assert Settings(context=9, draft=None).over(Settings(isl=3, osl=4, draft="d")).isl is None
    assert Settings(draft=None).over(common).draft is None


def test_a_users_model_and_hardware_are_read_again_when_they_changed(write: Write, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    original = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    chip.write_text(original, encoding="utf-8")
    path = write(_edited(SCENARIO, ("hardware: h100_sxm", f"hardware: {chip}")))
    before = run(path).curves[0]
    assert before.dollars.tolist() == run(write(SCENARIO)).curves[0].dollars.tolist()
    chip.write_text(
        _edited(original, ("hbm_bytes_per_second: 3.35 TB/s", "hbm_bytes_per_second: 6.7 TB/s")), encoding="utf-8"
    )
    path = write(_edited(SCENARIO, ("hardware: h100_sxm", f"hardware: {chip}")))
    assert run(path).curves[0].tokens_per_second[-1] > before.tokens_per_second[-1]


def test_series_of_the_catalogue_are_computed_once(write: Write) -> None:
    first, second = (run(write(SCENARIO)).curves[0].frontier for _ in range(2))
    assert first is second


def test_progress_names_the_series(write: Write) -> None:
    told: list[tuple[float, str]] = []
    run(write(SCENARIO), progress=lambda share, what: told.append((share, what)))
    assert told == [(0.0, "16 bits"), (0.5, "8 bits")]


@pytest.mark.rows
def test_mistakes_in_a_scenario(write: Write, changes: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(write(_edited(SCENARIO, *changes)))


@pytest.mark.rows
def test_questions_that_cannot_be_answered(write: Write, old: str, new: str, error: str, message: str) -> None:
    with pytest.raises(getattr(errors, error), match=message):
        run(write(_edited(SCENARIO, (old, new))))


def test_all_mistakes_are_told_at_once(write: Write) -> None:
    text = _edited(
        SERVICES,
        ("kind: frontier", "kind: frontiers"),
        ("llama_3_8b", "llama_3_9b"),
        ("isl: 100, osl: 20", "context: 100, wheels: 4"),
        ("weights: fp8", "weights: fp7, weight: 8"),
        ("point: preferred", "point: best"),
    )
    with pytest.raises(SpecError) as caught:
        run(write(text.partition("sources:")[0]))
    starts = (
        "mine.yaml:1: sources is missing; write 'sources: {FIELD: {ref: mine",
        "mine.yaml:2: ask.kind: got 'frontiers'; did you mean 'frontier'?",
        "mine.yaml:4: context applies to decode steps alone, and this counts services; add decode_only: true",
        "mine.yaml:4: unknown key 'ask.common.wheels'",
        "mine.yaml:4: unknown model 'llama_3_9b'",
        "mine.yaml:7: ask.series.1.settings.weights: got 'fp7'",
        "mine.yaml:7: unknown key 'ask.series.1.settings.weight'",
        "mine.yaml:9: table.point: got 'best'",
    )
    assert len(caught.value.mistakes) == len(starts)
    for mistake, start in zip(caught.value.mistakes, starts, strict=True):
        assert start in mistake


# The toy model and the law


def test_a_toy_frontier(write: Write) -> None:
    (curve,) = run(write(TOY)).curves
    assert len(curve.dollars) > 50
    assert (curve.batch * curve.tokens_per_second <= 1e6 * (1 + 1e-12)).all()
    (priced,) = run(write(_edited(TOY, ("settings: {max", "settings: {price: 4.2 USD/h, max")))).curves
    assert priced.dollars == pytest.approx(2 * curve.dollars, rel=1e-12)  # the study's price is 2.1 USD/h


@pytest.mark.rows
def test_mistakes_with_the_toy_model(write: Write, changes: list[tuple[str, str]], error: str, message: str) -> None:
    with pytest.raises(getattr(errors, error), match=message):
        run(write(_edited(TOY, *changes)))


def test_the_square_root_law(write: Write) -> None:
    found = present(run(write(LAW)).comparison)
    assert found.predicted.tolist() == pytest.approx([1e-3, 2e-3])
    assert scenario_table(run(write(LAW))).rows[1] == ("large", "4", "3.0", "2.0")
    with pytest.raises(SpecError, match=re.escape("ask.measured.0.latency must be > 0, got '0 ms'")):
        run(write(_edited(LAW, ("1 ms", "0 ms"))))


# Panels


def test_panels_show_scenarios_side_by_side(write: Write, tmp_path: Path) -> None:
    for name, text in (("a", SCENARIO), ("b", _edited(TOY, ("name: Toy", "name: Yours")))):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    panels = f"[{tmp_path}/a.yaml, {tmp_path}/b.yaml]"
    result = run(write(f"name: Both\nask: {{kind: panels, scenarios: {panels}}}\nsources: {{}}\n"))
    assert [panel.scenario.name for panel in result.panels] == ["Mine", "Yours"]
    assert result.curves == ()
    assert {used.file for used in result.sources} >= {"scenario: Mine", "scenario: Yours"}


@pytest.mark.rows
def test_mistakes_with_panels(write: Write, tmp_path: Path, scenarios: str, message: str) -> None:
    listed = scenarios.format(itself=tmp_path / "mine.yaml")
    with pytest.raises(InputError, match=message):
        run(write(f"name: Both\nask: {{kind: panels, scenarios: {listed}}}\nsources: {{}}\n"))


# Shipped inputs


@pytest.mark.parametrize("name", [name for name in catalog.names("scenarios") if name.startswith("examples/")])
def test_the_examples_run(name: str) -> None:
    scenario = catalog.scenario(name)
    if not isinstance(scenario.ask, FrontierAsk):
        assert run(scenario).assessment is not None
        return
    # The first series is enough to know that names and settings fit together.
    first = scenario.ask.replace(series=scenario.ask.series[:1])
    result = run(scenario.replace(ask=first))
    assert len(result.curves[0].dollars) > 5


ASSESS: str = tables(Path(__file__))["ASSESS"]


def test_a_measured_server_as_a_scenario(write: Write) -> None:
    result = run(write(ASSESS + "figure: {title: Mine}\n"))
    measured = {"tokens_per_second": 50, "batch": 8, "accelerators": 1, "assumptions": "deployable"}
    by_hand = asking.assess("llama_3_8b", "h100_sxm", Traffic(isl=100, osl=20), **measured)
    assert result.assessment is not None
    assert result.assessment.measured == by_hand.measured
    assert result.assessment.anywhere.speed_factor == by_hand.anywhere.speed_factor
    shown, step = scenario_tables(result)
    assert shown.rows[0][:2] == ("measured", "50.0") and step.rows[-1][0] == "total (measured)"
    record = result.record()
    assert record["assessment"]["measured"]["batch"] == 8
    assert "curves" not in record
    assert csv_text(result.to_frame()).splitlines()[1].startswith("measured,")
    assert [text.get_text() for text in figures.draw(result).texts] == ["Mine"]


def test_a_measured_server_has_a_verdict_under_each_preset(write: Write) -> None:
    result = run(write(ASSESS.replace("batch: 8", "batch: 8\n  presets: [ideal]")))
    assert [item.setup.assumptions.name for item in result.assessments] == ["deployable", "ideal"]
    *_, own, ideal = page(result).blocks()
    assert isinstance(own, Headline) and isinstance(ideal, Headline)
    assert own.lines == verdict(result.assessments[0]) and ideal.lines[0].startswith("SLOWER THAN EXPECTED")
    assert set(result.record()["verdicts"]) == {"deployable", "ideal"}


@pytest.mark.rows
def test_a_measured_server_is_described_once(write: Write, was: str, becomes: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(write(ASSESS.replace(was, becomes)))
