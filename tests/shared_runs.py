"""Simulations that several tests need: each runs once for all test processes, and is stored in a folder."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import FunctionType
from typing import Any

from inference_econ.serving.simulation.events import StepTimes
from inference_econ.serving.simulation.trace import StepTable, Trace

#: Shorter runs are not worth a file [s].
_LEAST_SECONDS = 0.03


class _Content(pickle.Pickler):
    """Write all inputs of a simulation: functions with their closures, and tables without their caches."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            return tuple, ((value.__module__, value.__qualname__, value.__defaults__, enclosed),)
        if isinstance(value, StepTable):
            return tuple, (tuple(part for name, part in vars(value).items() if name != "_known"),)
        if isinstance(value, StepTimes):
            return tuple, (tuple(getattr(value, field.name) for field in fields(value) if field.compare),)
        return NotImplemented


def _digest(*content: Any) -> str:
    buffer = io.BytesIO()
    _Content(buffer).dump(content)
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def shared(simulate: Callable[..., Trace], folder: Path) -> Callable[..., Trace]:
    """Run simulations that no test has run before; read the others from a folder."""

    def run(*arguments: Any, **options: Any) -> Trace:
        file = folder / _digest(simulate.__name__, arguments, options)
        if file.exists():
            trace: Trace = pickle.loads(file.read_bytes())
            return trace
        begin = time.process_time()
        trace = simulate(*arguments, **options)
        if time.process_time() - begin > _LEAST_SECONDS:
            written = file.with_suffix(f".{os.getpid()}")
            written.write_bytes(pickle.dumps(trace))
            written.replace(file)
        return trace

    return run
