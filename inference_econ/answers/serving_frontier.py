"""What users see of a service against what it costs: the layouts and batches that nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from inference_econ.engine import Instances, Plans, layout_keys
from inference_econ.errors import InputError
from inference_econ.formulas import money, pareto
from inference_econ.serving import Services

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
#: What is held against speed: dollars per million tokens, tokens per second of an accelerator, or of a megawatt.
Metric = Literal["cost", "throughput", "power"]
METRICS: tuple[Metric, ...] = ("cost", "throughput", "power")
_MEGAWATT = 1e6


@dataclass(frozen=True, slots=True)
class ServiceFrontier:
    """Steady states of services that no other one beats in both speed and cost, the slowest and cheapest first.

    All arrays have shape (n,). Cost and tokens per accelerator or megawatt order them alike: the price and the power of
    a chip are the same for all.

    Attributes
    ----------
    deployments : Services
        Where the points come from.
    plans : Plans
        Their layouts.
    tokens_per_second_per_user : ndarray
        One over the TPOT, prefill of others included [tokens/s].
    ttft_seconds, tpot_seconds : ndarray
        Means [s].
    requests_per_second, concurrency, batch : ndarray
        Completed by an instance [1/s]; in flight, and decoded together as one of them sees it [1].
    """

    deployments: Services
    plans: Plans
    tokens_per_second_per_user: Array
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    concurrency: Array
    batch: Array

    def __len__(self) -> int:
        return self.batch.size

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
        return self.requests_per_second * self.deployments.requests.osl.mean

    @property
    def dollars_per_million_tokens(self) -> Array:
        """Over input and output together [USD per 1e6 tokens]."""
        requests = self.deployments.requests
        return self.dollars_per_million_output_tokens * (requests.osl.mean / (requests.isl.mean + requests.osl.mean))

    @property
    def dollars_per_million_output_tokens(self) -> Array:
        """The whole bill over output tokens [USD per 1e6 tokens]."""
        return money.dollars_per_million_tokens(
            self.plans.accelerators,
            1.0,
            self.output_tokens_per_second,
            self.deployments.setup.dollars_per_accelerator_hour,
        )

    @property
    def tokens_per_second_per_accelerator(self) -> Array:
        """Output tokens [tokens/s]."""
        return np.asarray(self.output_tokens_per_second / self.plans.accelerators)

    @property
    def tokens_per_second_per_megawatt(self) -> Array | None:
        """Output tokens over the power of the boards [tokens/s/MW]; None where the hardware file has no watts."""
        watts = self.deployments.setup.hardware.watts
        return (
            None
            if watts is None
            else _MEGAWATT / money.joules_per_token(watts, self.plans.accelerators, self.output_tokens_per_second)
        )

    def subjects(self, chosen: Sequence[int] | None = None) -> tuple[Instances]:
        """Every point as an instance that may be unlike what was measured, or some of them, by position."""
        at = np.arange(len(self)) if chosen is None else np.asarray(chosen)
        requests = self.deployments.requests
        return (
            Instances(
                self.deployments.setup,
                self.plans.accelerators[at].tolist(),
                self.concurrency[at].tolist(),
                requests.isl.mean,
                requests.osl.mean,
                speculates=self.deployments.speculation is not None,
                layouts=np.array(layout_keys(self.plans, self.deployments.setup.assumptions.layout))[at].tolist(),
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
            return self.dollars_per_million_tokens
        if name == "throughput":
            return self.tokens_per_second_per_accelerator
        value = self.tokens_per_second_per_megawatt
        if value is None:
            hardware = self.deployments.setup.hardware.name
            raise InputError(f"{hardware} lists no watts; give them, for example --set hardware.watts='700 W'")
        return value

    def columns(self) -> dict[str, Array | None]:
        """Every number of a point, by its name."""
        return {
            "tokens_per_second_per_user": self.tokens_per_second_per_user,
            "ttft_seconds": self.ttft_seconds,
            "tpot_seconds": self.tpot_seconds,
            "e2e_seconds": self.e2e_seconds,
            "e2e_seconds_per_output_token": self.e2e_seconds_per_output_token,
            "dollars_per_million_tokens": self.dollars_per_million_tokens,
            "dollars_per_million_output_tokens": self.dollars_per_million_output_tokens,
            "tokens_per_second_per_accelerator": self.tokens_per_second_per_accelerator,
            "tokens_per_second_per_megawatt": self.tokens_per_second_per_megawatt,
            "requests_per_second": self.requests_per_second,
            "accelerators": self.plans.accelerators,
            "concurrency": self.concurrency,
            "batch": self.batch,
        }

    def plan(self, index: int) -> Plans:
        """The layout of a point, of shape (1,)."""
        return replace(self.plans.at((np.array([index]),)), batch=self.batch[index : index + 1])

    def to_frame(self) -> pd.DataFrame:
        """All points as a table, one row each."""
        import pandas as pd

        return pd.DataFrame(self.columns())


def service_frontier(layouts: Services) -> ServiceFrontier:
    """The frontier over all layouts and batches of an offer, each in the steady state of continuous batching.

    Parameters
    ----------
    layouts : Services
        What a model on a chip can offer (:func:`inference_econ.answers.offer.offer`).

    Returns
    -------
    ServiceFrontier
        Exact for the layouts and batches.

    Raises
    ------
    InputError
        If answers have a single token, which comes with the prompt: there is no speed then.
    """
    if not layouts.requests.decode_steps > 0:
        raise InputError(f"osl must be more than 1 token for a speed, got {layouts.requests.osl.mean:g}")
    states = layouts.states
    chips = layouts.plans.accelerators[:, None] / states.requests_per_second
    best = pareto.undominated(states.tpot_seconds.ravel(), chips.ravel())[::-1]
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
    )
