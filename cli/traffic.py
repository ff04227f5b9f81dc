"""The command that says what a traffic is, of the catalogue or of a recorded trace."""

from __future__ import annotations

from pathlib import Path

import inference_econ as ie
from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.records.files import write_text

from . import options, show
from .help import command


@command("traffic")
def traffic(name: str | None, target: str | None, output: options.Output) -> None:
    """List the traffics, show one, or say what a recorded trace is: arrivals, lengths, reuse, sessions.

    FILE is a trace of Azure or BurstGPT (CSV), Mooncake, AgentX / Weka, ShareGPT, 'vllm bench serve --save-detailed',
    AIPerf or OpenTelemetry (JSON, or a document a line), perhaps packed as .gz. With -o mine.yaml a traffic is fitted
    to it, or a known one is written to be changed, for --traffic mine.yaml of other commands; --trace FILE plays it
    again as it came.
    """
    if target is not None and not target.endswith((".yaml", ".yml")):
        raise InputError(f"{target}: a traffic is written as YAML; end the name in .yaml (the summary is printed)")
    if name is None or name in inputs.catalog.names("traffic") or name.endswith((".yaml", ".yml")):
        files = (("-o", target if name is None else None), ("--plot", output.picture))
        stray = next((spelled for spelled, value in files if value is not None), None)
        if stray is not None:
            raise InputError(f"{stray} is of a trace; name its file, or leave {stray} out")
        if name is not None:
            inputs.catalog.meaning("traffic", name)  # at once: a page is made later
        show.emit(
            report.catalog.ListingPage("traffic") if name is None else report.catalog.EntryPage("traffic", name), output
        )
        if name is not None and target is not None:
            write_text(target, inputs.catalog.locate("traffic", name).read_text(encoding="utf-8"))
            show.remark(f"wrote {target}", quiet=output.quiet)
        return

    if not (inputs.catalog.files_allowed() and inputs.catalog.is_file(name)):
        if Path(name).suffix:
            raise InputError(f"{name}: no such file; give that of a trace, or the name of a traffic")
        inputs.catalog.meaning("traffic", name)
    with show.progress_bar(quiet=output.quiet):
        profile = ie.trace(name)
    if target is not None:
        write_text(target, inputs.spec_text(profile.traffic))
    show.answer(profile, output)
    if target is not None:
        show.remark(f"wrote {target}", quiet=output.quiet)
