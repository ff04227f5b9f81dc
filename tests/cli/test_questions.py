"""``frontier`` and ``explain``: one model on one chip."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import inference_econ as ie
from tests import asking
from tests.cli.conftest import Command

SUBJECT = ("frontier", "llama_3_8b", "h100_sxm", "--max-accelerators", 4)


def _json(text: str) -> dict[str, object]:
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_the_main_job_as_the_readme_shows_it(command: Command, tmp_path: Path) -> None:
    outcome = command("frontier", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--plot", "frontier.svg")
    assert outcome.code == 0
    title, *_ = outcome.out.splitlines()
    assert title.startswith("Llama 3.1 70B on NVIDIA H100 SXM5 80GB: weights fp8")
    for head in ("tokens/s per user", "$/M output tokens", "GPUs", "layout", "batch", "MFU %", "mostly"):
        assert head in outcome.out
    assert "KV cache reads" in outcome.out
    assert "* maximises speed^3 / cost" in outcome.out
    # The drawing in the terminal.
    assert outcome.out.count("⠤") + outcome.out.count("⠒") > 20
    assert (tmp_path / "frontier.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert "wrote frontier.svg" in outcome.err


def test_json_of_a_frontier(command: Command) -> None:
    outcome = command(*SUBJECT, "--weights", "fp8", "--format", "json")
    assert outcome.code == 0
    assert outcome.err == ""
    record = _json(outcome.out)
    assert {"model", "hardware", "assumptions", "points", "sources"} <= record.keys()
    points = record["points"]
    assert isinstance(points, list)
    names = {
        *("tokens_per_second_per_user", "dollars_per_million_output_tokens", "accelerators", "batch"),
        *("layout", "mfu", "limited_by"),
    }
    assert all(names <= point.keys() for point in points)
    speeds = [point["tokens_per_second_per_user"] for point in points]
    assert speeds == sorted(speeds)
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=2000, osl=500), weights="fp8", max_accelerators=4)
    assert speeds == front.tokens_per_second.tolist()
    assert isinstance(record["sources"], list)
    assert all(source["ref"] and source["where"] for source in record["sources"])


def test_csv_and_markdown_of_a_frontier(command: Command) -> None:
    rows = list(csv.DictReader(io.StringIO(command(*SUBJECT, "--format", "csv").out)))
    assert len(rows) > 10
    assert float(rows[-1]["tokens_per_second_per_user"]) > float(rows[0]["tokens_per_second_per_user"])
    lines = command(*SUBJECT, "--format", "markdown").out.splitlines()
    assert lines[1] == "| --- | --- | --- | --- | --- | --- | --- | --- |"
    assert len({line.count("|") for line in lines}) == 1


def test_quiet_leaves_the_drawing_and_remarks_out(command: Command) -> None:
    loud, quiet = command(*SUBJECT), command(*SUBJECT, "--quiet")
    assert loud.code == quiet.code == 0
    assert "maximises speed^3" in loud.out
    assert "maximises speed^3" not in quiet.out
    assert len(quiet.out.splitlines()) < len(loud.out.splitlines()) - 15
    written = command(*SUBJECT, "--quiet", "-o", "a.txt", "--plot", "a.png")
    assert (written.code, written.out, written.err) == (0, "", "")


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_output_goes_to_a_file(command: Command, tmp_path: Path, form: str) -> None:
    printed = command(*SUBJECT, "--format", form)
    written = command(*SUBJECT, "--format", form, "-o", "result.txt")
    assert (written.code, written.out, written.err) == (0, "", "wrote result.txt\n")
    assert (tmp_path / "result.txt").read_text(encoding="utf-8") == printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["result.txt"]


@pytest.mark.parametrize(
    "arguments",
    [SUBJECT, ("explain", "llama_3_8b", "h100_sxm"), ("table", "paper/table_1")],
    ids=["frontier", "explain", "scenario"],
)
@pytest.mark.parametrize(
    ("suffix", "form"), [(".csv", "csv"), (".JSON", "json"), (".md", "markdown"), (".txt", "table"), ("", "table")]
)
def test_the_name_of_the_file_decides_the_form(
    command: Command, tmp_path: Path, arguments: tuple[object, ...], suffix: str, form: str
) -> None:
    assert command(*arguments, "-o", f"result{suffix}").err == f"wrote result{suffix}\n"
    printed = command(*arguments, "--format", form).out
    assert (tmp_path / f"result{suffix}").read_text(encoding="utf-8") == printed


def test_a_form_that_is_given_counts_whatever_the_file_is_called(command: Command, tmp_path: Path) -> None:
    for form in ("table", "json"):
        assert command(*SUBJECT, "--format", form, "-o", "result.csv").code == 0
        assert (tmp_path / "result.csv").read_text(encoding="utf-8") == command(*SUBJECT, "--format", form).out
    said = " ".join(command("frontier", "--help").out.split())
    assert "[default: (as the name after -o ends: .json, .csv, .md; else table)]" in said


def test_a_file_has_no_escape_codes_of_the_terminal(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in command("explain", "llama_3_8b", "h100_sxm").out
    assert command("explain", "llama_3_8b", "h100_sxm", "-o", "a.txt").code == 0
    assert "\x1b[" not in (tmp_path / "a.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--weights", "int8"], {"weights": "int8"}),
        (["--activations", "fp16", "--weights", "fp16"], {"activations": "fp16"}),
        (["--kv", "fp8"], {"kv": "fp8"}),
        (["--context", "123"], {"context": 123.0}),
        (["--isl", "100", "--osl", "50"], {"context": 125.0}),
        (["--osl", "1000"], {"context": 2500.0}),
        (["--price", "1.5"], {"dollars_per_accelerator_hour": 1.5}),
        (["--assumptions", "ideal"], {"assumptions": "ideal"}),
        (["--grid", "paper"], {"assumptions": "paper"}),
        (["--grid", "paper", "--assumptions", "paper_may22"], {"assumptions": "paper_may22"}),
    ],
)
def test_options_reach_the_question(command: Command, options: list[str], expected: dict[str, object]) -> None:
    record = _json(command(*SUBJECT, *options, "--format", "json").out)
    assert expected.items() <= record.items()


def _points(command: Command, *options: object) -> list[dict[str, float]]:
    outcome = command(*SUBJECT, *options, "--format", "json")
    assert outcome.code == 0, outcome.err
    points = _json(outcome.out)["points"]
    assert isinstance(points, list)
    return points


def _layouts(points: list[dict[str, float]], degree: str) -> set[float]:
    return {dict(point["layout"])[degree] for point in points}  # type: ignore[call-overload]


def test_pipelines_can_be_left_out(command: Command) -> None:
    assert _layouts(_points(command, "--no-pipeline"), "pp") == {1.0}
    assert len(_layouts(_points(command, "--grid", "paper", "--pipeline"), "pp")) > 1


def test_limits_of_size_and_demand(command: Command) -> None:
    assert max(point["accelerators"] for point in _points(command, "--max-accelerators", 2)) == 2
    for point in _points(command, "--max-throughput", 500):
        assert point["batch"] * point["tokens_per_second_per_user"] <= 500 * (1 + 1e-12)


def test_pinned_degrees(command: Command) -> None:
    options = ("--tp", 2, "--dp", 2, "--pp", 1, "--batch", 100)
    (point,) = _points(command, *options)
    assert (point["accelerators"], point["batch"]) == (4.0, 100.0)
    (explained,) = (command("explain", "llama_3_8b", "h100_sxm", *options, "--context", 2250, "--format", "json"),)
    assert point["tokens_per_second_per_user"] == pytest.approx(1 / _json(explained.out)["step_seconds"], rel=1e-12)  # type: ignore[operator]
    assert _layouts(_points(command, "--accelerators", 3, "--grid", "paper"), "pp") >= {1.0}
    (point,) = _points(command, "--grid", "paper", "--accelerators", 1.5, "--batch", 2.5, "--no-pipeline")
    assert (point["accelerators"], point["batch"]) == (1.5, 2.5)
    moe = command("frontier", "gpt_oss_20b", "h100_sxm", "--ep", 4, "--tp", 2, "--format", "json")
    points = _json(moe.out)["points"]
    assert isinstance(points, list)
    assert _layouts(points, "ep") == {4.0}
    assert _layouts(points, "tp") == {2.0}


def test_one_pinned_point_is_drawn_too(command: Command) -> None:
    outcome = command(*SUBJECT, "--tp", 1, "--dp", 1, "--pp", 1, "--batch", 7, "--plot", "a.svg")
    assert outcome.code == 0, outcome.err
    assert "1 of 1 points" in outcome.out


def test_a_larger_link_domain_is_a_what_if(command: Command) -> None:
    subject = ("frontier", "llama_3_70b", "h100_sxm", "--tp", 16, "--dp", 1, "--pp", 1, "--format", "json")
    wide, named, base = (
        _json(command(*subject, *options).out)
        for options in (("--domain", 16), ("--set", "hardware.link_domain=16"), ())
    )
    assert wide == named
    speeds = [one["points"][-1]["tokens_per_second_per_user"] for one in (wide, base)]  # type: ignore[index]
    assert speeds[0] > speeds[1]
    table = command("frontier", "llama_3_8b", "h100_sxm", "--domain", 4, "--max-accelerators", 2)
    assert "What if: --set hardware.link_domain=4." in table.out
    explained = ("explain", "llama_3_70b", "h100_sxm", "--tp", 16, "--format", "json")
    steps = [_json(command(*explained, *options).out)["step_seconds"] for options in (("--domain", 16), ())]
    assert float(str(steps[0])) < float(str(steps[1]))


def test_all_plans(command: Command) -> None:
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=2000, osl=500), max_accelerators=4)
    record = _json(command(*SUBJECT, "--all", "--format", "json").out)
    plans = record["plans"]
    assert isinstance(plans, list)
    names = {"tokens_per_second_per_user", "dollars_per_million_output_tokens", "accelerators", "batch", "layout"}
    assert all(names | {"dominated"} <= plan.keys() for plan in plans)
    best = {plan["tokens_per_second_per_user"] for plan in plans if not plan["dominated"]}
    assert sorted(best) == pytest.approx(front.tokens_per_second.tolist(), rel=1e-12)
    assert isinstance(record["infeasible"], dict)
    rows = list(csv.DictReader(io.StringIO(command(*SUBJECT, "--all", "--format", "csv").out)))
    assert len(rows) == len(plans)
    assert {row["dominated"] for row in rows} == {"True", "False"}
    for form in ("table", "markdown"):
        text = command(*SUBJECT, "--all", "--format", form).out
        assert "feasible, dominated by another plan" in text
        assert "infeasible: weights and KV cache exceed the memory" in text


def test_speculative_decoding(command: Command) -> None:
    subject = ("frontier", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--max-accelerators", 8, "--format", "json")
    plain = _json(command(*subject).out)["points"]
    drafted = _json(command(*subject, "--draft", "llama_3_8b", "--acceptance", 0.9, "--max-draft", 3).out)["points"]
    assert isinstance(plain, list)
    assert isinstance(drafted, list)
    assert drafted[-1]["tokens_per_second_per_user"] > 1.2 * plain[-1]["tokens_per_second_per_user"]
    assert 1 <= drafted[-1]["layout"]["draft_tokens"] <= 3


def test_what_ifs(command: Command) -> None:
    base = _points(command)
    faster = _points(command, "--set", "hardware.hbm_bytes_per_second=6.7 TB/s")
    assert faster[-1]["tokens_per_second_per_user"] > base[-1]["tokens_per_second_per_user"]
    both = command(
        *SUBJECT,
        *("--set", "model.blocks.0.layers=16", "--set", "assumptions.host.launch=0 us", "--format", "json"),
    )
    record = _json(both.out)
    assert isinstance(record["sources"], list)
    changed = {source["field"] for source in record["sources"] if source["where"].startswith("--set")}
    assert changed == {"blocks.0.layers", "host.launch"}


def test_users_own_files_need_no_registration(command: Command, tmp_path: Path) -> None:
    from inference_econ.inputs import catalog

    for kind, name in (("hardware", "h100_sxm"), ("models", "llama_3_8b")):
        text = (catalog.folder(kind) / f"{name}.yaml").read_text(encoding="utf-8")
        (tmp_path / f"my_{kind}.yaml").write_text(text.replace("name: ", "name: My ", 1), encoding="utf-8")
    record = _json(command("frontier", "my_models.yaml", "./my_hardware.yaml", "--format", "json").out)
    assert record["model"] == "My Llama 3.1 8B"
    assert record["hardware"] == "My NVIDIA H100 SXM5 80GB"


def test_scientific_notation_is_a_number(command: Command, tmp_path: Path) -> None:
    from inference_econ.inputs import catalog

    text = (catalog.folder("hardware") / "h100_sxm.yaml").read_text(encoding="utf-8")
    old = "hbm_bytes_per_second: 3.35 TB/s"
    assert text.count(old) == 1
    (tmp_path / "chip.yaml").write_text(text.replace(old, "hbm_bytes_per_second: 3.35e12"), encoding="utf-8")
    assert command(*SUBJECT, "--format", "csv").out == command(
        "frontier", "llama_3_8b", "chip.yaml", "--max-accelerators", 4, "--format", "csv"
    ).out.replace("chip.yaml", "h100_sxm")


def test_narrow_weights_run_on_the_next_wider_unit_and_the_table_says_so(command: Command) -> None:
    outcome = command("frontier", "llama_3_8b", "a100_sxm_80", "--weights", "fp8", "--max-accelerators", 1)
    assert outcome.code == 0
    assert "fp8 weights run on the bf16 units of this chip." in outcome.out
    explained = command("explain", "llama_3_8b", "a100_sxm_80", "--weights", "fp8")
    assert "fp8 weights run on the bf16 units of this chip." in explained.out


def test_the_picture_is_no_part_of_the_result(command: Command, tmp_path: Path) -> None:
    with_picture = command(*SUBJECT, "--format", "json", "--plot", "a.pdf")
    assert with_picture.out == command(*SUBJECT, "--format", "json").out
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


# explain


def test_explain_prints_parts_a_bar_and_memory(command: Command) -> None:
    outcome = command("explain", "llama_3_70b", "h100_sxm", "--tp", 8, "--batch", 32)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.startswith("One decode step of Llama 3.1 70B on 8 x NVIDIA H100 SXM5 80GB\n")
    for words in (
        "weight reads",
        "all-reduce latency",
        "kernel launches",
        "Layout tp8, batch 32, context 2000",
        "Limited by weight reads",
        "tokens/s per user",
        "GB of KV cache",
        "█",
    ):
        assert words in outcome.out
    quiet = command("explain", "llama_3_70b", "h100_sxm", "--tp", 8, "--batch", 32, "--quiet").out
    assert "█" not in quiet


def test_explain_as_json_csv_and_markdown(command: Command, tmp_path: Path) -> None:
    subject = ("explain", "mixtral_8x22b", "h100_sxm", "--tp", 4, "--pp", 2, "--ep", 2, "--batch", 8, "--context", 500)
    record = _json(command(*subject, "--format", "json").out)
    assert isinstance(record["layout"], dict)
    degrees = {"tp": 4.0, "dp": 1.0, "pp": 2.0, "ep": 2.0, "moe_tp": 2.0, "stage": 4.0, "cut": "1d"}
    assert record["layout"] == degrees
    assert record["batch"] == 8.0
    assert record["context"] == 500.0
    parts = record["seconds_by_part"]
    assert isinstance(parts, dict)
    assert sum(parts.values()) == pytest.approx(record["step_seconds"], rel=1e-12)
    rows = list(csv.DictReader(io.StringIO(command(*subject, "--format", "csv").out)))
    assert rows[-1]["part"] == "step"
    assert float(rows[-1]["ms"]) == pytest.approx(1e3 * float(str(record["step_seconds"])), abs=5e-4)
    assert command(*subject, "--format", "markdown").out.startswith("| part | ms | share % |\n")
    assert command(*subject, "-o", "a.txt").err == "wrote a.txt\n"
    assert "weight reads" in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_explain_shows_operators_and_memory_unless_told_not_to(command: Command) -> None:
    subject = ("explain", "llama_3_70b", "h100_sxm", "--tp", 8)
    shown = command(*subject).out
    for words in ("FLOP/B", "295 bf16", "attention output", "norms", "Memory of an accelerator", "head-room"):
        assert words in shown
    assert shown == command(*subject, "--operators").out
    assert "FLOP/B" not in command(*subject, "--no-operators").out
    assert "| operator | times |" in command(*subject, "--format", "markdown").out
    assert command(*subject, "--format", "csv", "--operators").out.startswith("name,unit,repeats,flop,moved_bytes,")
    record = _json(command(*subject, "--format", "json").out)
    formats = record["formats"]
    assert isinstance(formats, dict)
    assert set(formats.values()) == {"bf16"}
    refused = command(*subject, "--kv", "mxfp4")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: NVIDIA H100 SXM5 80GB cannot hold a KV cache of mxfp4: it has no fp4 units;")


def test_wide_tables_are_not_folded_in_files_and_lose_their_lines_in_narrow_terminals(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = ("explain", "gpt_oss_120b", "h100_sxm", "--tp", 2, "--quiet", "--assumptions", "deployable")

    def row() -> str:
        return next(line for line in command(*subject).out.splitlines() if "attention (last 128)" in line)

    assert len(row()) <= 118
    monkeypatch.setenv("COLUMNS", "90")
    assert len(row()) <= 90
    assert "│" not in row()
    assert row().split()[-2:] == ["launch", "0"]
    monkeypatch.delenv("COLUMNS")
    assert row().endswith("│ launch │      0 │")


def test_explain_options(command: Command) -> None:
    record = _json(
        command(
            *("explain", "llama_3_8b", "tpu_v7", "--weights", "fp8", "--assumptions", "ideal", "--price", "2"),
            *("--set", "hardware.hbm_bytes_per_second=1 TB/s", "--format", "json"),
        ).out
    )
    assert record["assumptions"] == "ideal"
    assert record["weights"] == "fp8"
    # 8.0 GB less the input embedding of 0.5 GB, and a cache of 0.26 GB, at 1 TB/s; nothing else.
    assert float(str(record["step_seconds"])) == pytest.approx(7.77e-3, rel=0.01)
    assert float(str(record["dollars_per_million_output_tokens"])) == pytest.approx(
        float(str(record["step_seconds"])) * 2 / 3600 * 1e6, rel=1e-12
    )
    assert "no price known" in command("explain", "llama_3_8b", "tpu_v7").out
