"""The documents: commands and Python print the shown output, and references are complete."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

import inference_econ as ie
from benchmarks import transcripts
from inference_econ import formulas
from tests.reading import tables

DOCS = transcripts.ROOT / "docs"
#: The README has separate tests.
DOCUMENTS = [path for path in transcripts.documents() if path.is_relative_to(DOCS)]
#: Pages that teach: their examples were run.
TAUGHT = [DOCS / "start.md", *sorted((DOCS / "tutorials").glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]
#: Input files that readers write. A command prints ``new_chip.yaml``, and ``my_chip.yaml`` only shows an error.
WRITTEN_BY_READERS = [
    path for path in sorted(transcripts.FILES.glob("*.yaml")) if path.stem not in ("my_chip", "new_chip")
]
#: Pages whose commands take more than two seconds, in addition to those of the tutorials. Most of their commands have
#: golden pages.
LONG = {
    *(f"evidence/{name}.md" for name in ("agents", "infer", "offers")),
    *(f"howto/{name}.md" for name in ("buy", "calibrate", "fleet", "launch_files", "pictures", "confidence", "python")),
    *(f"howto/{name}.md" for name in ("rollout", "sweeps", "traces", "uncertainty", "watch", "what_if")),
    *(f"model/{name}.md" for name in ("attention", "kernels", "market", "prompt_ways")),
}
TRADES = {
    *("serving_engineer", "capacity_planner", "price_setter", "coding_agents", "chip_strategist", "model_architect"),
    "researcher",
}


def _name(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def _tried(document: Path) -> object:
    """Return a document as a parameter, with a mark if its examples are slow."""
    marks = [pytest.mark.long] if _name(document) in LONG or document.parent.name == "tutorials" else []
    return pytest.param(document, marks=marks, id=_name(document))


@pytest.mark.parametrize("document", [_tried(path) for path in DOCUMENTS])
def test_a_document_shows_what_is_printed_now(document: Path, tmp_path: Path) -> None:
    text = document.read_text(encoding="utf-8")
    transcripts.furnish(tmp_path / "run")
    with contextlib.chdir(tmp_path / "run"):
        assert transcripts.again(text, transcripts.Session()) == text, f"sh run.sh renew readme docs/{_name(document)}"


def test_what_is_taught_is_run() -> None:
    assert set(DOCUMENTS) >= {path for path in TAUGHT if path.name != "index.md"}
    assert {path.stem for path in DOCS.glob("tutorials/*.md")} == {*TRADES, "index"}


@pytest.mark.parametrize("document", TAUGHT, ids=_name)
def test_every_command_has_its_prompt(document: Path) -> None:
    """A command without a prompt would never run."""
    text = document.read_text(encoding="utf-8")
    assert not re.findall(r"^    (?:inference-econ|sh|import|from) .*", text, flags=re.MULTILINE)


@pytest.mark.parametrize("file", WRITTEN_BY_READERS, ids=lambda file: file.name)
def test_a_file_that_a_document_uses_is_shown_in_full(file: Path) -> None:
    """Readers copy the file from the document."""
    shown = textwrap.indent(file.read_text(encoding="utf-8"), "    ")
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    assert all(shown in text for text in texts if file.name in text)


@pytest.mark.parametrize("document", TAUGHT, ids=_name)
def test_pictures_are_there(document: Path) -> None:
    links = transcripts.SHOWN.findall(document.read_text(encoding="utf-8"))
    assert links or document.stem not in TRADES
    assert all((document.parent / link).exists() for link in links)


def test_pages_that_moved_lead_to_pages_that_are_there() -> None:
    conf = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (moved,) = (
        ast.literal_eval(node.value)
        for node in conf.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MOVED"
    )
    assert all((DOCS / f"{new}.md").exists() and not (DOCS / f"{old}.md").exists() for old, new in moved.items())


def test_every_public_formula_has_its_place_in_the_model() -> None:
    """The build fails on references to unknown formulas; this test finds missing ones."""
    page = (DOCS / "model" / "token.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\{func\}`~(inference_econ\.formulas\.\w+\.\w+)`", page))
    modules = [
        importlib.import_module(f"{formulas.__name__}.{it.name}") for it in pkgutil.iter_modules(formulas.__path__)
    ]
    public = {
        f"{module.__name__}.{name}"
        for module in modules
        for name, member in inspect.getmembers(module, inspect.isfunction)
        # Public names report the package once they were loaded from it.
        if not name.startswith("_") and member.__module__ in (module.__name__, ie.__name__)
    }
    assert named == public


def test_the_references_have_every_name() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. auto\w+:: inference_econ\.(\w+)$", page, flags=re.MULTILINE)
    assert sorted(names) == sorted(vars(ie)["__all__"])
    page = (DOCS / "reference" / "formulas.md").read_text(encoding="utf-8")
    modules = re.findall(r"^\.\. automodule:: inference_econ\.formulas\.(\w+)$", page, flags=re.MULTILINE)
    assert sorted(modules) == sorted(it.name for it in pkgutil.iter_modules(formulas.__path__))


@pytest.mark.parametrize(("summary", "most"), [("index", 15), ("fidelity", 7)])
def test_a_summary_of_accuracy_repeats_generated_numbers(summary: str, most: int) -> None:
    """A row of a summary names the generated page and the row of its numbers; errors on that page are fractions."""
    number, rows = r"[+-]?\d[\d,]*(?:\.\d+)?", 0
    for line in (DOCS / "evidence" / f"{summary}.md").read_text(encoding="utf-8").splitlines():
        if source := re.search(r"\]\((\w+\.md)[^)]*\), row `([^`]+)` \|$", line):
            page = (DOCS / "evidence" / source[1]).read_text(encoding="utf-8")
            named = [re.findall(number, it.replace(",", " ")) for it in page.splitlines() if f"| {source[2]} |" in it]
            cells = re.findall(rf"({number})(%?)", line[line.index("|", 1) : source.start()])
            assert any(all(_repeated(float(it), bool(sign), known) for it, sign in cells) for known in named), line
            rows += 1
    assert rows == most


def _repeated(value: float, percent: bool, known: Sequence[str]) -> bool:
    """Return whether one of the known numbers equals this one, as a value or a percentage."""
    return any(abs(float(it) - value) < 1e-9 or (percent and abs(100 * float(it) - value) <= 0.51) for it in known)


PYTHON: str = tables(Path(__file__))["PYTHON"]


def test_python_of_a_document_is_one_session() -> None:
    again = transcripts.again(PYTHON.format("old"), transcripts.Session())
    assert again == PYTHON.format("4").replace("old", "AttributeError: 'int' object has no attribute 'nothing'")


def test_pictures_of_a_document_are_found(tmp_path: Path) -> None:
    (tmp_path / "step.svg").touch()
    document = tmp_path / "page.md"
    text = "![A step](pictures/step.svg) and ![another one](other.svg)"
    assert list(transcripts.shown(document, text, tmp_path)) == [
        (tmp_path / "step.svg", tmp_path / "pictures" / "step.svg")
    ]
