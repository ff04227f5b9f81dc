"""Setups, layouts, speculation and candidates from the options of a request."""

from __future__ import annotations

import math
from collections.abc import Callable
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
#: Options that determine one setup, its layouts and its speculation method, without further inputs.
_RESOLVED = [option.name for group in ("Model, GPU and price", "Layout", "Speculation") for option in GROUPS[group]]
#: Options about the layout or concurrency of aggregated instances. Prefill and decode pools do not have them.
_OF_ONE_LAYOUT = ("tp", "pp", "dp", "ep", "dcp", "instance_gpus", "slots")
#: Options that apply only to prefill and decode pools.
OF_POOLS = ("decode_on", "transfer", "prefill_chain")


def what_ifs(request: Request) -> tuple[str, ...]:
    """Changes to catalog values (what-ifs) from ``--set``, and from options such as ``--loras`` that imply a change.

    Raises
    ------
    InputError
        If two options change the same field, or if a LoRA rank is given without a number of adapters.
    """
    changes = tuple(request.changes)
    if request.lora_rank is not None and request.loras is None:
        raise InputError("--lora-rank is that of --loras; give --loras N, too", option="lora_rank")
    for name, key in WHAT_IFS.items():
        value = getattr(request, name)
        if name == "cpu_layers" and request.n_gpu_layers is not None:
            if value is not None:
                raise InputError("give either --cpu-layers or --n-gpu-layers, not both", option="n_gpu_layers")
            # llama.cpp includes the output layer in its number of GPU layers, and places it on the GPU first.
            value = max(inputs.catalog.model(request.model).layers + 1 - request.n_gpu_layers, 0)
        if value is None:
            continue
        if any(change.partition("=")[0].strip() == key for change in changes):
            raise InputError(f"give either {OPTIONS[name].spelled} or --set {key}, not both", option=name)
        changes = (*changes, f"{key}={value}")
    return changes


def settings(
    request: Request, hardware: str | None = None, acceptance: float | list[float] | None = None
) -> inputs.Settings:
    """Return the settings of the model, layout and speculation; see :func:`engine` for engines.

    The types of the options have already checked their values.

    Parameters
    ----------
    request : Request
        Request.
    hardware : str, optional
        GPU that replaces the GPU of the request.
    acceptance : float or list of float, optional
        Acceptance rates of draft tokens, if the request has speculation.
    """
    chip = hardware or request.hardware
    named = [name for name in ("model", *_RESOLVED) if name in inputs.Settings.fields]
    values = {name: value for name in named if (value := getattr(request, name)) is not None}
    price = prices.of_chip(request.price, chip)
    derived = {"hardware": chip, "price": price, "changes": what_ifs(request), "acceptance": acceptance}
    derived |= {"gpus": request.gpus}
    return inputs.Settings.model_construct(**{**values, **derived, "engine": None})


def setup(request: Request, hardware: str | None = None) -> Setup:
    """Return the setup of a request, or the same setup on another GPU."""
    from inference_econ.answers.settings import setup_of

    if hardware is None:
        prices.prices_of_chips(request.price, (request.hardware,))
    resolved = setup_of(settings(request, hardware), engine(request))
    grid = request.carbon
    return replace(resolved, rent=request.rent, grid=None if grid is None else inputs.economic_defaults.grid(grid))


def pins(request: Request) -> Pins:
    """Return the fixed parallelism degrees, batch and instance size of a request.

    Raises
    ------
    InputError
        If these values contradict each other.
    """
    from inference_econ.answers.settings import pins_of

    return pins_of(settings(request), as_option)


def space(request: Request) -> Space:
    """Return the instances that the options allow to search; see :func:`pins` for errors."""
    from inference_econ.answers.settings import space_of

    return space_of(settings(request), as_option)


def engine(request: Request) -> str | tuple[str, ...] | None:
    """Engines that a request names; ``ANY_LAYOUT`` if layouts need no engine, None for all known engines.

    Raises
    ------
    InputError
        If an engine is named, but layouts that need no engine are requested too.
    """
    if request.any_layout and request.engine:
        raise InputError("give either --engine or --any-layout, not both", option="engine")
    if request.any_layout:
        return inputs.ANY_LAYOUT
    names = tuple(dict.fromkeys(request.engine))
    return names[0] if len(names) == 1 else names or None


def one_engine(request: Request) -> str | None:
    """Engine of a query about a single engine; None if the query does not name one.

    Raises
    ------
    InputError
        If several engines are named.
    """
    named = engine(request)
    if isinstance(named, tuple):
        raise InputError(
            f"give --engine once here, got {', '.join(named)}; 'compare' holds several against each other",
            option="engine",
        )
    return named


def among_startable(request: Request, answer: Callable[[Request], Answer]) -> Answer | None:
    """Compute the result again for layouts that engines can start, to compare it with a result for any layout.

    The result is None if the request already allows only such layouts, if no engine is known, or if no engine can start
    a layout that fits the request.
    """
    if not request.any_layout or request.grid == "paper":
        return None
    startable = replace(request, any_layout=False)
    try:
        return answer(startable) if setup(startable).engines else None
    except (InputError, NothingFitsError):
        return None


def speculation(request: Request, hardware: str | None = None) -> Speculation | None:
    """Speculation method of a request, or the same method on another GPU; None without speculation.

    Raises
    ------
    InputError
        If options are invalid or contradict each other.
    """
    if _proposer(request) is None:
        return None
    from inference_econ.answers.settings import speculation_of

    _longest(request)
    return speculation_of(settings(request, hardware, _acceptance(request)), setup(request, hardware))


def proposed(request: Request, hardware: str | None = None) -> Proposer:
    """Speculation method of a request that lets recipes select the method by default.

    Return the named method, None without speculation, or ``RECIPE`` if recipes select the method.

    Raises
    ------
    InputError
        See :func:`speculation`.
    """
    from inference_econ.answers.deployments.serving_options import RECIPE

    named = speculation(request, hardware)
    return named if named is not None or request.no_speculation else RECIPE


def _proposer(request: Request) -> inputs.ProposerName | None:
    """Speculation method that the request names; None if it names none.

    Raises InputError if a request has options of speculation, but names no method.
    """
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
    """Acceptance rates from an option or from a file."""
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
            f"--acceptance {request.acceptance!r}: write one probability for all draft tokens, or one for each, as "
            "0.9,0.8,0.7",
            option="acceptance",
        ) from None
    return rates[0] if len(rates) == 1 else rates


def _longest(request: Request) -> int | None:
    """Maximum draft length, if an option sets it [1].

    Raises
    ------
    InputError
        If two options set it.
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
    """Layouts that the options allow, as services that process the given requests."""
    from inference_econ.answers.layout_services import offer as offered

    layouts = offered(setup(request, hardware), requests, space(request), speculation)
    return layouts if request.slots is None else answers.layout_services.with_slots(layouts, request.slots)


def candidates(
    request: Request, requests: Requests, hardware: str | None = None, *, ttft_seconds: float = math.inf
) -> tuple[Candidate, ...]:
    """Candidate deployments that the options allow, on one GPU.

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
    """Kinds of serving to search: aggregated, disaggregated, or both.

    Raises
    ------
    InputError
        If options exclude each other: ``--aggregated`` with ``--disaggregated`` or an option of disaggregated serving,
        or an option of disaggregated serving with a fixed layout.
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


def candidates_on_chips(request: Request, requests: Requests) -> list[Candidate]:
    """Candidate deployments on the GPU types of the request.

    Raises
    ------
    InputError, NothingFitsError
        If options contradict each other, or if nothing fits on one of the GPU types.
    """
    return [candidate for chip in request.chips for candidate in candidates(request, requests, chip)]


def fewest(request: Request, answer: Callable[[Request], Answer]) -> Answer:
    """Compute a result for the smallest TP degree that fits the model, or for the degrees that the request sets.

    Raises
    ------
    NothingFitsError
        If the model fits no instance of 1, 2, 4, ... GPUs within a link domain. The message is the message for one GPU.
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
    """Catalog name that a text means. If the text is spelled differently, a note is printed.

    Raises
    ------
    BadValueError, InputError
        If the catalog has no entry of this name.
    """
    read = kinds.kind(kind)
    remark = read.remark(text)
    if remark:
        request.tell(remark)
    return str(read.read(text))


def as_option(name: str, value: object) -> str:
    """Option and value, as a user types them."""
    return f"--{name.replace('_', '-')} {value}"


def shared_settings(request: Request) -> dict[str, Any]:
    """Return the options that are set, by field name of ``Settings``; an option with several values is a list.

    Raises
    ------
    InputError
        If options contradict each other, or an option does not apply to the query.
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
    apart = {*WHAT_IFS, *SHOWN, *_PROPOSERS, *_DETAILS, "no_speculation", "any_layout", "price", "y", "n_gpu_layers"}
    apart |= {"aggregated", "disaggregated"}
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
