"""Architectures of language models: specification, number formats, sizes, and acceptance of draft tokens."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
