"""Arithmetic of attention: eq. (37) of Erdil (2025), with the head width of its section 4.3."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.formulas.attention import grouped_query_flop, latent_flop


def test_equation_37_counts_a_multiply_and_an_add_for_scores_and_for_values() -> None:
    heads, head_dim, context = 6, 16, 10
    queries, keys = np.ones((heads, head_dim)), np.ones((context, head_dim))
    # queries x keys, then scores x values: products counted from the shapes that numpy multiplies.
    products = (queries[:, None, :] * keys[None, :, :]).size + (np.ones((heads, context, 1)) * keys[None, :, :]).size
    assert grouped_query_flop(heads, head_dim) * context == 2 * products


def test_section_4_3_llama_3_70b() -> None:
    assert grouped_query_flop(64, 128) == 4 * 64 * 128


def test_section_3_1_latent_attention_without_rotary_part() -> None:
    # 4 c_k h: as grouped-query attention whose heads are as wide as the latent.
    assert latent_flop(128, 512, 0) == 4 * 128 * 512 == grouped_query_flop(128, 512)


def test_latent_scores_see_the_rotary_part_and_values_do_not() -> None:
    assert latent_flop(128, 512, 64) - latent_flop(128, 512, 0) == 2 * 128 * 64


@pytest.mark.parametrize("factor", [0.5, 3])
def test_linear_in_heads(factor: float) -> None:
    assert latent_flop(factor * 128, 512, 64) == factor * latent_flop(128, 512, 64)
    assert grouped_query_flop(factor * 64, 128) == factor * grouped_query_flop(64, 128)
