"""Speculative servers in the engine model: rounds of their draft length, and published accepted tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inference_econ.engine import Speculation, rounds
from inference_econ.errors import InputError
from inference_econ.extras.servers import Measurement
from inference_econ.extras.servers.prediction import predict as deployed
from inference_econ.extras.servers.prediction.predict import assumed_rounds, head_weights, predict, speculation_of
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import Assumptions, catalog
from tests.measured import measurement
from tests.reading import present

#: DeepSeek-R1 in NVFP4 on eight B200s, one request at a time.
ROW = measurement(
    source="", engine="trtllm", engine_version="", model="deepseek_v3_nvfp4", hardware="b200", dp=1, pp=1, ep=1,
    weights=None, concurrency=1.0, speculation="MTP3", tokens_per_round=2.4,
)  # fmt: skip


def test_tpot_alone_is_a_round_over_its_tokens() -> None:
    (found,) = predict([ROW], lambda _: catalog.assumptions("deployable"))
    service, _ = deployed.instance([ROW], catalog.assumptions("deployable"))
    fixed = Speculation.fixed("mtp", 3, 2.4, weights="bf16")
    assert service.speculation == fixed
    plans = replace(service.plans, batch=np.ones(1))
    seconds = float(rounds(service.setup, plans, fixed).seconds[0, 3])
    assert found.tpot_seconds == pytest.approx(seconds / 2.4, rel=1e-3)


def test_the_head_takes_memory_and_reads_prompts() -> None:
    assumed = catalog.assumptions("deployable")
    with_head, plain = (
        deployed.instance([row], assumed)[0] for row in (ROW, replace(ROW, speculation="none", tokens_per_round=None))
    )
    assert plain.speculation is None
    assert with_head.prefill_seconds > plain.prefill_seconds


def test_rows_with_and_without_speculation_are_not_one_deployment() -> None:
    rows = [ROW, replace(ROW, speculation="none"), replace(ROW, speculation="MTP1", tokens_per_round=1.8)]
    times = [found.tpot_seconds for found in predict(rows, lambda _: catalog.assumptions("deployable"))]
    assert len(set(times)) == 3


def test_a_method_of_any_name_has_a_recorded_draft_length() -> None:
    named = replace(ROW, speculation="2.4 tokens accepted", draft_tokens=3)
    assert speculation_of(named) == speculation_of(ROW)
    eagle = speculation_of(replace(named, model="llama_3_70b", draft_tokens=2))
    assert eagle is not None and eagle.proposer == "eagle" and eagle != speculation_of(ROW)


@pytest.mark.parametrize("text", ["none", "unrecorded"])
def test_plain_servers_have_no_speculation(text: str) -> None:
    assert speculation_of(replace(ROW, speculation=text)) is None


@pytest.mark.parametrize(("version", "exposed"), [("0.5.9", (1.3e-3, 1e-4)), ("0.5.12", (0.0, 0.0))])
def test_scripts_that_overlapped_no_rounds_leave_the_host_exposed(version: str, exposed: tuple[float, float]) -> None:
    found = present(speculation_of(replace(ROW, engine="sglang", engine_version=version, speculation="MTP2")))
    assert found.host_seconds == pytest.approx(exposed)


def test_an_eagle_head_has_the_format_of_its_target() -> None:
    found = speculation_of(replace(ROW, speculation="EAGLE3-2"))
    assert found == Speculation.fixed("eagle", 2, 2.4)


@pytest.mark.rows
def test_what_is_not_known_is_skipped_with_the_reason(changes: dict[str, object], message: str) -> None:
    row = replace(ROW, **changes)  # type: ignore[arg-type]
    (found,) = predict([row], lambda _: catalog.assumptions("deployable"))
    assert found.tpot_seconds is None
    with pytest.raises(InputError, match=message):
        raise InputError(found.skipped)


def test_heads_of_checkpoints_in_four_bits_have_sixteen() -> None:
    assert head_weights("deepseek_v3_nvfp4", None) == "bf16"
    assert head_weights("deepseek_v3", "nvfp4") == "bf16"
    assert head_weights("deepseek_v3", None) is None


@pytest.mark.rows
def test_unrecorded_values_come_from_recipes(changes: dict[str, object], expected: list[Any], assumed: str) -> None:
    row = replace(ROW, **changes)  # type: ignore[arg-type]
    found = present(speculation_of(row))
    gained = float(expected_tokens_by_position(found.acceptance))
    assert [str(found.proposer), found.longest] == expected[:2]
    assert gained == pytest.approx(expected[2])
    assert found.shortest == found.longest
    assert assumed_rounds(row) == assumed


def test_predictions_say_what_they_took_from_recipes() -> None:
    row = replace(ROW, speculation="MTP", tokens_per_round=None)
    named, taken = predict([replace(ROW, tokens_per_round=1.0 + 0.9 * (1.0 + 0.53 * 1.44)), row], _deployable)
    assert taken.tpot_seconds == pytest.approx(named.tpot_seconds)
    assert (named.rounds, taken.rounds) == ("", assumed_rounds(row))
    assert "recipe of trtllm" in taken.rounds


def _deployable(_: Measurement) -> Assumptions:
    return catalog.assumptions("deployable")
