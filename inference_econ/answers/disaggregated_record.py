"""Disaggregated serving beside aggregated, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inference_econ.answers.chances import chances_record
from inference_econ.answers.deployment import Deployment
from inference_econ.answers.disaggregated.compare import Comparison
from inference_econ.answers.disaggregated.frontiers import PoolFrontier
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.fleet_record import engine_record, fleet_record, pool_layout, transfer_record
from inference_econ.answers.promises import Targets
from inference_econ.answers.service_record import bounded_load, layout_of
from inference_econ.engine import Instances, bounds
from inference_econ.records.deviations import SEEN, calibration_record
from inference_econ.records.facts import bound, facts

#: Of the columns of a point, those that come from its pool; what it costs under a given load is certain.
_SPEED, _FIRST = ({name: bounds.FULL[name]} for name in ("tokens_per_second_per_user", "ttft_seconds"))


def comparison_record(
    compared: Comparison, fleet: Fleet | None = None, together: Deployment | None = None
) -> dict[str, Any]:
    """The frontiers and the fleets as plain data."""
    pools, apart = compared.pools, compared.disaggregated
    reading, decoding = pools.prefill.setup, pools.decode.setup
    factor, speed = compared.best()
    return {
        "model": decoding.model.name,
        "prefill_hardware": reading.hardware.name,
        "decode_hardware": decoding.hardware.name,
        "assumptions": decoding.assumptions.name,
        "prefill_assumptions": reading.assumptions.name,
        "calibration": {
            instances.setup.hardware.name: calibration_record(instances, SEEN) for instances in compared.subjects()
        },
        **facts(decoding, "weights", "kv", "isl", "osl", "cached", "shared_prefix", requests=pools.requests),
        **bound(reading, decoding),
        **_terms_record(compared),
        "speculation": None if pools.speculation is None else pools.speculation.record(),
        "bytes_per_prompt": pools.bytes_per_prompt,
        "layer_by_layer": pools.layer_by_layer,
        "disaggregated": [_apart(pools, apart, index) for index in range(len(apart) - 1, -1, -1)],
        "aggregated": [
            {
                **facts(pool.setup, "hardware", "price"),
                "dollars_per_accelerator_hour": pool.setup.dollars_per_accelerator_hour,
                "points": [_point(pool, front, index) for index in range(len(front) - 1, -1, -1)],
            }
            for pool, front in zip(pools.aggregated, compared.aggregated, strict=True)
        ],
        "cheaper_from_to_tokens_per_second": [list(span) for span in compared.cheaper()],
        "largest_factor": factor,
        "largest_factor_at_tokens_per_second": speed,
        "fleet": None if fleet is None else fleet_record(fleet, compared.terms.targets),
        "aggregated_fleet": None if together is None else _together_record(together, compared.terms.targets),
    }


def _terms_record(compared: Comparison) -> dict[str, object]:
    terms = compared.terms
    promised = (terms.targets.ttft_seconds, terms.targets.tpot_seconds)
    ttft, tpot = (None if math.isinf(limit) else limit for limit in promised)
    return {
        "ttft_seconds_promised": ttft,
        "tpot_seconds_promised": tpot,
        "ttft_percentile": terms.targets.percentile_of("ttft"),
        "tpot_percentile": terms.targets.percentile_of("tpot"),
        "confidence": terms.targets.confidence,
        "arrival_scv": terms.arrival_scv,
        "utilization_at_most": terms.fullest,
        "prefill_instances_per_decode_instance_from_to": [float(terms.ratios.least), float(terms.ratios.most)],
    }


def _together_record(together: Deployment, targets: Targets) -> dict[str, object]:
    return {
        "hardware": together.service.setup.hardware.name,
        "layout": layout_of(together.service),
        "replicas": together.replicas,
        "accelerators": together.accelerators,
        "accelerators_rented": together.rented,
        "dollars_per_hour": together.dollars_per_hour,
        **bounded_load(together.service, together.load, together.replicas, targets),
        **chances_record(together.chances(targets)),
    }


def _point(pool: Pool, front: PoolFrontier, index: int, reading: Instances | None = None) -> dict[str, object]:
    """A point as plain data; its first tokens come from other instances where those are given."""
    layout = int(front.layout[index])
    point = {
        "tokens_per_second_per_user": float(front.tokens_per_second[index]),
        "dollars_per_million_output_tokens": float(front.dollars[index]),
        "ttft_seconds": float(front.ttft_seconds[index]),
        "accelerators": int(pool.accelerators[layout]),
        "layout": layout_of(pool.services.service(layout)),
        "batch": float(front.batch[index]),
        "requests_per_second": float(front.requests_per_second[index]),
        "utilization": float(front.utilization[index]),
    }
    instances = pool.instances([layout], [float(front.batch[index])])
    ends = {**bounds.ends(instances, _SPEED), **bounds.ends(instances if reading is None else reading, _FIRST)}
    return bounds.bounded(point, ends)


def _apart(pools: Pools, front: PoolFrontier, index: int) -> dict[str, object]:
    pair = int(front.prefill[index]), int(front.layout[index])
    return {
        **_point(pools.decode, front, index, pools.prefill.instances([pair[0]])),
        "prefill_accelerators": int(pools.prefill.accelerators[pair[0]]),
        "prefill_layout": pool_layout(pools.prefill, pair[0]),
        **engine_record(pools, *pair),
        "prefill_instances": int(front.prefill_instances[index]),
        "decode_instances": int(front.decode_instances[index]),
        "prefill_instances_per_decode_instance": float(front.ratio[index]),
        "prefill_utilization": float(front.prefill_utilization[index]),
        **transfer_record(pools, *pair),
    }


def both_records(compared: Comparison) -> list[Mapping[str, Any]]:
    """Every point of both frontiers as plain data."""
    record, pools = comparison_record(compared), compared.pools
    apart = bound(pools.prefill.setup, pools.decode.setup)
    together = [
        {"serving": "aggregated", "hardware": kind["hardware"], **point, **bound(pool.setup)}
        for pool, kind in zip(pools.aggregated, record["aggregated"], strict=True)
        for point in kind["points"]
    ]
    return [*({"serving": "disaggregated", **point, **apart} for point in record["disaggregated"]), *together]
