"""Headings of tables and charts: quantity, model, GPUs, formats, requests and prices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup, Speculation
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import HardwareSpec, ModelSpec, Requests
from inference_econ.inputs.prices import HourPrice
from inference_econ.records.texts import chips_label, formats_label

if TYPE_CHECKING:
    from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
    from inference_econ.answers.explain import Explanation
    from inference_econ.search import Frontier

#: Mark of a GPU without a profile: its numbers assume the best known kernels and no CPU overhead.
BOUND = "uncalibrated"
#: Quantity on frontiers of services.
SERVICES = "Services"
#: Quantity on frontiers of decode steps.
DECODE_STEPS = "Decode steps without prefill"
#: Maximum number of unknown parts in a heading [1].
_NAMED = 2
#: SLOs of at least this time are written in seconds [ms].
_SECONDS = 1e4


def heading(
    counted: str,
    setups: Iterable[Setup],
    lengths: Iterable[str],
    *,
    rate: float | None = None,
    promises: Iterable[Targets] = (),
    speculations: Iterable[Speculation | None] = (),
) -> str:
    """Compose the heading of a table or picture in one line.

    Parameters
    ----------
    counted : str
        Quantity that the numbers describe.
    setups : iterable of Setup
        Setups with models, GPUs, formats and prices; several if the result compares setups.
    lengths : iterable of str
        Lengths of requests (:func:`lengths_label`), or the context of steps. If lengths differ, the heading refers to
        the rows.
    rate : float, optional
        Requests per second in total [1/s].
    promises : iterable of Targets
        Latency targets.
    speculations : iterable of Speculation or None
        Speculation methods; None without speculative decoding.

    Returns
    -------
    str
        ``Services: Llama 3.1 8B on H100 SXM5 80GB at $2.95/GPU-h (on-demand, 2026-09-20); ...``

    Notes
    -----
    Formats of embeddings and activations, and prices per node, are in :func:`.notes.grounds`.
    """
    shown = list(setups)
    labels = {"" if proposer is None else speculation_label(proposer) for proposer in speculations}
    caches = dict.fromkeys(setup.precision.kv for setup in shown)
    weights = dict.fromkeys(formats_label(replace(p, embeddings=p.weights)) for p in (each.precision for each in shown))
    # KV-cache formats may differ by recipe.
    formats = f"{next(iter(weights))}, KV {' or '.join(caches)}"
    formats = re.sub(r"^weights (\w+), KV \1$", r"\1", formats)
    parts = (
        f"{counted}: {enumerated(_named(setup.model) for setup in shown)} on {_priced(shown)}",
        formats if len(weights) == 1 else "formats as in each row",
        _common(lengths, "lengths"),
        "" if rate is None else f"{rate:.4g} requests/s",
        _common(map(targets_label, promises), "SLOs"),
        # A heading has only properties that all rows share. Different recipes are in a table column.
        *(labels if len(labels) == 1 else ()),
    )
    return "; ".join(part for part in parts if part)


def frontiers_title(fronts: Sequence[ServiceFrontier | Frontier], *, speculates: bool = True) -> str:
    """Heading of one or several frontiers. If some are frontiers of services, the heading describes only these.

    ``speculates`` is False if the heading also describes servers without the speculation methods of the frontiers.
    """
    from inference_econ.answers.deployments.serving_frontier import ServiceFrontier  # most headings need no frontier

    services = [front for front in fronts if isinstance(front, ServiceFrontier)]
    if services:
        return heading(
            SERVICES,
            [setup for front in services for setup in front.setups],
            [lengths_label(front.requests) for front in services],
            promises=[front.promises for front in services],
            speculations=[front.candidates[number].speculation for front in services for number in front.shown]
            if speculates
            else (),
        )
    setups = [front.setup for front in fronts]
    proposers = [front.speculation for front in fronts]
    return heading(DECODE_STEPS, setups, list(map(context_label, setups)), speculations=proposers)


def step_heading(explanation: Explanation) -> str:
    """Heading of one decode or prefill step."""
    setup, prompt = explanation.setup, explanation.prompt
    spread = f" on average, output {setup.spread:g}" if setup.spread else ""
    length = context_label(setup, spread)
    if prompt is not None:
        length = f"{prompt:g} prompt tokens after {length} cached"
    phase = "decode" if prompt is None else "prefill"
    return heading(f"One {phase} step on {chips_label(explanation.accelerators)}", [setup], [length])


def context_label(setup: Setup, spread: str = "") -> str:
    """Context (cached tokens) per sequence.

    If contexts differ, the share of sequences with each context is included.
    """
    shared = f" ({setup.shared_prefix:g} in common)" if setup.shared_prefix else ""
    if not setup.contexts:
        return f"context {setup.context:g}{spread}{shared}"
    parts = [f"{100 * part:.3g} %" if part < 1.0 else f"{part:g}" for _, part in setup.contexts]
    mix = ", ".join(f"{part} of {length:g}" for part, (length, _) in zip(parts, setup.contexts, strict=True))
    return f"contexts {mix}{shared}"


def lengths_label(requests: Requests) -> str:
    """Lengths of requests, with cached tokens and the length of the shared prefix."""
    if requests.table is not None:
        cached = f" ({requests.cached:.0f} cached)" if requests.cached else ""
        return f"{requests.traffic}: mean ISL {requests.isl.mean:.0f}{cached}, mean OSL {requests.osl.mean:.0f}"
    reused = {"cached": requests.cached, "shared": requests.shared_prefix}
    listed = ", ".join(f"{tokens:g} {kind}" for kind, tokens in reused.items() if tokens)
    return f"ISL {requests.isl.text}{f' ({listed})' if listed else ''}, OSL {requests.osl.text}"


def speculation_label(speculation: Speculation) -> str:
    """Speculation method with its acceptance rate."""
    who = "draft model" if speculation.proposer == "draft" else speculation.proposer.upper()
    if speculation.model is not None:
        who += f" {speculation.model.name}"
    if speculation.weights is not None:
        who += f" ({speculation.weights})"
    if speculation.shortest == speculation.longest:
        gained = float(expected_tokens_by_position(speculation.acceptance))
        return f"{who} {speculation.longest} ({gained:.3g} tokens/step)"
    if len(set(speculation.acceptance)) == 1:
        return f"{who} up to {speculation.longest} (acceptance {speculation.acceptance[0]:.3g})"
    return f"{who}, acceptance by position {', '.join(f'{rate:.3g}' for rate in speculation.acceptance)}"


def targets_label(targets: Targets) -> str:
    """SLOs with their percentile and confidence, and ``default`` for the default SLO; empty without SLOs."""
    if not targets.given:
        return ""
    common, sign = targets.common, " " if targets.is_default else " <= "
    kept = [
        f"{'' if common else f'{targets.percentile_of(name)} '}{name.upper()}{sign}"
        + (f"{ms / 1e3:.6g} s" if ms >= _SECONDS else f"{round(ms, 2) or ms:.6g} ms")
        for name, ms in ((name, 1e3 * value) for name, value in targets.given.items())
    ]
    surely = "" if targets.confidence is None else f" (confidence {100 * targets.confidence:g}%)"
    words = ("default" if targets.is_default else "", common or "", ", ".join(kept))
    return " ".join(filter(None, words)) + surely


def _priced(setups: Iterable[Setup]) -> str:
    """Names of GPUs with their prices. A mark shows that no profile was fitted to servers with the GPU.

    Prices of one kind are grouped, with the name of the kind and their dates.
    """
    chips = dict.fromkeys(
        (_named(each.hardware) + f" ({BOUND})" * each.is_bound, each.hour_price if each.is_priced else None)
        for each in setups
    )
    prices = [price for _, price in chips if price is not None]
    if len(chips) == 1 or len({price.label for price in prices}) != 1:
        return enumerated(
            name if price is None else f"{name} at ${price.dollars:.4g}/GPU-h ({price.terms})" for name, price in chips
        )
    shown = (name if price is None else f"{name} at ${price.dollars:.4g}" for name, price in chips)
    days = sorted({str(price.date) for price in prices if price.date is not None})
    since = ", since " if len(days) > 1 else ", "
    return f"{enumerated(shown)}/GPU-h ({since.join([prices[0].label, *days[:1]])})"


def price_label(chip: HardwareSpec, price: HourPrice) -> str:
    """Price per GPU and per node, with its kind and date."""
    node = chip.rented_as[-1:]
    whole = f" (${price.dollars * node[0]:.4g} per node of {node[0]})" if node and node[0] > 1 else ""
    return f"${price.dollars:.4g} per GPU-hour{whole}, {price.terms}"


def basis_label(setup: Setup) -> str:
    """Sentences on a setup: GPU, number formats, price per GPU, and price per node."""
    price = f" Price: {price_label(setup.hardware, setup.hour_price)}." if setup.is_priced else ""
    return f"{setup.hardware.name}: {formats_title(setup)}.{price}"


def price_cell(setup: Setup) -> str:
    """Price per GPU-hour as a table cell, marked unless the price is a recent on-demand offer; empty if unknown."""
    return f"{setup.hour_price.dollars:.2f} {setup.hour_price.mark}".strip() if setup.is_priced else ""


def _named(spec: HardwareSpec | ModelSpec) -> str:
    """Name of a GPU or a model with the keys that ``--set`` changed."""
    typed = [where for where in (source.where for source in spec.sources.values()) if where.startswith("--set ")]
    changes = dict.fromkeys(where.partition(".")[2] for where in typed)
    name = spec.name.removeprefix("NVIDIA ") if isinstance(spec, HardwareSpec) else f"{spec.name}{unknown_label(spec)}"
    return f"{name} with {', '.join(changes)}" if changes else name


def unknown_label(model: ModelSpec) -> str:
    """Text that names the unknown blocks of a model with their share of the parameters, or else the unknown keys."""
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
    precision = setup.precision
    return f"{formats_label(precision)}, activations {precision.activations}, KV {precision.kv}"


def _common(texts: Iterable[str], what: str) -> str:
    """Text that all deployments have in common; if texts differ, a reference to the rows."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"{what} as in each row" if distinct else ""


def enumerated(names: Iterable[str], last: str = "and") -> str:
    """Enumerate names without duplicates.

    Examples
    --------
    >>> enumerated(["a", "b", "c", "b"], "or")
    'a, b or c'
    """
    distinct = list(dict.fromkeys(names))
    return ", ".join([*distinct[:-2], f" {last} ".join(distinct[-2:])])
