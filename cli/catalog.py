"""Commands that show the catalog, import models, traces and API offers, and run scenarios."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from inference_econ import answers, inputs, report, studies
from inference_econ.errors import InputError, UnknownNameError
from inference_econ.inputs import Kind, catalog
from inference_econ.records.files import check_ending, ending_of, write_text
from inference_econ.records.plain import csv_text
from inference_econ.requests import Request, kinds

from . import show

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.report.page import Page


def list_models() -> Page:
    """List the models of the catalog."""
    return report.catalog.ListingPage("models")


def show_model(name: str) -> Page:
    """Show a model with its parameter count and sources."""
    return report.catalog.EntryPage("models", name)


def list_scenarios() -> Page:
    """List the scenarios: YAML files that define a study, table or figure."""
    return report.catalog.ListingPage("scenarios")


def show_scenario(name: str) -> Page:
    """Show a scenario: a YAML file that defines a study, table or figure."""
    return report.catalog.EntryPage("scenarios", name)


def list_assumptions() -> Page:
    """List the presets of assumptions, such as efficiencies and overheads."""
    return report.catalog.ListingPage("assumptions")


def show_assumptions(name: str) -> Page:
    """Show a preset of assumptions (efficiencies, overheads) with its sources."""
    return report.catalog.EntryPage("assumptions", name)


def list_gpus(prices: bool) -> Page:
    """List the GPUs and other accelerators."""
    if prices:
        return report.catalog.PricesPage(catalog.names("hardware"))
    return report.catalog.ListingPage("hardware")


def show_gpu(name: str, prices: bool) -> Page:
    """Show a GPU with the source of every number."""
    return report.catalog.PricesPage((name,)) if prices else report.catalog.EntryPage("hardware", name)


def list_engines(request: Request, recipes: tuple[str, str] | None) -> Page:
    """List the serving engines, or their settings (recipes) for a model."""
    return _recipes(request, None, recipes) or report.catalog.ListingPage("engines")


def show_engine(request: Request, name: str, recipes: tuple[str, str] | None) -> Page:
    """Show the features of a serving engine by version, with sources."""
    return _recipes(request, name, recipes) or report.catalog.EntryPage("engines", name)


def _recipes(request: Request, engine: str | None, recipes: tuple[str, str] | None) -> Page | None:
    """Recipes of all engines or of one engine; None without ``--recipes``."""
    if request.weights is not None and recipes is None:
        raise InputError("--weights applies to recipes; give --recipes MODEL CHIP as well", option="weights")
    return None if recipes is None else report.catalog.RecipesPage(*recipes, request.weights, engine)


def list_traffic() -> Page:
    """List the workloads of the catalog, with their request lengths."""
    return report.catalog.ListingPage("traffic")


def list_fields() -> Page:
    """List the fields of results with their units."""
    return report.schema.FieldsPage(None)


def list_equations() -> Page:
    """List the equations of the published study and their Python functions."""
    return report.equations.EquationsPage()


def show_field(name: str) -> Page:
    """Show the meaning and unit of a result field, or all fields of a command."""
    return report.schema.FieldsPage(name)


#: Catalog kinds by the word after ``show``.
_SHOWN: Mapping[str, Kind] = {
    "model": "models",
    "gpu": "hardware",
    "scenario": "scenarios",
    "traffic": "traffic",
    "assumptions": "assumptions",
    "engine": "engines",
}


def shown_kind(name: str) -> str:
    """Word after ``show`` that selects the kind of a catalog entry.

    Raises
    ------
    InputError
        If no kind has an entry of that name, or several kinds have one.
    """
    found = [word for word, kind in _SHOWN.items() if _meant(kind, name) is not None]
    if len(found) == 1:
        return found[0]
    kinds = ", ".join((*found,) if found else (*_SHOWN, "field", "schema"))
    problem = "several kinds of entries have this name" if found else "the catalog has no entry of this name"
    raise InputError(f"show {name}: {problem}; name the kind, one of {kinds}: inference-econ show KIND {name}")


def _meant(kind: Kind, name: str) -> str | None:
    """Name of the catalog entry that a text in any spelling means; None if there is no such entry."""
    try:
        return catalog.meaning(kind, name).name
    except UnknownNameError:
        return None


def show_schema(kind: str, page: bool, path: str | None) -> str:
    """Print the JSON schema of a kind of YAML file, for editors and validators."""
    if page and kind != "assumptions":
        raise InputError(f"--page applies to assumptions only, got {kind}; without it the JSON schema is printed")
    if path is not None:
        check_ending(path, f"the name of a {'page' if page else 'schema'}", (".md" if page else ".json", ""))
    return inputs.schemas.reference_page() if page else json.dumps(inputs.schemas.json_schema(kind), indent=2)


def list_offers(request: Request, model: str | None, refresh: str | None, date: str | None) -> Page | None:
    """List API prices of one model or all models, by provider.

    Prices are in USD per million input, cached input and output tokens. --refresh replaces the saved offers by the
    offers of a file. FILE is the JSON of https://models.dev/api.json, or a CSV file with the columns model, input and
    output. Optional columns are provider, hours, cached_input, tokens_per_second and date. The command downloads
    nothing. 'price --api-prices PROVIDER' compares a cost with the offers of a provider. For GPU prices, see 'list gpus
    --prices'.
    """
    if refresh is None:
        if date is not None:
            raise InputError("--date is the day of a snapshot; give --refresh FILE", option="date")
        return report.catalog.OffersPage(model)
    if model is not None:
        raise InputError("--refresh takes all offers of a file; leave out the model", option="refresh")
    taken = inputs.offers.read_snapshot(refresh, date)
    place = inputs.offers.own_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror}; set XDG_CONFIG_HOME to a folder") from error
    write_text(place, inputs.offers.csv_of(taken))
    catalogued = sum(bool(offer.model) for offer in taken)
    request.tell(f"wrote {place}: {len(taken)} offers, {catalogued} of models of the catalogue")
    return None


def show_traffic(request: Request, name: str, target: str | None) -> Page | Shown:
    """Show a workload, or the arrivals, lengths and reuse of a recorded trace.

    NAME is a workload of the catalog or a trace file. Supported traces are Azure and BurstGPT (CSV), Mooncake, AgentX /
    Weka, ShareGPT, 'vllm bench serve --save-detailed', AIPerf and OpenTelemetry (JSON or JSON Lines). Files may be
    compressed (.gz). -o mine.yaml saves the workload, or a workload that is fitted to the trace, for --traffic
    mine.yaml. Other commands simulate a trace with --trace FILE.
    """
    if target is not None and not target.endswith((".yaml", ".yml")):
        raise InputError(f"{target}: the workload is written as YAML; end the name in .yaml (the summary is printed)")
    if name in catalog.names("traffic") or name.endswith((".yaml", ".yml")):
        if request.plot is not None:
            raise InputError("--plot is of a trace; name its file, or leave --plot out")
        catalog.meaning("traffic", name)  # raises now; the page is made later
        if target is not None:
            _write(request, target, catalog.locate("traffic", name).read_text(encoding="utf-8"))
        return report.catalog.EntryPage("traffic", name)

    if not (catalog.files_allowed() and catalog.is_file(name)):
        if Path(name).suffix:
            raise InputError(f"{name}: no such file; give the file of a trace, or the name of a workload")
        catalog.meaning("traffic", name)
    profile = answers.traffic.trace(name)
    if target is not None:
        _write(request, target, inputs.spec_text(profile.traffic))
    return profile


def import_model(request: Request, path: str, target: str | None) -> Page:
    """Import a model from a Hugging Face config.json.

    PATH is the file or its folder. The command also reads hf_quant_config.json, and compares the parameter count with
    the headers of safetensors files, if these are present. ORGANIZATION/NAME is read from the local Hugging Face cache.
    The command rejects configuration keys that it does not support, and names them.
    """
    if target is not None and not target.endswith((".yaml", ".yml")):
        raise InputError(f"{target}: a model is written as YAML; end the name in .yaml (the summary is printed)")
    config = _config(path)
    if str(config) != path:
        request.tell(f"reading {config}")
    model = inputs.catalog.recognized(inputs.huggingface.import_config(config))
    checkpoint = inputs.huggingface.checkpoint_beside(inputs.huggingface.find_config(config), model.layers)
    if target is not None:
        _write(request, target, inputs.spec_text(model))
    return report.import_model.ImportedModelPage(model, checkpoint)


def _write(request: Request, target: str, text: str) -> None:
    """Write a catalog file and report its name."""
    write_text(target, text)
    request.tell(f"wrote {target}")


def _config(path: str) -> Path:
    """Return a path, or the cached config.json of a Hugging Face id.

    Raises
    ------
    InputError
        If the cache does not have the id.
    """
    if not inputs.huggingface.is_identity(path) or Path(path).exists():
        return Path(path)
    # The hub's environment variables name the folder of the cache.
    home = Path(os.environ.get("HF_HOME") or inputs.user_folder("XDG_CACHE_HOME", ".cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    config = inputs.huggingface.cached_config(path, cache)
    if config is None:
        known = _meant("models", path)
        listed = "" if known is None else f" (the catalogue has {known}, which needs no import)"
        raise InputError(
            f"{path}: no such file, and {cache} has no config.json of a model with that id{listed}; give "
            f"the config.json that is published with its weights, or fetch it into the cache: hf download {path} "
            "config.json"
        )
    return config


def run(request: Request, name: str) -> Shown:
    """Run a study that a scenario (YAML file) defines.

    NAME is a scenario (see 'inference-econ list scenarios') or the path of a YAML file.
    """
    return studies.scenario.run(name, changes=request.changes, progress=request.progress)


def table(request: Request, name: str) -> Shown:
    """Print the table that a scenario defines, for example paper/table_4."""
    return studies.scenario.run(name, changes=request.changes, progress=request.progress)


def figure(request: Request, name: str, path: str | None) -> None:
    """Draw the figure that a scenario defines, for example paper/figure_6.

    With -o NAME.csv, the command writes the curves.
    """
    target = path or kinds.kind("figure").read(f"{Path(name).stem}.svg")
    with show.progress_bar(quiet=request.quiet) as progress:
        answer = studies.scenario.run(name, changes=request.changes, progress=progress)
    if ending_of(target) == ".csv":
        write_text(target, csv_text(answer.to_frame(drawn=True)))
    else:
        report.pages.page(answer).draw(target)
    request.tell(f"wrote {target}")
