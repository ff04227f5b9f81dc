"""Setup of a query: a model on a chip in given number formats, under a set of assumptions, at a price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Literal

import numpy as np

from inference_econ.engine import memory
from inference_econ.engine.layouts.pins import layout_columns
from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.engine.layouts.startable import any_can_start, can_start
from inference_econ.engine.measured_corrections import SetupLevels
from inference_econ.engine.memory import Memory
from inference_econ.engine.operators.work import Contexts, Work, decode_work, mixed_work
from inference_econ.engine.pricing import hour_price, no_price
from inference_econ.engine.rates import ChipRates, chip_rates
from inference_econ.engine.served import Served
from inference_econ.errors import InputError
from inference_econ.formulas import renting
from inference_econ.inputs import (
    ANY_LAYOUT,
    BYTES_PER_ELEMENT,
    Admission,
    Assumptions,
    Dealing,
    EmbeddingFormat,
    EngineFacts,
    Grid,
    HardwareSpec,
    HourPrice,
    ModelSpec,
    Precision,
    ServingEngine,
    SourcedSpec,
    TensorLayout,
    able_of,
    catalog,
    check_cache_dtype,
    engines_for,
    field_names,
    known_engines,
    lacks,
    math_unit,
    practices_in,
    run_on,
    serving_adapters,
    split_changes,
    value_of,
    with_engine,
)
from inference_econ.inputs.engine import profiles
from inference_econ.inputs.prices import UNPRICED

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference_econ._types import Array
    from inference_econ.inputs import Name


#: Smallest unit that can be rented: ``gpu`` for the smallest machines on offer, ``node`` for full nodes.
Rent = Literal["gpu", "node"]
#: Longest accepted context [tokens].
_MOST_TOKENS = 1e12
#: Range of accepted prices [USD/h]. Prices outside this range are typing errors, and would cause overflows.
_LEAST_PRICE, _MOST_PRICE = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class Open:
    """Choices that a query leaves open: the engine and the KV-cache format.

    Attributes
    ----------
    engine : bool
        True if every engine is a candidate, each under its own profile.
    cache : bool
        True if an engine's recipe may set the KV-cache format. Until a recipe is chosen, the setup has the format that
        the recipes of all engines share.
    changes : tuple of str
        Changes of assumptions (``assumptions.FIELD=VALUE``), which apply to the profile of every engine.
    assumptions : Assumptions
        Assumptions of the setup at its creation. If the setup's assumptions are changed later, engine profiles no
        longer apply.
    """

    engine: bool
    cache: bool
    changes: tuple[str, ...]
    assumptions: Assumptions


@dataclass(frozen=True, slots=True)
class Setup(Served):
    """Model on a chip in given number formats, under a set of assumptions, at a price.

    Create a setup from names with :meth:`of`. Use :func:`dataclasses.replace` to change fields; commands change the
    context in this way.

    Attributes
    ----------
    model : ModelSpec
        Model that is served.
    hardware : HardwareSpec
        Chip that runs the model.
    precision : Precision
        Number formats of weights, activations and KV cache.
    context : float
        Number of tokens in the KV cache of each sequence [tokens].
    assumptions : Assumptions
        Assumptions, after application of the exceptions for the chip's family.
    price : HourPrice, float or None
        Price of one accelerator [USD/h]; None if unknown.
    spread : float
        Width of the range of contexts around ``context`` [tokens]. Contexts are uniformly distributed from the prompt
        length to the end of the output. The width is 0 if all contexts are equal or the range is unknown.
    shared_prefix : float
        Number of tokens of the context that all sequences share, at most the context [tokens].
    contexts : tuple of (float, float)
        Context lengths of sequences, if they differ [tokens], each with the number or share of sequences [1]. In this
        case, ``context`` is the mean of these context lengths.
    rent : {'gpu', 'node'}
        Unit of billing: the smallest machines that can be rented, or full nodes. Chips without known machine sizes are
        billed per accelerator.
    grid : Grid or None
        Electricity grid, which determines carbon emissions.
    engines : tuple of ServingEngine
        Engines that can serve the setup. Layouts with integer parallelism degrees are limited to layouts that at least
        one of these engines can start. Without engines, all layouts are allowed.
    left_out : tuple of str
        Engines of the query that cannot serve this setup, and disaggregated candidates that the simulator does not
        support, with reasons.
    left_open : Open or None
        Open choices (engine, KV-cache format), which :mod:`inference_econ.answers.deployments.serving_options` makes
        later; None if both are fixed.
    levels : SetupLevels or None
        Measured corrections for the engine; None without an engine, or if no similar server was measured.

    Raises
    ------
    InputError
        If the chip has no math unit for a format, does not support the KV-cache format, or has no host link for weights
        in host memory. If the context or the price is out of range, or if billing by node is requested but the node
        size is unknown.
    """

    price: HourPrice | float | None = None
    contexts: Contexts = ()
    rent: Rent = "gpu"
    grid: Grid | None = None
    left_out: tuple[str, ...] = field(default=(), compare=False, repr=False)
    left_open: Open | None = field(default=None, compare=False, repr=False)
    levels: SetupLevels | None = None

    def __post_init__(self) -> None:
        """Reject invalid values, and apply the exceptions of the assumptions for the chip's family."""
        peaks = self.peaks
        for dtype in (*self.precision.of_weights, self.precision.activations):
            math_unit(dtype, peaks, self.hardware.name)
        check_cache_dtype(self.precision.kv, peaks, self.hardware.name)
        if not 0 <= self.context <= _MOST_TOKENS:
            raise InputError(f"the context must be a number of tokens from 0 to {_MOST_TOKENS:g}, got {self.context:g}")
        if not 0 <= self.spread <= _MOST_TOKENS:
            raise InputError(f"the spread must be a number of tokens from 0 to {_MOST_TOKENS:g}, got {self.spread:g}")
        if self.contexts and self.assumptions.attention.cache == "recomputed":
            raise InputError(
                "different contexts require a KV cache; give a single context if keys and values are recomputed"
            )
        if self.price is not None and not _LEAST_PRICE <= self.dollars_per_accelerator_hour <= _MOST_PRICE:
            raise InputError(
                f"the price must be a positive number of USD per hour, from {_LEAST_PRICE:g} to {_MOST_PRICE:g}, "
                f"got {self.dollars_per_accelerator_hour:g}"
            )
        if self.rent == "node" and not self.hardware.rented_as:
            raise InputError(
                f"{self.hardware.name} does not say how many accelerators a node of it has; leave --rent node out, or "
                "give the machines, for example --set hardware.rented_as='[1, 8]'",
                option="rent",
            )
        object.__setattr__(self, "assumptions", self.assumptions.for_chip(self.hardware))
        if self.assumptions.cpu.layers:
            self._place_cpu_layers()
        for name in ("host_weights", "host_cache"):
            share = getattr(self.assumptions.capacity, name)
            if share and self.hardware.host_link_bytes_per_second_one_way is None:
                raise InputError(
                    f"capacity.{name} is {share:g}, but {self.hardware.name} lists no link to the memory of its host; "
                    f"set hardware.host_link_bytes_per_second_one_way, or {name} to 0"
                )

    def _place_cpu_layers(self) -> None:
        """Place the weights of ``cpu.layers`` layers in host memory; reject the setup if this is not possible."""
        layers, most, link = self.assumptions.cpu.layers, self.model.layers, "host_link_bytes_per_second_one_way"
        if layers >= most:
            text = f"--cpu-layers: {self.model.name} has {most} layers (got {layers}); one at least stays on the GPU"
            raise InputError(text, option="cpu_layers")
        if self.hardware.host_link_bytes_per_second_one_way is None:
            raise InputError(
                f"--cpu-layers: {self.hardware.name} lists no link to a separate host memory; leave the option out, "
                f"or give the link, for example --set hardware.{link}='32 GB/s'",
                option="cpu_layers",
            )
        placed = self.assumptions.changed({"capacity.host_weights": layers / most})
        object.__setattr__(self, "assumptions", placed)
        needed, held = memory.cpu_weight_bytes(self), self.assumptions.cpu.memory_bytes
        if held is not None and needed > held:
            raise InputError(
                f"--host-memory: {layers} layers of {self.model.name} need {needed / 1e9:.3g} GB "
                f"(got {held / 1e9:g}); give fewer --cpu-layers",
                option="host_memory",
            )

    @classmethod
    def of(
        cls,
        model: ModelSpec | Name,
        hardware: HardwareSpec | Name,
        *,
        weights: str | None = None,
        activations: str | None = None,
        kv: str | None = None,
        assumptions: Assumptions | Name | None = None,
        price: float | str | None = None,
        context: float = 0.0,
        changes: Iterable[str] = (),
        engine: str | Sequence[str] | None = None,
    ) -> Setup:
        """Create a setup from names, number formats, a preset of assumptions, a price and changes of inputs.

        Parameters
        ----------
        model, hardware : spec, name or path
            Model, and chip that runs the model.
        weights, activations, kv : str, optional
            Number formats; by default the published formats, or the 16-bit format that the chip supports. The default
            KV-cache format is the format in the recipes of all engines if these agree, otherwise the format of the
            activations. If you set assumptions, recipes apply only if you also name an engine.
        assumptions : Assumptions, name or path, optional
            Assumptions; by default the profile of the chip's generation
            (:func:`inference_econ.inputs.engine.profiles.assumed`).
        price : float or str, optional
            Price of one accelerator [USD/h], or of a node (``23.60/node``). The price may also be a kind of price in
            the chip's file (``on_demand``, ``spot``), or ``owned`` for the cost of a purchased chip. The default is the
            best price of the file, see :func:`inference_econ.engine.pricing.hour_price`.
        context : float
            Number of tokens in the KV cache of each sequence, for queries about single steps [tokens].
        changes : iterable of str
            Changes of inputs: ``hardware.FIELD=VALUE``, ``model.FIELD=VALUE`` or ``assumptions.FIELD=VALUE``.
        engine : str or sequence of str, optional
            An engine such as ``vllm`` or ``vllm@0.24.0``. The setup then has the profile of this engine, and only
            layouts that the engine can start. With several engines, layouts that at least one of them can start are
            allowed. Engines that cannot serve the setup are listed in ``left_out``. ``any`` allows all layouts. By
            default, layouts that at least one known engine can start are allowed; if no engine supports the model, all
            layouts are allowed.

        Returns
        -------
        Setup
            Setup with all defaults resolved.

        Raises
        ------
        UnknownNameError, SpecError, InputError
            If a name, format, price, context or change of an input is invalid.

        Examples
        --------
        >>> setup = Setup.of("llama_3_8b", "h100_sxm", weights="fp8", changes=["hardware.hbm_bytes_per_second=4 TB/s"])
        >>> setup.precision.weights, setup.assumptions.name, setup.hardware.hbm_bytes_per_second
        ('fp8', 'profiles/hopper', 4000000000000.0)
        """
        what_ifs = split_changes(changes)
        served = model if isinstance(model, ModelSpec) else catalog.model(model, changes=what_ifs["model"])
        for kind, subject in (("model", model), ("hardware", hardware), ("assumptions", assumptions)):
            if what_ifs[kind] and isinstance(subject, SourcedSpec):
                raise InputError(
                    f"--set {kind}.{what_ifs[kind][0]}: what-ifs change what is named; {subject.name} is a "
                    "specification already, which replace() changes",
                    option="set",
                )
        chip = (
            hardware if isinstance(hardware, HardwareSpec) else catalog.hardware(hardware, changes=what_ifs["hardware"])
        )
        engine_name = engine.partition("@")[0] if isinstance(engine, str) and engine != ANY_LAYOUT else None
        asked = tuple(what_ifs["assumptions"])
        opinions = without_exceptions(profiles.assumed(assumptions, chip, engine_name, changes=asked), asked)
        if opinions.cpu.layers:
            if (engine_name or engine or _CPU_LAYERS_ENGINE) != _CPU_LAYERS_ENGINE:
                given = " and ".join(engine) if isinstance(engine, tuple) else engine
                raise InputError(
                    f"--cpu-layers: only llama_cpp computes layers on the CPU (got {given}); give --engine llama_cpp",
                    option="engine",
                )
            engine, engine_name = engine or _CPU_LAYERS_ENGINE, _CPU_LAYERS_ENGINE
        rate = hour_price(chip, price)
        copies = opinions.experts.redundant
        if copies and not has_experts(served):
            raise InputError(
                f"experts.redundant is {copies}, but {served.name} has no experts; leave --redundant-experts out, "
                "or set it to 0",
                option="redundant_experts",
            )
        if weights is None and chip.desk:
            weights = desk_weights(served, chip)
        wanted = (engine,) if isinstance(engine, str) else engine
        precision = precision_on(served, chip, weights, activations, kv, opinions.capacity.embedding_format, wanted)
        # Some assumptions leave attention ranks idle (study of Erdil, 2025), but no engine does so.
        among = ANY_LAYOUT if engine is None and opinions.layout.attention_groups == "idle" else engine
        left_out: tuple[str, ...] = ()
        if among is None or isinstance(among, str):
            engines = engines_for(served, chip, precision, among)
        else:
            engines, left_out = able_of(served, chip, precision, among)
        if opinions.adapters.loras and engines:
            engines, without = serving_adapters(engines, served, chip)
            left_out += without
        if kv is None and (assumptions is None or engine_name is not None):
            precision = with_usual_cache(precision, engines, served, chip)
        facts = engines[0].facts if engine_name is not None and engines else None
        fields = asked
        if asked:
            usual = profiles.assumed(assumptions, chip, engine_name).for_chip(chip)
            fields = real_changes(asked, opinions, usual if facts is None else with_engine(usual, facts, chip))
        if fields != asked:
            opinions = without_exceptions(profiles.assumed(assumptions, chip, engine_name, changes=fields), fields)
        if facts is not None:
            opinions = with_engine(opinions, facts, chip, changed(fields))
        version = str(engine or "").partition("@")[2] or None
        setup = cls(served, chip, precision, context, opinions, rate, engines=engines, left_out=left_out)
        setup = setup.with_corrections(engine_name, version)
        if assumptions is not None:
            return setup
        left_open = Open(engine_name is None, kv is None, asked, setup.assumptions)
        return replace(setup, left_open=left_open)

    def __repr__(self) -> str:
        """One line with model, chip, formats and assumptions."""
        formats = f"weights {self.precision.weights}, KV {self.precision.kv}"
        return f"<Setup: {self.model.name} on {self.hardware.name}; {formats}; {self.assumptions.name}>"

    def with_corrections(
        self, engine: str | None = None, version: str | None = None, release: str | None = None
    ) -> Setup:
        """Return the setup with the measured corrections for one engine, which are part of the assumptions.

        Parameters
        ----------
        engine : str, optional
            Engine whose measured corrections apply. Corrections of other engines are ignored.
        version : str, optional
            Engine version; empty if the version was not recorded. The default is the version in the engine's catalog
            entry.
        release : str, optional
            Version of the catalog entry that describes the engine version; empty without such an entry. The default is
            the newest entry up to the engine version.
        """
        levels = self.assumptions.levels
        if levels is None or engine not in (None, levels.engine):
            return self
        if version is None and engine and self.engines:
            version = self.engines[0].version
        measured = SetupLevels.of(levels, self.model, self.hardware, self.precision, version, release)
        return self if measured is None else replace(self, levels=measured)

    def for_role(self, *, apart: bool = False, speculates: bool = False) -> Setup:
        """Return the setup with the corrections for disaggregated instances (``apart``) or for speculative decoding."""
        if self.levels is None:
            return self
        return replace(self, levels=self.levels.served(apart=apart, speculates=speculates))

    def measured_factor(self, plans: Plans, *, prefill: bool) -> Array | float:
        """Measured correction of decode or prefill step times [1]; 1 if nothing was measured."""
        if self.levels is None:
            return 1.0
        return self.levels.factor(plans, self.assumptions.layout, prefill=prefill)

    @property
    def unmeasured(self) -> Setup:
        """Return the setup without measured corrections."""
        return self if self.levels is None else replace(self, levels=None)

    @property
    def held_steps(self) -> float:
        """Number of decode steps by which attention-DP groups delay a prefill [1].

        The default is the engine's maximum delay. If no engine is fixed, the largest maximum of all engines is used, as
        a bound.
        """
        serving = self.assumptions.serving
        if serving.held_steps is not None or serving.prefill_split != "prompts":
            return serving.held_steps or 0.0
        if self.assumptions.layout.attention_groups == "idle":
            return 0.0
        if self._engine_facts is not None:
            return self._engine_facts.held_steps or 0.0
        return 0.0 if self.engines else max(engine.facts.held_steps or 0.0 for engine in known_engines())

    @property
    def is_bound(self) -> bool:
        """True if no server with this chip generation was used in the fit; results are then uncalibrated bounds."""
        return profiles.is_bound(self.assumptions.name, self.hardware.generation)

    @property
    def admission(self) -> Admission | None:
        """Rule by which the engine admits requests to its KV cache; None if the engine or its rule is unknown."""
        return None if self._engine_facts is None else self._engine_facts.admission

    @property
    def dealing(self) -> Dealing:
        """Rule that assigns requests to attention-DP groups.

        If the setup has a single engine, the rule of this engine applies. Without a single engine, a request goes to
        the least busy group.
        """
        return (None if self._engine_facts is None else self._engine_facts.dealing) or "least_busy"

    @property
    def captured_tokens(self) -> float:
        """Tokens of the largest prefill step that runs as piecewise graphs [tokens].

        The assumptions set the number. If they leave it to the engine, it is the default of the engine for the model;
        0 if the engine is unknown.
        """
        assumed = self.assumptions
        if not assumed.host.cuda_graphs or assumed.host.captured_tokens is not None:
            return (assumed.host.captured_tokens or 0.0) * assumed.host.cuda_graphs
        graphs = self._engine_facts and self._engine_facts.prompt_graphs
        model, read = self.model, assumed.serving.prefill_chunk
        return graphs.tokens(read, model.architecture, latent=model.has_latents) if graphs else 0.0

    @property
    def _engine_facts(self) -> EngineFacts | None:
        """Catalog entry of the setup's single engine, or of the engine in the assumptions; None if neither is set."""
        if len(self.engines) == 1:
            return self.engines[0].facts
        if self.assumptions.host.engine is None:
            return None
        name, _, version = self.assumptions.host.engine.partition(" ")
        return catalog.engine(name).at(version or None)

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """Price of one accelerator [USD/h].

        The property raises InputError if the price is unknown.
        """
        return self.hour_price.dollars

    @property
    def is_priced(self) -> bool:
        """True if the price of an accelerator is known."""
        return self.price is not None and self.hour_price.kind != UNPRICED

    @property
    def hour_price(self) -> HourPrice:
        """Price of one accelerator, with its pricing model and its source.

        Raises
        ------
        InputError
            If the price is unknown.
        """
        if self.price is None:
            raise no_price(self.hardware)
        return self.price if isinstance(self.price, HourPrice) else HourPrice(self.price)

    @property
    def machines(self) -> tuple[int, ...]:
        """Sizes of the machines that can be rented, ascending [accelerators].

        The tuple is empty if any number of accelerators can be rented.
        """
        return self.hardware.rented_as if self.rent == "gpu" else self.hardware.rented_as[-1:]

    def rented(self, instances: npt.ArrayLike, accelerators: npt.ArrayLike) -> Array:
        """Number of accelerators to rent for equal instances, including unused parts of machines, shape (...) [1]."""
        return renting.rented(instances, accelerators, self.machines)

    def dollars_per_hour(self, instances: npt.ArrayLike, accelerators: npt.ArrayLike) -> Array:
        """Cost of a fleet of equal instances, including unused parts of machines, shape (...) [USD/h]."""
        return self.rented(instances, accelerators) * self.dollars_per_accelerator_hour

    def dollars_per_hour_in_bulk(self, accelerators: npt.ArrayLike) -> Array:
        """Cost per instance in a fleet of many equal instances, shape (...) [USD/h].

        This cost is a lower bound on the cost per instance for fleets of any size.
        """
        return renting.rented_in_bulk(accelerators, self.machines) * self.dollars_per_accelerator_hour

    def work(self, plans: Plans) -> Work:
        """Compute the operator table of a step of the plans."""
        if self.contexts:
            works = [setup.work(plans) for setup in self._apart()]
            return mixed_work(works, self.contexts, round(float(np.max(works[0].groups))))
        if self.assumptions.attention.cache == "recomputed":
            reading = replace(plans, new_tokens=self.context + plans.new_tokens, prefill=True)
            return decode_work(replace(self, context=0.0, spread=0.0, shared_prefix=0.0), reading)
        return decode_work(self, plans)

    @property
    def rates(self) -> ChipRates:
        """Sustained rates of the chip's kernels."""
        return chip_rates(self.hardware, self.precision, self.assumptions)

    @property
    def peaks(self) -> Mapping[str, float]:
        """Peak rate of each math unit of the chip, without sparsity [FLOP/s]."""
        return self.rates.peaks

    def memory(self, plans: Plans) -> Memory:
        """Memory that the plans need, and memory that is available to the plans."""
        if not self.contexts:
            return memory.need(self, plans)
        return memory.mixed([memory.need(setup, plans) for setup in self._apart()], self.contexts, plans)

    def memory_of_one_accelerator(self, plan: Plans) -> dict[str, float]:
        """Memory use of each accelerator in a single plan, by purpose [B]."""
        if not self.contexts:
            return memory.of_one_accelerator(self, plan)
        parts, counts = (
            [memory.of_one_accelerator(setup, plan) for setup in self._apart()],
            [c for _, c in self.contexts],
        )
        return {name: float(np.average([part[name] for part in parts], weights=counts)) for name in parts[0]}

    def _apart(self) -> list[Setup]:
        """Return one setup for each context in ``contexts``; in each setup, all sequences have this context."""
        return [replace(self, context=length, contexts=(), spread=0.0) for length, _ in self.contexts]

    def reasons(self, plans: Plans, layout: TensorLayout, needed: Memory | None = None) -> npt.NDArray[np.intp]:
        """Index in :data:`inference_econ.engine.memory.REASONS` of the reason why each plan cannot run; 0 without one.

        ``needed`` is the memory of the plans, if it includes more than the model, for example a draft model.
        """
        codes = memory.reasons(self, self.memory(plans) if needed is None else needed, plans, layout)
        if not (self.engines and plans.whole):
            return codes
        able = any_can_start(self.engines, self.model, self.hardware.generation, plans, layout)
        return np.where(able | (codes == memory.DIVIDE), codes, memory.ENGINE)

    def layout_columns(self, plans: Plans, cut: npt.NDArray[np.str_]) -> dict[str, list[float] | list[str]]:
        """Parallelism degrees of n plans.

        If the setup has engines, the result also lists the engines that can start each plan.
        """
        columns = layout_columns(plans, cut, self.assumptions.layout)
        able = {"engine": [", ".join(names) for names in self.engines_of(plans)]} if self.engines else {}
        return {**columns, **able}

    def layout_record(self, plan: Plans, cut: TensorLayout) -> dict[str, float | str]:
        """Parallelism degrees of a single plan of shape (1,), and the engines that can start the plan."""
        return {name: values[0] for name, values in self.layout_columns(plan, np.array([cut])).items()}

    def engines_of(self, plans: Plans) -> list[tuple[str, ...]]:
        """Names of the engines that can start each of n plans; empty without engines."""
        masks = (can_start(engine, self.model, self.hardware.generation, plans) for engine in self.engines)
        able = [np.broadcast_to(mask, plans.shape).tolist() for mask in masks]
        names = [engine.name for engine in self.engines]
        return [tuple(compress(names, (mask[row] for mask in able))) for row in range(plans.shape[0])]


#: Engine that computes layers in host memory on the CPU.
_CPU_LAYERS_ENGINE = "llama_cpp"
#: Default weight format on desktop chips; and smallest published weight size, above which this format applies [B per
#: weight].
_DESK_WEIGHTS, _DESK_WIDTH = "q4_k_m", 0.9


def desk_weights(model: ModelSpec, hardware: HardwareSpec) -> str | None:
    """Default weight format on a desktop chip: q4_k_m, or None for the published format.

    The published format is used if its weights have at most 0.9 B, or if no engine runs q4_k_m files of the model.
    """
    published = Precision.of(model, None, "fp16")
    if min(BYTES_PER_ELEMENT[dtype] for dtype in published.of_weights) <= _DESK_WIDTH:
        return None
    converted = Precision.of(model, _DESK_WEIGHTS, "fp16")
    return _DESK_WEIGHTS if engines_for(model, hardware, converted) else None


def precision_on(
    model: ModelSpec,
    hardware: HardwareSpec,
    weights: str | None,
    activations: str | None,
    kv: str | None,
    embeddings: EmbeddingFormat,
    engines: Sequence[str] | None = None,
) -> Precision:
    """Number formats in which the given engines (by default all) serve a model on a chip.

    By default, formats are the published formats, or the 16-bit format that the chip supports. Engines also load
    published 32-bit weights in 16 bits. For models with MXFP4 experts, engines with their own file format store all
    weights except the experts in another format.
    """
    if model.expert_weights == "mxfp4" and weights in (None, "mxfp4"):
        names = {name.partition("@")[0] for name in engines or ()}
        able = [it.facts.beside_mxfp4 for it in run_on(hardware.generation) if not engines or it.name in names]
        if able and None not in able:
            model, weights = model.model_copy(update={"weights": able[0], "embedding_weights": able[0]}), None
    if "bf16" not in hardware.dense_flops_per_second:
        activations = activations or "fp16"
        weights = weights or ("fp16" if model.weights in ("bf16", "fp32") else None)
    elif model.weights == "fp32":
        weights = weights or "bf16"
    return Precision.of(model, weights, activations, kv, embeddings)


def with_usual_cache(
    precision: Precision, engines: Sequence[ServingEngine], model: ModelSpec, hardware: HardwareSpec
) -> Precision:
    """Set the KV-cache format to the format in the first recipes of all engines, if these formats are equal."""
    first = (practices_in(engine.name, model, hardware, precision)[0] for engine in engines)
    formats = {practice.kv or precision.activations for practice in first}
    usual = replace(precision, kv=formats.pop()) if len(formats) == 1 else precision
    return precision if any(lacks(engine, model, hardware, usual) for engine in engines) else usual


def without_exceptions(opinions: Assumptions, changes: Iterable[str]) -> Assumptions:
    """Copy assumptions without the exceptions for chip families in the fields that ``changes`` set."""
    return opinions.without_exceptions([name for name in changed(changes) if not name.startswith("per_family")])


def real_changes(changes: Iterable[str], given: Assumptions, usual: Assumptions) -> tuple[str, ...]:
    """Changes that differ from the usual assumptions. Only such changes invalidate the fit of a profile.

    Parameters
    ----------
    changes : iterable of str
        Changes of assumptions, ``FIELD=VALUE``.
    given : Assumptions
        Assumptions with all changes.
    usual : Assumptions
        Assumptions of the chip and the engine without changes.
    """
    fields = field_names()
    return tuple(
        change
        for change, name in zip(changes, changed(changes), strict=True)
        if name not in fields or value_of(given, name) != value_of(usual, name)
    )


def changed(changes: Iterable[str]) -> list[str]:
    """Names of the fields in changes of the form ``FIELD=VALUE``."""
    return [change.partition("=")[0].strip() for change in changes]
