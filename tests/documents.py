"""Reports parsed as HTML documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

#: Attributes by which a browser loads something when it shows a page.
_LOADING = ("src", "srcset", "data", "poster", "action", "background", "manifest", "ping")
#: Elements with a loaded ``href``.
_LINKED = ("link", "base", "image", "use")


@dataclass
class _Reader(HTMLParser):
    """Collect elements with their attributes and texts."""

    open: list[tuple[str, dict[str, str | None], list[str]]] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str | None], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "input", "link", "br", "img"):
            self.elements.append((tag, dict(attrs), ""))
        else:
            self.open.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        name, attributes, texts = self.open.pop()
        assert name == tag, f"{tag} closes {name}"
        text = "".join(texts)
        if self.open:
            self.open[-1][2].append(text)
        self.elements.append((name, attributes, text))

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][2].append(data)


@dataclass(frozen=True)
class Document:
    """Represent a report."""

    text: str
    elements: list[tuple[str, dict[str, str | None], str]]

    def all(self, tag: str, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        """Return the attributes and texts of elements with a tag and some attributes."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [(has, text) for name, has, text in self.elements if name == tag and wanted.items() <= has.items()]

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """Return the texts of such elements, stripped."""
        return [" ".join(text.split()) for _, text in self.all(tag, **attributes)]

    def charts(self) -> list[dict[str, Any]]:
        """Return the specifications of charts."""
        scripts = [text for has, text in self.all("script", type="application/json") if has.get("id") != "themes"]
        return [json.loads(text) for text in scripts]

    def loaded(self) -> list[str]:
        """Return the addresses that a browser would load for the report."""
        return [
            f"{name} {attribute}={value}"
            for name, has, _ in self.elements
            for attribute, value in has.items()
            if (attribute in _LOADING and name != "form") or (attribute == "href" and name in _LINKED)
        ]


def read(path: Path) -> Document:
    """Read a report from its file; all its elements are closed in order."""
    text = path.read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(text)
    assert not reader.open
    return Document(text, reader.elements)
