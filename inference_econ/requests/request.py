"""Command line as one typed, frozen object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from inference_econ._named import named
from inference_econ.errors import InputError, TooMuchError
from inference_econ.inputs.options import OPTIONS, request_name
from inference_econ.records import saved
from inference_econ.requests.tables import COMMANDS, SHOWN, Command

if TYPE_CHECKING:
    from inference_econ._types import Progress
    from inference_econ.search import Metric

#: Price of one GPU [USD/h]. As text, it is a kind of price, or a price per node [USD/h].
Rate = float | str
#: For each Python parameter, options that reduce the work of a query.
_SMALLER: Mapping[str, Sequence[str]] = {
    "max_accelerators": ("--max-instance-gpus",),
    "means": ("--gpus", "--budget", "--power-budget"),
    "rows": ("--most",),
    "requests_per_second": ("--rates", "--request-rate"),
}


@dataclass(frozen=True, slots=True)
class Invocation:
    """Command with values for all of its options.

    Attributes
    ----------
    command : Command
        Command in the table.
    values : mapping of str to object
        Values by option, including defaults.
    given : collection of str
        Options that the user gave.
    """

    command: Command
    values: Mapping[str, Any]
    given: Collection[str]

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> Invocation:
        """Create the invocation of a command from JSON values by option. Missing options have their defaults.

        Raises
        ------
        BadValueError, InputError
            If a value is invalid. The error has the name of the option in ``option``.
        """
        command, values = COMMANDS[name], {}
        for key, parameter in command.parameters.items():
            if key == "yes":
                continue
            try:
                values[key] = parameter.usual if fields.get(key) is None else parameter.read(fields[key])
            except InputError as error:
                error.option = error.option or parameter.field
                raise
        return cls(command, values, {key for key, value in fields.items() if value is not None})

    def question(self, *, page: bool = False) -> dict[str, object]:
        """Command and all options as plain data. Saved results include these data, so that the query can be repeated.

        The data are empty for commands whose results cannot be saved.
        """
        if "saved" not in self.command.doors or (page and self.command.heading == "Catalogue"):
            return {}
        asked = {name: value for name, value in self.values.items() if name not in SHOWN}
        return saved.question_record(self.command.name, asked)

    def words(self) -> list[str]:
        """Command line that repeats the query."""
        return ["inference-econ", *self.command.name.split(), *self.command.typed(self.values)]

    def function(self) -> Callable[..., Any]:
        """Load the function of the command, or its variant for workloads with sessions.

        Raises
        ------
        InputError
            If an option for sessions is given, but the workload has no sessions.
        """
        from inference_econ.inputs import catalog

        traffic = self.values.get("traffic")
        if traffic is not None and catalog.traffic(traffic).sessions is not None:
            other = self.command.variants.get("sessions")
            return named(other) if other else self.command.load()
        if "agents" in self.values:
            stray = [name for name in ("agents", "router", "tiers") if self.values[name]]
            lacking = "" if traffic is None else f", and {traffic} has none"
            refuse(stray, f"{{}} is about sessions{lacking}; give --traffic coding_agent, or a workload with sessions")
        study = {"study": len(self.values.get("names", ())) == 1}
        selected = {**self.values, **study}
        other = next((function for name, function in self.command.variants.items() if selected.get(name)), None)
        return named(other) if other else self.command.load()

    def answer(self, host: Host | None = None, ask: Callable[..., Any] | None = None) -> Any:
        """Call the function of the command, or the function ``ask``, with the options of the command.

        If the function has a parameter with the name of an option, the option becomes this argument. All other options
        become fields of the ``Request`` argument.
        """
        ask = ask or self.function()
        own = {name: self.values[name] for name in ask.__annotations__ if name in self.values}
        if "request" not in ask.__annotations__:
            return ask(**own)
        shared = {
            name: value
            for name, value in self.values.items()
            if name in FIELDS and name not in own and value is not None
            if FIELDS[name] or not isinstance(value, tuple)
        }
        return ask(Request(asked=self, host=host or Host(), **shared), **own)


def _silent(text: str) -> None:
    """Discard a note, because no program shows it."""


def _unparsed(words: Sequence[str]) -> Invocation:
    """Raise an error, because only the command line program can parse a command line."""
    raise InputError(f"{' '.join(words)}: only the command line can run another command")


@dataclass(frozen=True, slots=True)
class Host:
    """Callbacks of the program that runs a command, for notes, output and progress; by default they do nothing."""

    tell: Callable[[str], None] = _silent
    """Print a note that is not part of the result."""
    put: Callable[[str], None] = _silent
    """Print a line of the result before the whole result is known."""
    progress: Progress | None = None
    """Report the completed share of the work."""
    parse: Callable[[Sequence[str]], Invocation] = _unparsed
    """Parse the command line of another command; raises ``InputError`` outside the command line program."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Request:
    """Options that several commands share, as typed fields.

    If a command lacks an option, its field is None or the default.

    An option that only one command has, or that has another type in a command, is an argument of the command's
    function.
    """

    asked: Invocation | None = field(default=None, repr=False)
    """The full command; None if the request was not created by a command."""
    host: Host = field(default=Host(), repr=False)
    """Callbacks of the program that runs the command."""

    model: str = ""
    hardware: str = ""
    further: tuple[str, ...] = ()
    number: int | None = None
    y: Metric = "cost"
    cut: Literal["1d", "2d"] = "1d"
    plot: str | None = None
    output: str | None = None
    quiet: bool = False

    context: float | None = None
    contexts: tuple[tuple[float, int], ...] | None = None
    no_kv_cache: str | None = None
    isl: float | str | None = None
    osl: float | str | None = None
    cached: float | None = None
    shared_prefix: float | None = None
    traffic: str | None = None
    trace: str | None = None
    workloads: tuple[tuple[float, float, float], ...] = ()
    request_rate: float | None = None
    throughput: float | None = None
    max_tokens_per_second: float | None = None
    concurrency: float | None = None
    users: float | None = None
    think_time: float | None = None
    headroom: float | None = None
    burst: float | None = None
    spare: int | None = None
    most_utilization: float | None = None
    arrival_scv: float = 1.0
    agents: int | None = None
    router: str | None = None
    tiers: tuple[str, ...] = ()
    gpus: int | None = None
    budget: float | None = None
    power_budget: float | None = None
    decode_only: bool = False

    ttft: float | str | None = None
    tpot: float | str | None = None
    e2e: float | str | None = None
    percentile: str = "p90"
    confidence: float | None = None
    any_speed: bool = False

    weights: str | None = None
    activations: str | None = None
    kv: str | None = None
    price: Rate | Mapping[str, Rate] | None = None
    rent: Literal["gpu", "node"] = "gpu"
    engine: tuple[str, ...] = ()
    aggregated: bool = False
    disaggregated: bool = False
    any_group: bool = False
    evidence: Literal["measured", "near"] | None = None
    decode_on: str | None = None
    transfer: str = "layers"
    prefill_chain: tuple[int, ...] = ()
    any_layout: bool = False
    assumptions: str | None = None
    changes: tuple[str, ...] = ()
    loras: int | None = None
    lora_rank: int | None = None
    power_cap: float | None = None
    cpu_layers: int | None = None
    n_gpu_layers: int | None = None
    host_bandwidth: float | None = None
    host_memory: float | None = None
    carbon: str | None = None
    domain: int | None = None

    grid: str | None = None
    tp: int | str | None = None
    dp: int | str | None = None
    pp: int | str | None = None
    ep: int | str | None = None
    redundant_experts: int | None = None
    dcp: int | None = None
    batch: float | None = None
    instance_gpus: float | None = None
    max_instance_gpus: float | None = None
    pipeline: bool | None = None
    slots: int | None = None
    token_budget: int | None = None
    usable_memory: float | None = None

    draft: str | None = None
    mtp: bool = False
    eagle: bool = False
    ngram: bool = False
    draft_weights: str | None = None
    acceptance: str | None = None
    acceptance_file: str | None = None
    max_draft: int | None = None
    draft_length: int | None = None
    no_speculation: bool = False

    @classmethod
    def saved(cls, options: Mapping[str, Any]) -> Request:
        """Create the request of a saved result from its JSON options."""
        known = {name: _frozen(value) for name, value in options.items() if name in FIELDS and value is not None}
        if isinstance(known.get("engine"), str):
            known["engine"] = (known["engine"],)
        return cls(**known)

    @property
    def tell(self) -> Callable[[str], None]:
        """Function that prints a note, which is not part of the result."""
        return self.host.tell

    @property
    def progress(self) -> Progress | None:
        """Function that reports the completed share of the work."""
        return self.host.progress

    @property
    def chips(self) -> tuple[str, ...]:
        """All GPUs of the request, without duplicates."""
        return tuple(dict.fromkeys((self.hardware, *self.further)))

    def is_given(self, name: str) -> bool:
        """Return True if the user gave an option."""
        return self.asked is not None and name in self.asked.given

    def named(self, names: Iterable[str]) -> list[str]:
        """Return the ``names`` whose option has a value."""
        return [name for name in names if getattr(self, name) is not None]


#: Options of requests, each with True if it has several values.
FIELDS: Mapping[str, bool] = {
    it.name: str(it.type).startswith("tuple") for it in fields(Request) if it.name not in ("asked", "host")
}


def _frozen(value: object) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def spelled(name: str) -> str:
    """Spelling of an option on the command line, by its Python name."""
    if name in OPTIONS:
        return OPTIONS[name].spelled
    own = (command.parameters[name] for command in COMMANDS.values() if name in command.parameters)
    return next((parameter.typed for parameter in own), f"--{name.replace('_', '-')}")


def refuse(stray: Iterable[str], message: str, option: str | None = None) -> None:
    """Raise an error for the first option in ``stray``; do nothing if there is none.

    Parameters
    ----------
    stray : iterable of str
        Python names of options that the user gave.
    message : str
        Message; ``{}`` is replaced by the option as the user typed it.
    option : str, optional
        Option that the error names instead of the option in ``stray``.

    Raises
    ------
    InputError
        If there is an option in ``stray``.
    """
    for name in stray:
        raise InputError(message.replace("{}", spelled(name)), option=option or name)


def too_much(error: TooMuchError, command: Command) -> InputError:
    """Create the error for a query that needs too much work. The error names the options that reduce the work."""
    available = {text for parameter in command.parameters.values() for text in parameter.spelled}
    smaller = [option for option in _SMALLER.get(error.smaller, [f"--{error.smaller}"]) if option in available]
    allowed = ", or add --yes to wait for it" if error.seconds is not None and "--yes" in available else ""
    message = f"{error.work}; reduce {' or '.join(smaller) or error.smaller}{allowed}"
    return InputError(message, request_name(smaller[0]) if smaller else None)
