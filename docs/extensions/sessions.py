"""Indented blocks are coloured as what they begin with: a shell's prompt, Python's prompt, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Lexers by the first characters of a block.
LEXERS = {"$ ": "console", ">>> ": "pycon"}


class Sessions(SphinxTransform):
    """Give blocks without a language that of their prompt."""

    default_priority = 200

    def apply(self, **_: object) -> None:
        """Look at each block of a document."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "text") == "text":
                text = block.astext()
                block["language"] = next((lexer for prompt, lexer in LEXERS.items() if text.startswith(prompt)), "text")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_transform(Sessions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
