"""Manifests of ``launch``: each is valid in the schema of its kind, and starts the same command as the script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from inference_econ.inputs.engine import launch_options as starting
from tests.commands import Command

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "schemas"
COMMANDS = {"vllm": "vllm serve", "sglang": "sglang.launch_server", "trtllm": "trtllm-serve serve"}
LLAMA = ("llama_3_70b", "h100_sxm", "--weights", "fp8", "--request-rate", "5", "--tp", "2", "--dp", "1", "--pp", "1")
DEEPSEEK = ("deepseek_v3", "h200_sxm", "--isl", "4000", "--request-rate", "4")
AMD = ("llama_3_70b", "mi300x", "--request-rate", "2", "--tp", "1", "--dp", "1", "--pp", "1", "--weights", "fp8")
WIDE = ("deepseek_v3", "h200_sxm", "--request-rate", "2", "--tp", "8", "--dp", "2", "--pp", "1", "--ep", "16")

#: The pools of recommend by engine, which take seconds and are computed once.
_SAVED: dict[str, str] = {}


@pytest.fixture
def apart(tmp_path: Path, command: Command) -> Callable[[str], Path]:
    """Return pools of ``recommend`` for an engine."""

    def answer(engine: str) -> Path:
        path = tmp_path / "apart.json"
        if engine not in _SAVED:
            asked = (*DEEPSEEK, "--osl", "1000", "--no-pipeline", "--max-instance-gpus", "8", "--disaggregated")
            told = ("--engine", engine, "--ttft", "4 s", "--tpot", "60 ms", "-o", path)
            assert command("recommend", *asked, *told).code == 0
            _SAVED[engine] = path.read_text()
        path.write_text(_SAVED[engine])
        return path

    return answer


def _documents(text: str, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the documents of a file, each validated against the schema of its kind."""
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        schema = json.loads((SCHEMAS / f"{kind or document['kind']}.json").read_text())
        jsonschema.validate(document, schema)
    return documents


def _of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (document,) = [document for document in documents if document["kind"] == kind]
    return document


def _containers(value: object) -> Iterator[Mapping[str, Any]]:
    """Return every container of a manifest that runs a command."""
    if isinstance(value, dict):
        if "image" in value and "command" in value:
            yield value
        for item in value.values():
            yield from _containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _containers(item)


def _parsed(engine: str, words: list[str]) -> dict[str, Any]:
    program = len(starting.launch(engine).program)
    return starting.options(engine).parse(COMMANDS[engine], words[program:])


def _weights(engine: str) -> tuple[str, ...]:
    return ("--model-id", "nvidia/Llama-3.1-70B-Instruct-FP8") if engine == "trtllm" else ()


@pytest.mark.parametrize("engine", COMMANDS)
def test_compose_starts_the_instances_of_one_machine(command: Command, engine: str) -> None:
    text = command("launch", *LLAMA, *_weights(engine), "--to", engine, "--as", "compose").out
    (record,) = _documents(text, "compose")
    assert {service["healthcheck"]["start_period"] for service in record["services"].values()} == {"1h"}
    devices = []
    for service in record["services"].values():
        assert _parsed(engine, [*service["entrypoint"], *service["command"]])
        (reserved,) = service["deploy"]["resources"]["reservations"]["devices"]
        devices += reserved["device_ids"]
    assert devices == sorted(set(devices)) and len(devices) <= 8
    if engine == "trtllm":
        starting.options(engine).check_file(
            "trtllm-serve config", yaml.safe_load(record["configs"]["engine"]["content"])
        )


@pytest.mark.parametrize("engine", COMMANDS)
def test_kubernetes_has_all_instances_behind_one_service(command: Command, engine: str) -> None:
    text = command("launch", *LLAMA, *_weights(engine), "--to", engine, "--as", "kubernetes").out
    documents = _documents(text)
    deployment, service = (_of_kind(documents, kind) for kind in ("Deployment", "Service"))
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    assert _parsed(engine, container["command"])
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert f"replicas: {deployment['spec']['replicas']}" in text
    if engine == "trtllm":
        file = yaml.safe_load(_of_kind(documents, "ConfigMap")["data"]["engine.yaml"])
        starting.options(engine).check_file("trtllm-serve config", file)


def test_chips_of_another_vendor_have_a_resource_and_an_image_of_their_own(command: Command) -> None:
    asked = (*AMD, "--to", "vllm", "--as", "kubernetes", "--image", "rocm/vllm:latest")
    pod = _of_kind(_documents(command("launch", *asked).out), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("rocm/vllm:latest", {"amd.com/gpu": "1"})


@pytest.mark.rows
def test_instances_over_machines_are_leaders_with_workers(command: Command, engine: str, told: str) -> None:
    documents = _documents(command("launch", *WIDE, "--to", engine, "--as", "leaderworkerset").out)
    group = _of_kind(documents, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    assert group["size"] == 2
    for container in _containers(group):
        assert told in container["command"][2]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    leader = group["leaderTemplate"]["metadata"]["labels"]
    assert _of_kind(documents, "Service")["spec"]["selector"].items() <= leader.items()


def test_slurm_starts_all_machines_of_trtllm_at_once(command: Command) -> None:
    """A script of vLLM or SGLang takes the number of a machine; one of TensorRT-LLM runs once for all machines."""
    asked = ("deepseek_v3", "h200_sxm", "--request-rate", "2", "--tp", "16", "--to", "trtllm")
    script = command("launch", *asked).out
    assert "srun --nodes=2 --ntasks-per-node=8 --mpi=pmix trtllm-llmapi-launch \\\n    trtllm-serve serve" in script
    assert "In a Slurm allocation of 2 nodes" in script
    assert "--tp_size 16" in script
    workers = _of_kind(_documents(command("launch", *asked, "--as", "dynamo").out), "DynamoGraphDeployment")
    assert workers["spec"]["services"]["Worker"]["multinode"] == {"nodeCount": 2}


@pytest.mark.parametrize("engine", COMMANDS)
def test_dynamo_has_workers_of_each_kind(command: Command, apart: Callable[[str], Path], engine: str) -> None:
    answer = apart(engine)
    documents = _documents(command("launch", answer, "--to", engine, "--as", "dynamo").out)
    services = _of_kind(documents, "DynamoGraphDeployment")["spec"]["services"]
    fleet = json.loads(answer.read_text())["choices"][0]
    assert services["PrefillWorker"]["replicas"] == fleet["prefill_instances"]
    assert services["DecodeWorker"]["subComponentType"] == "decode"
    words = services["PrefillWorker"]["extraPodSpec"]["mainContainer"]["args"]
    assert words[words.index("--disaggregation-mode") + 1] == "prefill"
    if engine == "sglang":
        assert starting.options(engine).parse(COMMANDS[engine], words)
    if engine == "trtllm":
        maps = [document for document in documents if document["kind"] == "ConfigMap"]
        for file in (yaml.safe_load(entry["data"]["engine.yaml"]) for entry in maps):
            starting.options(engine).check_file("trtllm-serve config", file)
            assert file["cache_transceiver_config"]["max_tokens_in_buffer"] == 5250


def test_llm_d_has_both_pools(command: Command, apart: Callable[[str], Path]) -> None:
    (values,) = _documents(command("launch", apart("vllm"), "--to", "vllm", "--as", "llm-d").out, "llm_d")
    for role in ("prefill", "decode"):
        (container,) = values[role]["containers"]
        read = _parsed("vllm", [*container["command"], *container["args"]])
        assert read["--kv-transfer-config"]["kv_connector"] == "NixlConnector"
        assert read["--port"] == container["ports"][0]["containerPort"]


def test_llm_d_takes_an_aggregated_answer_as_well(command: Command) -> None:
    (values,) = _documents(command("launch", *LLAMA, "--to", "vllm", "--as", "llm-d").out, "llm_d")
    assert values["prefill"] == {"create": False}


@pytest.fixture
def day(tmp_path: Path, command: Command) -> Path:
    """Return a result of ``fleet`` for a day."""
    path = tmp_path / "day.json"
    if "day" not in _SAVED:
        asked = ("llama_3_8b", "h100_sxm", "--tp", "1", "--engine", "vllm", "--rates", "20,100", "--ttft", "500")
        assert command("fleet", *asked, "--target", "0.8", "-o", path).code == 0
        _SAVED["day"] = path.read_text()
    path.write_text(_SAVED["day"])
    return path


def test_keda_scales_each_lot_behind_the_cheaper_ones(command: Command, day: Path) -> None:
    lots = json.loads(day.read_text())["rental_units"]
    assert [lot["paid"] for lot in lots] == ["reserved", "on_demand", "spot"]
    assert lots[2]["scaling"]["held_before"] < lots[1]["scaling"]["held_before"]
    first, third = (_documents(command("launch", day, "--choice", number, "--as", "keda").out) for number in (1, 3))
    scaled, deployment = (_of_kind(third, kind) for kind in ("ScaledObject", "Deployment"))
    name, told = deployment["metadata"]["name"], lots[2]["scaling"]
    assert name == "vllm-llama-3-1-8b-instruct-h100-spot" == scaled["spec"]["scaleTargetRef"]["name"]
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (told["fewest"], told["most"])
    (trigger,) = scaled["spec"]["triggers"]
    assert float(trigger["metadata"]["threshold"]) == pytest.approx(told["per_replica"], rel=1e-5)
    assert trigger["metadata"]["query"].startswith("clamp_min(sum(vllm:num_requests_running{")
    assert trigger["metadata"]["query"].endswith(f" - {told['held_before']:.6g}, 0)")
    (before,) = _of_kind(first, "ScaledObject")["spec"]["triggers"]
    assert "clamp_min" not in before["metadata"]["query"]


def test_llm_d_manages_an_autoscaler_that_knows_the_cost(command: Command, day: Path) -> None:
    documents = _documents(command("launch", day, "--choice", 3, "--as", "llm-d-autoscaling").out)
    autoscaler = _of_kind(documents, "HorizontalPodAutoscaler")
    lot = json.loads(day.read_text())["rental_units"][2]
    assert float(autoscaler["metadata"]["annotations"]["llm-d.ai/variant-cost"]) == lot["dollars_per_hour"]
    assert autoscaler["spec"]["maxReplicas"] == lot["scaling"]["most"]


def test_a_lot_of_a_day_is_named(refused: Command, day: Path) -> None:
    assert "3 deployments; name one with --choice 1 to 3" in refused("launch", day, "--as", "keda").err


def test_pools_need_a_router(refused: Command, apart: Callable[[str], Path]) -> None:
    for form in ("compose", "kubernetes", "leaderworkerset"):
        outcome = refused("launch", apart("vllm"), "--to", "vllm", "--as", form)
        assert f"--as {form}: pools of prompts and of answers need a router" in outcome.err
