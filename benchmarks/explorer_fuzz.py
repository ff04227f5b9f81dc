"""Fuzz the explorer with requests generated from its OpenAPI document: none may crash the server.

``sh run.sh sturdiness explorer --cases 10000`` takes up to an hour; a test runs some hundreds. The numbers
of responses are in ``tests/fuzz/requested.json``, so that the next run sends other requests.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

from inference_econ.extras import web
from inference_econ.extras.web import WorkerLimits
from inference_econ.inputs.units import integer
from inference_econ.records.files import write_text

#: Responses of all runs so far, by status.
REQUESTED = Path(__file__).parent.parent / "tests" / "fuzz" / "requested.json"
ADDRESS = "http://127.0.0.1:8765"
#: Valid names that pass the first check, by kind.
_NAMES = {
    "models": ["llama_3_8b", "mixtral_8x7b", "deepseek_v3"],
    "hardware": ["h100_sxm", "h200_sxm", "l40s"],
    "assumptions": ["ideal", "deployable"],
    "engines": ["vllm", "sglang"],
    "traffic": ["azure_conversation"],
    "scenarios": ["examples/opening_question"],
}
#: Time limit of a response [s].
_SECONDS = 10.0
#: Longest address; the client rejects longer ones [characters].
_LONGEST_ADDRESS = 8_000


def application(seconds: float = _SECONDS) -> Any:
    """Application with a shorter time limit [s]."""
    return web.application(limits=WorkerLimits(seconds=seconds))


def requested() -> Counter[int]:
    """Responses of all runs so far, by status."""
    plain = json.loads(REQUESTED.read_text(encoding="utf-8")) if REQUESTED.is_file() else {}
    return Counter({integer(status): count for status, count in plain.items()})


def tried(client: TestClient, cases: int, first: int = 0) -> Counter[int]:
    """Responses by status to about ``cases`` requests over all addresses and methods.

    Requests that were sent before (``first``) determine which are generated.

    Raises
    ------
    AssertionError
        With the request that crashed the server.
    """
    document = _with_names(client.get("/openapi.json").json())
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    statuses: Counter[int] = Counter()
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            count = max(cases // len(operations) // 2, 1)
            statuses += _replies(client, operation.as_strategy(generation_mode=mode), count, first)
    return statuses


def _replies(client: TestClient, requests: Any, cases: int, first: int) -> Counter[int]:
    statuses: Counter[int] = Counter()

    @seed(cases + first)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=requests)
    def ask(case: Case[Any]) -> None:
        sent = case.as_transport_kwargs(base_url=ADDRESS)
        about = {name: sent[name] for name in ("method", "url", "params", "json", "headers") if sent.get(name)}
        assume(len(str(about.get("params"))) < _LONGEST_ADDRESS)
        whole = (about, str(sent.get("data"))[:500])
        try:
            reply = client.request(**about, content=sent.get("data"))
        except Exception as error:
            raise AssertionError(whole) from error
        statuses[reply.status_code] += 1
        assert reply.status_code < 500, (reply.status_code, *whole)

    ask()
    return statuses


def _with_names(document: dict[str, Any]) -> dict[str, Any]:
    """Add catalog names to the alternatives of name fields in the document."""
    named = copy.deepcopy(document)
    for schema in _named(named):
        text = {"anyOf": [{"enum": _NAMES[schema.pop("x-catalogue")]}, {"type": "string", "maxLength": 20}]}
        many = schema.get("type") == "array" or any(kind.get("type") == "array" for kind in schema.get("anyOf", ()))
        schema.pop("anyOf", None)
        schema |= {"type": "array", "items": text, "maxItems": 3} if many else text
        if not many:
            schema.pop("type", None)
            schema["anyOf"] = text["anyOf"]
    return named


def _named(value: Any) -> Iterator[dict[str, Any]]:
    """All schemas of names."""
    if isinstance(value, dict):
        if "x-catalogue" in value:
            yield value
        for item in list(value.values()):
            yield from _named(item)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item)


def main() -> int:
    """Send requests, and print the responses by status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="Requests [10000].")
    cases = parser.parse_args().cases
    before = requested()
    with TestClient(application(), base_url=ADDRESS) as client:
        statuses = before + tried(client, cases, before.total())
    write_text(REQUESTED, json.dumps(dict(sorted(statuses.items())), indent=1) + "\n")
    print(f"{statuses.total():,} requests so far, none made the server fail:", dict(sorted(statuses.items())))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
