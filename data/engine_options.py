"""Record the options of serving commands as data: ``python -m data.engine_options ENGINE FOLDER VERSION``.

FOLDER is an unpacked wheel or a source tree of vLLM, SGLang, GuideLLM or TensorRT-LLM. The engine need not be
installed. The parsers of vLLM, SGLang and GuideLLM are built with empty modules in place of missing ones
(:mod:`data.missing_modules`); this requires msgspec and pydantic-settings. The decorators and annotations of
TensorRT-LLM are read as text. Names, types, choices and defaults are written to
``scenarios/engines/options/ENGINE_VERSION.yaml``, without help texts.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
import shlex
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from data.missing_modules import forgive

#: Options by command, with the fields of :class:`inference_econ.inputs.engine.launch_options.EngineOption`.
Commands = dict[str, list[dict[str, Any]]]
#: Argument parsers of the engine, by command.
Parsers = dict[str, argparse.ArgumentParser]
_PLACE = Path(__file__).resolve().parents[1] / "scenarios/engines/options"
_SCALARS: Mapping[Any, str] = {int: "int", float: "float", str: "str", bool: "flag"}
#: Types of options by the names of Python types; the most special name is first.
_NAMED = {"bool": "flag", "int": "int", "float": "float"}
#: Types of options by words in the names of functions that convert values.
_READERS = {"int": "int", "json": "json", "loads": "json", "dict": "json", "dataclass": "json", "float": "float"}
#: Smallest number that means infinity or a missing value [1].
_LARGE = 2**53
#: Modules that define no server option and cannot be imported.
_HEAVY = ("scipy", "pandas", "matplotlib", "numba", "triton_kernels", "torch", "transformers")


def of_argparse(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Options of a parser."""
    return [_of_action(action) for action in parser._actions if action.option_strings != ["-h", "--help"]]


def _of_action(action: argparse.Action) -> dict[str, Any]:
    flag = action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction)
    record: dict[str, Any] = {"names": [*action.option_strings] or [action.dest]}
    record["type"] = "flag" if flag else _type(action.type)
    if action.choices is not None:
        choices = [choice for choice in action.choices if isinstance(choice, (str, int, float))]
        record["choices"] = sorted(choices) if isinstance(action.choices, (set, frozenset)) else choices
    if action.nargs not in (None, 0):
        record["nargs"] = action.nargs
    if _plain(action.default) and "--request-id-prefix" not in action.option_strings:  # the default is random
        record["default"] = action.default
    return record


def _type(reader: Any) -> str:
    """Type of an option, given the function that converts its text."""
    if reader is None:
        return "str"
    if reader in _SCALARS:
        return _SCALARS[reader]
    closed = [cell.cell_contents for cell in getattr(reader, "__closure__", None) or ()]
    inner = [item for item in closed if callable(item)]
    name = getattr(reader, "__qualname__", type(reader).__name__).lower()
    if inner:
        return _type(inner[0])
    return next((kind for word, kind in _READERS.items() if word in name.rpartition(".")[2]), "str")


def _plain(value: Any) -> bool:
    """True if a default can be stored: no object, no placeholder, and no text that looks like a number."""
    if isinstance(value, list):
        return bool(value) and all(_plain(item) for item in value)
    if type(value) is str:
        return "SUPPRESS" not in value and not value.replace(".", "").isdigit()
    return type(value) is bool or (type(value) in (int, float) and abs(value) < _LARGE)


def of_dataclass(prefix: str, cls: Any) -> list[dict[str, Any]]:
    """Keys of an option with a JSON value: the fields of the class to which it is converted."""
    return [
        {"names": [f"{prefix}.{field.name}"], **_hinted(field.type)} for field in dataclasses.fields(cls) if field.init
    ]


def _hinted(hint: Any) -> dict[str, Any]:
    parts = (
        typing.get_args(hint)
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        else (hint,)
    )
    choices = [choice for part in parts for choice in _choices(part)]
    if choices and not any(part is str for part in parts):
        return {"type": "str", "choices": choices}
    return {"type": next((_SCALARS[part] for part in parts if part in _SCALARS), "json")}


def _choices(hint: Any) -> list[str]:
    if typing.get_origin(hint) is typing.Literal:
        return [choice for choice in typing.get_args(hint) if isinstance(choice, str)]
    return [choice for part in typing.get_args(hint) if isinstance(hint, types.UnionType) for choice in _choices(part)]


def vllm_parsers() -> Parsers:
    """Parsers of ``vllm serve`` and ``vllm bench serve``."""
    heavy = ["ir", "lora", "forward_context", "model_executor.layers.fused_moe", "model_executor.custom_op"]
    heavy += ["model_executor.models", "entrypoints.serve", "entrypoints.openai.models", "renderers"]
    forgive((*_HEAVY, *(f"vllm.{name}" for name in heavy)))
    sys.modules["regex"] = re  # The parser checks the device type with the standard library only.
    _first("vllm.platforms").current_platform.device_type = "cuda"
    parser = _first("vllm.utils.argparse_utils", "vllm.utils").FlexibleArgumentParser
    module = _first("vllm.entrypoints.common.cli_args", "vllm.entrypoints.openai.cli_args")
    bench = parser()
    _first("vllm.benchmarks.serve").add_cli_args(bench)
    return {"vllm serve": module.make_arg_parser(parser()), "vllm bench serve": bench}


def vllm() -> Commands:
    """Options of vLLM, including the keys of options with JSON values."""
    commands = {command: of_argparse(parser) for command, parser in vllm_parsers().items()}
    for option, name in (("speculative", "Speculative"), ("compilation", "Compilation"), ("kv-transfer", "KVTransfer")):
        keys = of_dataclass(f"--{option}-config", getattr(_first("vllm.config"), f"{name}Config"))
        commands["vllm serve"] += keys
    return commands


def sglang_parsers() -> Parsers:
    """Parser of ``sglang.launch_server``."""
    heavy = ("layers", "distributed", "utils.hf_transformers_patches", "sampling.custom_logit_processor")
    forgive((*_HEAVY, *(f"sglang.srt.{name}" for name in heavy)))
    parser = argparse.ArgumentParser()
    _first("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return {"sglang.launch_server": parser}


def sglang() -> Commands:
    """Options of SGLang."""
    return {command: of_argparse(parser) for command, parser in sglang_parsers().items()}


def _first(*modules: str) -> Any:
    """First of several modules that exists as a file, because parsers move between versions."""
    for name in modules:
        path = Path(sys.path[0], *name.split("."))
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return __import__(name, fromlist=["_"])
    raise SystemExit(f"none of {', '.join(modules)} is there")


def trtllm() -> Commands:
    """Options of ``trtllm-serve`` (default command and ``disaggregated``), and the keys of its YAML file."""
    root = Path(sys.path[0]) / "tensorrt_llm"
    serve = ast.parse((root / "commands/serve.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(serve) if isinstance(node, ast.FunctionDef)}
    classes = _classes(root / "llmapi/llm_args.py")
    return {
        "trtllm-serve serve": list(_of_click(functions["serve"])),
        "trtllm-serve disaggregated": list(_of_click(functions["disaggregated"])),
        "trtllm-serve config": [*_fields("", "TorchLlmArgs", classes)],
    }


def _of_click(function: ast.FunctionDef) -> Iterator[dict[str, Any]]:
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("click.option", "click.argument"):
            names = [
                part for text in call.args if isinstance(text, ast.Constant) for part in str(text.value).split("/")
            ]
            yield _click_option([name for name in names if name.startswith("-")] or names[:1], call.keywords)


def _click_option(names: list[str], keywords: list[ast.keyword]) -> dict[str, Any]:
    given = {word.arg: word.value for word in keywords}
    default = given.get("default")
    kind = ast.unparse(given["type"]) if "type" in given else "None"
    record: dict[str, Any] = {"names": names, "type": {"int": "int", "float": "float"}.get(kind, "str")}
    if "is_flag" in given or kind == "bool" or (isinstance(default, ast.Constant) and isinstance(default.value, bool)):
        record["type"] = "flag"
    choices = [part for part in ast.walk(given["type"]) if isinstance(part, ast.List)] if "type" in given else []
    if choices:
        record["choices"] = [item.value for item in choices[0].elts if isinstance(item, ast.Constant)]
    if isinstance(default, ast.Constant) and _plain(default.value):
        record["default"] = default.value
    return record


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _fields(prefix: str, name: str, classes: Mapping[str, ast.ClassDef], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Fields of a class and of the classes in its fields, as dotted keys."""
    for base in classes[name].bases:
        if ast.unparse(base) in classes:
            yield from _fields(prefix, ast.unparse(base), classes, depth)
    for node in classes[name].body:
        if (
            not isinstance(node, ast.AnnAssign)
            or not isinstance(node.target, ast.Name)
            or node.target.id.startswith("_")
        ):
            continue
        key = f"{prefix}{node.target.id}"
        words = [part.id for part in ast.walk(node.annotation) if isinstance(part, ast.Name)]
        held = [word for word in words if word in classes]
        yield _field(key, node, words, held)
        for inner in held if depth < 2 else ():
            yield from _fields(f"{key}.", inner, classes, depth + 1)


def _field(key: str, node: ast.AnnAssign, words: list[str], held: list[str]) -> dict[str, Any]:
    kind = next((word for word in words if word in ("bool", "int", "float", "str")), "str")
    listed = {"List", "list", "Dict", "dict"} & {*words}
    record: dict[str, Any] = {"names": [key], "type": "json" if held or listed else {"bool": "flag"}.get(kind, kind)}
    choices = [
        item.value
        for part in ast.walk(node.annotation)
        if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal"
        for item in ast.walk(part.slice)
        if isinstance(item, ast.Constant)
    ]
    if choices:
        record["choices"] = choices
    return record


def guidellm() -> Commands:
    """Options of ``guidellm run``."""
    forgive(_HEAVY)
    import asyncio

    asyncio.set_event_loop_policy = lambda _: None  # type: ignore[assignment]
    group = _first("guidellm.cli").cli
    return {"guidellm run": [_of_parameter(each) for each in group.commands["run"].params]}


def aiperf() -> Commands:
    """Options of ``aiperf profile``, which are fields of a class with annotated names."""
    path = Path(sys.path[0]) / "aiperf/config/flags/cli_config.py"
    fields = [node for node in ast.walk(_classes(path)["CLIConfig"]) if isinstance(node, ast.AnnAssign)]
    return {"aiperf profile": [option for field in fields for option in _of_cyclopts(field)]}


def _of_cyclopts(field: ast.AnnAssign) -> Iterator[dict[str, Any]]:
    for call in ast.walk(field.annotation):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "CLIParameter":
            named = [part for word in call.keywords if word.arg == "name" for part in ast.walk(word.value)]
            names = [str(part.value) for part in named if isinstance(part, ast.Constant)]
            words = [part.id for part in ast.walk(field.annotation) if isinstance(part, ast.Name)]
            kind = next((read for word, read in _NAMED.items() if word in words), "str")
            yield from [{"names": names, "type": kind}] if names and names[0].startswith("-") else ()


def _of_parameter(parameter: Any) -> dict[str, Any]:
    import click

    record: dict[str, Any] = {"names": [*parameter.opts, *parameter.secondary_opts]}
    kinds = {"integer": "int", "float": "float"}
    record["type"] = "flag" if getattr(parameter, "is_flag", False) else kinds.get(parameter.type.name, "str")
    if isinstance(parameter.type, click.Choice):
        record["choices"] = [*parameter.type.choices]
    return record


def text(engine: str, version: str, date: str, commands: Commands, where: str) -> str:
    """Text of a record as YAML, with one option per line."""
    reference = f"{engine}_source"
    lines = [f"name: {engine} {version}", f"engine: {engine}", f"version: {version}"]
    lines += [f"date: {date}"] if date else []
    lines.append("commands:")
    for command, options in commands.items():
        lines.append(f"  {command}:")
        for option in sorted(options, key=lambda one: one["names"][0]):
            lines.append(
                f"    - {yaml.safe_dump(option, default_flow_style=True, sort_keys=False, width=10**6).strip()}"
            )
    lines += ["sources:", f"  commands: {{ref: {reference}, where: {where!r}, kind: published}}"]
    return "\n".join(lines) + "\n"


ENGINES: Mapping[str, Callable[[], Commands]] = {
    "vllm": vllm,
    "sglang": sglang,
    "trtllm": trtllm,
    "guidellm": guidellm,
    "aiperf": aiperf,
}


PARSERS: Mapping[str, Callable[[], Parsers]] = {"vllm": vllm_parsers, "sglang": sglang_parsers}


def parse(engine: str, script: Path) -> None:
    """Parse the command lines in a script of ``inference-econ launch`` with the engine's parser."""
    joined = script.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, parser in PARSERS[engine]().items():
        for line in joined.splitlines():
            words = shlex.split(line.strip().removeprefix("python3 -m "), comments=True)
            if words[: len(command.split())] == command.split():
                parser.parse_args(words[len(command.split()) :])
                print(f"read by the parser of {command}: {len(words)} words")  # noqa: T201


def main() -> None:
    """Record the options of an engine version, or parse a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    parser.add_argument("--date", default="")
    parser.add_argument("--where", default="", help="Where that source is from: package and version, or commit.")
    parser.add_argument("--parse", type=Path, help="A script to read with the engine's own parser, instead.")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.folder))
    if asked.parse is not None:
        parse(asked.engine, asked.parse)
        return
    commands = ENGINES[asked.engine]()
    _PLACE.mkdir(exist_ok=True)
    place = _PLACE / f"{asked.engine}_{asked.version}.yaml"
    place.write_text(text(asked.engine, asked.version, asked.date, commands, asked.where), encoding="utf-8")
    print(place, {command: len(options) for command, options in commands.items()})  # noqa: T201


if __name__ == "__main__":
    main()
