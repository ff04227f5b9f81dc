"""Click commands, built from the tables of :mod:`inference_econ.requests`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from inference_econ import _work, allow
from inference_econ.errors import InputError, TooMuchError
from inference_econ.inputs import catalog
from inference_econ.records.files import PICTURES, ending_of
from inference_econ.requests import (
    COMMANDS,
    Command,
    Host,
    Invocation,
    Parameter,
    kinds,
    places,
    tables,
    too_much,
    words,
)

from . import show
from .start import INTERRUPTED

#: Context key that is set if the help shows all options.
_ALL = "inference_econ.help_all"


@contextmanager
def _named(param: click.Parameter | None, ctx: click.Context | None) -> Iterator[None]:
    """Add the name of the option to the error for a rejected value."""
    try:
        yield
    except kinds.BadValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


class ClickType(click.ParamType[Any]):
    """Click type for one kind of value in the tables."""

    def __init__(self, kind: kinds.ValueKind) -> None:
        self.kind, self.name = kind, kind.metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Choices or placeholder of an option value; arguments use their own name."""
        del ctx
        argument = isinstance(param, click.Argument)
        if not isinstance(self.kind, kinds.ChoiceKind) or self.kind.metavar:
            return None if argument else self.kind.metavar
        words = "|".join(self.kind.words)
        return f"{{{words}}}" if param.required and argument else f"[{words}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert a value. If a catalog name is inexact, report the entry that it resolves to."""
        with _named(param, ctx):
            read = self.kind.read(value)
        remark = self.kind.remark(value) if type(self.kind) is kinds.Name else ""
        if remark and ctx is not None:
            ctx.call_on_close(lambda: show.remark(remark, quiet=ctx.params.get("quiet", False)))
        return read

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete an option value in the shell: words and catalog names, or file names if no catalog name matches."""
        del ctx, param
        if isinstance(self.kind, kinds.ChoiceKind):
            return [CompletionItem(word) for word in self.kind.words if word.startswith(incomplete)]
        names = catalog.names(self.kind.catalog) if self.kind.catalog else ()
        if not (names or self.kind.metavar in ("PATH", "DIRECTORY")):
            return []
        found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="dir" if self.kind.metavar == "DIRECTORY" else "file")]


class ClickOption(click.Option):
    """Click option whose help also shows the accepted range of a number."""

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the text in brackets at the end of an option's help."""
        extra = super().get_help_extra(ctx)
        kind = self.type.kind if isinstance(self.type, ClickType) else None
        if isinstance(kind, kinds.Number) and kind.range:
            extra["range"] = kind.range
        return extra


def _gathered(kind: kinds.ValueKind, ctx: click.Context, param: click.Parameter, values: Any) -> Any:
    """Combine the values of an option that is given several times."""
    with _named(param, ctx):
        return kind.gather(values)


def _allowed(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Remove the run-time limit of the command if the option ``--yes`` is given."""
    del param
    if value:
        ctx.with_resource(allow())


def _parameter(row: Parameter) -> click.Parameter:
    """Create the click option or argument of a table row."""
    kind = row.kind
    if not row.spelled:
        nargs, metavar = -1 if row.repeat else 1, row.metavar or None
        return click.Argument([row.name], type=ClickType(kind), nargs=nargs, required=row.required, metavar=metavar)
    settings: dict[str, Any] = {"help": row.help, "required": row.required, "metavar": row.metavar or None}
    spelled = list(row.spelled)
    if isinstance(kind, kinds.Flag):
        if row.name == "yes":
            settings |= {"expose_value": False, "callback": _allowed}
        if kind.negative:
            spelled = [f"{row.typed}/--no-{row.typed.removeprefix('--')}"]
        settings |= {"is_flag": True} if kind.value is True else {"flag_value": kind.value}
        settings["default"] = row.usual
    elif isinstance(kind, kinds.Pair):
        settings |= {"type": tuple(map(ClickType, kind.parts)), "nargs": len(kind.parts)}
    else:
        settings["type"] = ClickType(kind)
        if row.repeat:
            settings |= {"multiple": True, "callback": partial(_gathered, kind)}
        if row.default is not None:
            settings["default"] = (row.default,) if row.repeat else row.default
    return ClickOption([*spelled, row.name], show_default=row.shown, **settings)


def _show_all(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Print the help with all options."""
    del param
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class ClickCommand(click.Command):
    """Click command from the tables, with grouped options, number formats, and errors that name its options."""

    def __init__(self, row: Command) -> None:
        lines = ("\b", f"Example{'s' * (len(row.examples) > 1)}:", *(f"  {line}" for line in row.examples))
        parameters = [_parameter(parameter) for parameter in row.parameters.values()]
        if set(row.short_help) < {name for name, parameter in row.parameters.items() if parameter.spelled}:
            how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
            parameters.append(click.Option(["--help-all"], help="Show all options.", **how))
        super().__init__(row.name, params=parameters, help=row.description, epilog="\n".join(lines))
        self.row = row

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and reject output files that would destroy data."""
        words.check_words(args)
        tell = partial(show.remark, quiet="--quiet" in args)
        typed = args = [self._spelled(word, tell) for word in args]
        try:
            rest = super().parse_args(ctx, list(args))
        except click.UsageError as error:
            if type(error) is not click.UsageError:
                raise  # The error names its option.
            raise click.UsageError(f"{error.message}. Example: {self.row.examples[-1]}", ctx) from error
        if not ctx.resilient_parsing:
            # Reject a repeated option that takes one value, because click would silently use the last value.
            *_, parameters = self.make_parser(ctx).parse_args(typed)
            for option, times in Counter(parameters).items():
                if times > 1 and isinstance(option, click.Option) and not option.multiple:
                    axis = COMMANDS["compare"].parameters.get(str(option.name))
                    other = "; 'frontier' compares several" if axis is not None and axis.repeat else ""
                    raise click.BadParameter(f"given {times} times; give it once{other}.", ctx, option)
            # If the file of ``-o`` has the extension of a picture, it is the file of ``--plot``.
            values, path = ctx.params, ctx.params.get("output")
            if path and "plot" in values and not values["plot"] and ending_of(path) in PICTURES:
                values |= {"plot": path, "output": None}
            places.check(self.row.parameters, ctx.params)
        return rest

    def _spelled(self, word: str, tell: Callable[[str], None]) -> str:
        """Replace an old spelling of an option by the current one, and report the replacement."""
        option, equals, value = word.partition("=")
        now = self.row.spelling(option) if option.startswith("--") else option
        if now != option and option in tables.OLD_OPTIONS:
            tell(f"note: '{option}' is now '{now}'; the old name works until 0.3.0")
        return f"{now}{equals}{value}"

    def invoke(self, ctx: click.Context) -> None:
        """Run the command and show its result."""
        asked, ask = self.asked(ctx), self.row.load()
        output = show.Output.of(ctx.params)
        tell = partial(show.remark, quiet=output.quiet)
        with self.waited_for(ctx, tell):
            # Commands that print by themselves have no progress bar; an integer result is the exit code.
            silent = output.quiet or ask.__annotations__["return"] in ("None", "int")
            with show.progress_bar(quiet=silent) as progress:
                answered = asked.answer(Host(tell, partial(show.put, path=None, quiet=True), progress, parsed))
            if isinstance(answered, int):
                ctx.exit(answered)
            elif isinstance(answered, str):
                show.put(answered, ctx.params.get("output") or ctx.params.get("path"), quiet=output.quiet)
            elif answered is not None:
                show.emit(answered, output, asked)

    def asked(self, ctx: click.Context) -> Invocation:
        """Return the command with its parsed options."""
        sources = {str(it.name): ctx.get_parameter_source(str(it.name)) for it in self.params}
        given = {name for name, source in sources.items() if source not in (None, ParameterSource.DEFAULT)}
        return Invocation(self.row, ctx.params, given)

    @contextmanager
    def waited_for(self, ctx: click.Context, tell: Callable[[str], None]) -> Iterator[None]:
        """Report run times, and show partial results after an interrupt.

        If the work would take too long, the error names the options that reduce it.
        """
        try:
            with _work.waited_for(tell) as waiting:
                yield
        except TooMuchError as error:
            raise too_much(error, self.row) from error
        if waiting.stopped:
            tell(f"what there is: {waiting.stopped}")
            ctx.exit(INTERRUPTED)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options, or of the most important options.

        Options of this command alone are first.
        """
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        # The help option is not in the tables.
        records = {"help" if "--help" in it.opts else str(it.name): it.get_help_record(ctx) for it in options}
        if not ctx.meta.get(_ALL):
            records = {name: records[name] for name in (*self.row.short_help, "help", "help_all") if name in records}
        shared = [name for names in tables.HEADINGS.values() for name in names]
        unshared = [name for name in records if name not in shared]
        for heading, names in (("Options", unshared), *tables.HEADINGS.items()):
            write(formatter, heading, [record for name in names if (record := records.get(name)) is not None])
        kind = next((it.kind for it in self.row.parameters.values() if isinstance(it.kind, kinds.FormatKind)), None)
        if kind is not None:
            write(formatter, "Number formats", [(kinds.FORMAT, ", ".join(kind.words))])


def parsed(typed: Sequence[str]) -> Invocation:
    """Parse a command line within another command.

    Raises
    ------
    InputError
        If the command rejects these words.
    """
    row, rest = words.command_of(typed, partial(show.remark, quiet=False))
    command = ClickCommand(row)
    try:
        with command.make_context(row.name, rest, parent=click.get_current_context().find_root()) as context:
            return command.asked(context)
    except click.UsageError as error:
        raise InputError(error.format_message()) from error


def write(formatter: click.HelpFormatter, heading: str, lines: Sequence[tuple[str, str]]) -> None:
    """Write a heading and its lines; write nothing if there are no lines."""
    if lines:
        with formatter.section(heading):
            formatter.write_dl(lines)
