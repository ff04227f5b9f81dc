"""Kill and resume a sweep a hundred times: no row is lost or duplicated.

``sh run.sh sturdiness sweep-kills``; ``--kills`` for fewer. Half of the sweeps have two worker processes. Half of the
kills of these end one process of the two, and the sweep must then end with one message. The other kills end the parent.
One kill in four truncates the last part, as a power failure may.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd

import inference_econ as ie
from inference_econ.inputs import Scenario, spec_text
from inference_econ.inputs.units import integer

#: Parts take a tenth of a second each, so that kills rarely come after the end.
STUDY = {
    "name": "Sweep to be killed",
    "ask": {
        "kind": "sweep",
        "common": {"max_instance_gpus": 8},
        "axes": {
            "model": ["llama_3_8b", "llama_3_70b", "qwen3_32b", "gpt_oss_20b", "deepseek_v3"],
            "hardware": ["l4", "h100_sxm", "h200_sxm", "b200", "gaudi3"],
            "weights": ["bf16", "fp8"],
            "isl": [500, 2000],
        },
    },
    "sources": {"ask": {"ref": "user", "where": "made up", "kind": "assumed"}},
}
#: Latest kill after the first new part [s].
LATEST = 1.0


def main() -> None:
    """Kill, resume, and compare with an uninterrupted sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many [100]")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments [0]")
    wanted = parser.parse_args()
    chance = random.Random(wanted.seed)
    with tempfile.TemporaryDirectory() as name:
        home, kills, rounds = Path(name), 0, 0
        study = home / "study.yaml"
        study.write_text(spec_text(Scenario.build(STUDY, origin="study")))
        expected = _finished(study, home / "whole").every_row()
        while kills < wanted.kills:
            rounds += 1
            folder = home / f"killed-{rounds}"
            while kills < wanted.kills and _killed(study, folder, chance):
                kills += 1
                _spoil(folder, chance)
                _say(f"{kills} kills, {ie.load_sweep(folder).missing} combinations left")
            pd.testing.assert_frame_equal(_finished(study, folder).every_row(), expected)
            shutil.rmtree(folder)
    _say(f"{kills} kills over {rounds} sweeps of {len(expected):,} rows: none lost, none repeated")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _finished(study: Path, folder: Path) -> ie.Sweep:
    swept = ie.sweep(str(study), folder)
    assert swept.missing == 0
    return swept


def _killed(study: Path, folder: Path, chance: random.Random) -> bool:
    """Kill a sweep or one of its workers at a random moment, sometimes before it starts; False if it ended first."""
    before = len(list(folder.glob("part-*")))
    command = ["sweep", str(study), "-o", str(folder), "--jobs", chance.choice("12"), "--quiet", "--csv"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from inference_econ_cli.start import run; run()", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    awaited = chance.random() < 0.9
    deadline = time.monotonic() + 300.0
    while awaited and process.poll() is None and len(list(folder.glob("part-*"))) == before:
        assert time.monotonic() < deadline, "no part within five minutes"
        time.sleep(0.002)
    time.sleep(chance.uniform(0.0, LATEST if awaited else 3.0))
    workers = _workers(process.pid) if chance.random() < 0.5 else []
    if workers:
        os.kill(chance.choice(workers), signal.SIGKILL)
        said = process.communicate(timeout=300.0)[1]
        assert process.returncode == 0 or (process.returncode == 2 and said.startswith("Error: the system ended")), said
        return process.returncode != 0
    process.kill()
    process.communicate()
    return process.returncode != 0


def _workers(parent: int) -> list[int]:
    """Worker processes of a sweep; empty where the system lists none."""
    found = []
    for place in Path("/proc").glob(f"{parent}/task/*/children"):
        with suppress(OSError):  # the process has just ended
            found += [integer(child) for child in place.read_text().split()]
    lines = {child: Path(f"/proc/{child}/cmdline") for child in found}
    return [child for child, line in lines.items() if line.is_file() and b"spawn_main" in line.read_bytes()]


def _spoil(folder: Path, chance: random.Random) -> None:
    """Truncate the last part in one of four cases."""
    parts = sorted(folder.glob("part-*"), key=lambda path: path.stat().st_mtime)
    if parts and chance.random() < 0.25:
        content = parts[-1].read_bytes()
        parts[-1].write_bytes(content[: chance.randrange(len(content))])


if __name__ == "__main__":
    main()
