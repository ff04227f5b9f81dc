"""Count code lines by package, without comments, docstrings and blank lines: ``python -m benchmarks.codelines [ROOT]``.

The last line contains the project's limits: lines and modules of the core and of extras, lines of tests, functions per
1,000 lines, repeated class names, and the largest folder.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

#: Tokens that are not code.
_SKIPPED = {
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str, tree: ast.Module) -> int:
    """Code lines of a module."""
    documented: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                documented.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SKIPPED:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documented)


def report(root: Path) -> str:
    """Counts of all packages below a folder."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    classes: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    functions = 0
    for base in ("inference_econ", "cli", "tests", "benchmarks", "data"):
        for path in sorted((root / base).rglob("*.py")):
            source, parts = path.read_text(encoding="utf-8"), path.relative_to(root).parts[:-1]
            tree = ast.parse(source)
            package = "/".join(parts[: 3 if parts[1:2] == ("extras",) else 2])
            rows[package][0] += 1
            rows[package][1] += code_lines(source, tree)
            if base in ("inference_econ", "cli"):
                folders["/".join(parts)] += 1
                nodes = list(ast.walk(tree))
                functions += sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in nodes)
                classes.update(node.name for node in nodes if isinstance(node, ast.ClassDef))

    def total(*prefixes: str) -> tuple[int, int]:
        chosen = [counts for name, counts in rows.items() if name.startswith(prefixes)]
        return sum(modules for modules, _ in chosen), sum(lines for _, lines in chosen)

    extras, product, tests = total("inference_econ/extras"), total("inference_econ", "cli"), total("tests")
    twice = sorted(name for name, count in classes.items() if count > 1)
    (folder, most), *_ = folders.most_common(1)
    lines = [
        f"{name:40s} {modules:5d} modules {count:7d} code lines" for name, (modules, count) in sorted(rows.items())
    ]
    return "\n".join(
        [
            *lines,
            f"class names used twice: {' '.join(twice) or 'none'}",
            f"core {product[1] - extras[1]} code lines in {product[0] - extras[0]} modules; extras {extras[1]} in "
            f"{extras[0]}; tests {tests[1]}; {1000 * functions / product[1]:.0f} functions per 1,000 lines; "
            f"most modules in a folder {most} ({folder})",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(report(Path(sys.argv[1] if len(sys.argv) > 1 else ".")) + "\n")
