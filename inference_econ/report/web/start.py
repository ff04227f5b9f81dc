"""What one types to start what a page has chosen, and to hold it to account."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from inference_econ.answers.launching import plan
from inference_econ.answers.launching.benchmark import OfferedLoad
from inference_econ.answers.launching.plan import Part
from inference_econ.answers.offer import offer
from inference_econ.answers.price import Sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, Space, instance_pins, node
from inference_econ.errors import InputError
from inference_econ.inputs import Requests
from inference_econ.report import answer_file, launch
from inference_econ.report.answer_file import Answer, Chosen, ChosenPart
from inference_econ.report.disaggregated import DisaggregatedPage
from inference_econ.report.load import LoadPage
from inference_econ.report.page import Page
from inference_econ.report.price import PricePage
from inference_econ.report.recommend import RecommendationPage
from inference_econ.report.record import targets_record
from inference_econ.report.service import bounded_load, layout_of
from inference_econ.report.serving_frontier import ServingFrontierPage
from inference_econ.report.web.working import working
from inference_econ.serving import Service

#: A deployment that is chosen: its instances, its load, what was predicted, and which of the answer it is.
Pick = tuple[Sequence[Part], Chosen, str]
#: Engines by how often they are met.
_ENGINES = ("vllm", "sglang", "trtllm")
#: Degrees that decide a layout.
_DEGREES = ("tp", "pp", "dp", "ep")


def script(page: Page, arrival_scv: float = 1.0, to: str | None = None) -> str:
    """The script that starts the deployment of a page, and holds it to account.

    Parameters
    ----------
    page : Page
        Of an answer that is about a deployment.
    arrival_scv : float
        Burstiness that was assumed [1].
    to : str, optional
        Engine; by default one that can start the layout.

    Returns
    -------
    str
        Why there is none, in one line that begins with ``#``, where no engine is known to start it; nothing where
        nothing is chosen.
    """
    pick = picked(page, arrival_scv)
    if pick is None:
        return ""
    parts, chosen, which = pick
    try:
        runner = plan.engine(to or _engine(parts[0].service))
        made = plan.instances(runner, parts, plan.weights(parts[0].service, None))
        deployment = plan.Deployment(made, chosen.load, chosen.expected, "vllm", which)
        return launch.script(deployment, node(parts[0].service.setup.hardware))
    except InputError as error:
        return f"# No command line: {error}\n"


def _engine(service: Service) -> str:
    """The first of the engines that can start a service; the most usual where any layout was offered."""
    able = str(layout_of(service).get("engine", ""))
    return next((name for name in _ENGINES if name in able), _ENGINES[0])


@singledispatch
def picked(page: Page, arrival_scv: float) -> Pick | None:
    """The deployment that a page is about, with its load; None where it is about none, or about several."""
    del page, arrival_scv
    return None


@picked.register
def _(page: RecommendationPage, arrival_scv: float) -> Pick:
    best = page.choices[0]
    chosen = answer_file.chosen(Answer("", "recommend", {"arrival_scv": arrival_scv}, page.plain()))
    return [Part(best.service, best.replicas)], chosen, "the first row"


@picked.register
def _(page: PricePage, arrival_scv: float) -> Pick:
    return _of_sheet(page.sheet, page.targets, arrival_scv, "what is priced")


@picked.register
def _(page: LoadPage, arrival_scv: float) -> Pick:
    del arrival_scv  # the page has its own
    point, which = working(page.points, page.targets), "the fleet at {:.4g} requests/s"
    return _of_sheet(point.sheet, page.targets, page.arrival_scv, which.format(point.requests_per_second))


def _of_sheet(sheet: Sheet, targets: Targets, arrival_scv: float, which: str) -> Pick:
    service, load = sheet.service, sheet.load
    record = bounded_load(service, load, sheet.replicas, targets)
    expected = answer_file.expected_under_load(record, targets_record(targets), service.requests.osl.mean)
    offered = OfferedLoad(load.requests_per_second * sheet.replicas, arrival_scv=arrival_scv)
    chosen = Chosen((), offered, expected, load.in_flight * sheet.replicas)
    return [Part(service, sheet.replicas)], chosen, which


@picked.register
def _(page: ServingFrontierPage, arrival_scv: float) -> Pick:
    del arrival_scv  # a constant number is under way
    front = page.front
    best = front.preferred_index()
    chosen = answer_file.chosen(Answer("", "frontier", {}, page.plain()), best + 1)
    return [Part(_service(front, best), 1)], chosen, "the point of the largest speed^3 / cost"


def _service(front: ServiceFrontier, index: int) -> Service:
    """The layout of a point among those that were offered."""
    return front.candidate(index).services.service(int(front.rows[index]))


@picked.register
def _(page: DisaggregatedPage, arrival_scv: float) -> Pick | None:
    if page.fleet is None:
        return None
    chosen = answer_file.chosen(Answer("", "disaggregate", {"arrival_scv": arrival_scv}, page.plain()))
    pools = page.fleet.pools
    setups = {"prefill": pools.prefill.setup, "decode": pools.decode.setup}
    parts = [_part(setups[part.role], pools.requests, part) for part in chosen.parts]
    return parts, chosen, "the fleet"


def _part(setup: Setup, requests: Requests, part: ChosenPart) -> Part:
    """Instances of a pool as services of whole requests, which engines are told of."""
    degrees = {name: part.layout.get(name) for name in _DEGREES}
    services = offer(setup, requests, Space(instance_pins(degrees, dcp=part.layout.get("dcp"))))
    return Part(services.service(0), part.replicas, part.role)
