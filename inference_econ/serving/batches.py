"""Batches of an instance in steady state, and the prompts that come among their decode steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Prefill, Setup
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes
from inference_econ.serving.shared_work import Parts, SharedWork


@dataclass(frozen=True, slots=True)
class Batches:
    """Times of decode steps and of prompts by themselves, from which a steady state follows.

    Attributes
    ----------
    setup : Setup
        Its assumptions count.
    requests : Requests
        Lengths.
    size : ndarray, shape (...)
        Requests that a decode step works on, as one of them sees it [1].
    decode : ndarray, shape (...)
        A decode step without prefill, or a round of speculation [s].
    tokens : ndarray, shape (...)
        Tokens that a step gives each request on average [1].
    prompts : PromptTimes
        Of prompts by themselves; their average counts.
    parts : Parts
        Part of a prompt that a step reads.
    shared : SharedWork
        Work of the chips for prompts that begin in the same step.
    saved : ndarray, shape (...)
        Time that a step which decodes and reads prompts takes less than two steps for both [s].
    """

    setup: Setup
    requests: Requests
    size: Array
    decode: Array
    tokens: Array
    prompts: PromptTimes
    parts: Parts
    shared: SharedWork
    saved: Array

    @property
    def reading(self) -> Prefill:
        """One prompt by itself, the average over their lengths."""
        return self.prompts.mean

    @property
    def groups(self) -> Array:
        """Groups of attention ranks that step together, shape (...) [1]."""
        return np.asarray(self.shared.groups[..., 0])

    @property
    def steps(self) -> Array:
        """Decode steps of an answer, shape (...) [1]."""
        return np.asarray(self.requests.decode_steps / self.tokens)

    @property
    def others(self) -> Array:
        """Other requests that decode beside one, shape (...) [1]."""
        return self.size - 1.0

    @property
    def company(self) -> Array:
        """Share of the time that any other request decodes, shape (...) [1]."""
        return np.minimum(self.others, 1.0)

    @property
    def begun(self) -> Array:
        """Prompts that begin per step on average: one for each other request that ends, shape (...) [1]."""
        return np.asarray(self.others / np.maximum(self.steps, 1.0))

    def answer_seconds(self, prompt: Array) -> Array:
        """Return the time of all steps of an answer and of the prompts of others between them, shape (...) [s]."""
        return np.asarray(self.steps * self.decode + self.others * prompt)
