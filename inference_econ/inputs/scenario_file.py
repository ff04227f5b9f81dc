"""Scenarios as files: names that nothing has and settings that contradict each other are mistakes of the file, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._spec import by_line
from inference_econ.inputs._yaml import Document, Location
from inference_econ.inputs.asks import Settings
from inference_econ.inputs.counted import check_counted, check_of_one_kind, with_defaults
from inference_econ.inputs.scenario import Scenario

#: Settings that are names of the catalogue, and what they are names of.
_NAMES = {"model": "models", "draft": "models", "hardware": "hardware", "assumptions": "assumptions"}
#: Raises an InputError unless the catalogue has a name of a kind.
Resolve = Callable[..., object]
#: Where, and what is wrong there.
_Mistake = tuple[Location, str]


def scenario_of(document: Document, resolve: Resolve) -> Scenario:
    """Validate a scenario that was read from a file.

    Raises
    ------
    SpecError
        With every mistake: of single values, of names, and of settings that do not go together.
    """
    places = dict(_settings(document.data.get("ask")))
    further = [
        f"{document.where(location)}: {problem}"
        for location, problem in (*_unknown(places, resolve), *_contradictions(document.data, places))
    ]
    try:
        scenario = Scenario.from_document(document)
    except SpecError as error:
        raise SpecError(sorted((*error.mistakes, *further), key=by_line)) from error
    if further:
        raise SpecError(sorted(further, key=by_line))
    return scenario


def _settings(ask: object) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Mappings that are written as settings, common or of a series, by where it stands."""
    if not isinstance(ask, Mapping):
        return
    entries = ask.get("series")
    written: list[tuple[Location, Any]] = [(("ask", "common"), ask.get("common", {}))]
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            written.append((("ask", "series", index, "settings"), entry.get("settings", {})))
    yield from ((location, settings) for location, settings in written if isinstance(settings, Mapping))


def _unknown(places: Mapping[Location, Mapping[str, Any]], resolve: Resolve) -> Iterator[_Mistake]:
    """Names that the catalogue does not have."""
    for location, settings in places.items():
        for key, kind in _NAMES.items():
            name = settings.get(key)
            if isinstance(name, str) and (problem := _problem(resolve, kind, name)):
                yield (*location, key), problem


def _contradictions(data: Mapping[str, Any], places: Mapping[Location, Mapping[str, Any]]) -> Iterator[_Mistake]:
    """Settings of frontiers that mean nothing for what is counted, as far as they can be read; each once."""
    if not places or not str(data["ask"].get("kind")).startswith("frontier"):
        return
    (shared, common), *series = ((location, _read(settings)) for location, settings in places.items())
    merged = {location: settings.over(common) for location, settings in series}
    table = data.get("table")
    columns = table.get("columns") if isinstance(table, Mapping) else None
    keys = [column.get("key") for column in columns or () if isinstance(column, Mapping)]
    if problem := _problem(check_of_one_kind, merged.values(), keys):
        of_table = problem.startswith("table")
        yield ("table", "columns") if of_table else shared, problem
        if not of_table:
            return
    problems = {location: _problem(check_counted, with_defaults(settings)) for location, settings in merged.items()}
    for problem in dict.fromkeys(filter(None, problems.values())):
        having = [location for location, other in problems.items() if other == problem]
        yield (having[0] if len(having) < len(problems) else shared), problem


def _problem(check: Callable[..., object], *values: object) -> str | None:
    """Complaint of a check against some values; None if nothing."""
    try:
        check(*values)
    except InputError as error:
        return str(error)
    return None


def _read(written: Mapping[str, Any]) -> Settings:
    """Settings without what is wrong in itself."""
    read: dict[str, Any] = {}
    for key, value in written.items():
        with suppress(SpecError):
            Settings.build(read | {key: value}, origin="")
            read[key] = value
    return Settings.build(read, origin="")
