"""Who serves, on what and how, as the options of a request say: a setup, layouts, a proposer, candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from inference_econ import answers, inputs
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs.options import GROUPS, OPTIONS, WHAT_IFS
from inference_econ.requests import kinds, prices
from inference_econ.requests.request import FIELDS, Request, refuse
from inference_econ.requests.tables import SHOWN
from inference_econ.requests.workload import context_or_lengths, decode_steps

if TYPE_CHECKING:
    from inference_econ.answers.deployments.serving_options import Arrangement, Candidate, Proposer
    from inference_econ.engine import Pins, Setup, Space, Speculation
    from inference_econ.inputs import Requests
    from inference_econ.serving import Services

Answer = TypeVar("Answer")

_PROPOSERS: tuple[inputs.ProposerName, ...] = ("draft", "mtp", "eagle", "ngram")
_DETAILS = [option.name for option in GROUPS["Speculation"] if option.name not in (*_PROPOSERS, "no_speculation")]
#: Options that one setup, its layouts and its proposer are made of, as they are.
_RESOLVED = [option.name for group in ("Model, GPU and price", "Layout", "Speculation") for option in GROUPS[group]]
#: Options that say how every instance is laid out or filled, which pools are not.
_OF_ONE_LAYOUT = ("tp", "pp", "dp", "ep", "dcp", "instance_gpus", "slots")
#: Options that pools alone have.
OF_POOLS = ("decode_on", "transfer", "prefill_chain")


def what_ifs(request: Request) -> tuple[str, ...]:
    """What-ifs of ``--set``, and those that have an option of their own.

    Raises
    ------
    InputError
        If both change the same, or a rank is given without adapters.
    """
    changes = tuple(request.changes)
    if request.lora_rank is not None and request.loras is None:
        raise InputError("--lora-rank is that of --loras; give --loras N, too", option="lora_rank")
    for name, key in WHAT_IFS.items():
        value = getattr(request, name)
        if value is None:
            continue
        if any(change.partition("=")[0].strip() == key for change in changes):
            raise InputError(f"give either {OPTIONS[name].spelled} or --set {key}, not both", option=name)
        changes = (*changes, f"{key}={value}")
    return changes


def settings(
    request: Request, hardware: str | None = None, acceptance: float | list[float] | None = None
) -> inputs.Settings:
    """Return what options say of what is served, its layout and who proposes; engines are :func:`engine`.

    Each value is checked already, by the type of its option.

    Parameters
    ----------
    request : Request
        What was asked.
    hardware : str, optional
        Another chip than it names.
    acceptance : float or list of float, optional
        Probabilities that proposals are accepted, where somebody proposes.
    """
    chip = hardware or request.hardware
    named = [name for name in ("model", *_RESOLVED) if name in inputs.Settings.model_fields]
    values = {name: value for name in named if (value := getattr(request, name)) is not None}
    price = prices.of_chip(request.price, chip)
    derived = {"hardware": chip, "price": price, "changes": what_ifs(request), "acceptance": acceptance}
    derived |= {"gpus": request.gpus}
    return inputs.Settings.model_construct(**{**values, **derived, "engine": None})


def setup(request: Request, hardware: str | None = None) -> Setup:
    """Return what the options for a setup say, as one setup; perhaps on other hardware."""
    from inference_econ.answers.settings import setup_of

    if hardware is None:
        prices.prices_of_chips(request.price, (request.hardware,))
    resolved = setup_of(settings(request, hardware), engine(request))
    grid = request.carbon
    return replace(resolved, rent=request.rent, grid=None if grid is None else inputs.economic_defaults.grid(grid))


def pins(request: Request) -> Pins:
    """Return the degrees that are fixed, as far as a command has options for them.

    Raises
    ------
    InputError
        If they contradict the size of the instance.
    """
    from inference_econ.answers.settings import pins_of

    return pins_of(settings(request), as_option)


def space(request: Request) -> Space:
    """Return which instances the options of a command allow; see :func:`pins` for the errors."""
    from inference_econ.answers.settings import space_of

    return space_of(settings(request), as_option)


def engine(request: Request) -> str | tuple[str, ...] | None:
    """The engines that layouts are asked of: those named, any layout, or all that are known (None).

    Raises
    ------
    InputError
        If an engine is named and any layout is asked for.
    """
    if request.any_layout and request.engine:
        raise InputError("give either --engine or --any-layout, not both", option="engine")
    if request.any_layout:
        return inputs.ANY_LAYOUT
    names = tuple(dict.fromkeys(request.engine))
    return names[0] if len(names) == 1 else names or None


def one_engine(request: Request) -> str | None:
    """Return the engine where a question is of one engine, or None where it leaves that open.

    Raises
    ------
    InputError
        If several are named.
    """
    named = engine(request)
    if isinstance(named, tuple):
        raise InputError(
            f"give --engine once here, got {', '.join(named)}; 'compare' holds several against each other",
            option="engine",
        )
    return named


def among_startable(request: Request, answer: Callable[[Request], Answer]) -> Answer | None:
    """The answer among layouts that engines can start, where any layout is asked for.

    None where that is not asked, no engine is known, or none can start what is pinned or has room for it.
    """
    if not request.any_layout or request.grid == "paper":
        return None
    startable = replace(request, any_layout=False)
    try:
        return answer(startable) if setup(startable).engines else None
    except (InputError, NothingFitsError):
        return None


def speculation(request: Request, hardware: str | None = None) -> Speculation | None:
    """Speculation that the options for proposers ask for, perhaps on other hardware; None without a proposer.

    Raises
    ------
    InputError
        If they contradict each other, or cannot be used.
    """
    if _proposer(request) is None:
        return None
    from inference_econ.answers.settings import speculation_of

    _longest(request)
    return speculation_of(settings(request, hardware, _acceptance(request)), setup(request, hardware))


def proposed(request: Request, hardware: str | None = None) -> Proposer:
    """Proposer where that may be left to recipes: whoever is asked for, nobody, or whom recipes have.

    Raises
    ------
    InputError
        See :func:`speculation`.
    """
    from inference_econ.answers.deployments.serving_options import RECIPE

    named = speculation(request, hardware)
    return named if named is not None or request.no_speculation else RECIPE


def _proposer(request: Request) -> inputs.ProposerName | None:
    """The proposer that is named, if one is; details without one mean nothing."""
    named = [name for name in _PROPOSERS if getattr(request, name)]
    if len(named) > 1:
        listed = " and ".join(f"--{name}" for name in named)
        raise InputError(f"give one of --draft, --mtp, --eagle and --ngram, got {listed}", option="draft")
    if named and request.no_speculation:
        raise InputError(f"--no-speculation contradicts --{named[0]}; leave one of them out", option="no_speculation")
    text = "{} requires speculation; give --draft MODEL, --mtp, --eagle or --ngram as well"
    refuse([] if named else request.named(_DETAILS), text)
    return named[0] if named else None


def _acceptance(request: Request) -> float | list[float] | None:
    """The probabilities that were given, or that a file tells."""
    if request.acceptance is not None and request.acceptance_file is not None:
        raise InputError("give either --acceptance or --acceptance-file, not both", option="acceptance")
    if request.acceptance_file is not None:
        return answers.speculate.measured_acceptance(request.acceptance_file, _longest(request))
    if request.acceptance is None:
        return None
    try:
        rates = [float(part) for part in request.acceptance.split(",")]
    except ValueError:
        raise InputError(
            f"--acceptance {request.acceptance!r}: write one probability for all proposals, or one for each, as "
            "0.9,0.8,0.7",
            option="acceptance",
        ) from None
    return rates[0] if len(rates) == 1 else rates


def _longest(request: Request) -> int | None:
    """Proposals of a round at most, if that is given [1].

    Raises
    ------
    InputError
        If it is given in two ways.
    """
    if request.draft_length is None:
        return request.max_draft
    if request.max_draft is not None:
        raise InputError(
            "give either --max-draft, of which each batch has the best, or --draft-length, which all rounds have",
            option="max_draft",
        )
    return request.draft_length


def offer(
    request: Request, requests: Requests, hardware: str | None = None, speculation: Speculation | None = None
) -> Services:
    """Every layout that the options leave open, as a service of some requests."""
    from inference_econ.answers.layout_services import offer as offered

    layouts = offered(setup(request, hardware), requests, space(request), speculation)
    return layouts if request.slots is None else answers.layout_services.with_slots(layouts, request.slots)


def candidates(
    request: Request, requests: Requests, hardware: str | None = None, *, ttft_seconds: float = math.inf
) -> tuple[Candidate, ...]:
    """Every way to serve that the options leave open, on one chip.

    Raises
    ------
    InputError
        If the options contradict each other.
    """
    from inference_econ.answers.deployments.serving_options import Pooling, market, with_evidence

    decode = None if request.decode_on is None else setup(request, request.decode_on)
    offered = market(
        setup(request, hardware),
        requests,
        space(request),
        speculation=proposed(request, hardware),
        arrangement=arrangement(request),
        pooling=Pooling(decode, request.transfer == "layers", request.prefill_chain),
        slots=request.slots,
        ttft_seconds=ttft_seconds,
    )
    return offered if request.evidence is None else with_evidence(offered, request.evidence)


def arrangement(request: Request) -> Arrangement:
    """Arrangement of those who compete: instances that do both, pools that do one of both, or either.

    Raises
    ------
    InputError
        If only the one and only the other is asked for, or something of pools and no pools, or pools of instances
        whose layout is pinned.
    """
    if request.aggregated and request.disaggregated:
        raise InputError(
            "give either --aggregated or --disaggregated; without them the better of the two answers",
            option="aggregated",
        )
    pinned = next((name for name in _OF_ONE_LAYOUT if getattr(request, name) is not None), None)
    asked = next(
        (name for name in OF_POOLS if request.is_given(name)), "disaggregated" if request.disaggregated else None
    )
    if asked is not None and (request.aggregated or pinned is not None):
        option = "--aggregated" if request.aggregated else as_option(str(pinned), getattr(request, str(pinned)))
        text = f"{{}} contradicts {option}, which selects aggregated instances; leave one out"
        refuse([asked], text)
    return "aggregated" if request.aggregated else "disaggregated" if request.disaggregated else "both"


def candidates_on_chips(request: Request, requests: Requests, chips: Sequence[str] | None = None) -> list[Candidate]:
    """Candidates on several kinds of chips; on those of the request by default.

    Raises
    ------
    InputError, NothingFitsError
        If options contradict each other, or nothing fits one of the chips.
    """
    return [candidate for chip in chips or request.chips for candidate in candidates(request, requests, chip)]


def fewest(request: Request, answer: Callable[[Request], Answer]) -> Answer:
    """The answer for the fewest GPUs that hold the model, where no degree is given; for one GPU and those otherwise.

    Raises
    ------
    NothingFitsError
        If none of the instances that are tried holds it: of 1, 2, 4, .. GPUs of a link domain. That of a single one.
    """
    if any(getattr(request, name) not in (None, 1) for name in ("tp", "pp", "dp", "ep")) or request.tp is not None:
        return answer(replace(request, tp=request.tp or 1))
    domain, failures = inputs.catalog.hardware(request.hardware).link_domain or 1, []
    for size in takewhile(lambda size: size <= domain, (2**power for power in range(10))):
        try:
            return answer(replace(request, tp=size))
        except NothingFitsError as error:
            failures.append(error)
    raise failures[0]


def meant(request: Request, kind: str, text: str) -> str:
    """Name of the catalog that a text means; a remark is printed where the text is another spelling.

    Raises
    ------
    BadValueError, InputError
        If the catalog has no such name.
    """
    read = kinds.kind(kind)
    remark = read.remark(text)
    if remark:
        request.tell(remark)
    return str(read.read(text))


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"


def shared_settings(request: Request) -> dict[str, Any]:
    """Return what options say as far as they are given, by the names of ``Settings``; several values are lists.

    Raises
    ------
    InputError
        If options contradict each other, or mean nothing for what is counted.
    """
    assert request.asked is not None
    values = {name: value for name, value in request.asked.values.items() if name in (*FIELDS, "models")}
    lengths: dict[str, Any] = {
        name: values[name] or None for name in ("context", "isl", "osl") if isinstance(values[name], tuple)
    }
    values |= lengths
    checked = replace(request, **{name: value and value[0] for name, value in lengths.items()})
    context_or_lengths(checked)
    decode_steps(checked)
    apart = {
        *WHAT_IFS,
        *SHOWN,
        *_PROPOSERS,
        *_DETAILS,
        "no_speculation",
        "any_layout",
        "aggregated",
        "disaggregated",
        "price",
        "y",
    }
    apart |= set() if request.decode_only else {"decode_only"}
    if _proposer(request) is not None:
        named = (*_PROPOSERS, "draft_weights", "max_draft", "draft_length")
        values |= {"acceptance": _acceptance(request)}
        apart -= {"acceptance", *(name for name in named if getattr(request, name))}
    given = {name: value for name, value in values.items() if name not in apart and value is not None}
    if request.no_speculation:
        given["speculate"] = False
    if arrangement(request) != "both":
        given["arrangement"] = arrangement(request)
    engines = (*request.engine, *([inputs.ANY_LAYOUT] if request.any_layout else []))
    return {**given, "engine": engines, "changes": inputs.checked_changes(what_ifs(request))}
