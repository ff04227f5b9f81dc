"""Scripts of pools whose instances share machines: separate accelerators, ports and side channels."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Command, process, stand_ins
from tests.reading import tables

POOLS: list[str] = tables(Path(__file__))["POOLS"]
#: Accelerators of a machine of H200s [1].
MACHINE = 8
#: Arguments and environment of an engine, in lines of a file.
CHANNEL = "${VLLM_NIXL_SIDE_CHANNEL_HOST:-} ${VLLM_NIXL_SIDE_CHANNEL_PORT:-}"
HEARD = f'printf "%s\\n" "$*" "${{CUDA_VISIBLE_DEVICES:-}}" "{CHANNEL}" > heard'


def _written(command: Command, folder: Path, engine: str) -> tuple[Path, dict[str, int], dict[str, int]]:
    """Return the script of a plan, and its numbers of instances and of accelerators per instance."""
    plan, script = folder / "plan.json", folder / "launch.sh"
    command(*POOLS, "--engine", engine, "-o", str(plan))
    assert command("launch", str(plan), "--to", engine, "-o", str(script)).code == 0
    shown = re.findall(r"^# (prefill|decode): (\d+) instances? of (\d+) x", script.read_text(encoding="utf-8"), re.M)
    return script, {role: int(count) for role, count, _ in shown}, {role: int(size) for role, _, size in shown}


def _run(script: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    programs = {"vllm": HEARD, "python3": HEARD, "hostname": "echo 10.0.0.7 172.17.0.1"}
    path = stand_ins(script.parent / "bin", programs, "sh", "cat", "seq", "cut")
    known = {"PATH": path, "HOME": os.environ.get("HOME", "")}
    return process("sh", script.name, *words, folder=script.parent, env=known | environment)


def _instances(script: Path, counts: dict[str, int]) -> Iterator[tuple[list[str], list[int], str]]:
    """Return each instance's arguments, accelerators, and side-channel address for its caches."""
    for role, count in counts.items():
        for number in range(count):
            assert _run(script, role, str(number)).returncode == 0
            words, devices, channel = (script.parent / "heard").read_text(encoding="utf-8").splitlines()
            yield words.split(), [int(device) for device in devices.split(",") if device], channel.strip()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_instances_of_both_roles_share_machines(command: Command, tmp_path: Path, engine: str) -> None:
    script, counts, sizes = _written(command, tmp_path, engine)
    assert min(sizes.values()) < MACHINE
    used: list[int] = []
    ports: list[str] = []
    channels: list[str] = []
    for words, devices, channel in _instances(script, counts):
        # Device numbers continue from machine to machine.
        first = next(place for place in range(0, 10**4, MACHINE) if not set(used) & {place + at for at in devices})
        used += [first + at for at in devices]
        ports.append(words[words.index("--port") + 1])
        if "--disaggregation-bootstrap-port" in words:
            ports.append(words[words.index("--disaggregation-bootstrap-port") + 1])
        channels.append(f"{first} {channel}")
    assert len(set(used)) == len(used) == sum(counts[role] * size for role, size in sizes.items())
    assert len(set(ports)) == len(ports)
    if engine == "vllm":
        assert len(set(channels)) == len(channels)
        assert all(" 10.0.0.7 56" in channel for channel in channels)


def test_the_load_generator_is_told_the_router(command: Command, tmp_path: Path) -> None:
    script, *_ = _written(command, tmp_path, "vllm")
    lost = _run(script, "bench")
    assert lost.returncode != 0
    assert "ROUTER: write the address of the router, ROUTER=http://HOST:PORT" in lost.stderr
    assert _run(script, "bench", ROUTER="http://10.0.0.1:9000").returncode == 0
    assert "--base-url http://10.0.0.1:9000 " in (tmp_path / "heard").read_text(encoding="utf-8")
