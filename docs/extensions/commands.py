"""A page for every command, made of the command line itself before the documents are read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Write the pages of all commands, where they have changed."""
    folder = Path(app.srcdir) / "reference" / "commands"
    folder.mkdir(exist_ok=True)
    program = importlib.import_module("inference_econ_cli.main").app
    for name, command in program.commands.items():
        page = folder / f"{name}.md"
        # Where the page finds it: a name in this module.
        here = name.replace("-", "_")
        globals()[here] = command
        text = _PAGE.format(name=name, place=f"{__name__}:{here}")
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
