"""The command that says whether a model fits a chip."""

from __future__ import annotations

from typing import Any

from . import options, show
from .help import command


@command(
    "fits",
    "subject lengths concurrency token_budget usable_memory layout",
    "inference-econ fits llama_3_70b h100_sxm",
    "inference-econ fits qwen3_32b l40s --instance-gpus 2",
)
@options.output
def fits(concurrency: int, output: options.Output, **choices: Any) -> None:
    """Whether a model fits a chip: exit code 0 or 1, the GPUs it takes, slots, and the longest request.

    Instances of one machine are tried, or those of --instance-gpus and degrees. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.fits import fits

    with show.progress_bar(quiet=output.quiet):
        fit = fits(options.setup(choices), options.requests(choices), options.space(choices), concurrency=concurrency)
    show.answer(fit, output)
