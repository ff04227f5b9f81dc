"""Inputs that a sensitivity analysis varies, with their possible values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from inference_econ.answers.settings import setup_of
from inference_econ.engine import PROPOSERS, Setup
from inference_econ.errors import InputError
from inference_econ.inputs import Free, GroupedQueryAttention, Settings
from inference_econ.inputs.dtype import heads, nearest
from inference_econ.inputs.models import sizes
from inference_econ.studies.settings import number, with_numbers

#: Counts in a model that can be varied, with display names.
_COUNTS = {
    "layers": "layers",
    "query_heads": "query heads",
    "kv_heads": "KV heads",
    "experts": "experts",
    "active_experts": "active experts",
}
#: Largest common divisor that varied numbers of experts and of layers keep with the current number [1]. Experts and
#: layers can then be split over GPUs and pipeline stages.
_EXPERTS, _STAGES = 8, 4
#: Factor by which a count is varied if the range contains no other possible count [1].
_FAR = 2.0


@dataclass(frozen=True, slots=True)
class Input:
    """Input of a query that a sensitivity analysis can vary."""

    key: str
    """Name of the input in options and data."""
    label: str
    """Display name."""
    unit: str
    """Unit of the values, see :mod:`inference_econ.inputs.units`; empty for counts."""
    numbers: Mapping[str, float]
    """Values of all numbers that change together, by name; see :func:`inference_econ.studies.settings.number`.

    The first number is the displayed value of the input.
    """
    changes: tuple[str, ...] = ()
    """Additional changes (``hardware.FIELD=VALUE``) that apply whenever the input is varied."""
    whole: bool = False
    """True if the value must be an integer."""

    @property
    def value(self) -> float:
        """Current value of the input, in base units."""
        return next(iter(self.numbers.values()))

    def scaled(self, settings: Settings, ratio: float) -> Settings:
        """Return settings in which all numbers of the input are multiplied by ``ratio``."""
        if ratio == 1.0:
            return settings
        values = {name: value * ratio for name, value in self.numbers.items()}
        if self.whole:
            values = {name: float(round(value)) for name, value in values.items()}
        return with_numbers(settings.replace(changes=(*settings.changes, *self.changes)), values)


def inputs_of(settings: Settings) -> tuple[Input, ...]:
    """Common inputs of a query (GPU, network, host, price, requests, model), without inputs whose value is 0.

    Raises
    ------
    InputError
        If the query is invalid.
    """
    return tuple(candidate for candidate in _common(settings, setup_of(settings)) if candidate.value > 0.0)


def _input(
    settings: Settings, key: str, label: str, unit: str, *names: str, changes: tuple[str, ...] = (), whole: bool = False
) -> Input:
    """Create an input that varies some numbers of a query together."""
    return Input(key, label, unit, {name: number(settings, name) for name in names}, changes, whole)


def chosen(settings: Settings, keys: Sequence[str]) -> tuple[Input, ...]:
    """Select inputs of a query by key, or by the name of a number.

    Parameters
    ----------
    settings : Settings
        Settings of the query.
    keys : sequence of str
        Keys of :func:`inputs_of`, or names that :func:`inference_econ.studies.settings.number` accepts; empty for all
        common inputs.

    Raises
    ------
    InputError
        If an input is unknown, or has the value 0 and therefore no elasticity.
    """
    by_key = {candidate.key: candidate for candidate in inputs_of(settings)}
    wanted = []
    for key in dict.fromkeys(keys or by_key):
        if key not in by_key:
            try:
                value = number(settings, key)
            except InputError as error:
                raise InputError(
                    f"--input {key}: no input of this question; inputs: {', '.join(by_key)}; {error}", option="input"
                ) from error
            if value <= 0.0:
                raise InputError(
                    f"--input {key} is {value:g}: a percentage of it is not defined; compare values with 'compare'",
                    option="input",
                )
            by_key[key] = Input(key, key, "", {key: value}, whole=key.startswith("model.") and value == round(value))
        wanted.append(by_key[key])
    return tuple(wanted)


def _common(settings: Settings, setup: Setup) -> Iterator[Input]:
    """Yield the common inputs of the GPU, its network links, the host, the price, the requests and the model."""
    made, chip = partial(_input, settings), setup.hardware
    yield made("hbm_bandwidth", "HBM bandwidth", "B/s", "hardware.hbm_bytes_per_second")
    yield made("hbm_size", "HBM size", "B", "hardware.hbm_bytes")
    for unit in dict.fromkeys(map(setup.rates.unit, (*setup.precision.of_weights, setup.precision.activations))):
        # FP16 and BF16 have the same peak rate, so both peak rates change together.
        same = [unit, *({"bf16": ["fp16"], "fp16": ["bf16"]}.get(unit, []))]
        names = (f"hardware.dense_flops_per_second.{name}" for name in same if name in setup.peaks)
        changes = ("hardware.two_to_four_sparsity=false",)
        yield made(f"peak_{unit}", f"{unit} peak", "FLOP/s", *names, changes=changes)
    if chip.link_bytes_per_second_one_way is not None:
        ways = ("one_way", "both_ways") if chip.link_bytes_per_second_both_ways is not None else ("one_way",)
        names = (f"hardware.link_bytes_per_second_{way}" for way in ways)
        yield made("link_bandwidth", "link bandwidth", "B/s", *names)
    if chip.nic_bytes_per_second_one_way is not None:
        yield made("nic", "network bandwidth", "B/s", "hardware.nic_bytes_per_second_one_way")
    if not isinstance(setup.assumptions.network.collectives, Free):
        yield made("link_latency", "latency of collectives", "", "assumptions.network.latency_factor")
    host = setup.assumptions.host
    launches = {"graph_launch": host.graph_launch, "launch": host.launch}
    if launching := [f"assumptions.host.{name}" for name, seconds in launches.items() if seconds > 0.0]:
        yield made("launch", "launch time", "s", *launching)
    yield made("host_step", "CPU overhead per step", "s", "assumptions.host.step_overhead")
    yield made("price", "price", "USD/h", "price")
    if settings.context is not None:
        yield made("context", "context", "", "context")
    elif settings.traffic is None:
        yield made("isl", "input tokens", "", "isl")
        yield made("osl", "output tokens", "", "osl")
    if settings.cached:
        yield made("cached", "cached tokens", "", "cached")
    if any(getattr(settings, name) for name in PROPOSERS) and isinstance(settings.acceptance, (int, float)):
        yield made("acceptance", "acceptance", "", "acceptance")
    for key, label in _COUNTS.items():
        if sizes.model_value(setup.model, key) is not None:
            yield made(key, label, "", f"model.{key}", whole=True)


def ratios(varied: Input, setup: Setup, low: float, high: float, steps: int = 2) -> tuple[float, ...]:
    """Values of an input to evaluate, as ascending ratios to its current value; the ratio 1 is included.

    Parameters
    ----------
    varied : Input
        Input that is varied.
    setup : Setup
        Setup of the query; its model determines the possible counts.
    low, high : float
        Ends of the range, as ratios to the current value [1]; ``low`` is below 1 and ``high`` above 1.
    steps : int
        Number of values on each side of 1, in equal ratios [1].

    Returns
    -------
    tuple of float
        Ratios [1]. If the input is a count, only counts that the model could have are included. If the range has no
        possible count below or above the current count, the next possible count is included.
    """
    wanted = [end ** (step / steps) for end in (low, high) for step in range(1, steps + 1)]
    if not varied.whole:
        most = 1.0 / varied.value if varied.key == "acceptance" else math.inf
        return tuple(sorted({1.0, *(min(ratio, most) for ratio in wanted)}))
    now = varied.value
    counts = {_possible(varied.key, setup, now * ratio) for ratio in wanted}
    counts |= {_possible(varied.key, setup, now / _FAR)} if min(counts) >= now else set()
    counts |= {_possible(varied.key, setup, now * _FAR)} if max(counts) <= now else set()
    return tuple(sorted({count / now for count in (*counts, now)}))


def _possible(key: str, setup: Setup, wanted: float) -> float:
    """Number of layers, heads or experts that is nearest to ``wanted`` and that the model could have."""
    model, now = setup.model, sizes.model_value(setup.model, key)
    grouped = [block.attention for block in model.blocks if isinstance(block.attention, GroupedQueryAttention)]
    if key == "layers":
        return float(max(len(model.blocks), nearest(wanted, math.gcd(model.layers, _STAGES))))
    if key == "query_heads" and now is not None:
        return float(heads(now, max((float(spec.kv_heads) for spec in grouped), default=1.0), wanted / now))
    if key == "kv_heads":
        queries = round(min(spec.query_heads for spec in grouped))
        divisors = (count for count in range(1, queries + 1) if queries % count == 0)
        return float(min(divisors, key=lambda count: abs(math.log(count / wanted))))
    if key == "experts":
        groups = (spec.routing_groups or 1 for spec in model.mixtures)
        return float(nearest(wanted, math.lcm(*(math.gcd(spec.experts, _EXPERTS) for spec in model.mixtures), *groups)))
    return float(max(1, round(wanted)))
