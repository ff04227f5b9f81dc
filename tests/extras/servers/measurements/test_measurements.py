"""Measurements: files of every kind in one form, and a reason for every invalid row."""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from data.measurements.__main__ import columns
from inference_econ.errors import InputError
from inference_econ.extras.servers import Measurement, Skipped, measurements
from inference_econ.extras.servers.measurements import RecordedPool
from inference_econ.extras.servers.prediction import predict
from inference_econ.inputs import catalog
from tests.reading import has_fields, of, only, tables, write_csv

CONFIGS = Path(__file__).parents[3] / "fixtures" / "hf_configs"
SERVING = "id,backend,backend_version,model_path,system,precision,mode,isl,osl,silicon_ttft_ms,silicon_tpot_ms"
LAYOUT = "silicon_concurrency,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size"
POINTS = (
    "id,model,hardware,n_gpus,tp,pp,ep,dp,weight_dtype,kv_dtype,isl,osl,batch_or_concurrency,batch_kind,metric,value,"
    "unit,spec_decode,engine,source_id,quality,notes,tpot_ms_equiv,tier"
)
TABLES: dict[str, dict[str, str]] = tables(Path(__file__))
POINT, SERVED, SHORT, NIGHTLY = (TABLES[name] for name in ("POINT", "SERVED", "SHORT", "NIGHTLY"))


def _read(path: Path, header: str, *rows: dict[str, str]) -> list[Measurement | Skipped]:
    return measurements.read_measurements(write_csv(path, rows, header.split(",")))


def _point(tmp_path: Path, **changes: str) -> Measurement:
    return only(Measurement, _read(tmp_path / "mine.csv", POINTS, {**POINT, **changes}))


def _reason(tmp_path: Path, **changes: str) -> str:
    found = only(Skipped, _read(tmp_path / "mine.csv", POINTS, {**POINT, **changes}))
    assert (found.id, found.dataset) == ("p", "mine")
    return found.reason


def _served(tmp_path: Path, **changes: str) -> Measurement:
    further = "".join(f",{column}" for column in changes if column not in SERVED and column != "source")
    return only(Measurement, _read(tmp_path / "mine.csv", f"{SERVING},{LAYOUT},source{further}", SERVED | changes))


# The shipped files.


@cache
def _shipped() -> tuple[Measurement | Skipped, ...]:
    return tuple(measurements.shipped())


def test_nearly_every_shipped_row_is_a_measurement() -> None:
    every = _shipped()
    assert len(every) == 5644
    reasons = Counter(one.reason.partition(" of a disagg")[0] for one in every if isinstance(one, Skipped))
    assert reasons == {
        "isl is not recorded": 25,
        "the number of accelerators is not recorded": 5,
        "unknown hardware 'AMD MI250'": 3,
        "unknown hardware 'SambaNova SN40L'": 3,
        "tp 72 of an aggregated server on gb200 is the total": 20,
        "about 95 % of the prompts were cached": 8,
        "90 % of the prompts were cached": 5,
        "the server was configured wrongly: prompts wait although it is idle": 7,
        "moe_ep_size must be positive and finite, got 0": 4,
        "moe_tp_size must be positive and finite, got 0": 3,
    }
    for dataset, rows in Counter(one.dataset for one in every if one.dataset != "fresh_2026q4").items():
        measured = sum(isinstance(one, Measurement) and one.dataset == dataset for one in every)
        assert measured / rows > 0.95, dataset


def test_shipped_measurements_are_possible() -> None:
    for one in _shipped():
        if isinstance(one, Measurement):
            assert one.model in catalog.names("models")
            assert one.hardware in catalog.names("hardware")
            for field in dataclasses.fields(one):
                value = getattr(one, field.name)
                least = 0.0 if field.name in ("spread", "cached", "wait_steps", "held_steps") else 1e-300
                assert not isinstance(value, float) or least <= value < 1e7, (one.id, field.name, value)
            if one.tp is not None and one.dp is not None and one.pp is not None:
                assert one.tp * one.dp * one.pp == one.accelerators


def test_a_shipped_server_by_hand() -> None:
    one = of(Measurement, next(one for one in _shipped() if one.id == "dsr1_h200_sglang_fp8_agg_1024x1024_c4_cfg81"))
    assert (one.engine, one.engine_version, one.model, one.hardware) == ("sglang", "0.5.9", "deepseek_v3", "h200_sxm")
    assert (one.accelerators, one.tp, one.dp, one.pp, one.ep) == (8, 8, 1, 1, 1)
    # Nominally 1024; InferenceX draws lengths between 0.8 and 1.0 of that.
    assert (one.isl, one.osl, one.load, one.concurrency) == (921.6, 921.6, "concurrency", 4.0)
    assert one.weights is None  # as published: the model is in fp8
    assert one.ttft_seconds == pytest.approx(0.2599114292766899, rel=1e-12)
    assert one.tpot_seconds == pytest.approx(0.01029225441516629, rel=1e-12)
    assert one.mean_context == pytest.approx(1382.4, rel=1e-12)


def test_an_inferencemax_run_by_hand() -> None:
    one = of(Measurement, next(one for one in _shipped() if one.dataset == "inferencemax_aggregated"))
    assert (one.engine, one.hardware, one.accelerators, one.tp, one.ep, one.speculation) == (
        *("sglang", "h200_sxm", 8, 8, 1, "none"),
    )
    # Lengths between 0.8 and 1.0 of the nominal 1024; the measured times agree: 926 tokens.
    assert one.isl == one.osl == pytest.approx(921.6, rel=1e-12)
    assert one.request_seconds is not None
    assert one.tpot_seconds is not None
    assert one.ttft_seconds is not None
    assert 1 + (one.request_seconds - one.ttft_seconds) / one.tpot_seconds == pytest.approx(921.6, rel=0.01)
    assert one.output_tokens_per_second_per_accelerator == pytest.approx(39.408806500398576, rel=1e-12)


def test_a_server_under_poisson_load_by_hand() -> None:
    one = of(Measurement, next(one for one in _shipped() if one.dataset == "poisson_load_a100"))
    assert (one.engine, one.model, one.hardware, one.weights) == ("vllm", "llama_3_8b", "a100_pcie_80", "fp16")
    assert (one.load, one.requests_per_second, one.concurrency) == ("rate", 100.0, None)
    assert one.tpot_seconds == pytest.approx(0.07971859145686275, rel=1e-12)


def test_disaggregated_servers_have_pools() -> None:
    one = next(one for one in _shipped() if one.id == "dsr1_h200_trtllm_fp8_disagg_1024x1024_c1152_cfg321")
    assert isinstance(one, Measurement)
    assert one.prefill == RecordedPool(workers=1, tp=1, dp=8, pp=1, ep=8, slots=64)
    assert one.decode == RecordedPool(workers=9, tp=1, dp=8, pp=1, ep=8, slots=4096)
    assert (one.accelerators, one.tp) == (80, None)


def test_pools_without_workers_are_those_of_the_same_run() -> None:
    # Another collection has this server without workers and with attention-DP recorded as tp.
    name = "2026_03_25_deepseek_r1_h200_sxm_trtllm_fp8_disagg_1024x1024_c1152_tp8_0_ep8_0_406"
    one = of(Measurement, next(one for one in _shipped() if one.id == name))
    assert one.decode == RecordedPool(workers=9, tp=1, dp=8, pp=1, ep=8, slots=4096)
    assert "pools of dsr1_h200_trtllm_fp8_disagg_1024x1024_c1152_cfg321, which is as fast" in one.remarks
    unknown = [one for one in _shipped() if isinstance(one, Measurement) and one.accelerators is None]
    assert len(unknown) == 174
    assert all(one.decode is not None and one.decode.accelerators is None for one in unknown)


def test_the_batch_of_one_decode_worker_says_how_many_there_are(tmp_path: Path) -> None:
    row = TABLES["DISAGGREGATED"]
    assert _served(tmp_path, **row).decode == RecordedPool(workers=None, tp=1, dp=8, pp=1, ep=8)
    one = _served(tmp_path, **row, decode_batch_size="32.0")
    assert one.decode == RecordedPool(workers=3, tp=1, dp=8, pp=1, ep=8)
    assert (one.prefill, one.accelerators) == (RecordedPool(workers=None, tp=8, dp=1, pp=1, ep=None), None)
    assert one.remarks == ("decode_num_workers 3 is inferred from the batch of one",)


def test_repeats_count_once() -> None:
    served = [one for one in _shipped() if isinstance(one, Measurement) and one.dataset == "serving_points"]
    kept = measurements.distinct(served)
    assert (len(served), len(kept)) == (3674, 2786)
    assert measurements.distinct(kept) == kept


def test_degrees_of_nightly_pools_that_a_script_sets(tmp_path: Path) -> None:
    """With attention-DP every accelerator of a worker is a group; rates are of all accelerators together."""
    one = only(Measurement, _read(tmp_path / "nightly.csv", ",".join(NIGHTLY), NIGHTLY))
    assert one.prefill == RecordedPool(workers=1, tp=1, dp=4, pp=1, ep=4)
    assert one.decode == RecordedPool(workers=2, tp=8, dp=1, pp=1, ep=8)
    assert (one.accelerators, one.concurrency, one.ttft_seconds, one.speculation) == (20, 64.0, 0.5, "none")
    assert one.output_tokens_per_second_per_accelerator == one.input_tokens_per_second_per_accelerator == 100.0
    odd = only(Skipped, _read(tmp_path / "odd.csv", ",".join(NIGHTLY), NIGHTLY | {"num_decode_gpu": "15"}))
    assert odd.reason == "num_decode_gpu 15 are no multiple of 2 workers"


def test_runs_that_must_have_speculated_are_suspected() -> None:
    suspected = [one for one in _shipped() if isinstance(one, Measurement) and one.speculation == "suspected"]
    assert {one.model for one in suspected} == {"deepseek_v3", "deepseek_v3_nvfp4"}
    told = ("times as fast as a run", "and without had this description")
    assert all(any(words in remark for remark in one.remarks for words in told) for one in suspected)
    known = Counter(
        one.speculation for one in _shipped() if isinstance(one, Measurement) and one.engine_version == "1.2.0rc6.post3"
    )
    assert known == {"MTP3": 66, "MTP1": 22}


def test_a_busier_server_that_is_faster_is_suspected(tmp_path: Path) -> None:
    plain, noise, fast, other = _read(
        tmp_path / "mine.csv",
        f"{SERVING},{LAYOUT}",
        *({**SHORT, "silicon_concurrency": users, "silicon_tpot_ms": time}
          for users, time in (("4", "10"), ("4", "9.5"), ("8", "8"), ("2", "8"))),
    )  # fmt: skip
    assert [getattr(one, "speculation", "") for one in (plain, noise, other)] == ["unrecorded"] * 3
    assert isinstance(fast, Measurement)
    assert fast.speculation == "suspected"
    assert fast.remarks == ("1.2 times as fast as a run of the same description that was no busier",)


def test_a_source_may_mean_something_else_by_a_name() -> None:
    chips = {
        one.hardware
        for one in _shipped()
        if isinstance(one, Measurement) and one.source == "llm_inference_bench" and one.hardware.startswith("a100")
    }
    assert chips == {"a100_sxm_40"}


# Layouts.


@pytest.mark.rows
def test_layouts_of_whole_servers(tmp_path: Path, changes: dict[str, str], layout: list[int]) -> None:
    one = _served(tmp_path, **changes)
    assert (one.accelerators, one.tp, one.dp, one.ep) == tuple(layout)
    assert one.concurrency == 64.0


def test_concurrency_for_want_of_a_column(tmp_path: Path) -> None:
    changes = {"silicon_concurrency": "", "batch_size": "4", "tp_size": "1", "attention_dp_size": "8"}
    assert _served(tmp_path, **changes, moe_tp_size="1", moe_ep_size="8").concurrency == 32.0


# Values.


@pytest.mark.rows
def test_fields_of_points(tmp_path: Path, cells: dict[str, str], fields: dict[str, Any]) -> None:
    assert has_fields(_point(tmp_path, **cells), fields)


@pytest.mark.rows
def test_a_checkpoint_is_named_after_its_format(tmp_path: Path, model: str, weights: str | None) -> None:
    assert _point(tmp_path, weight_dtype="", model=model).weights == weights
    assert _point(tmp_path, weight_dtype="fp32", model=model).weights == "fp32"


@pytest.mark.parametrize("ending", ["GGUF", "FP16-GGUF", "3bit", "w6a6"])
def test_a_checkpoint_of_no_known_format_needs_one(tmp_path: Path, ending: str) -> None:
    name = f"mine/Llama-3.1-8B-{ending}"
    said = f"the number format of the weights of {name!r} is not known; give the nearest one"
    assert _reason(tmp_path, weight_dtype="", model=name) == said
    assert _point(tmp_path, weight_dtype="int4", model=name).weights == "int4"


def test_the_name_of_a_models_file_says_no_format(tmp_path: Path) -> None:
    path = tmp_path / "llama-fp8.yaml"
    shutil.copy(Path(__file__).parents[4] / "models" / "llama_3_8b.yaml", path)
    assert _point(tmp_path, weight_dtype="", model=str(path)).weights is None


def test_formats_that_a_chip_lacks_are_those_of_the_same_width_that_it_has(tmp_path: Path) -> None:
    on_tpu = _point(tmp_path, hardware="TPU v6e", weight_dtype="fp16", kv_dtype="fp16")
    assert (on_tpu.weights, on_tpu.kv) == ("bf16", "bf16")
    on_volta = _point(tmp_path, hardware="V100 32GB", weight_dtype="", kv_dtype="fp8")
    assert (on_volta.weights, on_volta.kv) == ("fp16", "int8")
    on_hopper = _point(tmp_path, weight_dtype="fp16", kv_dtype="fp8")
    assert (on_hopper.weights, on_hopper.kv) == ("fp16", "fp8")


def test_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    one = _served(tmp_path, precision="fp4")
    assert (one.model, one.weights) == ("deepseek_v3_nvfp4", None)


def test_columns_of_other_case_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    header = f"\ufeff{POINTS.upper().replace(',', ' , ')}"
    cells = [POINT.get(column, "") for column in POINTS.split(",")]
    path.write_text(f"{header}\n{','.join(cells)}\n\n", encoding="utf-8")
    only(Measurement, measurements.read_measurements(path))


# Columns that are the fields of a measurement.

OURS = TABLES["OURS"]


def _ours(tmp_path: Path, **changes: str) -> Measurement | Skipped:
    header = ",".join(OURS | changes)
    (row,) = _read(tmp_path / "mine.csv", header, OURS | changes)
    return row


def test_columns_are_the_fields_of_a_measurement(tmp_path: Path) -> None:
    least = _ours(tmp_path)
    assert least == Measurement(
        id="a", dataset="mine", source="", engine="", engine_version="", model="llama_3_8b", hardware="h100_sxm",
        accelerators=2, tp=2, dp=1, pp=1, weights=None, isl=1000.0, osl=200.0, load="concurrency", concurrency=8.0,
        ttft_seconds=0.05, tpot_seconds=0.0095,
    )  # fmt: skip
    row = _ours(
        tmp_path, engine="vLLM 0.6.3", weights="fp8", kv="fp8", days="2025-03", spread="0", wait_steps="0",
        warmed_up="yes", prefill_first="no", compiled="yes", statistic="mean", speculation="MTP3",
        ttft_limit_seconds="2", remarks="one | two", load="limited", quality="A",
    )  # fmt: skip
    assert isinstance(row, Measurement)
    assert (row.engine, row.engine_version, row.weights, row.kv) == ("vllm", "0.6.3", "fp8", "fp8")
    assert (row.spread, row.wait_steps, row.warmed_up, row.prefill_first, row.compiled) == (0.0, 0.0, True, False, True)
    assert (row.statistic, row.speculation, row.tokens_per_round, row.load) == ("mean", "MTP3", None, "limited")
    assert (row.ttft_limit_seconds, row.remarks, row.quality) == (2.0, ("one", "two"), "A")
    assert row.days is not None
    # Unrecorded engine settings follow the version.
    unsaid = _ours(tmp_path, engine="vLLM 0.6.3")
    assert isinstance(unsaid, Measurement) and unsaid.prefill_first


def test_pools_have_columns_of_their_own(tmp_path: Path) -> None:
    row = _ours(tmp_path, tp="", accelerators="16", prefill_workers="1", prefill_tp="8", decode_tp="1", decode_dp="8")
    assert isinstance(row, Measurement)
    assert row.prefill == RecordedPool(workers=1, tp=8, dp=1, pp=1, ep=None)
    assert (row.decode, row.tp) == (RecordedPool(workers=None, tp=1, dp=8, pp=1, ep=None), None)
    pools = {"prefill_workers": "1", "prefill_tp": "8", "decode_workers": "3", "decode_tp": "4"}
    for workers, chips in (("3", 8 + 3 * 4), ("", None)):
        row = _ours(tmp_path, tp="", accelerators="", **pools | {"decode_workers": workers})
        assert isinstance(row, Measurement) and row.accelerators == chips


def test_every_field_is_a_column() -> None:
    derived = {"prefill", "decode", "dataset", "cached", "draft_tokens"}
    assert {field.name for field in dataclasses.fields(Measurement)} - derived < set(columns())
    for path in catalog.server_files().values():
        assert tuple(path.read_text(encoding="utf-8").partition("\n")[0].split(",")) == columns()


@pytest.mark.rows
def test_rows_of_fields_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    row = of(Skipped, _ours(tmp_path, **changes))
    assert row.reason.startswith(reason)


# Names.


def test_every_name_in_the_table_leads_somewhere() -> None:
    names = catalog.measured_names()
    assert set(names.models) | set(names.checkpoints) | set(names.formats) <= set(catalog.names("models"))
    assert {one for found in names.checkpoints.values() for one in found.values()} <= set(catalog.names("models"))
    assert set(names.hardware) <= set(catalog.names("hardware"))


# Unusable rows.


@pytest.mark.rows
def test_rows_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    assert _reason(tmp_path, **changes) == reason


@pytest.mark.rows
def test_servers_that_cannot_be_used_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    row = SHORT | {"silicon_tpot_ms": "9", "silicon_concurrency": "1", "batch_size": "1"} | changes
    (found,) = _read(tmp_path / "mine.csv", f"{SERVING},{LAYOUT},source", row)
    assert found == Skipped("row 1", "mine", reason)


def test_rows_that_cannot_be_used_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    _read(path, POINTS, {**POINT, "notes": "two\nlines"}, POINT, {**POINT, "value": "-3"}, {**POINT, "ep": "8"})
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("\r\n", "\n", 1).replace("\n", "\n\n", 1), encoding="utf-8")
    found = [one.line for one in measurements.read_measurements(path) if isinstance(one, Skipped)]
    assert found == [6, 7]  # after the header, an empty line, a row of two lines and one of one


@pytest.mark.parametrize("name", ["mine.yaml", "config.json"])
def test_a_model_can_be_the_path_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    config = CONFIGS / "Qwen--Qwen3-8B_config.json"
    shutil.copy(config if name == "config.json" else catalog.locate("models", "qwen3_8b"), name)
    mine, ours = _point(tmp_path, model=name), _point(tmp_path, model="Qwen/Qwen3-8B")
    assert (mine.model, ours.model) == (name, "qwen3_8b")
    first, second = predict.predict([mine, ours], lambda _: catalog.assumptions("deployable"))
    assert first.tpot_seconds == second.tpot_seconds
    assert first.tpot_seconds is not None
    assert _reason(tmp_path, model="missing.json").startswith(
        "unknown model 'missing.json' (the path of a Hugging Face"
    )
    assert _reason(tmp_path, model=300 * "a" + ".yaml").startswith("unknown model 'aaa")


@pytest.mark.rows
def test_files_of_no_kind(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        measurements.read_measurements(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.csv: cannot be read: No such file"):
        measurements.read_measurements(tmp_path / "missing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"a,\xff\xfe\n")
    with pytest.raises(InputError, match=r"bytes.csv: not a CSV file in UTF-8"):
        measurements.read_measurements(tmp_path / "bytes.csv")


# Facts of runs outside their columns.


def test_formats_of_the_cache_that_scripts_set() -> None:
    found = {
        (one.model, one.engine, one.hardware): one.kv
        for one in _shipped()
        if isinstance(one, Measurement) and one.dataset in ("serving_points", "inferencemax_aggregated")
    }
    assert found["llama_3_70b", "vllm", "h200_sxm"] == found["gpt_oss_120b", "vllm", "b200"] == "fp8"
    assert found["gpt_oss_120b", "vllm", "h200_sxm"] is None
    assert found["deepseek_v3", "sglang", "h200_sxm"] is None


def test_engines_that_read_prompts_first_and_seldom_look_for_them(tmp_path: Path) -> None:
    first = {(one.engine, one.engine_version): one.prefill_first for one in _shipped() if isinstance(one, Measurement)}
    assert first["sglang", "0.5.9"]
    assert not first["vllm", "0.12.0"]
    assert _point(tmp_path, engine="vLLM 0.7.3 (CUDA)").prefill_first
    looks = {
        one.concurrency: one.wait_steps
        for one in _shipped()
        if isinstance(one, Measurement)
        and (one.engine, one.hardware, one.model, one.accelerators) == ("sglang", "b200", "deepseek_v3", 8)
    }
    assert (looks[4.0], looks[8.0], looks[16.0], looks[64.0]) == (5.0, 5.0, 15.0, 15.0)


def test_what_scripts_told_tensorrt() -> None:
    """Prompts wait for all attention-DP groups or for each other, and have a separate step."""
    found = [one for one in _shipped() if isinstance(one, Measurement) and one.engine == "trtllm" and one.requests]
    groups = {(one.model, one.dp, one.osl, one.concurrency): one.held_steps for one in found if (one.dp or 1) > 1}
    # Rounds that give 1.76 tokens each.
    assert groups["deepseek_v3_nvfp4", 8, 0.9 * 8192, 128.0] == pytest.approx(60.0 * 1.76)
    assert groups["gpt_oss_120b", 2, 0.9 * 1024, 256.0] in (50.0, 60.0)
    llama = {(one.tp, one.isl, one.osl): one.wait_steps for one in found if one.model == "llama_3_70b"}
    assert llama[4, 0.9 * 1024, 0.9 * 1024] == 20.0
    assert llama[8, 0.9 * 1024, 0.9 * 1024] == llama[4, 0.9 * 1024, 0.9 * 8192] == 0.0
    tokens = {(one.model, one.engine_version, one.isl): one.step_tokens for one in found if one.decode is None}
    assert tokens["deepseek_v3", "1.1.0rc2.post2", 0.9 * 1024] == 1024.0
    # Later scripts have room for at least 8192 tokens, which is the engine's own value.
    assert tokens["deepseek_v3", "1.2.0rc6.post2", 0.9 * 1024] == 8192.0
    assert tokens["gpt_oss_120b", "1.2.0rc2", 0.9 * 1024] == 20000.0


def test_engines_that_were_compiled(tmp_path: Path) -> None:
    assert _point(tmp_path, engine="TensorRT-LLM v0.9.0").compiled
    assert not _point(tmp_path, engine="TensorRT-LLM 1.0").compiled


def test_servers_that_only_decode_read_no_prompts() -> None:
    (one,) = [one for one in _shipped() if isinstance(one, Measurement) and one.id == "T1431"]
    assert (one.context, one.concurrency) == (2000.0, 18432.0)
