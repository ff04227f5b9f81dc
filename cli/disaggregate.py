"""The command that puts prompts on one pool of instances and answers on another."""

from __future__ import annotations

from typing import Any

import inference_econ as ie

from . import options, prices, proposals
from .help import question


@question("disaggregate")
def disaggregate(**choices: Any) -> ie.Disaggregation:
    """Prompts on one pool of instances, answers on another: cost against speed beside aggregated serving.

    Both get the same stream of requests, are filled to the same share, and keep the same promises with their queues;
    speeds and TTFTs are those that --percentile of the requests see. Without --ttft neither promises one.

    With a request rate (or --gpus, --budget or --power-budget), the best fleet of x prefill and y decode instances,
    xPyD, that meets the SLOs. MODEL and HARDWARE as in 'frontier'; --set hardware.FIELD changes both kinds. Of who
    proposes tokens both pools hold a copy: prompts are read for it too, and its cache moves with the target's.
    """
    from inference_econ.answers.best_pools import best_pools
    from inference_econ.answers.disaggregated.terms import Ratios

    options.check_sizes(choices)
    chips = tuple(chip for chip in (choices["hardware"], choices["decode_on"]) if chip is not None)
    choices["price"] = prices.of_chips(choices["price"], tuple(dict.fromkeys(chips)))
    requests, means = options.requests(choices), options.given_means(choices)
    ratios = Ratios.parse(choices["ratios"])
    terms = ie.Terms(options.targets(choices), choices["arrival_scv"], choices["fill"], ratios)
    rate = options.request_rate(choices, requests)
    pools = best_pools(
        options.setup(choices, choices["hardware"]),
        requests,
        options.space(choices),
        terms,
        requests_per_second=rate,
        means=means,
        decode=None if choices["decode_on"] is None else options.setup(choices, choices["decode_on"]),
        layer_by_layer=choices["transfer"] == "layers",
        speculation=proposals.proposed(choices, choices["hardware"]),
        chains=choices["chains"] or (),
    )
    return ie.disaggregate(pools, terms, requests_per_second=rate, means=means)
