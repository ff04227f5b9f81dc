"""A model that was imported, as a table and as data: how its parameters are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.notes import LEFT_OUT
from inference_econ.engine import unknown_share
from inference_econ.engine.memory import weight_bytes
from inference_econ.inputs import Block, ModelSpec, Precision
from inference_econ.inputs.huggingface import OUTSIDE, Checkpoint
from inference_econ.records.plain import attributes
from inference_econ.report.page import Page, Table

#: What is counted beside parameters.
_COUNTED = (
    "active_parameters_without_input_embedding kv_elements_per_token index_elements_per_token "
    "window_elements_per_token state_elements_per_sequence"
)
#: Names of tensors that may be why counts differ [1].
_NAMED = 6


@dataclass(frozen=True)
class ImportedModelPage(Page):
    """A model, ready to be shown."""

    model: ModelSpec
    checkpoint: Checkpoint | None = None
    """Checkpoint beside its configuration."""

    def tables(self) -> Sequence[Table]:
        """Tables of what is counted, of what is cached, of the formats, and of the checkpoint."""
        table = model_table(self.model)
        unknown = (unknown_table(self.model),) if self.model.unknown else ()
        checked = () if self.checkpoint is None else (stored_table(self.model, self.checkpoint),)
        return (table, *unknown, *checked)

    def record(self) -> object:
        """The summary; the keys are the names of fields and properties."""
        record = model_record(self.model)
        return (
            record if self.checkpoint is None else record | {"checkpoint": stored_record(self.model, self.checkpoint)}
        )


def model_record(model: ModelSpec) -> dict[str, object]:
    """The summary as plain data; the keys are the names of fields and properties."""
    return {
        **attributes(model, "name huggingface_id layers"),
        "blocks": [_block(block) for block in model.blocks],
        "parameter_parts": {part: round(count) for part, count in model.parameter_parts().items()},
        **attributes(model, f"total_parameters active_parameters {_COUNTED} mtp_layers"),
        "unknown": {part.name: part.parameters for part in model.unknown},
        "left_out": list(model.left_out),
        "max_context": model.max_context,
        **_formats(model),
    }


def _block(block: Block) -> dict[str, object]:
    spec = block.feed_forward
    record: dict[str, object] = {"layers": block.layers, "attention": block.attention.kind, "feed_forward": spec.kind}
    if spec.kind == "experts" and spec.routing_groups is not None:
        record |= {"routing_groups": spec.routing_groups, "active_groups": spec.active_groups}
    return record


def _formats(model: ModelSpec) -> dict[str, str]:
    groups = ("expert_weights", "shared_expert_weights", "attention_weights", "attention_output_weights")
    fields = ("weights", *groups, "embedding_weights", "kv")
    return {field: value for field in fields if (value := getattr(model, field)) is not None}


def stored_record(model: ModelSpec, checkpoint: Checkpoint) -> dict[str, object]:
    """Record of a checkpoint beside what is counted."""
    uncounted = _uncounted(model, checkpoint)
    return {
        "bytes": checkpoint.size,
        "counted_bytes": weight_bytes(model, Precision.of(model)),
        "parameters": checkpoint.parameters,
        "packed_tensors": checkpoint.packed,
        "uncounted_parameters": uncounted,
        "most_further_reads": None if uncounted is None else max(uncounted, 0) / model.active_parameters,
    }


def _uncounted(model: ModelSpec, checkpoint: Checkpoint) -> int | None:
    """Parameters of the text that are stored and not counted; None if shapes do not say."""
    if checkpoint.packed or not checkpoint.elements:
        return None
    return sum(count for part, count in checkpoint.parameters.items() if part not in OUTSIDE) - model.total_parameters


def stored_table(model: ModelSpec, checkpoint: Checkpoint) -> Table:
    """Table of a checkpoint beside what is counted: all of it, its parts, and names where they differ."""
    checkpoint = checkpoint.apart({part.name for part in model.unknown})
    uncounted, parts, notes = _uncounted(model, checkpoint), checkpoint.parameters, []
    counted = {part: round(count) for part, count in model.parameter_parts().items()}
    counted_bytes = weight_bytes(model, Precision.of(model))
    rows = (
        []
        if checkpoint.size is None
        else [("bytes of all tensors", f"{checkpoint.size:,.0f}", f"{counted_bytes:,.0f}")]
    )
    rows += [
        (f"parameters: {part.replace('_', ' ')}", f"{parts.get(part, 0):,}", f"{counted.get(part, 0):,}")
        for part in (dict.fromkeys([*counted, *parts]) if parts and not checkpoint.packed else ())
    ]
    if uncounted is None:
        why = (
            "tensors hold several parameters in an element" if checkpoint.packed else "no file with shapes is beside it"
        )
        notes.append(f"Parameters are not compared: {why}.")
    elif not uncounted:
        notes.append("The checkpoint holds what is counted.")
    else:
        notes += _difference(model, checkpoint, uncounted)
    return Table("The checkpoint", ("what", "stored", "counted"), tuple(rows), tuple(notes))


def unknown_table(model: ModelSpec) -> Table:
    """Table of the unknown parts of a model: families of tensors with their parameters, and keys."""
    share = unknown_share(model)
    note = (
        "They are counted as read once per step and multiplied with every token; intervals of answers hold that they "
        f"take nothing, and that they are multiplied while nothing is read: up to {share:.1%} of a step less or more."
    )
    tables = "Tables of more rows than the vocabulary are looked up: they take room, and are in no step."
    keys = "Of keys that nobody here reads no parameter follows; what else they change is not counted."
    rows = [(part.name, f"{part.parameters:,}" if part.parameters else "-") for part in model.unknown]
    sentences = {note: bool(share), tables: any(part.looked_up for part in model.unknown)}
    sentences[keys] = not all(part.parameters for part in model.unknown)
    notes = [text for text, holds in sentences.items() if holds]
    return Table("What is unknown", ("what", "parameters"), tuple(rows), tuple(notes))


def _difference(model: ModelSpec, checkpoint: Checkpoint, uncounted: int) -> list[str]:
    """Sentences on the parameters by which a checkpoint differs, on the tensors behind them, and on their time."""
    counted = model.parameter_parts()
    off = {part for part, count in checkpoint.parameters.items() if count != round(counted.get(part, 0))} - OUTSIDE
    names = [(count, name) for (part, name), count in checkpoint.elements.items() if part in off]
    listed = ", ".join(f"{name} {count:,}" for count, name in sorted(names, reverse=True)[:_NAMED])
    lacking = "not counted" if uncounted > 0 else "not stored"
    notes = [f"{abs(uncounted):,} parameters are {lacking}; of these parts: {listed}."]
    if uncounted > 0:
        notes.append(
            "A step may read none of them, or each once: up to "
            f"{uncounted / model.active_parameters:.1%} more than the weights of a token."
        )
    return notes


def model_table(model: ModelSpec) -> Table:
    """The summary for people: what is counted, then what is cached, then in which formats."""
    rows = [(f"parameters: {part.replace('_', ' ')}", f"{count:,.0f}") for part, count in _parts(model)]
    rows.append(("parameters, total", f"{model.total_parameters:,}"))
    rows.append(("active per token", f"{model.active_parameters:,}"))
    rows.append(("  without the input embedding", f"{model.active_parameters_without_input_embedding:,}"))
    rows.append(("KV elements per token", f"{model.kv_elements_per_token:,}"))
    others = attributes(model, "index_elements_per_token window_elements_per_token state_elements_per_sequence")
    rows += [(name.replace("_", " "), f"{count:,}") for name, count in others.items() if count]
    rows += [
        (_layers(block.layers), f"{block.attention.summary} + {block.feed_forward.summary}") for block in model.blocks
    ]
    if model.mtp_layers:
        rows.append((_layers(model.mtp_layers), "multi-token prediction (not counted)"))
    if model.max_context is not None:
        rows.append(("longest context", f"{model.max_context:,}"))
    rows += [(field.replace("_", " "), value) for field, value in _formats(model).items()]
    notes = (LEFT_OUT.format(model.name, ", ".join(model.left_out)),) if model.left_out else ()
    return Table(model.huggingface_id or model.name, ("what", "value"), tuple(rows), notes)


def _layers(count: int) -> str:
    return f"{count} layer" if count == 1 else f"{count} layers"


def _parts(model: ModelSpec) -> list[tuple[str, float]]:
    """The parts of the count, with the experts of the feed-forward part apart."""
    experts = [block for block in model.blocks if block.feed_forward.routed_experts]
    parts: list[tuple[str, float]] = []
    for part, count in model.parameter_parts().items():
        if part != "feed_forward" or not experts:
            parts.append((part, count))
            continue
        apart = sum(block.layers * block.feed_forward.parameters(model.hidden_size).total for block in experts)
        parts += [("dense feed-forward", count - apart)] if count > apart else []
        parts.append(("experts", apart))
    return parts
