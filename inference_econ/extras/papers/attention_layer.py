"""Memory, work and time of attention in one layer, for implementations from notes on latent attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from inference_econ.engine import Operator, OperatorTable, Plans, Setup, memory, mixer
from inference_econ.engine.operator_costs import costs_of
from inference_econ.errors import InputError
from inference_econ.extras.papers.study_kinds import Implementation, LatentVariant
from inference_econ.inputs import BYTES_PER_ELEMENT, LatentAttention, ModelSpec

#: Variant of ``Assumptions.attention.latent`` on which each implementation of latent attention is based.
VARIANTS: Mapping[Implementation, LatentVariant] = {
    "decompressed": "decompressed",
    "decompressed_per_step": "decompressed_per_step",
    "absorbed": "absorbed",
    "absorbed_unfused": "absorbed",
    "absorbed_copied": "absorbed",
    "absorbed_multiplied": "absorbed",
}


def latent(model: ModelSpec) -> LatentAttention:
    """Latent attention of a model in which all layers are equal.

    Raises
    ------
    InputError
        If a layer has another kind of attention.
    """
    attentions = {block.attention for block in model.blocks}
    first = model.blocks[0].attention
    if len(attentions) > 1 or not isinstance(first, LatentAttention):
        kinds = ", ".join(dict.fromkeys(block.attention.kind for block in model.blocks))
        raise InputError(
            f"variants of latent attention need a model whose layers all have the same; {model.name}: {kinds}"
        )
    return first


def one_layer(model: ModelSpec) -> ModelSpec:
    """Model with only the attention of one layer."""
    block = model.blocks[0].replace(layers=1, feed_forward={"kind": "none"})
    sources = {key: source for key, source in model.sources.items() if not key.startswith("blocks.")}
    return model.replace(blocks=(block,), vocab_size=0, sources=sources)


def layout(tp: float, dp: float, ep: float, batch: float, new_tokens: float = 1) -> Plans:
    """Deployment without pipeline parallelism."""
    ones = np.ones(1)
    return Plans(ones * tp * dp, ones * batch, ones, ones * tp, ones * ep, new_tokens=new_tokens, whole=True)


def fits(setup: Setup, plans: Plans, implementation: Implementation = "absorbed") -> bool:
    """Check whether weights, cache, decompressed keys and values, and additional copies fit in memory.

    Raises
    ------
    InputError
        If the batch does not split over the groups.
    """
    code = int(np.ravel(setup.reasons(plans, setup.assumptions.layout.tensor_layouts[0]))[0])
    if code == memory.DIVIDE:
        raise InputError(f"batch {plans.batch[0]:g} of {setup.model.name}: {memory.REASONS[code]}")
    weights, cache, available = setup.memory(plans).of_one_plan()
    return code == memory.FITS and weights + cache + _kept_besides(setup, plans, implementation) <= available


def layer_bytes(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Memory of one layer: cache, and copies or decompressed keys and values [B]."""
    needed = setup.memory(plans)
    held = needed.of_one_plan()[1] + float(np.ravel(needed.workspace_bytes)[0])
    return held + _copies(setup, plans, implementation)


def layer_seconds(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Time of the attention operators of one layer on one chip [s].

    Parameters
    ----------
    setup : Setup
        Setup of :func:`one_layer`, under the base variant of the implementation.
    plans : Plans
        One deployment.
    implementation : str
        See :data:`VARIANTS`.
    """
    table = OperatorTable(setup, plans)
    names = {row.name for block in setup.model.blocks for row in mixer(table, block)}
    work = setup.work(plans)
    rows = _rows(table, work.operators, implementation)
    costs = costs_of(setup, replace(work, operators=tuple(rows)), setup.assumptions.layout.tensor_layouts[0])
    return sum(row.seconds for row in costs if row.name in names)


def _rows(table: OperatorTable, rows: tuple[Operator, ...], implementation: Implementation) -> Iterator[Operator]:
    """Operator table of an implementation, derived from the table of its base variant."""
    changed = {"absorbed_unfused": _unfused, "absorbed_copied": _copied, "absorbed_multiplied": _multiplied}.get(
        implementation
    )
    spec = table.model.blocks[0].attention
    for row in rows:
        yield changed(table, spec, row) if changed is not None and isinstance(spec, LatentAttention) else row


def _unfused(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Replace fused attention by separate products, as in PyTorch.

    Scores pass through memory, and latents are read once for keys and once for values. The scores are two products that
    are added, scaled, converted to weights in 32 bits, and rounded. With several sequences, the rotary keys are copied
    for every head, because the matrix product requires it.
    """
    if row.name != "attention":
        return row
    width, sequences = table.activation_width, table.plans.micro_batch
    scores = spec.query_heads * (10.0 * width + 2.0 * BYTES_PER_ELEMENT["fp32"])
    rotary = np.where(sequences > 1.0, 2.0 * spec.query_heads * spec.rope_head_dim * width, 0.0)
    moved = spec.kv_rank * width + scores * table.plans.new_tokens + rotary
    return row._replace(
        kv_bytes_per_sequence=row.kv_bytes_per_sequence + moved * (table.context + table.plans.new_tokens),
        launches=row.launches + 6.0,
    )


def _copied(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Add the traffic of concatenated queries and keys of every head: they are written, and read by the product."""
    if row.name != "attention":
        return row
    moved = 2.0 * spec.query_heads * (spec.kv_rank + spec.rope_head_dim) * table.activation_width
    return row._replace(
        activation_bytes_per_token=row.activation_bytes_per_token + moved,
        kv_bytes_per_sequence=row.kv_bytes_per_sequence + moved * (table.context + table.plans.new_tokens),
        launches=row.launches + 4.0,
    )


def _multiplied(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Multiply the key matrix into the query projection, and the value matrix into the output projection."""
    if row.name == "attention":
        return _unfused(table, spec, row)
    if row.name == "latent up":
        rows, columns = _queries_multiplied(spec)
        return table.projection(row.name, [(rows, columns)], launches=2.0)._replace(attention="latent")
    if row.name == "attention output":
        shape = (table.hidden, float(spec.query_heads * spec.kv_rank))
        return table.projection(row.name, [shape], output=True)._replace(attention="latent")
    return row


def _queries_multiplied(spec: LatentAttention) -> tuple[float, float]:
    """Shape of the query projection multiplied with the key up-projection, including the rotary part."""
    if spec.query_rank is None:
        raise InputError("absorbed_multiplied needs a model that compresses its queries (query_rank)")
    return float(spec.query_heads * (spec.kv_rank + spec.rope_head_dim)), float(spec.query_rank)


def _kept_besides(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Additional memory of an implementation compared with its base variant [B]."""
    larger = _larger_weights(setup) if implementation == "absorbed_multiplied" else 0.0
    return larger + _copies(setup, plans, implementation)


def _copies(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Concatenated keys of all heads of one layer for all sequences, or only their rotary parts [B]."""
    spec, batch = latent(setup.model), float(plans.batch[0])
    elements = {
        "absorbed_copied": spec.kv_rank + spec.rope_head_dim,
        "absorbed_unfused": spec.rope_head_dim if batch > 1.0 else 0,
        "absorbed_multiplied": spec.rope_head_dim if batch > 1.0 else 0,
    }.get(implementation, 0)
    tokens = batch * (setup.context + plans.new_tokens)
    return tokens * spec.query_heads * elements * BYTES_PER_ELEMENT[setup.precision.activations]


def _larger_weights(setup: Setup) -> float:
    """Additional memory of multiplied projections compared with consecutive ones, in all layers [B]."""
    spec, hidden = latent(setup.model), float(setup.model.hidden_size)
    rows, columns = _queries_multiplied(spec)
    _, up, output = spec.projections(hidden)
    added = rows * columns + spec.query_heads * spec.kv_rank * hidden - up - output
    return setup.model.layers * added * BYTES_PER_ELEMENT[setup.precision.attention]


def flop(setup: Setup, context: float, new_tokens: float = 1) -> float:
    """Work of a step of one sequence over all layers [FLOP]."""
    work = replace(setup, context=context).work(layout(1, 1, 1, 1, new_tokens))
    return sum(
        float(np.ravel(row.repeats * (row.flop_per_token * new_tokens + row.flop_per_sequence))[0])
        for row in work.operators
    )


def cache_bytes(setup: Setup, context: float) -> float:
    """Cache of one sequence over all layers [B]."""
    return replace(setup, context=context).memory(layout(1, 1, 1, 1)).of_one_plan()[1]


def of_a_token(setup: Setup) -> tuple[float, float]:
    """Cache [B] and decode work [FLOP] per token of context, over all layers."""
    # The cache is allocated in blocks of tokens.
    block = float(setup.assumptions.capacity.kv_block)
    added = cache_bytes(setup, 2 * block) - cache_bytes(setup, block)
    return added / block, (flop(setup, 2 * block) - flop(setup, block)) / block
