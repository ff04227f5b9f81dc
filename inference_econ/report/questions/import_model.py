"""Page of an imported model, with its parameters by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.engine import unknown_share
from inference_econ.engine.memory import weight_bytes
from inference_econ.inputs import ModelSpec, Precision
from inference_econ.inputs.huggingface import OUTSIDE, Checkpoint
from inference_econ.records.plain import attributes
from inference_econ.report.notes import LEFT_OUT
from inference_econ.report.page import Page, Table

#: Quantities of the summary other than parameters.
_COUNTED = (
    "active_parameters_without_input_embedding kv_elements_per_token index_elements_per_token "
    "window_elements_per_token state_elements_per_sequence"
)
_FORMATS = (
    "weights expert_weights shared_expert_weights attention_weights attention_output_weights embedding_weights kv"
)
#: Maximum number of tensor names that are listed to explain a difference [1].
_NAMED = 6


@dataclass(frozen=True)
class ImportedModelPage(Page):
    """Page that shows an imported model."""

    model: ModelSpec
    checkpoint: Checkpoint | None = None
    """Checkpoint files whose size is compared with the configuration; None if there are none."""

    def tables(self) -> Sequence[Table]:
        """Tables of the known parameters, of unknown parameters, and of the checkpoint."""
        model, shown = self.model, [model_table(self.model)]
        if model.unknown:
            # Groups of tensors with their parameters, and keys.
            share = unknown_share(model)
            sentences = {
                "Results assume that a step reads each of these parameters once and multiplies it with every token. "
                "Intervals also include two other cases: a step skips them, or multiplies them without a read (up to "
                f"{share:.1%} of a step less or more).": bool(share),
                "Tensors with more rows than the vocabulary are lookup tables. They take memory, but no time.": any(
                    part.looked_up for part in model.unknown
                ),
                "Results ignore unknown keys that add no parameters.": not all(
                    part.parameters for part in model.unknown
                ),
            }
            notes = tuple(text for text, holds in sentences.items() if holds)
            rows = [(part.name, f"{part.parameters:,}" if part.parameters else "-") for part in model.unknown]
            shown.append(Table("What is unknown", ("what", "parameters"), tuple(rows), notes))
        return shown if self.checkpoint is None else [*shown, stored_table(model, self.checkpoint)]

    def record(self) -> object:
        """Return a summary of the model, by name of a field or property."""
        model, blocks = self.model, list[dict[str, object]]()
        for block in model.blocks:
            spec = block.feed_forward
            blocks.append({"layers": block.layers, "attention": block.attention.kind, "feed_forward": spec.kind})
            if spec.kind == "experts" and spec.routing_groups is not None:
                blocks[-1] |= {"routing_groups": spec.routing_groups, "active_groups": spec.active_groups}
        return {
            **attributes(model, "name huggingface_id layers"),
            "blocks": blocks,
            "parameter_parts": {part: round(count) for part, count in model.parameter_parts().items()},
            **attributes(model, f"total_parameters active_parameters {_COUNTED} mtp_layers"),
            "unknown": {part.name: part.parameters for part in model.unknown},
            "left_out": list(model.left_out),
            "max_context": model.max_context,
            **{name: form for name, form in attributes(model, _FORMATS).items() if form is not None},
            **({} if self.checkpoint is None else {"checkpoint": stored_record(model, self.checkpoint)}),
        }


def stored_record(model: ModelSpec, checkpoint: Checkpoint) -> dict[str, object]:
    """Return the sizes of a checkpoint, and the difference from the parameter count of the model."""
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
    """Number of stored text parameters that the parameter count omits [1]; None if tensor shapes are unknown."""
    if checkpoint.packed or not checkpoint.elements:
        return None
    return sum(count for part, count in checkpoint.parameters.items() if part not in OUTSIDE) - model.total_parameters


def stored_table(model: ModelSpec, checkpoint: Checkpoint) -> Table:
    """Table that compares a checkpoint with the parameter count: total, parts, and tensor names if both differ."""
    checkpoint = checkpoint.apart({part.name for part in model.unknown})
    uncounted, parts = _uncounted(model, checkpoint), checkpoint.parameters
    counted = {part: round(count) for part, count in model.parameter_parts().items()}
    rows, notes = [], []
    if checkpoint.size is not None:
        counted_bytes = weight_bytes(model, Precision.of(model))
        rows.append(("bytes of all tensors", f"{checkpoint.size:,.0f}", f"{counted_bytes:,.0f}"))
    rows += [
        (f"parameters: {part.replace('_', ' ')}", f"{parts.get(part, 0):,}", f"{counted.get(part, 0):,}")
        for part in (dict.fromkeys([*counted, *parts]) if parts and not checkpoint.packed else ())
    ]
    if uncounted is None:
        packed = "elements of its tensors contain several parameters"
        notes.append(
            f"The checkpoint cannot be compared: {packed if checkpoint.packed else 'no file has its tensor shapes'}."
        )
    elif not uncounted:
        notes.append("The checkpoint has exactly the counted parameters.")
    else:
        off = {part for part, count in parts.items() if count != counted.get(part, 0)} - OUTSIDE
        names = [(count, name) for (part, name), count in checkpoint.elements.items() if part in off]
        listed = ", ".join(f"{name} {count:,}" for count, name in sorted(names, reverse=True)[:_NAMED])
        lacking = "stored but not counted" if uncounted > 0 else "counted but not stored"
        notes.append(f"{abs(uncounted):,} parameters are {lacking}. They belong to these tensors: {listed}.")
        if uncounted > 0:
            notes.append(
                "If a step reads each of them once, the weights per token grow by up to "
                f"{uncounted / model.active_parameters:.1%}."
            )
    return Table("The checkpoint", ("what", "stored", "counted"), tuple(rows), tuple(notes))


def model_table(model: ModelSpec) -> Table:
    """Table with the summary of a model: parameters, KV cache, and formats."""
    parts = model.parameter_parts()
    experts = [block for block in model.blocks if block.feed_forward.routed_experts]
    if experts and "feed_forward" in parts:
        # Experts are listed separately from the other feed-forward parameters.
        apart = sum(block.layers * block.feed_forward.parameters(model.hidden_size).total for block in experts)
        dense = parts["feed_forward"] - apart
        split = {"dense feed-forward": dense, "experts": apart} if dense > 0 else {"experts": apart}
        parts = {
            name: value
            for part, count in parts.items()
            for name, value in (split if part == "feed_forward" else {part: count}).items()
        }
    rows = [(f"parameters: {part.replace('_', ' ')}", f"{count:,.0f}") for part, count in parts.items()]
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
    rows += [
        (name.replace("_", " "), str(form)) for name, form in attributes(model, _FORMATS).items() if form is not None
    ]
    notes = [LEFT_OUT.format(model.name, ", ".join(model.left_out))] if model.left_out else []
    notes += [f"{model.equal_remark}."] if model.equal_remark else []
    return Table(model.huggingface_id or model.name, ("what", "value"), tuple(rows), tuple(notes))


def _layers(count: int) -> str:
    return f"{count} layer" if count == 1 else f"{count} layers"
