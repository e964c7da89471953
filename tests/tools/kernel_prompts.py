"""Prompts for kernel regression: whole, with fewer demonstrations, and each text alone."""

from typing import Any

import polars as pl

from anchorflow.analyses.kernel.samples import TextsApart
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from tiny_models import shared_prompts

SPANS = [(0, 10), (10, 20), (20, 30)]


def kernel_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts with queries of these lengths and the same three demonstrations."""
    return shared_prompts(queries).with_columns(demonstrations=pl.lit("kernel"))


def with_first(prompts: pl.DataFrame, count: int) -> pl.DataFrame:
    """The same prompts with the first one or two of their demonstrations alone."""
    rows, gone = prompts.to_dicts(), 30 - 10 * count
    for row in rows:
        row["token_ids"] = row["token_ids"][: 10 * count] + row["token_ids"][30:]
        for name in ("tokens", "target_position", "query_start"):
            row[name] -= gone
        for name in ("label_positions", "label_ends", "demonstration_starts", "demonstration_ends"):
            row[name] = row[name][:count]
        row["demonstration_labels"] = row["demonstration_labels"][:count]
        row["field_starts"] = [*row["field_starts"][:count], row["field_starts"][-1] - gone]
        row["field_ends"] = [*row["field_ends"][:count], row["field_ends"][-1] - gone]
    return pl.DataFrame(rows, schema=prompts.schema)


def each_alone(prompts: pl.DataFrame) -> TextsApart:
    """The queries, and the demonstrations up to their label words, as prompts of their own.

    As texts alone, they lack their first and last token.
    """
    rows = prompts.to_dicts()
    shared = rows[0]["token_ids"]
    texts = [(row["example"], row["token_ids"][30:]) for row in rows]
    shown = [(k, shared[start : end - 2]) for k, (start, end) in enumerate(SPANS)]

    def table(queries: list[tuple[int, list[int]]]) -> pl.DataFrame:
        names = ("label_positions", "label_ends", "demonstration_starts", "demonstration_ends")
        empty: dict[str, Any] = {name: [] for name in (*names, "demonstration_labels")}
        made = [
            {
                **rows[0],
                **empty,
                "demonstrations": "alone",
                "example": example,
                "tokens": len(tokens),
                "token_ids": tokens,
                "target_position": len(tokens) - 1,
                "query_start": 0,
            }
            for example, tokens in queries
        ]
        return pl.DataFrame(made, schema=frame_schema(PROMPTS))

    in_template = table(texts), table(shown)
    inner = [[(number, ids[1:-1]) for number, ids in queries] for queries in (texts, shown)]
    return TextsApart((table(inner[0]), table(inner[1])), in_template)
