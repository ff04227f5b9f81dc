"""The command about rollouts of training, and batches."""

from __future__ import annotations

from typing import Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.inputs import catalog

from . import market, options, prices
from .help import question


@question("rollout")
def rollout(further: tuple[str, ...], progress: options.Progress | None, **choices: Any) -> ie.Rollout:
    """RL rollouts and batches: dollars and hours per 1,000 trajectories, and the tail of the longest.

    N prompts x G samples begin at once and are played request by request: fewer and fewer are left, and the longest run
    by themselves. With --learner training beside it, in turns or split. MODEL and HARDWARE as in 'frontier'.
    """
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
    offers = market.of_chips({**choices, "together": True}, requests, chips)
    settings = {name: choices[name] for name in ("prompts", "samples", "concurrency", "finished", "max_tokens")}
    return ie.rollout(offers, choices["gpus"], **settings, learner=learner, progress=progress)
