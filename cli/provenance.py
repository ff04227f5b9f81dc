"""What a command was asked, as a part of its answer, so that other commands can set the same up again."""

from __future__ import annotations

import click

#: Options that say where an answer goes, not what it is about.
_SHOWN = ("form", "as_json", "as_csv", "output", "quiet", "why", "plot")


def asked() -> dict[str, object]:
    """The running command and all its options, given or not."""
    from inference_econ.report.answer_file import asked

    context = click.get_current_context()
    options = {name: value for name, value in context.params.items() if name not in _SHOWN}
    return asked(str(context.info_name), options)
