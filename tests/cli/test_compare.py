"""``compare``: several frontiers side by side."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

import inference_econ as ie
from tests import asking
from tests.cli.conftest import Command

SUBJECT = ("compare", "llama_3_8b", "--on", "h100_sxm", "--max-accelerators", 2)


def test_hardware_side_by_side_in_a_table_and_a_figure(command: Command, tmp_path: Path) -> None:
    outcome = command(*SUBJECT, "--on", "h200_sxm", "--weights", "fp8", "--plot", "compare.svg")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("llama_3_8b, fp8\n")
    for words in ("h100_sxm", "h200_sxm", "$ at ", "fastest", "layout"):
        assert words in outcome.out
    assert "NVIDIA H200 SXM5 141GB" in (tmp_path / "compare.svg").read_text(encoding="utf-8")
    assert outcome.err == "wrote compare.svg\n"


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (["--hardware", "h200_sxm"], ["h100_sxm", "h200_sxm"]),
        (["--weights", "bf16", "--weights", "fp8"], ["bf16", "fp8"]),
        (["--kv", "bf16", "--kv", "fp8"], ["bf16", "fp8"]),
        (["--activations", "bf16", "--activations", "fp8"], ["bf16", "fp8"]),
        (["--assumptions", "deployable", "--assumptions", "ideal"], ["deployable", "ideal"]),
        (["--series", "fast: hardware.hbm_bytes_per_second=6.7 TB/s"], ["llama_3_8b on h100_sxm", "fast"]),
        (["--series", "2d: assumptions.layout.tensor_layouts=[1d, 2d], tp=2"], ["llama_3_8b on h100_sxm", "2d"]),
    ],
)
def test_what_is_repeated_is_compared(command: Command, options: list[str], labels: list[str]) -> None:
    outcome = command(*SUBJECT, *options, "--format", "json")
    assert outcome.code == 0, outcome.err
    series = json.loads(outcome.out)["series"]
    assert [one["label"] for one in series] == labels
    assert all(one["points"] for one in series)


def test_proposers_side_by_side(command: Command) -> None:
    outcome = command(*SUBJECT, "--eagle", "--series", "n-grams: ngram=true, acceptance=0.2", "--format", "json")
    assert outcome.code == 0, outcome.err
    head, grams = json.loads(outcome.out)["series"]
    fastest = [max(point["tokens_per_second_per_user"] for point in one["points"]) for one in (head, grams)]
    assert fastest[0] > 1.2 * fastest[1]


def test_models_side_by_side(command: Command) -> None:
    outcome = command(
        "compare", "llama_3_8b", "qwen3_8b", "--on", "h100_sxm", "--max-accelerators", 2, "--format", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert list(dict.fromkeys(row["series"] for row in rows)) == ["llama_3_8b", "qwen3_8b"]
    front = asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(isl=2000, osl=500), max_accelerators=2)
    assert float(rows[0]["dollars_per_million_output_tokens"]) == pytest.approx(front.dollars[0])


def test_prices_speeds_pins_and_what_ifs(command: Command) -> None:
    outcome = command(
        *(*SUBJECT, "--on", "h200_sxm", "--price", "h100_sxm=2", "--price", "h200_sxm=3", "--format", "json"),
        *(
            "--speed",
            50,
            "--speed",
            20,
            "--tp",
            2,
            "--batch",
            100,
            "--domain",
            2,
            "--set",
            "assumptions.host.launch=0 us",
        ),
    )
    assert outcome.code == 0, outcome.err
    for one, price in zip(json.loads(outcome.out)["series"], (2.0, 3.0), strict=True):
        assert one["dollars_per_accelerator_hour"] == price
        assert [cost["tokens_per_second_per_user"] for cost in one["costs"]] == [20.0, 50.0]
        assert {(point["layout"]["tp"], point["batch"]) for point in one["points"]} == {(2.0, 100.0)}
    both = command(*SUBJECT, "--price", "2.5", "--format", "json")
    assert json.loads(both.out)["series"][0]["dollars_per_accelerator_hour"] == 2.5


def test_a_series_that_fits_nowhere_is_a_row_with_the_reason(command: Command) -> None:
    asked = ("compare", "llama_3_70b", "--on", "l4", "--on", "h100_sxm", "--price", 1, "--max-accelerators", 4)
    table = command(*asked)
    assert table.code == 0
    assert re.search(r"l4 +.*nothing", table.out)
    reason = "l4: nothing fits: Llama 3.1 70B"
    assert reason in table.out
    assert reason in command(*asked, "--format", "markdown").out
    assert "nothing fits: Llama 3.1 70B" in command(*asked, "--format", "csv").out
    first = json.loads(command(*asked, "--format", "json").out)["series"][0]
    assert first["reason"].startswith("nothing fits: Llama 3.1 70B")


def test_markdown_goes_to_a_file(command: Command, tmp_path: Path) -> None:
    outcome = command(*SUBJECT, "--format", "markdown", "-o", "a.md")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "wrote a.md\n")
    assert (tmp_path / "a.md").read_text(encoding="utf-8").startswith("| series | $ at ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare"], "nothing to compare: name models and hardware, or series that name their own"),
        (["compare", "llama_3_8b"], "nothing to compare"),
        (["compare", "llama_3_9b", "--on", "h100_sxm"], "unknown model 'llama_3_9b'; did you mean llama_3_8b"),
        ([*SUBJECT, "--on", "h200"], "'h200' could be h200_nvl"),
        ([*SUBJECT, "--on", "h100_sxm"], "hardware: h100_sxm is given twice"),
        (
            [*SUBJECT, "--price", "x"],
            "'--price': 'x' is neither a number of USD per hour nor a kind",
        ),
        ([*SUBJECT, "--price", "0"], "'--price': 0.0 is not in the range x>0"),
        ([*SUBJECT, "--price", "h100_sxm=x"], "'--price': 'x' is neither a number"),
        ([*SUBJECT, "--price", "b200=2"], "--price b200=...: 'b200' is not among the hardware: h100_sxm"),
        ([*SUBJECT, "--price", "2", "--price", "3"], "'--price': '2': write one price for all, or HARDWARE=PRICE once"),
        ([*SUBJECT, "--series", "a b"], "--series 'a b': write 'LABEL: KEY=VALUE, KEY=VALUE', each key once"),
        ([*SUBJECT, "--series", "a: tp"], "--series 'a: tp': write 'LABEL: KEY=VALUE"),
        ([*SUBJECT, "--series", "a: tp=1, tp=2"], "write 'LABEL: KEY=VALUE, KEY=VALUE', each key once"),
        ([*SUBJECT, "--series", "a: wieghts=fp8"], "--series 'a': unknown key 'wieghts'; did you mean 'weights'"),
        ([*SUBJECT, "--series", "a: weights=fp7"], "--series 'a': weights: got 'fp7'; allowed: 'fp32'"),
        ([*SUBJECT, "--series", "a: model=llama"], "'llama' could be llama_2_70b"),
        ([*SUBJECT, "--series", "a: chip.x=1"], "'chip.x=1': write hardware.FIELD=VALUE"),
        ([*SUBJECT, "--series", "a: tp=2", "--series", "a: tp=1"], "--series 'a: tp=1': the label 'a' is taken"),
        ([*SUBJECT, "--speed", "0"], "'--speed': 0.0 is not in the range x>0"),
        ([*SUBJECT, "--context", "1", "--isl", "1"], "give either --context, or --isl and --osl, not both"),
        ([*SUBJECT, "--plot", "a.gif"], r"a\.gif: a picture's name must end in"),
        (
            ["compare", "llama_3_8b", "--on", "h100_sxm", "--tp", "3"],
            "Llama 3.1 8B cannot be laid out with tp=3: 32 query heads do not split",
        ),
    ],
)
def test_bad_input_is_refused(refused: Command, tmp_path: Path, arguments: list[object], message: str) -> None:
    outcome = refused(*arguments)
    assert re.search(message, outcome.err), outcome.err
    assert list(tmp_path.iterdir()) == []


def test_nothing_fits_at_all(refused: Command) -> None:
    outcome = refused("compare", "llama_3_405b", "--on", "h100_sxm", "--max-accelerators", 2, code=1)
    assert "llama_3_405b on h100_sxm: nothing fits: " in outcome.err


def test_a_what_if_of_a_price_counts_beside_the_kind_of_the_first_chip(command: Command) -> None:
    asked = ("compare", "llama_3_8b", "--on", "h100_sxm", "--on", "a100_sxm_40", "--max-accelerators", 2)
    usual = " ".join(command(*asked).out.split())
    assert "H100 SXM5 80GB at $2.95 per GPU-hour, on-demand, 2026-05; NVIDIA A100 SXM4 40GB at $3.05" in usual
    what_if = "hardware.prices.0.dollars_per_accelerator_hour=2 USD/h"
    changed = " ".join(command(*asked, "--set", what_if).out.split())
    assert "H100 SXM5 80GB at $2 per GPU-hour, on-demand" in changed
