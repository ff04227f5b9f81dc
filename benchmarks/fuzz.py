"""Run fuzz tests for a given time: ``sh run.sh sturdiness fuzz``.

``tests/fuzz/tried.json`` counts the tested inputs, so that the next run continues with other inputs, here or in another
checkout. Each defect's input is written to ``.fuzz/defects``. ``sh run.sh sturdiness fuzz --repeat FILE`` runs it again
and prints the problem.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

import click
from hypothesis import HealthCheck, Phase, given, seed, settings

from inference_econ.records.files import write_text
from tests.fuzz.judged import Case, judged
from tests.fuzz.kinds import KINDS

DEFECTS = Path(".fuzz/defects")
TRIED = Path(__file__).parents[1] / "tests" / "fuzz" / "tried.json"
#: Inputs of a kind before another kind may have its turn [1]; one seed makes as many.
BATCH = 25
#: Time above which a case is a defect [s].
SECONDS = 30
OUTCOMES = ("answered", "refused", "defect")


class State:
    """Count the inputs so far by kind: the next seed, the number of inputs by outcome, and the total time.

    Attributes
    ----------
    seconds : float
        Processor time, which another program does not lengthen [s].
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        plain = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.seeds = Counter(plain.get("seeds", {}))
        self.counts = {kind: Counter(plain.get("counts", {}).get(kind, {})) for kind in KINDS}
        self.seconds = float(plain.get("seconds", 0.0))
        #: Seconds of this run by kind [s].
        self.spent = dict.fromkeys(KINDS, 0.0)

    def save(self) -> None:
        """Write the full state atomically."""
        plain = {"seeds": self.seeds, "counts": self.counts, "seconds": round(self.seconds)}
        write_text(self.path, json.dumps(plain, indent=1) + "\n")

    @property
    def tried(self) -> int:
        """Return the inputs of every kind [1]."""
        return sum(count.total() for count in self.counts.values())

    def table(self) -> str:
        """Return a line per kind, and the total time."""
        lines = [f"{'':16}{'tried':>8}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
        for kind, count in self.counts.items():
            lines.append(f"{kind:16}{count.total():8,}" + "".join(f"{count[outcome]:10,}" for outcome in OUTCOMES))
        lines.append(f"{self.tried / max(self.seconds, 1.0):.1f} inputs per second of one core")
        return "\n".join(lines)


def batch(kind: str, state: State, ends: float) -> None:
    """Run all inputs of one seed, regardless of their outcomes."""

    @seed(state.seeds[kind])
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind]())
    def each(case: Case) -> None:
        if time.monotonic() < ends:
            state.counts[kind][_tried(case)] += 1

    state.seeds[kind] += 1
    began = time.process_time()
    each()
    took = time.process_time() - began
    state.seconds += took
    state.spent[kind] += took


def _tried(case: Case) -> str:
    """Return the outcome of a case; write a defect to a file."""
    result = judged(case, SECONDS)
    if result.outcome == "defect":
        path = DEFECTS / f"{case.kind}-{hashlib.sha256(case.text().encode()).hexdigest()[:10]}.json"
        write_text(path, case.text())
        last = next(line for line in reversed(result.why.partition("\n---")[0].splitlines()) if line.strip())
        click.echo(f"{path}: {' '.join(case.line)[:200]!a}: {last[:300]}")
    return result.outcome


def main() -> int:
    """Fuzz until the time is over or an interrupt; the exit code is 1 with defects."""
    parser = argparse.ArgumentParser(prog="sh run.sh sturdiness fuzz", description="Try made-up inputs.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only such inputs; repeatable")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="run one input again")
    asked = parser.parse_args()
    if asked.repeat is not None:
        result = judged(Case.read(asked.repeat.read_text(encoding="utf-8")), SECONDS)
        click.echo(f"{result.outcome}\n{result.why}")
        return int(result.outcome == "defect")
    DEFECTS.mkdir(parents=True, exist_ok=True)
    state = State(TRIED)
    before = sum(count["defect"] for count in state.counts.values())
    ends = time.monotonic() + 60.0 * asked.minutes
    try:
        while time.monotonic() < ends:
            # Each kind has the same time, so fast kinds are tried more often.
            batch(min(asked.kind or KINDS, key=state.spent.__getitem__), state, ends)
            state.save()
    except KeyboardInterrupt:
        state.save()
        click.echo("stopped", err=True)
    click.echo(state.table())
    return int(sum(count["defect"] for count in state.counts.values()) > before)


if __name__ == "__main__":
    sys.exit(main())
