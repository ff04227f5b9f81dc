"""Display texts of numbers, layouts, number formats and GPUs, and display names of codes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from inference_econ.engine import Setup
from inference_econ.inputs import Precision, units
from inference_econ.inputs.options import rows

#: Display names of engines.
ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}

#: Values from this one are rounded to an integer; smaller values have three digits [1].
_WHOLE = 99.95


def words(kind: str) -> Mapping[str, str]:
    """Return the display name of each code of one kind, in the order of ``words.csv``."""
    return {row["name"]: row["words"] for row in rows(Path(__file__).with_name("words.csv")) if row["kind"] == kind}


#: Display names of the parts of a step.
PART_NAMES = words("part")


def chips_label(count: float) -> str:
    """Number of GPUs as text."""
    return f"{count:g} GPU" + ("s" if count > 1 else "")


def layout_label(layout: Mapping[str, float | str]) -> str:
    """Short name of a layout, such as ``tp8``, ``tp4pp2`` or ``dp16ep16``.

    ``tp8 attn4`` means that only 4 GPUs run attention.

    Examples
    --------
    >>> layout_label({"tp": 4.0, "dp": 1.0, "pp": 2.0, "stage": 4.0, "cut": "1d"})
    'tp4pp2'
    >>> layout_label({"tp": 2.0, "dp": 8.0, "pp": 1.0, "ep": 4.0, "moe_tp": 4.0, "stage": 16.0, "cut": "1d"})
    'tp2dp8ep4'
    """
    attention, groups, stage = float(layout["tp"]), float(layout["dp"]), float(layout["stage"])
    waiting = not math.isclose(attention * groups, stage)
    degrees = [
        ("tp", stage if waiting else attention),
        ("dp", groups),
        ("pp", float(layout["pp"])),
        ("ep", float(layout.get("ep", 1.0))),
        ("dcp", float(layout.get("dcp", 1.0))),
    ]
    label = "".join(f"{name}{size(value)}" for name, value in degrees if value != 1.0) or "tp1"
    if waiting:
        label += f" attn{size(attention)}"
    if layout["cut"] == "2d":
        label += " 2d"
    if "chain" in layout:
        label = f"chain of {size(float(layout['chain']))} x {label}"
    if "draft_tokens" in layout:
        label += f" +{layout['draft_tokens']} drafted"
    if "prefill" in layout:
        # Omit tp1 before other degrees, as in a layout key.
        chip = f" on {str(layout['prefill_hardware']).split()[1]}" if "prefill_hardware" in layout else ""
        label = f"{re.sub('^tp1(?=[a-z])', '', str(layout['prefill']))}{chip} + {label}"
    if "prefill_instances" in layout:
        instances = f"{size(float(layout['prefill_instances']))}P{size(float(layout['decode_instances']))}D"
        label = f"{instances} {label}"
    return label


def formats_label(precision: Precision) -> str:
    """Number format of the weights as text, with the formats of weight groups that differ from it.

    Examples
    --------
    >>> formats_label(Precision("bf16", "bf16", "mxfp4", "bf16", "bf16", "bf16", "bf16"))
    'weights bf16, experts mxfp4'
    """
    groups = {
        "attention": precision.attention,
        "attention output": precision.attention_output,
        "experts": precision.experts,
        "shared experts": precision.shared_experts,
        "embeddings": precision.embeddings,
    }
    if precision.attention_output == precision.attention:
        del groups["attention output"]
    others = (f"{name} {dtype}" for name, dtype in groups.items() if dtype != precision.weights)
    return ", ".join((f"weights {precision.weights}", *others))


def assumptions_label(setups: Iterable[Setup]) -> str:
    """Names of the assumptions of some setups as text; names that differ between GPUs are listed with their GPU."""
    pairs = dict.fromkeys((setup.assumptions.name, setup.hardware.name) for setup in setups)
    names = dict.fromkeys(name for name, _ in pairs)
    if len({chip for _, chip in pairs}) == 1 or len(names) == 1:
        return ", ".join(names)
    return ", ".join(f"{name} ({', '.join(chip for other, chip in pairs if other == name)})" for name in names)


def size(value: float) -> str:
    """Format a number of GPUs or sequences: an integer, or a fraction with three digits."""
    return f"{value:z.0f}" if value == round(value) or value >= 1000 else f"{value:z.3g}"


class Amount(str):
    """Text of a dollar amount that keeps the unrounded value, so that pages can rescale it to another price.

    Attributes
    ----------
    value : float
        Unrounded value [USD per 1e6 tokens, or USD/h].
    per : {"tokens", "hour"}
        Unit of the value.
    """

    value: float
    per: Literal["tokens", "hour"]

    def __new__(cls, text: str, value: float, per: Literal["tokens", "hour"]) -> Amount:
        """Create the text with the unrounded value."""
        amount = super().__new__(cls, text)
        amount.value, amount.per = float(value), per
        return amount


def dollars(value: float) -> Amount:
    """Format a cost per million tokens: three significant digits, or two decimals from $10."""
    return Amount(f"{value:.2f}" if value >= 10 else f"{value:z#.3g}", value, "tokens")


def per_hour(value: float) -> Amount:
    """Format an hourly cost with two decimals."""
    return Amount(f"{value:,.2f}", value, "hour")


#: Texts for the ends of the range in which probabilities are known.
_ENDS: Mapping[float, str] = {0.05: "<5", 0.95: ">95"}


def chance_percent(chance: float | None) -> str:
    """Format a probability in percent. The limits 5% and 95% become ``<5`` and ``>95``, and None becomes ``?``.

    Examples
    --------
    >>> chance_percent(0.05), chance_percent(0.6789), chance_percent(0.95), chance_percent(None)
    ('<5', '68', '>95', '?')
    """
    return "?" if chance is None else _ENDS.get(round(chance, 4), f"{100 * chance:.0f}")


def amount(value: float) -> str:
    """Format a number with three significant digits, or as an integer if it is at least 100.

    Examples
    --------
    >>> amount(1234.5), amount(99.97), amount(12.0), amount(0.456), amount(0.0)
    ('1,234', '100', '12.0', '0.456', '0')
    """
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:#.3g}"


def digits(value: float) -> str:
    """Format a number with four significant digits; more digits only before the decimal point.

    Examples
    --------
    >>> digits(11923.4), digits(45.678)
    ('11,923', '45.68')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


#: Unit prefixes, the largest first. A blank stands for no prefix.
_SIZES: Mapping[str, float] = {
    prefix: 10.0 ** (15 - 3 * place) for place, prefix in enumerate(("P", "T", "G", "M", "k", " ", "m", "u", "n"))
}
#: Prefixes that each unit may have.
_PREFIXES: Mapping[str, str] = {**dict.fromkeys(("B", "B/s", "FLOP/s"), "PTGMk "), "s": " mun"}


def prefixed(value: float, prefixes: str, form: str = "") -> str:
    """Format a number with an SI prefix: the largest prefix for which the number is at least 1, else the smallest.

    Parameters
    ----------
    value : float
        Number in base units.
    prefixes : str
        Letters of the allowed prefixes, the largest first; a blank means no prefix.
    form : str
        Format specification; by default the format of :func:`.units.number`.

    Examples
    --------
    >>> prefixed(9.894e14, "PTG ", ".3g"), prefixed(2e-9, "mu"), prefixed(12.0, "PTG ")
    ('989 T', '0.002 u', '12 ')
    """
    prefix = next((prefix for prefix in prefixes if value >= _SIZES[prefix]), prefixes[-1])
    scaled = value / _SIZES[prefix]
    return f"{format(scaled, form) if form else units.number(scaled)} {prefix.strip()}"


def quantity(value: float, unit: str) -> str:
    """Format a quantity with its unit; counts have an empty unit.

    Examples
    --------
    >>> quantity(3.35e12, "B/s"), quantity(4.381e-06, "s"), quantity(2.95, "USD/h"), quantity(80.0, "")
    ('3.35 TB/s', '4.381 us', '$2.95/h', '80')
    """
    if unit == "USD/h":
        return f"${units.number(value)}/h"
    return f"{prefixed(value, _PREFIXES.get(unit, ' '))}{unit}".strip()
