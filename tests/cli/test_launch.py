"""``launch``: every generated command line parses with the engine's own options; bad input gives one message."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from inference_econ.extras.agents import simulation as agent_play
from inference_econ.inputs.engine import launch_options as starting
from tests.commands import Command, process, stand_ins
from tests.reading import tables

LLAMA = ("llama_3_70b", "h100_sxm", "--weights", "fp8", "--request-rate", "5", "--tpot", "50 ms", "--ttft", "2 s")
PINNED = (*LLAMA, "--tp", "2", "--dp", "1", "--pp", "1")
VERSIONS = [(engine, version) for engine in ("vllm", "sglang", "trtllm") for version in starting.versions(engine)]
COMMANDS = {"vllm": "vllm serve", "sglang": "sglang.launch_server", "trtllm": "trtllm-serve serve"}
PROGRAMS = {engine: " ".join(starting.launch(engine).program) for engine in COMMANDS}


@pytest.fixture
def answer(tmp_path: Path, command: Command) -> Path:
    """Return a result of ``recommend`` for vLLM."""
    return _answer(tmp_path, command, "vllm")


#: Results of recommend by query, computed once for all tests.
ANSWERS: dict[tuple[str, ...], str] = {}


def _answer(folder: Path, command: Command, engine: str, asked: Sequence[str] = PINNED) -> Path:
    """Write a result of ``recommend`` for an engine."""
    path, words = folder / "answer.json", (*asked, "--engine", engine)
    if words not in ANSWERS:
        assert command("recommend", *words, "-o", path).code == 0
        ANSWERS[words] = path.read_text()
    path.write_text(ANSWERS[words])
    return path


def _change(path: Path, where: Sequence[Any], change: dict[str, Any]) -> None:
    """Change fields of one part of a saved result."""
    record = json.loads(path.read_text())
    part = reduce(lambda part, key: part[key], where, record)
    part |= change
    path.write_text(json.dumps(record))


def _started(text: str, program: str, *words: str) -> list[str]:
    """Return the arguments that a script passes to a program, split as a shell splits them."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "launch.sh")
        script.write_text(text)
        path = stand_ins(Path(folder), {program.split()[0]: "printf '%s\\n' \"$@\""})
        done = process("/bin/sh", script, *words, folder=Path(folder), env={"PATH": f"{path}:/usr/bin:/bin"})
        assert done.returncode == 0, done.stderr
    given = done.stdout.splitlines()
    assert given[: len(program.split()) - 1] == program.split()[1:]
    return given[len(program.split()) - 1 :]


def _parsed(text: str, engine: str, version: str | None = None) -> dict[str, Any]:
    words = _started(text, PROGRAMS[engine], "serve")
    return starting.options(engine, version).parse(COMMANDS[engine], words)


def _benchmark(text: str) -> dict[str, Any]:
    return starting.options("vllm").parse("vllm bench serve", _started(text, "vllm bench serve", "bench"))


def _comments(text: str) -> str:
    """Return a script as one line, without comment signs."""
    return " ".join(text.replace("#", "").split())


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_every_recorded_version_reads_its_command(tmp_path: Path, command: Command, engine: str, version: str) -> None:
    answer = _answer(tmp_path, command, engine)
    text = command("launch", answer, "--to", engine, "--engine-version", version).out
    assert version in text.splitlines()[1]
    assert len(_parsed(text, engine, version)) > 6


@pytest.fixture
def script(answer: Path, command: Command) -> str:
    """Return the script that starts the first choice of the result."""
    return command("launch", answer, "--to", "vllm").out


@pytest.fixture
def choice(answer: Path) -> dict[str, Any]:
    """Return the first choice of the result."""
    entry: dict[str, Any] = json.loads(answer.read_text())["choices"][0]
    return entry


def test_limits_of_a_server_follow_from_the_answer(script: str, choice: dict[str, Any]) -> None:
    read = _parsed(script, "vllm")
    assert read["model_tag"] == "nvidia/Llama-3.1-70B-Instruct-FP8"
    assert read["--max-model-len"] == 2625
    assert read["--max-num-seqs"] == choice["slots"]
    assert read["--tensor-parallel-size"] == choice["layout"]["tp"]
    assert "--quantization" not in read
    assert read["--gpu-memory-utilization"] == 0.92


def test_the_benchmark_offers_one_instance_its_share_beside_the_prediction(script: str, choice: dict[str, Any]) -> None:
    read = _benchmark(script)
    assert read["--request-rate"] == pytest.approx(5 / choice["replicas"], rel=1e-4)
    assert (read["--random-input-len"], read["--random-output-len"]) == (2000, 500)
    assert read["--ignore-eos"] is True
    low, value, high = (1e3 * choice[f"tpot_seconds{end}"]["p90"] for end in ("_low", "", "_high"))
    assert f"TPOT p90 {value:.4g} ({low:.4g} to {high:.4g}) ms, SLO 50" in script


def test_instances_of_a_machine_have_ports_and_accelerators_of_their_own(script: str) -> None:
    words = _started(script, "vllm serve", "serve", "2")
    assert words[words.index("--port") + 1] == "8002"
    shown = script.replace("vllm serve", "echo $CUDA_VISIBLE_DEVICES; vllm serve")
    assert _started(shown, "vllm", "serve", "1")[0] == "2,3"


def test_a_script_that_is_asked_for_nothing_says_what_it_can_do(script: str) -> None:
    done = process("/bin/sh", "-c", script)
    assert done.returncode == 2
    assert "serve [NUMBER [RANK LEADER]] | bench" in done.stderr


@pytest.mark.parametrize(("version", "recorded"), [(None, None), ("0.11.0", "0.11.0"), ("0.24.0", "0.20.2")])
def test_an_answer_and_the_same_options_start_the_same(
    tmp_path: Path, command: Command, version: str | None, recorded: str | None
) -> None:
    """The version of the query is started, with the options of the newest recorded version up to it."""
    engine = "vllm" if version is None else f"vllm@{version}"
    words = ((_answer(tmp_path, command, engine),), (*PINNED, "--engine", engine))
    saved, asked = (command("launch", *each).out for each in words)
    assert all(f"vLLM {version or ''}" in text.splitlines()[1] for text in (saved, asked))
    assert _parsed(saved, "vllm", recorded) == _parsed(asked, "vllm", recorded)
    assert _benchmark(saved) == _benchmark(asked)


def test_what_carries_the_most_traffic_can_be_started(command: Command, refused: Command, tmp_path: Path) -> None:
    path, means = tmp_path / "most.json", ("--gpus", "8", "--ttft", "2 s", "--tpot", "50 ms")
    subject = ("llama_3_70b", "h100_sxm", "--weights", "fp8", "--max-instance-gpus", "8")
    asked = (*subject, "--engine", "vllm", "--aggregated", *means)
    assert command("recommend", *asked, "--choices", "2", "-o", path).code == 0
    choices = json.loads(path.read_text())["choices"]
    for number, choice in enumerate(choices, 1):
        text = command("launch", path, "--to", "vllm", "--choice", number).out
        assert _parsed(text, "vllm")["--tensor-parallel-size"] == choice["layout"]["tp"]
        each = choice["request_rate"] / choice["replicas"]
        assert _benchmark(text)["--request-rate"] == pytest.approx(each, rel=1e-4)
    assert "--choice 3: there are 2" in refused("launch", path, "--to", "vllm", "--choice", "3").err


def test_machines_without_the_fast_link_of_a_prediction_are_spoken_of(command: Command) -> None:
    asked = ("launch", *LLAMA[:4], "--request-rate", "1", "--tp", "2", "--to", "vllm")
    said = "the prediction assumes fast links between 2 GPUs, but machines have 1 GPUs and no fast links between them"
    single = (*asked, "--gpus-per-node", "1")
    heard = [
        command(*words).out.replace("\n#    ", "")
        for words in (asked, single, (*single, "--set", "hardware.link_domain=1"))
    ]
    assert [said in text for text in heard] == [False, True, False]


GROUPS = (
    *("deepseek_v3", "h200_sxm", "--request-rate", "2", "--no-speculation"),
    *("--tp", "1", "--dp", "8", "--pp", "1", "--ep", "8"),
)


@pytest.mark.parametrize(
    ("engine", "version", "held"), [("sglang", "0.5.10", True), ("sglang", "0.5.3", False), ("trtllm", "1.1.0", True)]
)
def test_delayed_prefill_is_started_or_spoken_of(command: Command, engine: str, version: str, held: bool) -> None:
    text = command("launch", *GROUPS, "--to", engine, "--engine-version", version).out
    words = _comments(text)
    assert _parsed(text, engine, version)
    if engine == "sglang":
        assert ("--prefill-delayer-max-delay-passes 30" in words) == held
    else:
        assert "attention_dp_config: {enable_balance: true, timeout_iters: 50, batching_wait_iters: 0}" in text
    said = f"SGLang {version} cannot delay prefill in this deployment until all attention-DP groups have a prompt"
    assert (said in words) == (not held)


@pytest.mark.parametrize(("version", "held"), [("0.5.10", False), ("0.5.23", True)])
def test_prefill_is_delayed_with_draft_heads_where_steps_overlap(command: Command, version: str, held: bool) -> None:
    """SGLang delays prefill only with overlapped steps; draft heads disabled the overlap in old versions."""
    asked = [word for word in GROUPS if word != "--no-speculation"]
    text = command("launch", *asked, "--mtp", "--to", "sglang", "--engine-version", version).out
    assert ("--enable-prefill-delayer" in text) == held
    assert ("cannot delay prefill" in text) == (not held)


def test_a_closed_loop_of_a_frontier_is_offered_as_a_concurrency(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "front.json"
    command("frontier", "llama_3_8b", "h100_sxm", "--max-instance-gpus", "1", "--engine", "sglang", "-o", path)
    points = json.loads(path.read_text())["points"]
    text = command("launch", path, "--to", "sglang", "--choice", "2").out
    assert _benchmark(text)["--max-concurrency"] == round(points[1]["concurrency"])
    assert "output tokens/s" in text


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("rate", "drafts"), [("0.1", 5), ("60", None)])
def test_scripts_draft_as_priced(command: Command, tmp_path: Path, rate: str, drafts: int | None, engine: str) -> None:
    """A single request gains from five draft tokens; a compute-bound batch gains from none."""
    path, pinned = tmp_path / "answer.json", ("--tp", "1", "--dp", "1", "--pp", "1", "--weights", "fp8")
    asked = (
        "llama_3_8b",
        "h100_sxm",
        *pinned,
        "--isl",
        "200",
        "--osl",
        "200",
        "--ngram",
        "--request-rate",
        rate,
        "--any-speed",
    )
    accepted = ("--acceptance", "0.9,0.8,0.7,0.6,0.5" if drafts else "0.05,0.05,0.05,0.05,0.05")
    assert command("recommend", *asked, *accepted, "--engine", engine, "-o", path).code == 0
    text = command("launch", path, "--to", engine).out
    read = _parsed(text, engine)
    told = read.get("--speculative-config" if engine == "vllm" else "--speculative-num-draft-tokens")
    if drafts is None:
        assert told is None
        assert "script and prediction do not use speculation, because it is slower at this load" in _comments(text)
    else:
        assert told == ({"method": "ngram", "num_speculative_tokens": drafts} if engine == "vllm" else drafts + 1)
        assert "do not use speculation" not in text


@pytest.mark.parametrize("to", ["vllm", "sglang", "trtllm"])
def test_an_eagle_head_that_is_named_is_started(command: Command, to: str) -> None:
    asked = (*LLAMA[:4], "--request-rate", "0.2", "--tp", "2", "--dp", "1", "--pp", "1", "--eagle")
    text = command("launch", *asked, "--to", to, "--draft-model-id", "me/head").out
    assert _parsed(text, to)
    assert "me/head" in text


POOLS = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "1", "--engine", "sglang")
SAVED_POOLS = [
    ("recommend", *POOLS, "--disaggregated", "--any-group", "--request-rate", "20", "--ttft", "500"),
    ("frontier", *POOLS, "--disaggregated", "--any-group"),
]


@pytest.mark.parametrize("asked", SAVED_POOLS, ids=lambda asked: asked[0])
def test_pools_start_on_their_engine(command: Command, refused: Command, tmp_path: Path, asked: Sequence[str]) -> None:
    path = tmp_path / "answer.json"
    assert command(*asked, "-o", path).code == 0
    text = command("launch", path, "--to", "sglang", "--choice", "1").out
    for role in ("prefill", "decode"):
        words = _started(text, PROGRAMS["sglang"], role)
        assert words[words.index("--disaggregation-mode") + 1] == role
    said = refused("launch", path, "--to", "vllm", "--choice", "1").warned
    assert f"--to vllm: choice 1 of {path} is predicted for sglang; start it with --to sglang, or repeat" in said
    assert f"repeat 'inference-econ {asked[0]}' with --engine vllm" in said
    assert "or repeat the command that wrote" in refused("launch", path, "--engine", "vllm").warned


@pytest.mark.parametrize(
    ("to", "option"), [("vllm", "--max-num-seqs"), ("sglang", "--max-running-requests"), ("trtllm", "--max_batch_size")]
)
def test_decode_instances_have_slots_that_keep_the_tpot(command: Command, tmp_path: Path, to: str, option: str) -> None:
    """Decode instances get fewer slots than memory holds; prefill instances have no limit."""
    path = tmp_path / "answer.json"
    asked = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "1", "--disaggregated", "--any-group", "--engine", to)
    promised = ("--request-rate", "100", "--ttft", "3000", "--tpot", "10")
    assert command("recommend", *asked, *promised, "-o", path).code == 0
    choices = json.loads(path.read_text())["choices"]
    number, slots = next(
        (number, choice["decode_slots"]) for number, choice in enumerate(choices, 1) if choice["speculation"] is None
    )
    text = command("launch", path, "--to", to, "--choice", str(number)).out
    reading, writing = (_started(text, PROGRAMS[to], role) for role in ("prefill", "decode"))
    assert int(writing[writing.index(option) + 1]) == slots < int(reading[reading.index(option) + 1])


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
@pytest.mark.rows
def test_layouts_are_read_by_all(command: Command, tmp_path: Path, asked: list[str], engine: str, version: str) -> None:
    answer = _answer(tmp_path, command, engine, (*asked, "--aggregated", "--request-rate", "1"))
    text = command("launch", answer, "--to", engine, "--engine-version", version).out
    assert _parsed(text, engine, version)


@pytest.mark.parametrize("generator", ["aiperf", "guidellm"])
def test_other_load_generators_read_their_commands(answer: Path, command: Command, generator: str) -> None:
    text = command("launch", answer, "--to", "vllm", "--bench", generator).out
    program = {"aiperf": "aiperf profile", "guidellm": "guidellm run"}[generator]
    assert starting.options(generator).parse(program, _started(text, program, "bench"))


@pytest.mark.rows
def test_every_generator_offers_deviations_and_caching(command: Command, generator: str, told: Sequence[str]) -> None:
    asked = ("--isl", "lognormal:2000:0.5", "--osl", "uniform:400:600", "--cached", "500", "--bench", generator)
    text = command("launch", *PINNED, *asked, "--to", "vllm").out
    for part in told:
        assert part in " ".join(text.replace("\\\n", "").split()), part
    assert ("there are no cache hits" in text) == (generator == "guidellm")


@pytest.mark.rows
def test_a_file_that_is_no_answer_is_refused(refused: Command, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text.replace("N", 5000 * "9"))
    assert message in refused("launch", path, "--to", "vllm").err


@pytest.mark.rows
def test_an_answer_of_others_or_that_somebody_has_changed_is_refused(
    refused: Command, answer: Path, tmp_path: Path, where: Sequence[Any], change: dict[str, Any], message: str
) -> None:
    _change(answer, where, change)
    assert message in refused("launch", answer, "--to", "vllm", "-o", "launch.sh").err.replace("\n", " ")
    assert not (tmp_path / "launch.sh").exists()


def test_slots_that_no_engine_takes_are_refused(refused: Command, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    assert command(*SAVED_POOLS[0], "-o", path).code == 0
    for slots, said in ((0, "0 slots"), (2.5, "2.5 slots"), ("many", "'many' slots")):
        _change(path, ("choices", 0), {"decode_slots": slots})
        message = refused("launch", path, "--to", "sglang").warned
        assert f"not what recommend writes ({said})" in message


@pytest.mark.parametrize("path", [("choices",), ("asked", "options", "hardware")])
def test_an_answer_that_was_cut_is_refused(refused: Command, answer: Path, path: Sequence[str]) -> None:
    record = json.loads(answer.read_text())
    del reduce(lambda part, key: part[key], path[:-1], record)[path[-1]]
    answer.write_text(json.dumps(record))
    message = refused("launch", answer, "--to", "vllm").err.replace("\n", " ")
    assert f"not what recommend writes ('{path[-1]}' is missing)" in message


def test_options_that_an_answer_has_settled_are_refused(refused: Command, answer: Path) -> None:
    assert "h100_sxm contradicts" in refused("launch", answer, "h100_sxm", "--to", "vllm").err
    message = refused("launch", answer, "--to", "vllm", "--tp", "4").err
    assert "--tp contradicts" in message
    assert "remove --tp, or repeat the command that wrote" in message.replace("\n", " ")


@pytest.mark.parametrize("to", ["vllm", "sglang", "trtllm"])
def test_a_fleet_of_agents_starts(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    """The contexts grow to 500 + 6 x 260 tokens, while the mean turn has about 1,300."""
    monkeypatch.setattr(agent_play, "_LEAST", 300)
    monkeypatch.setattr(agent_play, "_MOST", 300)
    (tmp_path / "helpers.yaml").write_text(tables(Path(__file__))["AGENTS"], encoding="utf-8")
    subject = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1, "--slots", 8)
    asked = (*subject, "--traffic", "helpers.yaml", "--agents", 60, "--tier", "dram", "--no-speculation")
    assert command("recommend", *asked, "--engine", to, "-o", tmp_path / "plan.json").code == 0
    choice = json.loads((tmp_path / "plan.json").read_text())["choices"][0]
    saved, direct = (command("launch", *words).out for words in ((tmp_path / "plan.json",), (*asked, "--to", to)))
    read = _parsed(saved, to)
    assert read == _parsed(direct, to)
    longest, slots = {
        "vllm": ("--max-model-len", "--max-num-seqs"),
        "sglang": ("--context-length", "--max-running-requests"),
        "trtllm": ("--max_seq_len", "--max_batch_size"),
    }[to]
    assert (read[longest], read[slots]) == (2060 + 103, choice["slots"])
    said = _comments(saved)
    assert "predicted for 60 agents (helpers.yaml) with a cache hit rate of" in said
    assert ("put a router before the" in said) == (choice["replicas"] > 1)
    assert "predicted with host memory behind HBM, which this script does not start" in said
    bench = _benchmark(saved)
    assert bench["--random-prefix-len"] + bench["--random-input-len"] == choice["isl"]
    if to == "trtllm":
        assert "enable_block_reuse: true" in saved
    else:
        assert read.get("--enable-prefix-caching", True) is True


def test_agents_are_not_watched(tmp_path: Path, command: Command, refused: Command) -> None:
    answer = _answer(tmp_path, command, "vllm")
    _change(answer, ("asked", "options"), {"agents": 30, "traffic": "coding_agent"})
    said = refused("watch", answer, "--metrics", "http://127.0.0.1:1/metrics").err.replace("\n", " ")
    assert "results for agents cannot be watched" in said and "watch MODEL HARDWARE with the --isl" in said
