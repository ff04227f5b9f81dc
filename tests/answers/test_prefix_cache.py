"""KV-cache offload tiers: seconds, dollars, break-even points, and the tokens that conversations store."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_econ.answers import prefix_cache as offload
from inference_econ.answers.prefix_cache import Conversation, Offloading, reuse
from inference_econ.engine import Pins, request_seconds
from inference_econ.errors import InputError
from inference_econ.inputs import HBM, HardwareSpec, Requests, catalog
from inference_econ.report.questions.prefix_cache import offload_table
from tests import asking
from tests.reading import present

TIERS = [catalog.tier(name) for name in catalog.part_names("tiers")]
TALK = Conversation(8, 300, 400, system_tokens=1000)


def found(
    prefix: float = 3000,
    new: float = 500,
    *,
    model: str = "llama_3_8b",
    hardware: HardwareSpec | str = "h100_sxm",
    pins: Pins | None = None,
    engine: str | None = None,
    **options: Any,
) -> Offloading:
    settings = {"pins": pins or Pins(tp=1, accelerators=1), "assumptions": "deployable", "engine": engine}
    one = asking.offer(model, hardware, Requests(prefix + new, 300), **settings)
    return offload.offload(one, TIERS, prefix_tokens=prefix, **options)


@cache
def usual() -> Offloading:
    return found()


def test_reading_takes_the_bytes_over_the_link_to_the_host() -> None:
    one = usual()
    hbm, dram, ssd = one.readings
    # 32 layers, 8 KV heads of 128, keys and values in 16 bits, in blocks of 16 tokens.
    assert one.bytes_per_prefix == math.ceil(3000 / 16) * 16 * 32 * 2 * 8 * 128 * 2
    assert dram.seconds == pytest.approx(20e-6 + one.bytes_per_prefix / (0.8 * 64e9))
    assert ssd.seconds == pytest.approx(100e-6 + one.bytes_per_prefix / 6.9e9)
    assert (hbm.tier, hbm.seconds, hbm.break_even_tokens, hbm.dollars_per_million) == (HBM, 0.0, 1.0, 0.0)
    assert dram.dollars_per_million == pytest.approx(one.dollars_per_second * dram.seconds / 3000 * 1e6)
    assert (dram.capacity_bytes, ssd.capacity_bytes) == (256e9, 3.84e12)


def test_computing_costs_what_the_prefix_adds_to_a_prefill() -> None:
    one = usual()
    whole, rest = (one.service.reading(tokens, cached) for tokens, cached in ((3500, 0), (500, 3000)))
    assert one.computing_seconds == pytest.approx(float(whole.seconds[0] - rest.seconds[0]))
    price = one.dollars_per_second / 3000 * 1e6
    assert one.computing_dollars_per_million == pytest.approx(
        (one.service.full_prefill_seconds(3500, 0) - one.service.full_prefill_seconds(500, 3000)) * price
    )
    host = request_seconds(one.service.setup, 3000.0) - request_seconds(one.service.setup, 0.0)
    assert one.readings[0].ttft_seconds == pytest.approx(one.ttft_seconds - one.computing_seconds + host)
    for reading in one.readings:
        assert reading.ttft_seconds == pytest.approx(one.readings[0].ttft_seconds + reading.seconds)


def test_chips_that_share_a_cache_read_it_together() -> None:
    alone, together, apart = (
        found(model="llama_3_70b", pins=pins, engine="any")
        for pins in (Pins(tp=4, accelerators=4), Pins(tp=8, accelerators=8), Pins(tp=4, dp=2, accelerators=8))
    )
    rates = [one.readings[1].bytes_per_second for one in (alone, together, apart)]
    assert rates == pytest.approx([4 * 0.8 * 64e9, 8 * 0.8 * 64e9, 4 * 0.8 * 64e9])
    # Only the prefill half of the instance has to wait.
    assert apart.readings[1].dollars_per_million == pytest.approx(alone.readings[1].dollars_per_million)


@settings(max_examples=6, deadline=None)
@given(new=st.floats(1, 3000), rate=st.sampled_from(["2 GB/s", "10 GB/s", "64 GB/s"]))
def test_reading_is_quicker_from_the_break_even_on(new: float, rate: str) -> None:
    chip = catalog.hardware("h100_sxm", changes=[f"host_link_bytes_per_second_one_way={rate}"])
    one = found(2000, new, hardware=chip)
    for reading in one.readings[1:]:
        limit = reading.break_even_tokens
        if math.isinf(limit):
            continue
        lengths = [limit, 2 * limit, 8 * limit]
        lines = offload.curve(one, lengths)
        assert np.all(lines[reading.tier] <= lines["computed"] * (1 + 1e-9))
        if limit > 1:
            before = offload.curve(one, [limit - 1])
            assert before[reading.tier][0] > before["computed"][0]


def test_a_link_that_is_slow_enough_never_pays() -> None:
    chip = catalog.hardware("h100_sxm", changes=["host_link_bytes_per_second_one_way=0.01 GB/s"])
    one = found(hardware=chip)
    assert math.isinf(one.readings[1].break_even_tokens)
    record: Any = one.record()
    assert record["tiers"][1]["break_even_tokens"] is None
    assert offload_table(one).rows[2][6] == "never"


def test_keeping_in_hbm_pays_for_a_while() -> None:
    one = usual()
    hourly = one.dollars_per_second * 3600
    room = one.service.slots * one.service.setup.context * 131072
    assert one.holding_dollars_per_million_hour == pytest.approx(hourly * 1e6 * 131072 / room, rel=0.02)
    kept = one.keeping_seconds / 3600 * one.holding_dollars_per_million_hour
    assert kept == pytest.approx(one.computing_dollars_per_million)


def test_hbm_holds_what_running_requests_leave() -> None:
    quiet, busy = (found(requests_per_second=rate).readings[0].capacity_bytes for rate in (0.1, 5.0))
    assert 0 < busy < quiet
    assert found(requests_per_second=1e6).readings[0].capacity_bytes == 0.0
    saturated = present(found(requests_per_second=1e6, conversation=TALK).readings[0].reuse)
    assert (saturated.lifetime_seconds, saturated.returning) == (0.0, 0.0)


def test_conversations_find_more_where_there_is_more_room() -> None:
    prompt, prefix = offload.prompt(conversation=TALK)
    assert (prompt, prefix) == (1000 + 3.5 * 700 + 300, 1000 + 3.5 * 700)
    one = found(prefix, prompt - prefix, conversation=TALK)
    rates = [reading.reuse.hit_rate for reading in one.readings if reading.reuse is not None]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(prefix / prompt, rel=1e-3)
    for reading in one.readings:
        assert reading.reuse is not None
        needed = reading.reuse.needed_bytes
        assert (reading.reuse.lifetime_seconds == 600.0) == (needed <= reading.capacity_bytes)
    # Room that is short is full.
    hbm = one.readings[0]
    assert hbm.reuse is not None
    stored = TALK.stored_tokens(one.requests_per_second, hbm.reuse.lifetime_seconds) * one.bytes_per_prefix / prefix
    assert stored == pytest.approx(hbm.capacity_bytes)


def test_a_system_prompt_is_always_there() -> None:
    held = reuse(TALK, 10.0, 0.0, 1e5)
    assert held.cached_tokens == 1000.0
    assert held.lifetime_seconds == 0.0


def test_a_hit_rate_is_a_share_of_the_prompt() -> None:
    assert offload.prompt(4000, 0.75) == (4000, 3000)
    assert offload.prompt(4000, 0.0) == (4000, 0)
    nothing = found(0, 1000)
    assert (nothing.computing_seconds, nothing.computing_dollars_per_million) == (0.0, 0.0)
    assert all(reading.seconds == 0.0 for reading in nothing.readings)


@pytest.mark.rows
def test_impossible_hit_rates(isl: float, share: float, message: str) -> None:
    with pytest.raises(InputError) as caught:
        offload.prompt(isl, share)
    assert str(caught.value) == message


def test_a_replica_that_is_dealt_turns_holds_more_and_finds_less() -> None:
    dealt = replace(TALK, replicas=4, routing="round_robin")
    alone, scattered = (reuse(each, 2.0, 1e12, 1e5) for each in (TALK, dealt))
    assert scattered.needed_bytes > alone.needed_bytes
    assert scattered.cached_tokens < alone.cached_tokens
    assert scattered.returning == pytest.approx(alone.returning / 4)
    assert reuse(replace(TALK, replicas=4), 2.0, 1e12, 1e5) == alone
    for wrong, message in (
        ({"replicas": 0}, "replicas must be an integer >= 1, got 0"),
        ({"routing": "random"}, "routing: got 'random'; allowed: prefix_aware, round_robin"),
    ):
        with pytest.raises(InputError, match=message):
            replace(TALK, **wrong)


def test_other_bad_input() -> None:
    one = asking.offer("llama_3_8b", "h100_sxm", Requests(100, 10), assumptions="deployable")
    for prefix in (-1.0, 99.5, 100.0):
        with pytest.raises(InputError, match=r"must leave at least one new token of the prompt \(100\), got"):
            offload.offload(one, TIERS, prefix_tokens=prefix)


def test_tiers_are_no_presets() -> None:
    assert set(catalog.part_names("tiers")) == {"dram", "ssd"}
    assert not [name for name in catalog.names("assumptions") if "tiers" in name]


def test_a_tier_needs_no_registration(tmp_path: Path) -> None:
    text = (catalog.folder("assumptions") / "tiers" / "ssd.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("6.9 GB/s", "13.8 GB/s").replace("local SSD", "two SSDs"), encoding="utf-8")
    one = asking.offer(
        "llama_3_8b", "h100_sxm", Requests(1000, 10), pins=Pins(tp=1, accelerators=1), assumptions="deployable"
    )
    (_, mine) = offload.offload(one, [catalog.tier(str(path))], prefix_tokens=500).readings
    assert (mine.tier, mine.bytes_per_second) == ("two SSDs", 13.8e9)


@pytest.mark.parametrize("name", [name for name in catalog.names("hardware") if "/" not in name])
def test_links_to_hosts_are_one_way_and_slower_than_the_memory(name: str) -> None:
    chip = catalog.hardware(name)
    rate = chip.host_link_bytes_per_second_one_way
    # PCIe 3 x8 at the least, NVLink-C2C at the most.
    assert rate is None or 7e9 < rate <= 450e9 < chip.hbm_bytes_per_second * 2


def test_measured_copies_are_near_what_is_assumed() -> None:
    """Compare host-to-device copies of Azure's benchmarks with the assumption, which is one number for all chips."""
    measured = {"h100_sxm": 51e9, "h200_sxm": 52e9, "a100_sxm_80": 26.28e9, "gb200_nvl72": 201e9}
    for name, rate in measured.items():
        link = present(catalog.hardware(name).host_link_bytes_per_second_one_way)
        assert link * catalog.tier("dram").link_efficiency == pytest.approx(rate, rel=0.11)
