"""Traces, the workloads that are fitted to them, and simulations of both."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.inputs import spec_text
from inference_econ.serving import Changing, Gamma, Service, arrivals_of, as_poisson, loaded, needs_simulation
from inference_econ.serving.simulation import simulator
from tests.reading import present

_TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
_HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
Rows = Sequence[tuple[float, int, int]]
Written = Callable[[Rows], ie.TraceProfile]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a function that writes a trace of requests: arrival time, prompt and output length."""

    def trace(rows: Rows) -> ie.TraceProfile:
        lines = "".join(f"{seconds!r},{isl},{osl}\n" for seconds, isl, osl in rows)
        (tmp_path / "trace.csv").write_text(_HEAD + lines)
        return ie.trace(tmp_path / "trace.csv")

    return trace


def _service(requests: ie.Requests) -> Service:
    setup = ie.Setup.of("llama_3_8b", "h100_sxm", engine="vllm")
    return ie.layouts(setup, requests, ie.Space(ie.Pins(tp=1))).service(0)


def _poisson(count: int, rate: float, seed: int = 0) -> list[tuple[float, int, int]]:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(1.0 / rate, count))
    isl, osl = (np.rint(random.lognormal(mean, 0.8, count) + 1).astype(int) for mean in (6.5, 4.0))
    return [(float(time), int(prompt), int(answer)) for time, prompt, answer in zip(times, isl, osl, strict=True)]


def test_poisson_arrivals_are_told(written: Written) -> None:
    profile = written(_poisson(20_000, 5.0))
    assert profile.rate == pytest.approx(5.0, rel=0.03)
    assert profile.gap_scv == pytest.approx(1.0, rel=0.05)
    assert profile.dispersion == {
        1: pytest.approx(1.0, rel=0.1),
        10: pytest.approx(1.0, rel=0.2),
        60: pytest.approx(1, rel=0.4),
    }
    assert profile.traffic.arrivals.scv == pytest.approx(1.0, rel=0.2)
    assert profile.traffic.arrivals.rate == pytest.approx(5.0, rel=0.03)


def test_bursts_are_told_from_rates(written: Written) -> None:
    quiet, busy = _poisson(3_000, 1.0), _poisson(12_000, 4.0, seed=1)
    shift = quiet[-1][0]
    arrivals = written([*quiet, *((time + shift, isl, osl) for time, isl, osl in busy)]).traffic.arrivals
    assert arrivals.scv == pytest.approx(1.0, rel=0.2)
    assert np.mean(arrivals.rates[:40]) == pytest.approx(1.0, rel=0.1)
    assert np.mean(arrivals.rates[-40:]) == pytest.approx(4.0, rel=0.1)
    crowds = written([(time, isl, osl) for time, isl, osl in _poisson(2_000, 1.0) for _ in range(5)])
    assert crowds.traffic.arrivals.scv == pytest.approx(5.0, rel=0.2)


def test_days_are_folded_into_one(written: Written) -> None:
    day = [
        (24 * 3600.0 * each + 3600.0 * (hour + step / (60 + hour)), 100, 10)
        for each in range(3)
        for hour in range(24)
        for step in range(60 + hour)
    ]
    arrivals = written(day).traffic.arrivals
    assert arrivals.interval == 3600.0
    assert arrivals.rates == pytest.approx([(60 + hour) / 3600 for hour in range(24)], rel=0.03)


def test_a_fitted_table_keeps_the_means(written: Written) -> None:
    rows = _poisson(5_000, 5.0)
    requests = written(rows).traffic.requests
    assert requests.isl.mean == pytest.approx(np.mean([isl for _, isl, _ in rows]), rel=1e-3)
    assert requests.osl.mean == pytest.approx(np.mean([osl for *_, osl in rows]), rel=1e-3)
    assert requests.isl.scv == pytest.approx(np.var([isl for _, isl, _ in rows]) / requests.isl.mean**2, rel=0.2)


def test_lengths_that_know_of_each_other_are_kept(written: Written) -> None:
    profile = written([(float(place), 100 + 9 * place, 1_000 - 9 * place) for place in range(100)])
    assert profile.correlation == pytest.approx(-1.0)
    requests = profile.traffic.requests
    assert all(isl + osl == pytest.approx(1_100, abs=1) for isl, osl, *_ in present(requests.table).rows)
    assert requests.mean_context < requests.isl.mean + requests.osl.mean * (1 + requests.osl.scv) / 2


def test_prefixes_that_repeat_are_counted() -> None:
    profile = ie.trace(_TRACES / "mooncake.jsonl")
    assert profile.reused == pytest.approx(4 / 10)
    assert [row.tolist() for row in profile.first] == [[1500, 50, 0], [1400, 60, 1024], [1024, 70, 1023], [600, 80, 0]]
    fitted = profile.traffic
    assert present(fitted.reuse).share == 0.4
    assert fitted.requests.cached == pytest.approx((1024 + 1023) / 4)


def test_a_fitted_traffic_is_read_again(tmp_path: Path) -> None:
    fitted = ie.trace(_TRACES / "mooncake.jsonl").traffic
    (tmp_path / "mine.yaml").write_text(spec_text(fitted))
    assert ie.traffic(tmp_path / "mine.yaml") == fitted


def test_broken_lines_are_counted_and_the_first_named() -> None:
    profile = ie.trace(_TRACES / "azure.csv")
    assert (profile.requests, profile.broken) == (4, 2)
    assert profile.mistakes[0].startswith("line 4: ")


def test_a_file_of_broken_lines_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(_HEAD + "noon,1,1\n-3,5,5\n")
    with pytest.raises(ie.InputError, match="none of its 2 lines is a request of the form Azure: line 2: 'noon' is no"):
        ie.trace(tmp_path / "trace.csv")


def test_sessions_without_a_clock_are_not_played() -> None:
    profile = ie.trace(_TRACES / "weka.json")
    assert profile.rate is None
    assert profile.sessions is not None
    assert (profile.sessions.count, profile.sessions.most_turns) == (1, 4)
    assert profile.reused == pytest.approx(6 / 12)
    with pytest.raises(ie.InputError, match="cannot be replayed, because it has no different arrival times"):
        _ = profile.replay


def test_memory_does_not_grow_with_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference_econ.answers.traffic.KEPT", 1_000)
    peaks = []
    for count in (5_000, 20_000):
        path = tmp_path / f"{count}.csv"
        path.write_text(_HEAD + "".join(f"{place / 100},{place % 900 + 1},9\n" for place in range(count)))
        tracemalloc.start()
        assert ie.trace(path).requests == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_trace_is_played_as_it_came(written: Written) -> None:
    rows = [(60.0 * place, 2_000, 20) for place in range(4)] + [(240.0, 2_000, 20)] * 40 + [(900.0, 2_000, 20)]
    replay = written(rows).replay
    one = _service(replay)
    rate = present(present(replay.arrivals).rate)
    seen = simulator.rehearse(one, rate, arrivals=arrivals_of(replay, 1.0))
    crowd = seen.ttft[np.isclose(seen.arrival, np.median(seen.arrival))]
    assert crowd.size > 30
    assert crowd.max() > 4 * crowd.min()
    assert needs_simulation(one, loaded(one, rate, arrivals=as_poisson(replay, 1.0)))


def _ideal(requests: ie.Requests, size: int) -> float:
    """Return the share of prompt tokens that an unlimited cache with its own block size finds."""
    there, found, total = dict[int, int](), 0, 0
    for blocks, isl in zip(requests.blocks, (int(row[0]) for row in requests.table.rows), strict=True):  # type: ignore[union-attr]
        ends = [min(512 * (place + 1), isl) // size - 512 * place // size for place in range(len(blocks))]
        common = [min(there.get(block, 0), end) for block, end in zip(blocks, ends, strict=True)]
        whole = next((place for place, end in enumerate(ends) if common[place] < end), len(ends) - 1)
        found += min(size * sum(common[: whole + 1]), (isl - 1) // size * size)
        total += isl
        there |= {block: max(there.get(block, 0), end) for block, end in zip(blocks, ends, strict=True)}
    return found / total


def test_blocks_of_a_trace_are_found_as_far_as_the_memory_has_them(tmp_path: Path) -> None:
    """Every prompt token is computed or found. With enough memory, everything that the trace repeats is found."""
    lines, order = [], [(turn, user) for turn in range(4) for user in range(60)]
    for place, (turn, user) in enumerate(order):
        shared, own = [0, 1], [100 * user + number for number in range(2, 4 + turn)]
        # The last block is full in some turns only.
        tokens = 512 * (4 + turn) - 200 * (user % 3)
        request = {"timestamp": 4000 * place, "input_length": tokens, "output_length": 8, "hash_ids": shared + own}
        lines.append(json.dumps(request))
    (tmp_path / "trace.jsonl").write_text("\n".join(lines))
    replay = ie.trace(tmp_path / "trace.jsonl").replay
    one, arrivals = _service(replay), arrivals_of(replay, 1.0)
    assert replay.arrivals is not None and replay.arrivals.rate is not None
    stream = simulator.stream_of(replay, replay.arrivals.rate, arrivals, 0, block_tokens=simulator.block_tokens(one))
    assert stream.isl.mean() == replay.isl.mean
    assert [sum(count for _, count in parts) for parts in present(stream.parts)] == (stream.isl // 16).tolist()
    server, shares = simulator.rehearsing(one), []
    for blocks in (20_000, 500):
        few = replace(server, cache=replace(present(server.cache), blocks=blocks))
        seen = simulator.play(one, few, stream, warm_up=0.0, cool_down=0.0)
        assert seen.preemptions == 0
        assert seen.tokens_read + seen.found_tokens["HBM"].sum() == stream.isl.sum()
        shares.append(seen.hit_rates["HBM"])
    assert shares[0] == pytest.approx(_ideal(replay, 16))
    assert shares[0] > shares[1] > 0.0
    # Instances that share it get whole conversations, and find nearly as much.
    rate = replay.arrivals.rate
    for instances in (1, 3):
        seen = simulator.rehearse(one, rate / instances, arrivals=arrivals)
        assert seen.requests_per_second == pytest.approx(rate / instances, rel=0.1)
        assert seen.hit_rates["HBM"] == pytest.approx(shares[0], rel=0.15)


def test_several_instances_share_the_requests_of_a_trace(written: Written) -> None:
    replay = written([(float(place), 100 + place % 2, 5) for place in range(2_000)]).replay
    half = simulator.stream_of(replay, 0.5, arrivals_of(replay, 1.0), 10)
    assert half.isl.tolist() == [100] * 1_000
    assert half.arrival[-1] == pytest.approx(1_998.0, rel=1e-3)


@pytest.mark.parametrize("name", ["azure_code", "azure_conversation", "mooncake_conversation", "mooncake_synthetic"])
def test_what_an_instance_completes_is_that_of_the_means(name: str) -> None:
    """Frontiers and full-load prices use means, so the same requests are simulated at 1.3 times the rate."""
    one = _service(ie.traffic(name).requests)
    seen = simulator.rehearse(one, 1.3 * one.most_requests_per_second, arrivals=Gamma(), count=3_000)
    assert seen.requests_per_second == pytest.approx(one.most_requests_per_second, rel=0.15)


def test_a_traffic_is_played_with_its_bursts() -> None:
    """Simulate the Azure code trace at its rate:

    1% of the requests wait for more than 37 s, or 0.8 s with Poisson arrivals.
    """
    setup = ie.Setup.of("llama_3_1_70b", "h100_sxm", weights="fp8", engine="vllm")
    requests = ie.traffic("azure_code").requests
    curve = ie.load(ie.layouts(setup, requests, ie.Space(ie.Pins(tp=4))), [2.52])
    assert curve.points[0].load.ttft_seconds["p99"] > 10.0
    assert present(curve.bursts).other.ttft_seconds["p99"] < 1.5


def test_a_part_of_a_traffic_is_less_bursty() -> None:
    whole = Changing(50.0, (1.0, 3.0), 100.0)
    times = {rate: whole.times(20_000, rate, np.random.default_rng(0)) for rate in (2.0, 0.2)}
    for rate, seen in times.items():
        assert seen.size / seen[-1] == pytest.approx(rate, rel=0.1)
        in_second = np.count_nonzero(seen % 200.0 > 100.0) / seen.size
        assert in_second == pytest.approx(0.75, abs=0.06)
    counts = {rate: np.bincount((seen / (20.0 / rate)).astype(int)) for rate, seen in times.items()}
    assert np.var(counts[0.2]) < 0.5 * np.var(counts[2.0])


def test_contexts_beyond_the_model_are_refused(written: Written) -> None:
    requests = written([(0.0, 100, 10), (1.0, 200_000, 10)]).replay
    with pytest.raises(ie.InputError, match=r"longest request has 200,010 tokens, but .* supports [0-9,]+"):
        _service(requests)


def test_pools_do_not_compete_for_bursts() -> None:
    setup, requests = ie.Setup.of("llama_3_8b", "h100_sxm"), ie.traffic("azure_conversation").requests
    space = ie.Space(max_accelerators=1)
    assert all(candidate.pools is None for candidate in ie.candidates(setup, requests, space, speculation=None))
    with pytest.raises(ie.InputError, match="is not supported for disaggregated serving"):
        ie.candidates(setup, requests, space, speculation=None, arrangement="disaggregated")
