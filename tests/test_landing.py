"""Where attention lands, by segment and place, worked out by hand."""

from pathlib import Path

import polars as pl
import pytest
from test_heads import STYLE, prompts

from anchorflow.landing import segment_measures, summarize_landing
from anchorflow.landing_figure import draw_landing
from anchorflow.segments import PLACES, SEGMENTS
from anchorflow.summaries import AVERAGE
from anchorflow.tables import LANDING, PLACED, SEGMENTED, frame_schema
from anchorflow.tabulate import tabulate_landing

TOKENS = [2, 10, 2, 1, 0]
ATTENTION = [0.02, 0.2, 0.02, 0.16, 0.0]  # of head 0; head 1 has none


def segmented(task: str = "news", seed: int = 0) -> pl.DataFrame:
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
            "width": tokens / sum(TOKENS),
        }
        for example in range(3)
        for layer in range(2)
        for head in range(2)
        for segment, attention, tokens in zip(SEGMENTS, ATTENTION, TOKENS, strict=True)
    ]
    return pl.DataFrame(rows, schema=frame_schema(SEGMENTED))


def placed(task: str = "news", seed: int = 0) -> pl.DataFrame:
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


def test_attention_is_shared_among_segments_and_divided_by_their_tokens() -> None:
    keys, values = segment_measures(segmented())
    first = keys.with_columns(pl.Series("value", values[0])).filter(pl.col("layer") == 0)
    of = {(s, m): v for s, m, v in first.select("segment", "measure", "value").iter_rows()}
    assert of["text", "per_token"] == pytest.approx(0.2 / 2 / 10)
    assert of["label", "per_token"] == pytest.approx(0.16 / 2)
    assert of["label", "share"] == pytest.approx(0.4)
    assert of["text", "length"] == pytest.approx(10 / 15)
    assert of["after", "share"] == 0
    assert of["after", "per_token"] != of["after", "per_token"]  # no tokens, no mean


def summary() -> pl.DataFrame:
    cells = [(task, seed) for task in ("news", "reviews") for seed in (0, 1)]
    return summarize_landing(
        pl.concat([segmented(*cell) for cell in cells]),
        pl.concat([placed(*cell) for cell in cells]),
        prompts(),
        100,
        0.9,
    )


def test_summary_has_segments_and_places_of_every_layer() -> None:
    table = summary()
    assert table.schema == frame_schema(LANDING)
    assert len(table) == 3 * 2 * (5 * 4 + PLACES)
    places = table.filter(pl.col("task") == AVERAGE, pl.col("place") > 0.9, pl.col("layer") == 1)
    assert places["mean"].to_list() == pytest.approx([0.18, 0.19])
    assert places["segment"].null_count() == 2


def test_figure_and_table(tmp_path: Path) -> None:
    draw_landing(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
    rows = tabulate_landing(summary())
    assert rows["layer"].to_list() == ["0", "1", "tokens"]
    assert rows["label"][0].startswith("0.40 [")
    assert rows["text"][2].startswith("0.67 [")
