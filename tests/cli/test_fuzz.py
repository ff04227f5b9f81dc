"""Command lines that nobody would write: each is answered in numbers, or refused in words."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
import warnings
from collections.abc import Sequence
from unittest import mock

import click
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

main = importlib.import_module("inference_econ_cli.main")
parameters = importlib.import_module("inference_econ_cli.parameters")

#: Commands, with what each needs; small instances, so that many are tried in a few seconds.
COMMANDS = {
    "recommend": ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "2"),
    "launch": ("llama_3_8b", "h100_sxm", "--to", "vllm", "--max-instance-gpus", "2"),
    "price": ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "2"),
    "load": ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "2"),
    "cache": ("llama_3_8b", "h100_sxm"),
    "frontier": ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "2"),
    "explain": ("mixtral_8x7b", "h200_sxm"),
    "speculate": ("deepseek_v3", "gb200_nvl72", "--mtp", "--tp", "8"),
    "assess": ("llama_3_8b", "h100_sxm", "--gpus", "2", "--tokens-per-second", "50", "--batch", "8"),
    "hour-cost": ("h100_sxm", "--purchase", "30000"),
}
#: Not for chance: files, what plays requests one by one, and what is given already.
LEFT_OUT = {
    "output", "plot", "form", "quiet", "help", "simulate", "max_instance_gpus", "to", "serving", "acceptance_file",
}  # fmt: skip
WHOLE = ("1", "2", "3", "8", "64", "1000", "1000000000", "1" + 310 * "0", "0", "-1", "x")
NUMBERS = ("1", "0.5", "2", "100", "1e5", "1e9", "1e15", "1e-15", "1e300", "1e-300", "0", "-0", "-1", "nan", "inf")
TIMES = ("1 ms", "30 ms", "10", "1e15", "1e-15", "1e300", "0", "soon")
WORDS = (
    "1", "2000", "uniform:1:1e6", "lognormal:2000:0.5", "1e300", "0.9,0.8", "vllm", "sglang", "h100_sxm", "\udcff", "",
)  # fmt: skip
CHANGES = (
    "model.hidden_size=1e15", "model.hidden_size=1", "model.vocabulary=1e300", "hardware.hbm_bytes=1e24",
    "hardware.hbm_bytes_per_second=1e-15", "hardware.link_domain=1000000000", "assumptions.host.launch=1e15",
    "assumptions.chip.math_efficiency=1e-15", "assumptions.serving.prefill_chunk=1", "model." + 1000 * "a." + "a=1",
)  # fmt: skip
_NO_NUMBER = re.compile(r"(?<![\w./:'-])-?(?:nan|inf|infinity|-0(?:\.0+)?)(?![\w.])", re.IGNORECASE)


def _values(parameter: click.Parameter) -> Sequence[str]:
    kind = parameter.type
    if parameter.name == "changes":
        return CHANGES
    if isinstance(kind, click.Choice):
        return [*map(str, kind.choices), "x"]
    if isinstance(kind, click.IntRange):
        return WHOLE
    if isinstance(kind, click.FloatRange):
        return NUMBERS
    return TIMES if isinstance(kind, parameters.Time) else WORDS


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with what it needs, and one to four options of extreme values."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    command = main.app.commands[name]
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and option.name not in LEFT_OUT and option.opts[0] not in COMMANDS[name]
    ]
    line = [name, *COMMANDS[name]]
    for option in draw(st.lists(st.sampled_from(options), min_size=1, max_size=4, unique=True)):
        line.append(option.opts[0])
        if not option.is_flag:
            line.append(draw(st.sampled_from(_values(option))))
    if any(option.name == "form" and name != "launch" for option in command.params):
        line += ["--format", draw(st.sampled_from(("json", "csv", "table", "markdown")))]
    return line


def run(line: Sequence[str]) -> tuple[object, str, str]:
    """Exit code, output and errors of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["inference-econ", *line]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main.run()
    return ended.value.code, out.getvalue(), err.getvalue()


def check(line: Sequence[str]) -> None:
    """Run a command line: an answer has numbers only, a refusal is one message and nothing else."""
    code, out, err = run(line)
    if code == 0:
        assert not _NO_NUMBER.search(out), (line, _NO_NUMBER.search(out))
        if "json" in line:
            json.loads(out)
    else:
        assert code in (1, 2), (line, code, err)
        assert out == ""
        assert err.count("Error: ") == 1, (line, err)


# A command line that fails is shown as it is: to shorten it takes minutes.
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(command_lines())
def test_every_command_line_is_answered_or_refused(line: list[str]) -> None:
    check(line)


def test_an_overflow_that_no_bound_foresaw_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow() -> None:
        warnings.warn("overflow encountered in multiply", RuntimeWarning, stacklevel=1)

    def nothing() -> float:
        return 1 / 0

    def large() -> None:
        raise MemoryError

    for what, said in (
        (overflow, "too large or too small to calculate with; give others (overflow encountered in multiply)"),
        (nothing, "too large or too small to calculate with; give others (division by zero)"),
        (large, "this takes more memory than there is; ask for less"),
    ):
        monkeypatch.setitem(main.app.commands, "explain", click.Command("explain", callback=what))
        code, out, err = run(["explain"])
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert said in err
        assert len(err.splitlines()) == 1
