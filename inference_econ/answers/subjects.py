"""Subjects of answers about services: which instances, under which loads."""

from __future__ import annotations

from collections.abc import Iterable

from inference_econ.answers.candidates import label_of
from inference_econ.engine import Instances, layout_keys
from inference_econ.serving import Loaded, Service


def under_load(shown: Iterable[tuple[Service, Loaded]]) -> tuple[Instances, ...]:
    """Instances of services under load, by kind of chip.

    Parameters
    ----------
    shown : iterable of (Service, Loaded)
        Services that serve the same model to the same requests, each with its load.

    Returns
    -------
    tuple of Instances
        One entry per kind of chip and practice, labelled if there are several.
    """
    kinds: dict[tuple[str, str], list[tuple[Service, Loaded]]] = {}
    for service, load in shown:
        practice = label_of(service.setup, service.speculation, apart=False)
        kinds.setdefault((service.setup.hardware.name, practice), []).append((service, load))
    several = [len({kind[part] for kind in kinds}) > 1 for part in (0, 1)]
    return tuple(
        _alike(pairs, ", ".join(name for name, shown in zip(kind, several, strict=True) if shown))
        for kind, pairs in kinds.items()
    )


def _alike(pairs: list[tuple[Service, Loaded]], label: str) -> Instances:
    service, _ = pairs[0]
    return Instances(
        service.setup,
        [float(service.accelerators) for service, _ in pairs],
        [load.in_flight for _, load in pairs],
        service.requests.isl.mean,
        service.requests.osl.mean,
        speculates=service.speculation is not None,
        label=label,
        layouts=[
            key
            for layouts_alike, _ in pairs
            for key in layout_keys(layouts_alike.plans, layouts_alike.setup.assumptions.layout)
        ],
    )
