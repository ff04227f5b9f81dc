"""Entry point of the program. It is loaded first, so that an interrupt during imports also ends without a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

#: Exit code of an interrupt: 128 plus the signal number.
INTERRUPTED = 130
#: Allocations between two garbage collections [1]. A command keeps most of its objects, and ends soon.
_OBJECTS = 500_000
#: Largest number of digits of a terminal's width and height [1]. Rich cannot read a number of 4,301 digits.
_SIZE_DIGITS = 6


def run() -> None:
    """Run the command line; an interrupt ends it with one line at any time."""
    # Arrays are so small that linear algebra threads only wait for each other. Set this before NumPy starts them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The search for pydantic plug-ins takes 5% of the run time of a command, so it is disabled.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        Path.home()
    except RuntimeError:  # neither HOME nor an entry of the user; Altair cannot be imported without a home
        os.environ["HOME"] = os.devnull
    for name in ("COLUMNS", "LINES"):
        if len(os.environ.get(name, "")) > _SIZE_DIGITS:
            del os.environ[name]
    gc.set_threshold(_OBJECTS)
    with _noted() as interrupts:
        try:
            from .main import run

            run()
        except BaseException as error:
            # Compiled libraries turn an interrupt into errors of their own.
            finished = isinstance(error, SystemExit) and not error.code
            if finished or not (interrupts or isinstance(error, KeyboardInterrupt)):
                raise
            if sys.stderr is not None:
                # A terminal echoes ^C without a line break.
                sys.stderr.write("\nstopped\n" if sys.stderr.isatty() else "stopped\n")
            raise SystemExit(INTERRUPTED) from None
        finally:
            # The process ends and frees all memory without a search.
            gc.freeze()


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Record interrupts within a block, unless the parent process ignores them."""
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
