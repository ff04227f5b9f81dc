"""Commands that turn small questions round: the hour behind a token, the acceptance behind a speed-up, the buyer."""

from __future__ import annotations

from typing import Any

import click

from inference_econ.errors import InputError

from . import options, provenance, show
from .help import Command, example
from .parameters import COUNT, NON_NEGATIVE, POSITIVE


@click.command(
    "implied-hour-price",
    cls=Command,
    epilog=example(
        "inference-econ implied-hour-price llama_3_70b h100_sxm --weights fp8 --input-price 0.13 --output-price 0.4 "
        "--tokens-per-second 40"
    ),
)
@options.subject
@click.option("--output-price", type=POSITIVE, required=True, help="Asked for a million output tokens [USD].")
@click.option("--input-price", type=NON_NEGATIVE, default=0, help="Asked for a million input tokens [USD].")
@click.option("--tokens-per-second", type=POSITIVE, required=True, help="Speed of a user of the offer.")
@click.option("--price-over-cost", type=POSITIVE, default=1, show_default=True, help="Price over cost of a token.")
@options.lengths
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


@click.command(
    "implied-acceptance",
    cls=Command,
    epilog=example("inference-econ implied-acceptance --speedup 2.3 --draft-length 4 --draft-cost 0.05"),
)
@click.option("--speedup", type=POSITIVE, required=True, help="Time per token without speculation over that with it.")
@click.option("--draft-length", type=COUNT, required=True, help="Proposals of every round.")
@click.option("--draft-cost", type=NON_NEGATIVE, default=0, show_default=True, help="Time of a proposal, in steps.")
@options.output
def acceptance(output: options.Output, speedup: float, draft_length: int, draft_cost: float) -> None:
    """The share of proposals accepted that a speed-up by speculation implies."""
    from inference_econ.formulas.speculation import implied_acceptance
    from inference_econ.report.implied import AcceptancePage

    share = implied_acceptance(speedup, draft_length, draft_cost)
    show.emit(AcceptancePage(speedup, draft_length, draft_cost, share), output, provenance.asked())


@click.command(
    "revealed-exponent",
    cls=Command,
    epilog=example("inference-econ revealed-exponent --recorded qwen/qwen3-235b-a22b-04-28"),
)
@click.option(
    "--offer",
    "offers",
    multiple=True,
    metavar="KEY=VALUE,..",
    help="As in 'infer', with a price and a speed; two at least, of one model.",
)
@click.option("--recorded", metavar="NAME", help="Or all offers of a model in scenarios/measured/offers.csv.")
@options.lengths
@options.picture("Write a picture of the speed that is bought: .svg, .png, .pdf or .html.")
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
