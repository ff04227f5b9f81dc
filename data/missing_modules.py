"""Import of the argument parsers of serving engines without their GPU and their dependencies.

A module that cannot be imported is replaced by one in which every attribute is an empty class. This is sufficient for
code that only defines options, and wrong for all other code.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterable, MutableSequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Number that replaces all numbers that are unknown here.
_LARGE = 2**62


class _Answers(ABCMeta):
    """Class that can be used as anything: number, iterable, decorator, base class, type annotation."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__get_pydantic_core_schema__":
            from pydantic_core import core_schema

            return lambda *_: core_schema.any_schema()
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and callable(arguments[0]):
            return arguments[0]  # used as a decorator
        return super().__call__()

    def __or__(cls, other: Any) -> Any:
        return Any

    def __ror__(cls, other: Any) -> Any:
        return Any

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __contains__(cls, _: Any) -> bool:
        return False

    def __lt__(cls, _: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __index__(cls) -> int:
        return _LARGE

    __int__ = __index__

    def __float__(cls) -> float:
        return float(_LARGE)

    def __add__(cls, other: Any) -> Any:
        return other

    __radd__ = __mul__ = __rmul__ = __sub__ = __add__

    def register(cls, *_: Any, **__: Any) -> Any:
        """Ignore the call."""

    def __setitem__(cls, _: Any, __: Any) -> None:
        """Ignore the call."""

    def __truediv__(cls, _: Any) -> Any:
        return cls


def stand_in(name: str) -> Any:
    """Empty class with a name, whose instances can be used like the class."""
    methods: dict[str, Any] = {
        "__getattr__": lambda _, attribute: _missing(attribute) if attribute[:2] == "__" else stand_in(attribute),
        "__call__": lambda _, *given, **__: given[0] if len(given) == 1 and callable(given[0]) else stand_in(name),
        "__iter__": lambda _: iter(()),
        "__len__": lambda _: 0,
        "__bool__": lambda _: False,
        "__enter__": lambda self: self,
        "__exit__": lambda *_: False,
        "__class_getitem__": classmethod(lambda cls, _: cls),
        "__init_subclass__": classmethod(lambda _, **__: None),
        "__getitem__": lambda _, __: stand_in(name),
        "__hash__": lambda self: id(self),
        "__fspath__": lambda _: "/nowhere",
        "__str__": lambda _: "0",
        "__int__": lambda _: 0,
    }
    methods["__setitem__"] = lambda *_: None
    methods |= dict.fromkeys(("__lt__", "__gt__", "__le__", "__ge__"), lambda *_: False)
    methods |= dict.fromkeys(("__add__", "__radd__", "__mul__", "__rmul__"), lambda _, other: other)
    return _Answers(name, (), methods)


def _missing(name: str) -> Any:
    raise AttributeError(name)


class _Empty(ModuleType):
    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name in ("__version__", "__file__"):
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        value = stand_in(name)
        setattr(self, name, value)
        return value


class _Finder(MetaPathFinder, Loader):
    """Import finder that returns empty modules for all names, or only for some packages."""

    def __init__(self, only: Iterable[str] | None = None) -> None:
        self.only = None if only is None else tuple(only)

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        if fullname.partition(".")[0] in sys.stdlib_module_names:
            return None
        if self.only is not None and not any(f"{fullname}.".startswith(f"{name}.") for name in self.only):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


def forgive(packages: Iterable[str]) -> None:
    """Replace every missing module by an empty one, and also these packages if they exist."""
    sys.meta_path.insert(0, _Finder(packages))
    sys.meta_path.append(_Finder())
