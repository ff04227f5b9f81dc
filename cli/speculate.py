"""The ``speculate`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown


def speculate(request: Request) -> Shown:
    """Compare TPOT and cost of one deployment with and without speculation.

    The table lists numbers of concurrent requests, and the command reports where speculation stops paying off. By
    default, each batch uses its best draft length, so the speedup is an upper bound for engines. With --draft-length,
    every speculation round has the same length, and the speedup may be below 1. MODEL and HARDWARE are names or paths
    of YAML files.
    """
    speculation = subject.speculation(request)
    if speculation is None:
        raise InputError("give a speculation method: --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = subject.setup(request), workload.requests(request)
    return subject.fewest(request, lambda pinned: ie.speculate(setup, requests, speculation, subject.pins(pinned)))
