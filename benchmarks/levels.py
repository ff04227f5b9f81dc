"""Levels of measured servers over every fitted profile, again: scenarios/assumptions/levels; some minutes.

Run it after profiles or measurements change (benchmarks/profiles.sh does).
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from inference_econ.calibration.levels.fitted import fitted_levels
from inference_econ.calibration.levels.levels_file import source_of
from inference_econ.calibration.measurements import shipped
from inference_econ.calibration.validation import SERVERS
from inference_econ.inputs import yaml_text

FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "assumptions" / "levels"
REFERENCE = "aiconfigurator"


def main() -> None:
    """Write a file for each engine and generation of chips that has a profile of its own."""
    fitted = fitted_levels(shipped(tuple(SERVERS)), date=date.today().isoformat())
    FOLDER.mkdir(exist_ok=True)
    for group, data in fitted.files.items():
        source = source_of(data, REFERENCE, ", ".join(SERVERS))
        keys = ("form", "rows", "spreads", "errors", "subjects")
        path = FOLDER / f"{group.engine}_{group.generation}.yaml"
        path.write_text(yaml_text({**data, "sources": dict.fromkeys(keys, source)}), encoding="utf-8")
        click.echo(f"{path.name}: {data['rows']} rows")


if __name__ == "__main__":
    main()
