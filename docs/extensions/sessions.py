"""Indented blocks are coloured as what they begin with: a shell's prompt, Python's prompt, or neither."""

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
    """Commands behind ``$``, up to a line that no backslash continues; all else is printed, and may begin with #."""

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
    """Give blocks without a language that of their prompt."""

    default_priority = 200

    def apply(self, **_: object) -> None:
        """Look at each block of a document."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "none") == "none":
                text = block.astext()
                block["language"] = next((lexer for prompt, lexer in LEXERS.items() if text.startswith(prompt)), "none")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_lexer("session", SessionLexer)
    app.add_transform(Sessions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
