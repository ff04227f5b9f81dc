"""Deployments as manifests: Docker Compose, Kubernetes, LeaderWorkerSet, llm-d and Dynamo.

Manifests are created from YAML templates that contain values in JSON, then parsed, and written again in readable form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from inference_econ.answers.launching.instance import (
    CONFIG,
    Expanded,
    Instance,
    InstanceMachine,
    LaunchDegrees,
    Role,
    headless,
    machines,
)
from inference_econ.answers.launching.instance import (
    commands_per_machine as told,
)
from inference_econ.answers.launching.plan import LaunchPlan, Scaling
from inference_econ.errors import InputError
from inference_econ.inputs import foreign_yaml, yaml_text
from inference_econ.report.questions.launch import (
    SIDE_CHANNEL,
    command_text,
    files,
    launch_comments,
    shell_word,
    templates,
)

if TYPE_CHECKING:
    from jinja2 import Environment

Record = dict[str, Any]
#: Kubernetes resource of a GPU, by vendor.
_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
#: Folder of configuration files in containers.
_FOLDER = "/etc/engine"
#: Decode port behind the llm-d router, and port of its service.
_DECODE_PORT, _SERVICE_PORT = 8200, 8000
#: Release of the Dynamo images.
DYNAMO = "1.6.1"
#: Address of Prometheus for KEDA, and metrics of running, waiting and completed requests by engine.
_PROMETHEUS = "http://prometheus.monitoring.svc:9090"
_METRICS = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:request_success_total"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_requests_total"),
}
#: Access token for gated weights, from an optional secret.
_TOKEN: Mapping[str, Any] = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}},
}


@cache
def _templates() -> Environment:
    return templates().overlay(finalize=json.dumps)


def _documents(template: str, **values: Any) -> list[Record]:
    """Documents of a YAML template."""
    values |= {"config": CONFIG, "folder": _FOLDER, "token": _TOKEN}
    name = f"{template}.yaml.j2"
    texts = _templates().get_template(name).render(values).split("\n---\n")
    return [cast("Record", foreign_yaml(text, name)) for text in texts]


def compose(deployment: LaunchPlan, size: int) -> str:
    """Write a Docker Compose file for the instances that fit one machine.

    Raises
    ------
    InputError
        If an instance needs several machines, GPUs that Compose does not support, or a router.
    """
    instance = _alone(deployment, "compose")
    if machines(instance, size) > 1:
        raise InputError("docker compose is for one machine; take --as leaderworkerset", option="as")
    if instance.service.setup.hardware.vendor != "NVIDIA":
        raise InputError("docker compose reserves NVIDIA devices only; take --as kubernetes", option="as")
    count = min(instance.replicas, size // instance.accelerators)
    first = [index * instance.accelerators for index in range(count)]
    devices = [[str(device) for device in range(start, start + instance.accelerators)] for start in first]
    documents = _documents("compose", **_values(instance), count=count, devices=devices)
    where = [f"{count} of {instance.replicas} instances fit a machine of {size} accelerators"]
    address = f"http://localhost:{instance.engine.launch.port}"
    return _text(documents, deployment, address, 1.0 / instance.replicas, where)


def _values(instance: Instance, port: int | None = None) -> Record:
    """Template values of an instance.

    Raises
    ------
    InputError
        If the default image does not support the chips, and no image is given.
    """
    engine, chip, launch = instance.engine, instance.service.setup.hardware, instance.engine.launch
    if engine.named_image is None and (chip.vendor != "NVIDIA" or not engine.image):
        what = f"{engine.image} is for NVIDIA" if engine.image else f"no image of {engine.label} is started so"
        raise InputError(f"{what}; name an image for {chip.name} with --image", option="image")
    words = [f"{_FOLDER}/{word}" if word == CONFIG else word for word in instance.words]
    return {
        "name": _name(instance),
        "image": engine.image,
        "words": [*words, "--host", "0.0.0.0", "--port", str(port or launch.port)],
        "program": len(launch.program),
        "files": files(instance),
        "port": port or launch.port,
        "health": launch.health,
        "replicas": instance.replicas,
        "resources": _resources(instance, instance.accelerators),
    }


def kubernetes(deployment: LaunchPlan, size: int, beside: Sequence[Record] = (), where: Sequence[str] = ()) -> str:
    """Write a Deployment of all instances behind one Service, with further manifests.

    Raises
    ------
    InputError
        If an instance needs several machines, or a router.
    """
    instance = _alone(deployment, "kubernetes")
    if machines(instance, size) > 1:
        raise InputError("a Deployment's pods are on one machine each; take --as leaderworkerset", option="as")
    pods = _documents("pod", **_values(instance), serves=True)
    documents = _documents("kubernetes", **_values(instance), pods=pods, size=None)
    address = f"http://{_name(instance)}:{instance.engine.launch.port}"
    return _text([*documents, *beside], deployment, address, where=where)


def keda(deployment: LaunchPlan, size: int) -> str:
    """Write the manifest of :func:`kubernetes` with a KEDA ScaledObject.

    Raises
    ------
    InputError
        If :func:`kubernetes` raises this error, the plan has no autoscaler settings, or the engine lacks the metrics.
    """
    scaling, instance = _scaling(deployment, "keda"), deployment.instances[0]
    if instance.engine.name not in _METRICS:
        raise InputError(
            f"--as keda: no metrics of {instance.engine.label} are known; take --to vllm or sglang", option="to"
        )
    running, waiting, done = _METRICS[instance.engine.name]
    labels = f'{{model_name="{instance.model}"}}'
    in_flight = f"sum({running}{labels}) + sum({waiting}{labels})"
    query = in_flight if scaling.metric == "in_flight" else f"sum(rate({done}{labels}[1m]))"
    # Cheaper instances serve their part first; the others serve the rest.
    query = f"clamp_min({query} - {scaling.before:.6g}, 0)" if scaling.before else query
    beside = _documents("keda", name=_name(instance), scaling=scaling, prometheus=_PROMETHEUS, query=query)
    where = [f"the autoscaler reads {_PROMETHEUS}: put the address of your Prometheus there"]
    return kubernetes(deployment, size, beside, where)


def llm_d_autoscaling(deployment: LaunchPlan, size: int) -> str:
    """Write the manifest of :func:`kubernetes` with a HorizontalPodAutoscaler of llm-d, cheapest variant first.

    Raises
    ------
    InputError
        If :func:`keda` raises this error, or the engine is not vLLM.
    """
    scaling, instance = _scaling(deployment, "llm-d-autoscaling"), deployment.instances[0]
    if instance.engine.name != "vllm":
        raise InputError(f"llm-d scales vLLM, not {instance.engine.label}; take --to vllm, or --as keda", option="to")
    beside = _documents("llm_d_autoscaling", name=_name(instance), model=instance.model, scaling=scaling)
    return kubernetes(deployment, size, beside, ["llm-d scales between these limits by its own load model"])


def _scaling(deployment: LaunchPlan, form: str) -> Scaling:
    """Autoscaler settings of the instances.

    Raises
    ------
    InputError
        If the plan has no autoscaler settings.
    """
    if deployment.scaling is None:
        raise InputError(
            f"--as {form} needs an answer about a day; write one with 'inference-econ fleet ... -o fleet.json', and "
            "name its lot with --choice",
            option="as",
        )
    return deployment.scaling


def leader_worker_set(deployment: LaunchPlan, size: int) -> str:
    """Write a LeaderWorkerSet of all instances over their machines, behind one Service of the leaders.

    Raises
    ------
    InputError
        If an instance does not fill machines, or needs a router.
    """
    instance = _alone(deployment, "leaderworkerset")
    pods = [pod for serves in (True, False) for pod in _group_pod(instance, size, serves=serves)]
    documents = _documents("kubernetes", **_values(instance), pods=pods, size=machines(instance, size))
    return _text(documents, deployment, f"http://{_name(instance)}:{instance.engine.launch.port}")


def _group_pod(instance: Instance, size: int, *, serves: bool) -> list[Record]:
    """Pod template of a LeaderWorkerSet group: the leader listens, and workers receive the address of the leader."""
    values = _values(instance)
    if machines(instance, size) > 1:
        machine = InstanceMachine(Expanded("$LWS_WORKER_INDEX"), Expanded("$LWS_LEADER_ADDRESS"))
        hidden = headless(instance, machine.rank)
        line = " ".join(map(shell_word, [*values["words"], *told(instance, size, machine)]))
        values["words"] = ["sh", "-c", f"exec {line} {hidden or ''}".rstrip()]
    resources = _resources(instance, min(size, instance.accelerators))
    return _documents("pod", **{**values, "resources": resources}, serves=serves)


def _resources(instance: Instance, accelerators: int) -> Record:
    return {"limits": {_RESOURCES[instance.service.setup.hardware.vendor]: str(accelerators)}}


def llm_d(deployment: LaunchPlan, size: int) -> str:
    """Write values of the chart llm-d-modelservice.

    Raises
    ------
    InputError
        If the engine is not vLLM, or an instance needs several machines.
    """
    engine = deployment.engine
    if engine.name != "vllm":
        raise InputError(
            f"llm-d is started with vLLM, not with {engine.label}; use --engine vllm, or take --as dynamo",
            option="to",
        )
    if any(machines(instance, size) > 1 for instance in deployment.instances):
        raise InputError(f"values for llm-d are written for instances of at most {size} accelerators")
    first = deployment.instances[0]
    by_role = {instance.role: instance for instance in deployment.instances}
    decoding, reading = by_role.get("decode", first), by_role.get("prefill")
    roles = {"decode": (decoding, _DECODE_PORT), "prefill": (reading, _SERVICE_PORT)}
    pools = {
        role: pool and {**_values(pool, port), "role": pool.role, "degrees": LaunchDegrees.of(pool.service)}
        for role, (pool, port) in roles.items()
    }
    values = {"model": first.model, "service_port": _SERVICE_PORT, "side_channel": SIDE_CHANNEL}
    return _text(_documents("llm_d", pools=pools, **values), deployment, "http://inference-gateway")


#: Names of Dynamo's images and modules.
_DYNAMO = {
    "vllm": ("vllm-runtime", "dynamo.vllm"),
    "sglang": ("sglang-runtime", "dynamo.sglang"),
    "trtllm": ("tensorrtllm-runtime", "dynamo.trtllm"),
}
#: Names of Dynamo's services by role.
_WORKERS: Mapping[Role, str] = {"both": "Worker", "prefill": "PrefillWorker", "decode": "DecodeWorker"}
#: Keys of the file for Dynamo's TensorRT-LLM module, by option of trtllm-serve.
_KEYS = {
    "--tp_size": "tensor_parallel_size",
    "--pp_size": "pipeline_parallel_size",
    "--ep_size": "moe_expert_parallel_size",
    "--max_seq_len": "max_seq_len",
    "--max_batch_size": "max_batch_size",
    "--max_num_tokens": "max_num_tokens",
}


def dynamo(deployment: LaunchPlan, size: int) -> str:
    """Write a DynamoGraphDeployment with a frontend, and workers of each kind."""
    name, engine = _name(deployment.instances[0]), deployment.engine
    runtime, module = _DYNAMO[engine.name]
    image, workers = engine.named_image or f"nvcr.io/nvidia/ai-dynamo/{runtime}:{DYNAMO}", []
    for instance in deployment.instances:
        # Dynamo workers accept the options of the engine. TensorRT-LLM workers read the engine options from a file.
        mode, file = [] if instance.role == "both" else ["--disaggregation-mode", instance.role], ""
        words = list(instance.words[len(instance.engine.launch.program) :])
        if instance.engine.name == "vllm":
            words = ["--model", *words, *mode]
        elif instance.engine.name == "trtllm":
            words = ["--model-path", instance.model, "--extra-engine-args", f"{_FOLDER}/{CONFIG}", *mode]
            # Complete configuration of an instance.
            keys = {_KEYS[option]: value for option, value in instance.arguments.items() if option in _KEYS}
            share = instance.arguments["--kv_cache_free_gpu_memory_fraction"]
            cache = {**instance.file["kv_cache_config"], "free_gpu_memory_fraction": share}
            file = yaml_text({**keys, **instance.file, "kv_cache_config": cache})
        workers.append(
            {
                "name": _WORKERS[instance.role],
                "role": instance.role,
                "replicas": instance.replicas,
                "accelerators": min(size, instance.accelerators),
                "machines": machines(instance, size),
                "words": words,
                "map": f"{_name(instance)}-{instance.role}",
                "file": file,
            }
        )
    documents = _documents("dynamo", name=name, engine=engine.name, image=image, module=module, workers=workers)
    where = [f"the image of Dynamo {DYNAMO} may have another version than {engine.label}"]
    return _text(documents, deployment, f"http://{name}-frontend:8000", where=where)


def _alone(deployment: LaunchPlan, form: str) -> Instance:
    """Return the only kind of instance in a deployment.

    Raises
    ------
    InputError
        If there are several kinds, which need a router.
    """
    if deployment.disaggregated:
        raise InputError(
            f"--as {form}: pools of prompts and of answers need a router; take --as llm-d or --as dynamo", option="as"
        )
    return deployment.instances[0]


def _name(instance: Instance) -> str:
    """Name that Kubernetes accepts: engine and model in lower case."""
    model = re.sub(r"[^a-z0-9]+", "-", instance.model.rstrip("/").rpartition("/")[2].lower())
    name = f"{instance.engine.name}-{model}"[:50]
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {instance.variant}".lower()).strip("-")


def _text(
    documents: Sequence[Record], deployment: LaunchPlan, url: str, share: float = 1.0, where: Sequence[str] = ()
) -> str:
    """Text of the documents, after comments with the predictions and the benchmark that checks them."""
    bench = command_text(deployment.run(url, share).words).splitlines()
    comments = [*launch_comments(deployment), *where, "hold it to account:", *(f"  {line}" for line in bench)]
    head = "".join(f"# {line}\n" for line in comments)
    return head + "---\n".join(yaml_text(document) for document in documents)
