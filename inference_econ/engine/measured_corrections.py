"""Measured corrections: factors between measured and predicted step times, for servers similar to a setup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inference_econ.engine.layouts.pins import bare_key, key_degrees
from inference_econ.engine.layouts.plans import Plans, attention_groups, has_experts
from inference_econ.inputs import (
    HardwareSpec,
    LayoutAssumptions,
    MeasuredDeployment,
    MeasuredLevel,
    MeasuredLevels,
    MeasuredVersion,
    MeasuredWay,
    ModelSpec,
    Precision,
    SharedLevel,
    Unseen,
    catalog,
    version_order,
)

if TYPE_CHECKING:
    from inference_econ._types import Array


class KnownLayouts(NamedTuple):
    """Layouts of measured servers for a model on a GPU, under any engine.

    Names of layouts do not include expert-parallel degrees.
    """

    aggregated: frozenset[str]
    decode: frozenset[str]
    """Names of the layouts of decode instances in disaggregated servers."""
    prefill: frozenset[str]

    def of(self, *, apart: bool, prefill: bool) -> frozenset[str]:
        """Layouts with measured decode or prefill steps, for disaggregated (``apart``) or aggregated instances.

        If no aggregated server was measured, the layouts of disaggregated servers are returned for aggregated
        instances: both take the same steps. A factor on aggregated instances only would exaggerate the gain of
        disaggregation.
        """
        disaggregated = self.prefill if prefill else self.decode
        return disaggregated if apart else self.aggregated or disaggregated


@cache
def engine_releases(engine: str) -> tuple[str, ...]:
    """Versions in the catalog file of an engine, the oldest first."""
    with catalog.uncopied():
        return tuple(entry.version for entry in catalog.engine(engine).versions)


@dataclass(frozen=True, slots=True)
class SetupLevels:
    """Measured corrections of an engine for a model on a GPU: factors on predicted step times, by similarity.

    Attributes
    ----------
    engine : str
        Engine of the measurements.
    widest : MeasuredLevel or None
        Correction for the engine version over all layouts. If this version was not measured, the correction for the
        model on the GPU over all versions; None if the engine was not measured with the model on the GPU.
    versions : tuple of MeasuredVersion
        Engine versions measured with the model on the GPU.
    ways : tuple of MeasuredWay
        Serving modes measured with the version; empty if the version was not measured.
    shared : tuple of SharedLevel
        Corrections over all models and GPUs: for engine releases up to the setup's release, and for speculative
        decoding.
    weights : str
        Number format of the weights.
    apart, speculates : bool
        True for disaggregated serving, and True with speculative decoding.
    pull : (float, float)
        ln of factors on decode and prefill steps that move predicted times toward the times of other engines [1]. Both
        values are 0 if the engine was measured with the model on the GPU; see :mod:`inference_econ.engine.evidence`.
    known : KnownLayouts or None
        Layouts measured with the model on the GPU, under any engine. None if layouts without measurements have no
        additional factor.
    unknown : float
        ln of the additional factor on step times in layouts without measurements [1].
    newest : str
        Newest measured release of the engine; empty if no release is known.
    ahead : int
        Number of releases in the engine's catalog file after ``newest``, up to the setup's release [1].
    """

    engine: str
    widest: MeasuredLevel | None
    versions: tuple[MeasuredVersion, ...]
    ways: tuple[MeasuredWay, ...]
    shared: tuple[SharedLevel, ...]
    weights: str
    apart: bool = False
    speculates: bool = False
    pull: tuple[float, float] = (0.0, 0.0)
    known: KnownLayouts | None = None
    unknown: float = 0.0
    newest: str = ""
    ahead: int = 0

    @classmethod
    def of(
        cls,
        levels: MeasuredLevels | None,
        model: ModelSpec,
        hardware: HardwareSpec,
        precision: Precision,
        version: str | None,
        release: str | None = None,
    ) -> SetupLevels | None:
        """Corrections of a model on a GPU under an engine version; None if nothing similar was measured.

        If ``version`` is empty, the version was not recorded. If ``version`` is None, the newest version in the catalog
        is used. ``release`` is the catalog entry that describes the version, or empty without such an entry. By
        default, ``release`` is the newest entry up to the version.
        """
        if levels is None:
            return None
        releases = engine_releases(levels.engine)
        told = releases[-1] if version is None else version
        if release is None:
            order = version_order(told or releases[-1])
            release = next((one for one in reversed(releases) if version_order(one) <= order), "")
        passed = {"", *releases[: releases.index(release) + 1 if release else 0]}
        weights = precision.experts if has_experts(model) else precision.weights
        shared = tuple(level for level in levels.shared if level.since in passed)
        known = levels.newest in releases and release in releases
        ahead = max(releases.index(release) - releases.index(levels.newest), 0) if known else 0
        newer: dict[str, Any] = {"newest": levels.newest, "ahead": ahead}
        subject = levels.of(model.known_as, hardware.name)
        if subject is None:
            return cls(levels.engine, None, (), (), shared, weights, **newer) if shared else None
        measured = next((entry for entry in subject.versions if entry.version == told), None)
        ways = () if measured is None else measured.ways
        return cls(levels.engine, measured or subject, subject.versions, ways, shared, weights, **newer)

    @property
    def version(self) -> str | None:
        """Engine version to which the corrections belong; None if this version was not measured."""
        return self.widest.version if isinstance(self.widest, MeasuredVersion) else None

    def _alike(self, ways: Iterable[MeasuredWay]) -> list[MeasuredWay]:
        return [way for way in ways if (way.apart, way.speculates) == (self.apart, self.speculates)]

    @property
    def _way(self) -> MeasuredWay | None:
        return next(iter(self._alike(self.ways)), None)

    @property
    def _deployments(self) -> list[MeasuredDeployment]:
        deployments = () if self._way is None else self._way.deployments
        return [deployment for deployment in deployments if deployment.weights == self.weights]

    @property
    def deployed(self) -> frozenset[str]:
        """Layouts that were measured in this serving mode and weight format, under any version."""
        alike = self._alike(way for version in self.versions for way in version.ways)
        return frozenset(entry.layout for way in alike for entry in way.deployments if entry.weights == self.weights)

    @property
    def counted(self) -> tuple[SharedLevel, ...]:
        """Corrections over all models and GPUs (:attr:`shared`) that apply to this serving mode."""
        return tuple(level for level in self.shared if self.speculates or not level.speculates)

    @property
    def with_speculation(self) -> bool:
        """True if the corrections come from measurements that include servers with speculative decoding."""
        ways = [way.speculates for version in self.versions for way in version.ways]
        return any((*ways, *(level.speculates for level in self.shared)))

    @property
    def _beside(self) -> tuple[float, float]:
        """Product of the shared corrections for decode steps and for prefill steps, as ln of the factors [1]."""
        return sum(level.decode for level in self.counted), sum(level.prefill for level in self.counted)

    def level(self, layout: str) -> MeasuredLevel | None:
        """Most specific correction for a layout (see :func:`layout_key`), multiplied by the shared corrections."""
        nearest = self._nearest(layout)
        decode, prefill = self._beside
        if nearest is not None:
            return nearest.model_copy(update={"decode": nearest.decode + decode, "prefill": nearest.prefill + prefill})
        rows = sum(level.rows for level in self.counted)
        return MeasuredLevel.model_construct(rows=rows, decode=decode, prefill=prefill) if rows else None

    def _nearest(self, layout: str) -> MeasuredLevel | None:
        bare = bare_key(layout)
        return next((level for level in self._deployments if level.layout == bare), self._way or self.widest)

    def unseen(self, layouts: Sequence[str]) -> Unseen:
        """Most general property of the least-measured layout that was never measured with the engine.

        If ``layouts`` is empty, the layout is treated as not measured.
        """
        if self.widest is None:
            return "subject"
        nearest = [self._nearest(layout) for layout in layouts]
        if nearest and all(isinstance(level, MeasuredDeployment) for level in nearest):
            return "load"
        if self._way is not None:
            return "deployment"
        return "version" if self.version is None else "way"

    def factor(self, plans: Plans, layout: LayoutAssumptions, *, prefill: bool) -> Array | float:
        """Factor on the predicted time of decode or prefill steps, broadcastable to the shape of the plans [1]."""
        widest, beside = self._way or self.widest, self._beside[prefill]
        log = 0.0 if widest is None else widest.prefill if prefill else widest.decode
        factor: Array | float = math.exp(log + beside + self.pull[prefill])
        groups = attention_groups(plans, layout)

        def is_of(key: str) -> Array:
            degrees = key_degrees(key)
            same = (plans.attention_ranks == degrees["tp"]) & (plans.pp == degrees["pp"])
            return np.asarray(same & (groups == degrees["dp"]))

        if self.unknown and self.known is not None:
            known = [is_of(key) for key in self.known.of(apart=self.apart, prefill=prefill)]
            factor = np.where(np.logical_or.reduce(known) if known else False, factor, factor * math.exp(self.unknown))
        for level in self._deployments:
            of_setup = math.exp(beside + (level.prefill if prefill else level.decode))
            factor = np.where(is_of(level.layout), of_setup, factor)
        return factor

    def takes_as(self, other: SetupLevels) -> bool:
        """Return True if two sets of corrections give the same step times, apart from shared corrections."""
        mine, others = ((it._way or it.widest, it._deployments, it.pull, it._known) for it in (self, other))
        return mine == others

    @property
    def _known(self) -> frozenset[str] | None:
        """Layouts with measured decode steps, depending on the serving mode.

        The result is None if layouts without measurements have no additional factor.
        """
        if self.known is None or not self.unknown:
            return None
        return self.known.of(apart=self.apart, prefill=False)

    def served(self, *, apart: bool = False, speculates: bool = False) -> SetupLevels:
        """Return the corrections for disaggregated instances (``apart``) or for speculative decoding."""
        pull = (0.0, 0.0) if speculates else self.pull
        return replace(self, apart=self.apart or apart, speculates=self.speculates or speculates, pull=pull)
