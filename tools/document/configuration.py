"""docs/reference/configuration.md, made from the configuration's schema."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anchorflow.config.configuration import SEEDS_AND_TEXTS, read_schema
from anchorflow.config.stages import SHARDED
from tools.document import SCHEMA_FILE
from tools.document.markdown import page


class Row(NamedTuple):
    """One key of the configuration, as the table shows it."""

    key: str  # as code
    kind: str
    default: str
    description: str


def configuration_page() -> str:
    """The text of the page: an introduction, then every key of the schema.

    A section says in ``x-rebuilds`` what is computed again if one of its keys changes.
    """
    schema = read_schema(SCHEMA_FILE)
    parts = schema["properties"].items()
    rebuilds = [(key, part["x-rebuilds"]) for key, part in parts if "x-rebuilds" in part]
    *most, last = SHARDED
    sharded = f"{', '.join(most)} and {last}"
    sections = list(_sections(schema))
    return page("configuration.md", sections=sections, rebuilds=rebuilds, sharded=sharded)


def _sections(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Row]]]:
    """Heading, description and rows of every table.

    Keys at the top level that hold a plain value share one table; each that holds further keys
    has a table of its own.
    """
    plain = {key: part for key, part in schema["properties"].items() if not _is_mapping(part)}
    for key, part in schema["properties"].items():
        if key not in plain:
            yield f"`{key}`", part["description"], list(_inner_rows(part, key))
        elif key == next(iter(plain)):
            heading = "Draws and scoring" if len(plain) > 1 else f"`{key}`"
            yield heading, "", [_row(schema, k, p, k) for k, p in plain.items()]


def _is_mapping(part: Mapping[str, Any]) -> bool:
    return "properties" in part or isinstance(part.get("additionalProperties"), dict)


def _inner_rows(part: Mapping[str, Any], prefix: str) -> Iterator[Row]:
    named = part.get("additionalProperties")
    if isinstance(named, dict):
        pattern = part.get("propertyNames", {}).get("pattern")
        kind = f"mapping; `<name>` matches `{pattern}`" if pattern else "mapping"
        default = "at least one" if part.get("minProperties") else "none"
        description = "One entry; its keys follow."
        if not _is_mapping(named):
            kind, description = kind.replace("mapping", _kind(named), 1), named["description"]
        yield Row(f"`{prefix}.<name>`", kind, default, description)
        yield from _inner_rows(named, f"{prefix}.<name>")
    for key, inner in part.get("properties", {}).items():
        if inner.get("description") == SEEDS_AND_TEXTS.get(key):
            continue  # of every analysis, so said once
        yield _row(part, key, inner, f"{prefix}.{key}")
        if _is_mapping(inner):
            yield from _inner_rows(inner, f"{prefix}.{key}")


def _row(parent: Mapping[str, Any], key: str, part: Mapping[str, Any], name: str) -> Row:
    return Row(f"`{name}`", _kind(part), _default(parent, key, part), part["description"])


def _kind(part: Mapping[str, Any]) -> str:
    """Type, choices and bounds of a key, in words."""
    if "enum" in part:
        return _either([f"`{choice}`" for choice in part["enum"]])
    if "oneOf" in part:
        return _either([_kind(choice) for choice in part["oneOf"]])
    kind = part["type"]
    if not isinstance(kind, str):
        return _either(kind)
    if kind == "object":
        return "mapping"
    if kind == "array":
        return _list_kind(part)
    words = [kind]
    for bound, sign in (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    ):
        if bound in part:
            words.append(f"{sign} {part[bound]}")
    if "pattern" in part:
        words.append(f"matching `{part['pattern']}`")
    return ", ".join(words)


def _list_kind(part: Mapping[str, Any]) -> str:
    least, most = part.get("minItems", 0), part.get("maxItems")
    count = f"{least} " if least == most else f"at least {least} " if least > 1 else ""
    distinct = "distinct " if part.get("uniqueItems") else ""
    choices, words = part["items"].get("enum"), re.findall(r"\w+", part.get("description", ""))
    if choices and set(choices) <= set(words):
        return f"list of {count}{distinct}choices"
    return f"list of {count}{distinct}values ({_kind(part['items'])})"


def _default(parent: Mapping[str, Any], key: str, part: Mapping[str, Any]) -> str:
    if "default" in part:
        if part["default"] == {}:
            return "the defaults of its keys"
        return f"`{json.dumps(part['default'], ensure_ascii=False)}`"
    if key in parent.get("required", []):
        return "required"
    sources = [
        rule["if"]["properties"]["source"]["const"]
        for rule in parent.get("allOf", [])
        if key in rule["then"]["required"]
    ]
    if sources:
        return "required for " + " and ".join(f"`{source}`" for source in sources)
    return "none"


def _either(choices: Sequence[str]) -> str:
    """The choices as in "a, b or c"."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
