"""Records of disaggregated deployments."""

from __future__ import annotations

from inference_econ.answers.deployments.power import fleet_power
from inference_econ.answers.deployments.service_record import layout_of, load_record
from inference_econ.answers.disaggregated.load import PooledFleet
from inference_econ.answers.slo import Targets, chances_record
from inference_econ.engine import bounds

#: Record fields of one instance, each with the name of the field that has the total over all instances.
_OF_ALL = {"concurrency_per_replica": "in_flight"}


def fleet_record(fleet: PooledFleet, targets: Targets) -> dict[str, object]:
    """Return a disaggregated deployment as plain data.

    TTFT intervals use the prediction errors of prefill instances. TPOT intervals use the errors of decode instances.
    """
    pools, pair = fleet.pools, (fleet.prefill, fleet.decode)
    moved, processes = pools.transfer, pools.prefill.processes_of(fleet.prefill)
    factors = {
        name: bounds.ends(pool.instances([layout])._replace(osl=pools.requests.osl.mean), {name: bounds.LOAD[name]})[
            name
        ]
        for name, pool, layout in (
            ("ttft_seconds", pools.prefill, fleet.prefill),
            ("tpot_seconds", pools.decode, fleet.decode),
        )
    }
    load = bounds.bounded(load_record(fleet.load, 1, targets), factors)
    return {
        "prefill_instances": fleet.prefill_instances,
        "prefill_accelerators_per_instance": int(pools.prefill.accelerators[fleet.prefill]),
        # A prefill chain has the parallelism degrees of each process, and the number of processes.
        "prefill_layout": {
            **layout_of(pools.prefill.services.service(fleet.prefill)),
            **({"chain": processes} if processes > 1 else {}),
        },
        "prefill_utilization": fleet.prefill_utilization,
        "decode_instances": fleet.decode_instances,
        "decode_accelerators_per_instance": int(pools.decode.accelerators[fleet.decode]),
        "decode_layout": layout_of(pools.decode.services.service(fleet.decode)),
        **({"engine": ", ".join(pools.engines_of(*pair))} if pools.decode.setup.engines else {}),
        "decode_utilization": fleet.decode_utilization,
        "decode_slots": fleet.slots,
        "accelerators": sum(fleet.accelerators),
        "accelerators_rented": sum(fleet.rented),
        "dollars_per_hour": fleet.dollars_per_hour,
        "dollars_per_million_output_tokens": fleet.dollars_per_million_output_tokens,
        "link": "fast link" if moved.fast[pair] else "network",
        "transfer_seconds": float(moved.seconds[pair]),
        "transfer_exposed_seconds": float(moved.exposed_seconds[pair]),
        **{_OF_ALL.get(name, name.removesuffix("_per_instance")): value for name, value in load.items()},
        **fleet_power(fleet),
        **chances_record(fleet.chances(targets)),
    }
