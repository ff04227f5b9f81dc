"""The command that says which deployment to take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import inference_econ as ie
from inference_econ.errors import InputError

from . import agents, market, options, prices
from .help import question


@question("recommend")
def recommend(
    further: tuple[str, ...], most: int, output: options.Output, progress: options.Progress | None, **choices: Any
) -> options.Shown:
    """The cheapest deployments that keep TTFT, TPOT and E2E at a request rate: GPUs, layout, instances, cost.

    With --on, of several kinds of hardware. What no deployment can keep is answered with the best that can be reached.

    With --decode-on prefill and decode pools are on two kinds of hardware. Beside them instances that do both compete,
    unless --apart is given.

    With --gpus, --budget or --power-budget the other way round: the most traffic that so many chips, so much money per
    hour, or so much power of the facility carry within the SLOs, aggregated and disaggregated; of a --traffic with
    sessions the most agents.
    """
    options.check_sizes(choices)
    work, chips = agents.work(choices), tuple(dict.fromkeys((choices["hardware"], *further)))
    every = tuple(dict.fromkeys((*chips, *filter(None, [choices["decode_on"]]))))
    choices["price"], means = prices.of_chips(choices["price"], every), options.given_means(choices)
    if work is not None:
        ask = work.recommend if means is None else work.most_agents
        return agents.answer(ask, choices, work, *chips, most=most, progress=progress)
    requests, targets, scv = options.requests(choices), options.targets(choices), choices["arrival_scv"]
    if means is not None:
        if output.picture is not None:
            raise InputError(
                "--plot draws deployments at a request rate; what --gpus, --budget or --power-budget carries has none",
                option="gpus",
            )
        return ie.most_traffic(market.of_chips(choices, requests, chips), means, targets, arrival_scv=scv, most=most)
    rate = options.request_rate(choices, requests)

    def answer(chosen: options.Choices) -> ie.Recommendation:
        offers = market.of_chips(chosen, requests, chips)
        return ie.recommend(offers, rate, targets, arrival_scv=scv, most=most, progress=progress)

    deployments, started = answer(choices), options.among_startable(choices, answer)
    return replace(deployments, startable=started[0] if started else None)
