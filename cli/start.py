"""The first module that is loaded: whoever interrupts while the others are, gets no traceback either."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Exit code of an interrupt: 128 and the number of the signal.
INTERRUPTED = 130
#: Objects that are made between two searches for what nobody refers to any more [1]: a command keeps most of what it
#: makes, and is over soon.
_OBJECTS = 500_000


def run() -> None:
    """Run the command line; an interrupt at any moment ends it with one line."""
    # Arrays are so small that threads of linear algebra only wait for each other; said before NumPy starts them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS)
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
        finally:
            # The end of the process frees everything without a search.
            gc.freeze()


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
