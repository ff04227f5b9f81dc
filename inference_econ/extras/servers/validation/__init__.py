"""Names of the shipped files with measured servers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

TABLE = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))
#: Files of measured servers, which :mod:`.servers` predicts together.
SERVERS: Mapping[str, str] = TABLE["servers"]
