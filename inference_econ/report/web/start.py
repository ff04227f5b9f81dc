"""What one types to start what a page has chosen, and to hold it to account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.benchmark import OfferedLoad
from inference_econ.answers.launching.plan import Part
from inference_econ.answers.offer import offer
from inference_econ.answers.price import Sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import PooledChoice
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, Space, Speculation, instance_pins, node
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
        engines = str(layout_of(parts[-1].service).get("engine", ""))
        plan.check_engine(engines, to or _first(engines), "what was chosen")
        runner = plan.engine(to or _first(engines))
        made = plan.instances(runner, parts, plan.weights(parts[0].service, None))
        deployment = plan.Deployment(made, chosen.load, chosen.expected, "vllm", which)
        return launch.script(deployment, node(parts[0].service.setup.hardware))
    except InputError as error:
        return f"# No command line: {error}\n"


def _first(able: str) -> str:
    """The first of the engines that can start a service; the most usual where any layout was offered."""
    return next((name for name in _ENGINES if name in able), _ENGINES[0])


@singledispatch
def picked(page: Page, arrival_scv: float) -> Pick | None:
    """The deployment that a page is about, with its load; None where it is about none, or about several."""
    del page, arrival_scv
    return None


@picked.register
def _(page: RecommendationPage, arrival_scv: float) -> Pick:
    best = page.answer[0]
    chosen = answer_file.chosen(Answer("", "recommend", {"arrival_scv": arrival_scv}, page.plain()))
    if isinstance(best, PooledChoice):
        return _of_pools(best.fleet.pools, chosen), chosen, "the first row"
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
    if sheet.fleet is not None:
        chosen = replace(chosen, parts=_fleet_parts(sheet.fleet))
        return _of_pools(sheet.fleet.pools, chosen), chosen, which
    return [Part(service, sheet.replicas)], chosen, which


@picked.register
def _(page: ServingFrontierPage, arrival_scv: float) -> Pick:
    del arrival_scv  # a constant number is under way
    front = page.front
    best = front.preferred_index()
    chosen = answer_file.chosen(Answer("", "frontier", {}, page.plain()), best + 1)
    which, pools = "the point of the largest speed^3 / cost", front.candidate(best).pools
    if pools is not None:
        return _of_pools(pools.pools, chosen), chosen, which
    return [Part(_service(front, best), 1)], chosen, which


def _service(front: ServiceFrontier, index: int) -> Service:
    """The layout of a point among those that were offered."""
    return front.candidate(index).services.service(int(front.rows[index]))


@picked.register
def _(page: DisaggregatedPage, arrival_scv: float) -> Pick | None:
    if page.fleet is None:
        return None
    chosen = answer_file.chosen(Answer("", "disaggregate", {"arrival_scv": arrival_scv}, page.plain()))
    return _of_pools(page.fleet.pools, chosen), chosen, "the fleet"


def _fleet_parts(fleet: Fleet) -> tuple[ChosenPart, ChosenPart]:
    """Both pools of a fleet, in the words of an answer."""
    pools = fleet.pools
    reader, writer = pools.prefill.services.service(fleet.prefill), pools.decode.services.service(fleet.decode)
    return (
        ChosenPart(reader.setup.hardware.name, layout_of(reader), fleet.prefill_instances, "prefill"),
        ChosenPart(writer.setup.hardware.name, layout_of(writer), fleet.decode_instances, "decode"),
    )


def _of_pools(pools: Pools, chosen: Chosen) -> list[Part]:
    """Both pools of a chosen deployment, which propose as many tokens as was priced."""
    setups = {"prefill": pools.prefill.setup, "decode": pools.decode.setup}
    answering, proposing = chosen.parts[-1], pools.decode.services.speculation
    if proposing is not None:
        service = _part(setups["decode"], pools.requests, answering, proposing).service
        proposing = plan.priced_drafts(service, chosen.in_flight / answering.replicas)
    return [_part(setups[part.role], pools.requests, part, proposing) for part in chosen.parts]


def _part(setup: Setup, requests: Requests, part: ChosenPart, speculation: Speculation | None) -> Part:
    """Instances of a pool as services of whole requests, which engines are told of."""
    degrees = {name: part.layout.get(name) for name in _DEGREES}
    services = offer(setup, requests, Space(instance_pins(degrees, dcp=part.layout.get("dcp"))), speculation)
    return Part(services.service(0), part.replicas, part.role)
