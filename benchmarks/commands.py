"""Time complete commands relative to an interpreter that imports numpy, and the web page.

``python -m benchmarks.commands`` runs all commands in turn, several times, and uses the best time of each, so that
other load affects all equally. It then times the commands that take longer, and the page. It takes about ten minutes,
and fails only if a command fails. A loop of ten million steps shows the speed of the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import explorer

PROGRAM = Path(sys.executable).with_name("inference-econ")


@dataclass(frozen=True)
class Case:
    """Command and its limit."""

    asked: str
    """Command line without the program."""
    goal: float | None = None
    """Limit relative to the interpreter [1]."""


CASES = (
    Case("--help"),
    Case("paper run paper/figure_2", 4.5),
    Case("paper run paper/figure_6"),
    Case("frontier llama_3_70b h100_sxm --weights fp8", 5.0),
    Case("frontier deepseek_v3 gb200_nvl72 --isl 2000 --osl 500", 16.25),
    Case("frontier deepseek_v3 gb200_nvl72 --disaggregated --isl 2000 --osl 500", 20.0),
    Case("recommend qwen3_32b h200_sxm --request-rate 20 --ttft 1000 --tpot 30", 12.0),
    Case("recommend qwen3_32b h200_sxm --gpus 8 --isl 2000 --osl 500 --ttft 1000 --tpot 30", 12.5),
    Case("recommend deepseek_v3 gb200_nvl72 --gpus 72 --isl 2000 --osl 500 --ttft 1000 --tpot 30", 37.5),
)
#: Programs that show the speed of the machine; times of commands are divided by those of the last one.
REFERENCES = {
    "ten million steps of x += i & 7": "x = 0\nfor i in range(10_000_000): x += i & 7",
    "python -c 'import numpy'": "import numpy",
}
#: Commands that take longer, and are timed once. The last one is a sweep of 200 frontiers.
LONGER = (
    Case("compare llama_3_70b --on h100_sxm --on h200_sxm --on b200", 31.25),
    Case("load llama_3_70b h100_sxm --tp 8 --rates 1,5", 31.25),
    Case("report 'recommend llama_3_70b h100_sxm --request-rate 20 --ttft 1000 --tpot 30' -o report.html", 31.25),
    Case("sensitivity llama_3_70b h100_sxm --weights fp8", 31.25),
    Case("paper claims", 31.25),
    Case("recommend minimax_m2_5 h200_sxm --engine vllm --kv bf16 --agents 500 --traffic coding_agent", 50.0),
    Case("paper reproduce", 125.0),
    Case("sweep sweep.yaml -o swept --yes", 150.0),
)
#: Sweep of the last command, and its number of frontiers [1].
SWEEP = """
name: Two hundred frontiers
description: Five models on five GPUs under eight workloads.
ask:
  kind: sweep
  common: {weights: fp8, price: on_demand, arrangement: aggregated, speculate: false}
  axes:
    isl: [512, 1024, 4096, 8192]
    osl: [256, 1024]
    model: [llama_3_8b, llama_3_70b, qwen3_32b, gpt_oss_120b, deepseek_v3]
    hardware: [h100_sxm, h200_sxm, b200, mi300x, mi355x]
sources:
  ask: {ref: user, where: a benchmark, kind: assumed}
"""
FRONTIERS = 200
#: Queries that aiconfigurator 0.12 ran once: commands, its time and the interpreter's on the same machine [s], and the
#: required speed ratio [1]. It runs again only with its option, since it takes minutes and hundreds of megabytes.
RECORDED = (
    ("Qwen3-32B recommendation", CASES[7:8], 7.65, 0.08, 4.0),
    ("DeepSeek-V3 on NVL72", CASES[8:], 47.6, 0.08, 15.0),
)
#: Equivalent aiconfigurator commands, for all engines, in the order of :data:`RECORDED`.
THEIRS = (
    "cli default --backend auto --model-path Qwen/Qwen3-32B --system h200_sxm --total-gpus 8 "
    "--isl 2000 --osl 500 --ttft 1000 --tpot 30",
    "cli default --backend auto --model-path deepseek-ai/DeepSeek-V3 --system gb200 --total-gpus 72 "
    "--isl 2000 --osl 500 --ttft 1000 --tpot 30",
)
#: Scenario, the same list of frontiers in the published code of the study, and the required speed ratio [1].
PUBLISHED = (CASES[2], "gpus_comparison", 25.0)
#: Program that computes a list of frontiers; the two packages that only other functions use may be missing.
THE_STUDY = """
import importlib, sys
from pathlib import Path
from unittest.mock import MagicMock
for name in ("statsmodels", "statsmodels.api", "sympy"):
    try:
        importlib.import_module(name)
    except ImportError:
        sys.modules[name] = MagicMock()
path = Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
code = importlib.import_module(path.stem)
wanted = getattr(code, sys.argv[2]).comparison_list
fronts = code.pareto_fronts(wanted, code.token_latency_seconds_default, use_pp=True, overall_progress=MagicMock())
assert len(fronts) == len(wanted)
"""


@dataclass(frozen=True)
class Times:
    """Shortest of several runs [s], and their least peak memory [MB]."""

    wall: float = float("inf")
    cpu: float = float("inf")
    megabytes: float = float("inf")

    def or_shorter(self, other: Times) -> Times:
        """Elementwise minimum."""
        return Times(min(self.wall, other.wall), min(self.cpu, other.cpu), min(self.megabytes, other.megabytes))


def timed(command: Sequence[str | Path]) -> Times:
    """Time one run of a command.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sweep.yaml").write_text(SWEEP)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(map(str, command)))
    kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Times(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, kilobytes * 1.024e-3)


def best(commands: Sequence[Sequence[str | Path]], rounds: int) -> list[Times]:
    """Shortest run of each command, over rounds that run each once."""
    shortest = [Times()] * len(commands)
    for _ in range(rounds):
        shortest = [times.or_shorter(timed(command)) for times, command in zip(shortest, commands, strict=True)]
    return shortest


def main(arguments: list[str] | None = None) -> int:
    """Run all commands and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commands", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command; the best counts (default: 3)")
    parser.add_argument(
        "--aiconfigurator", metavar="PROGRAM", help="run it in the same run, once: .venv-scoreboard/bin/aiconfigurator"
    )
    parser.add_argument(
        "--published", metavar="FILE", help="run the code of the study as well, once: inference_economics_notebook.py"
    )
    asked = parser.parse_args(arguments)
    rounds, program = asked.rounds, asked.aiconfigurator
    commands: list[Sequence[str | Path]] = [[sys.executable, "-c", text] for text in REFERENCES.values()]
    commands += [[PROGRAM, *shlex.split(case.asked), *(["--quiet"] if case.goal else [])] for case in CASES]
    console = Console(width=120)
    load = os.getloadavg()[0]
    with console.status("commands in turn"):
        shortest = best(commands, rounds)
    numpy, cases = shortest[1], dict(zip(CASES, shortest[len(REFERENCES) :], strict=True))
    for case in LONGER:
        with console.status(case.asked):
            cases[case] = timed([PROGRAM, *shlex.split(case.asked), "--quiet"])

    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start, {date.today()}"
    table = Table(title=f"Whole commands, best of {rounds} ({machine})", padding=0)
    for heading in ("command", "s", "CPU s", "MB", "over numpy", "CPU over numpy", "goal"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    rows = [*zip(map(Case, REFERENCES), shortest, strict=False), *cases.items()]
    for case, times in rows:
        ratios = (f"{times.wall / numpy.wall:.1f}", f"{times.cpu / numpy.cpu:.1f}")
        wanted = f"{case.goal:g}" if case.goal else ""
        table.add_row(case.asked, f"{times.wall:.2f}", f"{times.cpu:.2f}", f"{times.megabytes:.0f}", *ratios, wanted)
    console.print(table)
    each = (cases[LONGER[-1]].cpu - cases[CASES[0]].cpu) / FRONTIERS
    console.print(
        f"A sweep of 10,000 frontiers: {1e4 * each / 60:.1f} min of CPU ({each / numpy.cpu:.2f} x numpy each)"
    )
    if asked.published is not None:
        case, name, goal = PUBLISHED
        theirs = timed([sys.executable, "-c", THE_STUDY, Path(asked.published).resolve(), name]).cpu
        ratio = theirs / cases[case].cpu
        console.print(
            f"{case.asked}: {ratio:.0f} x as fast as the published code (CPU: {theirs:.3g} s; goal {goal:g} x)"
        )
    for (name, compared, theirs, their_interpreter, goal), question in zip(RECORDED, THEIRS, strict=True):
        ours = sum(cases[case].cpu for case in compared) / numpy.cpu
        how = "recorded"
        if program is not None:
            theirs, their_interpreter, how = (
                timed([program, *shlex.split(question)]).cpu,
                numpy.cpu,
                "CPU, every engine",
            )
        ratio = theirs / their_interpreter / ours
        console.print(f"{name}: {ratio:.0f} x as fast as aiconfigurator 0.12 ({how}: {theirs:.3g} s; goal {goal:g} x)")
    return explorer.measure(console)


if __name__ == "__main__":
    sys.exit(main())
