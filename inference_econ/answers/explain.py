"""Take one step of one deployment apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from inference_econ.answers.frontier import ask
from inference_econ.engine import economics, memory
from inference_econ.engine.layouts import plans
from inference_econ.engine.layouts.degrees import layout_record
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.operator_costs import OperatorCosts, operator_costs
from inference_econ.engine.setup import Setup
from inference_econ.engine.step import StepCosts, evaluate, mfu
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money
from inference_econ.inputs import profiles
from inference_econ.inputs.assumptions import Assumptions, TensorLayout
from inference_econ.inputs.catalog import Name
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.search.every_plan import no_room

#: Larger degrees and batches are typing errors [1].
_MOST = 1e9
#: Context of a decode step if none is given [tokens].
_CONTEXT = 2000.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """One step of one deployment, taken apart.

    Attributes
    ----------
    setup : Setup
        What, on what, how.
    layout : dict
        Degrees under the names that people use.
    batch : float
        Sequences decoded together [1].
    costs : StepCosts
        Seconds by part, arrays of shape (1,).
    memory : Memory
        What is needed and available [B].
    dollars : float or None
        Cost [USD per 1e6 tokens]; None without a price.
    operators : tuple of OperatorCosts
        The operator table, row by row.
    held : dict
        What takes the memory of each accelerator; the entries add up to what it has [B].
    prompt : float or None
        Prompt tokens of each sequence that the step reads [tokens]; None for a decode step.
    """

    setup: Setup
    layout: Mapping[str, float | str]
    batch: float
    costs: StepCosts
    memory: memory.Memory
    dollars: float | None
    operators: tuple[OperatorCosts, ...]
    held: Mapping[str, float]
    prompt: float | None = None

    @property
    def accelerators(self) -> float:
        """Chips of the deployment [1]."""
        return float(self.layout["stage"]) * float(self.layout["pp"])

    @property
    def seconds(self) -> float:
        """Time of the step [s]."""
        return float(self.costs.seconds[0])

    @property
    def tokens_per_second(self) -> float:
        """Speed of one user: output tokens in decode, prompt tokens in prefill [tokens/s]."""
        return (self.prompt or 1.0) / self.seconds

    @property
    def limited_by(self) -> str:
        """The largest part of the step."""
        return max(self.costs.parts, key=lambda name: float(self.costs.parts[name][0]))

    @property
    def mfu(self) -> float:
        """Useful arithmetic over the theoretical peak [1]."""
        return float(mfu(self.setup, self.accelerators, self.batch, self.seconds, prompt=self.prompt))

    @property
    def title(self) -> str:
        """Model and hardware in one line."""
        phase = "decode" if self.prompt is None else "prefill"
        return f"One {phase} step of {self.setup.model.name} on {self.accelerators:g} x {self.setup.hardware.name}"


def explain(
    model: ModelSpec | Name,
    hardware: HardwareSpec | Name,
    *,
    tp: int,
    dp: int = 1,
    pp: int = 1,
    ep: int | None = None,
    batch: float = 1,
    context: float | None = None,
    prompt: float | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    cut: TensorLayout = "1d",
    assumptions: Assumptions | Name | None = None,
    price: float | None = None,
) -> Explanation:
    """Take one step of one deployment apart: of decode, or of prefill.

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    tp, dp, pp : int
        Accelerators that share the attention weights, groups of them with sequences of their own, and pipeline
        stages; a stage has tp * dp accelerators [1].
    ep : int, optional
        Expert-parallel ranks of a stage [1]; as many as possible if not given.
    batch : float
        Sequences worked on together [1].
    context : float, optional
        Tokens in the cache of each sequence before the step [tokens]: 2000 for decode, none for prefill.
    prompt : float, optional
        Explain a prefill step that reads so many further tokens of each sequence [tokens].
    weights, activations, kv : str, optional
        Number formats.
    cut : {'1d', '2d'}
        How weight matrices are cut.
    assumptions : Assumptions, name or path, optional
        Opinions; by default the profile of the chip's generation (:func:`inference_econ.inputs.profiles.assumed`).
    price : float, optional
        Of one accelerator [USD/h]; by default the first of its file, if there is one.

    Returns
    -------
    Explanation
        With the costs of the step and the memory it needs.

    Raises
    ------
    InputError
        If a degree does not divide what it must, or a name or number cannot be used.
    NothingFitsError
        If the deployment does not fit in memory.
    """
    if prompt is not None and not 1 <= prompt <= _MOST:
        raise InputError(f"the prompt must be from 1 to {_MOST:g} tokens, got {prompt:g}")
    if context is None:
        context = _CONTEXT if prompt is None else 0.0
    opinions = profiles.assumed(assumptions, hardware)
    setup = ask(model, hardware, context, assumptions=opinions, weights=weights, activations=activations, kv=kv)
    Pins(tp, dp, pp, ep, batch)  # which refuses what is no degree
    if cut not in ("1d", "2d"):
        raise InputError(f"cut: got {cut!r}; allowed: 1d, 2d")
    rate = None if price is None and not setup.hardware.prices else economics.rate(setup.hardware, price)
    deployment = _deployment(setup, tp, dp, pp, ep, batch)
    if prompt is not None:
        deployment = replace(deployment, new_tokens=prompt, prefill=True)
    _check_divisible(setup, deployment, cut)
    needed = setup.memory(deployment)
    code = int(np.ravel(setup.reasons(deployment, cut))[0])
    if code != memory.FITS:
        raise NothingFitsError(_does_not_fit(setup, needed, code, tp * dp * pp))
    costs = evaluate(setup, deployment, cut)
    dollars = None
    if rate is not None:
        per_token = float(costs.seconds[0]) / (prompt or 1.0)
        dollars = float(money.dollars_per_million_tokens(tp * dp * pp, per_token, batch, rate))
    layout = layout_record(deployment, cut, setup.assumptions.layout)
    rows = tuple(operator_costs(setup, deployment, cut))
    held = setup.memory_of_one_accelerator(deployment)
    return Explanation(setup, layout, float(batch), costs, needed, dollars, rows, held, prompt)


def _deployment(setup: Setup, tp: int, dp: int, pp: int, ep: int | None, batch: float) -> plans.Plans:
    spread = 1 if not plans.has_experts(setup.model) else ep
    if spread is None:
        experts = min(
            block.feed_forward.experts for block in setup.model.blocks if block.feed_forward.kind == "experts"
        )
        stage = tp * dp
        spread = max(ranks for ranks in range(1, min(stage, experts) + 1) if stage % ranks == experts % ranks == 0)
    elif ep is not None and ep > 1 and not plans.has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {ep}")
    one = np.ones(1)
    return plans.Plans(one * tp * dp * pp, one * batch, one * pp, one * tp, one * spread, whole=True)


def _check_divisible(setup: Setup, deployment: plans.Plans, cut: TensorLayout) -> None:
    blocks = setup.precision.blocks
    for problem in plans.indivisible(setup.model, deployment, cut, setup.assumptions, blocks):
        if np.any(problem.where):
            degrees = f"tp={deployment.attention_ranks[0]:g}, pp={deployment.pp[0]:g}, batch={deployment.batch[0]:g}"
            if deployment.ep is not None and plans.has_experts(setup.model):
                degrees += f", ep={deployment.ep[0]:g}"
            raise InputError(f"{setup.model.name}: {problem.text} ({degrees})")


def _does_not_fit(setup: Setup, needed: memory.Memory, code: int, accelerators: int) -> str:
    weights, cache, available = needed.of_one_plan()
    message = f"{setup.model.name} on {accelerators} x {setup.hardware.name}: {memory.REASONS[code]}"
    if code in (memory.WEIGHTS, memory.CACHE) and available <= 0:
        message += f". {no_room(setup, needed, accelerators)}"
    elif code in (memory.WEIGHTS, memory.CACHE):
        smallest = int(np.ceil((weights + cache) / (available / accelerators)))
        message += (
            f": {weights / 1e9:.1f} GB of weights and {cache / 1e9:.1f} GB of KV "
            f"cache > {available / 1e9:.1f} GB; at least {smallest} accelerators would do"
        )
    return message
