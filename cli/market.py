"""Options that say who competes to serve, and the candidates that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError

from . import options, proposals
from .refusals import refuse

if TYPE_CHECKING:
    from inference_econ.answers.candidates import Candidate
    from inference_econ.answers.market import Arrangement, Pooling

#: Options that say how every instance is laid out or filled, which pools are not.
_OF_ONE_LAYOUT = ("tp", "pp", "dp", "ep", "dcp", "instance_gpus", "slots")

#: Options that pools alone have.
OF_POOLS = ("decode_on", "transfer", "prefill_chain")


def candidates(
    choices: options.Choices, requests: ie.Requests, hardware: str | None = None, **further: Any
) -> tuple[Candidate, ...]:
    """Every way to serve that the options leave open, on one chip.

    Raises
    ------
    InputError
        If the options contradict each other.
    """
    return ie.market(
        options.setup(choices, hardware),
        requests,
        options.space(choices),
        speculation=proposals.proposed(choices, hardware),
        arrangement=arrangement(choices),
        pooling=_pooling(choices),
        slots=choices.get("slots"),
        **further,
    )


def _pooling(choices: options.Choices) -> Pooling | None:
    """What is asked of prefill and decode pools; None of commands that have no options for them."""
    if "decode_on" not in choices:
        return None
    from inference_econ.answers.market import Pooling

    decode = None if choices["decode_on"] is None else options.setup(choices, choices["decode_on"])
    return Pooling(decode, choices["transfer"] == "layers", choices["prefill_chain"] or ())


def arrangement(choices: options.Choices) -> Arrangement:
    """Arrangement of those who compete: instances that do both, pools that do one of both, or either.

    Raises
    ------
    InputError
        If only the one and only the other is asked for, or something of pools and no pools, or pools of instances
        whose layout is pinned.
    """
    together, apart = bool(choices.get("together")), bool(choices.get("apart"))
    if together and apart:
        raise InputError(
            "give either --together or --apart; without them the better of the two answers", option="together"
        )
    pinned = next((name for name in _OF_ONE_LAYOUT if choices.get(name) is not None), None)
    asked = next((name for name in OF_POOLS if options.is_given(name)), "apart" if apart else None)
    if asked is not None and (together or pinned is not None):
        option = "--together" if together else options.as_option(str(pinned), choices[str(pinned)])
        text = f"{{}} contradicts {option}, which is said of instances that read prompts and decode; leave one out"
        refuse([asked], text)
    return "together" if together else "apart" if apart else "both"


def of_chips(choices: options.Choices, requests: ie.Requests, chips: Sequence[str]) -> list[Candidate]:
    """Candidates on several kinds of chips.

    Raises
    ------
    InputError, NothingFitsError
        If options contradict each other, or nothing fits one of the chips.
    """
    return [candidate for chip in chips for candidate in candidates(choices, requests, chip)]
