"""The command that says whether a model fits a chip."""

from __future__ import annotations

from typing import Any

import inference_econ as ie

from . import options
from .help import question


@question("fits")
def fits(concurrency: int, **choices: Any) -> ie.Fits:
    """Whether a model fits a chip: exit code 0 or 1, the GPUs it takes, slots, and the longest request.

    Instances of one machine are tried, or those of --instance-gpus, --max-instance-gpus and degrees; if none is enough,
    it is said how many GPUs of several machines are. MODEL and HARDWARE as in 'frontier'.
    """
    space = options.space(choices)
    return ie.fits(options.setup(choices), options.requests(choices), space, concurrency=concurrency)
