"""The command that compares ways to read one prompt on several chips."""

from __future__ import annotations

from typing import Any

import inference_econ as ie

from . import options, prices
from .help import question


@question("prefill")
def prefill(
    prompt: tuple[int, ...],
    ranks: tuple[int, ...],
    chain: tuple[tuple[tuple[str, int], ...], ...],
    progress: options.Progress | None,
    **choices: Any,
) -> ie.PrefillWays:
    """Time to the first token of one prompt on several GPUs: tensor, sequence and context parallel, or a chain.

    And the dollars of the GPUs until then. Nothing else runs. 'context' and 'chain' cut the prompt: each process holds
    the whole model. In a chain each process hands the cache of all tokens so far to the next (KV-Runahead). MODEL and
    HARDWARE as in 'frontier'.
    """
    if chain and not options.is_given("ranks"):
        ranks = ()
    names = dict.fromkeys((choices["hardware"], *(name for stages in chain for name, _ in stages)))
    choices["price"] = prices.of_chips(choices["price"], tuple(names))
    setups = {name: options.setup(choices, name) for name in names}
    chains = [[(setups[name], chips) for name, chips in stages] for stages in chain]
    settings = {**{name: choices[name] for name in ("tp", "batch")}, "cached": choices["cached"] or 0}
    return ie.prefill(setups[choices["hardware"]], prompt, ranks, chains=chains, progress=progress, **settings)
