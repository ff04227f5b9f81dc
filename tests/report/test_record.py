"""What records of several answers have in common."""

from __future__ import annotations

from inference_econ.answers.record import HEAD, facts, price_record
from inference_econ.inputs import Requests
from tests import asking


def test_facts_come_in_the_order_asked_for() -> None:
    setup = asking.setup("gpt_oss_20b", "h100_sxm", 600, assumptions="ideal", weights="bf16")
    assert facts(setup, "calibration", *HEAD, calibration=None) == {
        "calibration": None,
        "model": "gpt-oss 20b",
        "hardware": "NVIDIA H100 SXM5 80GB",
        "assumptions": "ideal",
        "price": price_record(setup),
    }
    formats = facts(setup, "math_unit", "weights", "expert_weights", "activations", "kv", "context")
    assert list(formats) == ["math_unit", "weights", "expert_weights", "activations", "kv", "context"]
    assert (formats["weights"], formats["math_unit"], formats["context"]) == ("bf16", "bf16", 600)
    assert facts(setup, "formats")["formats"] == {
        **{name: getattr(setup.precision, name) for name in setup.precision.__dataclass_fields__}
    }


def test_lengths_of_requests_are_facts_too() -> None:
    setup = asking.setup("llama_3_8b", "h100_sxm", 600, assumptions="ideal")
    requests = Requests.build({"isl": 500, "osl": 200, "cached": 100}, origin="test")
    assert facts(setup, "osl", "isl", "cached", requests=requests) == {"osl": 200, "isl": 500, "cached": 100}
