"""Settings that count services or decode steps alone, and which of them mean something for either."""

from __future__ import annotations

from collections.abc import Iterable

from inference_econ.errors import InputError
from inference_econ.inputs.asks import DECODE_STEPS_ONLY, SERVICES_ONLY, Settings
from inference_econ.inputs.defaults import DEFAULT_ISL, DEFAULT_OSL
from inference_econ.inputs.scenario import DECODE_COLUMNS, SERVICE_COLUMNS

#: What a scenario assumes where neither the caller nor its file says.
DEFAULTS = Settings(grid="whole", pipeline=True, isl=DEFAULT_ISL, osl=DEFAULT_OSL)


def with_defaults(settings: Settings) -> Settings:
    """Settings with the defaults; a context that is set replaces the default lengths."""
    fields = {name: value for name in settings.model_fields_set if (value := getattr(settings, name)) is not None}
    return Settings(**fields).over(DEFAULTS)


def check_counted(filled: Settings) -> None:
    """Refuse settings that mean nothing for what is counted.

    Raises
    ------
    InputError
        Naming the first, with what to write instead.
    """
    if filled.decode_only is False and filled.grid == "paper":
        raise InputError("grid: paper is that of the published study, of decode steps alone; leave decode_only out")
    if filled.counts_decode_steps:
        stray = next((name for name in SERVICES_ONLY if getattr(filled, name) is not None), None)
        why = "the study's grid counts" if filled.grid == "paper" else "decode_only: true counts"
        if stray is not None:
            raise InputError(f"{stray} is said of services, and {why} decode steps alone; leave one of them out")
        return
    stray = next((name for name in DECODE_STEPS_ONLY if getattr(filled, name) is not None), None)
    if stray is not None:
        raise InputError(f"{stray} is said of decode steps alone, and this counts services; add decode_only: true")


def check_of_one_kind(series: Iterable[Settings], columns: Iterable[str]) -> None:
    """Refuse to put services beside decode steps, and columns that one of them does not have.

    Raises
    ------
    InputError
        With what to write instead.
    """
    kinds = {with_defaults(settings).counts_decode_steps for settings in series}
    if len(kinds) > 1:
        raise InputError(
            "some series count decode steps alone, others services with their prefill; say decode_only for all of "
            "them, in 'common'"
        )
    odd = [column for column in columns if column in (SERVICE_COLUMNS if kinds == {True} else DECODE_COLUMNS)]
    if odd:
        other, what = ("services", "leave it out") if kinds == {True} else ("decode steps", "add decode_only: true")
        raise InputError(f"table: the column {odd[0]!r} is one of {other}, which these series are not; {what}")
