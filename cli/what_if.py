"""The command that says what an answer depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import studies
from inference_econ.inputs.options import WHAT_IFS

from . import counted, options, prices, proposals
from .help import question

if TYPE_CHECKING:
    from inference_econ.inputs import Settings

#: Options that are no settings of the question, or become others.
_APART = (*WHAT_IFS, "any_layout")


@question("what-if")
def what_if(
    speeds: tuple[float, ...],
    inputs: tuple[str, ...],
    span: tuple[float, float],
    progress: options.Progress | None,
    **choices: Any,
) -> ie.WhatIf:
    """What cost and speed depend on: per cent for each per cent of every input, and where another layout takes over.

    Inputs are those of chip, network, host, price, requests and model. At a speed, with the best layout at every value
    beside the layout that answers now; --tp, --dp, .. pin one. MODEL and HARDWARE as in 'frontier'; points are
    services, prefill included, or with --decode-only decode steps alone.
    """
    return studies.what_if.what_if_of(_settings(choices), inputs, tuple(dict.fromkeys(speeds)), span, progress)


def _settings(choices: options.Choices) -> Settings:
    """The question as settings; what is not given is as by default."""
    from inference_econ.inputs import Settings

    counted.decode_steps(choices)
    options.context_or_lengths(choices)
    price = prices.of_chip(prices.of_chips(choices["price"], (choices["hardware"],)), choices["hardware"])
    chosen = {**proposals.settings(choices), "price": price, "engine": options.one_engine(choices)}
    apart = _APART if choices["decode_only"] else (*_APART, "decode_only")
    named = {name: value for name, value in chosen.items() if name not in apart and value is not None}
    return Settings.build({**named, "changes": options.what_ifs(choices)}, origin="command line")
