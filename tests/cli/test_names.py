"""Names that people have, on the command line: what was meant is said beside the answer."""

from __future__ import annotations

from tests.cli.conftest import Command

EXPLAIN = ("--tp", 2, "--weights", "fp8")


def test_names_that_people_have_get_the_same_answer(command: Command) -> None:
    plain = command("explain", "qwen3_32b", "h100_sxm", *EXPLAIN)
    named = command("explain", "Qwen/Qwen3-32B", "h100", *EXPLAIN)
    assert (named.code, named.out) == (0, plain.out)
    assert named.err == plain.err + "'h100' is taken as h100_sxm (NVIDIA H100 SXM5 80GB), not h100_nvl or h100_pcie\n"


def test_launch_takes_them_too(command: Command) -> None:
    asked = ("--to", "vllm", "--request-rate", 5, "--tpot", "50 ms", "--tp", 2, "--dp", 1, "--pp", 1)
    plain = command("launch", "qwen3_32b", "h100_sxm", *asked)
    assert plain.code == 0
    named = command("launch", "Qwen/Qwen3-32B-Instruct", "H100-SXM", *asked)
    assert named.out == plain.out.replace("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-Instruct")  # what was typed is started
    assert "'Qwen/Qwen3-32B-Instruct' is taken as qwen3_32b" in named.err
