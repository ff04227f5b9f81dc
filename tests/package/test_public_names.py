"""What users import: each name once, callable at run time and for type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import inference_econ as ie

STUB = Path(ie.__file__).with_suffix(".pyi")
#: A user's program: every public name, used as what it is.
PROGRAM = """
from dataclasses import replace
from pathlib import Path

import inference_econ as ie

setup: ie.Setup = ie.Setup.of("llama_3_8b", ie.hardware("h100_sxm"), weights="fp8", price=2.0, changes=[])
model: ie.ModelSpec = ie.scaled(ie.model("llama_3_8b"), 2.0)
chip: ie.HardwareSpec = ie.hardware("h100_sxm")
source: ie.Source = ie.Source(ref="user", where="here", kind="assumed")
assumed: ie.Assumptions = ie.assumptions("deployable")
space: ie.Space = ie.Space(ie.Pins(tp=1), max_accelerators=2)
traffic: ie.Traffic = ie.Traffic(isl=100, osl=10)
front: ie.Frontier = ie.decode_frontier(
    setup,
    traffic,
    space,
    speculation=ie.Speculation.of("draft", 0.8, model=ie.model("qwen3_0_6b")),
    sampling=ie.Sampling(10, 1.0),
)
point: ie.Point = front.fastest()
short: ie.FrontierSummary = front.summary()
promised: ie.Targets = ie.Targets(tpot_seconds=0.1, percentile="mean")
served: ie.ServiceFrontier = ie.frontier(setup, traffic, space, promises=promised)
waits: float = served.cheapest(tokens_per_second=50).ttft_seconds
best: ie.ServicePoint = served.preferred(exponent=3)
step: ie.Explanation = ie.explain(setup, ie.Pins(tp=1), context=10.0)
turns: ie.Intensity = ie.intensity(setup, ie.Pins(tp=1), over="batch", context=10.0)
verdict: ie.Assessment = ie.assess(setup, traffic, ie.Observation(50.0, 1, batch=8.0))
seconds: float = float(ie.best_step_seconds(setup, 1, 1))
lengths: ie.Requests = ie.Requests(isl=ie.Length.parse("100"), osl=ie.Length.parse("10"))
layouts = ie.offer(setup, lengths, space)
recorded: ie.TraceProfile = ie.trace("requests.csv")
fitted_to_it: ie.TrafficSpec = recorded.traffic
lengths = ie.traffic("azure_code").requests
offered = ie.market(setup, lengths, space, speculation=None, arrangement="together")
targets: ie.Targets = ie.Targets(tpot_seconds=0.1)
dollars: float = ie.price(layouts, 1.0, targets=targets).dollars_per_hour
sheet: ie.Sheet = ie.price(layouts, 1.0)
japan: ie.Grid = ie.grid("japan")
emitted = ie.price(ie.offer(replace(setup, grid=japan), lengths, space), 1.0).power_record()
chosen: ie.Recommendation = ie.recommend(offered, 1.0, targets)
cheapest: int = chosen[0].accelerators
fitting: ie.Fits = ie.fits(setup, lengths, space)
bought: ie.Purchase = ie.buy(offered, {"someone": {"input": 0.3, "output": 0.9}}, targets)
day: ie.DayOfFleet = ie.fleet(offered, [1.0, 2.0], targets, stock={"h100_sxm": 8}, target=0.8)
batches: ie.Rollout = ie.rollout(offered, 8, prompts=64, samples=8, finished=0.9)
most: ie.MostTraffic = ie.most_traffic([layouts], ie.Means(8), targets)
carried: float = most[0].load.requests_per_second
agents: ie.Agents = ie.Agents.of("coding_agent")
with_agents: ie.LoadCurve = agents.load(ie.offer(setup, agents.requests, space), [5], router="round_robin")
carrying: ie.Recommendation = agents.recommend([layouts], 500, targets, tiers=["dram"])
for_agents: ie.Sheet = agents.price([layouts], 500)
curve: ie.LoadCurve = ie.load(layouts, [1.0, 2.0], targets=targets)
apart: ie.Disaggregation = ie.disaggregate(ie.pools(setup, lengths), ie.Terms(targets), requests_per_second=5.0)
read_again = ie.cache(setup, conversation=ie.Conversation(5.0, 100.0, 200.0, 30.0, 600.0))
faster = ie.speculate(setup, lengths, ie.Speculation.of("ngram", 0.5), ie.Pins(tp=1))
ways: ie.PrefillWays = ie.prefill(setup, [2000], [2, 4], tp=1)
owned: float = float(ie.hour_cost(chip).parts.total)
offers: tuple[ie.ObservedOffer, ...] = ie.recorded_offers("qwen/qwen3-8b-04-28")
inferred: ie.Inferred = ie.infer(offers)
hour: float = ie.implied_hour_price(ie.frontier(setup, lengths), 0.4, 40.0).dollars_per_accelerator_hour
share: float = ie.implied_acceptance(2.0, 4)
buyers = ie.revealed_exponents([10.0, 20.0], [1.0, 2.0]).exponents
fitted: ie.Calibrated = ie.calibrate("results.json", server=ie.MeasuredServer(hardware="h100_sxm"))
held: ie.Validated = ie.validate("serving_points")
chosen.save("answer.json")
kept: ie.SavedAnswer = ie.load_answer("answer.json")
scenario: ie.Scenario = ie.scenario("paper/table_1")
result: ie.Result = ie.run(scenario)
result = ie.compare("llama_3_8b", ["h100_sxm", "h200_sxm"], max_instance_gpus=1)
sure: ie.Uncertainty = ie.uncertainty("llama_3_8b", "h100_sxm", {"price": "lognorm(s=0.2, relative)"})
moved: ie.WhatIf = ie.what_if("llama_3_8b", "h100_sxm", speeds=80, inputs=["price"])
ledger: ie.Ledger = ie.claims("tokens_per_round")
verdict_of_a_claim: str = ledger["tokens_per_round"].verdict
names: tuple[str, ...] = ie.names("models")
written: object = ie.reproduce(Path("figures"))
with ie.allow(seconds=600):
    result = ie.run(scenario)
    swept: ie.Sweep = ie.sweep("studies/catalogue", Path("catalogue"), jobs=2)
swept = ie.load_sweep("catalogue")
errors: tuple[type[ie.InferenceEconError], ...] = (ie.InputError, ie.NothingFitsError, ie.SpecError, ie.TooMuchError)
"""


def _public() -> set[str]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="types are checked against NumPy's newest")
def test_a_users_program_of_every_public_name_is_typed(tmp_path: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(PROGRAM))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ie"
    }
    assert used == _public()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    checked = subprocess.run(
        # With the cache of the check of all files, which has just read what is imported.
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", sorted(_public()))
def test_every_public_name_is_there_and_is_no_module(name: str) -> None:
    assert name in dir(ie)
    assert name in vars(ie)["__all__"]
    assert type(getattr(ie, name)).__name__ != "module"


def test_functions_stay_functions_when_modules_of_their_names_are_imported() -> None:
    for module in ("answers.frontier", "search.frontier", "report.frontier", "answers.explain", "answers.price"):
        importlib.import_module(f"inference_econ.{module}")
    assert callable(ie.frontier)
    assert callable(ie.explain)
    assert callable(ie.price)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="No inference_econ attribute nonsense"):
        getattr(ie, "nonsense")  # noqa: B009
