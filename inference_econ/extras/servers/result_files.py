"""File endings that distinguish results of load generators from tables."""

from __future__ import annotations

#: Endings of result files: JSON, JSON lines, YAML, and the text of ``/metrics``.
RESULT_ENDINGS = (".json", ".jsonl", ".yaml", ".yml", ".prom", ".txt")
