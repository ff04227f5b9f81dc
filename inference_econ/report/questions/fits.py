"""Page with the memory check of a model on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.fits import Fits
from inference_econ.records.texts import assumptions_label
from inference_econ.report.fields import view
from inference_econ.report.headings import basis_label, enumerated, heading, lengths_label
from inference_econ.report.notes import cpu_notes, one_gpu_notes
from inference_econ.report.page import AnswerPage, Table


class FitsPage(AnswerPage[Fits]):
    """Page that shows the instance sizes in which a model fits."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per instance size."""
        answer, most = self.answer, self.answer.setup.model.max_context
        notes = []
        if most is not None and any(fit.largest_context >= most for fit in answer.instances):
            notes.append(f"The model supports at most {most:,} tokens per request.")
        setups = self.setups()
        if answer.instances[0].service.accelerators > 1:
            notes += one_gpu_notes(replace(answer.setup, context=answer.requests.longest, spread=0.0))
        notes += cpu_notes(answer.setup)
        records = [{**record, "engine": record["layout"].get("engine")} for record in answer.records()]
        differing = ["engine"] if any(record["engine"] for record in records) else []
        differing += ["kv"] if len({setup.precision.kv for setup in setups}) > 1 else []
        columns = ["accelerators", "layout", *differing, "slots", "largest_context", "cached_tokens"]
        title = heading("Instances that fit", setups, [lengths_label(answer.requests)])
        why = (
            f"'slots': number of concurrent requests of average length that fit. {_slot_tokens(answer)}",
            "'longest request': tokens of a request that runs alone. 'KV tokens': capacity for requests of average "
            "length. A longer request may fit if the model caches fewer bytes per token of long requests.",
            f"Assumptions: {assumptions_label(setups)}.",
            *dict.fromkeys(map(basis_label, setups)),
        )
        return (view(title, records, [*columns, "weight_bytes"], kind="fit", notes=notes, why=why),)


def _slot_tokens(answer: Fits) -> str:
    """Sentence on the tokens that a request takes, by engine, with the output that the engine reserves."""
    engines: dict[str, dict[str, None]] = {}
    for fit in answer.instances:
        engine = layout_of(fit.service).get("engine")
        engines.setdefault(f"{fit.slot_tokens:,.0f}", {}).update({} if engine is None else {str(engine): None})
    listed = (f"{tokens} ({', '.join(names)})" if names else tokens for tokens, names in engines.items())
    return f"A request takes {enumerated(listed)} tokens, including reserved output."
