"""Means of heads' scores, their differences from controls, and how well halves rank heads."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.heads import HEADS_SUMMARY
from anchorflow.analyses.heads.plot import plot_heads
from anchorflow.analyses.heads.summarize import ranks_agree, summarize_heads
from anchorflow.analyses.heads.tabulate import tabulate_heads
from anchorflow.schemas.frames import frame_schema
from constructed.heads import heads
from constructed.interventions import prompts
from figure_style import figure_of

SCORES = {
    "label_copy": {(0, 0): [1.0, 3.0], (0, 1): [-4.0, -4.0], (1, 0): [0.5, 0.5], (1, 1): [0, 1]},
    "direct": {(0, 0): [2.0, 2.0], (0, 1): [0.0, 0.0], (1, 0): [1.0, 1.0], (1, 1): [3.0, 3.0]},
}


def summary() -> pl.DataFrame:
    return summarize_heads(heads(SCORES, {"label_copy": 0.5}), prompts(), 0.95)


def test_scores_are_averaged_and_keep_their_sign() -> None:
    table = summary()
    assert table.schema == frame_schema(HEADS_SUMMARY)
    of_news = table.filter(task="news", score="label_copy")
    values = of_news.filter(measure="value").sort("layer", "head")["mean"].to_list()
    assert values == [2.0, -4.0, 0.5, 0.5]
    less = of_news.filter(measure="difference").sort("layer", "head")["mean"].to_list()
    assert less == [1.5, -4.5, 0.0, 0.0]
    measures = set(table.filter(score="direct")["measure"])
    assert measures == {"value", "reliability"}  # without a control, no difference


def test_halves_that_rank_heads_alike_are_reliable() -> None:
    reliable = summary().filter(measure="reliability", task="news")
    assert set(reliable["layer"]) == set(reliable["head"]) == {-1}
    by_score = dict(reliable.select("score", "mean").iter_rows())
    assert by_score["direct"] == pytest.approx(1)  # all examples are alike
    # Ranks 4, 1, 3, 2 of the first text, of the second 4, 1, 2, 3 (3.0 and -4.0 at the ends).
    assert by_score["label_copy"] == pytest.approx(0.8)


def test_halves_are_the_same_texts_for_all_seeds() -> None:
    """With one split per seed, means over seeds would mix all texts into both halves."""
    rows = heads({"direct": {(0, head): [float(head), -float(head)] for head in range(4)}}, seeds=8)
    table = summarize_heads(rows, prompts(), 0.95)
    (mean,) = table.filter(measure="reliability", task="news")["mean"]
    assert mean == pytest.approx(-1)  # one text ranks the heads upwards, the other downwards


def test_a_missing_control_is_no_control_of_zero() -> None:
    table = summarize_heads(heads(SCORES), prompts(), 0.95)
    assert table.filter(score="label_copy", measure="difference")["mean"].is_null().all()
    assert table.filter(score="direct", measure="value")["mean"].is_not_null().all()


def test_the_gradient_is_compared_with_the_exact_effect_over_heads() -> None:
    effects = {(0, head): [float(head), head + 1.0] for head in range(4)}
    falling = {(0, head): [-float(head), -head - 1.0] for head in range(4)}
    rows = heads({"function_vector": effects, "gradient": falling}, {"function_vector": 0.0})
    agreement = summarize_heads(rows, prompts(), 0.95).filter(measure="agreement", task="news")
    assert agreement.select("score", "layer", "mean").rows() == [("gradient", -1, -1.0)]


def test_ranks_that_are_all_alike_agree_with_nothing() -> None:
    assert np.isnan(ranks_agree(np.array([1.0, 1.0, 2.0, 3.0])))
    assert ranks_agree(np.array([1.0, 2.0, 2.0, 1.0])) == pytest.approx(-1)


def test_the_table_has_the_highest_heads_by_their_differences_from_controls() -> None:
    first = (pl.col("score") == "label_copy") & (pl.col("layer") == 0) & (pl.col("head") == 0)
    control = pl.when(first).then(9.0).otherwise("control")
    scores = heads(SCORES, {"label_copy": 0.5}).with_columns(control=control)
    rows = tabulate_heads(summarize_heads(scores, prompts(), 0.95)).table
    copied = rows.filter(score="label_copy")
    assert copied.select("layer", "head").rows()[2:] == [(0, 1), (0, 0)]
    first = rows.filter(score="direct").row(0, named=True)
    assert (first["layer"], first["head"], first["difference"]) == (1, 1, "–")


def test_the_largest_head_above_0_is_named_and_beside_the_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = {(0, 0): [1.0], (0, 1): [-4.0], (1, 0): [0.5], (1, 1): [0.0]}
    below, half = {place: [-1.0] for place in copy}, {"label_copy": 0.5}
    table = summarize_heads(heads({"label_copy": copy, "direct": below}, half), prompts(), 0.95)
    twin = heads({"label_copy": {**copy, (1, 0): [2.0]}, "direct": copy}, half, model="tiny+a")
    panels = figure_of(monkeypatch, plot_heads, table, untrained=twin).axes
    assert [panel.get_title() for panel in panels[:4]] == [
        "direct effect\nnone above 0",
        "label copy\n0.50 at layer 0, head 0",
        "untrained: 1.00 at layer 0, head 0",
        "untrained: 1.50 at layer 1, head 0",
    ]
    assert [bar.get_xlabel() for bar in panels[4:]] == ["logits"] * 2
    of_two_texts = figure_of(monkeypatch, plot_heads, summary()).axes[1].get_title()
    assert of_two_texts.splitlines()[-1] == "r between halves 0.80"
    assert len(figure_of(monkeypatch, plot_heads, table).axes) == 2 + 2  # and color bars
