"""Plain data as YAML that people like to read, and that :mod:`inference_econ.inputs._yaml` reads back to equal data."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from inference_econ.inputs._spec import SourcedSpec
from inference_econ.inputs._yaml import scalar

_TAG = "tag:yaml.org,2002:"
#: Longest line, if words allow it.
_WIDTH = 110
_STEP = 2
#: What some readers of YAML take for numbers or truth values.
_WORDS = frozenset({"inf", "nan", "infinity", "yes", "no", "on", "off", "y", "n"})


def yaml_text(data: Mapping[str, Any]) -> str:
    """The text of a file.

    Parameters
    ----------
    data : mapping
        Strings, numbers, truth values, None, and lists and mappings of them. Strings are the keys.

    Returns
    -------
    str
        Lists and mappings on one line where they fit, and numbers with the fewest digits that tell them from others.

    Examples
    --------
    >>> print(yaml_text({"name": "no. 1", "size": 6.051e9, "blocks": [{"layers": 2}], "text": "1_000"}), end="")
    name: no. 1
    size: 6.051e+09
    blocks: [{layers: 2}]
    text: "1_000"
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """With the shortest texts of numbers and a word for nothing."""

    Representer.add_representer(float, lambda r, value: r.represent_scalar(f"{_TAG}float", _shortest(value)))
    Representer.add_representer(type(None), lambda r, _: r.represent_scalar(f"{_TAG}null", "null"))
    writer = YAML()
    writer.Representer = Representer
    writer.brace_single_entry_mapping_in_flow_sequence = True
    writer.width = _WIDTH
    writer.indent(mapping=_STEP, sequence=2 * _STEP, offset=_STEP)
    stream = io.StringIO()
    writer.dump(_block(data, 0, 0), stream)
    return stream.getvalue()


def spec_text(spec: SourcedSpec) -> str:
    """The text of a catalogue file: the fields of a specification that were set, in their order, and their sources."""
    fields = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    fields["sources"] = fields.pop("sources")  # last, as in files written by hand
    return yaml_text(fields)


def _shortest(value: float) -> str:
    """The shortest text that tells a number from others."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return min((text for text in texts if float(text) == value), key=len)


def _block(value: Any, column: int, used: int) -> Any:
    """A value with the style in which it is written.

    Parameters
    ----------
    value : object
        Plain data.
    column : int
        Where lines below the value's first one begin.
    used : int
        Characters that its first line has already.
    """
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import FoldedScalarString

    inside = column + _STEP
    if isinstance(value, Mapping):
        return CommentedMap(
            (_quoted(key), _styled(item, inside, column + len(key) + 2, fits=_fits(item, column + len(key) + 2)))
            for key, item in value.items()
        )
    if isinstance(value, (list, tuple)):
        fits = all(_fits(item, inside + 2) for item in value)
        return CommentedSeq(_styled(item, inside, inside, fits=fits) for item in value)
    if isinstance(value, float):
        return int(value) if _shortest(value).lstrip("-").isdigit() else float(value)
    if not isinstance(value, str):
        return value
    # Lines may end at the spaces of a text with nothing but single ones between words that can be printed.
    if _fits(value, used) or not value.isprintable() or value.split(" ") != value.split():
        return _quoted(value)
    lines = textwrap.wrap(value, _WIDTH - column, break_long_words=False, break_on_hyphens=False)
    folded: Any = FoldedScalarString(value)
    folded.fold_pos = [len(" ".join(lines[:count])) for count in range(1, len(lines))]
    return folded


def _styled(value: Any, column: int, used: int, *, fits: bool) -> Any:
    """A value with lists and mappings on one line if they fit there; lists of numbers fill several otherwise."""
    styled = _block(value, column, used)
    numbers = isinstance(value, (list, tuple)) and all(isinstance(item, (int, float)) for item in value)
    if numbers or (fits and isinstance(value, (Mapping, list, tuple))):
        styled.fa.set_flow_style()
    return styled


def _fits(value: Any, used: int) -> bool:
    return used + len(json.dumps(value, ensure_ascii=False)) <= _WIDTH


def _quoted(text: str) -> str:
    """A text in quotes, if it would be read as a number or another word for one, or as the mark of a key."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    other = scalar(text) != text or text.lower().lstrip("+-.") in _WORDS or text.startswith(":") or "?" in text
    return DoubleQuotedScalarString(text) if other else text
