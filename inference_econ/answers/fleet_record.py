"""A fleet of prefill and decode instances as plain data."""

from __future__ import annotations

from inference_econ.answers.chances import chances_record
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.disaggregated.pool import Pool
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.power import fleet_power
from inference_econ.answers.promises import Targets
from inference_econ.answers.service_record import layout_of, load_record
from inference_econ.engine import bounds


def pool_layout(pool: Pool, index: int) -> dict[str, float | str]:
    """The degrees of an instance of a pool; of a chain those of each process, and how many there are."""
    layout, processes = layout_of(pool.services.service(index)), pool.processes_of(index)
    return {**layout, "chain": processes} if processes > 1 else layout


def engine_record(pools: Pools, prefill: int, decode: int) -> dict[str, object]:
    """The engines that can start both layouts of a pair, if any are asked."""
    return {"engine": ", ".join(pools.engines_of(prefill, decode))} if pools.decode.setup.engines else {}


def transfer_record(pools: Pools, prefill: int, decode: int) -> dict[str, object]:
    """Return where the KV cache is transferred between the layouts of a pair, and how long it takes, as plain data."""
    moved = pools.transfer
    return {
        "link": "fast link" if moved.fast[prefill, decode] else "network",
        "transfer_seconds": float(moved.seconds[prefill, decode]),
        "transfer_exposed_seconds": float(moved.exposed_seconds[prefill, decode]),
    }


def fleet_record(fleet: Fleet, targets: Targets) -> dict[str, object]:
    """A fleet as plain data."""
    pools = fleet.pools
    return {
        "prefill_instances": fleet.prefill_instances,
        "prefill_accelerators_per_instance": int(pools.prefill.accelerators[fleet.prefill]),
        "prefill_layout": pool_layout(pools.prefill, fleet.prefill),
        "prefill_utilization": fleet.prefill_utilization,
        "decode_instances": fleet.decode_instances,
        "decode_accelerators_per_instance": int(pools.decode.accelerators[fleet.decode]),
        "decode_layout": layout_of(pools.decode.services.service(fleet.decode)),
        **engine_record(pools, fleet.prefill, fleet.decode),
        "decode_utilization": fleet.decode_utilization,
        "decode_slots": fleet.slots,
        "accelerators": sum(fleet.accelerators),
        "accelerators_rented": sum(fleet.rented),
        "dollars_per_hour": fleet.dollars_per_hour,
        "dollars_per_million_output_tokens": fleet.dollars_per_million_output_tokens,
        **transfer_record(pools, fleet.prefill, fleet.decode),
        **{name.removesuffix("_per_instance"): value for name, value in _bounded_load(fleet, targets).items()},
        **fleet_power(fleet),
        **chances_record(fleet.chances(targets)),
    }


def _bounded_load(fleet: Fleet, targets: Targets) -> dict[str, object]:
    """Where each latency comes from, there its errors do."""
    answers = fleet.pools.requests.osl.mean
    factors = {
        name: bounds.ends(pool.instances([layout])._replace(osl=answers), {name: bounds.LOAD[name]})[name]
        for name, pool, layout in (
            ("ttft_seconds", fleet.pools.prefill, fleet.prefill),
            ("tpot_seconds", fleet.pools.decode, fleet.decode),
        )
    }
    return bounds.bounded(load_record(fleet.load, 1, targets), factors)
