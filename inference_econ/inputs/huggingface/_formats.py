"""Number formats of groups of weights, from the dtype and the quantizer's settings in a configuration."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inference_econ.errors import SpecError
from inference_econ.inputs._spec import Dtype
from inference_econ.inputs.dtype import FORMATS, block_width, is_format
from inference_econ.inputs.huggingface._reader import TABLE

_TABLE: Mapping[str, Any] = TABLE["formats"]
_DTYPES: Mapping[str, Dtype] = _TABLE["dtypes"]
_MODELOPT: Mapping[str, Dtype] = _TABLE["modelopt"]
#: Value of the key ``quant_algo`` in files of modelopt for models whose modules have different formats.
_MIXED = "MIXED_PRECISION"
#: Formats by type, bits, and number of elements in a row that share a scale; None for one scale per row or tensor.
_GROUPED: Mapping[tuple[str, float, int | None], Dtype] = {
    (row.kind, row.bits, row.group[-1] if row.group else None): name
    for name, row in FORMATS.items()
    if row.bits <= 8 and row.kind != "file" and name != "fp4" and not block_width(name) > 1
}
#: Formats by rows and columns of the blocks that share a scale.
_BLOCKED: Mapping[tuple[int, ...], Dtype] = {row.group: name for name, row in FORMATS.items() if len(row.group) > 1}
#: Names of modules in published checkpoints, by group of weights. Several naming schemes exist. A group is not
#: quantized if the file excludes all modules of one scheme.
_MODULES: Mapping[str, Sequence[Sequence[str]]] = _TABLE["modules"]
#: Groups of weights that can have different formats.
_GROUPS = ("dense", "attention", "attention_output", "experts", "shared")


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of the groups of weights and of the KV cache, with their source."""

    groups: Mapping[str, Dtype]
    """Format by group: ``dense``, ``attention`` (without the output projection), ``attention_output``, ``experts``,
    ``shared`` (shared experts), ``embeddings``."""
    kv: Dtype | None
    """Format of the KV cache; None if the files do not state the format."""
    where: str
    kind: str = "published"


@dataclass(frozen=True, slots=True)
class _Quantisation:
    dtype: Dtype
    excluded: tuple[str, ...]
    only_experts: bool = False
    expert_dtype: Dtype | None = None
    kv: Dtype | None = None
    modules: Mapping[str, Dtype] = field(default_factory=dict)
    """Formats of modules that differ from the main format.

    The key is the part of the module path after the layer number.
    """


def formats(
    levels: tuple[Mapping[str, Any], ...], beside: Mapping[str, Any] | None, layers: int, file: str, beside_file: str
) -> Formats:
    """Number formats of a published model.

    Parameters
    ----------
    levels : tuple of mapping
        Text part of the configuration if it has one, then the full configuration. A key may be at any of these levels.
    beside : mapping or None
        Content of ``hf_quant_config.json``.
    layers : int
        Number of layers.
    file, beside_file : str
        Paths of the configuration and of ``hf_quant_config.json``, for messages and as sources.

    Raises
    ------
    SpecError
        If a format or a quantizer is unknown, or the two files disagree.
    """
    base, where, kind = _base(levels, file)
    # Current and former key for the settings of the quantizer.
    keys = ("quantization_config", "compression_config")
    blocks = [(key, level[key]) for level in levels for key in keys if level.get(key) is not None]
    key, inside = blocks[0] if blocks else ("", None)
    scheme = None if inside is None else _scheme(inside, base, f"{file}: {key}")
    if beside is not None:
        apart = _modelopt(_mapping(beside.get("quantization"), f"{beside_file}: quantization"), base, beside_file)
        if scheme is not None and apart is not None and apart.modules:
            apart = replace(scheme, modules=apart.modules, kv=apart.kv or scheme.kv)
        if scheme is not None and apart is not None and scheme.dtype != apart.dtype:
            raise SpecError(
                f"{file}: quantization_config says {scheme.dtype} but {beside_file} says {apart.dtype}; keep one"
            )
        if apart is not None:
            scheme, where = apart, f"{where}, {Path(beside_file).name} quantization"
    if scheme is None:
        return Formats(dict.fromkeys((*_GROUPS, "embeddings"), base), None, where, kind)
    if inside is not None:
        where += f", {key}"
    stated = next((dtype for level in levels if (dtype := level.get("expert_dtype")) is not None), None)
    experts = _expert_dtype(stated, scheme.dtype, f"{file}: expert_dtype") or scheme.expert_dtype or scheme.dtype

    def group(kind: str, narrow: Dtype) -> Dtype:
        if scheme.only_experts:
            return experts if kind == "experts" else base
        names = _MODULES[kind]
        formats = {scheme.modules[name] for naming in names for name in naming if name in scheme.modules}
        if len(formats) > 1:
            raise SpecError(
                f"{where}: {names[0][0]} and its like have the formats {', '.join(sorted(formats))}; keep one"
            )
        return formats.pop() if formats else base if _excluded(names, layers // 2, layers, scheme.excluded) else narrow

    groups = {kind: group(kind, experts if kind == "experts" else scheme.dtype) for kind in _GROUPS}
    # Quantizers do not change the embeddings. By default they do not change the output embedding either.
    return Formats({**groups, "embeddings": base}, scheme.kv, where)


def _base(levels: tuple[Mapping[str, Any], ...], file: str) -> tuple[Dtype, str, str]:
    for level in levels:
        for key in ("dtype", "torch_dtype"):
            value = level.get(key)
            if value is None:
                continue
            if not isinstance(value, str) or value not in _DTYPES:
                raise SpecError(f"{file}: {key} is {value!r}; understood: {', '.join(_DTYPES)}")
            return _DTYPES[value], f"{Path(file).name} {key}", "published"
    return "bf16", f"{Path(file).name} has no torch_dtype; bf16 is assumed", "assumed"


def _scheme(block: object, base: Dtype, place: str) -> _Quantisation | None:
    data = _mapping(block, place)
    method = data.get("quant_method", "modelopt" if "quant_algo" in data else None)
    excluded = _list(data, "modules_to_not_convert", place) + _list(data, "ignored_layers", place)
    if method in ("fp8", "fbgemm_fp8"):
        blocks = data.get("weight_block_size")
        dtype: Dtype = (
            "fp8" if blocks is None else _blocked(blocks, data.get("scale_fmt"), f"{place}: weight_block_size")
        )
        if data.get("mxfp4_block_size", 32) != 32:
            raise SpecError(f"{place}: mxfp4_block_size is {data['mxfp4_block_size']!r}; only 32 is understood")
        key = "store_dtype" if "store_dtype" in data else "expert_dtype"  # as in MiMo-V2.6 and DeepSeek-V4
        return _Quantisation(dtype, excluded, expert_dtype=_expert_dtype(data.get(key), dtype, f"{place}: {key}"))
    if method == "mxfp8":
        return _Quantisation("mxfp8", excluded)
    if method == "mxfp4":
        return _Quantisation("mxfp4", excluded, only_experts=True)
    if method in ("gptq", "awq"):
        # These methods store integers with a scale, and possibly a zero point, per group. The default group has 128
        # elements.
        for key in ("modules_in_block_to_quantize", "dynamic"):
            if data.get(key):
                raise SpecError(f"{place}: {key} is not understood: modules of one kind would have several formats")
        bits = data.get("bits", data.get("w_bit"))
        if bits not in (4, 8):
            raise SpecError(f"{place}: {method} with {bits!r} bits; understood: 4, 8")
        size = data.get("group_size", data.get("q_group_size", 128))
        symmetric = data.get("sym", True) if method == "gptq" else not data.get("zero_point", True)
        return _Quantisation(_grouped("int", bits, size, bool(symmetric), place), excluded)
    if method == "modelopt":
        return _modelopt(data, base, place)
    if method in ("compressed-tensors", "compressed_tensors"):
        return _compressed_tensors(data, place)
    raise SpecError(
        f"{place}: quant_method {method!r} is not understood; "
        "understood: fp8, fbgemm_fp8, mxfp8, mxfp4, gptq, awq, modelopt, compressed-tensors"
    )


def _grouped(kind: object, bits: object, size: object, symmetric: bool, place: str) -> Dtype:
    """Number format whose elements share one scale per group.

    If the group size is unusual, the name of the format contains the size.
    """
    group = None if size in (None, -1) else size
    sized = f"{kind}{bits}_g{group}" if type(group) is int else ""
    plain = not (isinstance(bits, bool) or isinstance(group, bool))
    dtype = next((dtype for key, dtype in _GROUPED.items() if plain and key == (kind, bits, group)), None)
    dtype = dtype or (sized if is_format(sized) else None)
    if dtype in (sized, "int4_g32") and not symmetric:
        raise SpecError(f"{place}: zero points for groups of {group} are not understood; a symmetric scheme is")
    if dtype is not None:
        return dtype
    sizes = [str(key[2] or "a scale per row") for key in _GROUPED if (kind, bits) == key[:2]]
    hint = f"; understood: {', '.join(sizes)}" if sizes else ""
    raise SpecError(f"{place}: {bits!r}-bit {kind!r} in groups of {size!r} is not understood{hint}")


def _blocked(blocks: object, scales: object, place: str) -> Dtype:
    """Number format of 8-bit floats with one scale per block of rows and columns.

    Scales have 32 bits, or 8 if the file states this.
    """
    if scales not in (None, "float", "fp32", "ue8m0"):
        raise SpecError(f"{place}: scale_fmt is {scales!r}; understood: fp32, ue8m0")
    if isinstance(blocks, list) and len(blocks) == 2 and all(type(size) is int for size in blocks):
        sized = "{}_{}x{}".format("mxfp8" if scales == "ue8m0" else "fp8_block", *blocks)
        dtype = _BLOCKED.get((blocks[0], blocks[1]), sized)
        if is_format(dtype):
            return dtype
    raise SpecError(f"{place} is {blocks!r}; understood: rows and columns of a block, as [128, 128]")


def _modelopt(data: Mapping[str, Any], base: Dtype, place: str) -> _Quantisation | None:
    algorithm, cache = data.get("quant_algo"), data.get("kv_cache_quant_algo")
    kv = None if cache is None else _of_modelopt(cache, f"{place}: kv_cache_quant_algo {cache!r}")
    if algorithm is None:
        return None
    if algorithm == _MIXED:
        return _Quantisation(base, (), kv=kv or _cache_format(data, place), modules=_modules(data, place))
    dtype = _of_modelopt(algorithm, f"{place}: quant_algo {algorithm!r}")
    if dtype == "int4":
        dtype = _grouped("int", 4, data.get("group_size", 128), True, place)
    excluded = _list(data, "exclude_modules", place) or _list(data, "ignore", place)
    return _Quantisation(dtype, excluded, kv=kv or _cache_format(data, place))


def _of_modelopt(algorithm: object, place: str) -> Dtype:
    """Format for the name of a modelopt algorithm."""
    if str(algorithm) not in _MODELOPT:
        raise SpecError(f"{place} is not understood; understood: {', '.join(_MODELOPT)}")
    return _MODELOPT[str(algorithm)]


def _modules(data: Mapping[str, Any], place: str) -> Mapping[str, Dtype]:
    """Formats of modules, by the part of their path after the layer number.

    A module must have the same format in all layers.
    """
    formats: dict[str, Dtype] = {}
    for name, stated in _mapping(data.get("quantized_layers"), f"{place}: quantized_layers").items():
        algorithm = _mapping(stated, f"{place}: {name}").get("quant_algo")
        dtype = _of_modelopt(algorithm, f"{place}: {name}: {stated!r}")
        module = re.sub(r"^.*?layers\.\d+\.", "", name)
        if formats.setdefault(module, dtype) != dtype:
            raise SpecError(f"{place}: {module} is {formats[module]} in one layer and {dtype} in another; keep one")
    return formats


def _compressed_tensors(data: Mapping[str, Any], place: str) -> _Quantisation:
    groups = _mapping(data.get("config_groups"), f"{place}: config_groups")
    dtypes = set()
    for stated in groups.values():
        group = _mapping(stated, place)
        if group.get("targets") not in (None, ["Linear"]):
            raise SpecError(f"{place}: targets {group.get('targets')!r} are not understood; understood: ['Linear']")
        weights = _mapping(group.get("weights"), f"{place}: weights")
        packing = str(group.get("format") or data.get("format"))
        kind = "float" if packing.startswith(("mxfp4", "nvfp4", "float")) else "int"
        dtypes.add(_typed({"type": kind, **weights}, place))
    if len(dtypes) != 1:
        raise SpecError(f"{place}: config_groups has {len(dtypes)} formats of weights; one is understood")
    return _Quantisation(dtypes.pop(), _list(data, "ignore", place), kv=_cache_format(data, place))


def _cache_format(data: Mapping[str, Any], place: str) -> Dtype | None:
    cache = data.get("kv_cache_scheme")
    if isinstance(cache, str) and cache in _MODELOPT:
        return _MODELOPT[cache]
    return None if cache is None else _typed(_mapping(cache, f"{place}: kv_cache_scheme"), f"{place}: kv_cache_scheme")


def _typed(scheme: Mapping[str, Any], place: str) -> Dtype:
    kind, bits = scheme.get("type", "int"), scheme.get("num_bits")
    if scheme.get("strategy") == "block" and (kind, bits) == ("float", 8):
        return _blocked(scheme.get("block_structure"), None, f"{place}: block_structure")
    return _grouped(kind, bits, scheme.get("group_size"), scheme.get("symmetric") is not False, place)


def _expert_dtype(value: object, dtype: Dtype, place: str) -> Dtype | None:
    """Format of routed experts if all other weights are blocks of 8-bit floats (DeepSeek-V4); None if not stated."""
    if value is None:
        return None
    if value not in ("fp4", "mxfp4", "fp8"):
        raise SpecError(f"{place} is {value!r}; understood: fp4, mxfp4, fp8")
    return dtype if value == "fp8" else "mxfp4"  # e2m1 with an 8-bit scale per 32 elements


def _excluded(names: Sequence[Sequence[str]], layer: int, layers: int, patterns: tuple[str, ...]) -> bool:
    """True if a layer's modules of a group of weights are excluded from quantization."""
    for naming in names:
        for prefix in ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone.layers"):
            full = [f"{prefix}.{n}.{name}" for n in {layer, min(layer + 1, layers - 1)} for name in naming]
            if 2 * sum(any(_matches(name, pattern) for pattern in patterns) for name in full) > len(full):
                return True
    return False


def _matches(name: str, pattern: str) -> bool:
    """True if a module matches a pattern: a regular expression after ``re:``, a wildcard, or part of a module path."""
    if pattern.startswith("re:"):
        try:
            return re.match(pattern.removeprefix("re:"), name) is not None
        except re.error as error:
            raise SpecError(f"quantization_config: {pattern!r} is not a regular expression: {error}") from error
    if fnmatch.fnmatchcase(name, pattern):
        return True
    return f".{pattern.strip('.')}." in f".{name}." or ("*" in pattern and fnmatch.fnmatchcase(name, f"{pattern}.*"))


def _list(data: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    names = data.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError(f"{place}: {key} must be a list of names of modules")
    return tuple(names)


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{place} must be a JSON object, got {type(value).__name__}")
    return value
