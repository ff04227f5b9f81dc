"""The ``speculate`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown


def speculate(request: Request) -> Shown:
    """TPOT and cost of one deployment with and without speculation, by requests in flight, and where it stops paying.

    MODEL and HARDWARE as in 'frontier'. Every batch is given its best number of proposals, a bound on what engines do;
    with --draft-length every round has that number, and where it does not pay the speed-up is below 1.
    """
    speculation = subject.speculation(request)
    if speculation is None:
        raise InputError("who proposes? give --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = subject.setup(request), workload.requests(request)
    return subject.fewest(request, lambda pinned: ie.speculate(setup, requests, speculation, subject.pins(pinned)))
