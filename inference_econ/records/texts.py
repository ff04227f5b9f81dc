"""Numbers, layouts, formats and chips as people write them, and the words for names of parts and kinds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from inference_econ.engine import Setup
from inference_econ.inputs import Precision, units
from inference_econ.inputs.options import rows

#: Names of engines as their makers write them.
ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}

#: From here on three digits are a whole number [1].
_WHOLE = 99.95


def words(kind: str) -> Mapping[str, str]:
    """Return the words for the names of a kind, in the order of ``words.csv``."""
    return {row["name"]: row["words"] for row in rows(Path(__file__).with_name("words.csv")) if row["kind"] == kind}


#: What each part of a step is called.
PART_NAMES = words("part")


def chips_label(count: float) -> str:
    """A number of chips in words."""
    return f"{count:g} GPU" + ("s" if count > 1 else "")


def layout_label(layout: Mapping[str, float | str]) -> str:
    """A layout as people write it: ``tp8``, ``tp4pp2``, ``dp16ep16``, ``tp8 attn4`` where half of the chips wait.

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
        # As in a key, tp1 stands before other degrees.
        chip = f" on {str(layout['prefill_hardware']).split()[1]}" if "prefill_hardware" in layout else ""
        label = f"{re.sub('^tp1(?=[a-z])', '', str(layout['prefill']))}{chip} + {label}"
    if "prefill_instances" in layout:
        instances = f"{size(float(layout['prefill_instances']))}P{size(float(layout['decode_instances']))}D"
        label = f"{instances} {label}"
    return label


def formats_label(precision: Precision) -> str:
    """Number formats of the weights, and of the groups of them that have another.

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
    """Write the assumptions of some questions, by chip if they differ."""
    pairs = dict.fromkeys((setup.assumptions.name, setup.hardware.name) for setup in setups)
    names = dict.fromkeys(name for name, _ in pairs)
    if len({chip for _, chip in pairs}) == 1 or len(names) == 1:
        return ", ".join(names)
    return ", ".join(f"{name} ({', '.join(chip for other, chip in pairs if other == name)})" for name in names)


def size(value: float) -> str:
    """Write a number of chips or sequences: whole if it is, three digits of a fraction."""
    return f"{value:z.0f}" if value == round(value) or value >= 1000 else f"{value:z.3g}"


class Amount(str):
    """Dollars as they are written, which still know how many they are: other prices are in proportion to them.

    Attributes
    ----------
    value : float
        Unrounded [USD per 1e6 tokens, or USD/h].
    per : {"tokens", "hour"}
        Of what.
    """

    value: float
    per: Literal["tokens", "hour"]

    def __new__(cls, text: str, value: float, per: Literal["tokens", "hour"]) -> Amount:
        """A text with its number."""
        amount = super().__new__(cls, text)
        amount.value, amount.per = float(value), per
        return amount


def dollars(value: float) -> Amount:
    """Write what a million tokens cost with three digits, and cents from ten dollars on."""
    return Amount(f"{value:.2f}" if value >= 10 else f"{value:z#.3g}", value, "tokens")


def per_hour(value: float) -> Amount:
    """Write what an hour costs with cents."""
    return Amount(f"{value:,.2f}", value, "hour")


#: Ends of what is known of errors, and how they are written.
_ENDS: Mapping[float, str] = {0.05: "<5", 0.95: ">95"}


def chance_percent(chance: float | None) -> str:
    """Write a probability in per cent: its ends stand for less and for more, and None is unknown.

    Examples
    --------
    >>> chance_percent(0.05), chance_percent(0.6789), chance_percent(0.95), chance_percent(None)
    ('<5', '68', '>95', '?')
    """
    return "?" if chance is None else _ENDS.get(round(chance, 4), f"{100 * chance:.0f}")


def amount(value: float) -> str:
    """Write a quantity with three digits, and whole from a hundred on.

    Examples
    --------
    >>> amount(1234.5), amount(99.97), amount(12.0), amount(0.456), amount(0.0)
    ('1,234', '100', '12.0', '0.456', '0')
    """
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:#.3g}"


def digits(value: float) -> str:
    """Write four digits, and all before the point.

    Examples
    --------
    >>> digits(11923.4), digits(45.678)
    ('11,923', '45.68')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


#: Prefixes, the largest first; a blank stands for none.
_SIZES: Mapping[str, float] = {
    prefix: 10.0 ** (15 - 3 * place) for place, prefix in enumerate(("P", "T", "G", "M", "k", " ", "m", "u", "n"))
}
#: Prefixes that units get.
_PREFIXES: Mapping[str, str] = {**dict.fromkeys(("B", "B/s", "FLOP/s"), "PTGMk "), "s": " mun"}


def prefixed(value: float, prefixes: str, form: str = "") -> str:
    """Write a number before the largest of some prefixes that leaves 1 or more, else before the smallest.

    Parameters
    ----------
    value : float
        In base units.
    prefixes : str
        Letters, the largest first; a blank for none.
    form : str
        How the number is written: a format specification; as :func:`.units.number` without.

    Examples
    --------
    >>> prefixed(9.894e14, "PTG ", ".3g"), prefixed(2e-9, "mu"), prefixed(12.0, "PTG ")
    ('989 T', '0.002 u', '12 ')
    """
    prefix = next((prefix for prefix in prefixes if value >= _SIZES[prefix]), prefixes[-1])
    scaled = value / _SIZES[prefix]
    return f"{format(scaled, form) if form else units.number(scaled)} {prefix.strip()}"


def quantity(value: float, unit: str) -> str:
    """A quantity with its unit; that of a count is empty.

    Examples
    --------
    >>> quantity(3.35e12, "B/s"), quantity(4.381e-06, "s"), quantity(2.95, "USD/h"), quantity(80.0, "")
    ('3.35 TB/s', '4.381 us', '$2.95/h', '80')
    """
    if unit == "USD/h":
        return f"${units.number(value)}/h"
    return f"{prefixed(value, _PREFIXES.get(unit, ' '))}{unit}".strip()
