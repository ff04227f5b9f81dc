"""Preload module for worker processes. An import of this module loads the modules that results and charts need."""

from __future__ import annotations

import gc

from inference_econ.extras.web.questions import WARM_UP
from inference_econ.extras.web.replies import reply

reply(*WARM_UP, "view", {})
# Exclude loaded objects from later garbage collections.
gc.collect()
gc.freeze()
