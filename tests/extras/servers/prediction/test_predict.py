"""Predictions of measurements for each kind of load, layout and engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pytest

from inference_econ.extras.servers import Measurement
from inference_econ.extras.servers.measurements import Days, RecordedPool
from inference_econ.extras.servers.prediction import predict as deployed
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.inputs import Assumptions, catalog
from tests.measured import measurement
from tests.reading import present

#: Llama 3 70B in FP8 on four H100s: 32 requests of 1000 and 200 tokens.
_LAYOUT: dict[str, Any] = {"accelerators": 4, "tp": 4, "dp": 1, "pp": 1, "ep": 1}
ROW = measurement(source="", engine_version="", hardware="h100_sxm", osl=200.0, concurrency=32.0, **_LAYOUT)
FULL: dict[str, Any] = {"load": "saturated", "concurrency": None}
NO_LAYOUT: dict[str, Any] = dict.fromkeys(("tp", "dp", "pp", "ep"))
DEEPSEEK = replace(ROW, model="deepseek_v3", hardware="h200_sxm", weights=None, accelerators=8, tp=8)


@cache
def _assumed(name: str = "deployable") -> Assumptions:
    return catalog.assumptions(name)


def _one(row: Measurement = ROW, name: str = "deployable", **changes: Any) -> Prediction:
    (found,) = predict([replace(row, **changes)], lambda _: _assumed(name))
    return found


def _ttft(row: Measurement = ROW, name: str = "deployable", **changes: Any) -> float:
    return present(_one(row, name, **changes).ttft_seconds)


def _output(row: Measurement = ROW, name: str = "deployable", **changes: Any) -> float:
    return present(_one(row, name, **changes).output_tokens_per_second_per_accelerator)


def test_rows_of_one_deployment_together_are_what_they_are_apart() -> None:
    rows = [replace(ROW, id=str(number), concurrency=float(number)) for number in (1, 4, 64)]
    together = predict(rows, lambda _: _assumed())
    assert [one.measurement.id for one in together] == ["1", "4", "64"]
    for one in together:
        (apart,) = predict([one.measurement], lambda _: _assumed())
        # Steady states are interpolated between calculated ones.
        assert one.tpot_seconds == pytest.approx(apart.tpot_seconds, rel=0.02)
        assert one.ttft_seconds == pytest.approx(apart.ttft_seconds, rel=0.02)


# Closed loops.


def test_one_request_at_a_time_is_idle() -> None:
    alone, busy = _one(concurrency=1.0), _one()
    assert alone.idle
    assert not busy.idle
    assert _one(accelerators=8, concurrency=2.0).idle  # two replicas, one each
    assert alone.request_seconds == pytest.approx(alone.ttft_seconds + 199 * alone.tpot_seconds)  # type: ignore[operator]


def test_a_mean_over_a_run_has_the_first_round_in_it() -> None:
    run: dict[str, Any] = {"spread": 0.2}
    long, short, one = (_ttft(statistic="mean", requests=requests, **run) for requests in (3200.0, 320.0, 32.0))
    assert long < short < one
    # All requests of a run of one round arrive at once; in a median over many rounds the first has little weight.
    assert one > 3.0 * _ttft(statistic="median", requests=3200.0, **run)


def test_a_run_without_waves_is_the_steady_state() -> None:
    """Widely different lengths, a long run and mixed steps agree with the analytical model."""
    steady, run = _one(statistic="mean"), _one(statistic="mean", spread=1.0, requests=3200.0)
    assert run.tpot_seconds == pytest.approx(steady.tpot_seconds, rel=0.05)
    # A request that follows at the end of a step does not wait for the rest of a running step, half of it on average.
    # This is a mean: most requests wait for no other prompt, so the median is below the analytical value.
    assert run.ttft_seconds is not None and steady.ttft_seconds is not None and steady.tpot_seconds is not None
    assert run.ttft_seconds == pytest.approx(steady.ttft_seconds - steady.tpot_seconds / 2.0, rel=0.2)
    output = run.output_tokens_per_second_per_accelerator
    assert output == pytest.approx(steady.output_tokens_per_second_per_accelerator, rel=0.05)


def test_equal_requests_wait_for_each_other_where_prompts_go_first() -> None:
    mixed = _one(spread=0.0)
    first = _one(spread=0.0, prefill_first=True)
    assert first.ttft_seconds > 2.0 * mixed.ttft_seconds  # type: ignore[operator]
    # Half of the others' prompts come before the first token, not between tokens.
    assert first.tpot_seconds < mixed.tpot_seconds  # type: ignore[operator]
    # With unknown lengths, the order has no effect.
    assert _ttft(spread=None, prefill_first=True) == _ttft()


def test_an_engine_that_seldom_looks_keeps_prompts_waiting() -> None:
    plain = _one()
    assert plain.tpot_seconds is not None
    assert _ttft(wait_steps=15.0) == pytest.approx(_ttft() + 15.0 * plain.tpot_seconds)
    # In the simulation, requests that arrive between polls are processed together.
    run: dict[str, Any] = {"spread": 0.2, "statistic": "median"}
    later = _ttft(wait_steps=15.0, **run) - _ttft(**run)
    assert 10.0 * plain.tpot_seconds < later < 30.0 * plain.tpot_seconds


def _with(*changes: str, row: Measurement = ROW, **fields: Any) -> Prediction:
    """Return changed ``deployable`` assumptions."""
    assumed = catalog.assumptions("deployable", changes=list(changes))
    (found,) = predict([replace(row, **fields)], lambda _: assumed)
    return found


def test_prompts_wait_for_the_steps_that_were_prepared() -> None:
    plain, ahead = _with(), _with("host.steps_ahead=2")
    assert ahead.ttft_seconds - plain.ttft_seconds == pytest.approx(2.0 * plain.tpot_seconds, rel=0.05)  # type: ignore[operator]
    # An idle server has prepared no step.
    assert _with("host.steps_ahead=2", concurrency=1.0).ttft_seconds == _with(concurrency=1.0).ttft_seconds
    assert _with("host.steps_ahead=2", synchronous=True).ttft_seconds == plain.ttft_seconds


@pytest.mark.parametrize("first", [False, True])
def test_a_run_after_its_warm_up_knows_no_compilation(first: bool) -> None:
    """Load generators send warm-up requests before the measurement; ``host.warm_up`` is for pools."""
    run: dict[str, Any] = {"requests": 320.0, "spread": 0.2, "prefill_first": first}
    plain, warm = (_with(*changes, statistic="mean", **run) for changes in ((), ("host.warm_up=2 s",)))
    assert warm.ttft_seconds == plain.ttft_seconds
    assert warm.tpot_seconds == plain.tpot_seconds


def test_pools_connect_over_the_network_only() -> None:
    pool = RecordedPool(workers=1, tp=4, dp=1, pp=1, ep=1)
    row = replace(ROW, **NO_LAYOUT, accelerators=8, prefill=pool, decode=pool, requests=320.0, statistic="mean")
    one = [_with(*changes, row=row).ttft_seconds for changes in ((), ("host.transfer_warm_up=4 s",))]
    assert one[0] == one[1]
    apart = replace(row, decode=replace(pool, workers=2), accelerators=12)
    two = [_with(*changes, row=apart).ttft_seconds for changes in ((), ("host.transfer_warm_up=4 s",))]
    assert two[1] == pytest.approx(two[0] + 0.4)  # type: ignore[operator]


def test_single_prompts_make_the_first_round_longer() -> None:
    run: dict[str, Any] = {"statistic": "mean", "requests": 32.0, "isl": 100.0}
    one, all_at_once = _with("host.launch=50 us", step_tokens=100.0, **run), _with("host.launch=50 us", **run)
    assert one.ttft_seconds > 1.2 * all_at_once.ttft_seconds  # type: ignore[operator]
    # Without chunked prefill, the setting of step tokens has no effect.
    whole = [_with("serving.prefill_chunk=0", step_tokens=tokens).ttft_seconds for tokens in (None, 100.0)]
    assert whole[0] == whole[1]


def test_compiled_engines_launch_no_kernels_one_by_one() -> None:
    short: dict[str, Any] = {"isl": 100.0, "concurrency": 1.0}
    slow, compiled = (_with("host.launch=100 us", compiled=compiled, **short) for compiled in (False, True))
    assert slow.ttft_seconds > 2.0 * compiled.ttft_seconds  # type: ignore[operator]
    assert compiled.ttft_seconds == _with("host.launch=0 us", **short).ttft_seconds


def test_requests_without_a_place_wait_before_their_first_token() -> None:
    # 70 GB of weights on one H100 leave almost no memory for the cache.
    crowded, roomy = _one(accelerators=2, tp=2, concurrency=400.0), _one(concurrency=400.0)
    assert crowded.ttft_seconds > 20.0 * roomy.ttft_seconds  # type: ignore[operator]
    more = _output(accelerators=2, tp=2, concurrency=800.0)
    assert more == pytest.approx(_output(accelerators=2, tp=2, concurrency=400.0))


def test_tensorrt_begins_a_request_only_when_all_of_it_fits() -> None:
    changes: dict[str, Any] = {"accelerators": 2, "tp": 2, "isl": 100.0, "osl": 4000.0, **FULL}
    assert _output(engine="trtllm", **changes) < 0.9 * _output(engine="sglang", **changes)


# Full servers.


def test_vllm_runs_no_more_requests_than_its_default() -> None:
    small: dict[str, Any] = {"model": "llama_3_8b", "accelerators": 1, "tp": 1, "isl": 100.0, **FULL}
    assert _output(**small) < _output(engine="", **small)
    # Fewer on an A100 than on others of its size: 256 instead of 1024.
    ampere = {**small, "hardware": "a100_sxm_80", "weights": "bf16"}
    assert _output(**ampere) < 0.95 * _output(engine="", **ampere)


def test_what_does_not_fit_cannot_be_full() -> None:
    said = "not one request fits in addition to the weights, and the number of concurrent requests is not recorded"
    assert _one(accelerators=1, tp=1, hardware="l4", engine="", **FULL).skipped == said
    # A known concurrency does not change that.
    refused = _one(accelerators=1, tp=1, hardware="l4").skipped
    assert refused == "cannot have run: weights need 72.7 GB of the 24.2 GB there are"


@pytest.mark.parametrize("load", ["batch", "concurrency", "rate", "saturated"])
@pytest.mark.parametrize(("isl", "osl"), [(1.0, 1.0), (1.0, 1e6), (1e7, 1.0)])
def test_extreme_lengths_and_loads_end(load: str, isl: float, osl: float) -> None:
    changes: dict[str, Any] = {"load": load, "isl": isl, "osl": osl, "engine": "", "concurrency": None}
    if load in ("batch", "concurrency"):
        changes["concurrency"] = 1e9
    if load == "rate":
        changes |= {"requests_per_second": 1e6, "requests": 1000.0}
    found = _one(**changes)
    # A prompt of ten million tokens is one that does not fit.
    assert found.skipped == "" or (isl > 1e6 and "not one request fits" in found.skipped)
    assert found.skipped or found.output_tokens_per_second_per_accelerator > 0  # type: ignore[operator]


def test_too_many_requests_to_be_played_have_the_closed_form() -> None:
    run: dict[str, Any] = {"spread": 0.2, "requests": 1e6}
    assert _one(concurrency=20_000.0, **run).tpot_seconds == _one(concurrency=20_000.0).tpot_seconds
    assert _one(concurrency=8.0, **run).tpot_seconds != _one(concurrency=8.0).tpot_seconds


def test_a_limited_load_keeps_its_promises() -> None:
    limited = _one(load="limited", concurrency=None, ttft_limit_seconds=2.0, tpot_limit_seconds=0.03)
    full = _one(**FULL)
    assert limited.tpot_seconds == pytest.approx(0.03, rel=0.2)
    assert limited.tpot_seconds < full.tpot_seconds  # type: ignore[operator]


def test_without_a_layout_a_full_server_has_the_best_one() -> None:
    best, four = (_output(tp=tp, **FULL) for tp in (None, 4))
    assert best >= 0.999 * four
    assert _one(tp=None, **FULL).assumed.startswith("layout tp=")
    assert _one(tp=4, **FULL).assumed == ""


def test_what_is_known_of_an_engine_counts_without_a_layout_too() -> None:
    alone: dict[str, Any] = {**NO_LAYOUT, "concurrency": 1.0}
    graphs, eager = (_with("host.launch=100 us", eager=eager, **alone).tpot_seconds for eager in (False, True))
    assert eager > 1.2 * graphs  # type: ignore[operator]
    slow, compiled = (_with("host.launch=100 us", compiled=compiled, isl=100.0, **alone) for compiled in (False, True))
    assert slow.ttft_seconds > 2.0 * compiled.ttft_seconds  # type: ignore[operator]


@pytest.mark.parametrize("load", ["batch", "concurrency", "rate"])
def test_without_a_layout_others_have_the_widest_one(load: str) -> None:
    rate: dict[str, Any] = {"requests_per_second": 2.0, "requests": 40.0} if load == "rate" else {}
    chosen = _one(load=load, **NO_LAYOUT, **rate)
    assert chosen.assumed == "layout tp=4, dp=1, pp=1"
    assert chosen.request_seconds == pytest.approx(_one(load=load, tp=4, dp=1, pp=1, **rate).request_seconds, rel=0.1)
    assert (
        "nothing fits: Llama 3.1 70B (fp8) on NVIDIA L4" in _one(tp=None, accelerators=1, hardware="l4", **FULL).skipped
    )


def test_prompts_that_come_together_are_read_together() -> None:
    # Short outputs: nearly all time is prefill, and 128 prompts share a step.
    assert _output(isl=64.0, osl=4.0, **FULL) > 15.0 * _output(isl=64.0, osl=4.0, concurrency=1.0)


# Random arrivals.


def test_a_run_of_known_length_ends_even_if_too_much_arrives() -> None:
    endless = _one(load="rate", concurrency=None, requests_per_second=500.0)
    assert endless.ttft_seconds is None
    assert endless.tpot_seconds is not None
    run = _one(load="rate", concurrency=None, requests_per_second=500.0, requests=300.0)
    assert run.ttft_seconds is not None
    assert run.request_seconds is not None
    assert not run.idle
    # Longer runs make longer queues.
    longer = _one(load="rate", concurrency=None, requests_per_second=500.0, requests=1500.0)
    assert longer.ttft_seconds > run.ttft_seconds  # type: ignore[operator]


@pytest.mark.parametrize("requests", [None, 300.0])
def test_few_arrivals_are_idle(requests: float | None) -> None:
    found = _one(load="rate", concurrency=None, requests_per_second=0.05, requests=requests)
    assert found.idle
    assert found.ttft_seconds == pytest.approx(_ttft(concurrency=1.0), rel=0.1)
    assert found.output_tokens_per_second_per_accelerator == pytest.approx(0.05 * 200 / 4, rel=0.02)


# Batches.


def test_a_batch_that_does_not_fit_runs_in_rounds() -> None:
    changes: dict[str, Any] = {"accelerators": 2, "tp": 2, "load": "batch", "osl": 1000.0}
    one, ten = (_one(concurrency=requests, **changes).request_seconds for requests in (400.0, 4000.0))
    assert ten == pytest.approx(10.0 * one, rel=1e-6)  # type: ignore[operator]


def test_prompts_alone_are_measured_by_their_tokens() -> None:
    found = _one(load="batch", osl=None)
    assert found.input_tokens_per_second_per_accelerator == pytest.approx(32 * 1000 / found.ttft_seconds / 4)  # type: ignore[operator]
    assert found.tpot_seconds is None


def test_a_known_cache_is_decoded_without_prompts() -> None:
    found = _one(load="batch", context=1100.0)
    assert found.ttft_seconds is None
    assert found.output_tokens_per_second_per_accelerator == pytest.approx(32 / found.tpot_seconds / 4)  # type: ignore[operator]


def test_cached_tokens_are_not_read_again() -> None:
    assert _ttft(isl=8000.0, cached=7000.0, concurrency=1.0) < 0.5 * _ttft(isl=8000.0, concurrency=1.0)
    assert _one(isl=8000.0, cached=7000.0).tpot_seconds < _one(isl=8000.0).tpot_seconds  # type: ignore[operator]


def test_files_of_an_engine_have_its_formats() -> None:
    """gpt-oss 20b of Ollama, one request: 3.6 ms on RTX 4090, 11.4 ms on GB10."""
    row = replace(ROW, model="gpt_oss_20b", engine="llama_cpp", weights=None, accelerators=1, tp=1, concurrency=1.0)
    for chip, seconds in (("rtx_4090", 0.003576), ("gb10", 0.011368)):
        found = _one(row, "profiles/servers", hardware=chip, isl=64.0, osl=512.0).tpot_seconds
        assert found == pytest.approx(seconds, rel=0.45)
    assert _one(ROW, weights="q4_k_m", hardware="m3_ultra", accelerators=1, tp=1).skipped == ""


# Pools and layouts.


def test_pools_without_numbers_of_workers_are_refused_and_never_guessed() -> None:
    pool = RecordedPool(workers=1, tp=8, dp=1, pp=1, ep=1)
    row = replace(DEEPSEEK, **NO_LAYOUT, accelerators=32, prefill=pool, decode=pool)
    nobody = replace(pool, workers=None)
    for prefill, decode in ((pool, nobody), (nobody, pool)):
        unknown = replace(row, accelerators=None, prefill=prefill, decode=decode)
        assert _one(unknown).skipped == (
            "the numbers of workers are not recorded; give prefill_num_workers and decode_num_workers"
        )
        assert _one(unknown, unknown="nobody knows").skipped == "nobody knows"
        assert _one(row, prefill=prefill, decode=decode).skipped == _one(unknown).skipped
    known = replace(row, decode=replace(pool, workers=3))
    full = _one(known, load="saturated", concurrency=None)
    assert full.skipped == "pools are predicted under a constant number of requests, or at a rate of requests"
    idle, busy = (_one(known, load="rate", concurrency=None, requests_per_second=rate) for rate in (0.1, 3.0))
    assert idle.tpot_seconds is not None and busy.tpot_seconds is not None and idle.tpot_seconds < busy.tpot_seconds
    assert idle.output_tokens_per_second_per_accelerator == pytest.approx(0.1 * 200 / 32)
    assert _one(known).skipped == ""
    assert _ttft(known, statistic="mean", requests=64.0) > _ttft(known)


def test_workers_run_no_more_requests_than_they_were_told_to() -> None:
    pool = RecordedPool(workers=1, tp=8, dp=1, pp=1, ep=1)
    row = replace(DEEPSEEK, **NO_LAYOUT, accelerators=16, prefill=pool, decode=pool)
    free, told = _one(row, concurrency=64.0), _one(row, concurrency=64.0, decode=replace(pool, slots=8))
    # The other requests wait for a place: fewer decode together, and get their first token later.
    assert (told.tpot_seconds or 0.0) < (free.tpot_seconds or 0.0)
    assert (told.ttft_seconds or 0.0) > 5.0 * (free.ttft_seconds or 0.0)


def test_experts_may_be_spread_unevenly_since_copies_fill_the_gaps() -> None:
    found = _one(DEEPSEEK, accelerators=72, tp=1, dp=72, ep=72, concurrency=7200.0)
    assert found.skipped == ""
    assert "heads do not split" in _one(DEEPSEEK, tp=7, accelerators=7).skipped


def test_a_bound_takes_the_cuts_that_a_layout_allows() -> None:
    # Eight ranks are no square: only the 1-D cut remains.
    assert _assumed("ideal").layout.tensor_layouts == ("2d", "1d")
    assert _one(DEEPSEEK, "ideal").skipped == ""


@pytest.mark.rows
def test_what_is_not_recorded_cannot_be_predicted(changes: dict[str, Any], reason: str) -> None:
    found = _one(**changes)
    assert found.skipped == reason
    assert found.ttft_seconds is found.tpot_seconds is found.output_tokens_per_second_per_accelerator is None


# Kernels and captured tokens of engines.


def _told(row: Measurement = ROW, **changes: Any) -> tuple[str | None, float | None]:
    """Return the engine with known kernel counts and the captured tokens in the prediction of a row."""
    assumed = _assumed().changed({"host.engine": "trtllm"})
    host = deployed.instance([replace(row, **changes)], assumed)[0].setup.assumptions.host
    return host.engine, host.captured_tokens


def test_rows_have_the_kernels_of_their_engine_and_version() -> None:
    assert _told(engine_version="0.15.1") == ("vllm 0.12.0", 512.0)
    # Without a version and a date, the newest kernels apply; with a date, the version of that day or the first with
    # counts.
    assert _told()[0] == _told(engine_version="dev")[0] == "vllm 0.33.0"
    autumn, before = (Days(day, day) for day in (date(2025, 10, 29), date(2024, 5, 1)))
    assert _told(days=autumn)[0] == _told(engine_version="dev", days=autumn)[0] == "vllm 0.11.0"
    assert _told(days=before)[0] == "vllm 0.10.0"
    assert _told(engine="sglang", days=Days(date(2025, 10, 29), date(2025, 10, 29)))[0] == "sglang 0.5.5"
    # The version in scripts precedes the date, and an explicit version precedes both.
    assert _told(days=autumn, ran="0.10.2")[0] == "vllm 0.10.2"
    assert _told(days=autumn, ran="0.10.2", engine_version="0.18.0")[0] == "vllm 0.18.0"
    # The version of a wrapper is ignored: the date applies, and without it the first version with counts.
    assert _told(engine="trtllm", engine_version="0.8.1.post1") == ("trtllm 0.21.0", 0.0)
    winter = Days(date(2026, 1, 7), date(2026, 1, 7))
    assert _told(engine="trtllm", engine_version="0.8.1.post1", days=winter) == ("trtllm 1.2.0", 0.0)
    # Earlier versions and other engines have no counts.
    assert _told(engine_version="0.6.3", prefill_first=True) == ("trtllm", 0.0)
    assert _told(engine="lmdeploy") == ("trtllm", 512)


def test_who_names_no_engine_gets_none() -> None:
    host = deployed.instance([replace(ROW, engine_version="0.15.1")], _assumed())[0].setup.assumptions.host
    assert host.engine is None


def test_steps_that_scripts_have_captured() -> None:
    assert _told(captured_tokens=2048)[1] == 2048
    assert _told(engine="sglang", engine_version="0.5.10", step_tokens=4096.0)[1] == 4096.0
    latent = replace(DEEPSEEK, engine="sglang", engine_version="0.5.10")
    assert _told(latent)[1] == 2048.0
    # A prompt of 1,024 tokens alone: in pieces of a graph, or by kernels that the host launches one by one.
    short: dict[str, Any] = {"model": "llama_3_8b", "isl": 1024.0, "concurrency": 1.0}
    captured, eager = (_ttft(ROW, "profiles/hopper", captured_tokens=tokens, **short) for tokens in (2048, None))
    assert captured < eager


# Rows that cannot have run.


def test_weights_above_all_memory_are_refused() -> None:
    """Llama 3 70B in 16 bits has 141 GB, and one H100 has 79.6 GiB."""
    reason = _one(weights=None, tp=1, accelerators=1).skipped
    assert reason == "cannot have run: weights need 141.1 GB of the 85.5 GB there are"
    assert _one(weights=None, tp=2, accelerators=2).skipped == ""


def test_waiting_for_longer_than_all_requests_take_one_after_the_other_is_refused() -> None:
    """32 requests of 200 tokens at 4 ms take less than 400 s, prompts included."""
    seconds = _one().measurement.osl or 0.0
    refused = _one(ttft_seconds=400.0, tpot_seconds=0.004)
    assert refused.skipped.startswith(
        "cannot have run: 400 s to the first token is longer than all 32 requests take one"
    )
    assert refused.tpot_seconds is None
    assert _one(ttft_seconds=31.0 * seconds * 0.004, tpot_seconds=0.004).skipped == ""
