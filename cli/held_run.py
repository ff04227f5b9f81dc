"""A run of a load generator held against a saved answer: ``validate result.json --against answer.json``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import calibration, report
from inference_econ.errors import InputError

from . import saved_services

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Part


def page(results: Sequence[str], path: str, number: int | None) -> report.against.AgainstPage:
    """The numbers of a run beside those of an answer.

    Raises
    ------
    InputError
        If there is not one result, or it is of another load than the answer.
    """
    from inference_econ import calibration

    if len(results) != 1:
        raise InputError(f"--against {path}: give one result of a load generator, got {len(results)}", option="against")
    saved = report.chosen.read(path)
    chosen = report.chosen.chosen(saved, number)
    parts = saved_services.parts(saved, chosen)
    replicas = 1 if len(parts) > 1 else parts[0].replicas
    run = calibration.read_run(results[0])
    try:
        held = calibration.hold(chosen.expected, chosen.load, replicas, parts[-1].service, run)
    except InputError as error:
        raise InputError(f"{results[0]} against {path}: {error}", error.option) from error
    suspects = _suspects(chosen, parts[-1], held)
    return report.against.AgainstPage(
        f"{results[0]} against {path}", parts, held, suspects, _calibrate(results[0], saved, parts[-1])
    )


def _suspects(
    chosen: report.chosen.Chosen, part: Part, held: Sequence[calibration.Held]
) -> Sequence[calibration.Suspect]:
    """Parts of a step that could explain a TPOT of the median, or the mean, outside its interval."""
    outside = [entry for entry in held if entry.expected.measure == "tpot" and entry.inside is False]
    if not outside:
        return ()
    return calibration.suspects(part.service, chosen.in_flight / part.replicas, outside[0])


def _calibrate(result: str, saved: ie.SavedAnswer, part: Part) -> str:
    """Command line that fits levels to the run; constants, of which it determines one at most, stay where they were."""
    from inference_econ.answers.candidates import engine_of
    from inference_econ.answers.launching.instance import Degrees

    service, degrees = part.service, Degrees.of(part.service)
    question = saved.options
    named = {
        "--hardware": question.get("decode_on") or question["hardware"],
        "--model": question["model"],
        "--engine": engine_of(service.setup).partition(" ")[0],
        "--weights": service.setup.precision.weights,
        "--kv": service.setup.precision.kv,
        "--tp": degrees.tp,
        "--dp": degrees.dp,
        "--pp": degrees.pp,
        "--ep": degrees.ep,
    }
    words = ["inference-econ", "calibrate", result]
    words += [str(word) for name, value in named.items() if value not in (1, "") for word in (name, value)]
    return shlex.join([*words, "-o", "mine.yaml"])
