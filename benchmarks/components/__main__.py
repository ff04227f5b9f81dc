"""Write docs/evidence/collectives.md, or print one dataset: ``python -m benchmarks.components [NAME [FILE.csv]]``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.components import page, validate
from inference_econ.records.files import write_text

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "collectives.md"


def main(name: str | None = None, file: str | None = None) -> None:
    """Compare the named dataset, or collectives and memory."""
    command = "sh run.sh validate components"
    if name is None:
        write_text(PAGE, page.document([validate("collectives"), validate("memory")], command))
    else:
        sys.stdout.write(page.document([validate(name, file=file)], f"{command} {name}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
