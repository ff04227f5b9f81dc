"""The command that says where speculation pays on a deployment."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError

from . import options, proposals, show
from .help import command


@command(
    "speculate",
    "subject domain proposer degrees lengths plot yes",
    "inference-econ speculate llama_3_70b h100_sxm --tp 8 --eagle",
)
@options.output
def speculate(output: options.Output, **choices: Any) -> None:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals, a bound on what engines do;
    with --draft-length every round has that number, and where it does not pay the speed-up is below 1.
    """
    speculation = proposals.speculation(choices)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    from inference_econ.answers.speculate import speculate

    with show.progress_bar(quiet=output.quiet):
        setup, requests = options.setup(choices), options.requests(choices)
        speculated = options.fewest(
            choices, lambda pinned: speculate(setup, requests, speculation, options.pins(pinned))
        )
    show.answer(speculated, output)
