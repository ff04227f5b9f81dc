"""Configure Sphinx, which builds the documents: ``sh run.sh docs``."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING

from numpydoc.xref import DEFAULT_LINKS

import inference_econ

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "inference_econ"
author = "the authors of inference_econ"
version = release = installed("inference-econ")

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_click"]
extensions += ["equations", "sessions", "fields", "public", "commands", "supported"]  # of the folder extensions
# The table of prices is included by a page with a title.
exclude_patterns = ["_build", "extensions", "reference/price_table.md"]
html_theme = "furo"
html_title = "inference_econ"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_copyright = False
html_show_sourcelink = False
# Two hyphens start an option; do not convert them to a dash.
smartquotes = False
html_copy_source = False
# A page that is opened from a disk may not read other pages, so search results have only titles.
html_show_search_summary = False

# Indented blocks are sessions of a shell or of Python (extensions/sessions.py), or plain text.
highlight_language = "none"
pygments_style = "tango"
pygments_dark_style = "monokai"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

# Browsers draw MathML without scripts.
html_math_renderer = "mathml"

# The notebook runs when its page is built, and an error in it stops the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
nb_merge_streams = True
# The notebook shows static pictures, because its interactive charts need scripts that the pages do not load.
suppress_warnings = ["mystnb.unknown_mime_type"]

# Types of docstrings that are public names are links.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {name: f"inference_econ.{name}" for name in vars(inference_econ)["__all__"]}
# numpydoc would look up these words in the documents of other projects.
numpydoc_xref_aliases |= {word: word for word in DEFAULT_LINKS}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

add_module_names = False

# A reference to a missing formula or public name is an error. References to other modules and libraries have no link.
nitpicky = True
nitpick_ignore_regex = [("py:mod", ".*"), (r"py:.*", r"(?!inference_econ\.(formulas\.|\w+$)).*")]


def _archive(app: Sphinx, page: str, source: list[str]) -> None:
    """Keep generated evidence out of the navigation and the search; its summary links to it."""
    del app
    if page.startswith("evidence/") and page.split("/", 1)[1] not in ("index", "fidelity", "asks"):
        source[0] = f"---\norphan: true\nnosearch: true\n---\n\n{source[0]}"


#: Pages that moved, and their new places.
MOVED = {
    "evidence/sturdiness": "evidence/index",
    "howto/own_chip": "howto/own_catalog",
    "howto/own_engine": "howto/own_catalog",
    "howto/own_model": "howto/own_catalog",
    "howto/promises": "howto/confidence",
    "howto/sweep": "howto/sweeps",
    "model/caches": "model/attention",
    "model/engines": "model/market",
    "model/intensity": "model/kernels",
    "model/kernel_launches": "model/kernels",
    "model/links": "model/wide_deployments",
    "model/recipes": "model/market",
    "tutorials/operator": "tutorials/serving_engineer",
}
_REDIRECT = """<!doctype html><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url=../{0}.html"><a href="../{0}.html">This page moved.</a>
"""


def _redirect(app: Sphinx, error: Exception | None) -> None:
    """Write a redirect page for each page that moved."""
    if error is not None or app.builder.format != "html":
        return
    for old, new in MOVED.items():
        Path(app.outdir, f"{old}.html").write_text(_REDIRECT.format(new), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions of this file to events of Sphinx."""
    app.connect("source-read", _archive)
    app.connect("build-finished", _redirect)
