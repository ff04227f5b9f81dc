"""What an hour of an owned accelerator costs."""

from __future__ import annotations

import click

from inference_econ.errors import InputError

from . import options, show

#: The parts of an hour, as people call them.
_PARTS = {
    "depreciation": "depreciation",
    "capital": "cost of capital",
    "operations": "operations",
    "accelerator_energy": "energy of the accelerator",
    "host_energy": "energy of host and network",
}


@click.command("hour-cost")
@click.argument("hardware", type=options.Name("hardware"))
@click.option("--purchase", type=options.POSITIVE, required=True, help="USD per accelerator, with host and network.")
@click.option("--lifetime", type=options.POSITIVE, default=5, show_default=True, help="Years.")
@click.option("--utilization", type=options.PROBABILITY, default=0.8, show_default=True, help="Share of hours sold.")
@click.option("--board-watts", type=options.NON_NEGATIVE, help="Power of the accelerator; by default of its file.")
@click.option("--host-watts", type=options.NON_NEGATIVE, default=300, show_default=True, help="Its share of the host.")
@click.option("--pue", type=options.Number(min=1), default=1.2, show_default=True, help="Building over computers.")
@click.option("--kwh", type=options.NON_NEGATIVE, default=0.08, show_default=True, help="USD per kWh.")
@click.option("--operations", type=options.NON_NEGATIVE, default=0.05, show_default=True, help="Yearly share of price.")
@click.option("--capital", type=options.NON_NEGATIVE, default=0.08, show_default=True, help="Yearly interest.")
@options.output
def hour_cost(
    hardware: str,
    purchase: float,
    lifetime: float,
    utilization: float,
    board_watts: float | None,
    host_watts: float,
    pue: float,
    kwh: float,
    operations: float,
    capital: float,
    form: str,
    output: str | None,
    quiet: bool,
) -> None:
    """Build up the cost of an hour in use: purchase, lifetime, utilisation, watts, PUE, electricity, capital.

    The total can be given to other commands as --price.
    """
    from inference_econ.formulas.money import accelerator_hour_cost
    from inference_econ.inputs import catalog
    from inference_econ.report import table

    chip = catalog.hardware(hardware)
    watts = chip.watts if board_watts is None else board_watts
    if watts is None:
        raise InputError(f"{chip.name} lists no watts; give --board-watts")
    cost = accelerator_hour_cost(
        purchase,
        lifetime,
        utilisation=utilization,
        board_watts=watts,
        host_watts=host_watts,
        pue=pue,
        dollars_per_kwh=kwh,
        yearly_operations=operations,
        cost_of_capital=capital,
    )
    parts = {name: float(value) for name, value in cost._asdict().items()}
    total = float(cost.total)
    rows = [(_PARTS[name], f"{value:.3f}", f"{100 * value / total:.0f}") for name, value in parts.items()]
    rows.append(("hour in use", f"{total:.3f}", "100"))
    notes = (f"{utilization:g} of all hours in use; the chip draws {watts:g} W at work, its host {host_watts:g} W.",)
    show.emit_table(
        lambda: table.Table(f"One hour of {chip.name}", ("part", "$", "share %"), tuple(rows), notes),
        lambda: {"hardware": chip.name, "dollars_per_accelerator_hour": total, "parts": parts},
        form,
        output,
        quiet=quiet,
    )
