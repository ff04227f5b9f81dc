"""What users see of a service against what it costs: the layouts and batches that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from inference_econ._shown import Shown
from inference_econ._types import Array, Indices
from inference_econ.answers.offer import offer
from inference_econ.answers.promised import check_mean, kept_states, means, why_none_is_kept
from inference_econ.answers.promises import Targets
from inference_econ.answers.slots import with_slots
from inference_econ.engine import Instances, Plans, Setup, Space, Speculation, bounds, recorded_key
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Requests, Traffic
from inference_econ.search import Choosable
from inference_econ.serving import Services

if TYPE_CHECKING:
    import pandas as pd

#: What is held against speed: dollars per million output tokens, or per million of input and output; tokens per second
#: of an accelerator, or of a megawatt.
Metric = Literal["cost", "blended", "throughput", "power"]
METRICS: tuple[Metric, ...] = ("cost", "blended", "throughput", "power")
_MEGAWATT = 1e6


@dataclass(frozen=True, slots=True)
class ServicePoint:
    """One service on a frontier: a layout with so many requests in flight all the time.

    Attributes
    ----------
    tokens_per_second_per_user : float
        One over the TPOT, prefill of others included [tokens/s].
    ttft_seconds, tpot_seconds, e2e_seconds, e2e_seconds_per_output_token : float
        Means, without a queue; to the last token, and that over the number of output tokens [s].
    dollars_per_million_output_tokens : float
        The whole bill over output tokens [USD per 1e6 tokens].
    dollars_per_million_tokens : float
        The same over input and output together [USD per 1e6 tokens].
    tokens_per_second_per_accelerator : float
        Output tokens [tokens/s].
    tokens_per_second_per_megawatt : float or None
        Output tokens over the power of the boards [tokens/s/MW]; None where the hardware file has no watts.
    requests_per_second, accelerators, concurrency, batch : float
        Of an instance: completed [1/s], its size, requests in flight, and those decoded together [1].
    layout : dict
        Degrees, and the engines that can start it.
    """

    tokens_per_second_per_user: float
    ttft_seconds: float
    tpot_seconds: float
    e2e_seconds: float
    e2e_seconds_per_output_token: float
    dollars_per_million_output_tokens: float
    dollars_per_million_tokens: float
    tokens_per_second_per_accelerator: float
    tokens_per_second_per_megawatt: float | None
    requests_per_second: float
    accelerators: float
    concurrency: float
    batch: float
    layout: Mapping[str, float | str]

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {"layout": dict(self.layout)}


@dataclass(frozen=True, slots=True, repr=False)
class ServiceFrontier(Shown, Choosable[ServicePoint]):
    """Steady states of services that no other one beats in both speed and cost, the slowest and cheapest first.

    All arrays have shape (n,). Cost and tokens per accelerator or megawatt order them alike: the price and the power of
    a chip are the same for all.

    Attributes
    ----------
    deployments : Services
        Where the points come from.
    plans : Plans
        Their layouts.
    tokens_per_second : ndarray
        Of a user: one over the TPOT, prefill of others included [tokens/s].
    ttft_seconds, tpot_seconds : ndarray
        Means, without a queue [s].
    requests_per_second, concurrency, batch : ndarray
        Completed by an instance [1/s]; in flight, and decoded together as one of them sees it [1].
    promises : Targets
        What every point keeps, as a mean and without a queue.
    """

    deployments: Services
    plans: Plans
    tokens_per_second: Array
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    concurrency: Array
    batch: Array
    promises: Targets

    def __len__(self) -> int:
        return self.batch.size

    @property
    def setup(self) -> Setup:
        """What, on what, how."""
        return self.deployments.setup

    @property
    def requests(self) -> Requests:
        """What users send."""
        return self.deployments.requests

    @property
    def speculation(self) -> Speculation | None:
        """Who proposes tokens, if anybody."""
        return self.deployments.speculation

    @property
    def accelerators(self) -> Array:
        """Of an instance [1]."""
        return self.plans.accelerators

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """The price of a chip [USD/h]."""
        return self.setup.dollars_per_accelerator_hour

    def axes(self) -> tuple[Array, Array]:
        """Speed of a user [tokens/s] and cost [USD per 1e6 output tokens] of every point, shape (n,) each."""
        return self.tokens_per_second, self.dollars

    @property
    def e2e_seconds(self) -> Array:
        """Time to the last token, a mean [s]."""
        return self.ttft_seconds + self.deployments.requests.decode_steps * self.tpot_seconds

    @property
    def e2e_seconds_per_output_token(self) -> Array:
        """The mean time to the last token over the mean number of output tokens [s]."""
        return self.e2e_seconds / self.deployments.requests.osl.mean

    @property
    def output_tokens_per_second(self) -> Array:
        """Of an instance [tokens/s]."""
        return self.requests_per_second * self.requests.osl.mean

    @property
    def dollars_per_million_tokens(self) -> Array:
        """Over input and output together [USD per 1e6 tokens]."""
        requests = self.requests
        return self.dollars * (requests.osl.mean / (requests.isl.mean + requests.osl.mean))

    @property
    def dollars(self) -> Array:
        """The whole bill, prefill included, over output tokens [USD per 1e6 tokens]."""
        return money.dollars_per_million_tokens(
            self.plans.accelerators,
            1.0,
            self.output_tokens_per_second,
            self.setup.dollars_per_accelerator_hour,
        )

    @property
    def tokens_per_second_per_accelerator(self) -> Array:
        """Output tokens [tokens/s]."""
        return np.asarray(self.output_tokens_per_second / self.plans.accelerators)

    @property
    def tokens_per_second_per_megawatt(self) -> Array | None:
        """Output tokens over the power of the boards [tokens/s/MW]; None where the hardware file has no watts."""
        watts = self.setup.hardware.watts
        return (
            None
            if watts is None
            else _MEGAWATT / money.joules_per_token(watts, self.plans.accelerators, self.output_tokens_per_second)
        )

    def subjects(self, points: Sequence[ServicePoint] | None = None) -> tuple[Instances]:
        """Every point as an instance that may be unlike what was measured, or some points of it."""
        shown, requests = self.points() if points is None else points, self.requests
        return (
            Instances(
                self.setup,
                [point.accelerators for point in shown],
                [point.concurrency for point in shown],
                requests.isl.mean,
                requests.osl.mean,
                speculates=self.speculation is not None,
                layouts=[recorded_key(point.layout) for point in shown],
            ),
        )

    def metric(self, name: Metric) -> Array:
        """What is held against speed [USD per 1e6 tokens], [tokens/s] or [tokens/s/MW].

        Raises
        ------
        InputError
            If it is power and the hardware file has no watts, or no metric.
        """
        if name not in METRICS:
            raise InputError(f"y: got {name!r}; allowed: {', '.join(METRICS)}")
        if name == "cost":
            return self.dollars
        if name == "blended":
            return self.dollars_per_million_tokens
        if name == "throughput":
            return self.tokens_per_second_per_accelerator
        value = self.tokens_per_second_per_megawatt
        if value is None:
            hardware = self.setup.hardware.name
            raise InputError(f"{hardware} lists no watts; give them, for example --set hardware.watts='700 W'")
        return value

    def columns(self) -> dict[str, Array | None]:
        """Every number of a point, by its name; see :class:`ServicePoint`."""
        return {
            "tokens_per_second_per_user": self.tokens_per_second,
            "ttft_seconds": self.ttft_seconds,
            "tpot_seconds": self.tpot_seconds,
            "e2e_seconds": self.e2e_seconds,
            "e2e_seconds_per_output_token": self.e2e_seconds_per_output_token,
            "dollars_per_million_output_tokens": self.dollars,
            "dollars_per_million_tokens": self.dollars_per_million_tokens,
            "tokens_per_second_per_accelerator": self.tokens_per_second_per_accelerator,
            "tokens_per_second_per_megawatt": self.tokens_per_second_per_megawatt,
            "requests_per_second": self.requests_per_second,
            "accelerators": self.accelerators,
            "concurrency": self.concurrency,
            "batch": self.batch,
        }

    def points(self, chosen: Sequence[int] | None = None) -> list[ServicePoint]:
        """Every point with its layout, the fastest last; or some of them, by position."""
        at = np.arange(len(self)) if chosen is None else np.asarray(chosen, dtype=np.intp)
        columns = {name: values for name, values in self.columns().items() if values is not None}
        rows = zip(*(values[at].tolist() for values in columns.values()), strict=True)
        known = [{"tokens_per_second_per_megawatt": None, **dict(zip(columns, row, strict=True))} for row in rows]
        return [ServicePoint(**row, layout=layout) for row, layout in zip(known, self._layouts(at), strict=True)]

    def plan(self, index: int) -> Plans:
        """The layout of a point, of shape (1,)."""
        return self._plans(np.array([index]))

    def _plans(self, at: Indices) -> Plans:
        return replace(self.plans.at((at,)), batch=self.batch[at])

    def _layouts(self, at: Indices) -> list[dict[str, float | str]]:
        """The degrees of some points, under the names that people use."""
        cut = self.setup.assumptions.layout.tensor_layouts[0]
        columns = self.setup.layout_columns(self._plans(at), np.full(at.size, cut))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """All points as a table, one row each, with low and high beside what is uncertain."""
        import pandas as pd

        factors = self.ends()
        rows = [(bounds.bounded(point.record(), factors), point.layout) for point in self.points()]
        return pd.DataFrame([{**row, **layout} for row, layout in rows]).drop(columns="layout")

    def ends(self) -> bounds.Ends:
        """Factors from columns to where measured values of any point probably lie [1]."""
        (instances,) = self.subjects()
        return bounds.ends(instances, bounds.FULL)


def frontier(
    setup: Setup,
    traffic: Traffic | Requests,
    space: Space | None = None,
    *,
    speculation: Speculation | None = None,
    promises: Targets | None = None,
    slots: int | None = None,
) -> ServiceFrontier:
    """The cost-speed frontier of services: continuous batching with the prefill of its requests.

    Parameters
    ----------
    setup : Setup
        What is served, on what, how (``inference_econ.frontier``).
    traffic : Traffic or Requests
        Lengths; with cached and shared tokens as requests.
    space : Space, optional
        Which instances are tried; by default every whole-number one.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.
    promises : Targets, optional
        Points whose mean TTFT or TPOT is longer are left out; of the percentile ``mean``.
    slots : int, optional
        Requests in flight of an instance at most [1].

    Returns
    -------
    ServiceFrontier
        Slowest and cheapest point first.

    Raises
    ------
    InputError
        If nobody knows the price, the traffic is one of decode steps alone, or something else cannot be used.
    NothingFitsError
        If no layout fits, or none keeps the promises, with the least that would have to be promised.

    Examples
    --------
    >>> from inference_econ.engine import Setup, Space
    >>> front = frontier(Setup.of("llama_3_8b", "h100_sxm"), Traffic(isl=1000, osl=200), Space(max_accelerators=2))
    >>> front.fastest().accelerators
    2.0
    """
    layouts = offer(setup, requests_of(traffic), space, speculation)
    return service_frontier(layouts if slots is None else with_slots(layouts, slots), promises)


def requests_of(traffic: Traffic | Requests) -> Requests:
    """Requests of the lengths of a traffic.

    Raises
    ------
    InputError
        If it has a context or a demand: both are of decode steps.
    """
    if isinstance(traffic, Requests):
        return traffic
    if traffic.context is not None:
        raise InputError("a context is that of decode steps alone (decode_frontier); services need isl and osl")
    if traffic.max_tokens_per_second is not None:
        raise InputError("max_tokens_per_second is a demand for decode steps alone (decode_frontier); leave it out")
    return Requests.build({"isl": traffic.isl, "osl": traffic.osl}, origin="traffic")


def service_frontier(layouts: Services, promises: Targets | None = None) -> ServiceFrontier:
    """The frontier over all layouts and batches of an offer, each in the steady state of continuous batching.

    Parameters
    ----------
    layouts : Services
        What a model on a chip can offer (:func:`inference_econ.answers.offer.offer`).
    promises : Targets, optional
        Points whose mean TTFT or TPOT is longer are left out; of the percentile ``mean``.

    Returns
    -------
    ServiceFrontier
        Exact for the layouts and batches.

    Raises
    ------
    InputError
        If answers have a single token, which comes with the prompt: there is no speed then; or if something else than
        means is promised.
    NothingFitsError
        If no point keeps the promises, with the least that would have to be promised.
    """
    if not layouts.requests.decode_steps > 0:
        raise InputError(f"osl must be more than 1 token for a speed, got {layouts.requests.osl.mean:g}")
    promised = check_mean(promises)
    states = layouts.states
    seen = means(states, layouts.requests)
    kept = kept_states(seen, promised)
    if not kept.any():
        raise NothingFitsError(why_none_is_kept(layouts.setup, seen, promised))
    chips = layouts.plans.accelerators[:, None] / states.requests_per_second
    among = np.flatnonzero(kept.ravel())
    best = among[pareto.undominated(states.tpot_seconds.ravel()[among], chips.ravel()[among])[::-1]]
    rows, columns = np.unravel_index(best, chips.shape)
    at = (rows, columns)
    return ServiceFrontier(
        layouts,
        layouts.plans.at((rows,)),
        states.tokens_per_second[at],
        states.ttft_seconds[at],
        states.tpot_seconds[at],
        states.requests_per_second[at],
        states.concurrency[at],
        np.broadcast_to(states.batch, chips.shape)[at],
        promised,
    )
