"""Resolve references to modules that define public names: link to the documentation of these names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import inference_econ

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.Node | None:
    """Find ``inference_econ.answers.price.Sheet`` under ``inference_econ.Sheet``."""
    name = str(node.get("reftarget", "")).rsplit(".", 1)[-1]
    if node.get("refdomain") != "py" or name not in vars(inference_econ)["__all__"]:
        return None
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", f"inference_econ.{name}", node, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
