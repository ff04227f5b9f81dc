"""Web interface: JSON API with OpenAPI document, MCP tools, and the explorer page.

The package contains request models, which are built from the command tables, worker processes, replies, guards, and
documents. No other package imports starlette, uvicorn or mcp. Results are computed by the same functions as on the
command line.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
