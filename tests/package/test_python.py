"""Notebooks and programs with every result of the Python API."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import ascii_letters

import jsonschema
import pytest

import inference_econ as ie
from inference_econ._answer import Shown
from inference_econ.extras.web.sentences import summary
from inference_econ.inputs import catalog
from inference_econ.report import schema
from inference_econ.report.pages import page as page_of
from inference_econ.report.questions.scenario import ScenarioPage
from tests.charted import sound
from tests.small import ANSWERS, QUESTIONS, SPACE, TARGETS, TRAFFIC, layouts, setup

#: Results without a picture.
UNDRAWN = {"estimate", "most_traffic", "fits", "hour_cost", "implied_hour_price"}


@pytest.fixture(scope="module", params=ANSWERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answer(name: str) -> Shown:
    return ANSWERS[name]()


def test_a_line_says_what_it_is(answer: Shown) -> None:
    line = repr(answer)
    assert line.startswith(f"<{type(answer).__name__}: ")
    assert "\n" not in line
    assert len(line) < 140


@pytest.mark.parametrize("name", ["frontier", "run", "load", "fits"])
def test_a_notebook_shows_tables_and_a_picture(name: str) -> None:
    """Tests below cover tables and charts of the other results."""
    html = ANSWERS[name]()._repr_html_()
    assert html.count("<table>") >= 1
    assert ("<svg" in html) is (name not in UNDRAWN)
    assert "<?xml" not in html


def test_pictures(name: str, answer: Shown, tmp_path: Path) -> None:
    if name in UNDRAWN:
        with pytest.raises(ie.InputError, match="this answer has no picture; to_frame"):
            answer.plot()
        return
    picture = answer.plot(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "characters of SVG" in repr(picture)
    with pytest.raises(ie.InputError, match=r"must end in \.svg"):
        answer.plot(tmp_path / "a.xlsx")
    bundle = picture._repr_mimebundle_()
    if name in ("run", "claims"):
        assert picture.chart is None
        assert bundle.keys() == {"image/svg+xml", "text/plain"}
        return
    assert picture.chart is not None
    assert bundle["application/vnd.vegalite.v6+json"] == sound(picture.chart)


def test_it_tells_its_own_question_and_answers_it(answer: Shown) -> None:
    page = page_of(answer)
    # A scenario has its own description.
    told = summary(page)
    assert told.question.endswith("." if isinstance(page, ScenarioPage) else "?")
    assert "".join(told.conclusion).endswith(".")


def _closed(kind: str) -> dict[str, object]:
    """Return the closed schema of a result.

    Published schemas are open to new fields; this one requires a row per field.
    """
    inside = {kind: {**record, "additionalProperties": False} for kind, record in schema.definitions().items()}
    return {**schema.json_schema(kind), "additionalProperties": False, "$defs": inside}


def test_schemas_are_valid() -> None:
    answers = {kind: schema.json_schema(kind) for kind in schema.questions()}
    jsonschema.Draft202012Validator.check_schema({"$defs": {**answers, **schema.definitions()}})


def test_the_record_follows_its_schema(name: str, answer: Shown) -> None:
    jsonschema.Draft202012Validator(_closed(QUESTIONS.get(name, name))).validate(answer.to_dict())


def _numbers(data: object) -> Iterator[Mapping[str, object]]:
    """Yield all mappings in plain data."""
    if isinstance(data, Mapping):
        yield data
    inside = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    for each in inside:
        yield from _numbers(each)


def test_data_are_finite_and_lie_between_their_ends(answer: Shown) -> None:
    text = json.dumps(answer.to_dict(), allow_nan=False)
    for record in _numbers(json.loads(text)):
        for name in record:
            low, value, high = (record.get(f"{name}{end}") for end in ("_low", "", "_high"))
            if isinstance(low, float) and isinstance(value, float) and isinstance(high, float):
                assert low <= value <= high, name


def test_an_answer_is_kept_and_read_again(answer: Shown, tmp_path: Path) -> None:
    answer.save(tmp_path / "a.json")
    kept = ie.load_answer(tmp_path / "a.json")
    assert kept.kind == type(answer).__name__
    assert kept.to_dict() == json.loads(json.dumps(answer.to_dict()))
    frame, again = answer.to_frame(), kept.to_frame()
    assert list(again.columns) == list(frame.columns)
    assert len(again) == len(frame) > 0
    assert type(answer).__name__ in repr(kept)
    answer.save(tmp_path / "a.csv")
    answer.save(tmp_path / "a.md")
    assert (tmp_path / "a.csv").read_text().count("\n") >= len(frame)
    assert (tmp_path / "a.md").read_text().startswith(("|", "**", "#", "\n", *ascii_letters))


def test_predictions_have_low_and_high() -> None:
    frame = ie.frontier(setup(), TRAFFIC, SPACE).to_frame()
    for column in ("tpot_seconds", "dollars_per_million_output_tokens"):
        assert (frame[f"{column}_low"] < frame[column]).all()
        high = frame[f"{column}_high"].fillna(math.inf)
        assert (frame[column] < high).all()


def test_its_data_need_nothing_of_how_it_looks(answer: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition("inference_econ.report")[1]]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError):
        answer.plot()
    assert len(answer.to_dict()) > 0
    assert f"{len(answer.displayed.to_frame())} row" in repr(answer)
    answer.save(tmp_path / "a.json")
    answer.save(tmp_path / "a.csv")
    assert ie.load_answer(tmp_path / "a.json").to_dict() == json.loads(json.dumps(answer.to_dict()))


@pytest.mark.parametrize("path", ["a.xlsx", "a", "a.txt"])
def test_other_endings_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ie.InputError, match=r"answers are saved as \.json, \.csv or \.md"):
        ie.hour_cost(ie.hardware("h100_sxm")).save(tmp_path / path)
    assert not list(tmp_path.iterdir())


@pytest.mark.rows
def test_files_that_are_no_answers(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ie.InputError, match=said):
        ie.load_answer(path)


def test_an_answer_of_the_command_line_is_data_only(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    head = {"program": "inference-econ", "version": "0", "command": "price", "options": {}}
    path.write_text(json.dumps({"asked": head, "dollars_per_hour": 3.0}), encoding="utf-8")
    kept = ie.load_answer(path)
    assert (kept.kind, kept.to_dict()) == ("price", {"dollars_per_hour": 3.0})
    with pytest.raises(ie.InputError, match=r"an answer of 'price' has no frame in its JSON: use to_dict\(\), or ask"):
        kept.to_frame()


def test_a_what_if_is_in_the_title() -> None:
    changed = ie.Setup.of("llama_3_8b", "h100_sxm", changes=["hardware.hbm_bytes_per_second=6.7 TB/s"])
    assert (
        "H100 SXM5 80GB with hbm_bytes_per_second=6.7 TB/s at $" in ie.frontier(changed, TRAFFIC, SPACE)._repr_html_()
    )


def test_functions_and_errors_bear_the_public_name() -> None:
    assert ie.frontier.__module__ == ie.InputError.__module__ == "inference_econ"
    with pytest.raises(ie.InputError) as caught:
        ie.Setup.of("llama_3_8b", "h100_sxm", weights="nonsense")
    assert type(caught.value).__module__ == "inference_econ"
    assert "nonsense" in str(caught.value)


def test_a_recommendation_is_a_sequence_of_choices() -> None:
    chosen = ie.recommend([layouts()], 5.0, TARGETS)
    assert [choice.dollars_per_hour for choice in chosen] == [choice.dollars_per_hour for choice in chosen.choices]
    assert chosen[:1] == chosen.choices[:1]
    assert len(chosen) == len(chosen.choices) > 0


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return some rows of a shipped file."""
    lines = catalog.server_files()["serving_points"].read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path_factory.mktemp("measured") / "rows.csv"
    path.write_text("".join([lines[0], *lines[1:400:20]]), encoding="utf-8")
    return path


def test_a_validation_is_an_answer(measured: Path) -> None:
    held = ie.validate(measured, assumptions=["deployable", "ideal"])
    assert repr(held).startswith("<Validated: ")
    assert set(held.to_frame()["assumptions"]) == {"deployable", "ideal"}
    assert "<table>" in held._repr_html_()


@pytest.mark.long
def test_a_calibration_is_an_answer(measured: Path) -> None:
    fitted = ie.calibrate(measured, ["host.graph_launch"], base="deployable")
    assert repr(fitted).startswith("<Calibrated: ")
    assert fitted.to_dict()["constants"]["host.graph_launch"]["value"] > 0
    with pytest.raises(ie.InputError, match=r"result\.json: cannot be read"):
        ie.calibrate("result.json")


def test_a_model_and_a_chip_are_a_question() -> None:
    answer = ie.frontier("llama_3_8b", "h100_sxm")
    assert answer.to_dict()["points"] == ie.frontier(ie.Setup.of("llama_3_8b", "h100_sxm")).to_dict()["points"]
    degrees = [value for point in answer.points() for value in point.layout.values() if not isinstance(value, str)]
    assert {type(value) for value in degrees} == {int}
    assert ie.Traffic(3000, 800) == ie.Traffic(isl=3000, osl=800)
    assert ie.Requests(3000, osl="800") == ie.Requests(isl="3000", osl=800)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ie.recommend([layouts()], 5.0, TARGETS),
        lambda: ie.price(layouts(), 5.0),
        lambda: ie.load(layouts(), [1.0, 5.0], targets=TARGETS),
    ],
    ids=["recommend", "price", "load"],
)
def test_an_answer_launches_what_it_chose(ask: Callable[[], Shown]) -> None:
    script = ask().launch("vllm")
    assert script.startswith("#!/bin/sh")
    assert "vllm serve nvidia/Llama-3.1-8B-Instruct-FP8" in script


def test_a_frontier_launches_its_preferred_point_by_its_own_engine() -> None:
    sglang = ie.Setup.of("llama_3_8b", "h100_sxm", engine="sglang")
    assert "sglang.launch_server" in ie.frontier(sglang, TRAFFIC, SPACE).launch()


def test_keys_of_development_versions_are_read_as_those_of_today(tmp_path: Path) -> None:
    head = {"program": "inference-econ", "version": "0.2.0", "command": "recommend", "options": {"apart": True}}
    choice = {"serving": "apart", "played": True, "in_flight_per_instance": 3.0, "probability_ttft": 0.7}
    (tmp_path / "old.json").write_text(json.dumps({"asked": head, "choices": [choice]}), encoding="utf-8")
    kept = ie.load_answer(tmp_path / "old.json")
    assert kept.options == {"disaggregated": True}
    assert kept.to_dict()["choices"] == [
        {"serving": "disaggregated", "is_simulated": True, "concurrency_per_replica": 3.0, "p_ttft_met": 0.7}
    ]
