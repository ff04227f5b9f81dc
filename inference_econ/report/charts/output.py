"""The ways out of a chart: its specification, the JavaScript that draws it, and files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError
from inference_econ.records.files import CHARTS, check_picture, ending_of, whole_file
from inference_econ.report.charts import theme

try:
    import resource
except ImportError:  # Windows, where processes have no such limit
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from types import ModuleType

    import altair as alt

    #: Any chart that Altair makes.
    AnyChart = alt.Chart | alt.LayerChart | alt.ConcatChart

#: The version of Vega-Lite whose schema Altair carries, among those that vl-convert can draw.
_VEGA_LITE = "6.4"
#: What other scripts of a page may use; labels of legends are folded into lines that a phone of some width [pixels] has
#: room for, one label below the other. Without a backslash, as bundling takes those away.
_GLOBALS = """
function foldLegends(view, config, width) {
  config.legend = { ...config.legend, columns: 1 };
  const lines = `replace(datum.label, regexp('(.{1,${Math.floor((width - 60) / 7)}})( |$)', 'g'), '$1¦')`;
  for (const channel of Object.values(view.encoding ?? {}))
    if (channel?.legend) channel.legend.labelExpr = `split(slice(${lines}, 0, -1), '¦')`;
  for (const part of [...(view.layer ?? []), ...(view.concat ?? [])]) foldLegends(part, config, width);
}
Object.assign(window, { vega, vegaLite, vegaEmbed, foldLegends });
"""
#: Addresses that are enough for V8 to draw with: at 64e9 it ended the process, at 80e9 it drew [bytes].
_ADDRESSES = 100e9
#: Pixels of a picture for each of a specification.
_SCALE = 2.0


def specification(chart: AnyChart, *, dark: bool = False) -> dict[str, Any]:
    """A chart as Vega-Lite's JSON, with its data and the theme.

    Parameters
    ----------
    chart : altair chart
        From a page.
    dark : bool
        On a dark ground.
    """
    plain: dict[str, Any] = chart.to_dict(validate=False)
    return {**plain, "config": theme.config(dark=dark)}


@cache  # Bundling takes seconds, and always makes the same.
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which sets ``vega``, ``vegaLite`` and ``vegaEmbed``.

    It sets ``foldLegends`` too, which breaks the labels of a specification's legends into lines of so many characters.
    """
    import vl_convert

    return str(vl_convert.javascript_bundle(_GLOBALS, vl_version=_VEGA_LITE))


def mime_type() -> str:
    """Media type of a specification in notebooks."""
    import altair as alt

    major, *_ = alt.SCHEMA_VERSION.split(".")
    return f"application/vnd.vegalite.{major}+json"


def svg(chart: AnyChart) -> str:
    """A chart as a drawing that needs no JavaScript.

    Raises
    ------
    InputError
        If the process may not reserve the addresses that drawing takes.
    """
    return str(_drawing().vegalite_to_svg(specification(chart), vl_version=_VEGA_LITE))


def write_chart(chart: AnyChart, path: Path | str) -> None:
    """Write a chart to a file, whole or not at all.

    Parameters
    ----------
    chart : altair chart
        From a page.
    path : Path or str
        Where to, ending in .svg, .png, .pdf, or .html, which is interactive and loads nothing.

    Raises
    ------
    InputError
        If the path cannot be written, or is no picture.
    """
    content = drawn(chart, ending_of(check_picture(path, CHARTS)))
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def drawn(chart: AnyChart, ending: str) -> bytes:
    """A chart in the format of an ending: .svg, .png, .pdf or .html."""
    if ending == ".svg":
        return svg(chart).encode()
    if ending == ".html":
        return _html(chart).encode()
    if ending == ".pdf":
        return bytes(_drawing().vegalite_to_pdf(specification(chart), vl_version=_VEGA_LITE))
    return bytes(_drawing().vegalite_to_png(specification(chart), vl_version=_VEGA_LITE, scale=_SCALE))


def _drawing() -> ModuleType:
    """The library that draws, if it can: its V8 ends the process where it may not reserve addresses for its heaps."""
    if resource is not None:
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        if allowed != resource.RLIM_INFINITY and allowed < _ADDRESSES:
            raise InputError(
                f"drawing .svg, .png and .pdf reserves {_ADDRESSES / 1e9:.0f} GB of addresses, not of memory, and this "
                f"process may have {allowed / 1e9:.3g} GB ('ulimit -v'); write .html, or raise that limit"
            )
    import vl_convert

    module: ModuleType = vl_convert
    return module


def _html(chart: AnyChart) -> str:
    """A page with one chart that loads nothing; light or dark as its reader's system is, narrow as the screen is."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("inference_econ.report")
    template = Environment(autoescape=True, loader=loader, undefined=StrictUndefined).get_template("chart.html.j2")
    plain = specification(chart)
    return template.render(
        title=plain["title"]["text"],
        light=plain["config"],
        dark=theme.config(dark=True),
        # The scripts of the page itself, without anything of the answer in it.
        javascript=Markup(javascript()),
        chart=plain,
    )
