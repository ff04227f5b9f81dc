"""The command that compares ways to read one prompt on several chips."""

from __future__ import annotations

from typing import Any

from . import options, prices, show
from .help import command


@command(
    "prefill",
    "subject domain prompt ranks chain tp batch cached plot yes",
    "inference-econ prefill llama_3_8b l40s --prompt 2000,16000,128000 --ranks 4,8",
)
@options.output
def prefill(
    prompt: tuple[int, ...],
    ranks: tuple[int, ...],
    chain: tuple[tuple[tuple[str, int], ...], ...],
    tp: int | None,
    batch: int,
    output: options.Output,
    **choices: Any,
) -> None:
    """Time to the first token of one prompt on several GPUs: tensor, sequence and context parallel, or a chain.

    And the dollars of the GPUs until then. Nothing else runs. 'context' and 'chain' cut the prompt: each process holds
    the whole model. In a chain each process hands the cache of all tokens so far to the next (KV-Runahead). MODEL and
    HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.prefill import prefill

    if chain and not options.is_given("ranks"):
        ranks = ()
    names = dict.fromkeys((choices["hardware"], *(name for stages in chain for name, _ in stages)))
    choices["price"] = prices.of_chips(choices["price"], tuple(names))
    with show.progress_bar(quiet=output.quiet) as progress:
        setups = {name: options.setup(choices, name) for name in names}
        ways = prefill(
            setups[choices["hardware"]],
            prompt,
            ranks,
            chains=[[(setups[name], chips) for name, chips in stages] for stages in chain],
            tp=tp,
            batch=batch,
            cached=choices["cached"] or 0,
            progress=progress,
        )
    show.answer(ways, output)
