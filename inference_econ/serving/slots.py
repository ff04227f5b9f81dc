"""Requests at a time: as many as memory and the engine's rule let in, and as many as are there when memory is full."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import Memory, Plans, Setup, Speculation, attention_groups, needed_memory
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import levels, quantiles

#: Equally likely requests that stand for all [1].
_LIKELY = 400
#: Share of the requests of a group whose contexts grow together where all answers are of one length, squared, as played
#: [1].
_IN_WAVES = 0.5
#: What is left of it by the squared coefficient of variation of answers: as much of a wave as one generation of answers
#: keeps, by the characteristic function of a normal length at the frequency of one length, squared [1].
_APART = (2.0 * math.pi) ** 2
#: The least deviation that counts, and how many of them are as good as never exceeded [1].
_LEAST, _FAR = 1e-9, 30.0


def slots_of(setup: Setup, plans: Plans, speculation: Speculation | None = None) -> Array:
    """Requests whose cache fits beside the weights, rounded down [1]; the workspace grows with them.

    An engine that keeps room free for what answers will hold lets in no more than its rule allows, but always one.
    """
    batch, admitted = plans.batch, _admitted(setup, plans, speculation)
    # From below, every second pass ends at a batch that fits: the more sequences are reckoned with, the fewer fit.
    for _ in range(4):
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        # Every group of attention ranks has room for as many.
        groups = attention_groups(plans, setup.assumptions.layout)
        batch = np.maximum(np.floor(admitted(_with_room(needed, batch) / groups)) * groups, groups)
    needed = needed_memory(setup, replace(plans, batch=batch), speculation)
    return np.where(np.broadcast_to(needed.fits, batch.shape), batch, 0.0)


def _with_room(needed: Memory, batch: Array) -> Array:
    """Requests of the mean context that have room in an instance, from what some need [1]."""
    room = np.maximum(needed.available_bytes - needed.weight_bytes - needed.prefix_bytes, 0.0)
    of_request = needed.kv_bytes - needed.prefix_bytes
    beside, paged = (
        room / (of_request / batch),
        (room + needed.host_bytes) / ((of_request + needed.pageable_bytes) / batch),
    )
    return np.asarray(np.where(needed.pageable_bytes > 0.0, np.minimum(beside, paged), beside))


def _admitted(setup: Setup, plans: Plans, speculation: Speculation | None) -> Callable[[Array], Array]:
    """Requests that an engine lets in, from those of the mean context that have room [1]; all where no rule is known.

    The last one finds all others with what they hold on average, and needs room for its prompt and the engine's shares
    of its own answer and of what the others have still to write.
    """
    rules = setup.admission
    if rules is None or not setup.spread:
        return lambda mean: mean
    prompt, whole = _ends(setup, plans, speculation)
    of_prompt, other = prompt + rules.own_answer * (whole - prompt), 1.0 + rules.other_answers * (whole - 1.0)
    return lambda mean: np.minimum(mean, 1.0 + (mean - of_prompt) / other)


def _ends(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Return the memory of a request with its prompt alone and with its whole answer, over its average [1]."""

    def held(context: float) -> Array:
        at = replace(setup, context=context, contexts=(), spread=0.0)
        needed = needed_memory(at, plans, speculation)
        return np.asarray(needed.kv_bytes - needed.prefix_bytes)

    half, usual = setup.spread / 2.0, held(setup.context)
    return held(setup.context - half) / usual, held(setup.context + half) / usual


@dataclass(frozen=True, slots=True)
class Crowding:
    """Memory that requests of each group of attention ranks lack when many are in flight.

    Attributes
    ----------
    slots, groups : ndarray, shape (n,)
        Requests in flight of an instance at most, and groups [1].
    room : ndarray, shape (n,)
        Requests of the mean context that a group has memory for [1].
    deviation : ndarray, shape (n,)
        Standard deviation of what one request holds, over the mean [1].
    together : float
        Share of the requests whose contexts grow together, squared [1].
    free : ndarray, shape (n,)
        What is free on average while somebody waits for memory, over what a request holds on average [1].
    answer, prompt : float
        Tokens of an answer, and new ones of a prompt [tokens].

    Notes
    -----
    With n requests in flight a group holds n times the mean, with a standard deviation of s sqrt(n + k n^2): s of each
    by itself, and k of contexts that grow together, as answers of one length do. What is beyond the memory, as of a
    normal distribution, is sent back. Meanwhile the one at the head of the queue finds anything between nothing and its
    own prompt free: half of it on average, those that wait longest counted most (renewal theory: Cox, 1962).

    A token that is written while memory is full pushes another one out, which is read again with its request, unless an
    answer that ends in the same step leaves the room. Requests that come at any time are in no waves before memory is
    full, so that nothing is read again where it is not.
    """

    slots: Array
    groups: Array
    room: Array
    deviation: Array
    together: float
    free: Array
    answer: float
    prompt: float

    @classmethod
    def of(
        cls, setup: Setup, requests: Requests, plans: Plans, slots: Array, speculation: Speculation | None = None
    ) -> Crowding:
        """Of n layouts with some slots each [1], shape (n,); who runs more than fit has the memory for them."""
        groups = np.broadcast_to(attention_groups(plans, setup.assumptions.layout), slots.shape)
        batch = np.maximum(slots, groups)
        needed = needed_memory(setup, replace(plans, batch=batch), speculation)
        room = np.maximum(_with_room(needed, batch), batch) / groups
        prompts, answers = (quantiles(length, levels(_LIKELY)) for length in (requests.isl, requests.osl))
        # Of answers that are under way, long ones are more likely, and each is anywhere on its way.
        written = np.mean(answers**2) / np.mean(answers) / 2.0
        variance = np.var(prompts) + np.mean(answers**3) / np.mean(answers) / 3.0 - written**2
        prompt, whole = _ends(setup, replace(plans, batch=batch), speculation)
        growth = np.maximum(whole - prompt, 0.0) / setup.spread if setup.spread else np.zeros(slots.shape)
        # No prompt waits for more room than there is.
        heads = np.minimum(prompts / np.mean(prompts) * prompt[..., None], room[..., None])
        free = np.mean(heads**2, axis=-1) / np.mean(heads, axis=-1) / 2.0
        together, answer = _IN_WAVES * math.exp(-_APART * requests.osl.scv), float(requests.osl.mean)
        deviation = growth * np.sqrt(variance)
        return cls(slots, groups, room, deviation, together, free, answer, float(requests.new_tokens))

    def take(self, indices: Indices) -> Crowding:
        """Of some of the layouts."""
        of_layouts = (self.slots, self.groups, self.room, self.deviation, self.free)
        slots, groups, room, deviation, free = (values[indices] for values in of_layouts)
        return replace(self, slots=slots, groups=groups, room=room, deviation=deviation, free=free)

    @property
    def in_flight(self) -> Array:
        """Requests that are in flight on average where more come than an instance completes, shape (n,) [1]."""
        most = self.slots / self.groups
        beyond, full = self._beyond(most, self.together)
        return np.asarray(np.clip(most - beyond - full * self.free, np.minimum(most, 1.0), most) * self.groups)

    def read_again(self, batch: Array) -> Array:
        """Return tokens of prompts and answers that are read again, over those of prompts, shape (n, k) [1].

        By the number in flight, as many as can be where all slots are asked for.
        """
        asking = (batch * (self.slots / self.in_flight / self.groups)[:, None]).T
        _, full = self._beyond(asking, 0.0)
        return np.asarray((full / (1.0 + asking / self.answer)).T * self.answer / self.prompt)

    def _beyond(self, number: Array, together: float) -> tuple[Array, Array]:
        """Return the memory that so many requests of a group lack, over the mean [1], and the chance that they do."""
        deviation = np.maximum(self.deviation * np.sqrt(number + together * number**2), _LEAST)
        away = np.minimum((self.room - number) / deviation, _FAR)
        full = special.normal_shares(-away)
        return deviation * np.exp(-(away**2) / 2.0) / math.sqrt(2.0 * math.pi) - (self.room - number) * full, full
