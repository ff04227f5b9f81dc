"""Facts and opinions as validated, frozen objects (floor 2)."""

from inference_econ.spec.hardware import HardwareSpec, Price
from inference_econ.spec.model import ModelSpec
from inference_econ.spec.source import Source
from inference_econ.spec.traffic import Traffic

__all__ = ["HardwareSpec", "ModelSpec", "Price", "Source", "Traffic"]
