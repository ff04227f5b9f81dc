"""Write a page for each command from its help, before Sphinx reads the documents."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ.requests import COMMANDS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PAGE = """# {name}

```{{eval-rst}}
.. click:: {place}
   :prog: inference-econ {name}
   :nested: full
```
"""


def _write(app: Sphinx) -> None:
    """Write the pages of all commands that have changed."""
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    main = importlib.import_module("inference_econ_cli.main")
    for old in folder.glob("*.md"):
        if old.stem not in {row.slug for row in COMMANDS.values()}:
            old.unlink()
    for row in COMMANDS.values():
        page = folder / f"{row.slug}.md"
        # The page finds the command under this name of the module.
        here = row.slug.replace("-", "_")
        globals()[here] = main.ClickCommand(row)
        text = _PAGE.format(name=row.name, place=f"{__name__}:{here}")
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
