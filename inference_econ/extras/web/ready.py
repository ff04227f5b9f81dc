"""Importing this module loads what answers and their charts need: for processes that are copied once it is there."""

from __future__ import annotations

import gc

from inference_econ.extras.web.questions import WARM_UP
from inference_econ.extras.web.replies import reply

reply(*WARM_UP, "view", {})
# What is loaded stays: collections in the middle of an answer need not look through it.
gc.collect()
gc.freeze()
