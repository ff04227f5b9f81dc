"""Headings: what is counted, of which model on which chips, in which formats, for which requests, at which price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inference_econ.answers.explain import Explanation
from inference_econ.answers.promises import Targets
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, Speculation
from inference_econ.inputs import HardwareSpec, ModelSpec, Requests, prices
from inference_econ.records.texts import formats_label
from inference_econ.search import Frontier

#: Of chips without a profile: kernels as good as the best elsewhere, and no host that is in their way.
BOUND = "a bound: fitted to no server with it"
#: What the two kinds of frontiers count.
SERVICES = "Services, prefill included"
DECODE_STEPS = "Decode steps alone, no prefill"
#: Names of unknown parts that are told [1].
_NAMED = 2


def heading(
    counted: str,
    setups: Iterable[Setup],
    lengths: Iterable[str],
    *,
    rate: float | None = None,
    promises: Iterable[Targets] = (),
    speculations: Iterable[Speculation | None] = (),
) -> str:
    """The heading of a table or picture, in one line.

    Parameters
    ----------
    counted : str
        What the numbers count.
    setups : iterable of Setup
        What, on what, how, at what price; several where they are compared.
    lengths : iterable of str
        Lengths of requests (:func:`lengths_label`), or the context of steps; what differs is said of each series.
    rate : float, optional
        Requests per second in all [1/s].
    promises : iterable of Targets
        What is promised.
    speculations : iterable of Speculation or None
        Who proposes tokens.

    Returns
    -------
    str
        ``Services, prefill included: Llama 3.1 8B on NVIDIA H100 at $2.95 per GPU-hour ...; weights bf16, ...``
    """
    shown = list(setups)
    labels = {"" if proposer is None else proposer.label for proposer in speculations}
    parts = (
        f"{counted}: {_listed(_named(setup.model) for setup in shown)} on {_listed(map(_priced, shown))}",
        _price_class(shown),
        _formats(shown),
        _common(lengths, "lengths"),
        "" if rate is None else f"{rate:.4g} requests/s",
        _common(map(promises_label, promises), "promises"),
        # Where they differ rows have recipes, if there is room for these; a heading says what all rows share.
        *(labels if len(labels) == 1 else ()),
    )
    return "; ".join(part for part in parts if part)


def frontiers_title(fronts: Sequence[ServiceFrontier | Frontier]) -> str:
    """Heading of a frontier, or of several: what is counted, model and chips, requests or context, in one line.

    If one is of services, of those alone.
    """
    services = [front for front in fronts if isinstance(front, ServiceFrontier)]
    if services:
        return heading(
            SERVICES,
            [setup for front in services for setup in front.setups],
            [lengths_label(front.requests) for front in services],
            promises=[front.promises for front in services],
            speculations=[front.candidates[number].speculation for front in services for number in front.shown],
        )
    setups = [front.setup for front in fronts]
    proposers = [front.speculation for front in fronts]
    return heading(DECODE_STEPS, setups, list(map(context_label, setups)), speculations=proposers)


def step_heading(explanation: Explanation) -> str:
    """Heading of a step: what is counted, model and chip, context, in one line."""
    phase = "decode" if explanation.prompt is None else "prefill"
    counted = f"One {phase} step on {explanation.accelerators:g} GPU{'s' if explanation.accelerators > 1 else ''}"
    return heading(counted, [explanation.setup], [_length(explanation)])


def _length(explanation: Explanation) -> str:
    """Words for the tokens that are cached before the step, and for those that a prompt adds."""
    spread = explanation.setup.spread
    context = context_label(explanation.setup, f" on average, of answers of {spread:g}" if spread else "")
    return context if explanation.prompt is None else f"{explanation.prompt:g} prompt tokens after {context} cached"


def context_label(setup: Setup, spread: str = "") -> str:
    """Words for the tokens that sequences have in the cache, all of them or by their share, and for their spread."""
    shared = f" ({setup.shared_prefix:g} in common)" if setup.shared_prefix else ""
    if not setup.contexts:
        return f"context {setup.context:g}{spread}{shared}"
    parts = [f"{100 * part:.3g} %" if part < 1.0 else f"{part:g}" for _, part in setup.contexts]
    mix = ", ".join(f"{part} of {length:g}" for part, (length, _) in zip(parts, setup.contexts, strict=True))
    return f"contexts {mix}{shared}"


def lengths_label(requests: Requests) -> str:
    """Lengths of requests, and what of a prompt is in the cache or in common with all others."""
    if requests.table is not None:
        cached = f", {requests.cached:.0f} of it cached" if requests.cached else ""
        means = f"{requests.isl.mean:.0f} input tokens{cached}, {requests.osl.mean:.0f} output tokens"
        return f"{requests.traffic} (mean {means})"
    cached = f", {requests.cached:g} of it cached" if requests.cached else ""
    shared = f", {requests.shared_prefix:g} in common" if requests.shared_prefix else ""
    return f"{requests.isl.text} input tokens{cached}{shared}, {requests.osl.text} output tokens"


def subject_label(setup: Setup) -> str:
    """A model on a chip."""
    return f"{setup.model.name} on {setup.hardware.name}"


def promises_label(promises: Targets) -> str:
    """Words for promises, and for the requests that see them; empty without promises."""
    if not promises.given:
        return ""
    common = promises.common
    milliseconds = {name: 1e3 * value for name, value in promises.given.items()}
    kept = [
        f"{'' if common else f'{promises.percentile_of(name)} '}{name.upper()} <= {round(value, 2) or value:.6g} ms"
        for name, value in milliseconds.items()
    ]
    surely = "" if promises.confidence is None else f" with a probability of {100 * promises.confidence:g} %"
    return f"{f'{common} ' if common else ''}{' and '.join(kept)}{surely}"


def _priced(setup: Setup) -> str:
    """A chip with its price, where it is known; and that nothing was fitted to servers with it."""
    chip = _named(setup.hardware)
    if setup.is_bound:
        chip = f"{chip} ({BOUND})"
    return chip if setup.price is None else f"{chip} at {setup.price_label}"


def _price_class(setups: Iterable[Setup]) -> str:
    """Kind, seller and source that the prices of several chips share, where they do; empty of a single chip.

    A chip whose price is another where it stands alone is named with that.
    """
    chips = {setup.hardware.name: setup for setup in setups if setup.price is not None}
    priced = {name: setup.hour_price for name, setup in chips.items()}
    classes = {(price.label, price.seller) for price in priced.values() if price.seller}
    if len(priced) < 2 or len(classes) != 1 or not all(price.seller for price in priced.values()):
        return ""
    ((label, seller),) = classes
    sources = {price.ref for price in priced.values()}
    alike = f"prices alike: {label}" + ("" if label.startswith("TCO") else f", {seller}")
    alike += f", of one source ({sources.pop()})" if len(sources) == 1 else ""
    alone = ((name, prices.best(setup.hardware)) for name, setup in chips.items())
    others = [f"{name} ${best.dollars:g}" for name, best in alone if best and best.dollars != priced[name].dollars]
    return alike + (f" (alone: {', '.join(others)})" if others else "")


def _named(spec: HardwareSpec | ModelSpec) -> str:
    """A chip or a model, with what a what-if has changed; a file with changes of its own has a name of its own."""
    typed = [where for where in (source.where for source in spec.sources.values()) if where.startswith("--set ")]
    changes = dict.fromkeys(where.partition(".")[2] for where in typed)
    name = spec.name if isinstance(spec, HardwareSpec) else f"{spec.name}{unknown_label(spec)}"
    return f"{name} with {', '.join(changes)}" if changes else name


def unknown_label(model: ModelSpec) -> str:
    """Words for unknown blocks of a model and their share, or for unknown keys alone."""
    blocks = [part.name for part in sorted(model.unknown, key=lambda part: -part.parameters) if part.parameters]
    names = blocks or [part.name for part in model.unknown]
    if not names:
        return ""
    share = (
        f", {100 * model.parameter_parts()['unknown'] / model.total_parameters:.2g} % of parameters" if blocks else ""
    )
    kind = "unknown block" if blocks else "unknown"
    return f" ({kind}: {', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''}{share})"


def formats_title(setup: Setup) -> str:
    """Number formats of weights, activations and cache."""
    return f"{_weights_title(setup)}, KV {setup.precision.kv}"


def _formats(setups: Sequence[Setup]) -> str:
    """Words for the formats that all setups have in common; caches may differ by recipe."""
    caches = dict.fromkeys(setup.precision.kv for setup in setups)
    weights = dict.fromkeys(_weights_title(setup) for setup in setups)
    if len(weights) > 1:
        return _common((formats_title(setup) for setup in setups), "formats")
    return f"{next(iter(weights))}, KV {' or '.join(caches)}"


def _weights_title(setup: Setup) -> str:
    return f"{formats_label(setup.precision)}, activations {setup.precision.activations}"


def _common(texts: Iterable[str], what: str) -> str:
    """Text that all have in common, or that it differs."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"{what} as in each row" if distinct else ""


def _listed(names: Iterable[str]) -> str:
    """Names, each once."""
    distinct = list(dict.fromkeys(names))
    return ", ".join([*distinct[:-2], " and ".join(distinct[-2:])])
