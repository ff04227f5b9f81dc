"""Loss of a rule that picks the processes of a chain by prompt and link against the best choice."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from inference_econ.formulas import kv_runahead as formulas
from inference_econ.formulas.kv_runahead import LayerWork, Machine
from inference_econ.inputs import BYTES_PER_ELEMENT, ChainReading, ModelSpec
from inference_econ.studies.kv_runahead import layer_work

#: Lengths [tokens] and a bandwidth [B/s] at which the rule of the summary's section 7.2 turns.
_SHORT, _MIDDLE, _LONG, _SLOW = 1000, 4000, 8000, 1e9

#: Times with a smaller quotient are alike [1].
_AS_FAST = 1.01


def picked(prompt: float, link: float) -> int:
    """Pick of the rule of the summary's section 7.2: 0 for a single process, 1 for two, 2 for many.

    Parameters
    ----------
    prompt : float
        Prompt [tokens].
    link : float
        From a process to the next, one way [B/s].

    Examples
    --------
    >>> picked(500, 1e10), picked(2000, 5e8), picked(2000, 1e10), picked(16384, 1e8)
    (0, 0, 1, 2)
    """
    if prompt < _SHORT or (prompt < _MIDDLE and link < _SLOW):
        return 0
    return 1 if prompt < _LONG else 2


def of_a_chain(reading: ChainReading, model: ModelSpec, rate: float | None = None) -> float:
    """A number of prefill over a chain of processes.

    Parameters
    ----------
    reading : ChainReading
        Which, and the machine.
    model : ModelSpec
        With layers of one kind.
    rate : float, optional
        Arithmetic of everything, instead of the two rates of the reading [FLOP/s].

    Returns
    -------
    float
        A quotient of times, or a share of the cases [1].

    Raises
    ------
    InputError
        If the model has other layers than grouped-query attention with dense feed-forward blocks.
    """
    work = layer_work(model, BYTES_PER_ELEMENT["fp16"])
    if reading.read not in ("largest_loss", "share_best"):
        (processes,), (prompt,), (link,) = reading.processes, reading.prompts, reading.links
        machine = _machine(reading, link, rate)
        if reading.read in ("traffic", "first_part"):
            parts = formulas.searched_partition(work, machine, prompt, processes)
            shares = {"traffic": formulas.gathered_over_handed(parts), "first_part": parts[0] / prompt}
            return float(shares[reading.read])
        before = formulas.single_seconds(work, machine, prompt)
        if reading.read == "speedup":
            before = formulas.all_gather_seconds(work, machine, prompt, processes)
        return float(before) / _seconds(work, machine, prompt, processes)
    losses = [
        _loss(work, _machine(reading, link, rate), prompt, reading.processes)
        for prompt, link in product(reading.prompts, reading.links)
    ]
    return max(losses) if reading.read == "largest_loss" else sum(loss <= _AS_FAST for loss in losses) / len(losses)


@lru_cache(maxsize=256)
def _loss(work: LayerWork, machine: Machine, prompt: float, choices: tuple[int, ...]) -> float:
    """Time with what the rule picks, over that of the best choice [1]."""
    times = [_seconds(work, machine, prompt, processes) for processes in choices]
    return times[picked(prompt, machine.link_bytes_per_second)] / min(times)


def _machine(reading: ChainReading, link: float, rate: float | None) -> Machine:
    return Machine(rate or reading.matmul, rate or reading.attention, reading.overhead, link, reading.latency)


def _seconds(work: LayerWork, machine: Machine, prompt: float, processes: int) -> float:
    """Time to the first token with searched parts of the prompt [s]."""
    if processes == 1:
        return float(formulas.single_seconds(work, machine, prompt))
    parts = formulas.searched_partition(work, machine, prompt, processes)
    return float(formulas.chain_seconds(work, machine, parts))
