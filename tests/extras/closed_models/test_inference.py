"""Sizes of closed models: models of every size, frontiers between them, weights, and inconsistent offers."""

from __future__ import annotations

import dataclasses
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie
from data.prior_frontiers import every_case, table_line
from inference_econ.errors import InputError, SpecError
from inference_econ.extras.closed_models import infer as sizes
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.scenario_kinds import ObservedOffer, Priors, observed_offer
from inference_econ.inputs import catalog

USUAL = scenario_kinds.priors("usual")
#: Shipped frontiers have three decimals of logarithms, and results of the same code differ in the last digits.
SHIPPED = 0.002
SAMPLES = 512


@cache
def usual_draws() -> sizes.Draws:
    return sizes.drawn(USUAL, [None], SAMPLES)


def changed(**changes: object) -> Priors:
    return USUAL.replace(sources=kept_sources(), **changes)


def kept_sources() -> dict[str, object]:
    """Remove the sources of single families, which may be gone."""
    return {field: source for field, source in USUAL.sources.items() if not field.startswith("families.")}


@pytest.mark.parametrize("name", [family.model for family in USUAL.families.values()])
def test_a_scale_of_one_is_the_identity_for_every_family(name: str) -> None:
    known = catalog.model(name)
    experts = max((it.experts for block in known.blocks if (it := block.feed_forward).kind == "experts"), default=None)
    assert sizes.sized(name, known.total_parameters, experts) == known
    assert ie.scaled(known, 1.0) == known


def test_models_have_about_the_parameters_that_are_asked_for() -> None:
    for family in USUAL.families.values():
        for count in family.experts or (None,):
            model = sizes.sized(family.model, 1e11, count)
            assert model.total_parameters == pytest.approx(1e11, rel=0.03)
    many, few = (sizes.sized("deepseek_v3", 1e11, experts).active_parameters for experts in (512, 64))
    assert many < few / 3


@pytest.mark.rows
def test_experts_must_make_sense(name: str, experts: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sizes.with_experts(catalog.model(name), experts)


@pytest.mark.parametrize("index", [3, 250, 777, 1212])
def test_shipped_frontiers_are_those_of_now(index: int) -> None:
    """If not, the cost model has changed: run sh run.sh refit priors."""
    case = sorted(sizes.shipped_points(), key=str)[index]
    np.testing.assert_allclose(sizes.points_of(case), sizes.shipped_points()[case], atol=SHIPPED)
    assert table_line(case).startswith(f"{case.model},{case.parameters:g},{case.experts},{case.chip}")


def test_every_frontier_of_the_usual_priors_is_shipped() -> None:
    assert set(every_case(USUAL)) == set(sizes.shipped_points())


@pytest.mark.parametrize(
    ("family", "parameters", "experts"),
    [("dense", 7.06e10, None), ("mixture", 1.73e11, 128), ("latent mixture", 5.5e11, 362)],
)
def test_what_lies_between_sizes_is_interpolated(family: str, parameters: float, experts: int | None) -> None:
    """Half-way between nodes the error stays below the noise of an observed speed (a factor of 1.25) or a price."""
    kind, manner = USUAL.families[family], sizes.Manner("h100_sxm", "fp8", False)
    surfaces = sizes.Surfaces(USUAL)
    surfaces.prepare([manner])
    spots = [math.log(parameters), *([math.log(experts)] if experts else [])]
    places = np.linspace(0.0, 1.0, sizes.POINTS)
    near = surfaces.of(kind, manner).at(*(np.full_like(places, spot) for spot in spots), places)
    case = next(
        case
        for case in every_case(surfaces.priors)
        if case.model == kind.model and case[3:6] == ("h100_sxm", "fp8", None)
    )
    true = sizes.points_of(case._replace(parameters=parameters, experts=experts or 0))
    # At equal speeds, where both have some.
    speeds = true[(true[:, sizes.SPEED] >= near[0, sizes.SPEED]) & (true[:, sizes.SPEED] <= near[-1, sizes.SPEED])]
    costs = np.interp(speeds[:, sizes.SPEED], near[:, sizes.SPEED], near[:, sizes.COST])
    assert abs(near[-1, sizes.SPEED] - true[-1, sizes.SPEED]) < 0.08
    assert np.abs(costs - speeds[:, sizes.COST]).mean() < 0.15


def test_points_of_the_sequence_are_spread_evenly() -> None:
    points = sizes.sobol(2, 100)
    assert points.shape == (128, 2)
    assert np.allclose(np.sort(points[:, 1]), (np.arange(128) + 0.5) / 128)


def by_hand(speeds: list[float], costs: list[float]) -> sizes.Draws:
    """Return one model per speed and cost, with a single deployment."""
    ones = np.zeros((len(speeds), 1, 1))
    parameters = np.array([1e9 * (index + 1) for index in range(len(speeds))])
    return sizes.Draws(
        USUAL, ("dense",), np.zeros(len(speeds), dtype=np.intp), ones[:, 0, 0], ones[:, 0, 0], parameters, parameters,
        (sizes.Manner("h100_sxm", "fp8", False),), np.ones(1), np.array([0.7]),
        np.log(speeds)[:, None, None], np.log(costs)[:, None, None], ones, ones,
    )  # fmt: skip


def test_weights_are_those_of_bayes_theorem_by_hand() -> None:
    """Two models, an offer of a speed and a price: normal densities of logarithms, multiplied and normalized."""
    offer = ObservedOffer(
        tokens_per_second=50.0, dollars_per_million_input_tokens=1.0, dollars_per_million_output_tokens=2.0
    )
    draws = by_hand([40.0, 60.0], [0.0005, 0.002])
    assert sizes.revenue(offer, USUAL) == pytest.approx((2000 * 1.0 + 500 * 2.0) / 1e6)
    over = sizes.markup(offer, USUAL)
    assert over.mean == pytest.approx(math.log(1.3 / 0.5))
    assert over.sigma == pytest.approx(math.sqrt(math.log(1.8) ** 2 + math.log(1.4) ** 2 + math.log(1.3) ** 2))
    z = [(math.log(50 / speed) / math.log(1.25), (math.log(0.003 / cost) - over.mean) / over.sigma)
         for speed, cost in ((40.0, 0.0005), (60.0, 0.002))]  # fmt: skip
    likely = np.exp([-0.5 * (a * a + b * b) for a, b in z])
    strayed = 0.95 * likely + 0.05 * likely.mean()
    assert sizes.posterior(draws, [offer]).weights == pytest.approx(strayed / strayed.sum())


def test_half_of_the_draws_weigh_half() -> None:
    assert sizes.interval(np.array([3.0, 1.0, 2.0]), np.ones(3)) == (1.0, 2.0, 3.0)


def test_offers_made_from_the_priors_hold_their_size_in_four_of_five_intervals() -> None:
    """Simulate observations of drawn models: the posterior is calibrated for its own priors."""
    draws, random = usual_draws(), np.random.default_rng(0)
    inside = []
    for model in random.integers(0, SAMPLES, 40):
        column = random.choice(len(draws.manners), p=draws.likely)
        place = random.integers(draws.speed.shape[-1])
        if not np.isfinite(draws.speed[model, column, place]):
            continue
        speed = draws.speed[model, column, place] + math.log(USUAL.observed_speed) * random.normal()
        over = sizes.markup(observed_offer("input=1,output=3"), USUAL)
        bringing = draws.cost[model, column, place] + over.mean + over.sigma * random.normal()
        price = 1e6 * math.exp(bringing) / (USUAL.isl + 3.0 * USUAL.osl)
        offer = ObservedOffer(
            tokens_per_second=math.exp(speed),
            dollars_per_million_input_tokens=price,
            dollars_per_million_output_tokens=3.0 * price,
        )
        weights = sizes.posterior(draws, [offer]).weights
        inside.append(sizes.interval(draws.active, weights).holds(draws.active[model]))
    # 80 %, within two and a half standard deviations of a binomial share.
    assert abs(np.mean(inside) - 0.8) < 2.5 * math.sqrt(0.16 / len(inside))


def test_a_slower_and_dearer_offer_is_of_a_larger_model() -> None:
    small, large = (
        sizes.posterior(usual_draws(), [observed_offer(text)]).active_parameters
        for text in ("input=0.1,output=0.1,speed=200", "input=3,output=15,speed=20")
    )
    assert large.low > small.median
    assert large.median > 5 * small.median


def test_more_offers_narrow_the_interval_and_are_named_by_their_shares() -> None:
    offers = scenario_kinds.recorded_offers(
        "meta-llama/llama-3.3-70b-instruct", "2025-06-27", ["Groq", "Cerebras", "SambaNova"]
    )
    one, all_of_them = sizes.posterior(usual_draws(), offers[:1]), sizes.posterior(usual_draws(), offers)
    width = [found.active_parameters.high / found.active_parameters.low for found in (one, all_of_them)]
    assert width[1] < width[0]
    assert sum(all_of_them.families.values()) == pytest.approx(1.0)
    for served in all_of_them.served:
        assert sum(served.chips.values()) == pytest.approx(1.0)
        assert sum(served.formats.values()) == pytest.approx(1.0)
        assert served.price_over_cost is not None


def test_a_known_chip_is_the_chip() -> None:
    found = sizes.infer([observed_offer("input=0.9,output=0.9,speed=60,ttft=0.5,on=h200_sxm")], samples=SAMPLES)
    (served,) = found.served
    assert served.chips == {"h200_sxm": 1.0}
    assert served.hour_price is not None
    assert served.hour_price.low < 2.94 < served.hour_price.high


def test_an_offer_out_of_reach_says_how_far() -> None:
    with pytest.raises(
        InputError, match=r"^90,?000 tokens/s is [0-9.]+ times the fastest of any prior sample \(.* tokens/s\)"
    ):
        sizes.posterior(usual_draws(), [observed_offer("speed=90000,output=1")])
    with pytest.raises(
        InputError, match=r"^\$25 per request .* is .* times the dearest of any prior sample on h100_sxm"
    ):
        sizes.infer([observed_offer("input=10000,output=10000,on=h100_sxm")], samples=64)
    with pytest.raises(InputError, match=r"^a first token after 1e-05 s is 1/.* of the soonest"):
        sizes.posterior(usual_draws(), [observed_offer("ttft=0.00001")])


def test_offers_that_contradict_each_other_are_refused() -> None:
    fast = "input=0.05,output=0.05,speed=900,by=Fast"
    slow = "input=80,output=200,speed=4,by=Slow"
    message = (
        r"contradict each other: no model of the priors explains both '.*' and '.*' \(the best one is \d+\.\d stand"
    )
    with pytest.raises(InputError, match=message):
        sizes.posterior(usual_draws(), [observed_offer(fast), observed_offer(slow)])


@pytest.mark.rows
def test_what_cannot_be_an_observation(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        observed_offer(text)


def test_questions_that_cannot_be_answered() -> None:
    offer = observed_offer("output=1,speed=50")
    with pytest.raises(InputError, match="nothing was observed; give at least one offer"):
        sizes.infer([])
    with pytest.raises(InputError, match=r"unknown hardware 'h1000'"):
        sizes.infer([observed_offer("speed=50,on=h1000")], samples=64)
    with pytest.raises(InputError, match=r"'usual priors' have no chip 'l4'; known: a100_sxm_80, h100_sxm"):
        sizes.infer([observed_offer("speed=50,on=l4")], samples=64)
    with pytest.raises(InputError, match="unknown priors 'mine'; known: usual"):
        sizes.infer([offer], "mine")
    with pytest.raises(InputError, match="from 64 to 32,768 models can be drawn, got 3"):
        sizes.infer([offer], samples=3)
    with pytest.raises(InputError, match=r"no offer of 'gpt-9' of 2025-06-27 with a speed is recorded; recorded: "):
        scenario_kinds.recorded_offers("gpt-9", "2025-06-27")
    with pytest.raises(InputError, match="an offer is an ObservedOffer or a mapping of its fields, got 3"):
        sizes.infer([3])  # type: ignore[list-item]


def test_priors_under_which_nothing_fits_are_refused() -> None:
    one = changed(max_instance_gpus=1, families={"dense": USUAL.families["dense"].replace(parameters=(5e11, 6e11))})
    with pytest.raises(InputError, match=r"none of the models of the priors 'usual priors' fits on h100_sxm"):
        sizes.infer([observed_offer("speed=50,on=h100_sxm")], one, samples=64)


@pytest.mark.rows
def test_improper_priors_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        Priors.build({**USUAL.model_dump(exclude_unset=True), "sources": kept_sources(), **changes}, origin="mine")


def test_draws_that_a_chip_cannot_hold_do_not_count() -> None:
    small = changed(
        max_instance_gpus=1, families={"dense": USUAL.families["dense"].replace(parameters=(1e9, 3e10, 6e11))}
    )
    surfaces, wanted = sizes.Surfaces(small), sizes.manners_on(small, "a100_sxm_80")[:1]
    surfaces.prepare(wanted)
    draws = sizes.draw(small, surfaces, wanted, 64)
    fits = np.isfinite(draws.speed).all(axis=(1, 2))
    assert draws.total[~fits].min() > 2e10
    likely = sizes.log_likelihood(draws, observed_offer("speed=50"))
    assert np.isneginf(likely[~fits]).all()
    assert dataclasses.is_dataclass(draws)


@pytest.mark.long
def test_open_models_treated_as_closed_as_the_documents_say() -> None:
    """Either size of nine among twelve models lies in its interval of 80%."""
    total, active, _ = ie.run("studies/open_as_closed").tables
    text = (Path(__file__).parents[3] / "docs" / "evidence" / "infer.md").read_text(encoding="utf-8")
    assert [table.notes[0].split(" true")[0] for table in (total, active)] == ["9 of 12", "9 of 12"]
    assert f"- All parameters: {' '.join(total.notes)}" in text
    assert f"- Active parameters: {' '.join(active.notes)}" in text
