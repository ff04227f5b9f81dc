"""Checks of calls to public functions. The error for an argument of the wrong type says which type is needed."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from types import FunctionType
from typing import Any

from inference_econ.errors import InputError

#: Names of plain Python types, for messages.
_PLAIN = {"float": "a number", "int": "an integer", "str": "a text", "bool": "True or False", "None": "None"}
#: Advice for a value of the wrong class, by the name of the needed class.
_ADVICE: Mapping[str, str] = {
    "Setup": "make one of a model and a chip: Setup.of('llama_3_70b', 'h100_sxm')",
    "Requests": "give lengths, for example Requests(2000, 500)",
    "Space": "give layouts to search, for example Space(max_accelerators=8)",
    "Pins": "give fixed degrees, for example Pins(tp=8)",
    "Targets": "give latency targets, for example Targets(tpot_seconds=0.03)",
    "Speculation": "give a Speculation, for example Speculation.of('draft', 0.8, model=model('llama_3_8b'))",
    "Observation": "give a measurement, for example Observation(45.0, 4, batch=8)",
    "Services": "give the result of layouts(setup, requests), for example layouts(Setup.of('llama_3_70b', 'h100_sxm'), "
    "Requests(2000, 500))",
    "Sequence[Candidate": "give the result of candidates(setup, requests), for example "
    "candidates(Setup.of('llama_3_70b', 'h100_sxm'), Requests(2000, 500))",
    "Shown": "give a result, for example recommend('llama_3_70b', 'h100_sxm', request_rate=20)",
}


@cache
def checked(function: FunctionType, names: str = "", name: str = "") -> Callable[..., Any]:
    """Wrap a function to raise an InputError for invalid arguments.

    Parameters
    ----------
    function : function
        Public function with annotations.
    names : str
        Advice on how to pass names instead of objects. The error for a wrong first argument ends with it.
    name : str
        Name of the function in messages; by default, the name of ``function``.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given: Mapping[str, Any] = {}
        problem: object = None
        try:
            given = signature.bind_partial(*args, **options).arguments
            signature.bind(*args, **options)
        except TypeError as error:
            problem = error
        for number, parameter in enumerate(signature.parameters.values()):
            if parameter.name not in given:
                continue
            advice = _advice(function, str(parameter.annotation), given[parameter.name])
            if advice:
                also = names if number == 0 else ""
                raise InputError(f"{parameter.name}: got {reprlib.repr(given[parameter.name])}; {advice}{also}")
        if problem is not None:
            raise InputError(
                f"{name or function.__name__}: {problem}; its arguments are {', '.join(signature.parameters)}{names}"
            )
        return function(*args, **options)

    return call


def _advice(function: FunctionType, annotation: str, value: object) -> str:
    """Advice on the class that a value must have; empty if the value has this class, or if the class is unknown."""
    words = annotation.split(" | ")
    if value is None and "None" in words:
        return ""
    if annotation.startswith(("Sequence[", "Mapping[", "Collection[")) and not isinstance(value, Iterable):
        listed = "a mapping" if annotation.startswith("Mapping") else "a list"
        return _ADVICE.get(words[0], f"give {listed}")
    classes = [cls for word in words if word not in _PLAIN for cls in [_named_class(function, word)]]
    if "[" in annotation or not all(classes):
        return ""
    if classes:
        known = (*filter(None, classes), *(cls for cls in (float, int, str, bool) if cls.__name__ in words))
        advice = next((_ADVICE[word] for word in words if word in _ADVICE), f"give a {words[0]}")
        return "" if isinstance(value, known) else advice
    ours = type(value).__module__.startswith("inference_econ")
    return f"give {' or '.join(map(_PLAIN.__getitem__, words))}" if ours and _PLAIN.keys() >= set(words) else ""


@cache
def _named_class(function: FunctionType, word: str) -> type | None:
    """Find the class of this package that a word in an annotation names; None for words that name another type."""
    import inference_econ

    public = vars(inference_econ)["__all__"]
    found = function.__globals__.get(word) or (getattr(inference_econ, word) if word in public else None)
    return found if isinstance(found, type) and found.__module__.startswith("inference_econ") else None
