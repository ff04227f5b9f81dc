"""English of finished texts: the trade's words, sentences of at most 35 words, no forbidden first words."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from inference_econ.report.fields import glossary
from inference_econ.requests.tables import COMMANDS, GROUPS_OF_COMMANDS

ROOT = Path(__file__).parents[2]
#: Finished texts: Markdown files, Python files (their docstrings), folders, and patterns of files.
FINISHED: tuple[str, ...] = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "inference_econ", "data/**/*.py", "benchmarks", "cli"),
    *("skills", "action", "tests"),
)
#: Private words as regular expressions, with the trade's words and contexts in which they are allowed.
WORDS = [
    (re.compile(rf"\b(?:{row['word']})(?!\w)", re.IGNORECASE), row["instead"], row["allowed"])
    for row in csv.DictReader((ROOT / "benchmarks" / "words.csv").read_text(encoding="utf-8").splitlines())
]
#: Any of the private words: most sentences have none.
ANY = re.compile("|".join(word.pattern for word, _, _ in WORDS), re.IGNORECASE)
FIRST = re.compile(r"(?:Of|What|Who|Whose|Whoever|Whether|Where|That|Those|The same)(?![-\w]|.*\?$)")
#: Longest sentence [words].
LONGEST = 35
#: Code blocks, doctests, underlines of headings, and names of parameters.
CODE = r"^(?:```.*?^```|~~~.*?^~~~)|^ *>>>.*?(?=^\s*$|\Z)|^ *-{3,}$|^ *\*?[\w, *]+ : [^\n]*$"
#: Ends of paragraphs: empty lines, list items, table cells, headings.
BREAKS = r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|#+|>)\s)|\||^#+ .*$"
#: Code, roles and links within a sentence.
INLINE = r"``?[^`]+``?|:\w+:`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)|\]\([^)]*\)"
#: Lists of names, which are one word.
NAMES = r"\bX(?:, X)+"
#: Ends of sentences.
ENDS = r"(?<=[.!?])\s+(?=[A-Z(\[\"])"


def sentences(text: str) -> Iterator[str]:
    prose = re.sub(CODE, "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(BREAKS, re.sub(INLINE, "X", prose), flags=re.MULTILINE):
        words = " ".join(re.sub(r"^\s*[-*>]\s", "", paragraph).split())
        yield from re.split(ENDS, re.sub(NAMES, "X", words))


def problems(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        if len(words := sentence.split()) > LONGEST:
            yield f"{len(words)} words: {sentence}"
        if FIRST.match(sentence):
            yield f"forbidden first word: {sentence}"
        for word, instead, allowed in WORDS if ANY.search(sentence) else ():
            found = word.search(re.sub(allowed, "", sentence) if allowed else sentence)
            if found:
                yield f"{found[0]!r}, write {instead}: {sentence}"


def _help() -> Iterator[tuple[str, str]]:
    yield from GROUPS_OF_COMMANDS.items()
    for command in COMMANDS.values():
        yield command.name, re.sub(r"\x08\n.*?(?:\n\s*\n|\Z)", "", command.description, flags=re.DOTALL)
        yield from ((f"{command.name} {option.typed}", option.help) for option in command.parameters.values())


def _fields() -> Iterator[tuple[str, str]]:
    yield from ((field.name, field.meaning) for field in glossary().values())


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield f"{path.relative_to(ROOT)}:{value.lineno}", value.value


def _files(name: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / name).rglob("*") if (ROOT / name).is_dir() else ROOT.glob(name)):
        if path.suffix == ".md":
            text = re.sub(r"^(?: {4}|\t).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            yield str(path.relative_to(ROOT)), text
        elif path.suffix == ".py":
            yield from _docstrings(path)


def _literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts in an expression, with X for the values in an f-string."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        yield node.lineno, "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _literals(child)


def _errors() -> Iterator[tuple[str, str]]:
    """Texts of constructed errors, and those of ``stop`` and ``refuse``."""
    for path in (path for folder in ("inference_econ", "cli") for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.search(r"Error$|stop$|refuse$", ast.unparse(node.func)):
                texts = (text for argument in node.args for text in _literals(argument))
                yield from ((f"{path.relative_to(ROOT)}:{line}", text) for line, text in texts if " " in text)


TEXTS: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {"help": _help, "fields": _fields, "errors": _errors}


@pytest.mark.parametrize("name", [*TEXTS, *FINISHED])
def test_finished_texts_are_plain_english(name: str) -> None:
    texts = TEXTS[name]() if name in TEXTS else _files(name)
    found = dict.fromkeys(f"{place}: {problem}" for place, text in texts for problem in problems(text))
    assert not found, "\n".join(found)
