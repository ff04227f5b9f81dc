"""Attention arithmetic: eq. (37) of Erdil (2025), with the head width of its section 4.3."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.formulas.attention import (
    decompression_flop,
    eight_bit_key_bytes,
    grouped_query_flop,
    latent_flop,
    mean_attended,
    mean_attended_in_chunks,
    recurrence_flop,
)
from inference_econ.inputs import LatentAttention

#: Heads, rank of the latent, and widths of keys without and with position and of values: a small MLA.
HEADS, RANK, NOPE, ROPE, VALUE = 4, 24, 8, 6, 10


def test_equation_37_counts_a_multiply_and_an_add_for_scores_and_for_values() -> None:
    heads, head_dim, context = 6, 16, 10
    queries, keys = np.ones((heads, head_dim)), np.ones((context, head_dim))
    # queries x keys, then scores x values: products counted from the shapes that numpy multiplies.
    products = (queries[:, None, :] * keys[None, :, :]).size + (np.ones((heads, context, 1)) * keys[None, :, :]).size
    assert grouped_query_flop(heads, head_dim) * context == 2 * products


def test_section_3_1_latent_attention_without_rotary_part() -> None:
    # 4 c_k h: as in grouped-query attention with heads of the latent's width.
    assert latent_flop(128, 512, 0) == 4 * 128 * 512 == grouped_query_flop(128, 512)


def test_latent_scores_see_the_rotary_part_and_values_do_not() -> None:
    assert latent_flop(128, 512, 64) - latent_flop(128, 512, 0) == 2 * 128 * 64


@given(cached=st.integers(0, 300), new=st.integers(1, 120), limit=st.one_of(st.just(math.inf), st.integers(0, 250)))
def test_attended_tokens_are_the_mean_of_what_each_new_token_sees(cached: int, new: int, limit: float) -> None:
    each = [min(cached + before, limit) for before in range(new)]
    assert mean_attended(cached, new, limit) == pytest.approx(sum(each) / new, rel=1e-12)


@given(st.integers(0, 500), st.integers(1, 100), st.integers(1, 100), st.integers(1, 400))
def test_chunks_of_a_prompt_attend_to_as_much_as_the_whole(cached: int, first: int, second: int, limit: int) -> None:
    whole = (first + second) * mean_attended(cached, first + second, limit)
    chunks = first * mean_attended(cached, first, limit) + second * mean_attended(cached + first, second, limit)
    assert whole == pytest.approx(chunks, rel=1e-12, abs=1e-9)


@given(cached=st.integers(0, 300), new=st.integers(1, 120), chunk=st.integers(1, 90))
def test_attended_tokens_of_a_chunk_are_the_mean_of_what_each_new_token_sees(cached: int, new: int, chunk: int) -> None:
    each = [(cached + before) % chunk for before in range(new)]
    assert mean_attended_in_chunks(cached, new, chunk) == pytest.approx(sum(each) / new, rel=1e-12)


def test_chunks_of_llama_4_by_hand() -> None:
    # A prompt of 20,000 in chunks of 8,192: two full chunks, whose tokens see 4,095.5 others on average, and 3,616 that
    # see 1,807.5.
    mean = (2 * 8192 * 4095.5 + 3616 * 1807.5) / 20_000
    assert mean_attended_in_chunks(0, 20_000, 8192) == pytest.approx(mean, rel=1e-12)


def test_an_index_key_of_deepseek_in_eight_bits() -> None:
    # 128 bytes and one scale of 4.
    assert eight_bit_key_bytes(128) == 132.0
    assert eight_bit_key_bytes(256) == 264.0


def _decompressed(heads: int, nope: int, rope: int, value: int) -> float:
    spec = LatentAttention(
        kind="latent", query_heads=heads, kv_rank=RANK, nope_head_dim=nope, rope_head_dim=rope, value_head_dim=value
    )
    return spec.cache.decompressed_elements


def test_decompressed_attention_is_that_of_as_many_heads_with_keys_and_values() -> None:
    # Each element of a cached key or value is multiplied and added once per new token.
    elements = _decompressed(HEADS, NOPE, ROPE, VALUE)
    assert elements == HEADS * (NOPE + ROPE) + HEADS * VALUE
    assert 2 * _decompressed(64, 128, 0, 128) == grouped_query_flop(64, 128)


def test_absorbed_and_decompressed_attention_give_the_same_output_at_their_costs() -> None:
    """Compute the identity of the variants head by head: q (W c) = (q W) c and a (W c) = (a c) W."""
    draw, context = np.random.default_rng(0), 5
    latent, rotary = draw.normal(size=(context, RANK)), draw.normal(size=(context, ROPE))
    up_key, up_value = draw.normal(size=(HEADS, NOPE, RANK)), draw.normal(size=(HEADS, VALUE, RANK))
    query, turned = draw.normal(size=(HEADS, NOPE)), draw.normal(size=(HEADS, ROPE))
    keys, values = np.einsum("hdc,lc->lhd", up_key, latent), np.einsum("hdc,lc->lhd", up_value, latent)
    scores = np.einsum("hd,lhd->hl", query, keys) + turned @ rotary.T
    absorbed = np.einsum("hd,hdc->hc", query, up_key)
    assert np.allclose(scores, absorbed @ latent.T + turned @ rotary.T)
    assert np.allclose(np.einsum("hl,lhd->hd", scores, values), np.einsum("hc,hdc->hd", scores @ latent, up_value))
    # Per cached token: both variants' products, counted from those shapes.
    assert latent_flop(HEADS, RANK, ROPE) == 2 * HEADS * (RANK + ROPE + RANK)
    assert 2 * _decompressed(HEADS, NOPE, ROPE, VALUE) == 2 * (keys[0].size + HEADS * ROPE + values[0].size)
    assert decompression_flop(HEADS, RANK, NOPE, VALUE) == 2 * (up_key.size + up_value.size)


def test_the_published_notes_on_deepseek_v2() -> None:
    # 128 heads, latent 512, heads of 128 + 64 + 128: 0.28, 0.08 and 33.64 MFLOP per token and layer.
    cached = 2 * _decompressed(128, 128, 64, 128)
    assert (latent_flop(128, 512, 64), cached) == (278_528, 81_920)
    assert decompression_flop(128, 512, 128, 128) + cached == 33_636_352


def test_a_recurrence_multiplies_and_adds_three_times_per_element_of_its_state() -> None:
    assert recurrence_flop(7) == 7 * 3 * 2
