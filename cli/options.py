"""Options that commands share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.report.files import check_place

if TYPE_CHECKING:
    from inference_econ.engine.layouts.space import Space
    from inference_econ.engine.setup import Setup
    from inference_econ.inputs.traffic import Requests

F = TypeVar("F", bound=Callable[..., Any])


class Place(click.ParamType[str]):
    """A file to write: checked first, so that nothing is written if not all can be."""

    name = "PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The path itself, if it can be written."""
        check_place(value)
        return value


PLACE = Place()

DTYPES = (
    *("fp32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "int8", "int8_g128"),
    *("fp4", "mxfp4", "nvfp4", "int4", "int4_g32", "int4_channel"),
)


class Name(click.ParamType[str]):
    """A name of the catalogue or a path, checked before anything heavy is loaded."""

    def __init__(self, kind: catalog.Kind) -> None:
        self.kind: catalog.Kind = kind
        self.name = "NAME|PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, if it can be found."""
        del param, ctx
        catalog.locate(self.kind, value)
        return value


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Seconds(click.ParamType[float]):
    """A positive time: a quantity such as ``30 ms``, or a bare number of seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            from inference_econ.errors import UnitError
            from inference_econ.inputs.units import parse_quantity

            try:
                number = parse_quantity(value, "s")
            except UnitError as error:
                self.fail(f"{error}", param, ctx)
        if not (math.isfinite(number) and number > 0):
            self.fail(f"{value} is not a positive time; write for example '30 ms'.", param, ctx)
        return number


POSITIVE = Number(min=0, min_open=True)
NON_NEGATIVE = Number(min=0)
PROBABILITY = Number(min=0, max=1)


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def settings(given: Mapping[str, Any], changes: Iterable[str], domain_size: int | None) -> dict[str, Any]:
    """The fields of ``Settings`` that were given, what-ifs checked."""
    from inference_econ.inputs.what_if import checked_changes

    if given.get("context") is not None and (given.get("isl") is not None or given.get("osl") is not None):
        raise InputError("give either --context, or --isl and --osl, not both")
    found = {name: value for name, value in given.items() if value is not None}
    return {**found, "changes": checked_changes(with_domain(changes, domain_size))}


def setup(given: Mapping[str, Any], *, hardware: str | None = None, domain_size: int | None = None) -> Setup:
    """What the options of :data:`subject` say, as one setup; perhaps on other hardware."""
    from inference_econ.engine.setup import Setup
    from inference_econ.inputs import profiles

    return Setup.of(
        given["model"],
        given["hardware"] if hardware is None else hardware,
        **{name: given[name] for name in ("weights", "activations", "kv", "price")},
        assumptions=profiles.for_grid(given["assumptions"], given.get("grid", "whole")),
        changes=with_domain(given["changes"], domain_size),
    )


def space(given: Mapping[str, Any]) -> Space:
    """Which instances the options of a command allow."""
    from inference_econ.engine.layouts.pins import Pins
    from inference_econ.engine.layouts.space import Space

    pins = Pins(**{name: given.get(name) for name in ("tp", "dp", "pp", "ep", "accelerators")})
    return Space(pins, given["max_accelerators"], given["pipeline"])


def requests(given: Mapping[str, Any]) -> Requests:
    """The lengths that the options of a command say."""
    from inference_econ.inputs.traffic import Requests

    return Requests.build({name: given[name] for name in ("isl", "osl", "cached")}, origin="command line")


def with_domain(changes: Iterable[str], size: int | None) -> tuple[str, ...]:
    """What-ifs with that of ``--domain``."""
    what_ifs = tuple(changes)
    if size is None:
        return what_ifs
    if any(change.partition("=")[0].strip() == "hardware.link_domain" for change in what_ifs):
        raise InputError("give either --domain or --set hardware.link_domain, not both")
    return (*what_ifs, f"hardware.link_domain={size}")


#: Forms of results, by how names of files end.
_FORMS = {".csv": "csv", ".json": "json", ".md": "markdown"}


def _by_suffix(command: F) -> F:
    """A command whose result has the form that the name of its file asks for, unless a form is given."""

    @functools.wraps(command)
    def run(*arguments: Any, form: str, output: str | None, **given: Any) -> Any:
        source = click.get_current_context().get_parameter_source("form")
        if output is not None and source is click.core.ParameterSource.DEFAULT:
            form = _FORMS.get(Path(output).suffix.lower(), form)
        return command(*arguments, form=form, output=output, **given)

    return cast("F", run)


def form(text: str, default: str | bool = True) -> Callable[[F], F]:
    """How a result is printed; ``default`` is what the help says of it if that is not always the table."""
    forms = click.Choice(["table", "json", "csv", "markdown"])
    return click.option("--format", "form", type=forms, default="table", show_default=default, help=text)


output = apply(
    form("How to print the result.", "as the name after -o ends: .json, .csv, .md; else table"),
    click.option("-o", "--output", type=PLACE, help="Write the result to a file instead."),
    click.option("--quiet", is_flag=True, help="No progress bar, drawing or remarks."),
    _by_suffix,
)

#: What the result files of load generators do not say of the server.
deployment = apply(
    click.option("--hardware", help="Of results of a load generator: the chip."),
    click.option("--model", default="", help="Of results: the model, if not the one in the file."),
    click.option("--engine", default="", help="Of results: the engine, if not the one in the file."),
    click.option("--weights", default="", help="Of results: number format of the weights."),
    click.option("--kv", default="", help="Of results: number format of the KV cache."),
    click.option("--tp", type=click.IntRange(1), default=1, help="Of results: tensor-parallel ranks."),
    click.option("--dp", type=click.IntRange(1), default=1, help="Of results: data-parallel groups."),
    click.option("--pp", type=click.IntRange(1), default=1, help="Of results: pipeline stages."),
    click.option("--ep", type=click.IntRange(1), help="Of results: expert-parallel ranks."),
)

domain = click.option(
    "--domain",
    type=click.IntRange(1),
    help="What-if: accelerators that share the fast link; the same as --set hardware.link_domain=N.",
)

workload = apply(
    click.option("--context", type=NON_NEGATIVE, help="Cached tokens per sequence; instead of --isl and --osl."),
    click.option("--isl", type=NON_NEGATIVE, help="Input tokens of a request [default: 2000]."),
    click.option("--osl", type=POSITIVE, help="Output tokens of a request [default: 500]."),
    click.option(
        "--grid",
        type=click.Choice(["whole", "paper"]),
        default="whole",
        show_default=True,
        help="Whole-number deployments, or the published study's logarithmic grid.",
    ),
    click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism."),
    click.option("--draft", type=Name("models"), help="Model that proposes tokens (speculative decoding)."),
    click.option("--acceptance", type=PROBABILITY, default=0.8, show_default=True, help="Share of proposals accepted."),
    click.option("--max-draft", type=click.IntRange(1, 64), default=5, show_default=True, help="Longest draft."),
    click.option(
        "--max-throughput",
        "max_tokens_per_second",
        type=POSITIVE,
        help="Demand: total tokens/s that can be sold.",
    ),
    click.option("--max-accelerators", type=POSITIVE, help="Largest instance [default: 64, or 4 x the smallest]."),
    click.option("--tp", type=click.IntRange(1), help="Pin: accelerators that share attention."),
    click.option("--dp", type=click.IntRange(1), help="Pin: groups of them in a pipeline stage."),
    click.option("--pp", type=click.IntRange(1), help="Pin: pipeline stages."),
    click.option("--ep", type=click.IntRange(1), help="Pin: expert-parallel ranks of a stage."),
    click.option("--batch", type=POSITIVE, help="Pin: sequences decoded together by an instance."),
    click.option("--accelerators", type=POSITIVE, help="Pin: size of an instance."),
)

subject = apply(
    click.argument("model", type=Name("models")),
    click.argument("hardware", type=Name("hardware")),
    click.option("--weights", type=click.Choice(DTYPES), help="Number format of the weights; by default as published."),
    click.option("--activations", type=click.Choice(DTYPES), help="Of what operators exchange; by default 16-bit."),
    click.option("--kv", type=click.Choice(DTYPES), help="Of the KV cache; as activations by default."),
    click.option("--price", type=POSITIVE, help="USD per accelerator and hour; by default the first of the file."),
    click.option(
        "--assumptions",
        type=Name("assumptions"),
        help="Preset; by default the profile of the hardware's generation, that of all servers for chips like those "
        "that were measured, else 'deployable'; 'paper' with '--grid paper'.",
    ),
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="KEY=VALUE",
        help="What-if: hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE.",
    ),
)
