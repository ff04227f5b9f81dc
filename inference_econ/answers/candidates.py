"""Ways to serve a model on a chip: an engine under its profile, with its recipe, together or apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.answers.disaggregated.steady import SteadyPools
from inference_econ.answers.power import instance_watts
from inference_econ.answers.promises import NAMES, Targets, kept_states
from inference_econ.engine import Instances, Plans, Setup, Speculation, layout_keys
from inference_econ.formulas import money
from inference_econ.inputs import Requests
from inference_econ.serving import Services


class Seen(NamedTuple):
    """Latencies and rates that users see of the layouts of a candidate at some batches; arrays of shape (n, k)."""

    tpot_seconds: Array
    """Mean time per output token after the first [s]; NaN where there is no such state."""
    requests_per_second: Array
    """Completed by what is deployed together [1/s]."""
    accelerators: Array
    """Of what is deployed together: an instance, or instances that read prompts and instances that decode [1]."""
    concurrency: Array
    """Requests in flight in it [1]."""
    batch: Array
    """Decoded together by an instance, as one of them sees it [1]."""


def engine_of(setup: Setup) -> str:
    """The engine that serves, with its version; empty where several can, or any layout is offered."""
    return setup.engines[0].label if len(setup.engines) == 1 else ""


def practice_of(setup: Setup, speculation: Speculation | None) -> str:
    """Recipe in words, as far as it differs from others: the format of the cache, and who proposes how many tokens."""
    proposer = "" if speculation is None else f", {speculation.proposer.upper()} {speculation.longest}"
    return f"{setup.precision.kv} cache{proposer}"


def label_of(setup: Setup, speculation: Speculation | None, *, apart: bool) -> str:
    """Who serves, and how, in words."""
    pools = ", apart" if apart else ""
    return f"{engine_of(setup) or setup.assumptions.name} ({practice_of(setup, speculation)}{pools})"


@dataclass(frozen=True)
class Candidate:
    """One way to serve: the layouts of an engine with a recipe, as instances that do both or as two pools.

    Attributes
    ----------
    services : Services
        The layouts that do both, or those that decode.
    pools : SteadyPools or None
        Instances that read prompts beside those that decode; None where instances do both.
    """

    services: Services
    pools: SteadyPools | None = None

    def __len__(self) -> int:
        return len(self.services)

    @property
    def setup(self) -> Setup:
        """Model, chip and formats."""
        return self.services.setup

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of both pools where their chips differ; else the setup alone."""
        if self.pools is None or not self.pools.pools.prefill_chip:
            return [self.setup]
        return [self.pools.pools.prefill.setup, self.setup]

    @property
    def requests(self) -> Requests:
        """Requests of users."""
        return self.services.requests

    @property
    def speculation(self) -> Speculation | None:
        """Who proposes tokens, if anybody."""
        return self.services.speculation

    @property
    def plans(self) -> Plans:
        """The layouts that do both, or that decode; arrays of shape (n,)."""
        return self.services.plans

    @property
    def engine(self) -> str:
        """The engine with its version; empty where several can, or any layout is offered."""
        return engine_of(self.setup)

    @property
    def label(self) -> str:
        """Who serves, and how, in words."""
        return label_of(self.setup, self.speculation, apart=self.pools is not None)

    @property
    def practice(self) -> str:
        """Recipe in words, as far as it differs from others: the format of the cache, and who proposes tokens."""
        return practice_of(self.setup, self.speculation)

    @cached_property
    def seen(self) -> Seen:
        """Latencies and rates of every layout at every batch."""
        if self.pools is not None:
            return Seen(*self.pools.seen)
        states, shape = self.services.states, self.services.states.ttft_seconds.shape
        return Seen(
            states.tpot_seconds,
            states.requests_per_second,
            np.broadcast_to(self.plans.accelerators[:, None], shape),
            states.concurrency,
            np.broadcast_to(states.batch, shape),
        )

    def ttft_seconds(self, rows: Indices, columns: Indices) -> Array:
        """Mean time to first token of some states [s]."""
        if self.pools is not None:
            return self.pools.ttft_seconds(rows, columns)
        return np.asarray(self.services.states.ttft_seconds[rows, columns])

    @property
    def paid_chips(self) -> Array:
        """Chips of the setup that cost as much as what is deployed together, shape (n, k) [1]: all, if of one kind."""
        return self.seen.accelerators if self.pools is None else self.pools.paid_chips

    @cached_property
    def dollars(self) -> Array:
        """The whole bill over output tokens at every batch, shape (n, k) [USD per 1e6 tokens]."""
        rate = self.seen.requests_per_second * self.requests.osl.mean
        return money.dollars_per_million_tokens(self.paid_chips, 1.0, rate, self.setup.dollars_per_accelerator_hour)

    @cached_property
    def _waits(self) -> Array:
        """Mean time to first token of every state, shape (n, k) [s]; of pools a queue each."""
        rows, columns = np.indices(self.seen.tpot_seconds.shape)
        return self.ttft_seconds(rows.ravel(), columns.ravel()).reshape(rows.shape)

    def kept_dollars(self, promises: Targets) -> Array:
        """:attr:`dollars` of the states that keep some promises as a mean, NaN of others, shape (n, k)."""
        return np.where(kept_states(self.means(promises.given), promises), self.dollars, np.nan)

    def means(self, promised: Collection[str] = NAMES) -> dict[str, Array]:
        """Mean latencies by name as in promises, TPOT and those that are promised; shape (n, k) each [s]."""
        tpot = self.seen.tpot_seconds
        times = {"tpot": tpot}
        if {"ttft", "e2e"} & set(promised):
            times |= {"ttft": self._waits, "e2e": self._waits + self.requests.decode_steps * tpot}
        return {name: times[name] for name in NAMES if name == "tpot" or name in promised}

    def layouts(self, rows: Indices, columns: Indices) -> list[dict[str, float | str]]:
        """The degrees of some layouts at some batches, under the names that people use; of pools those that decode.

        With the engine, and of pools how many instances of which layout read prompts for how many that decode.
        """
        records = _degrees(self.setup, self.plans, rows)
        if self.pools is None:
            return records
        reading, prefill = self.pools.reading_rows(rows, columns), self.pools.pools.prefill
        readers = [prefill.layouts[row] for row in reading.tolist()]
        counts = self.pools.instances_at(rows, columns)
        return [
            {
                **record,
                "prefill": reader,
                **self.pools.pools.prefill_chip,
                "prefill_instances": round(prefilling),
                "decode_instances": round(decoding),
            }
            for record, reader, (prefilling, decoding) in zip(records, readers, counts, strict=True)
        ]

    def decoders(self, rows: Indices, columns: Indices) -> Array | float:
        """Instances that decode of what is deployed together, of some states [1]."""
        if self.pools is None:
            return 1.0
        return np.array([max(decoders, 1) for _, decoders in self.pools.instances_at(rows, columns)], dtype=float)

    @cached_property
    def all_decoders(self) -> Array:
        """Instances that decode, of every layout at every batch, shape (n, k) [1]."""
        rows, columns = np.indices(self.seen.tpot_seconds.shape)
        decoders = self.decoders(rows.ravel(), columns.ravel())
        return np.broadcast_to(decoders, rows.size).reshape(rows.shape)

    def board_watts(self, rows: Indices, columns: Indices, batch: Array, requests_per_second: Array) -> Array | None:
        """Power of all boards of what is deployed together, of some states [W]; None without watts in the file."""
        if self.pools is None:
            return instance_watts(self.services, rows, batch, requests_per_second)
        counts = np.array(self.pools.instances_at(rows, columns), dtype=float).T
        sides = self.pools.pools.prefill.services, self.services
        drawn: list[Array] = []
        for side, chosen, count in zip(sides, (self.pools.reading_rows(rows, columns), rows), counts, strict=True):
            reads = side is not self.services
            watts = instance_watts(side, chosen, batch, requests_per_second / count, reads=reads, decodes=not reads)
            if watts is None:
                return None
            drawn.append(count * watts)
        return drawn[0] + drawn[1]

    def keys(self, rows: Indices) -> list[str]:
        """Names of some layouts, see :func:`inference_econ.engine.layout_key`."""
        return layout_keys(self.plans.at((rows,)), self.setup.assumptions.layout)

    @cached_property
    def measured_rows(self) -> npt.NDArray[np.bool_]:
        """Layouts that some measured server had, served so, shape (n,)."""
        layouts = self.keys(np.arange(len(self)))
        return np.array(Instances(self.setup, speculates=self.speculation is not None, layouts=layouts).measured)


def _degrees(setup: Setup, plans: Plans, rows: Indices) -> list[dict[str, float | str]]:
    cut = setup.assumptions.layout.tensor_layouts[0]
    columns = setup.layout_columns(plans.at((rows,)), np.full(rows.size, cut))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
