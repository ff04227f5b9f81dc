"""Roofline economics of serving language models: speed per user against dollars per million tokens.

What is public stands in ``__init__.pyi``, and is loaded when it is first used, so that ``--help`` answers in a blink.

Examples
--------
>>> import inference_econ as ie
>>> setup = ie.Setup.of("llama_3_70b", "h100_sxm", weights="fp8")
>>> front = ie.frontier(setup, ie.Traffic(isl=2000, osl=500))
>>> best = front.preferred(exponent=3)
>>> best.tokens_per_second_per_user > 50
True
"""

from types import FunctionType

import lazy_loader

from inference_econ import _answer

_answer.show_with("inference_econ.report.pages")
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Load a public name; help and tracebacks call functions by it, not by the module that defines them."""
    value = _load(name)
    if isinstance(value, FunctionType) and value.__module__ != __name__:
        from inference_econ._calls import checked  # takes as long to load as all else that is imported here

        # The next access finds it here, and does not come back.
        globals()[name] = value = checked(value)
    # Classes keep their module, by which tools find their source and doctests.
    if isinstance(value, FunctionType):
        value.__module__ = __name__
    return value
