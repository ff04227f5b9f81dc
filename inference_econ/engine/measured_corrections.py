"""Levels of measured servers where a setup is like them: what steps take over what operators say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

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
)

if TYPE_CHECKING:
    from inference_econ._types import Array


class KnownLayouts(NamedTuple):
    """Layouts that measured servers of a model on a GPU had under any engine, without expert ranks."""

    aggregated: frozenset[str]
    decode: frozenset[str]
    """Of disaggregated servers."""
    prefill: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetupLevels:
    """Levels of measured servers of an engine that a model on a chip has: factors of every step of a setup.

    Attributes
    ----------
    engine : str
        Of the measurements.
    widest : MeasuredLevel or None
        Of the version that is asked about, or, where that was not measured, of the model on the chip; None where the
        two were not measured.
    versions : tuple of MeasuredVersion
        That were measured of the model on the chip.
    ways : tuple of MeasuredWay
        Ways of serving that were measured of the version; none where it was not.
    shared : tuple of SharedLevel
        Levels of all models and chips, which count where tokens are proposed.
    weights : str
        Number format that is asked about.
    apart, speculates : bool
        The way of serving that is asked about.
    pull : (float, float)
        ln of the factors on decode and prefill steps that pull an engine that was not measured for the model on the
        GPU towards the others, see :mod:`inference_econ.engine.posterior` [1].
    known : KnownLayouts or None
        Layouts that were measured of the model on the GPU, under any engine; None where that does not count.
    unknown : float
        ln of the factor on steps of all other layouts [1].
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

    @classmethod
    def of(
        cls,
        levels: MeasuredLevels | None,
        model: ModelSpec,
        hardware: HardwareSpec,
        precision: Precision,
        version: str | None,
    ) -> SetupLevels | None:
        """The levels of a model on a chip under a version of the engine; None where nothing like it was measured.

        Where no version is meant, or it was not recorded, and no measurement lacks it either, the newest that facts are
        known of is taken.
        """
        if levels is None:
            return None
        weights, shared = precision.experts if has_experts(model) else precision.weights, levels.shared
        subject = levels.of(model.name, hardware.name)
        if subject is None:
            return cls(levels.engine, None, (), (), shared, weights) if shared else None
        measured = next((entry for entry in subject.versions if entry.version == version), None)
        if measured is None and not version:
            newest = catalog.engine(levels.engine).at().version
            measured = next((entry for entry in subject.versions if entry.version == newest), None)
        ways = () if measured is None else measured.ways
        return cls(levels.engine, measured or subject, subject.versions, ways, shared, weights)

    @property
    def version(self) -> str | None:
        """The version, if it was measured."""
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
        """Layouts that were measured of this way of serving, in this format, under any version."""
        alike = self._alike(way for version in self.versions for way in version.ways)
        return frozenset(entry.layout for way in alike for entry in way.deployments if entry.weights == self.weights)

    @property
    def counted(self) -> tuple[SharedLevel, ...]:
        """Levels of all models and chips that count for this way of serving."""
        return self.shared if self.speculates else ()

    @property
    def _beside(self) -> float:
        return sum(level.decode for level in self.counted)

    def level(self, layout: str) -> MeasuredLevel | None:
        """The nearest to an instance of some layout, as :func:`layout_key` has it; those of all models beside it."""
        nearest = self._nearest(layout)
        if nearest is not None:
            return nearest.replace(decode=nearest.decode + self._beside) if self.counted else nearest
        rows = sum(level.rows for level in self.counted)
        return MeasuredLevel(rows=rows, decode=self._beside, prefill=0.0) if rows else None

    def _nearest(self, layout: str) -> MeasuredLevel | None:
        bare = bare_key(layout)
        return next((level for level in self._deployments if level.layout == bare), self._way or self.widest)

    def unseen(self, layouts: Sequence[str]) -> Unseen | None:
        """Return what the level of the least known of some layouts has not seen; of none, of a new layout.

        None where the model was not measured on the chip: errors of the profile speak for it.
        """
        if self.widest is None:
            return None
        nearest = [self._nearest(layout) for layout in layouts]
        if nearest and all(isinstance(level, MeasuredDeployment) for level in nearest):
            return "load"
        if self._way is not None:
            return "deployment"
        return "version" if self.version is None else "way"

    def factor(self, plans: Plans, layout: LayoutAssumptions, *, prefill: bool) -> Array | float:
        """Seconds over those that operators say, of steps that decode or read prompts, broadcastable to (...) [1]."""
        widest, beside = self._way or self.widest, 0.0 if prefill else self._beside
        log = 0.0 if widest is None else widest.prefill if prefill else widest.decode
        factor: Array | float = math.exp(log + beside + self.pull[prefill])
        groups = attention_groups(plans, layout)

        def is_of(key: str) -> Array:
            degrees = key_degrees(key)
            same = (plans.attention_ranks == degrees["tp"]) & (plans.pp == degrees["pp"])
            return np.asarray(same & (groups == degrees["dp"]))

        if self.unknown and self.known is not None:
            apart = self.known.prefill if prefill else self.known.decode
            known = [is_of(key) for key in (apart if self.apart else self.known.aggregated)]
            factor = np.where(np.logical_or.reduce(known) if known else False, factor, factor * math.exp(self.unknown))
        for level in self._deployments:
            of_setup = math.exp(beside + (level.prefill if prefill else level.decode))
            factor = np.where(is_of(level.layout), of_setup, factor)
        return factor

    def takes_as(self, other: SetupLevels) -> bool:
        """Return whether every step takes as long as under the levels of another way of serving the same setup."""
        mine, others = ((it._way or it.widest, it._deployments, it.pull, it._known) for it in (self, other))
        return mine == others

    @property
    def _known(self) -> frozenset[str] | None:
        """Measured layouts of instances that decode, of this way of serving; None where they do not count."""
        if self.known is None or not self.unknown:
            return None
        return self.known.decode if self.apart else self.known.aggregated

    def served(self, *, apart: bool = False, speculates: bool = False) -> SetupLevels:
        """Return the levels for instances that only read prompts or only decode, or that speculate."""
        pull = (0.0, 0.0) if speculates else self.pull
        return replace(self, apart=self.apart or apart, speculates=self.speculates or speculates, pull=pull)
