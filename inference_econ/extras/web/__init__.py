"""Web interface: JSON API with OpenAPI document, MCP tools, and the explorer page.

Contains request models built from the command tables, worker processes, replies, guards, and documents. It is the only
package that imports starlette, uvicorn and mcp. The functions of the commands compute the results.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
