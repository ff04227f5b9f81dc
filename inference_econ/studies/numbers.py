"""The numbers that a question depends on, by name: read one, ask the same with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from inference_econ.answers.settings import setup_of
from inference_econ.errors import InputError
from inference_econ.inputs import SPECIFICATIONS, ModelSpec, Settings, model_keys, with_defaults
from inference_econ.inputs.options import OPTIONS

#: Settings that are numbers which may be any amount; all others are numbers of a specification, ``hardware.watts``.
SETTINGS = tuple(option.name for option in OPTIONS.values() if option.number)
#: What such a setting is where nothing is said.
_ABSENT = {"cached": 0.0, "shared_prefix": 0.0}


def number(settings: Settings, name: str) -> float:
    """A number that a question depends on.

    Parameters
    ----------
    settings : Settings
        The question; what it leaves out is :data:`inference_econ.inputs.counted.DEFAULTS`.
    name : str
        A setting of :data:`SETTINGS`, or a number of a specification as what-ifs name it, ``hardware.FIELD``,
        ``model.FIELD`` or ``assumptions.FIELD``.

    Returns
    -------
    float
        In base units.

    Raises
    ------
    InputError
        If there is nothing of that name, or it is no number, or none is known.

    Examples
    --------
    >>> number(Settings(model="llama_3_8b", hardware="h100_sxm"), "hardware.hbm_bytes_per_second")
    3350000000000.0
    """
    filled = with_defaults(settings)
    if name == "price":
        return setup_of(filled).dollars_per_accelerator_hour
    if "." in name:
        return _of_specification(filled, name)
    if name not in SETTINGS:
        raise InputError(
            f"{name!r} is no number of a question; allowed: {', '.join(SETTINGS)}, and numbers of specifications "
            "(hardware.FIELD, model.FIELD, assumptions.FIELD)"
        )
    value = getattr(filled, name)
    present = _ABSENT.get(name) if value is None else value
    if not isinstance(present, (int, float)):
        raise InputError(f"{name}: the question sets none, or several; set a single number")
    return float(present)


def with_numbers(settings: Settings, values: Mapping[str, float]) -> Settings:
    """Settings with other numbers.

    Parameters
    ----------
    settings : Settings
        The question.
    values : mapping of str to float
        By the names of :func:`number`, in base units.

    Returns
    -------
    Settings
        Numbers of specifications are further what-ifs, which come after those that the question had.

    Raises
    ------
    InputError
        If a name is none of :func:`number`.

    Examples
    --------
    >>> with_numbers(Settings(model="llama_3_8b"), {"isl": 500.0, "hardware.watts": 800.0}).changes
    ('hardware.watts=800.0',)
    """
    for name in values:
        if name not in SETTINGS and name.partition(".")[0] not in SPECIFICATIONS:
            number(settings, name)
    plain = {name: value for name, value in values.items() if "." not in name}
    changes = (*settings.changes, *(f"{name}={value!r}" for name, value in values.items() if "." in name))
    return settings.replace(**plain, changes=changes)


def _of_specification(filled: Settings, name: str) -> float:
    """A number of the model, the hardware or the assumptions."""
    specification, _, path = name.partition(".")
    if specification not in SPECIFICATIONS:
        allowed = ", ".join(f"{kind}.FIELD" for kind in SPECIFICATIONS)
        raise InputError(f"{name!r} is no number of a question; specifications: {allowed}")
    value: object = getattr(setup_of(filled), specification)
    if isinstance(value, ModelSpec) and path in model_keys.SHORT_KEYS:
        value = model_keys.value_of(value, path)
    else:
        for part in path.split("."):
            value = _part(value, part)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name}: no such number; name a field that holds one, as in --set {name}=VALUE", option="set")
    return float(value)


def _part(value: object, name: str) -> object:
    """A field, an entry or an item; None if there is none."""
    if isinstance(value, Mapping):
        return cast("object", value.get(name))
    if isinstance(value, (tuple, list)):
        return value[int(name)] if name.isdigit() and int(name) < len(value) else None
    return getattr(value, name, None)
