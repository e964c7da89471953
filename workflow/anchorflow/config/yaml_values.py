"""Checks of configuration values whatever their keys: YAML allows more than settings do."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from anchorflow.config.errors import InputError

MOST_BYTES = 1_000_000  # of a configuration file
MOST_VALUES = 100_000  # of a configuration, where an anchor counts each time it is used
DEEPEST = 20
LARGEST = 2**63 - 1  # integer that tables can hold
_BLANKS = "\t\n\r"  # control characters that texts may contain


def check_file(path: str | Path) -> None:
    """Check what is no longer visible once a configuration file is parsed.

    Raises
    ------
    InputError
        If the file is too large for a configuration, or repeats a key, so that only the last one
        would count.
    """
    size = Path(path).stat().st_size
    if size > MOST_BYTES:
        raise InputError(
            f"{path}: {size} bytes are too many for a configuration (at most {MOST_BYTES}); keep "
            "data in separate files."
        )
    text = Path(path).read_text(encoding="utf-8")
    for key, place in _repeated_keys(text):
        raise InputError(
            f'{path}: the key "{key}" appears twice in one mapping{place}; remove or rename one.'
        )


def _repeated_keys(text: str) -> Iterator[tuple[str, str]]:
    """Repeated keys within a mapping, with their line; no line in JSON, which is tried first."""
    repeated: list[str] = []

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in entries)
        repeated.extend(key for key, count in counts.items() if count > 1)
        return dict(entries)

    try:
        json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        yield from _repeated_in_yaml(yaml.compose(text, Loader=yaml.SafeLoader))
    else:
        yield from ((key, "") for key in repeated)


def _repeated_in_yaml(root: yaml.Node | None) -> Iterator[tuple[str, str]]:
    waiting: list[Any] = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        keys = set()
        for key, value in node.value:
            waiting.append(value)
            told = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)
            if told in keys:
                yield str(key.value), f" (line {key.start_mark.line + 1})"
            keys.add(told)


def check_values(config: Mapping[str, Any]) -> None:
    """Check that a configuration is a tree of finite numbers and valid text.

    Raises
    ------
    InputError
        For structures that anchors make huge or recursive, for NaN, infinity and integers out of
        range, and for text with control characters or halves of surrogate pairs; names the key.
    """
    waiting: list[tuple[str, Any, int]] = [("the configuration", config, 0)]
    values = 0
    while waiting:
        key, value, depth = waiting.pop()
        values += 1
        if values > MOST_VALUES or depth > DEEPEST:
            raise InputError(
                f"{key.partition('.')[0]}: holds more than {MOST_VALUES} values, or lists and "
                f"mappings nested more than {DEEPEST} deep; write it out without YAML's anchors."
            )
        if isinstance(value, Mapping):
            for name in value:
                _check_text(key, str(name), "")
            parts = list(value.items())
        elif isinstance(value, list):
            parts = list(enumerate(value))
        else:
            _check_value(key, value)
            continue
        inside = f"{key}." if depth else ""
        waiting += [(f"{inside}{name}", part, depth + 1) for name, part in parts[:MOST_VALUES]]


def _check_value(key: str, value: Any) -> None:
    if isinstance(value, str):
        _check_text(key, value, _BLANKS)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key}: {value} is not a finite number; give one.")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise InputError(f"{key}: an integer beyond {LARGEST}; give a smaller one.")


def _check_text(key: str, text: str, allowed: str) -> None:
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in allowed:
            raise InputError(
                f"{key}: {text!r} holds U+{ord(character):04X}, a control character or half of a "
                "surrogate pair; remove it."
            )
