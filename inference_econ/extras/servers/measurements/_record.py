"""Record of one measurement, in catalog names and base units."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from inference_econ.errors import InputError
from inference_econ.inputs import catalog, name_matching
from inference_econ.inputs import name_matching as spellings
from inference_econ.inputs.dtype import OF_FILES
from inference_econ.inputs.name_matching import EIGHT_BIT_FLOATS, format_in, has_other_width, plain, without_parentheses
from inference_econ.inputs.units import integer

#: Texts in a cell that mean a blank cell.
_BLANK = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "not recorded", "not stated"})
_ZERO = ("0", "0.0")
#: Largest parallel degree or accelerator count. Larger values are typing errors [1].
_MOST = 1e6
#: Range of valid measurements in any unit. The errors of values outside would overflow.
_SMALLEST, _LARGEST = 1e-15, 1e15


class UnusableRowError(Exception):
    """Error for an unusable row; the message states the reason."""


class Cells:
    """Cells of one table row, by column name; missing columns are blank.

    Attributes
    ----------
    cells : dict of str to str
        Cells as read from the file.
    """

    def __init__(self, cells: dict[str, str]) -> None:
        self.cells = cells

    def text(self, column: str) -> str:
        """Text of a cell without surrounding space; empty if blank."""
        text = self.cells.get(column, "").strip()
        return "" if text.lower() in _BLANK else text

    def words(self, column: str) -> str:
        """Text of a cell, in which "none" is a value and not a blank."""
        return self.cells.get(column, "").strip()

    def number(self, column: str) -> float | None:
        """Positive number of a cell; None if blank.

        Raises
        ------
        UnusableRowError
            If the cell is not a number, or the number is not positive and finite.
        """
        text = self.text(column)
        return None if not text else positive(text.replace(",", ""), column)

    def needed(self, column: str) -> float:
        """Positive number of a cell; blank cells are rejected as in :meth:`number`."""
        value = self.number(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def count(self, column: str) -> int:
        """Integer of at least 1; blank cells are rejected as in :meth:`number`."""
        value = self.whole(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def amount(self, column: str) -> float | None:
        """Number of at least 0; None if blank. See :meth:`number` for the errors."""
        return 0.0 if self.text(column) in _ZERO else self.number(column)

    def switch(self, column: str) -> bool | None:
        """Boolean of a cell with yes or no; None if blank.

        Raises
        ------
        UnusableRowError
            If the cell contains neither yes nor no.
        """
        text = self.text(column).lower()
        if text not in ("", "yes", "no"):
            raise UnusableRowError(f"{column} must be yes or no, got {text!r}")
        return text == "yes" if text else None

    def whole(self, column: str) -> int | None:
        """Integer of at least 1, or None; see :meth:`number`."""
        value = self.number(column)
        if value is not None and value != round(value):
            raise UnusableRowError(f"{column} must be an integer, got {value:g}")
        if value is not None and value > _MOST:
            raise UnusableRowError(f"{column} must be at most {_MOST:g}, got {value:g}")
        return None if value is None else round(value)


def positive(text: str | float, name: str) -> float:
    """Convert to a positive, finite number.

    Raises
    ------
    UnusableRowError
        If the text is not a positive, finite number; the message names the value.
    """
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise UnusableRowError(f"{name} is not a number: {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        shown = f"{value:g}" if math.isfinite(value) else f"{str(text)[:12]}{'...' * (len(str(text)) > 12)}"
        raise UnusableRowError(f"{name} must be positive and finite, got {shown}")
    if not _SMALLEST <= value <= _LARGEST:
        raise UnusableRowError(f"{name} is out of range: numbers are from {_SMALLEST:g} to {_LARGEST:g}, got {value:g}")
    return value


_COUNT = re.compile(r"^\s*(\d{1,4})\s*[x*]\s*(?=[A-Za-z])|(?:\s|(?<=\d))[x*]\s*(\d{1,4})\s*$", re.IGNORECASE)
#: Largest deviation of a stated memory size from the size that a program sees, such as 192 GB and 180 GiB of a B200
#: [1].
_MEMORY_TOLERANCE = 0.12

_SIXTEEN_BITS = {"fp16": "bf16", "bf16": "fp16"}
#: Endings of model files.
_MODEL_FILES = (".yaml", ".yml", ".json")
#: Minimum similarity of an unknown name to a name that is suggested instead [1].
_ALIKE = 0.7


def model_name(text: str) -> str:
    """Catalog name of a model; the path of a model file is returned unchanged.

    Raises
    ------
    UnusableRowError
        If the catalog has no model of this name.
    """
    if text in catalog.names("models") or _is_model_file(text):
        return text
    for spelling in spellings.of_model(text):
        if spelling in name_matching.model_spellings():
            return name_matching.model_spellings()[spelling]
    if not text:
        raise UnusableRowError("no model is named")
    raise UnusableRowError(
        f"{_unknown('model', text, name_matching.model_spellings())} (the path of a Hugging Face config.json works "
        "too; see 'inference-econ import')"
    )


def _is_model_file(text: str) -> bool:
    try:
        return Path(text).suffix in _MODEL_FILES and Path(text).is_file()
    except OSError:  # the name is too long for a file
        return False


def hardware_name(text: str) -> str:
    """Catalog name of a chip.

    Raises
    ------
    UnusableRowError
        If the catalog has no chip of this name, or only with a different memory size.
    """
    if text in catalog.names("hardware"):
        return text
    chips = _chips()
    for spelling in dict.fromkeys((text, without_parentheses(text))):
        words, memory, key = _chip_words(spelling)
        if memory is not None and key in chips:
            return chips[key]
        if words in chips:
            # Sizes are in units of 1e9 or 2^30 bytes.
            hbm = catalog.hardware(chips[words]).hbm_bytes
            sizes = () if memory is None else (float(memory) * 1e9, float(memory) * 2.0**30)
            if memory is None or any(abs(size / hbm - 1) <= _MEMORY_TOLERANCE for size in sizes):
                return chips[words]
    raise UnusableRowError(_unknown("hardware", text, chips) if text else "no hardware is named")


def chip_count(text: str) -> int | None:
    """Number of chips in a text; None if the text contains no number.

    Examples
    --------
    >>> chip_count("8x H100-80GB SXM"), chip_count("H100 x 4"), chip_count("MI300X")
    (8, 4, None)
    """
    match = _COUNT.search(text)
    return None if match is None else integer(match[1] or match[2])


def engine_name(text: str) -> tuple[str, str]:
    """Name and version of a serving engine. If the engine is unknown, the name is the first word."""
    lower = "" if text.lower().startswith("not stated") else text.lower()
    for name, others in catalog.measured_names().engines.items():
        for spelling in others:
            if spelling in lower:
                version = re.search(r"v?(\d+(?:\.\w+)+)", lower[lower.index(spelling) + len(spelling) :])
                of_another = spelling in catalog.measured_names().unversioned
                return name, "" if version is None or of_another else version[1]
    return (lower.split() or [""])[0], ""


def check_version(engine: str, version: str) -> None:
    """Reject versions of an engine that are newer than all known versions.

    Raises
    ------
    UnusableRowError
        If the version is newer; the message names the newest known version.
    """
    if engine in catalog.names("engines") and is_number(version):
        try:
            catalog.engine(engine).check(version)
        except InputError as error:
            raise UnusableRowError(str(error)) from None


def is_number(version: str) -> bool:
    """Check whether a version is a version number, not an image name."""
    return re.fullmatch(r"v?\d+(\.\w+)+([-+].*)?", version) is not None


def prefill_first(engine: str, version: str) -> bool:
    """Check whether an engine version processes all waiting prompts before it continues decoding."""
    return f"{engine} {version}".startswith(tuple(catalog.measured_names().prefill_first))


def compiled(engine: str, version: str) -> bool:
    """Check whether an engine version compiles models as a whole."""
    return f"{engine} {version}".startswith(tuple(catalog.measured_names().compiled))


def served(model: str, hardware: str, text: str) -> tuple[str, str | None]:
    """Model and weight format that a text about number formats describes.

    Parameters
    ----------
    model, hardware : str
        Catalog names.
    text : str
        For example ``fp8 (native ckpt)`` or ``fp4/fp8 (not in export)``; empty if not recorded.

    Returns
    -------
    tuple of str and (str or None)
        Catalog name and weight format. If the catalog has a separate entry for checkpoints in this format, the name is
        that of the entry. A format of None is the published format, in which groups of tensors may differ.

    Raises
    ------
    UnusableRowError
        If the text names no known format.
    """
    written = _written(text, model, hardware)
    native = _most_weights(model)
    if written is None:
        # Published 16-bit weights are converted to the 16-bit format of the chip.
        other = _in_other_bits(native, hardware)
        return model, None if other == native else other
    written = _in_other_bits(written, hardware)
    facts = catalog.measured_names()
    checkpoint = facts.checkpoints.get(model, {}).get(written)
    if checkpoint is not None:
        return checkpoint, None
    written = facts.formats.get(model, {}).get(written, written)
    return model, None if spellings.alike(written, native) else written


def described(model: str, hardware: str, formats: str | None, engine: str, version: str = "") -> dict[str, Any]:
    """Model, chip, weight format, engine, version and prefill policy, as fields of a measurement.

    Parameters
    ----------
    model, hardware, engine : str
        Names in any spelling.
    formats : str, optional
        Text for :func:`served`; if None, the format in the name of the model is used.
    version : str
        Engine version; if empty, the version in the engine's name is used.

    Raises
    ------
    UnusableRowError
        If a name is unknown.
    """
    chip = hardware_name(hardware)
    base = model_name(model)
    name, weights = served(base, chip, format_in_name(model) if formats is None else formats)
    known, in_name = engine_name(engine)
    first = prefill_first(known, version or in_name)
    return {
        "model": name, "hardware": chip, "weights": weights, "engine": known, "engine_version": version or in_name,
        "prefill_first": first,
    }  # fmt: skip


def written_format(text: str, model: str, hardware: str) -> str:
    """Weight format in a text, or else the format of most published weights."""
    return _written(text, model, hardware) or _most_weights(model)


def _most_weights(model: str) -> str:
    """Format of most of a model's published weights."""
    spec = catalog.model(model)
    return spec.expert_weights or spec.weights


def _in_other_bits(written: str, hardware: str) -> str:
    """Replace a 16-bit format that a chip does not support by the 16-bit format that it supports."""
    units = catalog.hardware(hardware).dense_flops_per_second
    other = _SIXTEEN_BITS.get(written)
    return other if other is not None and written not in units and other in units else written


def cache_format(written: str | None, hardware: str) -> str | None:
    """KV-cache format that a chip supports and that has the same width as a given format.

    Chips without 8-bit math units can also store 8-bit floats, because engines convert the cache to a wider format on
    use.
    """
    if written is None:
        return None
    units = catalog.hardware(hardware).dense_flops_per_second
    if written in EIGHT_BIT_FLOATS and "fp8" not in units and "int8" in units:
        return "int8"
    return _in_other_bits(written, hardware)


def _written(text: str, model: str, hardware: str) -> str | None:
    """Number format in a text.

    If the text has several alternatives, the result is the format for the model, or a format that the chip supports.
    """
    alternatives = [part for part in text.lower().split("/") if format_in(part) is not None]
    if not alternatives:
        return format_name(text)
    chip, family = catalog.hardware(hardware), model.split("_", maxsplit=1)[0]
    ours = [part for part in alternatives if family in part]
    able = [part for part in alternatives if format_in(part) in chip.dense_flops_per_second]
    dtype = format_in((ours or able or alternatives)[0])
    return ("mxfp4" if chip.vendor == "AMD" else "nvfp4") if dtype == "fp4" else dtype


def format_name(text: str) -> str | None:
    """Number format in a text; None if the text is empty or ``auto``.

    Raises
    ------
    UnusableRowError
        If the text contains no known format.
    """
    dtype = format_in(text.lower())
    if dtype is None and text and not text.lower().startswith(("auto", "native", "default")):
        raise UnusableRowError(f"unknown number format {text!r}")
    return dtype


def format_in_name(model: str) -> str:
    """Number format in the name of a checkpoint; empty if the name contains none, or for a model file.

    Raises
    ------
    UnusableRowError
        If the name implies an unknown narrow format.

    Examples
    --------
    >>> format_in_name("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"), format_in_name("meta-llama/Llama-3.1-8B")
    ('fp8', '')
    """
    if _is_model_file(model):
        return ""
    bare = model.rsplit("/", 1)[-1].lower()
    dtype = format_in(bare)
    # GGUF repositories contain files in many formats.
    if ("gguf" in bare and dtype not in OF_FILES) or (dtype is None and has_other_width(bare)):
        raise UnusableRowError(f"the number format of the weights of {model!r} is not known; give the nearest one")
    return dtype or ""


def _unknown(what: str, text: str, names_by_spelling: Mapping[str, str]) -> str:
    """Message about an unknown name, with similar names."""
    near = difflib.get_close_matches(plain(text.rsplit("/", 1)[-1]), names_by_spelling, n=5, cutoff=_ALIKE)
    names = " or ".join(list(dict.fromkeys(names_by_spelling[name] for name in near))[:2])
    return f"unknown {what} {text!r}" + (f"; nearest: {names}" if names else "")


def _chip_words(text: str) -> tuple[str, str | None, str]:
    """Joined words that identify a chip, memory size of the chip [GB], and a key of words and memory size."""
    parts, memory = spellings.of_chip(_COUNT.sub("", text))
    words = "".join(parts)
    return words, memory, words if memory is None else f"{words} {memory}"


@cache
def _chips() -> dict[str, str]:
    """Catalog names by identifying words, and by memory size if a name contains it."""
    names: dict[str, str] = {}
    for name in catalog.names("hardware"):
        if "/" not in name:
            for spelling in (name, catalog.hardware(name).name):
                names.setdefault(_chip_words(spelling)[2], name)
    for name, others in catalog.measured_names().hardware.items():
        names |= dict.fromkeys((_chip_words(spelling)[2] for spelling in others), name)
    return names


#: A day, month or year, and the end of a period: ``2026-04-17``, ``20260417``, ``2025-03..06``.
_DAY = r"\d{4}(?:-\d\d(?:-\d\d)?(?!\d)|\d{4})?"
_SPAN = re.compile(rf"(?P<since>{_DAY})(?:\.\.(?P<until>{_DAY}|\d\d))?")
#: Start of a date and time.
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T.*")
#: Two years such as ``2023-24``. The second part is not a month.
_YEARS = re.compile(r"(\d{2})(\d{2})-(\d{2})")
#: Dates in the text of a source: the measurement date, or the months of nightly runs.
_IN_SOURCE = (re.compile(r"measured=([^;,\s]+)"), re.compile(r"\b(\d{4}-\d{2}\.\.\d{4}-\d{2})\b"))
#: Columns that contain only a date; ``version_date`` may contain other text.
_COLUMNS = ("days", "measured", "date")
_SOURCES = ("source", "silicon_data_source")
_MONTHS_OF_YEAR = 12


@dataclass(frozen=True, slots=True)
class Days:
    """Period in which a measurement was made.

    Attributes
    ----------
    since, until : date
        First and last possible day.
    """

    since: date
    until: date


def row_days(row: Cells) -> Days | None:
    """Period in which a row was measured, from the date columns or the source; None if neither has a date.

    Raises
    ------
    UnusableRowError
        If a date column contains no date, or a day is in the future.
    """
    found = [f"{column} {text}" for column in _COLUMNS if (text := row.text(column))]
    version_date = row.text("version_date")
    if _SPAN.fullmatch(_TIME.sub(r"\1", version_date)):
        found.append(f"version_date {version_date}")
    sources = [row.text(column) for column in _SOURCES]
    matches = [match for source in sources for pattern in _IN_SOURCE if (match := pattern.search(source))]
    found += [f"measured={match[1]}" for match in matches]
    if not found:
        return None
    when = days(re.split(r"[ =]", found[0], maxsplit=1)[1])
    if when.since > date.today():
        raise UnusableRowError(f"{found[0]} is in the future: today is {date.today()}; give the day of the measurement")
    return when


def days(text: str) -> Days:
    """Convert a date, month, year, or range of dates, months or years into a period.

    Raises
    ------
    UnusableRowError
        If the text is not a date, month, year or span.

    Examples
    --------
    >>> days("2025-12..2026-02")
    Days(since=datetime.date(2025, 12, 1), until=datetime.date(2026, 2, 28))
    """
    plain = _TIME.sub(r"\1", text.strip())
    if (years := _YEARS.fullmatch(plain)) and integer(years[3]) > max(_MONTHS_OF_YEAR, integer(years[2])):
        plain = f"{years[1]}{years[2]}..{years[1]}{years[3]}"
    match = _SPAN.fullmatch(plain)
    try:
        if match is None:
            raise ValueError
        since, until = match["since"], match["until"] or match["since"]
        if len(until) < len("2025"):
            until = f"{since[: -len(until)]}{until}"
        return Days(_of(since, last=False), _of(until, last=True))
    except ValueError:
        raise UnusableRowError(
            f"{text!r} is not a date; write for example 2026-04-17, 2026-04, or 2025-12..2026-02"
        ) from None


def _of(text: str, *, last: bool) -> date:
    """First or last day of a date, a month or a year."""
    digits = text.replace("-", "")
    year, month, day = (integer(part or "0") for part in (digits[:4], digits[4:6], digits[6:]))
    whole_month = month or (_MONTHS_OF_YEAR if last else 1)
    return date(year, whole_month, day or (monthrange(year, whole_month)[1] if last else 1))


#: Arrival pattern of the requests.
#:
#: - batch: all requests start at once, and the run ends with the last request.
#: - concurrency: a new request starts whenever a request ends (closed loop).
#: - rate: requests arrive at random times (open loop).
#: - saturated: more requests than the server can process, so it runs at its maximum concurrency.
#: - limited: the largest load within the latency limits.
Load = Literal["batch", "concurrency", "rate", "saturated", "limited", "unknown"]
#: Loads that use the full capacity of a server.
FULL_LOADS: tuple[Load, ...] = ("saturated", "limited")

#: Measured fields.
RESULTS = (
    *("ttft_seconds", "tpot_seconds", "request_seconds"),
    *(f"{tokens}_tokens_per_second_per_accelerator" for tokens in ("output", "input", "total")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPool:
    """Equal prefill or decode workers of a disaggregated server.

    Attributes
    ----------
    workers : int or None
        Number of workers; None if not recorded [1].
    tp, dp, pp : int
        Tensor-parallel, attention-DP and pipeline degrees of one worker [1].
    ep : int or None
        Expert-parallel ranks of one worker; None if not recorded [1].
    slots : int or None
        Configured maximum of concurrent requests per worker; None if not recorded [1].
    """

    workers: int | None
    tp: int
    dp: int
    pp: int
    ep: int | None
    slots: int | None = None

    @property
    def accelerators(self) -> int | None:
        """Accelerators of all workers; None if not recorded [1]."""
        return None if self.workers is None else self.workers * self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Measured point of one deployment. Fields are None if not measured or not recorded.

    Attributes
    ----------
    id : str
        Name or number of the row.
    dataset, source : str
        Name of the file, and origin of the row.
    engine, engine_version : str
        Serving engine (vllm, sglang, trtllm, ...); empty if not recorded.
    ran : str
        Engine version that benchmark scripts used on that date, if the row has no version; empty if unknown.
    days : Days or None
        Period of the measurement.
    model, hardware : str
        Catalog names.
    accelerators : int or None
        Accelerators of the deployment, including replicas [1].
    tp, dp, pp, ep : int or None
        Tensor-parallel, data-parallel (attention-DP or replicas), pipeline and expert-parallel degrees [1].
    prefill, decode : RecordedPool or None
        Prefill and decode workers of a disaggregated server, whose tp, dp, pp and ep are None.
    weights, kv : str or None
        Number formats; None for the formats of the published model.
    isl, osl : float or None
        Mean input and output length [tokens].
    context : float or None
        Cached tokens, if recorded instead of lengths [tokens].
    cached : float
        Mean prompt tokens that are found in the prefix cache [tokens].
    load : str
        Arrival pattern; see :data:`Load`.
    concurrency : float or None
        Number of concurrent requests of the deployment; for a load with a rate, the configured maximum [1].
    requests_per_second : float or None
        Offered rate [1/s].
    requests : float or None
        Number of requests in the run, including warm-up and drain [1].
    spread : float or None
        Range of uniform output lengths divided by their mean [1]; 0 if all are equal.
    prefill_first : bool
        True if decoding pauses until all waiting prompts are processed.
    compiled : bool
        True if the engine compiled the model as a whole, so that no interpreter launches single kernels.
    eager : bool
        True if decode steps ran without CUDA graphs.
    synchronous : bool
        True if the host prepared no step in advance, although the engine does so by default.
    even_routing : bool
        True if tokens were forced to spread evenly over experts.
    redundant_experts : int or None
        Redundant copies of experts [1].
    two_batch : bool
        True if the engine used two-batch overlap.
    captured_tokens : int or None
        Configured size of the largest captured prefill step; None for the engine default [tokens].
    held_steps : float
        Configured maximum delay of prefill until every attention-DP group has a prompt [decode steps].
    wait_steps : float
        Mean delay of a prompt that a configured polling interval or batching of prompts causes [decode steps].
    warmed_up : bool
        True if unmeasured requests preceded the run, so that all kernels were compiled and tuned.
    step_tokens : float or None
        Configured token budget per step; None for the engine default [tokens].
    most_sequences : float or None
        Configured maximum number of concurrent requests, over all attention-DP groups [1].
    memory : float or None
        Configured share of memory, as the engine defines it [1].
    statistic : str
        Statistic of the latencies: median or mean.
    ttft_seconds, tpot_seconds, request_seconds : float or None
        Time to first token (for a batch: of all prompts), between tokens, and end to end (for a batch: of the last
        request) [s].
    output_tokens_per_second_per_accelerator : float or None
        Output throughput [tokens/s].
    input_tokens_per_second_per_accelerator : float or None
        Input throughput [tokens/s].
    total_tokens_per_second_per_accelerator : float or None
        Sum of input and output throughput [tokens/s].
    ttft_limit_seconds, tpot_limit_seconds : float or None
        SLOs of a limited load [s].
    speculation : str
        "none", "unrecorded", a recorded method ("MTP3"), or "suspected" if unclear.
    draft_tokens : int or None
        Number of draft tokens per speculation round [1], if ``speculation`` does not contain the number.
    tokens_per_round : float or None
        Published mean acceptance length, including the target's own token; None without speculation, or if not
        published [1].
    spoilt : str
        Reason why the run is invalid, found by comparison with a run of the same configuration; empty if valid.
    quality, tier : str
        Values of the columns ``quality`` and ``tier`` in the file.
    remarks : tuple of str
        Notes on interpretations by the reader.
    unknown : str
        Missing fact without which no prediction is possible; empty if all required facts are known.
    """

    id: str
    dataset: str
    source: str
    engine: str
    engine_version: str
    ran: str = ""
    days: Days | None = None
    model: str
    hardware: str
    accelerators: int | None
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    ep: int | None = None
    prefill: RecordedPool | None = None
    decode: RecordedPool | None = None
    weights: str | None
    kv: str | None = None
    isl: float | None
    osl: float | None
    context: float | None = None
    cached: float = 0.0
    load: Load
    concurrency: float | None
    requests_per_second: float | None = None
    requests: float | None = None
    spread: float | None = None
    prefill_first: bool = False
    compiled: bool = False
    eager: bool = False
    synchronous: bool = False
    held_steps: float = 0.0
    even_routing: bool = False
    redundant_experts: int | None = None
    two_batch: bool = False
    wait_steps: float = 0.0
    warmed_up: bool = False
    step_tokens: float | None = None
    most_sequences: float | None = None
    memory: float | None = None
    captured_tokens: int | None = None
    statistic: str = "median"
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    request_seconds: float | None = None
    output_tokens_per_second_per_accelerator: float | None = None
    input_tokens_per_second_per_accelerator: float | None = None
    total_tokens_per_second_per_accelerator: float | None = None
    ttft_limit_seconds: float | None = None
    tpot_limit_seconds: float | None = None
    speculation: str = "unrecorded"
    draft_tokens: int | None = None
    tokens_per_round: float | None = None
    spoilt: str = ""
    quality: str = ""
    tier: str = ""
    remarks: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def speculates(self) -> bool:
        """True if the measurement uses speculation, or may use it."""
        return self.speculation not in ("none", "unrecorded")

    @property
    def mean_context(self) -> float | None:
        """Mean context during decode; None without recorded lengths [tokens]."""
        if self.context is not None or self.isl is None:
            return self.context
        return self.isl + (self.osl or 0.0) / 2

    @property
    def closed_loop_rate(self) -> float | None:
        """Output throughput per accelerator of a closed loop, computed from the measured latencies [tokens/s].

        A request is assumed to take the mean TTFT, and the mean TPOT for every further token. The rate is None for
        loads other than closed loops, or if a value is not recorded.
        """
        ttft, tpot, requests, chips = self.ttft_seconds, self.tpot_seconds, self.concurrency, self.accelerators
        if self.load != "concurrency" or ttft is None or not (tpot and requests and chips and self.osl):
            return None
        return requests * self.osl / (ttft + (self.osl - 1.0) * tpot) / chips


@dataclass(frozen=True, slots=True)
class Skipped:
    """Row that is not a usable measurement.

    Attributes
    ----------
    id : str
        Name or number of the row.
    dataset : str
        Name of the file.
    reason : str
        Reason why the row is not usable.
    line : int or None
        First line of the row in the file, from 1; None if the file is not CSV.
    """

    id: str
    dataset: str
    reason: str
    line: int | None = field(default=None, compare=False)


#: Required columns of this kind of table; other columns may be missing.
NEEDED = ("model", "hardware", "accelerators", "isl", "osl", "load", "concurrency", "ttft_seconds", "tpot_seconds")
#: Separator of remarks in their column.
BETWEEN = " | "
POOLS = ("prefill", "decode")
#: Readers by field type; other fields have their own reader below.
_BY_TYPE: Mapping[str, Callable[[Cells, str], float | bool | None]] = {
    "int | None": Cells.whole,
    "float | None": Cells.number,
    "float": lambda row, column: row.amount(column) or 0.0,
    "bool": lambda row, column: row.switch(column) or False,
}
_NUMBERS = {
    field.name: _BY_TYPE[str(field.type)] for field in dataclasses.fields(Measurement) if field.type in _BY_TYPE
}
_NUMBERS |= {"isl": Cells.needed, "spread": Cells.amount}


def measurement(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Convert a row into a measurement.

    Raises
    ------
    UnusableRowError
        If a cell is invalid, or the row is marked as unusable.
    """
    if reason := row.text("unusable"):
        raise UnusableRowError(reason)
    row.number("value")  # The published value is only checked here. Other tables use the value.
    written = row.text("model")
    # A catalog name implies the published format. Other names may contain a format.
    formats = row.text("weights") or ("" if written in catalog.names("models") else None)
    server = described(written, row.text("hardware"), formats, row.text("engine"), row.text("engine_version"))
    numbers: dict[str, Any] = {column: read(row, column) for column, read in _NUMBERS.items()}
    for column, usual in (("prefill_first", prefill_first), ("compiled", compiled)):
        told = row.switch(column)
        numbers[column] = usual(server["engine"], server["engine_version"]) if told is None else told
    remarks = row.text("remarks")
    return Measurement(
        **common,
        **server | numbers | _layout(row),
        ran=row.text("ran"),
        kv=cache_format(format_name(row.text("kv")), server["hardware"]),
        load=_one_of(row, "load", get_args(Load), "unknown"),
        statistic=_one_of(row, "statistic", ("median", "mean"), "median"),
        speculation=row.words("speculation") or "unrecorded",
        spoilt=row.text("spoilt"),
        unknown=row.text("unknown"),
        remarks=tuple(remarks.split(BETWEEN)) if remarks else (),
    )


def _layout(row: Cells) -> dict[str, Any]:
    """Accelerators and parallelism degrees, or prefill and decode workers."""
    pools: dict[str, RecordedPool | None] = {}
    for name in POOLS:
        parts: dict[str, Any] = {
            field.name: row.whole(f"{name}_{field.name}") for field in dataclasses.fields(RecordedPool)
        }
        pools[name] = parts["tp"] and RecordedPool(**parts | {degree: parts[degree] or 1 for degree in ("dp", "pp")})
    if (pools["prefill"] is None) != (pools["decode"] is None):
        missing = next(name for name, pool in pools.items() if pool is None)
        raise UnusableRowError(f"{missing}_tp is blank: of two pools both are needed")
    tp, dp, pp, accelerators = (row.whole(column) for column in ("tp", "dp", "pp", "accelerators"))
    if tp is not None:
        dp, pp = dp or 1, pp or 1
        accelerators = accelerators or tp * dp * pp
        if accelerators % (tp * dp * pp):
            raise UnusableRowError(f"{accelerators} accelerators are no multiple of tp {tp} x dp {dp} x pp {pp}")
    elif accelerators is None and pools["decode"] is None:
        raise UnusableRowError("the number of accelerators is not recorded")
    elif accelerators is None:
        sizes = [pool.accelerators for pool in pools.values() if pool is not None]
        accelerators = sum(size for size in sizes if size) if all(sizes) else None
    return {"accelerators": accelerators, "tp": tp, "dp": dp, "pp": pp, **pools}


def _one_of(row: Cells, column: str, allowed: tuple[str, ...], usual: str) -> Any:
    """Word in a cell, which must be one of ``allowed``; the default if the cell is blank."""
    word = row.text(column) or usual
    if word not in allowed:
        raise UnusableRowError(f"{column} must be {', '.join(allowed[:-1])} or {allowed[-1]}, got {word!r}")
    return word


#: Mean over nominal length in InferenceMAX, whose lengths are uniform from 0.8 to 1.0 of the nominal length [1].
MEAN_LENGTH = 0.9
#: Range of request lengths in InferenceMAX over their mean [1].
SPREAD = 0.2 / MEAN_LENGTH
#: Requests per run over concurrency in InferenceMAX [1].
ROUNDS = 10
#: Remark on InferenceMAX rows.
SHORTER = "lengths are 0.9 of the nominal ones: uniform from 0.8 to 1.0"


def speculation(text: str) -> str:
    """Classify recorded speculation: ``none``, ``unrecorded``, or the recorded text.

    Examples
    --------
    >>> speculation("none (closed division)"), speculation(""), speculation("MTP3")
    ('none', 'unrecorded', 'MTP3')
    """
    lower = text.lower()
    if lower in ("0", "no") or lower.startswith(("none", "no ", "off", "false")):
        return "none"
    return "unrecorded" if lower in ("", "nan") or lower.startswith(("not stated", "unknown")) else text
