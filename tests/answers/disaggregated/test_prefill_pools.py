"""Prefill instances in front of decode instances: a larger group has to save more than 5 %."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.answers.disaggregated.prefill_pools import PrefillPools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.inputs import Requests
from tests import asking


@pytest.mark.parametrize(
    ("each", "group"),
    [
        # Instances for each that decodes: 3P1D 3, 5P2D 2.5, 7P3D 2.33. 9P4D has 2.25 and saves 3.6 %.
        (0.45, (7, 3)),
        # 2P1D has 2. 7P4D has 1.75, and 9P5D 1.8; 12P7D has 1.71 and saves 2 %.
        (0.59, (7, 4)),
        # 3P1D, which 16P5D does not beat: it has 3.2.
        (0.334, (3, 1)),
        (1.0, (1, 1)),
        (3.0, (1, 3)),
    ],
)
def test_a_larger_group_has_to_save_more_than_five_per_cent(
    each: float, group: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests.build({"isl": 1000, "osl": 300}, origin="test")
    pools = asking.pools("llama_3_8b", "l40s", requests, assumptions="deployable", max_accelerators=1)
    found = PrefillPools(pools, Terms())
    # Each feeds so many decode instances at a request a second.
    monkeypatch.setattr(found, "most", lambda _reader, _writer, count, _patience: count * each)
    bounds = np.asarray(0.8 * pools.prefill.dollars_per_second / each)
    readers = found.cheapest(0, 1.0, bounds)
    assert readers is not None
    assert (readers.prefill_instances, readers.decode_instances) == group
