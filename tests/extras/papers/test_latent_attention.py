"""Latent attention of DeepSeek-V2: the table of madsys-dev's notes, and the best variant by load."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError, SpecError
from inference_econ.extras.papers import latent_attention
from inference_econ.extras.papers.study_kinds import LatentVariantsAsk
from inference_econ.inputs import Scenario, catalog
from inference_econ.report.questions import figures
from inference_econ.studies.results import Result
from inference_econ.studies.scenario import run
from tests.reading import of, only

#: Sustained rates of an A100 with 40 GB under ``deployable``: 70 % of 312 TFLOP/s, 75 % of 1555 GB/s.
FLOPS, BANDWIDTH = 0.7 * 312e12, 0.75 * 1555e9
#: Rates of dense products, which have separate kernels (``assumptions/products/ampere``), decompression included; 62.1%
#: of the shorter of arithmetic and traffic is hidden.
PRODUCT_FLOPS, PRODUCT_BANDWIDTH, SHOWN = 0.807 * 312e12, 0.841 * 1555e9, 1 - 0.621
#: A layer's attention: down, up and output projections of DeepSeek-V2, in elements.
WEIGHTS = 5120 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 5120

#: Places of tables. Measurements come first, on two chips.
NOTES, BY_CONTEXT, VERIFIED, BREAK_EVEN = 1, 3, 4, 5
#: Changes that make the scenario fast.
SMALL: dict[str, Any] = {"whole_step": None, "contexts": (256,), "batches": (1,), "drawn_batches": None}


@pytest.fixture(scope="module")
def result() -> Result:
    return run("seeds/mla_notes")


@pytest.fixture(scope="module")
def asked() -> LatentVariantsAsk:
    return of(LatentVariantsAsk, catalog.scenario("seeds/mla_notes").ask)


def test_a_wrong_number_would_be_told(asked: LatentVariantsAsk) -> None:
    wrong = asked.rows[0].replace(printed={"kB": "81.93"})
    answer = latent_attention.compare_latent_attention(asked.replace(rows=(wrong,), **SMALL))
    (cell,) = answer.tables[0].cells("item")
    assert not cell.match
    assert cell.note == "ours is 81.92, +0.0 % of the printed value"


def test_times_are_those_of_the_arithmetic_and_traffic_of_one_layer(result: Result) -> None:
    by_context = {row.names: row.values for row in result.tables[BY_CONTEXT].rows}
    # Cost of one more token of context, from the numbers of the notes: 81.92 kB are read. 33.55 MFLOP are computed,
    # which hide part of 1.152 kB, and keys and values of two bytes are written and read. 0.28 MFLOP take longer than
    # 1.152 kB.
    slopes = (
        81_920 / BANDWIDTH,
        33_554_432 / PRODUCT_FLOPS + SHOWN * 1_152 / BANDWIDTH + 2 * 81_920 / BANDWIDTH,
        max(278_528 / FLOPS, 1_152 / BANDWIDTH),
    )
    for (first, second), batch in (((1024, 65536), 1), ((1024, 16384), 8)):
        before, after = by_context[batch, first], by_context[batch, second]
        for variant, slope in enumerate(slopes):
            low, high = of(float, before[variant]), of(float, after[variant])
            assert high - low == pytest.approx(1e6 * batch * (second - first) * slope, rel=1e-9)
    # With a small cache, the step reads the weights and launches some kernels.
    shortest = of(float, by_context[1, 1024][2])
    read = 2 * WEIGHTS / PRODUCT_BANDWIDTH
    assert read < shortest * 1e-6 < read + 100e-6


def test_the_order_that_was_measured(result: Result) -> None:
    """CD is faster than CC for one sequence and for 32, and absorbed projections are faster than both."""
    both = 0
    for timed in (result.tables[BY_CONTEXT], result.tables[-1]):
        for row in timed.rows:
            cached, step, absorbed, fastest = row.values
            assert fastest == "fused"
            for other in (cached, step):
                assert isinstance(other, str) or (isinstance(absorbed, float) and absorbed < other)
            if isinstance(cached, float) and isinstance(step, float):
                both += 1
                assert cached < step
    assert both > 10


def test_implementations_of_the_notes(result: Result) -> None:
    """Copies cost time and memory; multiplied-out projections cost most with a small cache."""
    timed = result.tables[NOTES]
    assert timed.columns == ("ours, us", "measured, us", "measured / ours")
    ours = {row.names: row.values[0] for row in timed.rows}
    absorbed = {row.names: row.values[2] for row in result.tables[BY_CONTEXT].rows}
    lost = []
    for batch, context in [(b, c) for b in (1, 32) for c in (1024, 4096, 16384, 65536)]:
        copied = ours["A_CC", batch, context]
        elided, multiplied = (of(float, ours[name, batch, context]) for name in ("A_CC_ME", "AM_CC_ME"))
        fused = of(float, ours["fused", batch, context])
        assert fused == absorbed[batch, context]
        assert elided > fused
        lost.append(multiplied / elided)
        assert copied == "does not fit" or (isinstance(copied, float) and copied > 1.8 * elided)
    assert [value for names, value in ours.items() if names[0] == "A_CC"].count("does not fit") == 2
    assert min(lost) > 1
    assert lost[:4] == sorted(lost[:4], reverse=True)


def test_times_beside_what_the_notes_measured(result: Result) -> None:
    """Their decompressed cache takes our predicted time; variants that write scores and copies take longer."""
    measured = {row.names: row.values for row in result.tables[NOTES].rows}
    # Means of two files: 377.5 and 379.6; 15,490 and 15,310 us.
    assert measured["CD", 1, 1024][1] == pytest.approx(378.55)
    assert measured["A_CC_ME", 32, 4096][1] == pytest.approx(15_400)
    quotients = {
        name: [values[2] for names, values in measured.items() if names[0] == name and isinstance(values[2], float)]
        for name in ("CD", "CC", "A_CC", "A_CC_ME", "AM_CC_ME")
    }
    assert {name: len(values) for name, values in quotients.items()} == {
        "CD": 6, "CC": 6, "A_CC": 6, "A_CC_ME": 8, "AM_CC_ME": 8
    }  # fmt: skip
    assert all(0.85 < value < 1.15 for value in quotients["CD"])
    assert all(1.2 < value < 1.75 for name in ("CC", "A_CC") for value in quotients[name])
    alone, together = quotients["A_CC_ME"][:4], quotients["A_CC_ME"][4:]
    assert all(1.2 < value < 2.2 for value in alone)
    assert all(2.2 < value < 3.5 for value in together)
    for how, values in measured.items():
        if isinstance(values[0], str):
            assert values[1:] == ("-", "-"), how


def test_what_does_not_fit_is_not_timed(result: Result) -> None:
    # 90 % of 40 GiB less a workspace for 8192 tokens: 4 x 5120 elements of two bytes each.
    usable = 0.9 * 40 * 2**30 - 8192 * 4 * 5120 * 2 - 2 * WEIGHTS
    for row in result.tables[BY_CONTEXT].rows:
        batch, context = (of(int, name) for name in row.names)
        # CD stores its cache, CC the decompressed one.
        for value, kilobytes in zip(row.values[:3], (81.92, 81.92 + 1.152, 1.152), strict=True):
            fits = batch * context * kilobytes * 1e3 <= usable
            assert (value != "does not fit") is fits, (row.names, kilobytes)
    assert any("does not fit" in row.values for row in result.tables[-1].rows)


def test_decompression_pays_from_many_new_tokens_on(result: Result) -> None:
    per_token, cached, absorbed = 33_554_432, 81_920, 278_528
    for row in result.tables[BREAK_EVEN].rows:
        context = only(int, row.names)
        # Arithmetic alone: n (C + (n - 1) / 2) tokens attended to, C decompressed.
        fewest = next(
            n for n in range(1, 1000) if (absorbed - cached) * n * (context + (n - 1) / 2) >= per_token * context
        )
        assert row.values[0] == fewest

        def seconds(n: int, variant: str, context: int = context) -> float:
            attended = context + (n - 1) / 2
            if variant == "absorbed":
                return max(absorbed * n * attended / FLOPS, 1_152 * attended / BANDWIDTH)
            if variant == "decompressed":
                return max(cached * n * attended / FLOPS, 81_920 * attended / BANDWIDTH)
            attention = max(cached * n * attended / FLOPS, 2 * 81_920 * context / BANDWIDTH)
            return per_token * context / PRODUCT_FLOPS + SHOWN * 1_152 * context / BANDWIDTH + attention

        for column, variant in ((1, "per step"), (2, "decompressed")):
            value = of(float, row.values[column])
            # Launches of the further kernels move it by a token or so.
            quicker = next(n for n in range(1, 5000) if seconds(n, variant) <= seconds(n, "absorbed"))
            assert value == pytest.approx(quicker, abs=max(3, 0.06 * quicker))
    # The number that is often quoted.
    assert result.tables[BREAK_EVEN].rows[-1].values[0] == 171 == math.ceil(per_token / (absorbed - cached))


def test_drafts_are_short_enough_for_absorbed_projections_and_chunks_of_prompts_are_not(result: Result) -> None:
    best = {row.names[0]: row.values[3] for row in result.tables[VERIFIED].rows}
    assert [best[new] for new in (1, 4, 16)] == ["fused"] * 3
    assert [best[new] for new in (64, 512, 2048)] == ["CD"] * 3
    for row in result.tables[VERIFIED].rows:
        step, absorbed = (of(float, value) for value in row.values[1:3])
        if isinstance(row.names[0], int) and row.names[0] >= 256:
            assert step < absorbed


def test_measured_points_have_the_colour_of_their_line(result: Result) -> None:
    places = figures.draw(result).axes
    lines = result.charts[0].lines
    colours = {line.label: it.get_color() for line, it in zip(lines, places[0].lines, strict=False)}
    assert all(colours[line.label] == colours[line.beside] for line in lines if line.beside)
    for axes, chart in zip(places, result.charts, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        for line, drawn in zip(chart.lines, axes.lines, strict=False):
            assert list(line.y) == pytest.approx(list(drawn.get_ydata()), nan_ok=True)  # type: ignore[arg-type]


def test_whole_steps_can_be_left_out_and_all_batches_drawn(asked: LatentVariantsAsk) -> None:
    small = asked.replace(whole_step=None, drawn_batches=None, batches=(1, 2), contexts=(64, 128))
    answer = latent_attention.compare_latent_attention(small)
    assert len(answer.tables) == 6
    assert [chart.title[-7:] for chart in answer.charts[:4]] == ["batch 1", "batch 1", "batch 2", "batch 2"]
    assert len(answer.basis) == 2
    # Without measured times, one chip.
    alone = latent_attention.compare_latent_attention(small.replace(measured=None))
    assert (len(alone.tables), len(alone.charts), len(alone.basis)) == (5, 3, 1)


def test_a_variant_may_never_win(asked: LatentVariantsAsk, tmp_path: Path) -> None:
    # For such a narrow latent, keys and values per head of the latent cost less than the decompressed ones.
    path = tmp_path / "narrow.yaml"
    text = catalog.locate("models", "deepseek_v2").read_text(encoding="utf-8")
    path.write_text(text.replace("kv_rank: 512", "kv_rank: 64"), encoding="utf-8")
    small = asked.replace(**SMALL)
    (row,) = latent_attention.compare_latent_attention(small.replace(model=str(path))).tables[BREAK_EVEN].rows
    assert row.values == ("never", "never", "never")


def test_what_does_not_fit_breaks_even_nowhere(asked: LatentVariantsAsk) -> None:
    huge = asked.verification.replace(batch=100_000)
    small = asked.replace(**SMALL, verification=huge)
    answer = latent_attention.compare_latent_attention(small)
    (row,) = answer.tables[BREAK_EVEN].rows
    assert row.values[1:] == ("does not fit", "does not fit")
    assert answer.charts[-1].marks == {}


@pytest.mark.rows
def test_what_cannot_be_compared_is_refused(asked: LatentVariantsAsk, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        latent_attention.compare_latent_attention(asked.replace(**changes))


def test_whole_steps_must_divide(asked: LatentVariantsAsk) -> None:
    assert asked.whole_step is not None
    uneven = asked.replace(**{**SMALL, "whole_step": asked.whole_step.replace(tp=3, batches=(9,))})
    with pytest.raises(InputError, match=r"batch 9 of DeepSeek-V2: heads, layers, experts or widths do not divide"):
        latent_attention.compare_latent_attention(uneven)


def test_such_a_scenario_has_no_other_table() -> None:
    spec = catalog.scenario("seeds/mla_notes")
    other = {"point": "fastest", "columns": [{"key": "batch", "title": "batch"}]}
    with pytest.raises(SpecError, match=r"of the kind 'latent_variants' has its own tables; leave 'table' out"):
        spec.replace(table=other)


def test_it_cannot_be_a_panel_of_another_figure(tmp_path: Path) -> None:
    path = tmp_path / "panels.yaml"
    path.write_text("name: P\nask: {kind: panels, scenarios: [seeds/mla_notes]}\nsources: {}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a panel shows frontiers, and it is of the kind 'latent_variants'"):
        run(str(path))
    assert isinstance(catalog.scenario(str(path)), Scenario)
