"""What every layout of an answer costs at every speed, between the batches that were calculated as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.answers.promised import kept_states, means
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.formulas import money, pareto

#: Chips, pipeline stages, chips that share attention, expert-parallel ranks [1]: what tells layouts apart.
LayoutKey = tuple[float, float, float, float]


class Best(NamedTuple):
    """The cheapest deployment of a speed; NaN and None where nothing is as fast."""

    dollars: float = np.nan
    """[USD per 1e6 output tokens]"""
    layout: LayoutKey | None = None
    """Which layout."""
    concurrency: float = np.nan
    """Requests in flight of an instance [1]."""


@dataclass(frozen=True, slots=True)
class Held:
    """One deployment, whatever happens around it; numbers are NaN where it cannot be.

    Attributes
    ----------
    tokens_per_second, dollars, ttft_seconds : float
        Of a user [tokens/s], cost [USD per 1e6 output tokens], and mean time to the first token [s].
    """

    tokens_per_second: float = np.nan
    dollars: float = np.nan
    ttft_seconds: float = np.nan

    def seconds(self, promise: str, decode_steps: float) -> float:
        """What users wait for, of ``ttft``, ``tpot`` and ``e2e``, with so many tokens after the first [1], [s]."""
        tpot = 1.0 / self.tokens_per_second
        return {"ttft": self.ttft_seconds, "tpot": tpot, "e2e": self.ttft_seconds + decode_steps * tpot}[promise]


@dataclass(frozen=True)
class LayoutCurves:
    """Cost over speed of all layouts of a frontier of services.

    States are calculated for some batches of each layout, in equal ratios. Between two of them, cost is taken as a
    power of speed: the mean number of requests in flight can be any, and steady states are read between batches in the
    same way (:meth:`inference_econ.serving.steady.Steady.at`). Between layouts nothing is interpolated.
    """

    front: ServiceFrontier

    @cached_property
    def _dollars(self) -> Array:
        services = self.front.deployments
        rate = services.states.requests_per_second * services.requests.osl.mean
        price = services.setup.dollars_per_accelerator_hour
        cost = money.dollars_per_million_tokens(services.plans.accelerators[:, None], 1.0, rate, price)
        seen = means(services.states, services.requests)
        return np.where(kept_states(seen, self.front.promises), cost, np.nan)

    @cached_property
    def keys(self) -> list[LayoutKey]:
        """What tells the layouts apart."""
        plans = self.front.deployments.plans
        columns = (plans.accelerators, plans.pp, plans.attention_ranks, np.ones(1) if plans.ep is None else plans.ep)
        return list(zip(*(np.broadcast_to(column, plans.shape).tolist() for column in columns), strict=True))

    def cheapest(self, speed: float, layout: LayoutKey | None = None) -> Best:
        """The least cost of a speed of a user, at least [tokens/s]; of all layouts, or of one.

        Where all states of a layout are faster, its cheapest one counts; between two states, what is between them.
        """
        rows, states = self._rows(layout), self.front.deployments.states
        speeds, flights, costs = states.tokens_per_second[rows], states.concurrency[rows], self._dollars[rows]
        cheapest = pareto.least_from(speeds, costs, speed)
        if cheapest is None:
            return Best()
        dollars, row, column = cheapest
        flight = np.hstack([flights, pareto.crossed(speeds, flights, speed)])[row, column]
        return Best(dollars, self.keys[rows[row]], float(flight))

    def fastest(self, dollars: float) -> float:
        """The highest speed of a user at a cost [USD per 1e6 output tokens], [tokens/s]; NaN if nothing is so cheap."""
        speeds, costs = self.front.deployments.states.tokens_per_second, self._dollars
        whole, between = np.where(costs <= dollars, speeds, np.nan), pareto.crossed(costs, speeds, dollars)
        best = [values[np.isfinite(values)].max(initial=-np.inf) for values in (whole, between)]
        return float(max(best)) if max(best) > 0.0 else np.nan

    def deployment(self, layout: LayoutKey, concurrency: float) -> ServiceFrontier | None:
        """A layout with so many requests in flight [1], as a frontier of this point; None where these do not fit."""
        services, rows = self.front.deployments, self._rows(layout)
        # A batch of the last state is the last one by definition, not by its last digit.
        if not rows.size or concurrency > services.states.concurrency[rows[0]].max() * (1.0 + 1e-9):
            return None
        state = services.states.take(int(rows[0])).at(np.array([concurrency]))
        seen = (state.tokens_per_second, state.ttft_seconds, state.tpot_seconds, state.requests_per_second)
        plans = services.plans.at((rows,))
        return ServiceFrontier(services, plans, *seen, state.concurrency, state.batch, self.front.promises)

    def held(self, layout: LayoutKey, concurrency: float) -> Held:
        """What users of such a deployment see, and what it costs."""
        point = self.deployment(layout, concurrency)
        if point is None:
            return Held()
        return Held(*(float(values[0]) for values in (point.tokens_per_second, point.dollars, point.ttft_seconds)))

    def record(self, layout: LayoutKey) -> Mapping[str, float | str]:
        """The degrees of a layout under the names that people use, and the engines that can start it."""
        services = self.front.deployments
        cut = services.setup.assumptions.layout.tensor_layouts[0]
        return services.setup.layout_record(services.plans.at((self._rows(layout),)), cut)

    def _rows(self, layout: LayoutKey | None) -> npt.NDArray[np.intp]:
        return np.array([row for row, key in enumerate(self.keys) if layout in (None, key)], dtype=np.intp)
