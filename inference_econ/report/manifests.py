"""A deployment as files that machines read: docker compose, Kubernetes, LeaderWorkerSet, llm-d and Dynamo."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference_econ.answers.launching.instance import CONFIG, Degrees, Expanded, Instance, Role
from inference_econ.answers.launching.machines import Machine, headless, machines, told
from inference_econ.answers.launching.plan import Deployment, Scaling
from inference_econ.errors import InputError
from inference_econ.inputs import yaml_text
from inference_econ.report.launch import SIDE_CHANNEL, command_text, files, remarks, shell_word

Record = dict[str, Any]
#: What Kubernetes calls a chip of a vendor.
_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
#: Where containers find their configuration.
_FOLDER = "/etc/engine"
#: Port of answers behind the router of llm-d, and of its service.
_DECODE_PORT, _SERVICE_PORT = 8200, 8000
#: Release of Dynamo whose images are named.
DYNAMO = "1.6.1"
#: Where KEDA asks for metrics, and what engines call requests that run, that wait, and that were answered.
_PROMETHEUS = "http://prometheus.monitoring.svc:9090"
_METRICS = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:request_success_total"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_requests_total"),
}
#: Looks of a start-up probe, every ten seconds: an hour to fetch and load the weights, which is an assumption [1].
_LOOKS = 360


def compose(deployment: Deployment, size: int) -> str:
    """Docker compose for the instances that fit one machine.

    Raises
    ------
    InputError
        If an instance needs several machines, chips that compose has no word for, or a router.
    """
    instance = _alone(deployment, "compose")
    if machines(instance, size) > 1:
        raise InputError("docker compose is for one machine; take --as leaderworkerset", option="as")
    if instance.service.setup.hardware.vendor != "NVIDIA":
        raise InputError("docker compose reserves NVIDIA devices only; take --as kubernetes", option="as")
    count = min(instance.replicas, size // instance.accelerators)
    services = {f"engine-{index}": _compose_service(instance, index) for index in range(count)}
    record: Record = {"services": services}
    if instance.file:
        record["configs"] = {"engine": {"content": files(instance)[CONFIG]}}
    where = [f"{count} of {instance.replicas} instances fit a machine of {size} accelerators"]
    port = instance.engine.launch.port
    return _text([record], deployment, f"http://localhost:{port}", 1.0 / instance.replicas, where)


def _compose_service(instance: Instance, index: int) -> Record:
    launch, first = instance.engine.launch, index * instance.accelerators
    devices = [str(first + device) for device in range(instance.accelerators)]
    program, words = len(launch.program), _listening(instance, launch.port)
    service: Record = {
        "image": _image(instance),
        "entrypoint": list(words[:program]),
        "command": list(words[program:]),
        "ports": [{"target": launch.port, "published": str(launch.port + index)}],
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}"},
        "volumes": ["~/.cache/huggingface:/root/.cache/huggingface"],
        "ipc": "host",
        "healthcheck": {"test": ["CMD-SHELL", f"curl -sf http://localhost:{launch.port}{launch.health}"]},
        "deploy": {
            "resources": {
                "reservations": {"devices": [{"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}]}
            }
        },
    }
    if instance.file:
        service["configs"] = [{"source": "engine", "target": f"{_FOLDER}/{CONFIG}"}]
    return service


def kubernetes(deployment: Deployment, size: int) -> str:
    """A Deployment of all instances behind one Service.

    Raises
    ------
    InputError
        If an instance needs several machines, or a router.
    """
    return _kubernetes(deployment, size)


def _kubernetes(deployment: Deployment, size: int, beside: Sequence[Record] = (), where: Sequence[str] = ()) -> str:
    """A Deployment behind its Service, and what stands beside them."""
    instance = _alone(deployment, "kubernetes")
    if machines(instance, size) > 1:
        raise InputError("a Deployment's pods are on one machine each; take --as leaderworkerset", option="as")
    name = _name(instance)
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod(instance, list(_listening(instance)), serves=True)}
    spec = {"replicas": instance.replicas, "selector": {"matchLabels": labels}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(name), "spec": spec}
    documents = [*_config_map(instance), manifest, _service(instance, labels), *beside]
    return _text(documents, deployment, f"http://{name}:{instance.engine.launch.port}", where=where)


def keda(deployment: Deployment, size: int) -> str:
    """The same as :func:`kubernetes`, with a ScaledObject of KEDA that changes the number of instances.

    Raises
    ------
    InputError
        As there; or if nobody said how, or the engine has no such metrics.
    """
    scaling, instance = _scaling(deployment, "keda"), deployment.instances[0]
    if instance.engine.name not in _METRICS:
        raise InputError(
            f"--as keda: no metrics of {instance.engine.label} are known; take --to vllm or sglang", option="to"
        )
    running, waiting, done = _METRICS[instance.engine.name]
    labels = f'{{model_name="{instance.model}"}}'
    held = f"sum({running}{labels}) + sum({waiting}{labels})"
    query = held if scaling.metric == "in_flight" else f"sum(rate({done}{labels}[1m]))"
    # Cheaper instances hold their part: what is left is for these.
    query = f"clamp_min({query} - {scaling.before:.6g}, 0)" if scaling.before else query
    trigger = {"serverAddress": _PROMETHEUS, "query": query, "threshold": f"{scaling.per_instance:.6g}"}
    spec: Record = {
        "scaleTargetRef": {"name": _name(instance)},
        "minReplicaCount": scaling.least,
        "maxReplicaCount": scaling.most,
        "pollingInterval": round(scaling.polling_seconds),
        "cooldownPeriod": round(scaling.scale_down_seconds),
        "triggers": [{"type": "prometheus", "metadata": trigger}],
    }
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": _metadata(_name(instance)),
        "spec": spec,
    }
    where = [f"the autoscaler reads {_PROMETHEUS}: put the address of your Prometheus there"]
    return _kubernetes(deployment, size, [manifest], where)


def llm_d_autoscaling(deployment: Deployment, size: int) -> str:
    """The same with a HorizontalPodAutoscaler that the autoscaler of llm-d manages, cheap variants first.

    Raises
    ------
    InputError
        As :func:`keda`; or if the engine is not vLLM.
    """
    scaling, instance = _scaling(deployment, "llm-d-autoscaling"), deployment.instances[0]
    if instance.engine.name != "vllm":
        raise InputError(f"llm-d scales vLLM, not {instance.engine.label}; take --to vllm, or --as keda", option="to")
    name = _name(instance)
    told = {"managed": "true", "model-id": instance.model, "variant-cost": f"{scaling.dollars_per_hour:.6g}"}
    labels = {"variant_name": name, "exported_namespace": "default"}
    metric = {"metric": {"name": "wva_desired_replicas", "selector": {"matchLabels": labels}}}
    spec: Record = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": max(scaling.least, 1),
        "maxReplicas": scaling.most,
        "metrics": [
            {"type": "External", "external": {**metric, "target": {"type": "AverageValue", "averageValue": "1"}}}
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": round(scaling.scale_down_seconds)}},
    }
    metadata = {**_metadata(name), "annotations": {f"llm-d.ai/{key}": value for key, value in told.items()}}
    manifest = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
    return _kubernetes(deployment, size, [manifest], ["llm-d decides by its own model of load, between these numbers"])


def _scaling(deployment: Deployment, form: str) -> Scaling:
    """How many instances there are over a day.

    Raises
    ------
    InputError
        If nobody said it.
    """
    if deployment.scaling is None:
        raise InputError(
            f"--as {form} needs an answer about a day; write one with 'inference-econ fleet ... -o fleet.json', and "
            "name its lot with --choice",
            option="as",
        )
    return deployment.scaling


def leader_worker_set(deployment: Deployment, size: int) -> str:
    """A LeaderWorkerSet of all instances, each over its machines, behind one Service of the leaders.

    Raises
    ------
    InputError
        If an instance does not fit whole machines, or needs a router.
    """
    instance = _alone(deployment, "leaderworkerset")
    count, name = machines(instance, size), _name(instance)
    leader, worker = (_group_pod(instance, size, serves=serves) for serves in (True, False))
    group: Record = {"size": count, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": worker}
    group["leaderTemplate"] = leader
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _metadata(name),
        "spec": {"replicas": instance.replicas, "leaderWorkerTemplate": group},
    }
    documents = [*_config_map(instance), manifest, _service(instance, {"app": name, "role": "leader"})]
    return _text(documents, deployment, f"http://{name}:{instance.engine.launch.port}")


def _group_pod(instance: Instance, size: int, *, serves: bool) -> Record:
    """A pod of a group: the first listens, and the others are told where it is."""
    name, words = _name(instance), list(_listening(instance))
    if machines(instance, size) > 1:
        machine = Machine(Expanded("$LWS_WORKER_INDEX"), Expanded("$LWS_LEADER_ADDRESS"))
        hidden = headless(instance, machine.rank)
        line = " ".join(map(shell_word, [*words, *told(instance, size, machine)]))
        words = ["sh", "-c", f"exec {line} {hidden or ''}".rstrip()]
    labels = {"app": name, "role": "leader" if serves else "worker"}
    pod = _pod(instance, words, serves=serves, accelerators=min(size, instance.accelerators))
    return {"metadata": {"labels": labels}, "spec": pod}


def _pod(instance: Instance, words: list[str], *, serves: bool, accelerators: int | None = None) -> Record:
    volumes: list[Record] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if instance.file:
        volumes.append({"name": "config", "configMap": {"name": f"{_name(instance)}-config"}})
    return {"containers": [_container(instance, words, serves=serves, accelerators=accelerators)], "volumes": volumes}


def _container(instance: Instance, words: list[str], *, serves: bool, accelerators: int | None) -> Record:
    launch = instance.engine.launch
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    mounts += [{"name": "config", "mountPath": _FOLDER}] if instance.file else []
    container: Record = {
        "name": "engine",
        "image": _image(instance),
        "command": words,
        "env": [_token()],
        "resources": _resources(instance, accelerators or instance.accelerators),
        "volumeMounts": mounts,
    }
    if serves:
        look = {"httpGet": {"path": launch.health, "port": launch.port}, "periodSeconds": 10}
        container["ports"] = [{"name": "http", "containerPort": launch.port}]
        container["startupProbe"] = {**look, "failureThreshold": _LOOKS}
        container["readinessProbe"] = look
    return container


def _image(instance: Instance) -> str:
    """The image of an instance.

    Raises
    ------
    InputError
        If nobody named one for chips that the usual one is not for.
    """
    engine, chip = instance.engine, instance.service.setup.hardware
    if engine.named_image is None and (chip.vendor != "NVIDIA" or not engine.image):
        what = f"{engine.image} is for NVIDIA" if engine.image else f"no image of {engine.label} is started so"
        raise InputError(f"{what}; name an image for {chip.name} with --image", option="image")
    return engine.image


def _token() -> Record:
    """The token for gated weights, from a secret that may be absent."""
    secret = {"secretKeyRef": {"name": "hf-token-secret", "key": "HF_TOKEN", "optional": True}}
    return {"name": "HF_TOKEN", "valueFrom": secret}


def _resources(instance: Instance, accelerators: int) -> Record:
    return {"limits": {_RESOURCES[instance.service.setup.hardware.vendor]: str(accelerators)}}


def _service(instance: Instance, selector: Mapping[str, str]) -> Record:
    port = {"name": "http", "port": instance.engine.launch.port, "targetPort": "http"}
    spec = {"selector": dict(selector), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(_name(instance)), "spec": spec}


def _config_map(instance: Instance) -> list[Record]:
    if not instance.file:
        return []
    metadata = _metadata(f"{_name(instance)}-config")
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files(instance)}]


def llm_d(deployment: Deployment, size: int) -> str:
    """Values of the chart llm-d-modelservice.

    Raises
    ------
    InputError
        If the engine is not vLLM, or an instance needs several machines.
    """
    engine = deployment.engine
    if engine.name != "vllm":
        raise InputError(
            f"llm-d is started with vLLM, not with {engine.label}; take --to vllm, or --as dynamo", option="to"
        )
    if any(machines(instance, size) > 1 for instance in deployment.instances):
        raise InputError(f"values for llm-d are written for instances of at most {size} accelerators")
    first = deployment.instances[0]
    roles = {instance.role: instance for instance in deployment.instances}
    decoding, reading = roles.get("decode", first), roles.get("prefill")
    record: Record = {
        "modelArtifacts": {"name": first.model, "uri": f"hf://{first.model}"},
        "routing": {"servicePort": _SERVICE_PORT},
        "multinode": False,
        "decode": _llm_d_role(decoding, _DECODE_PORT),
        "prefill": {"create": False} if reading is None else _llm_d_role(reading, _SERVICE_PORT),
    }
    return _text([record], deployment, "http://inference-gateway")


def _llm_d_role(instance: Instance, port: int) -> Record:
    words, program = _listening(instance, port), len(instance.engine.launch.program)
    degrees = Degrees.of(instance.service)
    container: Record = {
        "name": "vllm",
        "image": _image(instance),
        "modelCommand": "custom",
        "command": list(words[:program]),
        "args": list(words[program:]),
        "env": [_token(), *(_side_channel() if instance.role != "both" else ())],
        "ports": [{"containerPort": port, "protocol": "TCP"}],
        "resources": _resources(instance, instance.accelerators),
        "mountModelVolume": True,
    }
    parallelism = {"tensor": degrees.tp * degrees.pp, "data": degrees.dp, "dataLocal": degrees.dp, "workers": 1}
    return {"create": True, "replicas": instance.replicas, "parallelism": parallelism, "containers": [container]}


def _side_channel() -> list[Record]:
    """Where the two pools shake hands before caches travel."""
    host = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": host},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(SIDE_CHANNEL)},
    ]


#: Names of Dynamo's images and modules.
_DYNAMO = {
    "vllm": ("vllm-runtime", "dynamo.vllm"),
    "sglang": ("sglang-runtime", "dynamo.sglang"),
    "trtllm": ("tensorrtllm-runtime", "dynamo.trtllm"),
}
#: What its services are called.
_WORKERS: Mapping[Role, str] = {"both": "Worker", "prefill": "PrefillWorker", "decode": "DecodeWorker"}
#: What its module of TensorRT-LLM calls the options of trtllm-serve: keys of the file that it reads.
_KEYS = {
    "--tp_size": "tensor_parallel_size",
    "--pp_size": "pipeline_parallel_size",
    "--ep_size": "moe_expert_parallel_size",
    "--max_seq_len": "max_seq_len",
    "--max_batch_size": "max_batch_size",
    "--max_num_tokens": "max_num_tokens",
}


def dynamo(deployment: Deployment, size: int) -> str:
    """A DynamoGraphDeployment: a frontend, and workers of each kind."""
    name = _name(deployment.instances[0])
    usual = f"nvcr.io/nvidia/ai-dynamo/{_DYNAMO[deployment.engine.name][0]}:{DYNAMO}"
    image = deployment.engine.named_image or usual
    services: Record = {
        "Frontend": {"componentType": "frontend", "replicas": 1, **_dynamo_pod(image, ["dynamo.frontend"])}
    }
    for instance in deployment.instances:
        services[_WORKERS[instance.role]] = _worker(instance, image, size)
    manifest = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {"backendFramework": deployment.engine.name, "services": services},
    }
    maps = [_dynamo_map(instance) for instance in deployment.instances if instance.engine.name == "trtllm"]
    where = [f"the image of Dynamo {DYNAMO} may have another version than {deployment.engine.label}"]
    return _text([*maps, manifest], deployment, f"http://{name}-frontend:8000", where=where)


def _worker(instance: Instance, image: str, size: int) -> Record:
    count = machines(instance, size)
    worker: Record = {
        "componentType": "worker",
        "replicas": instance.replicas,
        "resources": {"limits": {"gpu": str(min(size, instance.accelerators))}},
        **_dynamo_pod(image, [_DYNAMO[instance.engine.name][1], *_worker_words(instance)]),
    }
    if instance.role != "both":
        worker["subComponentType"] = instance.role
    if count > 1:
        worker["multinode"] = {"nodeCount": count}
    if instance.engine.name == "trtllm":
        pod = worker["extraPodSpec"]
        pod["volumes"] = [{"name": "config", "configMap": {"name": _map_name(instance)}}]
        pod["mainContainer"]["volumeMounts"] = [{"name": "config", "mountPath": _FOLDER}]
    return worker


def _worker_words(instance: Instance) -> list[str]:
    """Options of a worker, which are those of the engine, or of Dynamo where it reads a file instead."""
    mode = [] if instance.role == "both" else ["--disaggregation-mode", instance.role]
    if instance.engine.name == "trtllm":
        return ["--model-path", instance.model, "--extra-engine-args", f"{_FOLDER}/{CONFIG}", *mode]
    words = list(instance.words[len(instance.engine.launch.program) :])
    if instance.engine.name == "vllm":
        return ["--model", *words, *mode]
    return words


def _dynamo_map(instance: Instance) -> Record:
    """The whole configuration of an instance of TensorRT-LLM as a file."""
    keys = {_KEYS[name]: value for name, value in instance.arguments.items() if name in _KEYS}
    share = instance.arguments["--kv_cache_free_gpu_memory_fraction"]
    cache = {**instance.file["kv_cache_config"], "free_gpu_memory_fraction": share}
    file = {**keys, **instance.file, "kv_cache_config": cache}
    metadata = {"name": _map_name(instance)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG: yaml_text(file)}}


def _map_name(instance: Instance) -> str:
    return f"{_name(instance)}-{instance.role}"


def _dynamo_pod(image: str, words: Sequence[str]) -> Record:
    module, *options = words
    container: Record = {"image": image, "command": ["python3", "-m", module]}
    return {"extraPodSpec": {"mainContainer": {**container, **({"args": options} if options else {})}}}


def _listening(instance: Instance, port: int | None = None) -> tuple[str, ...]:
    """The command line of an instance in a container."""
    words = [f"{_FOLDER}/{word}" if word == CONFIG else word for word in instance.words]
    return (*words, "--host", "0.0.0.0", "--port", str(port or instance.engine.launch.port))


def _alone(deployment: Deployment, form: str) -> Instance:
    """The only kind of instance.

    Raises
    ------
    InputError
        If there are several, which need a router between them.
    """
    if deployment.disaggregated:
        raise InputError(
            f"--as {form}: pools of prompts and of answers need a router; take --as llm-d or --as dynamo", option="as"
        )
    return deployment.instances[0]


def _name(instance: Instance) -> str:
    """A name that Kubernetes takes: engine and model in small letters."""
    model = re.sub(r"[^a-z0-9]+", "-", instance.model.rstrip("/").rpartition("/")[2].lower())
    name = f"{instance.engine.name}-{model}"[:50]
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {instance.variant}".lower()).strip("-")


def _metadata(name: str) -> Record:
    return {"name": name, "labels": {"app": name}}


def _text(
    documents: Sequence[Record], deployment: Deployment, url: str, share: float = 1.0, where: Sequence[str] = ()
) -> str:
    """Documents under what was predicted of them, and the run that holds them to account, as comments."""
    bench = command_text(deployment.run(url, share).words).splitlines()
    comments = [*remarks(deployment), *where, "hold it to account:", *(f"  {line}" for line in bench)]
    head = "".join(f"# {line}\n" for line in comments)
    return head + "---\n".join(yaml_text(document) for document in documents)
