"""Random setups: any model on any chip, in any format and layout, under any preset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inference_econ.engine import Plans, Setup, attention_groups, has_experts, indivisible
from inference_econ.engine.layouts.startable import attention_degrees, expert_degrees
from inference_econ.errors import InputError
from inference_econ.inputs import BYTES_PER_ELEMENT, Precision, catalog
from inference_econ.inputs.dtype import OF_FILES

MODELS, CHIPS = tuple(catalog.names("models")), tuple(catalog.names("hardware"))
PRESETS = tuple(catalog.names("assumptions"))
#: Formats without those of desktop files, whose kernels differ so that width does not determine speed.
FORMATS = tuple(name for name in BYTES_PER_ELEMENT if name not in OF_FILES)
CACHES = ("bf16", "fp16", "fp8", "int8")
#: Plans per setup, candidates drawn for them, and largest instance [1].
PLANS, _DRAWN, _LARGEST = 64, 256, 2048
#: Presets with real-valued layouts: the study's, and the bound.
REAL = ("paper", "paper_may22", "ideal")


@dataclass(frozen=True)
class Case:
    """Setup with several plans."""

    setup: Setup
    plans: Plans

    def __str__(self) -> str:
        """Description of the setup without its plans."""
        asked = self.setup
        formats = f"{asked.precision.weights}, KV {asked.precision.kv}"
        return f"{asked.model.name}, {asked.hardware.name}, {asked.assumptions.name}, {formats}, {asked.context:g}"


def drawn(seed: int, index: int) -> tuple[Case, np.random.Generator]:
    """Case for a seed, and its random generator."""
    random = np.random.default_rng([seed, index])
    while True:
        setup = _setup(random)
        if setup is None:
            continue
        real = setup.assumptions.name in REAL and random.random() < 0.5
        plans = _real_plans(random) if real else _whole_plans(setup, random)
        if plans is not None:
            return Case(setup, plans), random


def _setup(random: np.random.Generator) -> Setup | None:
    """Random setup; None if the chip does not support the formats."""
    model = catalog.model(str(random.choice(MODELS)))
    weights = None if random.random() < 0.4 else str(random.choice(FORMATS))
    kv = None if random.random() < 0.5 else str(random.choice(CACHES))
    context = float(random.choice([0, 1, 17, round(10 ** random.uniform(1, 5))]))
    hardware, preset = catalog.hardware(str(random.choice(CHIPS))), str(random.choice(PRESETS))
    try:
        opinions = catalog.assumptions(preset)
        precision = Precision.of(model, weights, None, kv, opinions.capacity.embedding_format)
        return Setup(model, hardware, precision, context, opinions)
    except InputError:
        return None


def _whole_plans(setup: Setup, random: np.random.Generator) -> Plans | None:
    """Valid layouts: decode steps, verification, prefill, and mixed steps."""
    model, assumed = setup.model, setup.assumptions
    degrees = attention_degrees(model)
    ranks = random.choice(degrees[degrees <= 64], _DRAWN)
    stage = ranks * random.choice([1, 1, 2, 3, 4, 8, 9, 16, 32, 36, 72], _DRAWN)
    pp = random.choice([1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 8.0], _DRAWN)
    ep = np.ones(_DRAWN)
    if has_experts(model):
        some = random.choice(expert_degrees(model, assumed.experts), _DRAWN)
        ep = np.where(random.random(_DRAWN) < 0.4, stage, some)
    batch = pp * np.round(2.0 ** random.uniform(0, 13, _DRAWN))
    plans = Plans(stage * pp, batch, pp, ranks, ep, int(random.choice([1, 1, 1, 2, 4])), whole=True)
    uneven = plans.accelerators > _LARGEST
    for problem in indivisible(model, plans, "1d", assumed):
        uneven = uneven | problem.where
    (even,) = np.nonzero(~np.broadcast_to(uneven, plans.shape))
    return _phase(setup, plans.at((even[:PLANS],)), random) if even.size else None


def _phase(setup: Setup, plans: Plans, random: np.random.Generator) -> Plans:
    """Leave most plans unchanged; some become prefill or mixed steps."""
    share, tokens = random.random(), int(2.0 ** random.uniform(5, 13))
    if share < 0.1:
        whole = attention_groups(plans, setup.assumptions.layout) * plans.pp
        return replace(plans, batch=np.asarray(whole * np.ones(plans.shape)), new_tokens=tokens, prefill=True)
    if share < 0.2:
        return replace(plans, riding=np.full(plans.shape, float(tokens)))
    return plans


def _real_plans(random: np.random.Generator) -> Plans:
    """Layouts of the study with real-valued degrees, and experts by its rule or at random."""
    size, batch = 2.0 ** random.uniform(0, 9, PLANS), 2.0 ** random.uniform(0, 14, PLANS)
    pp = np.minimum(size, batch) ** random.choice([0.0, 0.5, 1.0], PLANS)
    stage = size / pp
    ep = None if random.random() < 0.5 else np.minimum(stage, 16.0) ** random.random(PLANS)
    return Plans(size, batch, pp, stage ** random.choice([1.0, 0.8, 0.5, 0.0], PLANS), ep, int(random.integers(1, 4)))
