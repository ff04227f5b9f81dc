"""The command that puts prompts on one pool of instances and answers on another."""

from __future__ import annotations

from dataclasses import replace

import inference_econ as ie
from inference_econ.requests import Request, prices, subject, workload


def disaggregate(
    request: Request,
    decode_on: str | None,
    transfer: str,
    chains: tuple[int, ...] | None,
    ratios: str,
    fill: float,
) -> ie.Disaggregation:
    """Prompts on one pool of instances, answers on another: cost against speed beside aggregated serving.

    Both get the same stream of requests, are filled to the same share, and keep the same promises with their queues;
    speeds and TTFTs are those that --percentile of the requests see. Without --ttft neither promises one.

    With a request rate (or --gpus, --budget or --power-budget), the best fleet of x prefill and y decode instances,
    xPyD, that meets the SLOs. MODEL and HARDWARE as in 'frontier'; --set hardware.FIELD changes both kinds. Of who
    proposes tokens both pools hold a copy: prompts are read for it too, and its cache moves with the target's.
    """
    from inference_econ.answers.best_pools import best_pools
    from inference_econ.answers.disaggregated.terms import Ratios

    workload.check_sizes(request)
    chips = tuple(chip for chip in (request.hardware, decode_on) if chip is not None)
    request = replace(request, price=prices.of_chips(request.price, tuple(dict.fromkeys(chips))))
    requests, means = workload.requests(request), workload.means(request)
    terms = ie.Terms(workload.targets(request), request.arrival_scv, fill, Ratios.parse(ratios))
    rate = workload.request_rate(request, requests)
    pools = best_pools(
        subject.setup(request, request.hardware),
        requests,
        subject.space(request),
        terms,
        requests_per_second=rate,
        means=means,
        decode=None if decode_on is None else subject.setup(request, decode_on),
        layer_by_layer=transfer == "layers",
        speculation=subject.proposed(request, request.hardware),
        chains=chains or (),
    )
    return ie.disaggregate(pools, terms, requests_per_second=rate, means=means)
