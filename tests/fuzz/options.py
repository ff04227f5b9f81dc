"""Command lines with options of extreme values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from hypothesis import strategies as st

from inference_econ.requests import kinds
from tests.commands import parsers
from tests.fuzz.judged import Case
from tests.reading import tables

#: Commands with their required arguments; small instances, so that many are tried in a few seconds.
PARSERS = parsers()
COMMANDS: dict[str, list[str]] = tables(Path(__file__))["COMMANDS"]
#: Others to ask about, in the place of the model and of the chip.
MODELS = ("llama_3_8b", "mixtral_8x7b", "deepseek_v3", "gpt_oss_20b", "paper/gpt_4", "qwen3_next_80b_a3b")
CHIPS = ("h100_sxm", "h200_sxm", "gb200_nvl72", "tpu_v5e", "mi300x", "paper/groq_lpu")
#: Options that are not drawn: simulations of single requests, given options, and files (see ``files``).
LEFT_OUT = {
    "quiet", "help", "simulate", "max_instance_gpus", "to", "acceptance_file", "rounds", "ratios",
}  # fmt: skip
WHOLE = ("1", "2", "3", "8", "64", "1000", "1000000000", "1" + 310 * "0", "0", "-1", "x")
NUMBERS = ("1", "0.5", "2", "100", "1e5", "1e9", "1e15", "1e-15", "1e300", "1e-300", "0", "-0", "-1", "nan", "inf")
TIMES = ("1 ms", "30 ms", "10", "1e15", "1e-15", "1e300", "0", "soon")
WORDS = (
    "1", "2000", "uniform:1:1e6", "lognormal:2000:0.5", "1e300", "0.9,0.8", "vllm", "sglang", "h100_sxm", "\udcff", "",
    "日本", "\x1b[1m", "a=b", "1/node", "bf16", "int3", 3000 * "x", "1,2,3", "fast: tp=2", ":",
)  # fmt: skip
PLACES = (
    "a.csv", "a.json", "a.md", "a.txt", "a", "a.xlsx", "..csv", "none/a.csv", ".", "", "/dev/full", "/dev/null",
    "日本.csv", "\udcff.csv", 300 * "x", "a.CSV", "a.csv/", "A.svg", "a.svg", "a.pdf", "a.png", ".svg", "none/a.svg",
)  # fmt: skip
CHANGES = (
    "model.hidden_size=1e15", "model.hidden_size=1", "model.vocabulary=1e300", "hardware.hbm_bytes=1e24",
    "hardware.hbm_bytes_per_second=1e-15", "hardware.link_domain=1000000000", "assumptions.host.launch=1e15",
    "assumptions.chip.math_efficiency=1e-15", "assumptions.serving.prefill_chunk=1", "model." + 1000 * "a." + "a=1",
    "hardware.watts=0", "model.max_context=1", "assumptions.experts.popularity_scv=1e15", "=", "model.name=",
    "model.blocks.0.layers=1000000", "hardware.price_per_hour=1e-15", "assumptions.network.collectives=none",
    "model.sources.x={}", "hardware.hbm_bytes=nan",
)  # fmt: skip


def _values(option: click.Option) -> Sequence[str]:
    """Return the tried values of an option."""
    kind = getattr(option.type, "kind", None)
    if option.name == "changes":
        return CHANGES
    if isinstance(kind, kinds.PlaceKind):
        return PLACES
    if isinstance(kind, kinds.Name):
        return (*MODELS, *CHIPS, *WORDS)
    if isinstance(kind, kinds.ChoiceKind):
        return [*kind.words, "x"]
    if isinstance(kind, kinds.Number):
        return WHOLE if kind.whole else NUMBERS
    return TIMES if kind is kinds.TIME else WORDS


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a command with its required arguments and one to four extreme options, rarely for unusual models."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    needed = list(COMMANDS[name])
    if "--max-instance-gpus" in needed and draw(st.integers(0, 3)) == 0:
        others = {"llama_3_8b": draw(st.sampled_from(MODELS)), "h100_sxm": draw(st.sampled_from(CHIPS))}
        needed = [others.get(word, word) for word in needed]
    options = [
        option
        for option in PARSERS[name].params
        if isinstance(option, click.Option) and option.name not in LEFT_OUT and option.opts[0] not in needed
    ]
    line = [*name.split(), *needed]
    for option in draw(st.lists(st.sampled_from(options), min_size=1, max_size=4, unique=True)):
        line.append(option.opts[0])
        if not option.is_flag:
            line.append(draw(st.sampled_from(_values(option))))
    has_form = any(option.name == "as_json" for option in options) and not {"--format", "--json", "--csv"} & set(line)
    if has_form and not {"-o", "--output"} & set(line):
        line += ["--format", draw(st.sampled_from(("json", "csv", "table", "markdown")))]
    return Case("options", tuple(line), {})
