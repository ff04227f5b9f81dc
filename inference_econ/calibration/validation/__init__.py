"""Predictions beside measurements: every set of data that the model is held against."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference_econ.calibration.validation._report import ComparedPoint, Form, Report
from inference_econ.errors import UnknownNameError
from inference_econ.inputs import catalog

__all__ = ["DATASETS", "SERVERS", "ComparedPoint", "Dataset", "Form", "Report", "dataset", "validate"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Measurements, and who predicts them.

    Attributes
    ----------
    files : tuple of str
        The files that come with the package, below ``scenarios/measured`` and without their suffix.
    assumptions : tuple of str
        Presets or models of collectives that are compared if none are named.
    description : str
        For people.
    report : callable
        Reads the files and predicts their rows under each of some assumptions.
    on_request : bool
        It takes long, and is compared only where it is named or the report is written.
    """

    files: tuple[str, ...]
    assumptions: tuple[str, ...]
    description: str
    report: Callable[[Sequence[Path], Sequence[str]], Report]
    on_request: bool = False


def _report_collectives(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._collectives import report

    return report(paths[0], names)


def _report_memory(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._memory import report

    return report(paths[0], names)


def _report_specdec(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._specdec import report

    return report(paths[0], names)


def _report_load(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._load import report

    return report(paths[0], names)


def _report_pool_pairs(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._pool_pairs import report

    return report(paths[0], names)


def _report_costs(paths: Sequence[Path], names: Sequence[str]) -> Report:
    from inference_econ.calibration.validation._costs import report

    return report(paths, names)


#: By the name that the command line takes. What predicts is loaded when it is used.
DATASETS = {
    "collectives": Dataset(
        ("collectives",),
        ("deployable", "nccl_2_23", "nccl_2_19"),
        "all-reduces and their like: NCCL, kernels of engines, DeepEP",
        _report_collectives,
    ),
    "memory": Dataset(
        ("memory_points",), ("deployable",), "weights and KV cache that engines reported", _report_memory
    ),
    "load": Dataset(
        ("poisson_load_a100",),
        ("deployable",),
        "closed forms of 'load': vLLM and SGLang under Poisson arrivals",
        _report_load,
    ),
    "pool_pairs": Dataset(
        ("pool_pairs",), ("profile",), "what disaggregated pools gain over aggregated serving", _report_pool_pairs
    ),
    "specdec": Dataset(("specdec",), ("deployable",), "speed-ups of speculative decoding", _report_specdec),
    "costs": Dataset(
        ("servers/serving_points", "servers/inferencemax_aggregated"),
        ("profile", "profile, levels left out"),
        "costs at the speed of the best measured servers",
        _report_costs,
        on_request=True,
    ),
}


#: Measured servers by the names of their files: :mod:`.servers` predicts them together.
SERVERS = {
    "serving_points": "servers with a constant number of requests: TTFT and TPOT (InferenceX)",
    "inferencemax_aggregated": "the same, with throughput (nightly runs of InferenceMAX)",
    "poisson_load_a100": "servers of A100s under random arrivals",
    "decode_points": "times between tokens, from many sources",
    "throughput_points": "tokens per second, and times of whole batches",
    "ttft_points": "times to first token",
}


def dataset(name: str) -> Dataset:
    """A set of measurements by its name.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, [*DATASETS, *SERVERS], n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        names = ", ".join([*DATASETS, *SERVERS])
        raise UnknownNameError(
            f"unknown dataset {name!r}; {hint}known: {names}; or a file of measured servers (.csv, .json)"
        )
    return DATASETS[name]


def validate(name: str, *, file: Path | str | None = None, assumptions: Sequence[str] = ()) -> Report:
    """Predict every row of a set of measurements.

    Parameters
    ----------
    name : str
        A key of :data:`DATASETS`.
    file : path or str, optional
        A CSV file with the columns of a shipped one, instead of them.
    assumptions : sequence of str
        Presets by name or path, or names of models of collectives, side by side; by default those of the dataset.

    Returns
    -------
    Report
        With a point for every row and each of the assumptions, whether it could be predicted or not.

    Raises
    ------
    InputError
        If a name is unknown, or the file cannot be used.
    """
    measured = dataset(name)
    folder = catalog.folder("scenarios") / "measured"
    paths = [folder / f"{name}.csv" for name in measured.files] if file is None else [Path(file)]
    return measured.report(paths, tuple(dict.fromkeys(assumptions)) or measured.assumptions)
