"""Commands that turn small questions round: the hour behind a token, the acceptance behind a speed-up, the buyer."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError

from . import options, provenance, show
from .help import command


@command(
    "implied-hour-price",
    "subject output_price input_price tokens_per_second price_over_cost lengths",
    "inference-econ implied-hour-price llama_3_70b h100_sxm --weights fp8 --input-price 0.13 --output-price 0.4 "
    "--tokens-per-second 40",
)
@options.output
def hour_price(
    output: options.Output,
    output_price: float,
    input_price: float,
    tokens_per_second: float,
    price_over_cost: float,
    **choices: Any,
) -> None:
    """The price of a GPU-hour that a price of tokens implies, for a known model on a known chip.

    MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.implied import implied_hour_price
    from inference_econ.answers.serving_frontier import frontier

    priced = {**choices, "price": 1.0 if choices["price"] is None else choices["price"]}
    with show.progress_bar(quiet=output.quiet):
        front = frontier(options.setup(priced), options.requests(choices))
    implied = implied_hour_price(
        front, output_price, tokens_per_second, input_price=input_price, price_over_cost=price_over_cost
    )
    show.answer(implied, output)


@command(
    "implied-acceptance",
    "speedup draft_length draft_cost",
    "inference-econ implied-acceptance --speedup 2.3 --draft-length 4 --draft-cost 0.05",
)
@options.output
def acceptance(output: options.Output, speedup: float, draft_length: int, draft_cost: float) -> None:
    """The share of proposals accepted that a speed-up by speculation implies."""
    from inference_econ.formulas.speculation import implied_acceptance
    from inference_econ.report.implied import AcceptancePage

    share = implied_acceptance(speedup, draft_length, draft_cost)
    show.emit(AcceptancePage(speedup, draft_length, draft_cost, share), output, provenance.asked())


@command(
    "revealed-exponent",
    "offers recorded lengths plot",
    "inference-econ revealed-exponent --recorded qwen/qwen3-235b-a22b-04-28",
)
@options.output
def exponent(output: options.Output, offers: tuple[str, ...], recorded: str | None, **choices: Any) -> None:
    """Exponents of the preference speed^a / price (eq. 45) with which a buyer would choose each of several offers."""
    from inference_econ.answers.implied import revealed_exponents
    from inference_econ.inputs import observed_offer, recorded_offers

    if bool(offers) == (recorded is not None):
        raise InputError("give either --offer, twice at least, or --recorded")
    seen = [observed_offer(text) for text in offers] if recorded is None else recorded_offers(recorded)
    lengths = options.requests(choices)
    shares = (lengths.isl.mean, lengths.osl.mean)
    rows = []
    for offer in seen:
        prices = (offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens)
        if offer.tokens_per_second is None or None in prices:
            raise InputError(f"--offer {offer.words}: a choice is between a price of input and output and a speed")
        paid = sum(price * share for price, share in zip(prices, shares, strict=True) if price is not None)
        rows.append((offer.tokens_per_second, paid / sum(shares), offer.provider or offer.words))
    speeds, paid_each, labels = (list(column) for column in zip(*rows, strict=True))
    show.answer(revealed_exponents(speeds, paid_each, labels), output)
