"""Count contradictions of the model: ``sh run.sh validate contradictions`` writes docs/evidence/contradictions.md.

Random setups and layouts (:mod:`benchmarks.random_setups`) are evaluated twice, with a change that cannot make a step
slower or faster (:mod:`benchmarks.comparisons`). ``--cases`` limits the time: 1,500 take four minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.comparisons import EXCEPTIONS, KINDS, Comparison
from benchmarks.random_setups import CHIPS, MODELS, PLANS, PRESETS, Case, drawn

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "contradictions.md"
_CASES, _SEED = 1500, 1
#: Counts and worst ratios of the same number of comparisons at commit 211d765, before all fixes, exceptions included.
BEFORE: dict[str, tuple[int, float]] = {
    "batch, rate": (9724, 1.93),
    "batch, time": (57, 9.0),
    "ideal": (130, 9.1),
    "latency": (1973, 1.09),
    "link domain": (18327, 5.62),
    "prompt": (61, 1.31),
}

HEAD = """# Where the model contradicts itself

`sh run.sh validate contradictions` writes this page. It predicts the step times of random setups ({models} models x
{chips} GPUs x formats x {presets} presets, up to {plans} layouts each) twice. The second prediction has one change
that cannot make a step slower. The change is a larger link domain, faster memory, links, units or launches, fewer
sequences or tokens, narrower weights on the same unit, or the preset `ideal`. If the second step is slower, the cost
model contradicts itself. Layouts have integer degrees, or real ones as in the published study. Steps are decode,
verification, prefill or mixed. `tests/engine/test_contradictions.py` checks a few setups of each kind.

"""


@dataclass
class Tally:
    """Counts of one kind of comparison [1], the worst unexplained ratio, and the worst of each exception."""

    tried: int = 0
    violated: int = 0
    worst: float = 1.0
    excused: dict[str, tuple[int, float]] = field(default_factory=dict)
    examples: list[tuple[float, str]] = field(default_factory=list)

    def add(self, case: Case, comparison: Comparison) -> None:
        """Count a comparison, and store its worst unexplained plan."""
        excused, ratio = comparison.excused, comparison.ratio
        left = comparison.violated & ~excused
        self.tried += ratio.size
        self.violated += int(left.sum())
        if excused.any():
            count, worst = self.excused.get(comparison.exception, (0, 1.0))
            largest = max(worst, float(ratio[excused].max()))
            self.excused[comparison.exception] = count + int(excused.sum()), largest
        if left.any():
            place = np.unravel_index(int(np.argmax(np.where(left, ratio, 0.0))), ratio.shape)
            self.worst = max(self.worst, float(ratio[place]))
            self.examples.append((float(ratio[place]), f"{case}; {comparison.change}; {_plan(case, place[-1])}"))


def _plan(case: Case, index: np.intp) -> str:
    arrays = ((name, np.broadcast_to(values, case.plans.shape)[index]) for name, values in case.plans.arrays().items())
    phase = "prompt" if case.plans.prefill else "step"
    return ", ".join(f"{name} {value:g}" for name, value in arrays) + f", {case.plans.new_tokens:g} tokens of a {phase}"


def compared(seed: int, index: int) -> Iterator[tuple[Case, Comparison]]:
    """All comparisons of a case."""
    case, random = drawn(seed, index)
    for kind in KINDS:
        for comparison in kind(case, random):
            yield case, comparison


def tallies(seed: int, indices: Iterable[int]) -> dict[str, Tally]:
    """Counts of all comparisons of cases, by kind."""
    found: dict[str, Tally] = {}
    for index in indices:
        for case, comparison in compared(seed, index):
            found.setdefault(comparison.kind, Tally()).add(case, comparison)
    return found


def page(found: dict[str, Tally]) -> str:
    """Markdown table, and exceptions with reasons."""
    lines = [
        "| what must not make a step slower | comparisons | contradictions before, exceptions among them | now | "
        "exceptions |",
        "|---|---|---|---|---|",
    ]
    for kind, tally in sorted(found.items()):
        was = _count(*BEFORE.get(kind, (0, 1.0)))
        excused = "; ".join(f"{name}: {_count(*counted)}" for name, counted in sorted(tally.excused.items()))
        lines.append(f"| {kind} | {tally.tried} | {was} | {_count(tally.violated, tally.worst)} | {excused or 0} |")
    head = HEAD.format(models=len(MODELS), chips=len(CHIPS), presets=len(PRESETS), plans=PLANS)
    reasons = [f"- **{name}**: {text}" for name, text in EXCEPTIONS.items()]
    return head + "\n".join([*lines, "", "Exceptions, and their bounds:", "", *reasons]) + "\n"


def _count(violated: int, worst: float) -> str:
    return f"{violated}, up to {worst:.2f} x" if violated else "0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print counts and worst examples, and write the page; 1 if a contradiction remains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=_CASES, help="setups that are drawn")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the random numbers")
    asked, console = parser.parse_args(arguments), Console(stderr=True)
    found = tallies(asked.seed, track(range(asked.cases), console=console, description="setups"))
    for kind, tally in sorted(found.items()):
        sys.stdout.write(f"{kind}: {tally.tried} tried, {_count(tally.violated, tally.worst)} left, {tally.excused}\n")
        for ratio, text in sorted(tally.examples, reverse=True)[:5]:
            sys.stdout.write(f"  {ratio:.3f} x  {text}\n")
    if (asked.cases, asked.seed) == (_CASES, _SEED):
        PAGE.write_text(page(found), encoding="utf-8")
    return int(any(tally.violated for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
