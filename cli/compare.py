"""The command that puts several frontiers side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import inputs, report, studies
from inference_econ.errors import InputError, of_option
from inference_econ.inputs.options import WHAT_IFS

from . import counted, market, options, prices, proposals, provenance
from .help import question

if TYPE_CHECKING:
    from inference_econ.search import Metric


#: Lengths that may be compared.
_LENGTHS = ("context", "isl", "osl")


@question("compare")
def compare(
    price: prices.Prices,
    listed: tuple[str, ...],
    speeds: tuple[float, ...],
    costs: tuple[float, ...],
    y: Metric,
    progress: options.Progress | None,
    **choices: Any,
) -> options.Page:
    """Frontiers side by side: every combination of models, hardware, formats and presets, and further series.

    Points are services, whose bill includes the prefill of their requests; with --decode-only, decode steps alone.
    MODEL is a name (see 'inference-econ models') or a path; what is given several times is compared. Columns are costs
    at some speeds, and speeds at some costs; --y is what the picture holds against speed.
    """
    common, rates = settings(choices), prices_of(price, choices["hardware"])
    result = ie.compare(price=rates, series=_series(listed), progress=progress, **common)
    page = report.compare.ComparisonPage(result, sorted(set(speeds)), sorted(set(costs)), y)
    if len(page.undrawn()) == len(result.curves):
        result.curves[0].front.metric(y)  # is refused here, with or without a picture
    return page


def scenario_text(choices: options.Choices) -> str:
    """The scenario that asks the same as the options of the command, as a file."""
    apart = ("price", "listed", "speeds", "costs", "y", *provenance.SHOWN)
    common = settings({name: value for name, value in choices.items() if name not in apart})
    models, hardware = common.pop("models"), common.pop("hardware")
    rates = prices_of(choices["price"], choices["hardware"])
    return inputs.spec_text(studies.compare.asked_scenario(models, hardware, rates, _series(choices["listed"]), common))


def settings(choices: options.Choices) -> dict[str, Any]:
    """Return what is compared, and the settings that all series share, as far as they are given; what-ifs checked."""
    choices = {**choices, **{name: choices[name] or None for name in _LENGTHS}}
    options.context_or_lengths(choices)
    counted.decode_steps(choices)
    apart = (*WHAT_IFS, "any_layout", "together", "apart", *(() if choices["decode_only"] else ("decode_only",)))
    others = {
        name: value for name, value in proposals.settings(choices).items() if name not in apart and value is not None
    }
    others["engine"] = (*choices["engine"], *([inputs.ANY_LAYOUT] if choices["any_layout"] else []))
    arranged = {} if market.arrangement(choices) == "both" else {"arrangement": market.arrangement(choices)}
    return {**others, **arranged, "changes": inputs.checked_changes(options.what_ifs(choices))}


def prices_of(price: prices.Prices, chips: Sequence[str]) -> prices.Prices:
    """The price of all chips, or of each one that has a price of its own.

    Raises
    ------
    InputError
        If a chip is named that is not compared.
    """
    return prices.of_chips(price, chips) if isinstance(price, Mapping) else price


def _series(texts: tuple[str, ...]) -> dict[str, inputs.Settings]:
    """``LABEL: KEY=VALUE, KEY=VALUE`` each; a comma inside brackets belongs to a value."""
    series: dict[str, inputs.Settings] = {}
    for text in texts:
        label, colon, rest = (part.strip() for part in text.partition(":"))
        if label in series:
            raise InputError(f"--series {text!r}: the label {label!r} is taken", option="series")
        pairs: dict[str, str] = {}
        for part in re.split(r",(?![^\[{]*[\]}])", rest):
            key, sign, value = (piece.strip() for piece in part.partition("="))
            if not (label and colon and key and sign and value) or key in pairs:
                raise InputError(
                    f"--series {text!r}: write 'LABEL: KEY=VALUE, KEY=VALUE', each key once", option="series"
                )
            pairs[key] = value
        with of_option("series"):
            series[label] = inputs.Settings.from_text(pairs, origin=f"--series {label!r}")
    return series
