"""Fit of workloads to public traces: ``scenarios/traffic``, from the folder with the traces.

``sh run.sh refit traffic FOLDER`` runs it; seconds. The repository does not contain the traces. They are Azure's
``AzureLLMInferenceTrace_code.csv`` and ``_conv.csv`` of 2023 (CC-BY), and Mooncake's ``conversation_trace.jsonl`` and
``synthetic_trace.jsonl`` of FAST'25 (Apache-2.0), under the names in :data:`TRACES`, compressed by gzip.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from inference_econ.answers.traffic import trace
from inference_econ.inputs import catalog, spec_text


class PublicTrace(NamedTuple):
    """Published trace."""

    file: str
    name: str
    ref: str
    where: str


TRACES = {
    "azure_code": PublicTrace(
        "azure_2023_code.csv.gz",
        "Azure code, November 2023",
        "azure_llm_traces",
        "AzureLLMInferenceTrace_code.csv (CC-BY)",
    ),
    "azure_conversation": PublicTrace(
        "azure_2023_conv.csv.gz",
        "Azure conversation, November 2023",
        "azure_llm_traces",
        "AzureLLMInferenceTrace_conv.csv (CC-BY)",
    ),
    "mooncake_conversation": PublicTrace(
        "mooncake_conversation_trace.jsonl.gz",
        "Mooncake conversation",
        "mooncake2025",
        "FAST25-release/traces/conversation_trace.jsonl (Apache-2.0)",
    ),
    "mooncake_synthetic": PublicTrace(
        "mooncake_synthetic_trace.jsonl.gz",
        "Mooncake synthetic",
        "mooncake2025",
        "FAST25-release/traces/synthetic_trace.jsonl (Apache-2.0)",
    ),
}


def main(folder: str) -> None:
    """Write every fitted workload to its place in the package."""
    for name, public in TRACES.items():
        seen = trace(Path(folder) / public.file)
        where = f"{public.where}, fitted by data/traffic.py to all {seen.requests:,} requests"
        fitted = seen.traffic
        described = f"{seen.requests:,} requests in {(seen.seconds or 0.0) / 60:.0f} minutes of {public.where}."
        source = {"ref": public.ref, "where": where, "kind": "derived"}
        spec = fitted.replace(name=public.name, description=described, sources=dict.fromkeys(fitted.sources, source))
        (catalog.folder("traffic") / f"{name}.yaml").write_text(spec_text(spec), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
