"""Economics of serving language models, with a roofline model: speed per user and dollars per million tokens.

``__init__.pyi`` lists the public names. They are loaded at first use, so that ``--help`` is fast.

Examples
--------
>>> import inference_econ as ie
>>> setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8")
>>> front = ie.frontier(setup, ie.Traffic(isl=2000, osl=500))
>>> best = front.preferred(exponent=3)
>>> best.tokens_per_second_per_user > 50
True
"""

import logging
from types import FunctionType

import lazy_loader

from inference_econ import _answer

_answer.show_with("inference_econ.report.pages")
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
#: Old public names with the new ones; removed in 0.3.0.
_RENAMED = {"market": "candidates", "offer": "layouts"}


def __getattr__(name: str) -> object:
    """Load a public name. Help and tracebacks show this name in place of the defining module."""
    if name in _RENAMED:
        now = _RENAMED[name]
        logging.getLogger(__name__).warning("note: %r is now %r; the old name works until 0.3.0", name, now)
        return __getattr__(now)
    value = _load(name)
    if isinstance(value, FunctionType) and value.__module__ != __name__:
        from inference_econ._calls import checked  # takes as long to load as all other imports here

        # The next access finds the name without this function.
        globals()[name] = value = checked(value, name=name)
    # Classes keep their module, because tools find sources and doctests by it.
    if isinstance(value, FunctionType):
        value.__module__ = __name__
    return value
