"""Measured servers and predictions: included rows, errors by groups, rows for spreadsheets, and the bound."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import error_spreads
from benchmarks.validation import bound, document, held_out
from data.measurements.__main__ import TABLES
from inference_econ.errors import InputError
from inference_econ.extras.servers import CONSTANTS, QUANTITIES, InputRow, Servers, coverage, measurements, validation
from inference_econ.extras.servers.fit import error_quantiles, joined
from inference_econ.extras.servers.measurements import RecordedPool
from inference_econ.extras.servers.pages.servers import error_tables, errors
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.validation import servers
from inference_econ.extras.servers.validation.servers import Coverage, Validated, servers_record
from inference_econ.inputs import catalog
from inference_econ.records.plain import csv_text
from tests.reading import csv_rows, present, write_csv
from tests.shipped import shipped_servers

#: Predictions of all shipped servers take most of a minute.
pytestmark = pytest.mark.long

TPOT, IDLE, LOADED = QUANTITIES[:3]
SERVING = (
    "id,backend,backend_version,model_path,system,precision,mode,isl,osl,silicon_ttft_ms,silicon_tpot_ms,"
    "silicon_concurrency,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size"
)
GOOD = "{id},vllm,0.12,meta-llama/Llama-3.1-8B,h100_sxm,fp8,agg,1000,200,{ttft},{tpot},{c},{c},1,1,1,1,1"
POINTS = (
    "id,model,hardware,n_gpus,tp,pp,ep,dp,weight_dtype,kv_dtype,isl,osl,batch_or_concurrency,batch_kind,metric,value,unit,"
    "spec_decode,engine,source_id,quality,notes,tier"
)
POINT = (
    "{id},Llama-3.1-8B,H100 SXM,1,1,1,,,fp8,,1000,200,{c},closed_loop_concurrency,{metric},{value},{unit},none,"
    "vLLM,x,A,,core"
)


def _serving(path: Path, *rows: dict[str, object]) -> Path:
    lines = [GOOD.format(**{"id": f"r{n}", "ttft": 50, "tpot": 8, "c": 4, **row}) for n, row in enumerate(rows, 1)]
    path.write_text("\n".join([SERVING, *lines]) + "\n", encoding="utf-8")
    return path


def _first(name: str, rows: int, path: Path, keep: Callable[[dict[str, str]], bool] = lambda _: True) -> Path:
    """Return the first rows of a published table that are selected."""
    return write_csv(path, [row for row in csv_rows(TABLES[name].read_text(encoding="utf-8")) if keep(row)][:rows])


def _report(*paths: Path, assumptions: str | None = None) -> Servers:
    return servers.predict_files(servers.read_files(paths), assumptions)


def _lines(report: Servers) -> list[dict[str, str]]:
    return csv_rows(csv_text(Validated((report,)).to_frame()))


# Every shipped row.


def test_the_shipped_files_of_servers_are_those_that_can_be_read() -> None:
    assert tuple(validation.SERVERS) == measurements.SHIPPED


def test_nearly_every_shipped_row_is_predicted() -> None:
    """Coverage may grow, but not shrink."""
    found = shipped_servers().coverage()
    assert (found.read, found.mapped) == (5644, 5561)
    assert found.repeats + found.speculative + found.spoilt + found.plain == found.mapped
    # SGLang with NVFP4 on B200, whose first prompts waited for kernels; six runs of TensorRT-LLM 1.3.0rc1 there; and a
    # nightly build of vLLM with MiniMax.
    assert found.spoilt == 49
    assert found.repeats >= 400
    # Pools of DeepSeek on B200, GB200 and H100 that several recipes could be.
    assert found.predicted >= 0.95 * found.plain
    # MLPerf and a few others without a layout.
    assert found.assumed <= 330
    for dataset in shipped_servers().datasets:
        one = shipped_servers().coverage(dataset)
        assert sum(not row.skipped for row in shipped_servers().rows if row.dataset == dataset) >= 0.85 * one.read
    poisson = shipped_servers().coverage("poisson_load_a100")
    assert (poisson.read, poisson.predicted) == (56, 56)


def test_every_reason_says_what_is_missing() -> None:
    reasons = shipped_servers().reasons()
    assert {len(rows) for reason, rows in reasons.items() if reason == "isl is not recorded"} == {25}
    assert sum(map(len, reasons.values())) == 5644 - sum(not row.skipped for row in shipped_servers().rows)


def test_predictions_of_all_shipped_rows_are_near_what_was_measured() -> None:
    """A guard against mistakes, not a claim: constants are fitted elsewhere."""
    measured = {quantity: servers.overall(shipped_servers().counted(), quantity) for quantity in QUANTITIES}
    assert [quantity.name for quantity, found in measured.items() if found is None] == ["total_rate_of_batches"]
    for quantity, found in measured.items():
        if found is not None:
            assert found.median is not None
            assert found.median < (1.0 if quantity == LOADED else 0.5), quantity.name


#: Smallest number of runs whose share is compared with 80%; with fewer, a share of 0.8 is uncertain by this much [1].
ENOUGH_RUNS, ONE = 12, 0.4


@pytest.mark.parametrize(("name", "widest"), [("tpot", 1.6), ("ttft_under_load", 4.5), ("output_rate", 1.7)])
@pytest.mark.parametrize("generation", ["hopper", "blackwell"])
def test_four_fifths_of_left_out_deployments_hold_for_every_engine(generation: str, name: str, widest: float) -> None:
    """Compare each deployment with an interval from the others of its engine and all engines on its GPU generation."""
    engines = error_spreads.errors_by_run(shipped_servers(), name)[generation]
    everything = [group for groups in engines.values() for group in groups]
    base = error_quantiles(everything)
    enough = {engine: groups for engine, groups in engines.items() if len(groups) >= ENOUGH_RUNS}
    assert enough
    for engine, groups in enough.items():
        held = coverage(groups, base)
        slack = ONE / math.sqrt(len(groups))
        assert 0.75 - slack <= held <= 0.85 + slack, (engine, held)
        assert error_spreads.width(groups, base) < widest, engine
    # For all engines, which have many runs, without slack.
    shares = [(coverage(groups, base), joined(groups).size) for groups in enough.values()]
    assert 0.75 <= np.average([share for share, _ in shares], weights=[rows for _, rows in shares]) <= 0.87


def test_what_beats_the_bound_is_known_and_explained() -> None:
    """The list may only become shorter."""
    found = bound.violations(shipped_servers().rows)
    ids = {one.row.id[-32:] for one in found}
    assert ids <= {
        *("F0081", "F0138", "D0169", "D0170"),
        *("sxm_vllm_agg_2000x100_c64_tp1_epnone_2"[-32:], "sxm_vllm_agg_4000x100_c32_tp1_epnone_5"[-32:]),
    }
    assert all(not one.why.startswith("not explained") for one in found)
    assert [one.factor for one in found] == sorted((one.factor for one in found), reverse=True)
    assert all(one.factor > 1.03 for one in found)


# Few rows.


def test_repeats_are_predicted_but_do_not_count_and_what_may_speculate_is_not_predicted(tmp_path: Path) -> None:
    quick: dict[str, object] = {"id": "quick", "tpot": 4, "ttft": 49}
    path = _serving(tmp_path / "mine.csv", {}, {"id": "again"}, quick, {"id": "odd", "c": "?"})
    report = _report(path)
    assert report.coverage() == Coverage(
        read=4, mapped=3, repeats=1, speculative=1, spoilt=0, plain=1, predicted=1, assumed=0
    )
    assert [row.id for row in report.counted()] == ["r1"]
    assert [(row.id, row.apart) for row in report.speculative()] == [("quick", "speculation: suspected")]
    assert [row.apart for row in report.rows][1].startswith("repeats")
    assert report.rows[3].skipped == "batch_size is blank"
    assert report.rows[1].predicted(TPOT) == report.rows[0].predicted(TPOT)
    assert report.rows[2].predicted(TPOT) is None
    assert report.rows[2].skipped.startswith("it is not recorded whether the server speculates")


def test_speculating_servers_are_a_class_of_their_own() -> None:
    """No interval is claimed for their shipped rows; this is a guard, not a claim."""
    report = shipped_servers()
    known = [row for row in report.speculative() if not row.skipped]
    assert len(known) >= 140
    assert all(row.interval("tpot_seconds") is None for row in known)
    by_engine = servers.scores(known, TPOT, ("engine",))
    assert (by_engine["trtllm",].median or 1.0) < 0.15
    (table,) = [one for one in error_tables(report) if one.title.startswith("Servers with speculation")]
    assert {"all", "trtllm b200 MTP3", "sglang b200 MTP2"} <= {row[0] for row in table.rows}


def test_spoilt_runs_are_predicted_but_do_not_count(tmp_path: Path) -> None:
    """Neither run speculates, so nothing explains the faster one."""
    head = "id,hf_model,hardware,framework,precision,spec_decoding,isl,osl,tp,concurrency,median_ttft_s,median_tpot_s"
    line = "{id},openai/gpt-oss-120b,b200,vllm 0.11.2,fp4,none,1024,1024,1,4,0.05,{tpot}"
    lines = [line.format(id="good", tpot=0.004), line.format(id="slow", tpot=0.008)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    report = _report(path)
    assert report.coverage().spoilt == 1
    assert [row.id for row in report.counted()] == ["good"]
    assert report.rows[1].apart == "spoilt run: 2.0 times as slow as good, a run of the same configuration"
    assert report.rows[1].predicted(TPOT) is not None
    assert _lines(report)[1]["reason"] == report.rows[1].apart
    assert not report.speculative()


def test_ttft_without_load_is_apart_from_ttft_under_load(tmp_path: Path) -> None:
    report = _report(_serving(tmp_path / "mine.csv", {"c": 1}, {"c": 2}))
    alone, busy = report.rows
    assert (alone.idle, busy.idle) == (True, False)
    assert (alone.measured(IDLE), alone.measured(LOADED)) == (0.05, None)
    assert (busy.measured(IDLE), busy.measured(LOADED)) == (None, 0.05)
    assert [one.rows for one in servers.scores(report.counted(), IDLE).values()] == [1]
    # A rejected row gives its own reason.
    assert replace(alone, skipped="no", prediction=None).idle
    assert not replace(busy, skipped="no", prediction=None).idle


def test_static_batches_are_apart_from_servers(tmp_path: Path) -> None:
    path = _first("decode_points", 1, tmp_path / "decode_points.csv", lambda row: row["batch_kind"] == "static_batch")
    (row,) = _report(path).counted()
    assert row.measurement is not None
    assert row.measurement.load == "batch"
    of_batches = next(quantity for quantity in QUANTITIES if quantity.name == "tpot_of_batches")
    assert row.measured(TPOT) is None
    assert row.measured(of_batches) == row.measurement.tpot_seconds
    assert row.predicted(of_batches) == row.predicted(TPOT)
    assert [quantity.of for quantity in QUANTITIES if quantity.name.endswith("of_batches")] == ["batches"] * 6


def test_groups() -> None:
    report = shipped_servers()
    by = servers.scores(report.counted(), TPOT, ("hardware", "engine"))
    (all_,) = servers.scores(report.counted(), TPOT).values()
    assert sum(one.rows for one in by.values()) == all_.rows
    assert ("h200_sxm", "vllm") in by
    counts = [one.rows for one in by.values()]
    assert counts == sorted(counts, reverse=True)
    of_batches = next(quantity for quantity in QUANTITIES if quantity.name == "tpot_of_batches")
    assert ("not recorded",) in servers.scores(report.counted(), of_batches, ("engine",))
    assert ("concurrency, disaggregated",) in servers.scores(report.counted(), TPOT, ("load",))
    assert ("not graded",) in servers.scores(report.counted(), TPOT, ("quality",))
    message = "cannot group by 'hardwere'; did you mean hardware\\? possible: dataset, hardware"
    with pytest.raises(InputError, match=message):
        servers.scores(report.counted(), TPOT, ("hardwere",))


def test_assumptions_by_name_or_by_hardware(tmp_path: Path) -> None:
    path = _serving(tmp_path / "mine.csv", {})
    usual, ideal = _report(path), _report(path, assumptions="ideal")
    assert (usual.assumptions, ideal.assumptions) == ("by hardware", "ideal")
    assert ideal.rows[0].predicted(TPOT) < usual.rows[0].predicted(TPOT)  # type: ignore[operator]
    with pytest.raises(InputError, match="unknown assumptions 'idael'; did you mean ideal"):
        _report(path, assumptions="idael")


# Rows for spreadsheets.


def test_predictions_in_the_units_of_the_file_and_in_its_order(tmp_path: Path) -> None:
    path = _serving(tmp_path / "mine.csv", {}, {"id": "odd", "c": "?"}, {"id": "again"}, {"tpot": 3})
    report = _report(path)
    lines = _lines(report)
    assert [line["id"] for line in lines] == ["r1", "odd", "again", "r4"]
    assert [line["row"] for line in lines] == ["1", "2", "3", "4"]
    assert {line["dataset"] for line in lines} == {"mine"}
    first = lines[0]
    assert float(first["measured_tpot_ms"]) == 8.0
    assert float(first["predicted_tpot_ms"]) == pytest.approx(1e3 * (report.rows[0].predicted(TPOT) or 0.0))
    assert float(first["predicted_ttft_ms"]) > 0
    assert float(first["predicted_output_tok_per_s_per_gpu"]) > 0
    low, high = float(first["predicted_tpot_ms_low"]), float(first["predicted_tpot_ms_high"])
    assert 0.0 < low <= float(first["predicted_tpot_ms"]) <= high
    assert first["fitted"] in {"false", ""}
    assert [(line["skipped"], line["counted"], line["reason"]) for line in lines] == [
        ("false", "true", ""),
        ("true", "false", "batch_size is blank"),
        ("false", "false", "repeats a row: same subject, demand and results"),
        ("true", "false", "it is not recorded whether the server speculates, or with how many draft tokens"),
    ]
    assert lines[1]["predicted_tpot_ms"] == lines[1]["measured_tpot_ms"] == ""


def test_intervals_are_in_the_unit_of_the_value_and_blank_without_errors_of_its_kind(tmp_path: Path) -> None:
    path = _serving(tmp_path / "mine.csv", {}, {"c": 40000})
    line, far = _lines(_report(path))
    for name in ("tpot_ms", "ttft_ms", "output_tok_per_s_per_gpu", "total_tok_per_s_per_gpu"):
        low, value, high = (float(line[f"predicted_{name}{end}"]) for end in ("_low", "", "_high"))
        assert 0.1 < low / value <= 1.0 <= high / value < 10.0, name
    assert "the load is 40,000 concurrent requests per GPU (measured: " in far["outside"]
    plain = _lines(_report(path, assumptions="deployable"))[0]
    unfitted = "deployable was fitted to no measured server"
    assert (plain["predicted_tpot_ms_low"], plain["outside"], plain["fitted"]) == ("", unfitted, "false")
    assert (line["model"], line["hardware"], line["assumptions"]) == ("llama_3_8b", "h100_sxm", "profiles/vllm_hopper")
    assert plain["assumptions"] == "deployable"


def test_rows_whose_layout_is_assumed_have_no_interval_and_say_so(tmp_path: Path) -> None:
    (row,) = _report(_serving(tmp_path / "mine.csv", {})).rows
    assert row.prediction is not None
    assert row.interval("tpot_seconds") is not None
    guessed = replace(row, prediction=replace(row.prediction, assumed="layout tp=1, dp=1, pp=1"))
    assert guessed.interval("tpot_seconds") is None
    assert guessed.outside == ["assumed: layout tp=1, dp=1, pp=1", *row.outside]
    report = Servers("by hardware", (replace(guessed, fitted=False),), ())
    assert held_out.alike(report).rows[0][0] == "layout not recorded"
    assert held_out.alike(replace(report, rows=(row,))).rows[0][0] in {
        "inside of the fitted range",
        "outside of it (flagged)",
    }


def test_rows_that_were_fitted_are_apart_from_others(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"c": 2}, {"c": 8, "tpot": 12}, {"c": 16, "tpot": 13}]
    report = _report(_serving(tmp_path / "mine.csv", *rows))
    assert list(report.split()) == ["all"]
    some = replace(report, rows=tuple(replace(row, fitted=number == 0) for number, row in enumerate(report.rows)))
    assert {which: len(rows) for which, rows in some.split().items()} == {"all": 3, "fitted": 1, "not fitted": 2}
    lines = [row[:3] for row in errors(some).rows[:3]]
    assert lines == [("TPOT", "all", "3"), ("TPOT", "fitted", "1"), ("TPOT", "not fitted", "2")]
    parts = servers_record(some)["parts"]
    assert parts["not fitted"]["tpot"]["rows"] == 2  # type: ignore[index]
    where = servers.inside(some.counted(), TPOT)
    assert parts["all"]["tpot"]["inside"] == where.held <= where.known == 3  # type: ignore[index]
    intervals = [row.interval("tpot_seconds") for row in some.counted()]
    # All are alike, so that their intervals are as wide.
    assert {round(each.high / each.low, 9) for each in intervals if each is not None} == {round(where.width or 0.0, 9)}
    assert parts["all"]["tpot"]["interval_width"] == where.width  # type: ignore[index]
    assert servers.inside([], TPOT) == (0, 0, None, ())
    # Rows without a record of the fit have one common group.
    silent = replace(some, rows=tuple(replace(row, fitted=None) for row in some.rows))
    assert list(silent.split()) == ["all"]
    assert held_out.unseen(silent) == ("not known whether fitted", silent.counted())
    assert held_out.unseen(some) == ("not fitted", some.split()["not fitted"])


def test_what_is_reached_stands_beside_the_aim(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"c": count, "tpot": 8 + count / 8} for count in (1, 2, 4, 8, 16, 32)]
    report = _report(_serving(tmp_path / "mine.csv", *rows))
    table = held_out.reached(report)
    # The file is not one of InferenceX, and it has no tokens per second.
    assert [(row[0], row[1], row[-1]) for row in table.rows] == [("TTFT without load", "1", "0.200")]
    assert table.rows[0][2] == table.rows[0][3] != ""
    assert table.every_note[-1] == "6 of 6 usable rows are predicted."
    runs = Servers("by hardware", tuple(_rows_of("inferencemax_aggregated")), ())
    lines = {row[0]: row for row in held_out.reached(runs).rows}
    tpot = lines["TPOT of InferenceX on one machine"]
    assert (tpot[1], tpot[-1]) == ("207", "0.075, 0.230")
    version = present(catalog.assumptions("profiles/servers").calibration).errors["version"]["tpot"]
    assert tpot[5] == f"{version.median:.3f}, {version.p90:.3f}"
    elsewhere = _report(_serving(tmp_path / "mine.csv", *rows), assumptions="deployable")
    (tpot, ttft) = held_out.worst(report).rows
    assert {tpot[:3], ttft[:3]} == {
        ("vllm h100_sxm llama_3_8b", "TPOT", "6"),
        ("vllm h100_sxm llama_3_8b", "TTFT under load", "5"),
    }
    assert held_out.worst(elsewhere).rows[0][-1] == "no profile for the chip"


WAYS_TO_LEAVE_OUT = ("lengths and load", "engine version", "layout", "engine, GPU and model", "model", "GPU", "engine")


def test_what_profiles_say_of_themselves() -> None:
    """The statements hold for any last fit."""
    for table in (held_out.left_out(), held_out.intervals()):
        assert all(len(row) == len(table.columns) for row in table.rows)
    for row in held_out.intervals().rows:
        assert row[1] in WAYS_TO_LEAVE_OUT
        assert all(
            cell == "" or re.search(r" % \((few groups|\d+ to \d+(: off)?)\) in, \d+\.\d\d wide$", cell)
            for cell in row[2:]
        )
    for text in held_out.undetermined():
        assert text.partition(" (")[0] in CONSTANTS
        assert text.endswith(")")


def test_seconds_where_the_file_has_seconds(tmp_path: Path) -> None:
    lines = _lines(_report(_first("inferencemax_aggregated", 3, tmp_path / "runs.csv")))
    assert "predicted_tpot_ms" not in lines[0]
    assert float(lines[0]["measured_ttft_s"]) == pytest.approx(0.1186, rel=1e-3)
    assert float(lines[0]["measured_output_tok_per_s_per_gpu"]) == pytest.approx(39.41, rel=1e-3)
    for name in ("ttft_s", "tpot_s", "request_s", "output_tok_per_s_per_gpu", "total_tok_per_s_per_gpu"):
        assert float(lines[0][f"predicted_{name}"]) > 0


def test_files_of_several_units_have_the_columns_of_all(tmp_path: Path) -> None:
    sources = [_first("inferencemax_aggregated", 1, tmp_path / "runs.csv"), _serving(tmp_path / "mine.csv", {})]
    seconds, milliseconds = _lines(_report(*sources))
    assert (seconds["predicted_tpot_ms"], milliseconds["predicted_tpot_s"]) == ("", "")
    assert float(seconds["predicted_tpot_s"]) > 0
    assert float(milliseconds["predicted_tpot_ms"]) > 0


@pytest.mark.rows
def test_points_have_their_own_units(tmp_path: Path, metric: str, value: float, unit: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text(f"{POINTS}\n{POINT.format(id='p', c=4, metric=metric, value=value, unit=unit)}\n", encoding="utf-8")
    report = _report(path)
    (line,) = _lines(report)
    assert line["unit"] == unit
    quantity = next(one for one in QUANTITIES if report.rows[0].measured(one) is not None)
    ratio = (report.rows[0].predicted(quantity) or 0.0) / (report.rows[0].measured(quantity) or 1.0)
    ratio = 1.0 / ratio if unit == "tok/s/user" else ratio
    assert float(line["measured_value"]) == pytest.approx(value)
    assert float(line["predicted_value"]) == pytest.approx(value * ratio)
    assert float(line["predicted_value_low"]) < value * ratio < float(line["predicted_value_high"])


def test_servers_whose_weights_memory_cannot_hold_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = _serving(tmp_path / "mine.csv", {})
    large = path.read_text(encoding="utf-8").replace("Llama-3.1-8B", "Llama-3.1-405B")
    path.write_text(large, encoding="utf-8")
    report = _report(path)
    assert report.coverage().predicted == 0
    ((reason, rows),) = report.reasons().items()
    assert re.fullmatch(r"cannot have run: weights need 410\.\d GB of the 85\.5 GB there are", reason)
    assert [row.number for row in rows] == [1]


def test_shipped_rows_ran_and_memory_holds_them() -> None:
    """A row flagged here is a sign that the capacity check is too strict."""
    short = [row for row in shipped_servers().rows if row.prediction is not None and row.prediction.shortage]
    assert [row.id for row in short] == []


def test_servers_without_room_for_a_request_are_predicted_and_flagged(tmp_path: Path) -> None:
    """141.1 GB of weights fit in the memory of an H200, but not in nine tenths of it."""
    path = _serving(tmp_path / "mine.csv", {})
    large = path.read_text(encoding="utf-8").replace("Llama-3.1-8B", "Llama-3.1-70B").replace("fp8", "bf16")
    path.write_text(large.replace("h100_sxm", "h200_sxm"), encoding="utf-8")
    report = _report(path)
    (row,) = report.rows
    assert (report.coverage().predicted, report.coverage().assumed) == (1, 0)
    assert row.unlike[0].kind == "more memory is needed than there is"
    assert re.match(
        r"weights and one request need 14\d\.\d GB of the 1\d\d\.\d GB there are: predicted", row.outside[0]
    )


def test_pools_whose_weights_memory_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Test the prefill and the decode instances of two pools."""
    (row,) = _report(_serving(tmp_path / "mine.csv", {})).rows
    assert row.measurement is not None
    small, large = (RecordedPool(workers=1, tp=tp, dp=1, pp=1, ep=None) for tp in (1, 8))
    for pools, short in (((small, large), True), ((large, small), True), ((large, large), False)):
        asked = replace(row.measurement, model="llama_3_405b", tp=None, prefill=pools[0], decode=pools[1])
        (found,) = predict([asked], lambda _: catalog.assumptions("deployable"))
        assert found.skipped.startswith("cannot have run: weights need") is short


def test_chips_without_a_profile_are_named_as_such(tmp_path: Path) -> None:
    path = _serving(tmp_path / "mine.csv", {})
    path.write_text(path.read_text(encoding="utf-8").replace("h100_sxm", "TPU v5e"), encoding="utf-8")
    (line,) = _lines(_report(path))
    assert (line["assumptions"], line["outside"]) == ("deployable", "no profile for the chip")


def test_few_rows_are_listed_one_by_one_and_many_are_counted(tmp_path: Path) -> None:
    """A golden page has the lines and notes of few rows."""
    rows: list[dict[str, object]] = [{"c": count, "tpot": 8 + count} for count in range(2, 13)]
    few, many = (_report(_serving(tmp_path / "mine.csv", *rows[:last])) for last in (2, None))
    assert [table.title.partition(" under ")[0] for table in error_tables(many)] == ["Measured servers", "Errors"]
    (table,) = error_tables(few)
    assert table.title == "Measured and predicted by the default profile of each GPU"


# Bound.


def test_a_row_beyond_the_bound_gets_a_diagnosis(tmp_path: Path) -> None:
    report = _report(_serving(tmp_path / "mine.csv", {"tpot": 0.5, "ttft": 0.5}, {"c": 8, "tpot": 10}))
    found = bound.violations(report.rows)
    assert [(one.row.id, one.quantity.name) for one in found] == [("r1", "ttft_under_load"), ("r1", "tpot")]
    assert found[1].factor == pytest.approx(found[1].bound / 0.0005)
    assert found[0].why == (
        "not explained: look into a fact of the model or chip, the row itself, speculation, which is not recorded, "
        "cached prompts, or a lower concurrency than recorded"
    )
    table = document.beyond(found)
    assert table.every_note[0] == "1 rows are faster than the ideal bound (preset 'ideal')."


def test_requests_that_wait_for_memory_do_not_decode_and_set_no_bound(tmp_path: Path) -> None:
    """If 256 requests have a TTFT of 40 s and decode for 1 s, about six decode at once."""
    for ttft, violated in ((40_000, []), (100, ["tpot"])):
        path = _serving(tmp_path / "mine.csv", {"c": 256, "tpot": 5, "ttft": ttft})
        found = bound.violations(_report(path).rows)
        assert [one.quantity.name for one in found if one.quantity == TPOT] == violated


# Tables and documents.


def test_the_document_has_every_part() -> None:
    few = Servers("by hardware", tuple(_rows_of("inferencemax_aggregated")), ())
    text = document.document(few, [replace(few, assumptions="other")], [], "a.png", "say it again")
    for words in (
        *("Generated by `say it again`", "## How rows are predicted", "### By hardware", "(a.png)", "agrawal2024vidur"),
        *("## What is reached", "## On rows that were not fitted", "InferenceX runs on one machine"),
        *("| median error, bias | by hardware | other |", "AISimulate 0.12.0", "arxiv.org/abs/2405.05465"),
    ):
        assert words in text, words
    assert "\n\n\n" not in text


def test_the_kept_document_is_that_of_these_parts() -> None:
    """Figures change with the model; the parts and the number of rows do not."""
    kept = (Path(__file__).parents[4] / "docs" / "evidence" / "validation.md").read_text(encoding="utf-8")
    few = Servers("by hardware", tuple(_rows_of("poisson_load_a100")), ())
    made = document.document(few, [], [], "validation.png", "sh run.sh validate")
    title, *headings = [line for line in made.splitlines() if line.startswith("#")]
    # Costs at a speed come first and take minutes, with and without corrections; then times of given servers.
    titles = [line for line in kept.splitlines() if line.startswith("#")]
    times = titles.index("## Times of given servers")
    assert titles[:2] == [title, "## Cost at a speed"]
    assert [name.endswith("levels left out)") for name in titles[2:times]] == [False] * 3 + [True] * 3
    assert titles[times + 1 :] == headings
    assert "Generated by `sh run.sh validate`" in kept
    assert "| all | 5644 | 5561 |" in kept
    assert len(kept.splitlines()) < 700


def _rows_of(name: str) -> list[InputRow]:
    return [row for row in shipped_servers().rows if row.dataset == name]


def test_errors_of_other_tools_have_references() -> None:
    table = document.tools()
    assert len(table.rows) == 11
    assert all("](http" in row[-1] for row in table.rows)


# Bad input.


@pytest.mark.rows
def test_files_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        _report(path)


@pytest.mark.rows
def test_impossible_values_are_skipped_rows(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    (found,) = _report(_serving(tmp_path / "mine.csv", row)).rows
    assert found.skipped == reason
    assert found.measurement is None
