"""Build a release of the last commit twice, compare both, and list dependencies: ``sh run.sh release``.

``dist/`` receives the wheel, the sdist, ``SHA256SUMS``, and ``sbom.json`` (CycloneDX 1.6) with every package that
``inference-econ`` and its user extras need here. Files have the time of the commit, so builds with the same setuptools
are byte-identical.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "dist"
PACKAGE, EXTRAS = "inference-econ", ("explorer", "mcp", "studies")


def built(folder: Path, commit: str = "HEAD") -> Mapping[str, bytes]:
    """Wheel and sdist of a commit by name, built in an empty folder."""
    source, made = folder / "source", folder / "made"
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    time = subprocess.run(["git", "log", "-1", "--format=%ct", commit], cwd=ROOT, check=True, capture_output=True)
    seconds = int(time.stdout)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made), str(source)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)})
    files = {path.name: path.read_bytes() for path in sorted(made.iterdir())}
    return {
        name: _repacked(content, seconds) if name.endswith(".tar.gz") else content for name, content in files.items()
    }


def _repacked(content: bytes, seconds: int) -> bytes:
    """Repack an sdist without owners, with one time [s] and sorted names, which setuptools does not fix."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as tar,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as again,
    ):
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            again.addfile(member, tar.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def needed(name: str = PACKAGE, extras: tuple[str, ...] = EXTRAS) -> dict[str, metadata.Distribution]:
    """All required packages on this machine by normalized name, including the package itself."""
    found: dict[str, metadata.Distribution] = {}
    todo: list[tuple[str, tuple[str, ...]]] = [(name, extras)]
    asked: set[tuple[str, tuple[str, ...]]] = set()
    while todo:
        wanted = todo.pop()
        if wanted in asked:
            continue
        asked.add(wanted)
        distribution = metadata.distribution(wanted[0])
        found[re.sub(r"[-_.]+", "-", wanted[0]).lower()] = distribution
        for text in distribution.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted[1])):
                todo.append((requirement.name, tuple(sorted(requirement.extras))))
    return found


def sbom() -> dict[str, Any]:
    """Packages as a CycloneDX document."""
    components = [
        {
            "type": "library",
            "name": name,
            "version": distribution.version,
            "purl": f"pkg:pypi/{name}@{distribution.version}",
            **_licence(distribution),
        }
        for name, distribution in sorted(needed().items())
    ]
    subject = next(component for component in components if component["name"] == PACKAGE)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": subject},
        "components": [component for component in components if component is not subject],
    }


def _licence(distribution: metadata.Distribution) -> dict[str, Any]:
    said = distribution.metadata.json.get("license_expression")
    return {"licenses": [{"expression": said}]} if said else {}


def main() -> int:
    """Build twice, compare, and write; 1 if the builds differ."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        once, again = built(Path(first)), built(Path(second))
    different = [name for name in once if once[name] != again.get(name)]
    if different or once.keys() != again.keys():
        sys.stdout.write(f"built twice, and different: {', '.join(different) or 'their names'}\n")
        return 1
    FOLDER.mkdir(exist_ok=True)
    files = {**once, "sbom.json": f"{json.dumps(sbom(), indent=1)}\n".encode()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files["SHA256SUMS"] = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)
    sys.stdout.write(files["SHA256SUMS"].decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
