"""Catalog: specifications of hardware, models, engines, assumptions, workloads and scenarios, read by name.

A catalog name is the path of a file in the folder for its kind of specification, without the suffix: ``h100_sxm``,
``paper/h100``. A name that ends in ``.yaml``, or that is an existing file, is read as a path. A model can also be a
published ``config.json``, or a folder that contains one.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from inference_econ._named import named
from inference_econ.errors import InferenceEconError, InputError, UnknownNameError, of_option
from inference_econ.inputs.kept import from_file, kept
from inference_econ.inputs.options import parsed_value
from inference_econ.inputs.places import Kind as Kind
from inference_econ.inputs.places import Meaning as Meaning
from inference_econ.inputs.places import Part as Part
from inference_econ.inputs.places import files as files
from inference_econ.inputs.places import files_allowed as files_allowed
from inference_econ.inputs.places import folder as folder
from inference_econ.inputs.places import is_uncopied, text_of
from inference_econ.inputs.places import names as names
from inference_econ.inputs.places import names_only as names_only
from inference_econ.inputs.places import part_names as part_names
from inference_econ.inputs.places import uncopied as uncopied

if TYPE_CHECKING:
    from inference_econ.inputs._spec import SourcedSpec, Spec
    from inference_econ.inputs._yaml import Document, Location
    from inference_econ.inputs.economic_defaults import Elasticity, Learning, Ownership, PowerSpec, TierSpec
    from inference_econ.inputs.engine_specs import EngineSpec, KernelCount
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.models.acceptance import SpeculationFacts, UsualAcceptance
    from inference_econ.inputs.models.model import ModelSpec
    from inference_econ.inputs.name_matching import MeasuredNames
    from inference_econ.inputs.presets.assumptions import Assumptions
    from inference_econ.inputs.scenario_kinds import ProposerName
    from inference_econ.inputs.scenarios.scenario import Scenario
    from inference_econ.inputs.workload.traffic import TrafficSpec

#: Catalog name or path.
Name = str | os.PathLike[str]
SpecT = TypeVar("SpecT", bound="Spec")

#: Word for one entry and class of the specification (``module:name``), by kind of entry.
_KINDS: dict[Kind, tuple[str, str]] = {
    "hardware": ("hardware", "inputs.hardware:HardwareSpec"),
    "models": ("model", "inputs.models.model:ModelSpec"),
    "traffic": ("traffic", "inputs.workload.traffic:TrafficSpec"),
    "assumptions": ("assumptions", "inputs.presets.assumptions:Assumptions"),
    "scenarios": ("scenario", "inputs.scenarios.scenario:Scenario"),
    "engines": ("engine", "inputs.engine_specs:EngineSpec"),
}
#: Argument of ``inference-econ list`` for each kind, if it differs from the name of the kind.
_LISTED = {"hardware": "gpus"}
#: Pairs of kinds whose names users confuse, because commands take a name of each.
_OTHER: dict[Kind, Kind] = {"hardware": "models", "models": "hardware"}
#: Fields of assumptions, by group and name, that may name a file. The file is in the subfolder with the name of the
#: field.
_FILES: tuple[tuple[str, Part], ...] = (
    ("network", "collectives"),
    ("experts", "kernels"),
    ("chip", "products"),
    ("attention", "scores"),
)
#: A file that extends a fitted profile, and sets only these keys, still has the fitted constants of this profile.
_ONLY_LEVELS = {"extends", "name", "description", "levels", "sources"}
#: Kinds whose files may extend another file.
_EXTENDED: tuple[Kind, ...] = ("assumptions", "hardware", "models")
_PACKAGE = Path(__file__).resolve().parents[1]
_LOG = logging.getLogger(__name__)
#: Last remarks on names that were shown or logged. They are not logged again.
_TOLD: deque[str] = deque(maxlen=256)


def tier(name: str) -> TierSpec:
    """Read a kind of host memory by name or path.

    Raises
    ------
    InputError
        If no kind of host memory has this name, and no such file exists.
    SpecError
        If the file has mistakes.
    """
    from inference_econ.inputs.economic_defaults import TierSpec

    return of_assumptions(TierSpec, "tiers", "tier", name)


def of_assumptions(cls: type[SpecT], part: Part, word: str, name: str) -> SpecT:
    """Read a file by its name in a subfolder of ``assumptions``, or by its path."""
    shipped = part_names(part)
    path = folder("assumptions") / part / f"{name}.yaml" if name in shipped else Path(name)
    if not (name in shipped or files_allowed()) or not is_file(path):
        raise InputError(f"unknown {word} {name!r}; known: {', '.join(shipped)} (a path to a YAML file works too)")
    return from_file(cls, path)


@cache
def ownership() -> Ownership:
    """Default terms of owning an accelerator."""
    from inference_econ.inputs.economic_defaults import Ownership

    return _usual(Ownership, "ownership")


@cache
def power() -> PowerSpec:
    """Power assumptions for accelerators and their hosts."""
    from inference_econ.inputs.economic_defaults import PowerSpec

    return _usual(PowerSpec, "power")


@cache
def elasticity() -> Elasticity:
    """Default assumptions on the startup and shutdown of replicas."""
    from inference_econ.inputs.economic_defaults import Elasticity

    return _usual(Elasticity, "elasticity")


@cache
def learning() -> Learning:
    """Default assumptions on the learner in reinforcement learning: compute and memory."""
    from inference_econ.inputs.economic_defaults import Learning

    return _usual(Learning, "learning")


def _usual(cls: type[SpecT], part: Part) -> SpecT:
    """Read the default file of a subfolder of ``assumptions``."""
    return from_file(cls, folder("assumptions") / part / "usual.yaml")


def models() -> tuple[str, ...]:
    """Names of all models, sorted."""
    return names("models")


def gpus() -> tuple[str, ...]:
    """Names of all GPUs and other accelerators, sorted."""
    return names("hardware")


def locate(kind: Kind, name: str) -> Path:
    """Path of the file for a catalog name, common name or path; see :func:`meaning` for errors."""
    called = meaning(kind, name)
    return _own_file(kind, called.name) or files(kind)[called.base or called.name]


def meaning(kind: Kind, name: str) -> Meaning:
    """Catalog entry for a path, a catalog name or a common name.

    Raises
    ------
    UnknownNameError
        If the name matches no entry or several entries. The message lists the most similar names, or all matching
        entries.
    InputError
        If the text is a path and no such file exists.
    """
    if not name.strip():
        raise InputError(
            f"the name of the {_KINDS[kind][0]} is empty; 'inference-econ list {_LISTED.get(kind, kind)}' lists all"
        )
    shipped = names(kind)
    if name not in shipped and f"profiles/{name}" in shipped:  # the prefix profiles/ may be omitted
        return Meaning(f"profiles/{name}")
    if name in shipped or (kind == "models" and text_of(name) is not None):
        return Meaning(name)
    own = _own_file(kind, name)
    if own is not None and own.suffix == ".gguf" and kind == "models":
        from inference_econ.inputs import huggingface

        return Meaning(name, huggingface.gguf_remark(own))
    if own is not None:
        return Meaning(name)
    from inference_econ.inputs.name_matching import meant

    called = meant(kind, name)
    if called is None:
        raise UnknownNameError(_unknown(kind, name, shipped))
    return called


def remark(kind: Kind, name: str) -> str:
    """Remark on how a name is understood, or on the catalog model that a user's model equals; empty without one.

    The caller shows the remark, so it is not logged.
    """
    called = meaning(kind, name)
    if called.remark and called.remark not in _TOLD:
        _TOLD.append(called.remark)
    if called.remark or kind != "models" or called.base or name in names(kind):
        return called.remark
    try:
        return model(name).equal_remark
    except InferenceEconError:
        return ""  # The command reports the mistakes of the file.


def _own_file(kind: Kind, name: str) -> Path | None:
    """Path of a user's file; None for catalog names, and if paths are not allowed.

    Raises
    ------
    InputError
        If the text has the form of a file name and no such file exists.
    """
    if not files_allowed():
        return None
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or (kind == "models" and path.suffix == ".gguf"):
        if not is_file(path):
            raise InputError(f"{name}: no such file")
        return path
    if name in names(kind):
        return None
    if kind == "models" and (path.suffix == ".json" or os.path.isdir(path)):  # noqa: PTH112 - as in is_file
        from inference_econ.inputs import huggingface

        return huggingface.find_config(path)
    return path if is_file(path) else None


def is_file(path: Path | str) -> bool:
    """True if a name is the path of a file."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file fails for a name too long for any file


#: Endings of trace files, which are not YAML files.
_TRACES = (".csv", ".jsonl", ".gz")
#: Largest number of names that a message lists completely, and number of names in other messages [1].
_FEW, _NAMED = 10, 4
#: Pattern of a number of accelerators before a name, as in ``8xH100``.
_COUNTED = re.compile(r"^\d+_?x_?")


def _unknown(kind: Kind, name: str, shipped: Sequence[str]) -> str:
    from inference_econ.inputs.name_matching import meant, split_quantization

    word, other = _KINDS[kind][0], _OTHER.get(kind)
    if "," in name:
        return f"{name!r} is no {word}: give one name here; options that take several are repeated, one name each"
    try:
        is_other = other is not None and (name in names(other) or meant(other, name) is not None)
    except UnknownNameError:
        is_other = True
    if is_other:
        words = ("a model", "a chip") if kind == "hardware" else ("a chip", "a model")
        return (
            f"{name!r} is {words[0]}, not {words[1]}: a model comes before its chip (llama_3_70b h100_sxm), and --on "
            "names further chips, of 'compare' all of them"
        )
    # 8xH100 means eight GPUs, which is not a catalog name.
    quantized = split_quantization(name) if kind == "models" else None
    wanted = _COUNTED.sub("", (quantized[0] if quantized else name).lower().replace("-", "_").replace(" ", "_"))
    bare = {full.rsplit("/", 1)[-1]: full for full in reversed(shipped)}
    # Names that start with the typed text are suggested before names with similar spelling.
    near = [full for full in shipped if wanted and full.startswith(wanted)]
    near += [bare[match] for match in difflib.get_close_matches(wanted, list(bare), n=3, cutoff=0.5)]
    near += [full for full in shipped if wanted and wanted in full]
    near = list(dict.fromkeys(near))
    if near:
        hint = f"did you mean {', '.join(near[:_NAMED])}?"
    elif len(shipped) <= _FEW:
        hint = f"known: {', '.join(shipped)}"
    else:
        closest = difflib.get_close_matches(wanted, list(bare), n=_NAMED, cutoff=0.0)
        hint = f"for example {', '.join(bare[match] for match in closest)}"
    files = "; a path to a YAML file works too" if files_allowed() else ""
    return f"unknown {word} {name!r}; {hint} ('inference-econ list {_LISTED.get(kind, kind)}' lists all{files})"


@cache
def references() -> dict[str, dict[str, str]]:
    """References by key: title, author, and year, URL and note if known."""
    from bibtexparser.entrypoint import parse_file

    library = parse_file(str(_PACKAGE / "references.bib"))
    return {
        entry.key: {field.key: str(field.value).replace("{", "").replace("}", "") for field in entry.fields}
        for entry in library.entries
    }


@cache
def measured_files() -> dict[str, Path]:
    """Paths of the package's CSV tables of measurements, sorted by name, without the tables of measured servers."""
    return {path.stem: path for path in sorted((folder("scenarios") / "measured").glob("*.csv"))}


@cache
def server_files() -> dict[str, Path]:
    """Paths of the tables of measured servers in the package, sorted by dataset name."""
    return {path.stem: path for path in sorted((folder("scenarios") / "measured" / "servers").glob("*.csv"))}


def measured_names() -> MeasuredNames:
    """Names of models, chips and engines in published measurements, with their catalog names."""
    from inference_econ.inputs import name_matching

    return name_matching.read_measured_names()


@cache
def speculation_facts() -> SpeculationFacts:
    """Accepted tokens and CPU time of speculation rounds on measured servers."""
    from inference_econ.inputs.models.acceptance import SpeculationFacts

    return from_file(SpeculationFacts, folder("scenarios") / "measured" / "speculation.yaml")


def hardware(name: Name, *, changes: Iterable[str] = ()) -> HardwareSpec:
    """Read hardware by name or path.

    Parameters
    ----------
    name : str or path
        ``h100_sxm``, ``paper/h100``, or the path of a file.
    changes : iterable of str
        Fields to override, ``"hbm_bytes_per_second=6.7 TB/s"``. The values are validated like the file.

    Raises
    ------
    UnknownNameError, SpecError, InputError
        If the name, the file or a change is invalid; the message includes the fix.
    """
    return cast("HardwareSpec", read("hardware", name, changes))


def model(name: Name, *, changes: Iterable[str] = ()) -> ModelSpec:
    """Read a language model by name or path; see :func:`hardware` for ``changes`` and errors.

    The path may be a Hugging Face ``config.json``, or a folder that contains one.
    """
    return cast("ModelSpec", read("models", name, changes))


def recognized(spec: ModelSpec) -> ModelSpec:
    """Note the catalog model with the same architecture in a model from a user's file, and return the model.

    Models of the published study are not compared.
    """
    from inference_econ.inputs.models.equal import equal_model

    alike = [name for name in names("models") if "/" not in name and _width(name) == spec.hidden_size]
    with uncopied():
        known = equal_model(spec, map(model, alike))
    vars(spec)["_catalog_name"] = "" if known is None else known.name
    return spec


@cache
def _width(name: str) -> float | None:
    """Hidden size in the file of a catalog model, or in the file that it extends; None if neither has a number."""
    from inference_econ.inputs.models.equal import width_or_base

    found = width_or_base(files("models")[name].read_text(encoding="utf-8"))
    if isinstance(found, float):
        return found
    return _width(found) if found in names("models") else None


def is_one_of(spec: ModelSpec, names: Iterable[str]) -> bool:
    """True if a model is one of the named catalog models, with original or changed fields.

    A model in a user's file is the catalog model with the same architecture.
    """
    return any(title("models", name) == spec.known_as for name in names)


@cache
def title(kind: Kind, name: str) -> str:
    """Title of a catalog entry in the package, from the start of its file.

    Raises
    ------
    UnknownNameError
        If the catalog has no such entry.

    Examples
    --------
    >>> title("models", "deepseek_v3"), title("hardware", "h200_sxm")
    ('DeepSeek-V3', 'NVIDIA H200 SXM5 141GB')
    """
    from inference_econ.inputs import _yaml

    return _yaml.entry_title(locate(kind, name)) or str(_read(kind, name).data["name"])


def usual_acceptance(proposer: ProposerName, target: ModelSpec | None) -> UsualAcceptance:
    """Default acceptance rate of a speculation method for a target model, derived from published values.

    If the target model has no published value, or if ``target`` is None, the result is the value for all models.

    Raises
    ------
    InputError
        If no acceptance rate of the method is known.
    """
    return speculation_facts().usually(proposer, lambda names: target is not None and is_one_of(target, names))


def assumptions(name: Name, *, changes: Iterable[str] = ()) -> Assumptions:
    """Read a preset of assumptions by name or path; see :func:`hardware` for ``changes`` and errors."""
    return cast("Assumptions", read("assumptions", name, changes))


def as_fitted(name: Name) -> Assumptions:
    """Read fitted assumptions without their measured corrections."""
    return cast("Assumptions", _fresh("assumptions", os.fspath(name), (), levelled=False))


def scenario(name: Name, *, changes: Iterable[str] = ()) -> Scenario:
    """Read a scenario by name or path; see :func:`hardware` for ``changes`` and errors."""
    return cast("Scenario", read("scenarios", name, changes))


def engine(name: Name, *, changes: Iterable[str] = ()) -> EngineSpec:
    """Read a serving engine by name or path; see :func:`hardware` for ``changes`` and errors."""
    return cast("EngineSpec", read("engines", name, changes))


def traffic(name: Name, *, changes: Iterable[str] = ()) -> TrafficSpec:
    """Read a workload by name or path; see :func:`hardware` for ``changes`` and errors. A trace is an error too."""
    if files_allowed() and str(name).endswith(_TRACES) and is_file(str(name)):
        raise InputError(
            f"{name} is a trace, not the YAML file of a workload; 'recommend', 'load' and 'fleet' read it with "
            f"--trace, and 'inference-econ show traffic {name} -o mine.yaml' fits a workload to it",
            option="traffic",
        )
    return cast("TrafficSpec", read("traffic", name, changes))


def place(kind: Kind, name: Name, location: Location) -> str:
    """``file:line`` of a value in a catalog entry or a user's file, for messages."""
    return _read(kind, str(name)).where(location)


@cache
def kernel_counts(
    engine_and_version: str, part: str, dtype: str, mixer: str, generation: str
) -> tuple[KernelCount, ...]:
    """Entries that state how many kernels an engine launches for one operator of a layer.

    Parameters
    ----------
    engine_and_version : str
        Engine name, optionally followed by a space and a version; by default the newest known version.
    part : str
        Part of a layer, see :attr:`KernelCount.part`.
    dtype : str
        Number format of the operator's weights.
    mixer : str
        If the operator is a norm, the kind of attention in its layer.
    generation : str
        Generation of the chip.

    Returns
    -------
    tuple of KernelCount
        Entries that match the operator, in the order of the file. The last entry that applies is used.

    Raises
    ------
    UnknownNameError, InputError
        If the engine or the version is unknown.

    Examples
    --------
    >>> [count.kernels for count in kernel_counts("trtllm", "attention output", "fp8", "", "hopper")]
    [1]
    """
    kernels = _kernels(engine_and_version)
    return tuple(count for count in kernels if count.holds(part, dtype, mixer, generation))


@cache
def _kernels(engine_and_version: str) -> tuple[KernelCount, ...]:
    name, _, version = engine_and_version.partition(" ")
    return engine(name).at(version or None).kernels


def classes() -> dict[str, type[SourcedSpec]]:
    """Classes of specifications, by the word for one entry: ``hardware``, ``model``, ``traffic`` and so on."""
    return {word: named(place) for word, place in _KINDS.values()}


def read(kind: Kind, name: Name, changes: Iterable[str] = ()) -> SourcedSpec:
    """Read an entry of any kind; see :func:`hardware` for arguments and errors.

    Files of the package are parsed once and copied for each caller; user files are parsed on each call.
    """
    word, place = _KINDS[kind]
    if not isinstance(name, (str, os.PathLike)):
        raise InputError(f"{word}: a name, a path or a {place.partition(':')[2]} is needed, got {name!r}")
    changes, (name, remark, base, *_) = tuple(changes), meaning(kind, os.fspath(name))
    # Files appear under their own name in every result.
    if remark and (base or name in names(kind)) and remark not in _TOLD:
        _TOLD.append(remark)
        _LOG.warning(remark)
    if base or name in names(kind):
        shipped = _shipped(kind, name, changes)
        return shipped if is_uncopied() else deepcopy(shipped)
    own = _fresh(kind, name, changes)
    return recognized(cast("ModelSpec", own)) if kind == "models" else own


def _fresh(kind: Kind, name: str, changes: tuple[str, ...], *, levelled: bool = True) -> SourcedSpec:
    document, is_preset = _read(kind, name), kind == "assumptions"
    # Adapters are part of the workload. The fitted constants stay valid if only adapters are changed.
    fitted = all(change.startswith("adapters.") for change in changes)
    with of_option("set") if changes else nullcontext():
        if is_preset and not fitted:
            _forget_calibration(document)
            document.data["extends"] = name
        for change in changes:
            if is_preset and any(f"{field}." in change.partition("=")[0] for _, field in _FILES):
                _graft_files(document)  # Changes can concern fields inside the referenced files.
            _apply(document, change, _KINDS[kind][0])
        if is_preset:
            _graft_files(document)
            if fitted and levelled:
                _graft_levels(document, name)
        if kind != "scenarios":
            cls: type[SourcedSpec] = named(_KINDS[kind][1])
            return cls.from_document(document)
        from inference_econ.inputs.scenarios.scenario import scenario_of

        return scenario_of(document, meaning)  # names are checked together with the other fields


# Studies change fields in any number of ways, so the number of cached specifications is limited. The limit is
# several times the size of the catalog.
@lru_cache(maxsize=1024)
def _shipped(kind: Kind, name: str, changes: tuple[str, ...]) -> SourcedSpec:
    if changes:
        return _fresh(kind, name, changes)
    cls: type[SourcedSpec] = named(_KINDS[kind][1])
    # A checkpoint of an entry has no separate file.
    path = files(kind)[name] if name in names(kind) else files(kind)[meaning(kind, name).base] / name
    return kept(cls, path, lambda: _fresh(kind, name, ()))


def _read(kind: Kind, name: str, readers: tuple[str, ...] = ()) -> Document:
    from inference_econ.inputs import _yaml

    text = text_of(name) if kind == "models" else None
    if text is not None:
        from inference_econ.inputs import huggingface

        return huggingface.document_of(text, name)
    called = meaning(kind, name)
    if called.base:
        from inference_econ.inputs import variants

        return variants.checkpoint(_read(kind, called.base), called.name, called.weights)
    path = locate(kind, name)
    if kind == "models" and path.suffix in (".json", ".gguf"):
        from inference_econ.inputs import huggingface

        return huggingface.gguf_document(path) if path.suffix == ".gguf" else huggingface.import_document(path)
    document = _yaml.read_yaml(path)
    base = document.data.get("extends") if kind in _EXTENDED else None
    if base is None:
        return document
    if isinstance(base, str) and base not in names(kind):
        base = document.data["extends"] = _beside(kind, path, base, document.where(("extends",)))
    if base in (*readers, name) or not isinstance(base, str):
        chain = " -> ".join((*readers, name))
        raise InputError(f"{document.where(('extends',))}: {base!r} cannot be extended: {chain}")
    try:
        extended = _read(kind, base, (*readers, name))
    except UnknownNameError as error:
        raise UnknownNameError(f"{document.where(('extends',))}: {error}") from error
    if kind != "assumptions":
        from inference_econ.inputs import variants

        return variants.laid_over(extended, document)
    if not document.data.keys() <= _ONLY_LEVELS:
        _forget_calibration(extended)
    return _yaml.merge(extended, document)


def _beside(kind: Kind, path: Path, base: str, where: str) -> str:
    """Path of an extended file, which is relative to the folder of the file that extends it; other names unchanged.

    Raises
    ------
    InputError
        If the name has the form of a file name and no such file exists.
    """
    beside = os.path.normpath(path.parent / base)
    try:
        return base if _own_file(kind, beside) is None else beside
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _forget_calibration(document: Document) -> None:
    """Remove the calibration and the corrections from assumptions whose fitted constants were changed."""
    sources = document.data.get("sources")
    for key in ("calibration", "levels"):
        document.data.pop(key, None)
        if isinstance(sources, dict):
            sources.pop(key, None)


def _graft_levels(document: Document, name: str) -> None:
    """Insert the measured corrections of a fitted profile.

    Corrections for another version of the profile are rejected.

    Raises
    ------
    InputError
        If the corrections belong to another version; the message names the line.
    """
    from inference_econ.inputs import _yaml
    from inference_econ.inputs.presets.calibration import constants_of

    profile = Path(name).name if name in names("assumptions") else ""
    if profile in part_names("levels"):
        _yaml.graft(document, ("levels",), _yaml.read_yaml(folder("assumptions") / "levels" / f"{profile}.yaml"))
    levels = document.data.get("levels")
    over = levels.get("profile") if isinstance(levels, dict) else None
    if isinstance(levels, dict) and over in names("assumptions") and levels.get("constants") != constants_of(str(over)):
        raise InputError(
            f"{document.where(('levels', 'constants'))}: levels over another version of {over}, which has been fitted "
            "again since; make them again with 'inference-econ calibrate', shipped ones with 'sh run.sh refit levels'"
        )


#: Pattern of a factor on the current value: ``2x``.
_TIMES = re.compile(r"(\d+(?:\.\d+)?)x")


def _apply(document: Document, change: str, word: str) -> None:
    from inference_econ.inputs import _yaml, variants
    from inference_econ.inputs.models.sizes import SHORT_KEYS

    path, sign, text = (part.strip() for part in change.partition("="))
    origin = f"--set {word}.{change}"
    if not sign or not path:
        raise InputError(f"{origin}: write --set {word}.FIELD=VALUE")
    if path == "extends":
        base = "preset with --assumptions" if word == "assumptions" else f"{word} itself"
        raise InputError(f"{origin}: extends cannot be set; name the {base}")
    factor = _TIMES.fullmatch(text)
    multiplied = variants.times(document, path, float(factor[1]), origin) if factor else None
    value = parsed_value(text, origin) if multiplied is None else multiplied
    if word == "model" and path in SHORT_KEYS:
        variants.apply_short_key(document, path, value, origin, float(factor[1]) if factor else None)
        return
    _yaml.assign(document, path.split("."), value, origin)
    variants.add_source(document, path, origin, again=True)


def _graft_files(document: Document) -> None:
    """Replace file names in four fields (collectives, kernels, products and scores) by the contents of the files."""
    from inference_econ.inputs import _yaml

    families = document.data.get("per_family")
    parents: list[Location] = [()]
    if isinstance(families, dict):
        parents += [("per_family", family) for family in families]
    for group, part in _FILES:
        for place in [(*parent, group, part) for parent in parents]:
            name, shipped = _yaml.below(document.data, place), part_names(part)
            if isinstance(name, str) and name not in shipped:
                raise InputError(f"{document.where(place)}: unknown {part} {name!r}; known: {', '.join(shipped)}")
            if isinstance(name, str):
                _yaml.graft(document, place, _yaml.read_yaml(folder("assumptions") / part / f"{name}.yaml"))
