"""Output of charts: specification, JavaScript, and files."""

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

    #: Any Altair chart.
    AnyChart = alt.Chart | alt.LayerChart | alt.ConcatChart

#: Vega-Lite version of Altair's schema; vl-convert supports this version.
_VEGA_LITE = "6.4"
#: Script that exports functions for the other scripts of a page. It wraps legend labels to lines that fit a phone
#: [pixels]. The script must not contain backslashes, because bundling removes them.
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
#: Address space that V8 needs [bytes]: with 64e9 the process ended, with 80e9 it worked.
_ADDRESSES = 100e9
#: Pixels of a picture per pixel of a specification.
_SCALE = 2.0


def specification(chart: AnyChart, *, dark: bool = False) -> dict[str, Any]:
    """Chart as Vega-Lite JSON, with data and theme.

    Parameters
    ----------
    chart : altair chart
        Chart of a page.
    dark : bool
        True for a dark background.
    """
    plain: dict[str, Any] = chart.to_dict(validate=False)
    return {**plain, "config": theme.config(dark=dark)}


@cache  # Bundling takes seconds and always gives the same result.
def javascript() -> str:
    """One script with Vega, Vega-Lite and Vega-Embed; it sets ``vega``, ``vegaLite`` and ``vegaEmbed``.

    The script also sets ``foldLegends``, which wraps the legend labels of a specification to a width.
    """
    import vl_convert

    return str(vl_convert.javascript_bundle(_GLOBALS, vl_version=_VEGA_LITE))


def mime_type() -> str:
    """Media type of a specification in notebooks."""
    import altair as alt

    major, *_ = alt.SCHEMA_VERSION.split(".")
    return f"application/vnd.vegalite.{major}+json"


def svg(chart: AnyChart) -> str:
    """Chart as SVG, without JavaScript.

    Raises
    ------
    InputError
        If the process cannot reserve the address space that drawing needs.
    """
    return str(_drawing().vegalite_to_svg(specification(chart), vl_version=_VEGA_LITE))


def write_chart(chart: AnyChart, path: Path | str) -> None:
    """Write a chart to a file atomically.

    Parameters
    ----------
    chart : altair chart
        Chart of a page.
    path : Path or str
        File with the extension .svg, .png, .pdf, or .html, which is interactive and needs no network.

    Raises
    ------
    InputError
        If the path cannot be written, or has no picture extension.
    """
    content = drawn(chart, ending_of(check_picture(path, CHARTS)))
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def drawn(chart: AnyChart, ending: str) -> bytes:
    """Draw a chart in the format of a file extension: .svg, .png, .pdf or .html."""
    if ending == ".svg":
        return svg(chart).encode()
    if ending == ".html":
        return _html(chart).encode()
    if ending == ".pdf":
        return bytes(_drawing().vegalite_to_pdf(specification(chart), vl_version=_VEGA_LITE))
    return bytes(_drawing().vegalite_to_png(specification(chart), vl_version=_VEGA_LITE, scale=_SCALE))


def _drawing() -> ModuleType:
    """Load the drawing library after a memory check, because V8 ends the process if it cannot reserve address space."""
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
    """HTML page with one chart.

    The page needs no network, follows the color mode of the system, and fits narrow screens.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("inference_econ.report")
    template = Environment(autoescape=True, loader=loader, undefined=StrictUndefined).get_template("chart.html.j2")
    plain = specification(chart)
    return template.render(
        title=plain["title"]["text"],
        light=plain["config"],
        dark=theme.config(dark=True),
        # The script of the page contains no text of the result.
        javascript=Markup(javascript()),
        chart=plain,
    )
