"""Every table in every width: no line is longer than the terminal, and no word or number is broken."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.cli.conftest import Command

SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", 4)
WIDTHS = (80, 100, 140)
_NEXT = "=== next ===\n"
COMMANDS: Mapping[str, tuple[object, ...]] = {
    "decode steps": ("frontier", *SMALL, "--decode-only"),
    "all plans": ("frontier", *SMALL, "--decode-only", "--all"),
    "services": ("frontier", *SMALL),
    "compare": ("compare", "llama_3_8b", "--on", "h100_sxm", "--on", "h200_sxm", "--max-instance-gpus", 2),
    "recommend": ("recommend", *SMALL, "--request-rate", 20, "--ttft", 500, "--tpot", 30),
    "most traffic": ("recommend", *SMALL, "--gpus", 8, "--ttft", 500, "--tpot", 30),
    "price": ("price", *SMALL, "--request-rate", 5),
    "load": ("load", *SMALL, "--rates", "1,2,500", "--ttft", 500),
    "simulated": ("load", *SMALL, "--rates", "1", "--simulate"),
    "disaggregate": ("disaggregate", "llama_3_8b", "h100_sxm", "--max-instance-gpus", 2, "--request-rate", 20),
    "fits": ("fits", *SMALL),
    "buy": ("buy", *SMALL),
    "fleet": ("fleet", *SMALL, "--rates", "5,40", "--ttft", 500, "--target", 0.8),
    "rollout": ("rollout", *SMALL, "--gpus", 2, "--prompts", 8, "--samples", 2),
    "speculate": ("speculate", "llama_3_8b", "h100_sxm", "--eagle"),
    "cache": ("cache", "llama_3_8b", "h100_sxm", "--turns", 6),
    "assess": ("assess", "llama_3_8b", "h100_sxm", "--tokens-per-second", 50, "--batch", 32, "--gpus", 1),
    "explain": ("explain", "gpt_oss_120b", "h100_sxm", "--tp", 2, "--operators"),
    "hour-cost": ("hour-cost", "h100_sxm", "--purchase", 30000),
    "speculate-check": ("speculate-check", "--rounds", 1000),
    "scenario": ("run", "examples/opening_question"),
    "published": ("table", "paper/table_5"),
    "of another paper": ("run", "seeds/kv_runahead"),
    "collectives": ("validate", "collectives"),
    "memory": ("validate", "memory"),
    "one chip": ("hardware", "h100_sxm"),
    "one model": ("models", "deepseek_v3"),
    "one engine": ("engines", "vllm"),
    "one preset": ("assumptions", "deployable"),
    **{kind: (kind,) for kind in ("hardware", "models", "scenarios", "assumptions", "engines")},
}


@pytest.fixture
def shown(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[int, str]]:
    """Calculates an answer once, and prints its tables in several widths."""
    show = importlib.import_module("inference_econ_cli.show")
    emit = show.emit

    def run(*arguments: object, widths: tuple[int, ...]) -> dict[int, str]:
        def print_all(page: Any, output: Any, *_: object) -> None:
            for width in widths:
                monkeypatch.setenv("COLUMNS", str(width))
                emit(page, output._replace(quiet=True))
                sys.stdout.write(_NEXT)

        monkeypatch.setattr(show, "emit", print_all)
        outcome = command(*arguments)
        assert (outcome.code, outcome.err) == (0, ""), outcome
        return dict(zip(widths, outcome.out.split(_NEXT), strict=False))

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_break_no_word(shown: Callable[..., dict[int, str]], name: str) -> None:
    texts = shown(*COMMANDS[name], widths=(*WIDTHS, 2000))
    whole = set(re.split(r"[\s/._]+", texts.pop(2000)))
    for width, text in texts.items():
        assert max(map(len, text.splitlines())) <= width, text
        assert set(re.split(r"[\s/._]+", text)) <= whole | {"─" * len(line) for line in text.splitlines()}
