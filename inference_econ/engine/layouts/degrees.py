"""Degrees of plans under the names that pins have, so that a layout can be given back."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, attention_groups
from inference_econ.inputs import LayoutAssumptions

#: A degree in a :func:`layout_key`.
_DEGREE = re.compile(r"(tp|dp|pp|ep)(\d[\d.]*)")


def layout_columns(
    plans: Plans, cut: npt.NDArray[np.str_], assumptions: LayoutAssumptions
) -> dict[str, list[float] | list[str]]:
    """The degrees of n plans, each as a list; whole ones are whole numbers, and only published grids have others.

    A stage has tp x dp = moe_tp x ep chips; in the published study only tp of them work on attention and the others
    wait, so that moe_tp x ep is more.

    Parameters
    ----------
    plans : Plans
        Deployments, shape (n,).
    cut : ndarray of str, shape (n,)
        How their matrices are cut.
    assumptions : LayoutAssumptions
        Whether groups of attention ranks share the batch.
    """
    stage, ranks, ep = plans.stage, plans.attention_ranks, plans.ep
    groups = np.broadcast_to(attention_groups(plans, assumptions), plans.shape)
    columns = {"tp": ranks, "dp": groups, "pp": plans.pp}
    if ep is not None:
        columns |= {"ep": ep, "moe_tp": stage / ep}
    if plans.dcp > 1:
        columns["dcp"] = np.full(plans.shape, plans.dcp)
    return {**{name: _whole(values) for name, values in {**columns, "stage": stage}.items()}, "cut": cut.tolist()}


def _whole(values: Array) -> list[float]:
    return [int(value) if value.is_integer() else value for value in values.astype(float).tolist()]


def layout_key(tp: float, dp: float, pp: float, ep: float = 1.0) -> str:
    """How a layout is named: attention ranks, groups of them with sequences of their own, stages, expert ranks.

    Examples
    --------
    >>> layout_key(2, 4, 1), layout_key(1, 1, 1), layout_key(8, 1, 1, 8)
    ('tp2dp4', 'tp1', 'tp8ep8')
    """
    further = (("dp", dp), ("pp", pp), ("ep", ep))
    return f"tp{tp:g}" + "".join(f"{name}{degree:g}" for name, degree in further if degree != 1)


def key_degrees(key: str) -> dict[str, float]:
    """The degrees of a :func:`layout_key`; those that it does not name are 1.

    Examples
    --------
    >>> key_degrees("tp2dp4")
    {'tp': 2.0, 'dp': 4.0, 'pp': 1.0, 'ep': 1.0}
    """
    named = {name: float(degree) for name, degree in _DEGREE.findall(key)}
    return {name: named.get(name, 1.0) for name in ("tp", "dp", "pp", "ep")}


def bare_key(key: str) -> str:
    """A :func:`layout_key` without its expert ranks, which are not always recorded.

    Examples
    --------
    >>> bare_key("tp2dp4ep8")
    'tp2dp4'
    """
    degrees = key_degrees(key)
    return layout_key(degrees["tp"], degrees["dp"], degrees["pp"])


def recorded_key(layout: Mapping[str, float | str]) -> str:
    """The :func:`layout_key` of degrees as :func:`layout_record` gives them.

    Examples
    --------
    >>> recorded_key({"tp": 2.0, "dp": 4.0, "pp": 1.0, "cut": "1d"})
    'tp2dp4'
    """
    return layout_key(*(float(layout.get(name, 1.0)) for name in ("tp", "dp", "pp", "ep")))


def layout_keys(plans: Plans, assumptions: LayoutAssumptions) -> list[str]:
    """The :func:`layout_key` of each of n plans."""
    groups = np.broadcast_to(attention_groups(plans, assumptions), plans.shape)
    ep = 1.0 if plans.ep is None else plans.ep
    degrees = np.stack(np.broadcast_arrays(plans.attention_ranks, groups, plans.pp, ep), axis=-1)
    return [layout_key(*plan) for plan in degrees.tolist()]
