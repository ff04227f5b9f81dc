"""Count attacks of hostile and careless users in ``tests/fuzz/sturdiness.md``: ``sh run.sh sturdiness``.

Complete commands and a server on 127.0.0.1 are attacked. ``sh run.sh sturdiness fuzz`` counts generated inputs
(``tests/fuzz/tried.json``). The exit status is 1 if an attack finds a defect.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pandas as pd
from rich.console import Console

import inference_econ as ie
from benchmarks import orders
from benchmarks.explorer import PROGRAM, first_answer
from inference_econ.inputs import catalog
from inference_econ.inputs.units import integer
from inference_econ.records.files import write_text

ROOT = Path(__file__).parent.parent
PAGE, FUZZED = (ROOT / "tests" / "fuzz" / name for name in ("sturdiness.md", "tried.json"))
SMALL = ("llama_3_8b", "h100_sxm", "--max-instance-gpus", "1")
#: Makes commands of root respect file permissions.
HEEDING = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
#: Sweep that takes a moment.
SWEPT = (
    "name: n\ndescription: d\nask:\n  kind: sweep\n  axes: {model: [llama_3_8b], hardware: [l4], isl: [500]}\n"
    "sources: {ask: {ref: user, where: made up, kind: assumed}}\n"
)
HEAD = """# Sturdiness

`sh run.sh sturdiness` writes this page. It lists attacks of hostile and careless users, with the number of attempts and
of defects. A defect is a traceback, a partial file, a lost file, a file read over HTTP, a hang, or a worse result for a
better input. The page on [security](../../docs/reference/security.md) states what the program guarantees.

| attack | tried | found | remarks |
|---|---|---|---|
"""
TAIL = """
Other commands count the following attacks:

- steps that are evaluated twice: `sh run.sh validate contradictions`
  ([results](../../docs/evidence/contradictions.md))
- sweeps and their worker processes, killed a hundred times: `sh run.sh sturdiness sweep-kills`
- 300 setups that are evaluated again with a better input: `sh run.sh sturdiness orders`
- 200 users with large queries and one user with few: `python -m benchmarks.explorer --heavy 200`
- a release that is built twice and compared: `sh run.sh release`
- known weaknesses of all dependencies: `sh run.sh check audit`, which needs the Python package index

`sh run.sh sturdiness fuzz` and `sh run.sh sturdiness explorer` continue with other inputs and requests than before.
Windows and macOS were not tried.
"""


class Row(NamedTuple):
    """Attack with the number of attempts and defects, and a remark."""

    attack: str
    tried: int
    found: int
    remark: str = ""


def ran(
    folder: Path, *words: object, seconds: float = 120.0, before: Sequence[str] = (), **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with optional words before it."""
    line = [*before, str(PROGRAM), *map(str, words)]
    try:
        return subprocess.run(
            line, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False, **settings
        )
    except subprocess.TimeoutExpired:  # a hang is a defect, and does not end the other attacks
        return subprocess.CompletedProcess(line, -1, "", "Traceback: timed out")


def unwritten(outcome: subprocess.CompletedProcess[str]) -> bool:
    """Check whether a command was rejected because its file cannot be written."""
    return refused(outcome) and "cannot be written" in " ".join(outcome.stderr.split())


def refused(outcome: subprocess.CompletedProcess[str]) -> bool:
    """Check whether a command was rejected with exactly one message."""
    return outcome.returncode == 2 and outcome.stderr.count("Error: ") == 1 and "Traceback" not in outcome.stderr


def inputs_are_no_outputs(folder: Path) -> Row:
    """Commands that would overwrite their input."""
    (folder / "mine.csv").write_text("id,model\n1,x\n")
    (folder / "config.json").write_text(
        (next((ROOT / "tests/fixtures/hf_configs").glob("*3-8B_config.json"))).read_text()
    )
    (folder / "chip.yaml").write_text(catalog.locate("hardware", "h100_sxm").read_text())
    (folder / "extending.yaml").write_text("extends: chip.yaml\nname: mine\n")
    shutil.copy(catalog.locate("models", "llama_3_8b"), folder / "mine.yaml")
    asked = ("mine.yaml", *SMALL[1:], "--request-rate", 1, "--aggregated", "-o", "answer.json")
    ran(folder, "recommend", *asked)
    (folder / "swept").mkdir()
    (folder / "swept" / "sweep.json").write_text("{}")
    lines = (
        ("validate", "mine.csv", "-o", "mine.csv"),
        ("validate", "memory", "mine.csv", "-o", "mine.csv"),
        ("frontier", "config.json", "h100_sxm", "-o", "config.json"),
        ("explain", "config.json", "h100_sxm", "-o", "./config.json"),
        ("explain", "llama_3_8b", "chip.yaml", "-o", "chip.yaml"),
        ("import", "config.json", "-o", "config.json"),
        # What is read behind another file.
        ("frontier", "--series", "x: model=config.json, hardware=l4", *SMALL[2:], "-o", "config.json"),
        ("launch", "llama_3_8b", "extending.yaml", "--tp", 1, "--to", "vllm", "--as", "kubernetes", "-o", "chip.yaml"),
        ("launch", "answer.json", "--as", "kubernetes", "-o", "mine.yaml"),
        ("frontier", *SMALL, "-o", "a.svg", "--plot", "a.svg"),
        ("frontier", *SMALL, "-o", "swept/sweep.json"),
        ("frontier", *SMALL, "-o", "swept/new.csv"),
        ("sweep", "studies/catalogue_fp8", "-o", "swept", "--plot", "swept/a.svg"),
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lost = sum(not refused(ran(folder, *line)) for line in lines)
    lost += sum(not path.is_file() or path.read_bytes() != content for path, content in before.items())
    return Row("output files that are inputs, or in the folder of a sweep", len(lines), lost)


def places_that_cannot_be_written(folder: Path) -> Row:
    """Full disks and read-only folders: no partial files."""
    lines, tried, found = _writing(), 0, 0
    for line in lines:
        for most in (0, 100):
            inside = Path(tempfile.mkdtemp(dir=folder))
            # Otherwise Python stores partial bytecode, and no command starts any more.
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
            outcome = ran(inside, *line, env=environment, preexec_fn=lambda most=most: _small_files(most))
            tried += 1
            found += not unwritten(outcome) or any(inside.iterdir())
    inside = Path(tempfile.mkdtemp(dir=folder))
    inside.chmod(0o555)
    for line in lines:
        tried += 1
        outcome = ran(inside, *line, before=HEEDING if os.geteuid() == 0 else ())
        found += not unwritten(outcome) or any(inside.iterdir())
    remark = "file sizes limited to 0 and 100 bytes; a read-only folder"
    return Row("output files that cannot be written", tried, found, remark)


def _writing() -> Sequence[tuple[str, ...]]:
    """Commands that write a file into their folder."""
    places = (("-o", "a.json"), ("-o", "a.csv"), ("-o", "a.md"), ("--plot", "a.svg"), ("--plot", "a.html"))
    answers = [("frontier", *SMALL, *place) for place in places]
    report, script = ("report", " ".join(("frontier", *SMALL))), ("launch", *SMALL, "--to", "vllm")
    model = ("import", str(_config()))
    return (*answers, (*report, "-o", "a.html"), (*script, "-o", "a.sh"), (*model, "-o", "a.yaml"))


def full_file_system(folder: Path) -> Row:
    """Full file system with space for nothing or 4 kB: no partial files, and existing files are unchanged."""
    small, tried, found = folder / "small", 0, 0
    small.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small))
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return Row("a full file system", 0, 0, "this machine cannot mount one")
    try:
        for free in (0, 4096):
            for line in _writing():
                before = small / line[-1]
                before.write_text("before")
                (small / "filler").write_bytes(bytes(61_440 - free))
                outcome = ran(small, *line)
                whole = outcome.returncode == 0 and _whole(before)
                left = {path.name for path in small.iterdir()} == {before.name, "filler"}
                tried += 1
                found += not left or not (whole or (unwritten(outcome) and before.read_text() == "before"))
                before.unlink()
                (small / "filler").unlink()
    finally:
        subprocess.run(("umount", str(small)), check=True)
    return Row("a full file system", tried, found, "64 kB, with 0 or 4 kB free")


def little_memory(folder: Path) -> Row:
    """Pictures with 4 or 8 GB of address space, less than a browser needs: the result is still written."""
    tried = found = 0
    for gigabytes in (4, 8):
        for ending in ("svg", "png", "pdf"):
            limited = ("sh", "-c", f'ulimit -v {gigabytes}000000; exec "$@"', "sh")
            answer = folder / f"{gigabytes}{ending}.json"
            outcome = ran(folder, "frontier", *SMALL, "-o", answer.name, "--plot", f"a.{ending}", before=limited)
            tried += 1
            found += not (outcome.returncode == 0 or refused(outcome)) or not _whole(answer)
    return Row("pictures under a limit of virtual memory", tried, found, "4 and 8 GB; the result is always written")


def hostile_names(folder: Path) -> Row:
    """Model ids with shell syntax, in every launch format."""
    (folder / "mine.yaml").write_text(
        catalog.locate("models", "llama_3_8b").read_text().replace("meta-llama/", "$(touch lost)")
    )
    forms = ("command", "compose", "kubernetes", "leaderworkerset")
    lines = [
        ("launch", model, *SMALL[1:], "--to", "vllm", "--as", form, *words)
        for form in forms
        for model, words in (("mine.yaml", ()), ("llama_3_8b", ("--model-id", 'x"$(touch lost)`touch lost`')))
    ]
    found = sum(not refused(ran(folder, *line)) for line in lines)
    return Row("model ids with shell commands, in launch files", len(lines), found + (folder / "lost").exists())


def odd_arguments(folder: Path) -> Row:
    """Long numbers, digits of other scripts, control characters, bytes that are not UTF-8, and odd hosts."""
    digits = 5000 * "9"
    lines: tuple[tuple[object, ...], ...] = (
        ("frontier", *SMALL, "--engine", f"vllm@{digits}"),
        ("frontier", *SMALL, "--set", f"model.blocks.{digits}.layers=1"),
        ("frontier", *SMALL, "--tp", digits),
        ("frontier", *SMALL, "--tp", "\uff11"),
        ("frontier", *SMALL, "--token-budget", "1_0"),
        ("fleet", *SMALL[:2], "--rates", 1, "--stock", f"h100_sxm={digits}"),
        ("frontier", 30_000 * "a"),
        ("show", "\x1b]52;c"),
        ("\u202e",),
        ("report", "explain n\udcff.yaml l40s", "-o", "a.html"),
        ("serve", "--host", ".."),
        ("serve", "--host", 64 * "a"),
        ("watch", *SMALL[:2], "--metrics", "http://127.0.0.1:9/\xe9"),
    )
    return Row("malformed arguments", len(lines), sum(not refused(ran(folder, *line)) for line in lines))


def without_home(folder: Path) -> Row:
    """A user without HOME and without an entry."""
    code = (
        "import pwd; pwd.getpwuid = {}.__getitem__\nfrom inference_econ_cli.start import run\nrun()"  # as in containers
    )
    (folder / "mine.csv").write_text("provider,model,input,output\nown,qwen3-32b,2,4\n")
    lines: Mapping[tuple[str, ...], int] = {
        ("list", "offers"): 0,
        ("price", *SMALL, "--request-rate", "1"): 0,
        ("frontier", *SMALL, "--plot", "a.svg"): 0,
        ("import", "Qwen/Qwen3-8B"): 2,
        ("list", "offers", "--refresh", "mine.csv", "--date", "2026-11-20"): 2,
    }
    environment = {name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("XDG")}
    found = 0
    for line, status in lines.items():
        command = [sys.executable, "-c", code, *line]
        outcome = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        found += outcome.returncode != status or "Traceback" in outcome.stderr
    return Row("commands without a home directory", len(lines), found)


def large_inputs(folder: Path) -> Row:
    """Traces that unpack to a thousand times their size, and queries that need gigabytes, with 2 GB of memory."""
    head, part = b"TIMESTAMP,ContextTokens,GeneratedTokens\n1,5,5\n", bytes(1 << 20)
    files = {"line.jsonl.gz": (b"", b"a"), "line.csv.gz": (head, b"1"), "list.json.gz": (b"[", b"1")}
    for name, (begin, unit) in files.items():
        with gzip.open(folder / name, "wb") as packed:
            packed.write(begin)
            for _ in range(1000):
                packed.write(part.replace(b"\0", unit))
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(2 << 30)
    lines: list[tuple[str, ...]] = [("show", "traffic", name) for name in (*files, "sparse")]
    lines.append(("frontier", "deepseek_v3", "gb200_nvl72", "--any-layout", "--max-instance-gpus", "4096"))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2_000_000_000, 2_000_000_000))

    found = 0
    for line in lines:
        outcome = ran(folder, *line, seconds=600.0, preexec_fn=limit)
        found += outcome.returncode not in (0, 2) or "Traceback" in outcome.stderr or "than there is" in outcome.stderr
    return Row("files and queries that need over 2 GB", len(lines), found)


def foreign_names(folder: Path) -> Row:
    """Escape sequences and bidirectional characters in names of files."""
    texts = ("\\e]52;c;aGk=\\a", "\\e[2J", "\\u202E", "\\x9b")
    found = 0
    for text in texts:
        named: Mapping[catalog.Kind, str] = {"models": "llama_3_8b", "hardware": "l4"}
        for kind, name in named.items():
            content = catalog.locate(kind, name).read_text()
            (folder / "mine.yaml").write_text(
                re.sub("^name: .*", f'name: "x{text}"'.replace("\\", "\\\\"), content, count=1)
            )
            asked = ("mine.yaml", "l4") if kind == "models" else ("llama_3_8b", "mine.yaml")
            found += not refused(ran(folder, "explain", *asked))
    return Row("names with terminal escape sequences", 2 * len(texts), found)


def _small_files(most: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _config() -> Path:
    return next((ROOT / "tests/fixtures/hf_configs").glob("*3-8B_config.json"))


def killed(folder: Path, kills: int) -> Row:
    """``calibrate`` and ``paper reproduce`` killed at random moments: files are complete or missing."""
    points = folder / "mine.csv"
    rows = pd.read_csv(catalog.server_files()["serving_points"], nrows=40)
    rows.to_csv(points, index=False)
    found, done, chance = 0, 0, random.Random(1)
    for number in range(kills):
        inside = Path(tempfile.mkdtemp(dir=folder))
        line = ("calibrate", points, "-o", "mine.yaml") if number % 2 else ("paper", "reproduce", "--folder", "figures")
        process = subprocess.Popen(
            [str(PROGRAM), *map(str, line)], cwd=inside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.5, 12.0))
        done += process.poll() is not None
        process.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
        process.wait()
        found += sum(not _whole(path) for path in inside.rglob("*") if path.is_file())
    return Row("`calibrate` and `paper reproduce` killed (9, TERM, INT)", kills, found, f"{done} had finished before")


def _whole(path: Path) -> bool:
    """Check whether a written file ends as its format requires; temporary files are exempt."""
    text = path.read_bytes()
    ends = {
        ".svg": b"</svg>",
        ".html": b"</html>",
        ".json": b"}",
        ".png": b"IEND\xaeB`\x82",
        ".pdf": b"%%EOF",
        ".sh": b"esac",
    }
    known = (".svg", ".png", ".pdf", ".html", ".json", ".yaml", ".csv", ".md", ".txt", ".sh")
    return path.suffix in known and text.rstrip().endswith(ends.get(path.suffix, b""))


def interrupts(folder: Path, count: int) -> Row:
    """SIGINT within the first half second of a command."""
    chance, found, early = random.Random(2), 0, 0
    for _ in range(count):
        process = subprocess.Popen(
            [str(PROGRAM), "frontier", *SMALL],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        time.sleep(chance.uniform(0.0, 0.5))
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1].decode()
        # Interrupts before our first import cannot be caught.
        early += process.returncode != 130 and "inference_econ_cli/" not in said
        found += process.returncode != 130 and "inference_econ_cli/" in said
    remark = f"{early} during the start of Python"
    return Row("an interrupt in the first half second", count, found, remark)


@contextlib.contextmanager
def served(log: Path) -> Iterator[str]:
    """Run a server whose messages go to a file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("w") as stream:
        process = subprocess.Popen([str(PROGRAM), "serve", "--port", str(port), "--quiet"], stderr=stream)
    log.with_name("pid").write_text(str(process.pid))
    try:
        first_answer(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def connections(folder: Path) -> list[Row]:
    """Half-open connections, disconnected senders, numbers with thousands of digits, file names, and other hosts."""
    log = folder / "log.txt"
    with served(log) as address:
        port = int(address.rpartition(":")[2])
        return [_half_open(address, port), _hung_up(port, log), *_requests(address)]


def _half_open(address: str, port: int) -> Row:
    half = []
    for _ in range(270):
        with contextlib.suppress(OSError):
            half.append(socket.create_connection(("127.0.0.1", port), 5, source_address=("127.0.0.2", 0)))
            half[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
    start, status = time.monotonic(), 0
    while status != 200 and time.monotonic() - start < 60.0:
        with contextlib.suppress(httpx.HTTPError):
            status = httpx.get(f"{address}/openapi.json", timeout=30).status_code
        time.sleep(0.2)
    shut = time.monotonic() - start
    for connection in half:
        connection.close()
    return Row(
        "270 incomplete requests of one address",
        270,
        int(shut > 15.0),
        f"another address is answered after {shut:.0f} s",
    )


def interrupted(folder: Path) -> Row:
    """Ctrl-C while queries are computed."""
    log = folder / "log.txt"
    asked = {"model": "deepseek_v3", "hardware": "gb200_nvl72", "any_layout": True, "max_instance_gpus": 512}
    with served(log) as address, ThreadPoolExecutor(4) as pool:
        for isl in range(1000, 1004):
            pool.submit(httpx.post, f"{address}/api/v1/frontier", json={**asked, "isl": isl}, timeout=60)
        time.sleep(3.0)
        # The server is the parent of its workers, and was started here.
        os.kill(int((folder / "pid").read_text()), signal.SIGINT)
    return Row("Ctrl-C while queries are computed", 4, log.read_text().count("Traceback"))


def _hung_up(port: int, log: Path) -> Row:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"POST /api/v1/texts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nhalf")
    time.sleep(1.0)
    text = log.read_text()
    remark = f"{len(text.splitlines())} lines in the log, about too many connections"
    return Row("clients that disconnect within a body", 300, text.count("Traceback"), remark)


def _requests(address: str) -> Iterator[Row]:
    long = httpx.post(f"{address}/api/v1/texts", content='{"a": ' + 5000 * "9" + "}", timeout=60).json()["name"]
    asked = {"datasets": [long], "hardware": "h100_sxm", "model": "llama_3_8b", "tp": 1}
    reply = httpx.post(f"{address}/api/v1/validate", json=asked, timeout=60)
    found = int(reply.status_code >= 500)
    yield Row("a number of 5,000 digits over HTTP", 1, found, f"status {reply.status_code}")
    start = time.monotonic()
    reply = httpx.post(f"{address}/api/v1/validate", json={}, timeout=60)
    seconds = time.monotonic() - start
    yield Row(
        "`validate` of everything over HTTP",
        1,
        int(reply.status_code != 422 or seconds > 10.0),
        f"rejected after {seconds:.1f} s",
    )
    files = ("/etc/passwd", "../../etc/passwd", "file:///etc/passwd", str(ROOT / "pyproject.toml"), "own/../x.json")
    questions = httpx.get(f"{address}/openapi.json", timeout=60).json()["paths"]
    tried = found = 0
    for path in questions:
        name = path.rpartition("/")[2]
        for file in files:
            for option in (
                "model",
                "hardware",
                "assumptions",
                "datasets",
                "acceptance_file",
                "draft",
                "tier",
                "output",
            ):
                reply = httpx.get(f"{address}/api/v1/{name}", params={option: file}, timeout=60)
                tried += 1
                found += reply.status_code >= 500 or "root:" in reply.text or "[build-system]" in reply.text
    yield Row("file names in options over HTTP", tried, found)
    hosts = ("evil.example", "evil.com@127.0.0.1", "127.0.0.1.evil.example", "[", "0.0.0.0", "")
    found = sum(httpx.get(f"{address}/", headers={"Host": host}, timeout=60).status_code != 400 for host in hosts)
    yield Row("other host names in HTTP headers", len(hosts), found)


def ordered(setups: int) -> list[Row]:
    """Results of random setups, repeated with one better input (:mod:`benchmarks.orders`)."""
    results: dict[str, list[orders.Order]] = {}
    for number in range(setups):
        for order in orders.orders(orders.SEED, number):
            results.setdefault(order.relation.partition(":")[0], []).append(order)
    rows = []
    for result, several in sorted(results.items()):
        worse = [f"{order.relation} {order.ratio:.2f}x" for order in several if order.violated]
        inputs = len({order.relation for order in several})
        remark = ", ".join(worse) or (f"{inputs} inputs" if inputs > 1 else "")
        rows.append(Row(f"worse with a better input: {result}", len(several), len(worse), remark))
    return rows


def doors(folder: Path) -> Row:
    """Compare the values of equal queries by command line, HTTP and Python."""
    models, chips = ("llama_3_8b", "gpt_oss_20b", "mixtral_8x7b"), ("h100_sxm", "h200_sxm")
    tried = found = 0
    with served(folder / "log.txt") as address:
        for model in models:
            for chip in chips:
                words = ("frontier", model, chip, "--max-instance-gpus", "2", "--isl", "1000", "--osl", "300", "--json")
                typed = json.loads(ran(folder, *words).stdout)
                asked = {"model": model, "hardware": chip, "max_instance_gpus": 2, "isl": 1000, "osl": 300}
                sent = httpx.post(f"{address}/api/v1/frontier", json=asked, timeout=60).json()["answer"]
                space = ie.Space(max_accelerators=2)
                answer = ie.frontier(ie.Setup.of(model, chip), ie.Requests(1000, 300), space)
                called = json.loads(json.dumps(answer.to_dict()))
                for one, two, three in zip(typed["points"], sent["points"], called["points"], strict=True):
                    for name, value in one.items():
                        tried += 1
                        found += not (value == two.get(name) == three.get(name))
    return Row("values that differ between command line, HTTP and Python", tried, found)


def fuzzed() -> list[Row]:
    """Rows of generated inputs and HTTP requests so far."""
    from benchmarks.explorer_fuzz import requested  # other attacks do not generate requests

    counts = json.loads(FUZZED.read_text())["counts"] if FUZZED.is_file() else {}
    rows = [(f"inputs: {kind}", sum(count.values()), count.get("defect", 0)) for kind, count in counts.items()]
    requests = requested()
    rows.append(("HTTP requests", requests.total(), sum(n for status, n in requests.items() if status >= 500)))
    return [
        Row(f"generated {what}", tried, found, "corrected, with a test" if found else "") for what, tried, found in rows
    ]


def page(rows: Sequence[Row]) -> str:
    """Table in Markdown, and a list of other attacks."""
    lines = [f"| {row.attack} | {row.tried:,} | {row.found:,} | {row.remark} |" for row in rows]
    return HEAD + "\n".join(lines) + "\n" + TAIL


#: Attacks by name, in the order of the page.
ATTACKS: Mapping[str, Callable[[Path, argparse.Namespace], Sequence[Row]]] = {
    "inputs": lambda folder, _: [inputs_are_no_outputs(folder)],
    "places": lambda folder, _: [places_that_cannot_be_written(folder)],
    "full": lambda folder, _: [full_file_system(folder)],
    "memory": lambda folder, _: [little_memory(folder)],
    "ids": lambda folder, _: [hostile_names(folder)],
    "arguments": lambda folder, _: [odd_arguments(folder)],
    "home": lambda folder, _: [without_home(folder)],
    "large": lambda folder, _: [large_inputs(folder)],
    "names": lambda folder, _: [foreign_names(folder)],
    "ctrl-c": lambda folder, _: [interrupted(folder)],
    "interrupts": lambda folder, _: [interrupts(folder, 30)],
    "kills": lambda folder, asked: [killed(folder, asked.kills)],
    "connections": lambda folder, _: connections(folder),
    "doors": lambda folder, _: [doors(folder)],
    "order": lambda _, asked: ordered(asked.setups),
    "fuzz": lambda *_: fuzzed(),
}


def earlier() -> dict[str, Row]:
    """Rows of the page, by attack."""
    lines = PAGE.read_text(encoding="utf-8").partition("|---|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    rows = {}
    for line in lines:
        attack, tried, found, remark = (cell.strip() for cell in line.strip("|").split(" |"))
        rows[attack] = Row(attack, integer(tried.replace(",", "")), integer(found.replace(",", "")), remark)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run attacks, print and write their rows; 1 if there are defects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=16, help="of calibrate and reproduce [16]")
    parser.add_argument("--setups", type=int, default=30, help="random ones whose frontiers are asked again [30]")
    parser.add_argument(
        "--attack", dest="attacks", action="append", choices=ATTACKS, default=[],
        help="repeatable; the page keeps the rows of other attacks [all]",
    )  # fmt: skip
    asked, console = parser.parse_args(arguments), Console(stderr=True)
    rows = earlier() if asked.attacks else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.attacks or ATTACKS:
            inside = Path(folder) / name
            inside.mkdir()
            for row in ATTACKS[name](inside, asked):
                rows[row.attack] = row
                console.print(f"{row.attack}: {row.tried} tried, {row.found} found. {row.remark}", highlight=False)
            if asked.attacks:
                write_text(PAGE, page([*rows.values()]))
    write_text(PAGE, page([*rows.values()]))
    return int(any(row.found for row in rows.values() if not row.attack.startswith("generated")))


if __name__ == "__main__":
    sys.exit(main())
