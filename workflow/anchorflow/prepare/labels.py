"""Labels of texts, from what their column holds: label words, values, indices, or named classes.

What a file holds as text is compared as text: "01" is neither 1 nor "1". Integers are indices of
label words only where all of the task's labels are between 0 and the last index and 0 occurs.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.look_alikes import code_points, looks, spellings
from anchorflow.prepare.text_sources import Source

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")  # as Python writes it
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]*)\.0+")
_YES, _NO = ("true", "yes"), ("false", "no")
_SHOWN = 12  # values in a sentence

Index = Mapping[str, int]  # labels by how their values are written


def labels_of(name: str, task: Mapping[str, Any], sources: Sequence[Source]) -> list[list[int]]:
    """The label of every row of each source of a task, as an index of its label words.

    All of the task's sources are given, since whether integers are indices depends on all of them.
    """
    words = [word.strip() for word in task["labels"]]
    apart = task.get("values") or words  # in the order of the labels
    held = [{*source.rows[task["columns"]["label"]]} - {None} for source in sources]
    labels = []
    for source, values in zip(sources, held, strict=True):
        # One file may have words and another one numbers, and 0 may be in another file than 1.
        numeric = _are_numbers(values, len(words))
        found = {v for other in held if _are_numbers(other, len(words)) == numeric for v in other}
        if source.classes is not None:
            index = _of_classes(name, task, source)
        elif task.get("values") is not None:
            index = _of_values(task["values"])
        else:
            index = _without_values(name, words, found, source.where)
        alike = all(_are_numbers(other, len(words)) == numeric for other in held)
        remedy = functools.partial(_remedy, name, source, words, apart, found, alike)
        labels.append(_indices(task, source, index, remedy))
    return labels


def _are_numbers(values: set[Any], labels: int) -> bool:
    return all(isinstance(v, bool) or _number(v, labels) is not None for v in values)


def _of_values(values: Sequence[Any]) -> Index:
    return {s: label for label, value in enumerate(values) for s in spellings(value)}


def _without_values(name: str, words: Sequence[str], found: set[Any], where: str) -> Index:
    """The index of words themselves, or of the integers that stand for them."""
    by_word = {word: label for label, word in enumerate(words)}
    if any(isinstance(value, str) and value in by_word for value in found):
        return by_word
    if found and all(isinstance(value, bool) for value in found):
        return _of_truth(name, words, where)
    numbers = {value: _number(value, len(words)) for value in found}
    integers = {number for number in numbers.values() if number is not None}
    if 0 not in integers or None in numbers.values():
        return by_word
    meant = [_as_number(word) for word in words]
    if any(number not in (None, label) for label, number in enumerate(meant)):
        raise InputError(
            f"{where}: the labels are integers, which could be {', '.join(words)} or their "
            f'indices; under tasks.{name}, write "{_line(_in_order(meant, integers))}" for the '
            f'words, or "{_line(list(range(len(words))))}" for indices.'
        )
    known = {str(value): label for value, label in numbers.items() if label is not None}
    within = {written: label for written, label in known.items() if 0 <= label < len(words)}
    return {str(label): label for label in range(len(words))} | within


def _of_truth(name: str, words: Sequence[str], where: str) -> Index:
    """Truth values as words of these names, or as 0 and 1 of two labels."""
    folded = [word.casefold() for word in words]
    if {*folded} >= {"true", "false"}:
        return {"True": folded.index("true"), "False": folded.index("false")}
    if len(words) != 2 or _begins_with_yes(words):
        raise InputError(
            f"{where}: the labels are true and false, and the label words {', '.join(words)}; "
            f'write which of them stands for which, as in "{_line([True, False])}" under '
            f"tasks.{name}."
        )
    return {"False": 0, "True": 1}


def _begins_with_yes(words: Sequence[str]) -> bool:
    """Whether the first word is more likely to stand for true than the second."""
    first, last = (word.casefold() for word in (words[0], words[-1]))
    return first in _YES or last in _NO or (first, last) == ("1", "0")


def _number(value: Any, labels: int) -> int | None:
    """The integer that a value is, if it could be an index; whole floats only of two labels."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    written = str(value)
    if _INTEGER.fullmatch(written):
        return int(written)
    whole = _WHOLE_FLOAT.fullmatch(written)
    return int(whole[1]) if whole and labels == 2 else None


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _in_order(meant: Sequence[float | None], integers: set[int]) -> list[Any]:
    """The integers that words are as numbers; in increasing order if they are not."""
    return [int(n) for n in meant if n is not None] if {*meant} >= integers else sorted(integers)


def _indices(
    task: Mapping[str, Any], source: Source, index: Index, remedy: Callable[[Any], str]
) -> list[int]:
    column = source.rows[task["columns"]["label"]]
    known = {value: _label(value, index) for value in {*column}}
    if None in known.values():
        values = column.to_list()
        row = next(row for row, value in enumerate(values) if known[value] is None)
        raise InputError(
            f"{source.where}: row {row + 1} has the label {values[row]!r}, which is none of "
            f"{', '.join(index)}{remedy(values[row])}."
        )
    return [label for value in column if (label := known[value]) is not None]


def _label(value: Any, index: Index) -> int | None:
    """The label of a value, however it is written; a missing value is no label."""
    if value is None:
        return None
    return next((index[written] for written in spellings(value) if written in index), None)


def _remedy(
    name: str,
    source: Source,
    words: Sequence[str],
    apart: Sequence[Any],
    found: set[Any],
    is_alike: bool,
    value: Any,
) -> str:
    """What to do about a value that is no label, with the line to copy where one is likely.

    ``is_alike`` says whether all files of the task hold words, or all numbers: one line can't serve
    both.
    """
    if source.classes is not None and value == -1:
        return "; a class of -1 means that there is no label, so name a split that has labels"
    alike = next((str(word) for word in apart if looks(str(word)) == looks(str(value))), "")
    if isinstance(value, str) and alike.upper() not in ("", value.upper()):
        difference = f"{code_points(value)}, the label word {code_points(alike)}"
        if value.strip().upper() == alike.upper():
            difference = "white space around it"
        return f', although it looks like "{alike}": it has {difference}; correct one of them'
    values = None if value is None else _likely_values(found, words, apart)
    if values is None:
        return (
            f"; correct it, or set tasks.{name}.labels and tasks.{name}.values (the column holds "
            f"{_excerpt(found)})"
        )
    if not is_alike:
        return "; correct it, as other files of this task hold labels of another kind"
    other, numbers = "", {_number(known, 2) for known in found}
    if apart is words and values == list(range(1, len(words) + 1)) and len(words) not in numbers:
        other = f', or "{_line(list(range(len(words))))}" if the first is 0'
    return (
        f'; if they stand for the label words in this order, write "{_line(values)}" under '
        f"tasks.{name}{other}"
    )


def _likely_values(found: set[Any], words: Sequence[str], apart: Sequence[Any]) -> list[Any] | None:
    """What probably stands for each label word: itself in another case, or numbers in order."""
    for same in (_looks_of, _as_number):
        seen = {same(value): value for value in found} | {None: None}
        alike = [seen.get(same(value)) for value in apart]
        if len(seen) - 1 == len(found) == len(apart) and None not in alike:
            return [_plain(value) for value in alike]
    if apart is not words:
        return None
    if {looks(str(value)) for value in found} == {"false", "true"} and len(words) == len(found):
        return sorted(found, key=_looks_of, reverse=_begins_with_yes(words))
    integers = [_number(value, len(words)) or 0 for value in found]
    if min(integers, default=0) == 1 and max(integers) <= len(words):
        return list(range(1, len(words) + 1))
    if len(found) != len(words) or None in map(_as_number, found):
        return None
    return [_plain(value) for value in sorted(found, key=float)]


def _looks_of(value: Any) -> str:
    return looks(str(value))


def _plain(value: Any) -> Any:
    """A value as one writes it: integers and truth values without quotation marks."""
    if isinstance(value, bool):
        return value
    return int(value) if _INTEGER.fullmatch(str(value)) else str(value)


def _excerpt(found: set[Any]) -> str:
    listed = sorted(map(str, found))
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def _line(values: Sequence[Any]) -> str:
    """A line for the configuration; characters outside ASCII are escaped."""
    return f"values: {json.dumps(values)}"


def _of_classes(name: str, task: Mapping[str, Any], source: Source) -> Index:
    """The label of each class's number: that in ``values``, by name or number, or its own."""
    where, classes, words = source.where, source.classes, [w.strip() for w in task["labels"]]
    listed = isinstance(classes, list) and all(isinstance(known, str) for known in classes)
    if not (listed and len({*classes}) == len(classes) > 0):
        raise InputError(
            f"{where}: the names of the label column's classes, {classes!r}, are not distinct "
            "texts; write the file again with correct ones, or with names in place of numbers."
        )
    named = f"the label column's classes are {', '.join(classes)}"
    if task.get("values") is None:
        if len(classes) != len(words):
            raise InputError(
                f"{where}: {named}, {len(classes)} for {len(words)} label words; give one word per "
                f"class in tasks.{name}.labels, or the words' classes in tasks.{name}.values."
            )
        label_of = {word.casefold(): label for label, word in enumerate(words)}
        for label, known in enumerate(classes):
            if label_of.get(known.casefold(), label) != label:
                raise InputError(
                    f'{where}: {named}, in this order, so "{known}" would get the label word '
                    f'"{words[label]}"; give tasks.{name}.labels in the same order, or set '
                    f"tasks.{name}.values."
                )
        return {str(label): label for label in range(len(words))}
    numbers = {known: number for number, known in enumerate(classes)}
    numbers = {str(number): number for number in range(len(classes))} | numbers
    index: dict[str, int] = {}
    for label, value in enumerate(task["values"]):
        # Not isinstance: True is no class number.
        number = value if type(value) is int else numbers.get(str(value), -1)
        if not 0 <= number < len(classes) or str(number) in index:
            raise InputError(
                f"{where}: {named}, but {value!r} in tasks.{name}.values is none of them or "
                "repeats one; give the name or number of one class per label word."
            )
        index[str(number)] = label
    return index
