"""Cost and speed of serving large language models, from a roofline model: speed per user, dollars per million tokens.

``__init__.pyi`` lists the public names. Public names are imported at first use, so that ``--help`` is fast.

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

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
#: Old public names with their current names. Version 0.3.0 removes them.
_RENAMED = {"market": "candidates", "offer": "layouts"}


def __getattr__(name: str) -> object:
    """Import a public name. Help and tracebacks show this name instead of the module that defines it."""
    if name in _RENAMED:
        now = _RENAMED[name]
        logging.getLogger(__name__).warning("note: %r is now %r; the old name works until 0.3.0", name, now)
        return __getattr__(now)
    value = _load(name)
    if isinstance(value, FunctionType) and value.__module__ != __name__:
        from inference_econ._calls import checked  # takes as long to import as all other imports here

        # After this, the name is found without a call of this function.
        globals()[name] = value = checked(value, name=name)
    # Classes keep the name of their module, because tools find sources and doctests by it.
    if isinstance(value, FunctionType):
        value.__module__ = __name__
    return value
