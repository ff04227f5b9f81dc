"""Writer of readable YAML. :mod:`inference_econ.inputs._yaml` reads the same data back."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from inference_econ.inputs._spec import SourcedSpec
from inference_econ.inputs._yaml import scalar

_TAG = "tag:yaml.org,2002:"
#: Maximum length of a line that can be wrapped at a space.
_WIDTH = 110
_STEP = 2
#: Words that some YAML readers interpret as numbers or booleans.
_WORDS = frozenset({"inf", "nan", "infinity", "yes", "no", "on", "off", "y", "n"})


def yaml_text(data: Mapping[str, Any]) -> str:
    """YAML text of plain data.

    Parameters
    ----------
    data : mapping
        Strings, numbers, booleans and None, in lists and mappings. Keys are strings.

    Returns
    -------
    str
        YAML text. Lists and mappings are on one line if they fit. Numbers have the fewest digits that read back to the
        same value.

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
        """YAML representer that writes numbers with few digits, and None as ``null``."""

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
    """YAML text of a specification: the fields that were set, in the order of the class, followed by the sources."""
    fields = spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    fields["sources"] = fields.pop("sources")  # sources are last, as in files written by hand
    return yaml_text(fields)


def _shortest(value: float) -> str:
    """Shortest text of a number that reads back to the same value."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return min((text for text in texts if float(text) == value), key=len)


def _block(value: Any, column: int, used: int) -> Any:
    """Convert plain data to objects of ruamel.yaml that determine the style of the written YAML.

    Parameters
    ----------
    value : object
        Plain data.
    column : int
        Indentation of the lines below the first one.
    used : int
        Number of characters already on the first line.
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
    # Lines may break at spaces only in printable texts without repeated spaces.
    if _fits(value, used) or not value.isprintable() or value.split(" ") != value.split():
        return _quoted(value)
    lines = textwrap.wrap(value, _WIDTH - column, break_long_words=False, break_on_hyphens=False)
    folded: Any = FoldedScalarString(value)
    folded.fold_pos = [len(" ".join(lines[:count])) for count in range(1, len(lines))]
    return folded


def _styled(value: Any, column: int, used: int, *, fits: bool) -> Any:
    """List or mapping in one-line style if it fits; long lists of numbers fill several lines."""
    styled = _block(value, column, used)
    numbers = isinstance(value, (list, tuple)) and all(isinstance(item, (int, float)) for item in value)
    if numbers or (fits and isinstance(value, (Mapping, list, tuple))):
        styled.fa.set_flow_style()
    return styled


def _fits(value: Any, used: int) -> bool:
    return used + len(json.dumps(value, ensure_ascii=False)) <= _WIDTH


def _quoted(text: str) -> str:
    """Quote a text that would otherwise be read as a number, a keyword or a mapping key."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    other = scalar(text) != text or text.lower().lstrip("+-.") in _WORDS or text.startswith(":") or "?" in text
    return DoubleQuotedScalarString(text) if other else text
