"""docs/data_dictionary.md, made from the tables' schemas so that the two can't drift apart.

``python -m anchorflow.data_dictionary`` writes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from anchorflow.tables import TABLES

ROOT = Path(__file__).parents[2]
DICTIONARY_FILE = ROOT / "docs" / "data_dictionary.md"

_CELL = "results/{}/{{model}}/{{task}}/{{seed}}.parquet"
_INNER = "results/{}/{{model}}/{{task}}/{{seed}}/{}.parquet"
_SUMMARY = ("results/{}/{{model}}.parquet", "results/tables/{}.csv")


def _summary(table: str) -> tuple[str, ...]:
    return tuple(pattern.format(table) for pattern in _SUMMARY)


FILES: dict[str, tuple[str, ...]] = {
    "texts": ("results/texts/{task}.parquet",),
    "samples": (
        "results/samples/{task}/{seed}.parquet",
        _INNER.format("kernel", "samples"),
        _INNER.format("retrieval", "samples"),
    ),
    "prompts": (
        _CELL.format("prompts"),
        _INNER.format("reweighting", "prompts"),
        _INNER.format("kernel", "prompts"),
        _INNER.format("retrieval", "prompts"),
    ),
    "attention": (_CELL.format("attention"),),
    "predictions": (_CELL.format("predictions"), _INNER.format("kernel", "predictions")),
    "saliency": (_CELL.format("saliency"),),
    "isolation": (_CELL.format("isolation"),),
    "loyalty": _summary("loyalty"),
    "flow": _summary("flow"),
    "deep": _summary("deep"),
    "beta": (_INNER.format("reweighting", "beta"),),
    "descent": (_INNER.format("reweighting", "descent"),),
    "learning_rates": (_INNER.format("reweighting", "learning_rates"),),
    "reweighting": (_INNER.format("reweighting", "predictions"),),
    "embeddings": ("results/embeddings/{task}.parquet",),
    "retrieval": (_INNER.format("retrieval", "predictions"),),
    "neighbors": _summary("neighbors"),
    "performance": _summary("performance"),
    "compression": (_CELL.format("compression"),),
    "retention": _summary("retention"),
    "timing": (_CELL.format("timing"), "results/tables/timing.csv"),
    "diagnosis": (_CELL.format("diagnosis"),),
    "confusion": _summary("confusion"),
    "label_words": _summary("label_words"),
    "kernel_attention": (_INNER.format("kernel", "attention"),),
    "kernel": (_INNER.format("kernel", "kernel"),),
    "segments": (_INNER.format("kernel", "segments"),),
    "places": (_INNER.format("kernel", "places"),),
    "similarity": (_INNER.format("kernel", "similarity"),),
    "states": (_INNER.format("kernel", "states"),),
    "counts": (_INNER.format("kernel", "counts"),),
    "probes": (_CELL.format("probes"),),
    "heads": _summary("heads"),
    "landing": _summary("landing"),
    "regressors": _summary("regressors"),
    "decoding": _summary("decoding"),
    "token_saliency": (_CELL.format("token_saliency"),),
    "shown_prompts": (_CELL.format("shown_prompts"),),
    "claims": _summary("claims"),
    "accuracy": _summary("accuracy"),
}

_INTRODUCTION = """# Data dictionary

<!-- Made from workflow/anchorflow/tables.py by `python -m anchorflow.data_dictionary`.
Edit the schemas, not this file. -->

Every table that a run writes: where its files lie, what a row is, and what its columns hold.

- `{model}`, `{task}` and `{seed}` in a path are those of the configuration. Files of a task with
  other label words have `{task}` as in `reviews+symbols`, and so has their column `task`.
- The **keys** together tell the rows of a table apart, over all files of one path. A null among
  them counts as a value. Only samples under `results/kernel` and `results/retrieval` need the
  path for the model too. Tables under several paths hold different prompts: see `demonstrations`
  below.
- The unit `1` stands for a number without a unit; no unit, for a name, an index or a text; `as
  mean`, for that of the column `mean`.
- The CSV files hold the rows of all models, with the same columns.

A Parquet file carries descriptions and units too, and says in its metadata what made it: `table`,
`rows`, `keys`, `schema_version`, `settings` (the part of the configuration and the model that its
values depend on) and `software` (versions). The SHA-256 of all its other bytes lies before its
footer, where other readers do not look; the workflow refuses a damaged file.
"""


def data_dictionary(tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]]) -> str:
    """The text of docs/data_dictionary.md: an overview of all tables, then a section for each.

    Parameters
    ----------
    files : mapping
        Path patterns by table name.
    """
    overview = (
        [f"[{name}](#{name})", _of(schema, "rows"), _paths(files[name], "<br>")]
        for name, schema in tables.items()
    )
    parts = [_INTRODUCTION, _markdown(["table", "rows", "files"], overview)]
    for name, schema in tables.items():
        keys = ", ".join(f"`{key}`" for key in keys_of(schema))
        parts += [
            f"## {name}\n",
            f"Rows: {_of(schema, 'rows')}. Keys: {keys}.\n",
            f"Files: {_paths(files[name], ', ')}\n",
            _markdown(["column", "type", "unit", "description"], _fields(schema)),
        ]
    return "\n".join(parts)


def keys_of(schema: pa.Schema) -> list[str]:
    """The columns that together tell a table's rows apart."""
    return _of(schema, "keys").split()


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _paths(patterns: Sequence[str], between: str) -> str:
    return between.join(f"`{pattern}`" for pattern in patterns)


def _fields(schema: pa.Schema) -> Iterator[list[str]]:
    for field in schema:
        yield [f"`{field.name}`", _kind(field.type), _of(field, "unit"), _of(field, "description")]


def _kind(kind: pa.DataType) -> str:
    """A column's type, as in "list of float32"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))


def _markdown(names: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DICTIONARY_FILE.write_text(data_dictionary(TABLES, FILES), encoding="utf-8")
