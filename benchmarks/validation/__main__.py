"""Write the validation report on measured servers, docs/evidence/validation.md: ``sh run.sh validate`` (5 minutes).

The report has a picture, and a folder with a page for each engine and chip generation.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import parity_plots
from benchmarks.validation import by_engine, costs, document
from benchmarks.validation.bound import violations
from inference_econ.extras.servers import validation
from inference_econ.extras.servers.validation import servers
from inference_econ.records.files import write_text

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "validation.md"
#: Assumptions that are compared with the profiles.
OTHERS = ("deployable", "ideal")


def main(page: Path = PAGE) -> None:
    """Write the document, its picture and its pages."""
    files = servers.read_files(list(validation.SERVERS))
    usual = servers.predict_files(files, levels=False)
    others = [servers.predict_files(files, name) for name in OTHERS]
    picture, folder = page.with_suffix(".png"), page.with_suffix("")
    parity_plots.draw_panels(parity_plots.panels(usual), picture)
    beyond = violations(usual.rows)
    write_text(page, document.document(usual, others, beyond, picture.name, "sh run.sh validate", costs.report()))
    folder.mkdir(exist_ok=True)
    for name, text in by_engine.pages(usual):
        write_text(folder / f"{name}.md", text)


if __name__ == "__main__":
    main()
