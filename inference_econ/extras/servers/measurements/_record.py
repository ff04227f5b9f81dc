"""Record of one measurement, in the catalogue's names and in base units."""

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
from inference_econ.inputs.name_matching import EIGHT_BIT_FLOATS, format_in, has_other_width, plain, without_parentheses

#: What people write for nothing.
_BLANK = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "not recorded", "not stated"})
_ZERO = ("0", "0.0")
#: Larger degrees and counts of accelerators are typing errors [1].
_MOST = 1e6
#: Nothing is measured beyond these, and errors of it would overflow, in any unit.
_SMALLEST, _LARGEST = 1e-15, 1e15


class UnusableRowError(Exception):
    """A row cannot be used; the message says why."""


class Cells:
    """The cells of one row by column; columns that are missing count as blank.

    Attributes
    ----------
    cells : dict of str to str
        As read from the file.
    """

    def __init__(self, cells: dict[str, str]) -> None:
        self.cells = cells

    def text(self, column: str) -> str:
        """The text of a cell without surrounding space; empty if blank."""
        text = self.cells.get(column, "").strip()
        return "" if text.lower() in _BLANK else text

    def words(self, column: str) -> str:
        """The text of a cell as it is, where "none" says something."""
        return self.cells.get(column, "").strip()

    def number(self, column: str) -> float | None:
        """A positive number; None if blank.

        Raises
        ------
        UnusableRowError
            If it is no number, or not positive and finite.
        """
        text = self.text(column)
        return None if not text else positive(text.replace(",", ""), column)

    def needed(self, column: str) -> float:
        """A positive number; see :meth:`number` for the errors, to which a blank cell belongs here."""
        value = self.number(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def count(self, column: str) -> int:
        """A whole number of at least 1; see :meth:`number` for the errors, to which a blank cell belongs here."""
        value = self.whole(column)
        if value is None:
            raise UnusableRowError(f"{column} is blank")
        return value

    def amount(self, column: str) -> float | None:
        """A number of at least 0; None if blank. See :meth:`number` for the errors."""
        return 0.0 if self.text(column) in _ZERO else self.number(column)

    def switch(self, column: str) -> bool | None:
        """Whether a cell says yes or no; None if blank.

        Raises
        ------
        UnusableRowError
            If it says neither.
        """
        text = self.text(column).lower()
        if text not in ("", "yes", "no"):
            raise UnusableRowError(f"{column} must be yes or no, got {text!r}")
        return text == "yes" if text else None

    def whole(self, column: str) -> int | None:
        """A whole number of at least 1; see :meth:`number`."""
        value = self.number(column)
        if value is not None and value != round(value):
            raise UnusableRowError(f"{column} must be a whole number, got {value:g}")
        if value is not None and value > _MOST:
            raise UnusableRowError(f"{column} must be at most {_MOST:g}, got {value:g}")
        return None if value is None else round(value)


def positive(text: str | float, name: str) -> float:
    """A positive, finite number.

    Raises
    ------
    UnusableRowError
        Naming what it stands for.
    """
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise UnusableRowError(f"{name} is no number: {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        shown = f"{value:g}" if math.isfinite(value) else f"{str(text)[:12]}{'...' * (len(str(text)) > 12)}"
        raise UnusableRowError(f"{name} must be positive and finite, got {shown}")
    if not _SMALLEST <= value <= _LARGEST:
        raise UnusableRowError(f"{name} is out of range: numbers are from {_SMALLEST:g} to {_LARGEST:g}, got {value:g}")
    return value


_COUNT = re.compile(r"^\s*(\d{1,4})\s*[x*]\s*(?=[A-Za-z])|(?:\s|(?<=\d))[x*]\s*(\d{1,4})\s*$", re.IGNORECASE)
#: A size that people give differs from what a program sees by this much at most (192 GB and 180 GiB of a B200).
_MEMORY_TOLERANCE = 0.12

_SIXTEEN_BITS = {"fp16": "bf16", "bf16": "fp16"}
#: Endings of files that hold a model.
_MODEL_FILES = (".yaml", ".yml", ".json")
#: Names that have less in common are not offered for each other [1].
_ALIKE = 0.7


def model_name(text: str) -> str:
    """The catalogue's name of a model; the path of a model's file, or of a config.json, stays what it is.

    Raises
    ------
    UnusableRowError
        If there is none.
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
    except OSError:  # a name too long for any file
        return False


def hardware_name(text: str) -> str:
    """The catalogue's name of a chip.

    Raises
    ------
    UnusableRowError
        If there is none, or none with the memory that the text names.
    """
    if text in catalog.names("hardware"):
        return text
    chips = _chips()
    for spelling in dict.fromkeys((text, without_parentheses(text))):
        words, memory, key = _chip_words(spelling)
        if memory is not None and key in chips:
            return chips[key]
        if words in chips:
            # A size is in units of 1e9 bytes or of 2^30.
            hbm = catalog.hardware(chips[words]).hbm_bytes
            sizes = () if memory is None else (float(memory) * 1e9, float(memory) * 2.0**30)
            if memory is None or any(abs(size / hbm - 1) <= _MEMORY_TOLERANCE for size in sizes):
                return chips[words]
    raise UnusableRowError(_unknown("hardware", text, chips) if text else "no hardware is named")


def chip_count(text: str) -> int | None:
    """Number of chips that a text speaks of, if it says so.

    Examples
    --------
    >>> chip_count("8x H100-80GB SXM"), chip_count("H100 x 4"), chip_count("MI300X")
    (8, 4, None)
    """
    match = _COUNT.search(text)
    return None if match is None else int(match[1] or match[2])


def engine_name(text: str) -> tuple[str, str]:
    """Name and version of a serving engine; what is not known keeps its own first word."""
    lower = "" if text.lower().startswith("not stated") else text.lower()
    for name, others in catalog.measured_names().engines.items():
        for spelling in others:
            if spelling in lower:
                version = re.search(r"v?(\d+(?:\.\w+)+)", lower[lower.index(spelling) + len(spelling) :])
                of_another = spelling in catalog.measured_names().unversioned
                return name, "" if version is None or of_another else version[1]
    return (lower.split() or [""])[0], ""


def check_version(engine: str, version: str) -> None:
    """Refuse versions of an engine after all of which something is known.

    Raises
    ------
    UnusableRowError
        With the newest that is known.
    """
    if engine in catalog.names("engines") and is_number(version):
        try:
            catalog.engine(engine).check(version)
        except InputError as error:
            raise UnusableRowError(str(error)) from None


def is_number(version: str) -> bool:
    """Whether a version is one of the numbers that engines count by, and no name of an image."""
    return re.fullmatch(r"v?\d+(\.\w+)+([-+].*)?", version) is not None


def prefill_first(engine: str, version: str) -> bool:
    """Whether an engine reads all prompts that have come before it goes on decoding."""
    return f"{engine} {version}".startswith(tuple(catalog.measured_names().prefill_first))


def compiled(engine: str, version: str) -> bool:
    """Whether an engine ran models that were compiled as a whole."""
    return f"{engine} {version}".startswith(tuple(catalog.measured_names().compiled))


def served(model: str, hardware: str, text: str) -> tuple[str, str | None]:
    """Model and format of the weights that a text about number formats stands for.

    Parameters
    ----------
    model, hardware : str
        Catalogue names.
    text : str
        ``fp8 (native ckpt)``, ``fp4/fp8 (not in export)``; empty if not recorded.

    Returns
    -------
    tuple of str and (str or None)
        The model, or its file for checkpoints of that format if there is one, and the format; None if it is the one
        that the model's weights are published in, so that each group of tensors keeps its own.

    Raises
    ------
    UnusableRowError
        If the text names no known format.
    """
    written = _written(text, model, hardware)
    native = _most_weights(model)
    if written is None:
        # What is published in 16 bits runs in those that the chip has.
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
    """Model, chip, format of the weights, engine and its version, and its way with prompts, as fields of a measurement.

    Parameters
    ----------
    model, hardware, engine : str
        As people write them.
    formats : str, optional
        See :func:`served`; None to take the one in the name of the model.
    version : str
        Of the engine; empty to take the one in its name.

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
    """The number format of the weights that a text names, or the one that most of a model is published in."""
    return _written(text, model, hardware) or _most_weights(model)


def _most_weights(model: str) -> str:
    """The format in which most of a model's weights are published."""
    spec = catalog.model(model)
    return spec.expert_weights or spec.weights


def _in_other_bits(written: str, hardware: str) -> str:
    """The sixteen bits that a chip computes in, for those that it does not."""
    units = catalog.hardware(hardware).dense_flops_per_second
    other = _SIXTEEN_BITS.get(written)
    return other if other is not None and written not in units and other in units else written


def cache_format(written: str | None, hardware: str) -> str | None:
    """The format of the KV cache that stands for one: as wide, and such as the chip computes in.

    Engines store 8-bit floats on chips that lack them as well, and widen them on the way.
    """
    if written is None:
        return None
    units = catalog.hardware(hardware).dense_flops_per_second
    if written in EIGHT_BIT_FLOATS and "fp8" not in units and "int8" in units:
        return "int8"
    return _in_other_bits(written, hardware)


def _written(text: str, model: str, hardware: str) -> str | None:
    """The number format that a text names; of alternatives the one for this model, or that the chip can compute in."""
    alternatives = [part for part in text.lower().split("/") if format_in(part) is not None]
    if not alternatives:
        return format_name(text)
    chip, family = catalog.hardware(hardware), model.split("_", maxsplit=1)[0]
    ours = [part for part in alternatives if family in part]
    able = [part for part in alternatives if format_in(part) in chip.dense_flops_per_second]
    dtype = format_in((ours or able or alternatives)[0])
    return ("mxfp4" if chip.vendor == "AMD" else "nvfp4") if dtype == "fp4" else dtype


def format_name(text: str) -> str | None:
    """The number format that a text names; None if it is empty or leaves that open (``auto``).

    Raises
    ------
    UnusableRowError
        If it names no known format.
    """
    dtype = format_in(text.lower())
    if dtype is None and text and not text.lower().startswith(("auto", "native", "default")):
        raise UnusableRowError(f"unknown number format {text!r}")
    return dtype


def format_in_name(model: str) -> str:
    """The number format that a checkpoint is named after; empty if its name has none, or is that of a model's file.

    Raises
    ------
    UnusableRowError
        If the name says that the weights are narrow, but not in which of the known formats.

    Examples
    --------
    >>> format_in_name("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"), format_in_name("meta-llama/Llama-3.1-8B")
    ('fp8', '')
    """
    if _is_model_file(model):
        return ""
    bare = model.rsplit("/", 1)[-1].lower()
    dtype = format_in(bare)
    # A GGUF repository has files in many formats, whose blocks mix widths.
    if "gguf" in bare or (dtype is None and has_other_width(bare)):
        raise UnusableRowError(f"the number format of the weights of {model!r} is not known; give the nearest one")
    return dtype or ""


def _unknown(what: str, text: str, names_by_spelling: Mapping[str, str]) -> str:
    """Message about a name that nobody knows: what it is like, and what can be done about it."""
    near = difflib.get_close_matches(plain(text.rsplit("/", 1)[-1]), names_by_spelling, n=5, cutoff=_ALIKE)
    names = " or ".join(list(dict.fromkeys(names_by_spelling[name] for name in near))[:2])
    return f"unknown {what} {text!r}" + (f"; nearest: {names}" if names else "")


def _chip_words(text: str) -> tuple[str, str | None, str]:
    """The words that tell a chip from others, run together; the size of its memory [GB]; and both as a key."""
    parts, memory = spellings.of_chip(_COUNT.sub("", text))
    words = "".join(parts)
    return words, memory, words if memory is None else f"{words} {memory}"


@cache
def _chips() -> dict[str, str]:
    """Telling words, followed by the size of the memory where a name gives one, to catalogue name."""
    names: dict[str, str] = {}
    for name in catalog.names("hardware"):
        if "/" not in name:
            for spelling in (name, catalog.hardware(name).name):
                names.setdefault(_chip_words(spelling)[2], name)
    for name, others in catalog.measured_names().hardware.items():
        names |= dict.fromkeys((_chip_words(spelling)[2] for spelling in others), name)
    return names


#: A day, a month or a year, and the one that a span ends with: ``2026-04-17``, ``20260417``, ``2025-03..06``.
_DAY = r"\d{4}(?:-\d\d(?:-\d\d)?(?!\d)|\d{4})?"
_SPAN = re.compile(rf"(?P<since>{_DAY})(?:\.\.(?P<until>{_DAY}|\d\d))?")
#: The beginning of a date and time.
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T.*")
#: Two years, as in ``2023-24``, whose second part is no month.
_YEARS = re.compile(r"(\d{2})(\d{2})-(\d{2})")
#: Dates inside of the text of a source: what it says of the measurement, or the months of nightly runs.
_IN_SOURCE = (re.compile(r"measured=([^;,\s]+)"), re.compile(r"\b(\d{4}-\d{2}\.\.\d{4}-\d{2})\b"))
#: Columns that hold nothing but a date; ``version_date`` may hold another text.
_COLUMNS = ("days", "measured", "date")
_SOURCES = ("source", "silicon_data_source")
_MONTHS_OF_YEAR = 12


@dataclass(frozen=True, slots=True)
class Days:
    """The days between which a row was measured.

    Attributes
    ----------
    since, until : date
        First and last day on which it can have been measured.
    """

    since: date
    until: date


def row_days(row: Cells) -> Days | None:
    """The days of a row, by its own column of dates or by its source; None if neither says any.

    Raises
    ------
    UnusableRowError
        If the column of dates holds something else, or a day is in the future.
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
    """Days of a date, of a month, of a year, or of a span of these.

    Raises
    ------
    UnusableRowError
        If it is none of them.

    Examples
    --------
    >>> days("2025-12..2026-02")
    Days(since=datetime.date(2025, 12, 1), until=datetime.date(2026, 2, 28))
    """
    plain = _TIME.sub(r"\1", text.strip())
    if (years := _YEARS.fullmatch(plain)) and int(years[3]) > max(_MONTHS_OF_YEAR, int(years[2])):
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
            f"{text!r} is no date; write for example 2026-04-17, 2026-04, or 2025-12..2026-02"
        ) from None


def _of(text: str, *, last: bool) -> date:
    """The first or the last day of a date, a month or a year."""
    digits = text.replace("-", "")
    year, month, day = int(digits[:4]), int(digits[4:6] or 0), int(digits[6:] or 0)
    whole_month = month or (_MONTHS_OF_YEAR if last else 1)
    return date(year, whole_month, day or (monthrange(year, whole_month)[1] if last else 1))


#: How requests arrived.
#:
#: - batch: all at once, served until the last one ends.
#: - concurrency: a new one whenever one ends, so that their number stays (closed loop).
#: - rate: at random times (open loop).
#: - saturated: more than the server can take, which runs as many at a time as it can.
#: - limited: as many as the server can take and keep its promises of latency.
Load = Literal["batch", "concurrency", "rate", "saturated", "limited", "unknown"]
#: Loads that take all that a server has to give.
FULL_LOADS: tuple[Load, ...] = ("saturated", "limited")

#: Fields that are measured.
RESULTS = (
    *("ttft_seconds", "tpot_seconds", "request_seconds"),
    *(f"{tokens}_tokens_per_second_per_accelerator" for tokens in ("output", "input", "total")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPool:
    """Equal workers of a disaggregated server that do prefill, or decode.

    Attributes
    ----------
    workers : int or None
        How many; None if not recorded [1].
    tp, dp, pp : int
        Accelerators of one worker that share the attention weights, groups of them with sequences of their own, and
        pipeline stages [1].
    ep : int or None
        Expert-parallel ranks of one worker; None if not recorded [1].
    slots : int or None
        Requests that one worker was told to run at a time at most; None if not recorded [1].
    """

    workers: int | None
    tp: int
    dp: int
    pp: int
    ep: int | None
    slots: int | None = None

    @property
    def accelerators(self) -> int | None:
        """Accelerators of all workers; None if their number is not recorded [1]."""
        return None if self.workers is None else self.workers * self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured point of one deployment. What is None was not measured, or not recorded.

    Attributes
    ----------
    id : str
        Of the row, or its number.
    dataset, source : str
        Name of the file, and where the row came from.
    engine, engine_version : str
        Serving engine (vllm, sglang, trtllm, ...); empty if not recorded.
    ran : str
        Version of the engine that scripts of its days ran, where the row names none; empty if not known.
    days : Days or None
        Between which it was measured; None if not recorded.
    model, hardware : str
        Names in the catalogue.
    accelerators : int or None
        Of the whole deployment, replicas included [1].
    tp, dp, pp, ep : int or None
        Layout: accelerators that share the attention weights, groups of them with sequences of their own
        (attention-DP, or replicas), pipeline stages, expert-parallel ranks [1].
    prefill, decode : Pool or None
        The two pools of a disaggregated server, whose tp, dp, pp and ep are None.
    weights, kv : str or None
        Number formats; None: as published with the model.
    isl, osl : float or None
        Mean input and output length [tokens].
    context : float or None
        Tokens in the cache, where these are recorded instead of lengths [tokens].
    load : str
        How requests arrived; see :data:`Load`.
    concurrency : float or None
        Requests of the whole deployment at a time; for a rate, the most that are let in [1].
    requests_per_second : float or None
        Offered rate [1/s].
    requests : float or None
        Of the whole run, whose first ones find an empty server and whose last ones leave it; None if not recorded [1].
    spread : float or None
        Of output lengths: longest less shortest, over the mean, if they are uniform; 0 if all are equal, None if not
        recorded [1].
    prefill_first : bool
        The engine lets decoding wait until it has read all prompts that have come; others read beside decoding.
    compiled : bool
        The model was compiled as a whole: no interpreter launches the kernels of a prompt one by one.
    eager : bool
        Kernels of decode steps were launched one by one, without graphs.
    even_routing : bool
        Tokens were spread over experts evenly by force.
    redundant_experts : int or None
        Copies of experts that were held beside all of them; None if not recorded [1].
    two_batch : bool
        Two halves of a batch took turns.
    captured_tokens : int or None
        Tokens of the largest step with prompts that the engine was told to capture in pieces; None for what it does by
        itself [tokens].
    held_steps : float
        Decode steps for which groups of attention ranks were told to hold a prompt back at most, until each of them has
        one [1].
    wait_steps : float
        Decode steps that a prompt waits on average where the engine was told to look seldom at what has come, or to
        wait for more prompts [1].
    warmed_up : bool
        Requests that were not measured went before the run, so that no kernel was used for the first time in it.
    step_tokens : float or None
        Prompt tokens that the engine was told to read in a step at most; None for what it does by itself [tokens].
    most_sequences : float or None
        Requests that the engine was told to run at a time at most, in all groups together; None if nobody said [1].
    memory : float or None
        Share of memory that the engine was told to take, as it counts itself; None if nobody said [1].
    statistic : str
        Of the latencies: median or mean.
    ttft_seconds, tpot_seconds, request_seconds : float or None
        To the first token (of a batch: of all its prompts), between tokens, and from beginning to end (of a batch:
        of its last request) [s].
    output_tokens_per_second_per_accelerator : float or None
        [tokens/s]
    input_tokens_per_second_per_accelerator : float or None
        [tokens/s]
    total_tokens_per_second_per_accelerator : float or None
        Of input and output together [tokens/s].
    ttft_limit_seconds, tpot_limit_seconds : float or None
        Promises that a limited load had to keep [s].
    speculation : str
        "none", "unrecorded", or what was recorded ("MTP3"); "suspected" where it may, or may not, have been.
    tokens_per_round : float or None
        Mean acceptance length that is published for such speculation, the target's own token included; None without
        speculation, or where nothing is published [1].
    spoilt : str
        By which run of the same configuration this one cannot be what it should have been, in words; empty if by none.
    quality, tier : str
        As given in the file.
    remarks : tuple of str
        What was read into the row.
    unknown : str
        Why the row cannot be predicted: what it leaves open; empty if nothing that is needed.
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
    load: Load
    concurrency: float | None
    requests_per_second: float | None = None
    requests: float | None = None
    spread: float | None = None
    prefill_first: bool = False
    compiled: bool = False
    eager: bool = False
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
    tokens_per_round: float | None = None
    spoilt: str = ""
    quality: str = ""
    tier: str = ""
    remarks: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def speculates(self) -> bool:
        """Whether a plain decode step does not stand for it: it speculates, or is suspected of it."""
        return self.speculation not in ("none", "unrecorded")

    @property
    def mean_context(self) -> float | None:
        """Mean number of cached tokens during decode; None if no length is recorded [tokens]."""
        if self.context is not None or self.isl is None:
            return self.context
        return self.isl + (self.osl or 0.0) / 2

    @property
    def closed_loop_rate(self) -> float | None:
        """Output tokens of an accelerator that a closed loop of the measured latencies completes [tokens/s].

        Each of the requests in flight takes its mean TTFT, and its mean TPOT for every token after the first. None
        where requests come at a rate, or something is not recorded.
        """
        ttft, tpot, requests, chips = self.ttft_seconds, self.tpot_seconds, self.concurrency, self.accelerators
        if self.load != "concurrency" or ttft is None or not (tpot and requests and chips and self.osl):
            return None
        return requests * self.osl / (ttft + (self.osl - 1.0) * tpot) / chips


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is no usable measurement.

    Attributes
    ----------
    id : str
        Of the row, or its number.
    dataset : str
        Name of the file.
    reason : str
        Why, for people.
    line : int or None
        Of the file, from 1, on which the row begins; None if it is no CSV file.
    """

    id: str
    dataset: str
    reason: str
    line: int | None = field(default=None, compare=False)


#: Columns that a table of this kind has at least; the others are blank where they are missing.
NEEDED = ("model", "hardware", "accelerators", "isl", "osl", "load", "concurrency", "ttft_seconds", "tpot_seconds")
#: Between remarks in their column.
BETWEEN = " | "
POOLS = ("prefill", "decode")
#: Readers of numbers and switches by the types of their fields; all others have a reader of their own below.
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
    """Return the measurement of a row.

    Raises
    ------
    UnusableRowError
        If a cell cannot be what its column holds, or the row itself says that it is none.
    """
    if reason := row.text("unusable"):
        raise UnusableRowError(reason)
    row.number("value")  # as it was published, for whoever shows it again
    written = row.text("model")
    # A name of the catalogue says nothing of a format that its weights would not have by themselves.
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
    """Accelerators and degrees, or pools."""
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
    """The word of a cell; the usual one if it is blank."""
    word = row.text(column) or usual
    if word not in allowed:
        raise UnusableRowError(f"{column} must be {', '.join(allowed[:-1])} or {allowed[-1]}, got {word!r}")
    return word


#: Requests of InferenceMAX are as long as 0.8 to 1.0 of what rows say, evenly: the mean [1].
MEAN_LENGTH = 0.9
#: Longest less shortest of these lengths over the mean [1].
SPREAD = 0.2 / MEAN_LENGTH
#: Its runs have so many times as many requests as there are at a time [1].
ROUNDS = 10
#: What is read into its rows.
SHORTER = "lengths are 0.9 of the nominal ones: uniform from 0.8 to 1.0"


def speculation(text: str) -> str:
    """``none``, ``unrecorded``, or what was recorded.

    Examples
    --------
    >>> speculation("none (closed division)"), speculation(""), speculation("MTP3")
    ('none', 'unrecorded', 'MTP3')
    """
    lower = text.lower()
    if lower in ("0", "no") or lower.startswith(("none", "no ", "off", "false")):
        return "none"
    return "unrecorded" if lower in ("", "nan") or lower.startswith(("not stated", "unknown")) else text
