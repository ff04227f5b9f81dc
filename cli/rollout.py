"""The command about rollouts of training, and batches."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError

from . import market, options, prices, show
from .help import command


@command(
    "rollout",
    "subject prompts samples isl osl max_tokens traffic gpus concurrency finished learner mfu further "
    "token_budget usable_memory rent layout proposer plot yes",
    "inference-econ rollout llama_3_8b h100_sxm --gpus 8 --prompts 512 --samples 8 --osl lognormal:2000:1",
    "inference-econ rollout llama_3_8b h100_sxm --gpus 8 --prompts 512 --samples 8 --finished 0.8",
    "inference-econ rollout llama_3_8b h100_sxm --gpus 16 --prompts 64 --samples 32 --learner",
)
@options.output
def rollout(further: tuple[str, ...], output: options.Output, **choices: Any) -> None:
    """RL rollouts and batches: dollars and hours per 1,000 trajectories, and the tail of the longest.

    N prompts x G samples begin at once and are played request by request: fewer and fewer are left, and the longest run
    by themselves. With --learner training beside it, in turns or split. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.rollout import rollout
    from inference_econ.inputs import catalog

    if choices["mfu"] is not None and not choices["learner"]:
        raise InputError("--mfu is that of a --learner; give both, or neither", option="mfu")
    learner = catalog.learning() if choices["learner"] else None
    if learner is not None and choices["mfu"] is not None:
        learner = learner.replace(mfu=choices["mfu"])
    requests = options.requests(choices, isl=choices["isl"], osl=choices["osl"])
    # What a traffic says of arrivals and of its cache is not that of a batch.
    requests = type(requests)(requests.isl, requests.osl)
    chips = tuple(dict.fromkeys((choices["hardware"], *further)))
    choices["price"] = prices.of_chips(choices["price"], chips)
    named = ("prompts", "samples", "concurrency", "finished", "max_tokens")
    with show.progress_bar(quiet=output.quiet) as progress:
        offers = market.of_chips({**choices, "together": True}, requests, chips)
        settings = {name: choices[name] for name in named}
        made = rollout(offers, choices["gpus"], **settings, learner=learner, progress=progress)
    show.answer(made, output)
