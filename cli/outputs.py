"""Options that say how an answer is shown and where it goes, and what answers take in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from inference_econ.errors import InputError
from inference_econ.records.files import ending_of


class Output(NamedTuple):
    """Place that an answer goes to, and its form."""

    form: str
    """``table``, ``json``, ``csv`` or ``markdown``."""
    path: str | None = None
    """File to write instead of printing."""
    picture: str | None = None
    """File to draw to."""
    quiet: bool = False
    """Without progress bar, drawings of characters and remarks."""
    why: bool = False
    """With all that the numbers rest on below the tables."""
    intervals: bool = False
    """With 80 % intervals behind predicted values."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Output:
        """Return the output that options say; a file's name asks for a form, unless one is given.

        Raises
        ------
        InputError
            If they contradict each other.
        """
        path, quiet = values.get("output"), values.get("quiet", False)
        if "as_csv" not in values:
            return cls("table", path, values.get("plot"), quiet)
        form = _chosen_form(values["form"], as_json=values["as_json"], as_csv=values["as_csv"])
        if path is not None:
            form = _written_form(path, form)
        shown = values.get("why", False), values.get("intervals", False)
        return cls(form or "table", path, values.get("plot"), quiet, *shown)


#: Forms of results, by how names of files end; text may be of any form.
_FORMS = {".csv": "csv", ".json": "json", ".md": "markdown"}
_TEXT = ".txt"


def _chosen_form(form: str | None, *, as_json: bool, as_csv: bool) -> str | None:
    """The form that is asked for, in one of the ways to say it; None if none is.

    Raises
    ------
    InputError
        If several are.
    """
    named = {"--json": as_json, "--csv": as_csv, f"--format {form}": form is not None}
    chosen = [option for option, wanted in named.items() if wanted]
    if len(chosen) > 1:
        raise InputError(f"give only one of {', '.join(chosen)}")
    return chosen[0].removeprefix("--format ").removeprefix("--") if chosen else None


def _written_form(path: str, form: str | None) -> str:
    """The form of a file: as its name ends, or as is asked for.

    Raises
    ------
    InputError
        If the name ends like another form, or like none that is written.
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
