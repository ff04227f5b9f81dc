"""The command about rollouts of training, and batches."""

from __future__ import annotations

from typing import Any

import click

from inference_econ.errors import InputError

from . import market, options, prices, proposals, show
from .help import Command, example
from .parameters import COUNT, PROBABILITY, Name


@click.command(
    cls=Command,
    epilog=example(
        "inference-econ rollout llama_3_8b h100_sxm --gpus 8 --prompts 512 --samples 8 --osl lognormal:2000:1",
        "inference-econ rollout llama_3_8b h100_sxm --gpus 8 --prompts 512 --samples 8 --finished 0.8",
        "inference-econ rollout llama_3_8b h100_sxm --gpus 16 --prompts 64 --samples 32 --learner",
    ),
)
@options.subject
@click.option("--prompts", type=COUNT, required=True, help="Prompts of a batch.")
@click.option("--samples", type=COUNT, default=1, show_default=True, help="Answers to each, which share its cache.")
@options.option("isl", "lengths", default="2000", show_default=True, help="Prompt tokens, in the forms of --osl.")
@options.option(
    "osl", "lengths", default="500", show_default=True, help="Output tokens: 500, uniform:100:900, lognormal:2000:1.5."
)
@click.option("--max-tokens", type=COUNT, help="Longest answer, where it is cut.")
@options.option("traffic")
@options.option("gpus", required=True, help="GPUs that there are.")
@click.option("--concurrency", type=COUNT, help="Trajectories in flight at most [all at once].")
@click.option(
    "--finished",
    type=PROBABILITY,
    default=1.0,
    show_default=True,
    help="Share of the trajectories that ends a batch; the others are carried on in the next one.",
)
@click.option("--learner", is_flag=True, help="A learner on the same chips: in turns, or on some of them.")
@click.option("--mfu", type=PROBABILITY, help="Share of the 16-bit peak that the learner computes with [0.12].")
@click.option("--on", "further", multiple=True, type=Name("hardware"), help="Further hardware to choose from (repeat).")
@options.options("token_budget", "usable_memory")
@options.rent
@options.layout
@proposals.proposer
@options.picture("Write a picture of trajectories in flight over time: .svg, .png, .pdf or .html.")
@options.yes
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
        asked = {name: choices[name] for name in named}
        made = rollout(offers, choices["gpus"], **asked, learner=learner, progress=progress)
    show.answer(made, output)
