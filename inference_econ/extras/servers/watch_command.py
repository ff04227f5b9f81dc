"""The ``watch`` command, which compares a running server with its prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import answers, report
from inference_econ.errors import InputError
from inference_econ.records.saved import is_answer
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ.serving import Service


import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

from inference_econ import inputs
from inference_econ.extras import servers

#: Options that control the scrapes and do not describe the deployment.
_WATCHING = ("answer", "hardware", "metrics", "hosts", "every", "lasting", "once", "number", "as_json", "quiet")

#: Longest window between two scrapes [s].
_LONGEST = 604_800.0
#: Relative rounding tolerance of the number of windows [1].
_ROUNDING = 1e-9


def watch(
    request: Request,
    answer: str,
    metrics: tuple[str, ...],
    hosts: tuple[str, ...],
    every: float,
    lasting: float | None,
    once: bool,
    as_json: bool,
) -> int:
    """Compare a running server with its predicted TTFT, TPOT and throughput.

    ANSWER.json is a result that 'recommend' or 'frontier' wrote with -o. You can also give MODEL and HARDWARE with the
    options of 'load'. Each line is a window between two scrapes of /metrics of one instance, compared with the
    prediction at the request rate of that window. The exit code is 1 if a window is outside the predicted interval, and
    2 if no window can be compared.
    """
    from inference_econ.extras.servers.pages.run_vs_prediction import Watched, heading, watched

    windows = _windows(request, metrics, hosts, every, lasting, once=once)
    service, targets, arrival_scv = _predicted(request, answer)
    states: dict[str, str] = {}
    for window in windows:
        if not (states or as_json or request.quiet):
            request.host.put(heading(service))
        if window.run is None:
            entry = Watched(window.at, None, (), window.reason)
        else:
            entry = watched(window.at, service, window.run, targets, arrival_scv)
        states[entry.state] = entry.reason
        request.host.put(json.dumps(entry.record(), allow_nan=False) if as_json else entry.text)
    if list(states) == ["not compared"]:
        raise InputError(f"no window could be compared; the last one: {states['not compared']}", option="metrics")
    return int("outside" in states)


def _windows(
    request: Request, sources: Sequence[str], hosts: Sequence[str], every: float, lasting: float | None, *, once: bool
) -> Iterator[Window]:
    """Requested windows, from saved metrics files or from a live server.

    Raises
    ------
    InputError
        If several servers are given, the window is too long, or the duration is too short for a window.
    """
    if once and lasting is not None:
        raise InputError("--once watches one window, and --for watches for a duration; give one of them", option="once")
    if every > _LONGEST:
        raise InputError(f"--every: at most a week (got {every:g} s); give a shorter window", option="every")
    if lasting is not None and lasting < every:
        raise InputError(f"--for {lasting:g} s is shorter than a window, --every {every:g} s", option="lasting")
    if len(sources) > 1 and any("://" in source for source in sources):
        raise InputError(
            "several --metrics must be files of one server, in chronological order; watch each address with its own "
            "command",
            option="metrics",
        )
    count = 1 if once else None if lasting is None else int(lasting / every + _ROUNDING)
    if len(sources) > 1:
        return islice(recorded(sources, every), count)

    def tell(begun: str) -> None:
        if count is None:
            request.tell(f"{begun} until Ctrl-C; --once and --for TIME end by themselves")

    return islice(live(sources[0], hosts, every, tell), count)


def _predicted(request: Request, answer: str) -> tuple[Service, ie.Targets, float]:
    """Instance, SLOs and burstiness of arrivals, from a saved result or from options.

    Raises
    ------
    InputError
        If neither a saved result nor MODEL is given, or if the result is disaggregated, because its prefill and decode
        instances have separate metrics.
    """
    if request.hardware:
        if request.number is not None or is_answer(answer):
            raise InputError(
                "an answer has settled its hardware, and only answers have a --choice: give ANSWER.json alone",
                option="hardware",
            )
        request = report.deployment_reader.of_model(request, answer)
        requests = workload.requests(request)
        services = subject.offer(request, requests, speculation=subject.speculation(request))
        targets = workload.targets(request)
        service, _ = answers.load.usual_service([services], targets)
        return service, targets, request.arrival_scv
    if not answer.endswith(".json"):
        raise InputError(
            f"{answer!r}: give a saved answer (ANSWER.json), or a model and hardware: "
            "inference-econ watch llama_3_70b h100_sxm",
            option="hardware",
        )
    report.deployment_reader.check_alone(request, answer, _WATCHING)
    saved = report.deployment_reader.read(answer)
    if saved.options.get("agents") is not None:
        raise InputError(
            f"{answer}: results for agents cannot be watched, because a server is compared at a request rate; watch "
            "MODEL HARDWARE with the --isl, --osl and --cached of their turns"
        )
    parts = report.deployment_reader.parts(saved, report.deployment_reader.chosen(saved, request.number))
    if len(parts) > 1:
        raise InputError(f"{answer}: pools that prefill and decode apart cannot be watched; choose one that does both")
    question = Request.saved(saved.options)
    return parts[0].service, workload.targets(question), question.arrival_scv


#: Timeout for a metrics page [s], and its largest size [B].
_TIMEOUT_SECONDS, _LARGEST = 10.0, 1 << 24


@dataclass(frozen=True, slots=True)
class Window:
    """Window between two scrapes: end time, and either the means or the reason for missing means."""

    at: str
    run: servers.BenchmarkRun | None
    reason: str = ""


def recorded(paths: Sequence[str], seconds: float) -> Iterator[Window]:
    """Windows between scrapes in files, ``seconds`` apart.

    Raises
    ------
    InputError
        If a file is unreadable.
    """
    readings = [_read(path, ()) for path in paths]
    for path, (before, after) in zip(paths[1:], pairwise(readings), strict=True):
        yield _window(path, before, after, seconds)


def live(source: str, hosts: Sequence[str], seconds: float, tell: Callable[[str], None]) -> Iterator[Window]:
    """Endless windows of a live server; a failed scrape extends the window.

    Parameters
    ----------
    source : str
        Address of the server, or a file that another program updates.
    hosts : sequence of str
        Other hosts that may be contacted.
    seconds : float
        Time between scrapes [s].
    tell : callable
        Function that receives a message after the first scrape.

    Raises
    ------
    InputError
        If the first scrape fails.
    """
    before, began = _read(source, hosts), time.monotonic()
    tell(f"{source} is read again every {seconds:g} s")
    while True:
        time.sleep(seconds)
        at = time.strftime("%H:%M:%S")
        try:
            after, ended = _read(source, hosts), time.monotonic()
        except InputError as error:
            yield Window(at, None, str(error))
            continue
        yield _window(at, before, after, ended - began)
        before, began = after, ended


def _window(at: str, before: servers.measurements.Scrape, after: servers.measurements.Scrape, seconds: float) -> Window:
    try:
        return Window(at, servers.measurements.window(before, after, seconds))
    except servers.measurements.UnusableRowError as error:
        return Window(at, None, str(error))


def _read(source: str, hosts: Sequence[str]) -> servers.measurements.Scrape:
    """Scrape an address or a file.

    Raises
    ------
    InputError
        If the source cannot be reached, or is not a metrics page of a known engine.
    """
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", source):
        raise InputError(f"{source}: write an address with its scheme: http://{source}", option="metrics")
    try:
        return servers.measurements.scrape(_fetched(source, hosts) if "://" in source else inputs.read_text(source))
    except (servers.measurements.UnusableRowError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: {error}", option="metrics") from error


def _fetched(url: str, hosts: Sequence[str]) -> str:
    """Fetch a page without redirects and proxies, so that only the named host is contacted.

    Raises
    ------
    InputError
        If the address is neither local nor a named host, or does not return a page.
    """
    # Imported here because it loads encryption, which no other command needs.
    import http.client

    from inference_econ.extras.web import is_loopback

    try:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port
    except ValueError as error:
        raise InputError(f"{url}: no address ({error})", option="metrics") from error
    if address.scheme not in ("http", "https") or not host:
        raise InputError(f"{url}: write http://HOST:PORT/metrics, or the name of a file", option="metrics")
    if not is_loopback(host) and host not in hosts:
        raise InputError(f"{url}: {host} is not this machine; add --host {host} to ask it", option="metrics")
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", address.path or "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        page = response.read(_LARGEST)
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{url}: no answer ({reason}); is the server running?", option="metrics") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise InputError(f"{url}: {response.status} {response.reason}, no page of metrics", option="metrics")
    return page.decode()
