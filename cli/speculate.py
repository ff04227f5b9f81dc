"""The command about speculation: where it pays on a deployment."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ.errors import InputError

from . import options, proposals
from .help import question


@question("speculate")
def speculate(**choices: Any) -> options.Shown:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals, a bound on what engines do;
    with --draft-length every round has that number, and where it does not pay the speed-up is below 1.
    """
    speculation = proposals.speculation(choices)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = options.setup(choices), options.requests(choices)
    return options.fewest(choices, lambda pinned: ie.speculate(setup, requests, speculation, options.pins(pinned)))
