"""The first module that is loaded: whoever interrupts while the others are, gets no traceback either."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Exit code of an interrupt: 128 and the number of the signal.
INTERRUPTED = 130


def run() -> None:
    """Run the command line; an interrupt at any moment ends it with one line."""
    # Arrays are so small that threads of linear algebra only wait for each other; said before NumPy starts them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with _noted() as interrupts:
        try:
            from .main import run

            run()
        except BaseException as error:
            # Libraries that are written in other languages turn an interrupt into errors of their own.
            finished = isinstance(error, SystemExit) and not error.code
            if finished or not (interrupts or isinstance(error, KeyboardInterrupt)):
                raise
            if sys.stderr is not None:
                # Terminals show what was pressed, and stay in that line.
                sys.stderr.write("\nstopped\n" if sys.stderr.isatty() else "stopped\n")
            raise SystemExit(INTERRUPTED) from None


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Interrupts of a block, noted as they come; none where the caller of the program has them ignored."""
    interrupts: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
