"""Answers over HTTP and to assistants: one model per question, a JSON API with its document, tools, and a page.

What belongs here: models of requests, made of the tables of commands; work in processes that can be stopped, replies,
guards, documents. The only package with starlette, uvicorn and mcp. Functions of commands answer; the tables name them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
