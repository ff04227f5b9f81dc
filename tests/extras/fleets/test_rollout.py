"""Rollouts: against formulas for equal outputs, conservation of tokens, and rejected inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_options import market
from inference_econ.answers.layout_services import offer
from inference_econ.engine import Pins, Setup, Space
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.extras.fleets import rollout as rollouts
from inference_econ.extras.fleets.rollout import Batch, Trajectories, rollout
from inference_econ.inputs import Requests, catalog
from tests.offered import ONE_CHIP, offer_of, service_of


def test_answers_of_one_length_take_as_long_as_their_steps() -> None:
    """Steps full of prompts process them, and an output takes one step per token."""
    service = service_of(isl="64", osl="800")
    (run,) = rollout([offer_of(isl="64", osl="800", pins=ONE_CHIP)], 1, prompts=100).runs
    reading = 100 * service.full_prefill_seconds(64.0)
    made = run.generation
    # The first prompts decode during the prefill of the others.
    assert made.seconds == pytest.approx(reading + 799 * float(service.step_seconds(100.0)), rel=0.02)
    assert (made.trajectories, made.prompt_tokens, made.answer_tokens) == (100.0, 6_400.0, 80_000.0)
    assert made.written_tokens == made.answer_tokens
    assert made.curve.tail_share == 0.0
    # A third of the batch at once takes as long as three such batches.
    (third,) = rollout([offer_of(isl="64", osl="800", pins=ONE_CHIP)], 1, prompts=90, concurrency=30).runs
    alone = 30 * service.full_prefill_seconds(64.0) + 799 * float(service.step_seconds(30.0))
    assert third.generation.seconds == pytest.approx(3 * alone, rel=0.02)
    assert run.dollars == pytest.approx(1000 / 100 * made.seconds / 3600 * 2.0)


def test_the_longest_answers_are_the_tail() -> None:
    offers = [offer_of(isl="200", osl="lognormal:300:1", pins=ONE_CHIP)]
    even, heavy = rollout([offer_of(isl="200", osl="300", pins=ONE_CHIP)], 2, 64, 4), rollout(offers, 2, 64, 4)
    seconds = [answer.runs[0].generation.seconds for answer in (even, heavy)]
    curve = heavy.runs[0].generation.curve
    assert seconds[1] > 2.0 * seconds[0]
    assert curve.tail_share > 0.5 > even.runs[0].generation.curve.tail_share
    assert curve.busy_share < even.runs[0].generation.curve.busy_share
    # Fewer tokens are written in the time if the longest are not waited for.
    partial = rollout(offers, 2, 64, 4, finished=0.7).runs[0]
    assert partial.generation.seconds < seconds[1]
    assert partial.hours < heavy.runs[0].hours
    cut = rollout(offers, 2, 64, 4, max_tokens=400)
    assert cut.batch.drawn.left.max() == 400 == cut.to_dict()["longest_answer"]
    assert cut.runs[0].generation.seconds < seconds[1]


def test_no_token_is_lost_between_batches() -> None:
    batch = Batch(Requests("uniform:50:90", "lognormal:200:1"), 16, 4, finished=0.6)
    instances = rollouts._Instances(service_of(isl="70", osl="200"), batch)
    begun = batch.drawn
    generation, rest = instances._played(begun, 2)
    assert generation.trajectories + rest.name.size == begun.name.size == 64
    assert generation.trajectories >= 0.6 * 64
    assert generation.written_tokens + rest.left.sum() == begun.left.sum()
    assert generation.written_tokens == generation.answer_tokens + rest.written.sum()
    assert np.all(rest.left >= 1)
    # Continued outputs are recomputed, and the same tokens remain in the end.
    again, nothing = rollouts._Instances(instances.service, replace(batch, finished=1.0))._played(rest, 2)
    assert nothing.name.size == 0
    assert again.answer_tokens + generation.answer_tokens == begun.left.sum()


@pytest.mark.parametrize("finished", [0.1, 0.15])
def test_small_shares_are_steady(finished: float) -> None:
    """In the mean of enough batches, as many tokens are generated as finished trajectories have."""
    offers = [offer_of(isl="2000", osl="500", pins=ONE_CHIP)]
    made = rollout(offers, 1, 32, 4, finished=finished).runs[0].generation
    assert made.written_tokens == pytest.approx(made.answer_tokens, rel=0.2)


def test_trajectories_stopped_at_their_first_tokens_have_no_rate() -> None:
    """With speculative decoding, the first step can return several tokens."""
    with np.errstate(all="raise"):
        (run,) = ie.rollout(
            "llama_3_8b", "h100_sxm", gpus=1, prompts=64, samples=8, finished=0.1, osl="lognormal:2000:1.5",
            max_tokens=8192, tp=1, engine="vllm", eagle=True,
        ).runs  # fmt: skip
    assert run.generation.curve.busy_share > 0.0


def test_samples_of_a_prompt_are_read_once_and_stay_together() -> None:
    batch = Batch(Requests("uniform:500:900", 50), 6, 4)
    dealt = batch.drawn.dealt(3)
    places: dict[int, set[int]] = {}
    for place, name in enumerate(dealt.name.tolist()):
        places.setdefault(name, set()).add(place % 3)
    assert all(len(instances) == 1 for instances in places.values())
    assert sorted(dealt.left.tolist()) == sorted(batch.drawn.left.tolist())
    shared, apart = (
        rollout([offer_of(isl="4000", osl="20", pins=ONE_CHIP)], 1, prompts, samples).runs[0].generation.seconds
        for prompts, samples in ((8, 8), (64, 1))
    )
    assert shared < 0.4 * apart


def test_a_batch_of_one_trajectory() -> None:
    (run,) = rollout([offer_of(isl="100", osl="1", pins=ONE_CHIP)], 1, prompts=1, finished=0.5).runs
    assert run.record()["busy_share"] == 1.0
    # Idle chips cost the same.
    (idle,) = rollout([offer_of(isl="100", osl="1", pins=ONE_CHIP)], 1_000_000_000, prompts=1).runs
    assert idle.generation.seconds == run.generation.seconds
    assert idle.dollars == pytest.approx(1e9 * run.dollars)
    one = Trajectories(*(np.array([value]) for value in (0, 10, 0, 5)))
    assert one.dealt(4) == one


def test_a_learner_computes_six_flop_for_each_active_parameter_and_token() -> None:
    layouts = offer_of(isl="200", osl="lognormal:300:1", pins=ONE_CHIP)
    model, terms = layouts.setup.model, catalog.learning().replace(mfu=0.4)
    answer = rollout([layouts], 8, 64, 4, learner=terms)
    ways = {run.way: run for run in answer.runs}
    assert set(ways) == {"synchronous", "one_step_off", "asynchronous"}
    assert [run.dollars for run in answer.runs] == sorted(run.dollars for run in answer.runs)
    turns, apart, stream = (ways[name] for name in ("synchronous", "one_step_off", "asynchronous"))
    tokens = turns.generation.prompt_tokens + turns.generation.answer_tokens
    assert tokens == answer.batch.drawn.prompt.sum() + answer.batch.drawn.left.sum()
    seconds = 6.0 * model.active_parameters * tokens / (8 * 0.4 * 989.4e12)
    assert turns.learning_seconds == pytest.approx(seconds, rel=1e-3)
    assert turns.seconds == turns.generation.seconds + turns.learning_seconds
    for run in (apart, stream):
        assert run.instances + run.learner_gpus == 8
        assert run.seconds == max(run.generation.seconds, run.learning_seconds)
        # 16 bytes of 8.03e9 parameters are 128 GB.
        assert run.learner_gpus >= 2
    # Trajectories that start when others end have no tail.
    assert stream.generation.curve.tail_share < 0.3 < apart.generation.curve.tail_share
    assert stream.dollars < apart.dollars
    record = answer.to_dict()
    assert record["learner"] == {"mfu": 0.4, "flop_per_token": 6.0 * model.active_parameters, "fewest_gpus": 2}


def test_a_split_is_as_good_as_any() -> None:
    """Every number of instances, one by one."""
    layouts = offer_of(isl="200", osl="lognormal:300:1", pins=ONE_CHIP)
    terms = catalog.learning().replace(mfu=0.05)
    answer = rollout([layouts], 8, 32, 4, learner=terms)
    (found,) = (run for run in answer.runs if run.way == "one_step_off")
    learner, played = answer.learner, rollouts._Instances(layouts.service(0), answer.batch)
    assert learner is not None
    tried = []
    for number in range(1, 7):
        made = played.generate(number)
        tried.append(max(made.seconds, learner.seconds(made, 8 - number)))
    assert found.seconds == pytest.approx(min(tried))


def test_a_learner_without_room() -> None:
    layouts, terms = offer_of("llama_3_70b", pins=(("tp", 8), ("dp", 1), ("pp", 1))), catalog.learning()
    with pytest.raises(
        NothingFitsError, match=r"no room: 16 B per parameter .* at least 14 x .* give --gpus 14 or more"
    ):
        rollout([layouts], 8, 4, learner=terms)
    (turns,) = rollout([layouts], 16, 4, learner=terms).runs
    assert (turns.way, turns.learner_gpus, turns.instances) == ("synchronous", 16, 2)


#: Steps of GRPO on H100 that NVIDIA published with NeMo RL v0.4: model, GPUs, ranks of an instance, mean output and its
#: variation, schedule, seconds of a step. A step has 64 prompts x 32 samples of at most 4,096 tokens. Prompts of
#: OpenMathInstruct-2 are short. The variation of outputs is not published, so it is set such that the mean of the
#: truncated lengths is as published.
PUBLISHED = (
    ("llama_3_8b", 16, 1, "lognormal:930:0.7", "synchronous", 97.7),
    ("llama_3_8b", 16, 1, "lognormal:1000:0.7", "one_step_off", 74.6),
    ("qwen3_32b", 32, 4, "lognormal:3400:0.5", "synchronous", 393.0),
    ("qwen3_32b", 64, 4, "lognormal:3400:0.5", "one_step_off", 215.0),
)


@pytest.mark.long
@pytest.mark.parametrize(("model", "gpus", "tp", "osl", "way", "seconds"), PUBLISHED)
def test_published_steps_of_training(model: str, gpus: int, tp: int, osl: str, way: str, seconds: float) -> None:
    """Derive the share of the peak in training of the first and third; compare the others."""
    layouts = offer(Setup.of(model, "h100_sxm", engine="vllm"), Requests(130, osl), Space(Pins(tp=tp, dp=1, pp=1)))
    answer = rollout([layouts], gpus, 64, 32, max_tokens=3966, learner=catalog.learning())
    (run,) = (run for run in answer.runs if run.way == way)
    assert run.seconds == pytest.approx(seconds, rel=0.15)


@pytest.mark.rows
def test_what_cannot_be_asked(asked: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        rollout([offer_of(pins=ONE_CHIP)], **{"gpus": 1, "prompts": 2, **asked})  # type: ignore[arg-type]


def test_trajectories_beyond_the_model_and_instances_beyond_the_chips() -> None:
    with pytest.raises(
        InputError, match=r"grow to [\d,]+ tokens .* made for 131,072 at most; cut them with --max-tokens 130072"
    ):
        rollout([offer_of(osl="lognormal:60000:2", pins=ONE_CHIP)], 1, prompts=100)
    eight = offer_of(pins=(("tp", 8), ("dp", 1), ("pp", 1)))
    with pytest.raises(TooMuchError, match="100,000,000 trajectories"):
        rollout([eight], 8, prompts=1_000_000, samples=100)
    apart = market(Setup.of("llama_3_8b", "h100_sxm"), Requests(2000, 100), arrangement="disaggregated")
    with pytest.raises(InputError, match="aggregated instances; allow aggregated"):
        rollout(apart, 4, prompts=1)
    with pytest.raises(NothingFitsError, match="has room on 4 GPUs; the smallest has 8: give --gpus 8 or more"):
        rollout([eight], 4, prompts=1)
