"""The command that says which deployment to take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError

from . import agents, market, options, prices, show
from .help import command

if TYPE_CHECKING:
    from inference_econ.answers.recommend import Recommendation


@command(
    "recommend",
    "subject service trace sessions means carbon rent batching layout proposer competing further most plot yes",
    "inference-econ recommend llama_3_70b h100_sxm --request-rate 20 --ttft 500 --tpot 30",
)
@options.output
def recommend(further: tuple[str, ...], most: int, output: options.Output, **choices: Any) -> None:
    """The cheapest deployments that keep TTFT, TPOT and E2E at a request rate: GPUs, layout, instances, cost.

    With --on, of several kinds of hardware. What no deployment can keep is answered with the best that can be reached.

    With --gpus, --budget or --power-budget the other way round: the most traffic that so many chips, so much money per
    hour, or so much power of the facility carry within the SLOs, aggregated and disaggregated; of a --traffic with
    sessions the most agents.
    """
    from inference_econ.answers.recommend import recommend

    options.check_sizes(choices)
    ready, chips = agents.work(choices), tuple(dict.fromkeys((choices["hardware"], *further)))
    choices["price"] = prices.of_chips(choices["price"], chips)
    if ready is not None:
        ask = ready.recommend if options.given_means(choices) is None else ready.most_agents
        agents.answer(ask, choices, ready, output, *chips, most=most)
        return
    requests, targets = options.requests(choices), options.targets(choices)
    means = options.given_means(choices)
    if means is not None:
        from . import most_traffic

        if output.picture is not None:
            raise InputError(
                "--plot draws deployments at a request rate; what --gpus, --budget or --power-budget carries has none",
                option="gpus",
            )
        with show.progress_bar(quiet=output.quiet):
            offers = market.of_chips(choices, requests, chips)
        most_traffic.run(choices, offers, means, most, output)
        return
    rate = options.request_rate(choices, requests)
    with show.progress_bar(quiet=output.quiet) as progress:

        def answer(asked: options.Choices) -> Recommendation:
            offers = market.of_chips(asked, requests, chips)
            scv = choices["arrival_scv"]
            return recommend(offers, rate, targets, arrival_scv=scv, most=most, progress=progress)

        deployments, started = answer(choices), options.among_startable(choices, answer)
    compared = replace(deployments, startable=started[0] if started else None)
    show.answer(compared, output)
