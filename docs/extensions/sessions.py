"""Color indented blocks by their first characters: a shell prompt, a Python prompt, or neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from pygments.lexer import RegexLexer
from pygments.token import Generic, Name
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Lexers by the first characters of a block.
LEXERS = {"$ ": "session", ">>> ": "pycon"}


class SessionLexer(RegexLexer):
    """Lexer for commands after ``$`` with continuation lines; other lines are output."""

    name = "session"
    flags = re.MULTILINE
    tokens: ClassVar = {
        "root": [
            (r"^\$ ", Generic.Prompt, "command"),
            (r".+\n?|\n", Generic.Output),
        ],
        "command": [(r".*\\\n", Name.Builtin), (r".+\n?|\n", Name.Builtin, "#pop")],
    }


class Sessions(SphinxTransform):
    """Set the language of blocks without a language, by their prompt."""

    default_priority = 200

    def apply(self, **_: object) -> None:
        """Set the language of each block of a document."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "none") == "none":
                text = block.astext()
                block["language"] = next((lexer for prompt, lexer in LEXERS.items() if text.startswith(prompt)), "none")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_lexer("session", SessionLexer)
    app.add_transform(Sessions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
