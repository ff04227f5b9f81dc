"""Answers over HTTP and to assistants: one model per question, a JSON API with its document, tools, and a page.

What belongs here: models of questions made of options that somebody hands in, work in processes that can be stopped,
replies, guards, documents. The only package with starlette, uvicorn and mcp. How a question is answered is the
business of whoever hands it in, which is the command line.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
