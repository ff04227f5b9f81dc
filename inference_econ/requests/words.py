"""Command lines: their command, by its name of today, an old one, a synonym or a guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.requests import kinds
from inference_econ.requests.tables import COMMANDS, GUESSED, OLD_NAMES, SYNONYMS, Command, Parameter, gone

#: A model and a GPU [1].
_ONE_OF_EACH = 2


def current_words(words: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Replace an old name or a synonym of a command, and a frontier of several models, GPUs or settings by ``compare``.

    Parameters
    ----------
    words : sequence of str
        A command line without the name of the program, at least one word.
    tell : callable
        Gets one sentence if the name is old.

    Raises
    ------
    InputError
        If there is no such command, with what to type.
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
    """Return whether a command line may begin with a word."""
    return word in {*(name.split()[0] for name in COMMANDS), *SYNONYMS, *OLD_NAMES, *GUESSED}


def command_of(words: Sequence[str], tell: Callable[[str], None]) -> tuple[Command, list[str]]:
    """Find the command of a command line, and the words behind its name; see :func:`current_words`."""
    now = current_words(words, tell)
    count = 2 if " ".join(now[:2]) in COMMANDS else 1
    name = " ".join(now[:count])
    if name not in COMMANDS:
        raise InputError(f"{name} is a group of commands; 'inference-econ {name} --help' lists them")
    return COMMANDS[name], now[count:]


def _as_comparison(words: Sequence[str]) -> list[str] | None:
    """Rewrite the words of ``frontier`` as words of ``compare``.

    Parameters
    ----------
    words : sequence of str
        A command line behind ``frontier``.

    Returns
    -------
    list of str or None
        Words behind ``compare``; None if there is one model, one GPU and one value of each option.
    """
    frontier, compare = COMMANDS["frontier"], COMMANDS["compare"]
    options = {word: it for row in (compare, frontier) for it in row.parameters.values() for word in it.spelled}
    names, rest = _split([frontier.spelling(word) for word in words], options)
    given = Counter(word.partition("=")[0] for word in rest if word.startswith("--"))
    repeated = {
        word
        for it in compare.parameters.values()
        if it.repeat and not _frontier_repeats(it.name)
        for word in it.spelled
    }
    only = {word for word in options if word.startswith("--") and not _has(frontier.parameters, word)}
    if len(names) <= _ONE_OF_EACH and not any(given[word] > 1 for word in repeated) and not only & given.keys():
        return None
    gpus = [name for name in names if _is_gpu(name)]
    return [*(name for name in names if name not in gpus), *(word for name in gpus for word in ("--on", name)), *rest]


def _frontier_repeats(name: str) -> bool:
    """Return whether one frontier takes an option several times."""
    parameter = COMMANDS["frontier"].parameters.get(name)
    return parameter is not None and parameter.repeat


def _split(words: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], list[str]]:
    """Names, and options with their values."""
    names: list[str] = []
    rest: list[str] = []
    values = 0
    for word in words:
        if values:
            values -= 1
            rest.append(word)
        elif word.startswith("-"):
            parameter = options.get(word)
            flag = parameter is None or isinstance(parameter.kind, kinds.Flag)
            values = 0 if flag else 1
            rest.append(word)
        else:
            names.append(word)
    return names, rest


def _has(parameters: Mapping[str, Parameter], word: str) -> bool:
    return any(word in parameter.spelled for parameter in parameters.values())


def _is_gpu(name: str) -> bool:
    try:
        catalog.meaning("hardware", name)
    except InputError:
        return False
    return True
