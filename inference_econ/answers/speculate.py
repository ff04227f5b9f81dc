"""Comparison of speculative decoding with plain decoding on one deployment, and acceptance rates from a file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from inference_econ._answer import Shown
from inference_econ._types import Array, Indices
from inference_econ.answers.deployments.deployment import finite, layout_of
from inference_econ.answers.layout_services import offer
from inference_econ.answers.slo import instances_of
from inference_econ.engine import PROPOSERS, Instances, Pins, Setup, Space, Speculation, bounds, needed_memory, rounds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.formulas import speculation as formulas
from inference_econ.inputs import Requests, read_text
from inference_econ.records.deviations import SEEN, calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.serving import Service, Steady, slots_of
from inference_econ.serving.services import services

if TYPE_CHECKING:
    import pandas as pd


#: Maximum number of steady states, and maximum number of concurrencies that are evaluated [1].
_STATES = 400
#: Speedups below this value count as no speedup [1].
_NONE = 1e-6
#: Columns of a file of log-probabilities.
_TARGET, _DRAFT, _POSITION = "target_logprob", "draft_logprob", "position"


@dataclass(frozen=True, slots=True, repr=False)
class Speculated(Shown):
    """One deployment with and without speculation; arrays of shape (n,), one value per concurrency.

    Attributes
    ----------
    plain, speculating : Service
        Service without speculation, and service with speculation in the same layout. With speculation, fewer requests
        may fit, because the draft model needs memory.
    concurrency : ndarray
        Numbers of concurrent requests [1]: ascending integers up to the memory limit of ``speculating``.
    plain_state, state : Steady
        Steady states at each concurrency, without and with speculation.
    drafted : ndarray of int
        Best draft length at each concurrency [1]; 0 where plain decoding is fastest.
    tokens : ndarray
        Expected tokens per speculation round [1].
    draft_seconds : ndarray
        Time to draft one token for every sequence [s]; ``inf`` if no layout fits the draft model.
    """

    page = "report.questions.speculate:SpeculationPage"

    plain: Service
    speculating: Service
    concurrency: Array
    plain_state: Steady
    state: Steady
    drafted: Indices
    tokens: Array
    draft_seconds: Array

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """Price of a GPU [USD/h]."""
        return self.plain.setup.dollars_per_accelerator_hour

    @property
    def speedup(self) -> Array:
        """TPOT without speculation divided by TPOT with speculation [1]; both include the prefill of other requests."""
        return np.asarray(self.plain_state.tpot_seconds / self.state.tpot_seconds)

    @property
    def pays(self) -> npt.NDArray[np.bool_]:
        """True for concurrencies at which speculation lowers the TPOT."""
        return np.asarray(self.speedup > 1.0 + _NONE)

    def dollars(self, state: Steady) -> Array:
        """Cost of the instance divided by its output tokens, at each concurrency [USD per 1e6 tokens]."""
        tokens = state.requests_per_second * self.plain.requests.osl.mean
        return money.dollars_per_million_tokens(self.plain.accelerators, 1.0, tokens, self.dollars_per_accelerator_hour)

    def at(self, wanted: npt.ArrayLike) -> Speculated:
        """Select the results at the given concurrencies. Missing concurrencies are replaced by the next larger one."""
        chosen = np.searchsorted(self.concurrency, np.asarray(wanted, dtype=float).clip(1.0, self.concurrency[-1]))
        concurrency = self.concurrency[chosen]
        return replace(
            self,
            concurrency=concurrency,
            plain_state=self.plain.at(concurrency),
            state=self.speculating.at(concurrency),
            drafted=self.drafted[chosen],
            tokens=self.tokens[chosen],
            draft_seconds=self.draft_seconds[chosen],
        )

    def subjects(self) -> tuple[Instances]:
        """Return the deployment with speculation at the concurrencies :attr:`powers`, to look up prediction errors."""
        sizes = [float(self.plain.accelerators)] * len(self.powers)
        return (instances_of(self.plain)._replace(accelerators=sizes, concurrency=self.powers, speculates=True),)

    @property
    def powers(self) -> list[float]:
        """Powers of two up to the largest evaluated concurrency, followed by this concurrency [1]."""
        last = float(self.concurrency[-1])
        powers = 2.0 ** np.arange(np.floor(np.log2(last)) + 1.0)
        return [*powers[powers < last].tolist(), last]

    def full_dollars(self) -> tuple[float, float]:
        """Cost at maximum concurrency, without and with speculation [USD per 1e6 output tokens]."""
        plain, speculating = (
            float(self.dollars(service.at(service.slots))) for service in (self.plain, self.speculating)
        )
        return plain, speculating

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup without speculation."""
        return [self.plain.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        shown, (instances,) = self.at(self.powers), self.subjects()
        pays, batches = self.concurrency[self.pays], self.state.batch[self.pays]
        plain, fast = shown.plain_state, shown.state
        columns = {
            "concurrency": shown.concurrency,
            "batch": fast.batch,
            "plain_batch": plain.batch,
            "plain_tpot_seconds": plain.tpot_seconds,
            "tpot_seconds": fast.tpot_seconds,
            "plain_ttft_seconds": plain.ttft_seconds,
            "ttft_seconds": fast.ttft_seconds,
            "draft_tokens": shown.drafted,
            "tokens_per_round": shown.tokens,
            "draft_seconds": shown.draft_seconds,
            "speedup": shown.speedup,
            "plain_dollars_per_million_output_tokens": shown.dollars(plain),
            "dollars_per_million_output_tokens": shown.dollars(fast),
        }
        ends = bounds.ends(instances, _FOLLOWS)
        lines = zip(*(column.tolist() for column in columns.values()), strict=True)
        # If the draft model has its own layout, large batches may leave no memory for it.
        rows = [bounds.bounded(finite(dict(zip(columns, line, strict=True))), ends) for line in lines]
        full_plain, full = self.full_dollars()
        return {
            **facts(
                self.plain.setup, *(*HEAD, "calibration", "weights"), calibration=calibration_record(instances, SEEN)
            ),
            "layout": layout_of(self.plain),
            **facts(self.plain.setup, "isl", "osl", requests=self.plain.requests),
            "speculation": chosen_speculation(self).record(),
            "dollars_per_accelerator_hour": self.dollars_per_accelerator_hour,
            "plain_slots": self.plain.slots,
            "slots": self.speculating.slots,
            "pays_from": float(pays[0]) if pays.size else None,
            "pays_to": float(pays[-1]) if pays.size else None,
            "pays_to_batch": float(batches[-1]) if pays.size else None,
            "stops_paying": bool(pays.size and not self.pays[-1]),
            "plain_dollars_per_million_when_full": full_plain,
            "dollars_per_million_when_full": full,
            "rows": rows,
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per concurrency."""
        return list(self.record()["rows"])


def speculate(setup: Setup, requests: Requests, speculation: Speculation, pins: Pins | None = None) -> Speculated:
    """Compare one deployment with and without speculation, from one request up to the memory limit.

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    requests : Requests
        Lengths and cached tokens.
    speculation : Speculation
        Speculation method and acceptance rate.
    pins : Pins, optional
        Parallelism degrees of the deployment. Degrees that are not given are 1. By default, the degree of expert
        parallelism is the one with the highest throughput that an engine supports.

    Returns
    -------
    Speculated
        Results with and without speculation, at equal concurrencies.

    Raises
    ------
    InputError
        If the price is unknown, a parallelism degree is invalid, outputs have one token, or the model does not support
        the method.
    NothingFitsError
        If the model and the draft model do not fit in memory together.
    """
    if requests.decode_steps <= 0:
        raise InputError(f"answers of {requests.osl.mean:g} token need no decode step that speculation could speed up")
    layout = Pins() if pins is None else pins
    pinned = replace(layout, tp=layout.tp or 1, dp=layout.dp or 1, pp=layout.pp or 1)
    layouts = offer(setup, requests, Space(pinned))
    # The layouts differ only in expert parallelism. The layout with the highest throughput is used.
    best = int(np.argmax(layouts.states.requests_per_second[:, -1]))
    plans, setup = layouts.plans.row(best), layouts.setup
    slots = slots_of(setup, plans, speculation)
    if slots[0] < 1.0:
        needed = needed_memory(setup, plans, speculation)
        weigh, cache, available = needed.of_one_plan()
        raise NothingFitsError(
            f"{setup.model.name} with its {PROPOSERS[speculation.proposer]} on "
            f"{plans.accelerators[0]:g} x {setup.hardware.name}: {weigh / 1e9:.1f} GB of weights and "
            f"{cache / 1e9:.2f} GB of KV cache > {available / 1e9:.1f} GB"
        )
    plain = services(setup, requests, plans, layouts.slots[[best]], batches=_STATES).service(0)
    fast = services(setup, requests, plans, slots, batches=_STATES, speculation=speculation).service(0)
    powers = 2.0 ** np.arange(np.floor(np.log2(fast.slots)) + 1.0)
    concurrency = np.union1d(np.rint(np.geomspace(1.0, fast.slots, _STATES)), powers)
    state = fast.at(concurrency)
    series = rounds(setup, replace(plans, batch=state.batch), speculation)
    length = series.best().length
    draft_seconds = series.draft_seconds
    return Speculated(
        plain, fast, concurrency, plain.at(concurrency), state, length, series.tokens[length], draft_seconds
    )


def measured_acceptance(path: Path | str, longest: int | None) -> float | list[float]:
    """Read acceptance rates from a CSV file with one line per draft token [1].

    Return one rate per position, or a single rate for all positions.

    Parameters
    ----------
    path : Path or str
        File with the columns ``target_logprob`` and ``draft_logprob``, and optionally ``position`` (1 for the first
        token of a draft). The first two columns are the natural logarithms of the probabilities that the target and the
        draft model assign to the token. The rate of a position assumes that all earlier tokens were accepted, so leave
        out tokens after a rejection.
    longest : int or None
        Maximum draft length [1]; None for all positions of the file.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, a line or a position, or has an invalid entry.
    """
    frame = _frame(path)
    target, draft = (_numbers(path, frame, name) for name in (_TARGET, _DRAFT))
    try:
        overall = formulas.acceptance_from_log_probabilities(target, draft)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if _POSITION not in frame.columns:
        return overall.rate
    positions = _numbers(path, frame, _POSITION)
    places = np.unique(positions)
    if places.tolist() != list(range(1, places.size + 1)):
        raise InputError(
            f"{path}: {_POSITION} must be 1 for the first token of a draft, 2 for the second, and so on without gaps; "
            f"got {', '.join(f'{position:g}' for position in places[:8])}"
        )
    if longest is not None and longest > places.size:
        raise InputError(
            f"{path}: the acceptance of positions 1 to {places.size} is known, a draft of {longest} needs more"
        )
    alike = [positions == position for position in places[:longest]]
    return [formulas.acceptance_from_log_probabilities(target[rows], draft[rows]).rate for rows in alike]


def _frame(path: Path | str) -> pd.DataFrame:
    """Read a CSV file as a table of texts; raise InputError if a required column or line is missing."""
    import pandas as pd

    try:
        frame = pd.read_csv(io.StringIO(read_text(path)), dtype=str, keep_default_na=False, skipinitialspace=True)
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty; needed are the columns {_TARGET} and {_DRAFT}") from error
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from error
    missing = [name for name in (_TARGET, _DRAFT) if name not in frame.columns]
    if missing:
        raise InputError(
            f"{path}: no column {' and no column '.join(missing)}; needed are {_TARGET} and {_DRAFT}, "
            f"got {', '.join(map(str, frame.columns))}"
        )
    if frame.empty:
        raise InputError(f"{path}: no drafted tokens below the head of the table; give at least one line")
    return frame


def _numbers(path: Path | str, frame: pd.DataFrame, name: str) -> Array:
    values = []
    # Line 1 is the header.
    for line, text in enumerate(frame[name], start=2):
        try:
            values.append(float(text))
        except ValueError as error:
            raise InputError(f"{path}:{line}: {name} must be a number, got {text!r}") from error
    return np.array(values)


#: Latency and cost columns, each with the error statistic that applies to it.
_FOLLOWS: bounds.Follows = {
    **dict.fromkeys(("plain_ttft_seconds", "ttft_seconds"), ("ttft", 1)),
    **dict.fromkeys(("plain_tpot_seconds", "tpot_seconds"), ("tpot", 1)),
    **dict.fromkeys(
        ("plain_dollars_per_million_output_tokens", "dollars_per_million_output_tokens"), ("throughput", -1)
    ),
}


def chosen_speculation(speculated: Speculated) -> Speculation:
    """Return the speculation method that is compared with plain decoding."""
    assert speculated.speculating.speculation is not None
    return speculated.speculating.speculation
