"""Options for the format of a result and for the file to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from inference_econ.errors import InputError
from inference_econ.records.files import ending_of


class Output(NamedTuple):
    """Format of a result, and where it is written."""

    form: str
    """``table``, ``json``, ``csv`` or ``markdown``."""
    path: str | None = None
    """File to write instead of printing."""
    picture: str | None = None
    """Picture file to write; None for no picture."""
    quiet: bool = False
    """True to omit the progress bar, character plots and notes."""
    why: bool = False
    """True to show assumptions and sources below the tables."""
    intervals: bool = False
    """True to show 80% intervals next to predictions."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Output:
        """Read the output options; the extension of a file implies a format unless an option sets one.

        Raises
        ------
        InputError
            If options contradict each other.
        """
        path, quiet = values.get("output"), values.get("quiet", False)
        if "as_csv" not in values:
            return cls("table", path, values.get("plot"), quiet)
        form = _chosen_form(values["form"], as_json=values["as_json"], as_csv=values["as_csv"])
        if path is not None:
            form = _written_form(path, form)
        shown = values.get("why", False), values.get("intervals", False)
        return cls(form or "table", path, values.get("plot"), quiet, *shown)


#: Output formats by file extension. Files with the extension .txt may have any format.
_FORMS = {".csv": "csv", ".json": "json", ".md": "markdown"}
_TEXT = ".txt"


def _chosen_form(form: str | None, *, as_json: bool, as_csv: bool) -> str | None:
    """Output format that an option sets; None without such an option.

    Raises
    ------
    InputError
        If several options set an output format.
    """
    named = {"--json": as_json, "--csv": as_csv, f"--format {form}": form is not None}
    chosen = [option for option, wanted in named.items() if wanted]
    if len(chosen) > 1:
        raise InputError(f"give only one of {', '.join(chosen)}")
    return chosen[0].removeprefix("--format ").removeprefix("--") if chosen else None


def _written_form(path: str, form: str | None) -> str:
    """Output format of a file, from its extension or from the options.

    Raises
    ------
    InputError
        If the file has the extension of another format, or an unknown extension.
    """
    ending = ending_of(path)
    by_name = _FORMS.get(ending)
    if form is not None and by_name not in (None, form):
        raise InputError(f"{path}: --format {form} contradicts {ending}, which is {by_name}; change one of them")
    if by_name is None and ending not in ("", _TEXT):
        raise InputError(
            f"{path}: results are written as {', '.join(_FORMS)} and {_TEXT} (a table), not {ending}; end the name so"
        )
    return form or by_name or "table"
