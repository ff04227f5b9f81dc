"""Names of commands (old names, synonyms, guesses, misspellings) and catalog entries by name alone."""

from __future__ import annotations

import re

import pytest

from inference_econ.requests import COMMANDS
from inference_econ.requests.tables import HIDDEN
from inference_econ.requests.words import current_words
from tests.commands import Command

#: Old command lines, and their new forms.
OLD = {
    "hour-cost h100_sxm": "gpu-cost h100_sxm",
    "models": "list models",
    "models llama_3_8b": "show model llama_3_8b",
    "hardware --prices": "list gpus --prices",
    "what-if llama_3_8b h100_sxm": "sensitivity llama_3_8b h100_sxm",
    "intensity llama_3_8b h100_sxm": "explain --over batch llama_3_8b h100_sxm",
    "intensity llama_3_8b h100_sxm --over prompt": "explain llama_3_8b h100_sxm --over prompt",
    "table paper/table_1": "paper table paper/table_1",
    "mcp": "serve --mcp",
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_is_the_new_one_and_says_so_once(old: str) -> None:
    told: list[str] = []
    assert current_words(old.split(), told.append) == OLD[old].split()
    assert [text.split("'")[1] for text in told] == [old.split()[0]]


def test_at_most_27_names_are_listed() -> None:
    assert len({name.split()[0] for name in COMMANDS if name not in HIDDEN}) <= 27


@pytest.mark.parametrize(
    ("words", "compared"),
    [
        ("llama_3_8b h100 h200 --tp 1", "llama_3_8b --on h100 --on h200 --tp 1"),
        ("llama_3_8b qwen3_32b h100_sxm", "llama_3_8b qwen3_32b --on h100_sxm"),
        ("llama_3_8b h100_sxm --kv bf16 --kv fp8", "llama_3_8b --on h100_sxm --kv bf16 --kv fp8"),
        ("llama_3_8b h100_sxm --speed 50", "llama_3_8b --on h100_sxm --speed 50"),
        ("llama_3_8b h100_sxm --engine vllm --engine sglang --set hardware.watts=1", None),
    ],
)
def test_a_frontier_of_several_is_a_comparison(words: str, compared: str | None) -> None:
    now = ["frontier", *words.split()] if compared is None else ["compare", *compared.split()]
    assert current_words(["frontier", *words.split()], pytest.fail) == now


def test_an_old_name_answers_with_a_note(command: Command) -> None:
    outcome = command("hour-cost", "h100_sxm")
    assert outcome.code == 0
    assert "note: 'hour-cost' is now 'gpu-cost'; the old name works until 0.3.0" in outcome.err
    assert outcome.out == command("gpu-cost", "h100_sxm").out
    assert "note" not in command("hour-cost", "h100_sxm", "--quiet").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recomend"], "there is no command 'recomend'; did you mean 'recommend'?"),
        (["size"], "there is no command 'size'; type 'inference-econ recommend'"),
        (["qqqq"], "there is no command 'qqqq'; 'inference-econ --help' lists all"),
        (["paper", "tabel"], "paper tabel: there is no such command; after 'paper': reproduce, table"),
        (["show", "no_such_entry"], "the catalog has no entry of this name; name the kind, one of model, gpu"),
        (["sensitivity", "llama_3_8b", "h100_sxm", "h200_sxm"], "several GPUs need --vary"),
        (["sensitivity", "llama_3_8b", "h100_sxm", "--samples", "64"], "--samples goes with --vary"),
        (["explain", "llama_3_8b", "h100_sxm", "--to", "64"], "--to goes with --over"),
        (["explain", "llama_3_8b", "h100_sxm", "--over", "batch", "--memory"], "--memory is of one step"),
        (["serve", "--mcp", "--port", "8000"], "--port is of the page; leave it out with --mcp"),
        (["estimate", "llama_3_8b", "h100_sxm", "--ttft", "100"], "--ttft goes with --request-rate"),
        (
            ["estimate", "llama_3_8b", "h100_sxm", "--request-rate", "1", "--concurrency", "4"],
            "give either --concurrency or --request-rate, not both",
        ),
    ],
)
def test_names_and_options_that_do_not_go_are_refused(refused: Command, words: list[str], message: str) -> None:
    assert message in " ".join(refused(*words).err.split())


def test_an_entry_is_shown_by_its_name_alone(command: Command) -> None:
    assert command("show", "h100_sxm").out == command("show", "gpu", "h100_sxm").out


def test_groups_list_their_commands(command: Command) -> None:
    assert "reproduce" in command("paper", "--help").out
    assert "gpus" in command("list", "--help").out


def test_options_have_the_spellings_of_other_tools(command: Command) -> None:
    subject = ("price", "llama_3_8b", "h100_sxm", "--tp", 1)
    theirs = ("--input-len", 1000, "--output-len=200", "--quantization", "fp8", "--backend", "vllm", "--rps", 2)
    ours = ("--isl", 1000, "--osl", 200, "--weights", "fp8", "--engine", "vllm", "--request-rate", 2)
    assert command(*subject, *theirs).out == command(*subject, *ours).out


def _options(text: str) -> int:
    """Return the options that a help page lists under its headings."""
    return len(re.findall(r"^  -", re.split(r"^\w[\w, ]*:\n", text, maxsplit=1, flags=re.MULTILINE)[1], re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_has_at_most_20_options_and_the_other_all(command: Command, name: str) -> None:
    count = sum(bool(parameter.spelled) for parameter in COMMANDS[name].parameters.values())
    short = command(*name.split(), "--help").out
    assert _options(short) <= 20
    if "--help-all" in short:
        assert _options(command(*name.split(), "--help-all").out) == count + 2
    else:
        assert _options(short) == count + 1


def test_plan_is_recommend(command: Command) -> None:
    arguments = ("llama_3_8b", "h100_sxm", "--request-rate", "5", "--tp", "1", "--together", "--engine", "vllm")
    assert command("plan", *arguments).out == command("recommend", *arguments).out
