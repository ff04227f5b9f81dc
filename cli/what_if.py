"""The command that says what an answer depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inference_econ.inputs.options import WHAT_IFS

from . import counted, options, prices, proposals, show
from .help import command

if TYPE_CHECKING:
    from inference_econ.inputs import Settings

#: Options that are no settings of the question, or become others.
_APART = (*WHAT_IFS, "any_layout")


@command(
    "what-if",
    "subject domain mean_lengths decode_only reused latencies batching search proposer speeds inputs span plot yes",
    "inference-econ what-if llama_3_70b h100_sxm --weights fp8 --plot tornado.svg",
    "inference-econ what-if llama_3_70b h100_sxm --weights fp8 --speed 30 --input hbm_size --range 0.5,2",
    "inference-econ what-if deepseek_v3 h200_sxm --speed 20 --speed 40 --speed 60",
    "inference-econ what-if paper/llama_3_70b paper/h100 --weights int8 --grid paper --context 0",
)
@options.output
def what_if(
    speeds: tuple[float, ...],
    inputs: tuple[str, ...],
    span: tuple[float, float],
    output: options.Output,
    **choices: Any,
) -> None:
    """What cost and speed depend on: per cent for each per cent of every input, and where another layout takes over.

    Inputs are those of chip, network, host, price, requests and model. At a speed, with the best layout at every value
    beside the layout that answers now; --tp, --dp, .. pin one. MODEL and HARDWARE as in 'frontier'; points are
    services, prefill included, or with --decode-only decode steps alone.
    """
    from inference_econ.studies.what_if import what_if_of

    with show.progress_bar(quiet=output.quiet) as progress:
        answer = what_if_of(_settings(choices), inputs, tuple(dict.fromkeys(speeds)), span, progress)
    show.answer(answer, output)


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
