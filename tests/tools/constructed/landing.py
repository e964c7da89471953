"""Attention by segment and place as tables, for summaries worked out by hand."""

from collections.abc import Sequence

import polars as pl

from anchorflow.measure.segments import PLACES, segment_names
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.kernel import PLACED, SEGMENTED
from anchorflow.summarize.landing import summarize_landing
from constructed.kernel import prompts

TOKENS = [2, 10, 2, 1, 0]
ATTENTION = [0.02, 0.2, 0.02, 0.16, 0.0]  # of head 0; head 1 has none


PAIRS = ("premise", "hypothesis")
PAIRED_TOKENS = [1, 4, 1, 6, 1, 2, 1]
PAIRED_ATTENTION = [0.01, 0.1, 0.01, 0.1, 0.02, 0.24, 0.02]


def segmented(task: str = "news", seed: int = 0, fields: Sequence[str] = ("text",)) -> pl.DataFrame:
    """Attention by segment: three examples, two layers and two heads, all examples alike."""
    tokens_of = TOKENS if len(fields) == 1 else PAIRED_TOKENS
    attention_of = ATTENTION if len(fields) == 1 else PAIRED_ATTENTION
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "layer": layer,
            "head": head,
            "segment": segment,
            "attention": attention * (head == 0),
            "tokens": tokens,
            "width": tokens / sum(tokens_of),
        }
        for example in range(3)
        for layer in range(2)
        for head in range(2)
        for segment, attention, tokens in zip(
            segment_names(fields), attention_of, tokens_of, strict=True
        )
    ]
    return pl.DataFrame(rows, schema=frame_schema(SEGMENTED))


def placed(task: str = "news", seed: int = 0) -> pl.DataFrame:
    """Attention by place, which rises along the demonstration."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "layer": layer,
            "place": (place + 0.5) / PLACES,
            "attention": place / 100,
        }
        for example in range(3)
        for layer in range(2)
        for place in range(PLACES)
    ]
    return pl.DataFrame(rows, schema=frame_schema(PLACED))


def summary() -> pl.DataFrame:
    """The summary of two tasks with two seeds each."""
    cells = [(task, seed) for task in ("news", "reviews") for seed in (0, 1)]
    return summarize_landing(
        pl.concat([segmented(*cell) for cell in cells]),
        pl.concat([placed(*cell) for cell in cells]),
        prompts(),
        0.9,
    )


def summary_with_pairs() -> pl.DataFrame:
    """The summary of a task with one field and of one with two."""
    return summarize_landing(
        pl.concat([segmented("news"), segmented("reviews", fields=PAIRS)]),
        pl.concat([placed("news"), placed("reviews")]),
        prompts(),
        0.9,
    )
