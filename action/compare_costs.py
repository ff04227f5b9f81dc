"""Compare the costs of deployments before and after a change, as a Markdown comment.

``python compare_costs.py BEFORE.yaml AFTER.yaml``; both map names to command lines of ``recommend`` or ``price``:
``chat: recommend llama_3_70b h100_sxm --request-rate 10 --ttft 1000 --tpot 40``. One release of the program
evaluates both files, so only the deployments differ.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Record = Mapping[str, Any]
#: Commands that return a deployment and its cost.
_QUESTIONS = ("recommend", "price")
#: Options that are rejected, because they write files or change the output format that is read here.
_KEPT = ("--output", "--plot", "--format", "--csv", "--why")
_SHORT = ", ".join(("-o", *_KEPT))
#: Column headings, and functions that read their values from an answer.
_COLUMNS: Mapping[str, Callable[[Record], float]] = {
    "$ per hour": lambda answer: answer["dollars_per_hour"],
    "$ per million output tokens": lambda answer: answer["dollars_per_million_output_tokens"],
    "GPUs": lambda answer: answer["accelerators_rented"],
    "TTFT p90 ms": lambda answer: 1e3 * answer["ttft_seconds"]["p90"],
    "TPOT p90 ms": lambda answer: 1e3 * answer["tpot_seconds"]["p90"],
}


class FileError(Exception):
    """Invalid file of deployments."""


def _words(line: str) -> list[str]:
    """Split a command line as a shell does; an unclosed quotation becomes one word."""
    try:
        return shlex.split(line) or [""]
    except ValueError:
        return [line]


def deployments(path: Path) -> dict[str, str]:
    """Read command lines by the name of their deployment; an empty file has none."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FileError(f"{path}: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(line, str) for line in content.values()):
        raise FileError(f"{path}: write NAME: recommend MODEL CHIP --request-rate 10, one line per deployment")
    for name, line in content.items():
        question, *options = _words(line)
        refused = [it for it in options if it.startswith("-o") or it.partition("=")[0] in _KEPT]
        if question not in _QUESTIONS or refused:
            what = refused[0] if refused else question
            raise FileError(f"{path}: {name}: {what!r} has no place here; write recommend or price without {_SHORT}")
    return {str(name): line for name, line in content.items()}


@cache
def answer(line: str) -> Record | str:
    """Run a command line; return its deployment, or the error message."""
    command = ["inference-econ", *shlex.split(line), "--format", "json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1].removeprefix("Error: ")
    record: Record = json.loads(done.stdout)
    return record["choices"][0] if "choices" in record else record


def rows(name: str, before: str | None, after: str | None) -> list[str]:
    """Table rows of one deployment: before, after, and relative change."""
    answers = {when: answer(line) for when, line in (("before", before), ("after", after)) if line is not None}
    lines = []
    for when, reply in answers.items():
        cells = [f"{value(reply):.4g}" for value in _COLUMNS.values()] if not isinstance(reply, str) else [_cell(reply)]
        lines.append(_row(name, when, cells))
    old, new = answers.get("before"), answers.get("after")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changes = [value(new) / value(old) - 1.0 for value in _COLUMNS.values()]
        lines.append(_row(name, "change", ["-" if abs(it) < 5e-5 else f"**{it:+.1%}**" for it in changes]))
    return lines


def _row(name: str, when: str, cells: list[str]) -> str:
    return "| " + " | ".join([_cell(name), when, *cells, *[""] * (len(_COLUMNS) - len(cells))]) + " |"


def _cell(text: str) -> str:
    """Escape Markdown and HTML, so that a text stays within its table cell."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def comment(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Write the comment."""
    names = list(dict.fromkeys([*before, *after]))
    changed = [name for name in names if before.get(name) != after.get(name)]
    if not changed:
        return "### Cost of the deployments\n\nNo deployment changed.\n"
    lines = [line for name in changed for line in rows(name, before.get(name), after.get(name))]
    asked = [f"    inference-econ {after[name]}" for name in changed if name in after]
    return "\n".join(
        [
            "### Cost of the deployments",
            "",
            "| " + " | ".join(["deployment", "", *_COLUMNS]) + " |",
            "|---|---|" + "---:|" * len(_COLUMNS),
            *lines,
            "",
            f"{len(names) - len(changed)} of {len(names)} deployments as before. Predicted by:",
            "",
            *asked,
            "",
        ]
    )


def main() -> int:
    """Print the comment for two files."""
    try:
        before, after = (deployments(Path(path)) for path in sys.argv[1:])
    except FileError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    print(comment(before, after), end="")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
