from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from inference_econ.errors import InputError
from inference_econ.extras.sweeps.combinations import Combinations, answers
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from tests.extras.sweeps.studies import study
from tests.reading import of


def test_a_process_that_the_system_ends_is_told() -> None:
    """Tests of killed sweeps cover several processes with equal results."""
    ask = of(SweepAsk, study().ask)
    combinations = Combinations(ask)
    expected = dict(answers(combinations, range(combinations.parts)))
    others = multiprocessing.active_children()
    answering = answers(combinations, range(combinations.parts), 2)
    index, answered = next(answering)
    assert answered == expected[index]
    for process in set(multiprocessing.active_children()) - set(others):
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(InputError, match=r"the system ended one of the 2 worker processes, .* fewer --jobs"):
        list(answering)
