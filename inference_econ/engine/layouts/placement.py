"""Where the ranks of a stage lie: how many link domains a group of them spans."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def domains_spanned(ranks: npt.ArrayLike, stride: npt.ArrayLike, stage: npt.ArrayLike, link_domain: int) -> Array:
    """Link domains that a group of ranks touches.

    Parameters
    ----------
    ranks : array_like, shape (...)
        Members of each group [1].
    stride : array_like, shape (...)
        Chips from one member to the next: 1 where the members lie side by side, or the size of the groups inside
        [1].
    stage : array_like, shape (...)
        Chips of the stage, which the groups fill one after the other [1].
    link_domain : int
        Chips that share the fast link [1].

    Returns
    -------
    ndarray, shape (...)
        [1]; never more than the members, nor than the domains of the stage.

    Notes
    -----
    A stage begins with a domain. Of a domain a group can have ``link_domain / stride`` chips, c, so that R members
    touch R / c domains, rounded up. Groups that would straddle a border begin with the next domain: what stays empty of
    the one before is as if domains were smaller, so that larger ones are never used worse. Two groups that cut a stage
    both ways (tensor and expert parallelism) cannot both lie inside a domain that is smaller than it.

    Examples
    --------
    Eight groups of 4 side by side on 32 chips in domains of 8, and what cuts across them; groups of 3; of 12:

    >>> [float(domains_spanned(*group, 8)) for group in ((4, 1, 32), (8, 4, 32), (3, 1, 24), (12, 1, 24))]
    [1.0, 4.0, 1.0, 2.0]
    """
    if np.all(np.less_equal(stage, link_domain)):
        return np.ones(np.broadcast_shapes(np.shape(ranks), np.shape(stride), np.shape(stage)))
    members, apart = np.asarray(ranks, dtype=float), np.asarray(stride, dtype=float)
    touched = np.ceil(members / np.maximum(np.floor(link_domain / apart), 1.0))
    most = np.minimum(np.ceil(np.asarray(stage) / link_domain), np.maximum(np.ceil(members), 1.0))
    # From its first chip to its last a group reaches over so many domains at most.
    reached = np.ceil(np.maximum(members - 1.0, 0.0) * apart / link_domain) + 1.0
    return np.asarray(np.minimum(np.minimum(touched, reached), most))
