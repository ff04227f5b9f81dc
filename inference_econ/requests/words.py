"""Find the command of a command line. Users may type a current name, an old name, a synonym or a wrong name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from inference_econ.errors import InputError, unsafe_character
from inference_econ.inputs import catalog
from inference_econ.requests import kinds
from inference_econ.requests.tables import COMMANDS, GUESSED, OLD_NAMES, SYNONYMS, Command, Parameter, gone

#: Number of names in a query about one model and one GPU [1].
_ONE_OF_EACH = 2
#: Longest argument of a command line [characters].
_LONGEST = 20_000


def check_words(words: Sequence[str]) -> None:
    """Reject words of a command line that are too long, or contain a control character or bytes that are not UTF-8.

    Raises
    ------
    InputError
        If a word is rejected.
    """
    for word in words:
        if len(word) > _LONGEST:
            raise InputError(f"{word[:20]}..: {len(word):,} characters are too long; write at most {_LONGEST:,}")
        if character := unsafe_character(word):
            raise InputError(f"{word[:80]!r} contains {character}, which is not printable; remove this character")


def current_words(words: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Replace old names and synonyms of commands. A frontier of several models, GPUs or settings becomes ``compare``.

    Parameters
    ----------
    words : sequence of str
        Words of the command line without the program name; at least one word.
    tell : callable
        Function that receives a note if the command name is old.

    Raises
    ------
    InputError
        If there is no such command; the message has advice.
    """
    first, *rest = words
    if advice := gone(first, ""):
        raise InputError(f"there is no {first} any more: {advice}")
    if first in SYNONYMS:
        return [*SYNONYMS[first].split(), *rest]
    if first in OLD_NAMES:
        plain, _, named_one = OLD_NAMES[first].partition(" | ")
        chosen = named_one if named_one and rest and not rest[0].startswith("-") else plain
        tell(f"note: '{first}' is now '{chosen}'; the old name works until 0.3.0")
        now = chosen.split()
        options = next((at for at, word in enumerate(now) if word.startswith("-")), len(now))
        return [*now[:options], *(() if now[options:] and now[options] in rest else now[options:]), *rest]
    known = dict.fromkeys(name.split()[0] for name in COMMANDS)
    if first not in known and not first.startswith("-"):
        if first in GUESSED:
            raise InputError(f"there is no command {first!r}; type 'inference-econ {GUESSED[first]}'")
        near = get_close_matches(first, [*known, *SYNONYMS, *OLD_NAMES, *GUESSED], 1)
        near = [OLD_NAMES.get(name, GUESSED.get(name, name)).partition(" | ")[0] for name in near]
        meant = f"did you mean '{near[0]}'? " if near else ""
        raise InputError(f"there is no command {first!r}; {meant}'inference-econ --help' lists all")
    comparison = _as_comparison(rest) if first == "frontier" else None
    return list(words) if comparison is None else ["compare", *comparison]


def is_command(word: str) -> bool:
    """Return True if a word is a command name, an old or wrong name of a command, or a synonym."""
    return word in {*(name.split()[0] for name in COMMANDS), *SYNONYMS, *OLD_NAMES, *GUESSED}


def command_of(words: Sequence[str], tell: Callable[[str], None]) -> tuple[Command, list[str]]:
    """Find the command of a command line, and the words that follow its name; see :func:`current_words`."""
    now = current_words(words, tell)
    count = 2 if " ".join(now[:2]) in COMMANDS else 1
    name = " ".join(now[:count])
    if name not in COMMANDS:
        raise InputError(f"{name} is a group of commands; 'inference-econ {name} --help' lists them")
    return COMMANDS[name], now[count:]


def _as_comparison(words: Sequence[str]) -> list[str] | None:
    """Rewrite a ``frontier`` command line with several models, GPUs or settings as a ``compare`` command line.

    Parameters
    ----------
    words : sequence of str
        Words that follow ``frontier`` on the command line.

    Returns
    -------
    list of str or None
        Words that follow ``compare``; None if the query has only one model, one GPU and one value for each option.
    """
    frontier, compare = COMMANDS["frontier"], COMMANDS["compare"]
    options = {word: it for row in (compare, frontier) for it in row.parameters.values() for word in it.spelled}
    names, rest = _split([frontier.spelling(word) for word in words], options)
    given = Counter(word.partition("=")[0] for word in rest if word.startswith("--"))
    further = _repeated(compare, given) - _repeated(frontier, given)
    only = [option for option in given if option in options and not frontier.has(option)]
    if len(names) <= _ONE_OF_EACH and not (further or only):
        return None
    models = [name for place, name in enumerate(names) if not place or _is_model(name)]
    gpus = [name for name in names if name not in models]
    return [*models, *(word for name in gpus for word in ("--on", name)), *rest]


def _repeated(command: Command, given: Mapping[str, int]) -> set[str]:
    """Return the options that were given several times and that a command accepts several times."""
    return {word for it in command.parameters.values() if it.repeat for word in it.spelled if given.get(word, 0) > 1}


def _is_model(name: str) -> bool:
    """Return True if a name is a model and not a GPU. A path is assumed to be a GPU."""
    return _has("models", name) and not _has("hardware", name)


def _has(kind: catalog.Kind, name: str) -> bool:
    """Return True if a name is in the catalog, or if it is an existing file."""
    try:
        catalog.meaning(kind, name)
    except InputError:
        return False
    return True


def _split(words: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], list[str]]:
    """Split command-line words into two lists: names, and options with their values."""
    names: list[str] = []
    rest: list[str] = []
    has_value = False
    for word in words:
        is_option = word.startswith("-") and not has_value
        (rest if is_option or has_value else names).append(word)
        has_value = is_option and word in options and not isinstance(options[word].kind, kinds.Flag)
    return names, rest
