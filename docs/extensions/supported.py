"""Tables of the engines, GPUs and models of the catalog, made when the pages are built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from inference_econ.engine import evidence
from inference_econ.inputs import catalog

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from inference_econ.inputs.engine_specs import ModelSupport

#: Engines for servers, then engines for desktop machines.
ENGINES = ("vllm", "sglang", "trtllm", "llama_cpp", "mlx")


class Supported(SphinxDirective):
    """Print the table of one kind of entry: engines, GPUs or models."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the Markdown of the table with the parser of the page."""
        lines = {"engines": _engines, "gpus": _gpus, "models": _models}[self.arguments[0]]()
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(StringList([*lines], source="catalog"), self.content_offset, section)
        return list(section.children)


def _engines() -> Iterator[str]:
    yield from ("| name | newest known version | GPU generations |", "|---|---|---|")
    for name in ENGINES:
        engine = catalog.engine(name).at()
        generations = sorted({generation for chip in engine.chips for generation in chip.generations})
        yield f"| `{name}` | {engine.version} | {', '.join(generations)} |"


def _gpus() -> Iterator[str]:
    yield from ("| name | GPU | generation | memory (GB) | engines | benchmark runs |", "|---|---|---|---:|---|---:|")
    for name in (name for name in catalog.gpus() if "/" not in name):
        gpu = catalog.hardware(name)
        engines = ", ".join(it for it in ENGINES if catalog.engine(it).at().kernels_on(gpu.generation))
        yield (
            f"| `{name}` | {gpu.name} | {gpu.generation} | {gpu.hbm_bytes / 1e9:.3g} | {engines} "
            f"| {_runs('hardware', gpu.name)} |"
        )


def _models() -> Iterator[str]:
    yield from ("| name | model | parameters (10^9) | engines | benchmark runs |", "|---|---|---:|---|---:|")
    for name in (name for name in catalog.models() if "/" not in name):
        model = catalog.model(name)
        known = [it for it in ENGINES if any(model.architecture in row.architectures for row in _models_of(it))]
        size = f"{model.total_parameters / 1e9:.4g}"
        yield f"| `{name}` | {model.name} | {size} | {', '.join(known)} | {_runs('model', model.name)} |"


def _models_of(engine: str) -> Iterable[ModelSupport]:
    return catalog.engine(engine).at().models


def _runs(column: str, name: str) -> int:
    """Benchmark runs of all engines in the calibration data."""
    return sum(int(row["runs"]) for row in evidence.runs().lines if row[column] == name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("supported", Supported)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
