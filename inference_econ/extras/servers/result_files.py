"""How files of results are told from tables, before anything is read."""

from __future__ import annotations

#: How names of result files end: JSON, one object a line, YAML, and the text of ``/metrics``.
RESULT_ENDINGS = (".json", ".jsonl", ".yaml", ".yml", ".prom", ".txt")
