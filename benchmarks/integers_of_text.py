"""Plugin of mypy that rejects ``int`` of text: ``inference_econ.inputs.units.integer`` reads integers.

``int`` raises an error for more than 4,300 digits, accepts ``1_0`` and digits of other scripts, and names no option.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionContext, Plugin
from mypy.types import Instance, Type, flatten_nested_unions, get_proper_types

#: Packages whose texts come from users, and the module that reads integers.
_CHECKED, _READER = ("inference_econ", "cli"), "inference_econ/inputs/units.py"


class IntegersOfText(Plugin):
    """Check of every call of ``int``."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Select the calls."""
        return _checked if fullname == "builtins.int" else None


def _checked(context: FunctionContext) -> Type:
    """Report a call with an argument that may be a text."""
    kinds = flatten_nested_unions(context.arg_types[0] if context.arg_types else ())
    names = [kind.type.fullname for kind in get_proper_types(kinds) if isinstance(kind, Instance)]
    path = context.api.path
    if "builtins.str" in names and path.startswith(_CHECKED) and path != _READER:
        context.api.fail("int() of text; use inference_econ.inputs.units.integer", context.context)
    return context.default_return_type


def plugin(version: str) -> type[Plugin]:
    """Return the plugin to mypy."""
    del version
    return IntegersOfText
