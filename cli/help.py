"""Help: commands by what they are for, options by what they are about, a line to copy for each command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

import click

from inference_econ import _work
from inference_econ.errors import TooMuchError
from inference_econ.inputs import options

from . import bounded, places, renamed, show
from .decorators import COMMANDS, of
from .outputs import Output, as_output
from .parameters import FORMAT
from .start import INTERRUPTED

#: Options by what they are about; all others are what a command has for itself.
OPTIONS: Mapping[str, Sequence[str]] = {
    **{heading: [option.name for option in group] for heading, group in options.GROUPS.items()},
    "Output": ("plot", "form", "as_json", "as_csv", "output", "path", "why", "quiet", "yes", "help"),
}
#: How the shells that click knows learn to complete names.
COMPLETION = """The shell completes commands, options, models, chips and scenarios once ~/.bashrc says:

\b
  eval "$(_INFERENCE_ECON_COMPLETE=bash_source inference-econ)"  # or zsh_source
"""


class StoppedError(Exception):
    """An interrupt on its way out of click, which would print an empty line for it."""


class Group(click.Group):
    """Commands under headings, each with its whole first sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise StoppedError from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or another that people have for it; say what to type where it is gone."""
        command = super().get_command(ctx, renamed.COMMANDS.get(cmd_name, cmd_name))
        if command is None and (instead := renamed.no_such_command(cmd_name)):
            ctx.fail(instead)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        from .commands import COMMANDS

        del ctx  # the list knows all of them
        for heading in dict.fromkeys(listed.heading for listed in COMMANDS):
            commands = [listed for listed in COMMANDS if listed.heading == heading]
            # The first sentence of what a command does, uncut.
            _write(formatter, heading, [(it.name, it.command.get_short_help_str(limit=1000)) for it in commands])


class Command(click.Command):
    """Options under headings, then the number formats, if any option takes one; refusals that name these options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what was typed, and refuse places to write that would lose something."""
        typed = list(args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            self._refuse_repeated(ctx, typed)
            places.check(self.params, ctx.params)
        return rest

    def _refuse_repeated(self, ctx: click.Context, typed: list[str]) -> None:
        """Refuse options that are given twice and take one value: click would keep the last without a word."""
        from .compare import compare

        *_, parameters = self.make_parser(ctx).parse_args(typed)
        for option, times in Counter(parameters).items():
            if times > 1 and isinstance(option, click.Option) and not option.multiple:
                compared = any(axis.name == option.name and axis.multiple for axis in compare.params)
                other = "; 'compare' holds several side by side" if compared else ""
                raise click.BadParameter(f"given {times} times; give it once{other}.", ctx, option)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; what is too much work is refused with the option that makes it less.

        Whoever waits for it is told how long it takes, and has what there is after an interrupt.
        """
        quiet = getattr(ctx.params.get("output"), "quiet", ctx.params.get("quiet", False))
        try:
            with _work.waited_for(partial(show.remark, quiet=quiet)) as waiting:
                result = super().invoke(ctx)
            if waiting.stopped:
                show.remark(f"what there is: {waiting.stopped}", quiet=quiet)
                ctx.exit(INTERRUPTED)
            return result
        except TooMuchError as error:
            names = [name for param in self.params for name in param.opts]
            raise bounded.refusal(error, names) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them: first those that only this command has."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {_name(option): option.get_help_record(ctx) for option in options}
        shared = [name for names in OPTIONS.values() for name in names]
        unshared = [name for name in records if name not in shared]
        for heading, names in (("Options", unshared), *OPTIONS.items()):
            _write(formatter, heading, [record for name in names if (record := records.get(name)) is not None])
        formats = [option.type for option in options if option.metavar == FORMAT]
        if formats and isinstance(formats[0], click.Choice):
            _write(formatter, "Number formats", [(FORMAT, ", ".join(map(str, formats[0].choices)))])


def command(name: str, *, asked: bool = False, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return the decorator that makes a function the command that ``commands.toml`` describes.

    What the function returns is shown, if it returns something: an answer or a page.

    Parameters
    ----------
    name : str
        What is typed. The function gets the options; ``progress`` and ``output``, too, where it names them.
    asked : bool
        The JSON of the answer says what was asked, so that it can be asked again.
    **settings
        Further ones of ``click.command``.
    """
    row = COMMANDS[name]
    lines = ("\b", f"Example{'s' * (len(row['examples']) > 1)}:", *(f"  {line}" for line in row["examples"]))
    about = {"help": row["help"]} if "help" in row else {}
    made = click.command(name, cls=Command, epilog="\n".join(lines), **about, **settings)
    takes_output = not {"written", "printed"}.isdisjoint(row["options"].split())

    def decorate(function: Callable[..., Any]) -> Command:
        run = function if function.__annotations__["return"] == "None" else _shown(function, asked=asked)
        return made(of(name, row["options"])(as_output(run) if takes_output else run))

    return decorate


#: The same for commands whose answers can be asked again.
question = partial(command, asked=True)


def _shown(ask: Callable[..., Any], *, asked: bool) -> Callable[..., None]:
    """Return the function that answers behind a bar, and shows the answer."""

    @wraps(ask)
    def run(output: Output, **choices: Any) -> None:
        with show.progress_bar(quiet=output.quiet) as progress:
            beside = {"output": output, "progress": progress}
            answer = ask(**choices, **{key: value for key, value in beside.items() if key in ask.__annotations__})
        if answer is not None:
            show.answer(answer, output, asked=asked)

    return run


def _name(option: click.Option) -> str:
    """The name of an option in Python; that of the help has none of the command's."""
    return "help" if "--help" in option.opts else str(option.name)


def _write(formatter: click.HelpFormatter, heading: str, rows: Iterable[tuple[str, str]]) -> None:
    """A heading with its lines; nothing if there are none."""
    lines = [(what.replace("INTEGER RANGE", "N").replace("FLOAT RANGE", "NUMBER"), text) for what, text in rows]
    if lines:
        with formatter.section(heading):
            formatter.write_dl(lines)
