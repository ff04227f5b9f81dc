"""The command that lists API offers, and takes those of a snapshot."""

from __future__ import annotations

from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.records import files

from . import options, show
from .help import command


@command("offers")
def offers(model: str | None, refresh: str | None, date: str | None, output: options.Output) -> options.Page | None:
    """List API offers of a model, or of all: USD per million input, cached input and output tokens, by provider.

    Those of --refresh are kept in a file of one's own beside the shipped ones, in place of what was there before;
    'price --api-prices PROVIDER' compares with them, and a usual speed is that of offers that have one. What chips
    cost by the hour is in 'hardware --prices'.
    """
    if refresh is not None:
        if model is not None:
            raise InputError("--refresh takes all offers of a file; leave out the model", option="refresh")
        _refresh(refresh, date, quiet=output.quiet)
        return None
    if date is not None:
        raise InputError("--date is the day of a snapshot; give --refresh FILE", option="date")
    return report.catalog.OffersPage(model)


def _refresh(path: str, date: str | None, *, quiet: bool) -> None:
    taken = inputs.offer_snapshots.read_snapshot(path, date)
    place = inputs.offers.own_file()
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(place, inputs.offer_snapshots.csv_of(taken))
    catalogued = sum(bool(offer.model) for offer in taken)
    show.remark(f"wrote {place}: {len(taken)} offers, {catalogued} of models of the catalogue", quiet=quiet)
