"""Architectures of language models: specification, layers, number formats, sizes, and the reader of Hugging Face configs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
