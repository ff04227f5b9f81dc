"""What the deployments of a file cost before and after a change, as Markdown.

``python compare_costs.py BEFORE.yaml AFTER.yaml``; both map names to command lines of ``recommend`` or ``price``:
``chat: recommend llama_3_70b h100_sxm --request-rate 10 --ttft 1000 --tpot 40``. The same release answers both, so that
what differs is the deployment.
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
#: Questions whose answer is a deployment with a price.
_QUESTIONS = ("recommend", "price")
#: Options that write files, or another form than is read here: a comment is all that a change may make.
_KEPT = ("--output", "--plot", "--format", "--csv", "--why")
_SHORT = ", ".join(("-o", *_KEPT))
#: Headings and what stands below, of an answer.
_COLUMNS: Mapping[str, Callable[[Record], float]] = {
    "$ per hour": lambda answer: answer["dollars_per_hour"],
    "$ per million output tokens": lambda answer: answer["dollars_per_million_output_tokens"],
    "GPUs": lambda answer: answer["accelerators_rented"],
    "TTFT p90 ms": lambda answer: 1e3 * answer["ttft_seconds"]["p90"],
    "TPOT p90 ms": lambda answer: 1e3 * answer["tpot_seconds"]["p90"],
}


class FileError(Exception):
    """A file that is not understood."""


def _words(line: str) -> list[str]:
    """A command line as a shell would split it; a quotation that does not end is a word like others."""
    try:
        return shlex.split(line) or [""]
    except ValueError:
        return [line]


def deployments(path: Path) -> dict[str, str]:
    """Command lines by the name of their deployment; none in an empty file."""
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
    """The deployment that a command line answers, or why there is none."""
    command = ["inference-econ", *shlex.split(line), "--format", "json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1].removeprefix("Error: ")
    record: Record = json.loads(done.stdout)
    return record["choices"][0] if "choices" in record else record


def rows(name: str, before: str | None, after: str | None) -> list[str]:
    """Lines of the table for one deployment: what it was, what it becomes, and by how much that is more."""
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
    """A text that no sign of Markdown or HTML in it leaves its cell."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def comment(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The whole comment."""
    names = list(dict.fromkeys([*before, *after]))
    changed = [name for name in names if before.get(name) != after.get(name)]
    if not changed:
        return "### What the deployments cost\n\nNothing that costs changed.\n"
    lines = [line for name in changed for line in rows(name, before.get(name), after.get(name))]
    asked = [f"    inference-econ {after[name]}" for name in changed if name in after]
    return "\n".join(
        [
            "### What the deployments cost",
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
