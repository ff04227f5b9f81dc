"""The table of options, as scenarios, what-ifs and the command line use it."""

from __future__ import annotations

import operator

import pytest

from inference_econ._named import named
from inference_econ.inputs import Settings, catalog
from inference_econ.inputs.options import GROUPS, OPTIONS, WHAT_IFS
from inference_econ.requests import kinds, tables
from inference_econ.requests.request import FIELDS
from tests.commands import parsers

#: Settings that commands have as arguments, or as several options.
_NOT_OPTIONS = {"model", "hardware", "arrangement", "speculate", "sampling"}


def test_settings_are_options() -> None:
    assert set(Settings.fields) - _NOT_OPTIONS <= set(OPTIONS)
    assert sum(map(len, GROUPS.values())) == len(OPTIONS)


def test_options_that_are_what_ifs_name_fields() -> None:
    subjects = {"hardware": catalog.hardware("h100_sxm"), "assumptions": catalog.assumptions("deployable")}
    for field in WHAT_IFS.values():
        specification, _, path = field.partition(".")
        operator.attrgetter(path)(subjects[specification])


def test_options_that_are_what_ifs_have_the_limits_of_their_fields() -> None:
    """A value that the option accepts is never rejected as a value of --set, which the user did not type."""
    for name, field in WHAT_IFS.items():
        kind, (specification, _, path) = kinds.kind(OPTIONS[name].kind), field.partition(".")
        if specification == "assumptions" and isinstance(kind, kinds.Number):
            for value in (kind.limits.get("ge", 1e-15), kind.limits.get("le", 10**9)):
                catalog.assumptions("deployable", changes=[f"{path}={value}"])


def test_commands_have_options_as_the_table_spells_them() -> None:
    spelled = {parameter.name: parameter.opts for command in parsers().values() for parameter in command.params}
    for option in OPTIONS.values():
        assert option.spelled in spelled[option.name]


def test_names_of_sets_are_no_options() -> None:
    names = {*OPTIONS, *(row["name"] for row in tables.ROWS.values())}
    assert not names & set(tables.SETS)
    owners = {name for name in (key.partition(".")[0] for key in tables.ROWS) if name}
    assert owners <= {*tables.SETS, *tables.COMMANDS, "output", "printed"}


@pytest.mark.parametrize("name", tables.COMMANDS)
def test_functions_take_each_option_or_their_request_has_it(name: str) -> None:
    command = tables.COMMANDS[name]
    functions = [command.load(), *map(named, command.variants.values())]
    own = {name for function in functions for name in function.__annotations__} - {"request", "return"}
    own |= set(command.variants) & set(command.parameters)
    assert own <= set(command.parameters)
    # The models of a comparison are among its settings.
    assert set(command.parameters) - own - set(FIELDS) <= {*tables.SHOWN, "yes", "models"}
