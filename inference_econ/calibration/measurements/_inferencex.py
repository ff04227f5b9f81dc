"""How InferenceMAX and its successor InferenceX measure servers: what their scripts do, and their rows do not say."""

from __future__ import annotations

from inference_econ.inputs import catalog

#: Request lengths are uniform between 0.8 and 1.0 of what rows say.
MEAN_LENGTH = 0.9
SHORTER = "lengths are 0.9 of the nominal ones: uniform from 0.8 to 1.0"
#: Longest less shortest length over the mean [1].
SPREAD = 0.2 / MEAN_LENGTH
#: Runs are so many times as many requests as there are at a time [1].
ROUNDS = 10
#: There are no other lengths than multiples of this [tokens].
_NOMINAL = 1024


def has_nominal_lengths(source: str, isl: float, osl: float) -> bool:
    """Whether the lengths of a row are those that the scripts are told, not those of the requests."""
    return "inferencex" in source.lower() and isl % _NOMINAL == osl % _NOMINAL == 0


def cache_format(model: str, hardware: str, engine: str) -> str | None:
    """What is known of the KV cache of a collection that does not record it."""
    return catalog.measured_names().kv_formats.get(model, {}).get(f"{engine} {hardware}")


def step_tokens(model: str, hardware: str, engine: str, version: str, isl: float) -> float | None:
    """Prompt tokens of a step, as the scripts tell the engine, for prompts of at most ``isl`` tokens [tokens]."""
    names = catalog.measured_names()
    if f"{engine} {version}".strip() in names.single_prompts.get(model, ()):
        return isl
    tokens = names.step_tokens.get(model, {}).get(f"{engine} {hardware}")
    return None if tokens is None else float(tokens)


def balances_prompts(model: str, engine: str, groups: int) -> bool:
    """Whether the scripts tell the engine to hold prompts back until every group of attention ranks has one."""
    return groups > 1 and engine in catalog.measured_names().balance_steps.get(model, {})


def wait_steps(
    model: str,
    hardware: str,
    engine: str,
    *,
    lengths: tuple[float, float],
    concurrency: float,
    groups: int,
    accelerators: int,
) -> float:
    """Steps that a prompt waits on average, as the scripts tell the engine.

    Parameters
    ----------
    model, hardware, engine : str
        What runs on what.
    lengths : tuple of float
        Nominal input and output length [tokens].
    concurrency : float
        Requests at a time [1].
    groups : int
        Of attention ranks with sequences of their own [1].
    accelerators : int
        Of the server [1].

    Returns
    -------
    float
        [1]

    Notes
    -----
    With c requests at a time one comes every osl / c steps, and all of k groups of attention ranks have one after
    k (1 + 1/2 + .. + 1/k) of them on average (coupon collector). A prompt comes at any time between two looks, or while
    the groups fill, and waits half of that; where steps are counted from the prompt itself, it waits all of them.
    """
    names, server = catalog.measured_names(), f"{engine} {hardware}"
    most = names.balance_steps.get(model, {}).get(engine)
    if groups > 1 and most is not None:
        every = groups * sum(1.0 / count for count in range(1, groups + 1))
        return float(min(float(most), every * lengths[1] / concurrency)) / 2.0
    isl, osl, fewer, steps = names.gather_steps.get(model, {}).get(server, (0, 0, 0, 0))
    if lengths == (isl, osl) and accelerators < fewer:
        return float(steps)
    look = names.look_steps.get(model, {}).get(server)
    return 0.0 if look is None else (look[0] if concurrency < look[1] else look[2]) / 2.0
