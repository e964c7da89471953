"""Table 2: loyalty to the full prompt, the best of random sets, and how these are shown."""

from itertools import pairwise

import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from anchorflow.analyses.compression import COMPRESSION, COMPRESSION_SUMMARY
from anchorflow.analyses.compression.plot import plot_compression
from anchorflow.analyses.compression.styles import LOOKS
from anchorflow.analyses.compression.summarize import (
    halves,
    retention_measures,
    summarize_compression,
    table_2,
)
from anchorflow.analyses.compression.tabulate import tabulate_compression
from anchorflow.kept_positions import AT_ANY_BUDGET
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.change import CHANGES
from constructed.compression import (
    EXAMPLES,
    compression_of,
    prompts_of,
    row,
    summary_of_the_paper_s_tasks,
)
from constructed.rows import frame
from figure_style import figure_of, labels_of, level_of_chance


def means(summary: pl.DataFrame, method: str) -> dict[str, float]:
    rows = summary.filter(pl.col("method") == method, pl.col("task") == "news")
    return dict(rows.select("measure", "mean").iter_rows())


def test_loyalty_and_kept_share_are_measured_against_everything_kept() -> None:
    compression = compression_of({0: set(range(4)), 1: set()})
    summary = summarize_compression(compression, prompts_of(["news"]), 0.9)
    assert summary.schema == frame_schema(COMPRESSION_SUMMARY)
    assert means(summary, "full") == {
        "label_loyalty": 1,
        "word_loyalty": 1,
        "accuracy": 0.5,
        "kept_share": 1,
        **dict.fromkeys(CHANGES, 0),
        "label_mass": 0.75,
        "in_labels": 1,
        "retained": None,  # without the run that keeps the first token alone
    }
    random = means(summary, "hidden_random")
    assert random["label_loyalty"] == 0.25
    assert random["word_loyalty"] == pytest.approx(0.25 + 0.75 * 3 / 7)
    assert random["accuracy"] == 0.5
    assert random["kept_share"] == 0.25
    # As many become wrong as right, all of them with another token as the likeliest but one, which
    # becomes right.
    assert [random[name] for name in CHANGES] == [0, -1 / 16, 1 / 16]
    assert (random["label_mass"], random["in_labels"]) == (0.375, 5 / 16)
    assert set(summary.filter(method="hidden_random")["draws"]) == {2}
    assert set(summary.filter(method="hidden_random_top")["draws"]) == {1}


def test_a_prompt_that_no_whole_label_word_fits_behind_counts_as_skipped() -> None:
    compression = compression_of({0: set(), 1: set()}).filter(pl.col("example") != 3)
    summary = summarize_compression(compression, prompts_of(["news"]), 0.9)
    assert set(summary["skipped"]) == {1}
    assert set(summary["examples"]) == {EXAMPLES - 1}


def test_an_oracle_takes_the_draw_that_is_best_on_the_examples_it_is_scored_on() -> None:
    compression = compression_of({0: {0}, 1: {0, 1, 2, 3, 4}, 2: {7}})
    measured = retention_measures(compression)
    oracle = measured.filter(pl.col("method") == "hidden_random_oracle")
    assert oracle["example"].sort().to_list() == list(range(EXAMPLES))
    assert oracle.filter(pl.col("label_loyalty") == 1)["example"].sort().to_list() == [*range(5)]


def test_held_out_choice_never_sees_the_half_it_is_scored_on() -> None:
    drawn = halves(pl.Series("example", range(EXAMPLES)), 0)
    one, other = (set(drawn.filter(half=half)["example"]) for half in (0, 1))
    assert len(one) == len(other) == EXAMPLES // 2
    # Draw 0 is loyal on one half only, draw 1 on the other: each choice is wrong where it counts.
    compression = compression_of({0: one, 1: other})
    measured = retention_measures(compression)
    top = measured.filter(pl.col("method") == "hidden_random_top")
    assert top["example"].sort().to_list() == list(range(EXAMPLES))
    assert set(top["label_loyalty"]) == {0}
    oracle = measured.filter(pl.col("method") == "hidden_random_oracle")
    assert oracle["label_loyalty"].mean() == 0.5
    # A draw that is loyal everywhere is found from either half.
    always = retention_measures(compression_of({0: set(range(EXAMPLES)), 1: one}))
    assert set(always.filter(pl.col("method") == "hidden_random_top")["label_loyalty"]) == {1}


@pytest.mark.parametrize("draws", [{}, {0: {0}}], ids=["none", "one"])
def test_without_several_random_draws_there_is_no_best_one(draws: dict[int, set[int]]) -> None:
    compression = compression_of(draws)
    summary = summarize_compression(compression, prompts_of(["news"]), 0.9)
    random = {"hidden_random"} if draws else set()
    assert set(summary["method"]) == {"full", "hidden_anchor"} | random


def test_a_seed_with_one_example_has_no_held_out_choice() -> None:
    one = compression_of({0: {0}, 1: set()}).filter(pl.col("example") == 0)
    measured = retention_measures(one)
    assert measured.filter(pl.col("method") == "hidden_random_top").is_empty()
    assert measured.filter(pl.col("method") == "hidden_random_oracle").height == 1
    summary = summarize_compression(one, prompts_of(["news"]), 0.9)
    assert means(summary, "hidden_random_oracle")["label_loyalty"] == 1


def test_shares_are_rows_of_their_own() -> None:
    swept = [
        row("recent", e, 0, share == 0.5, share=share)
        for share in (None, 0.5)
        for e in range(EXAMPLES)
    ]
    compression = pl.concat([compression_of({}), frame(swept, COMPRESSION, model="m")])
    summary = summarize_compression(compression, prompts_of(["news"]), 0.9)
    loyalty = summary.filter(method="recent", measure="label_loyalty", task="news")
    assert dict(loyalty.select("share", "mean").iter_rows()) == {None: 0, 0.5: 1}


def test_published_figures_stand_beside_the_average_over_the_paper_s_tasks_and_below_ours() -> None:
    tasks = ["sst2", "trec", "agnews", "emoc"]
    assert table_2("gpt2-xl", tasks[:2]).is_empty()
    assert table_2("gemma", tasks).is_empty()
    summary = summary_of_the_paper_s_tasks()
    cell = summary.filter(task="average", method="hidden_anchor", measure="label_loyalty")
    assert cell["published"].item() == pytest.approx(0.8906)
    assert summary.filter(pl.col("task") != "average")["published"].is_null().all()
    table = tabulate_compression(summary).table.filter(method="hidden_anchor (published)")
    assert table.select("label_loyalty", "accuracy").row(0) == ("0.89", "0.56")


def test_names_of_many_methods_have_room_and_accuracy_stands_beside_that_of_a_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = summary_of_the_paper_s_tasks()
    figure = figure_of(monkeypatch, plot_compression, table, labels_of(table, 4))
    assert level_of_chance(figure, 3, vertical=True) == 0.25
    one = table.filter(pl.col("share").is_null(), method=table["method"][0])
    table = pl.concat([one.with_columns(method=pl.lit(method)) for method in LOOKS])
    figure = figure_of(monkeypatch, plot_compression, table, labels_of(table))
    assert names_in_order(figure, 0) == [look.name for look in LOOKS.values()]


def names_in_order(figure: Figure, panel: int) -> list[str]:
    """The names beside a panel, from top to bottom, none over another or beyond the page."""
    figure.draw_without_rendering()
    boxes = [
        (Text.get_window_extent(text), text.get_text())  # without arrows
        for text in figure.axes[panel].texts
    ]
    boxes.sort(key=lambda box: -box[0].y0)
    assert all(above.y0 > below.y1 - 1 for (above, _), (below, _) in pairwise(boxes))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box, _ in boxes)
    return [name for _, name in boxes]


def test_lines_are_named_at_their_ends_in_the_order_of_what_they_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve methods at two shares, of which all but one reach nearly the same."""
    table = summary_of_the_paper_s_tasks()
    lines = [name for name in LOOKS if name in AT_ANY_BUDGET][:12]
    parts = [table]
    for place, method in enumerate(lines):
        for share in (0.25, 0.5):
            height = 0.3 if place == 0 else 0.5 + place / 1000
            mean = pl.when(measure="kept_share").then(share).otherwise(height)
            of_line = table.filter(pl.col("method") == "hidden_anchor")
            parts.append(
                of_line.with_columns(method=pl.lit(method), share=pl.lit(share), mean=mean)
            )
    figure = figure_of(monkeypatch, plot_compression, pl.concat(parts), labels_of(table, 4))
    for panel, title in enumerate(("accuracy", "label loyalty")):
        assert figure.axes[panel].get_title() == title
        names = names_in_order(figure, panel)
        ends = [name for name in names if name in [LOOKS[line].name for line in lines]]
        assert ends == [LOOKS[line].name for line in [*lines[:0:-1], lines[0]]]
        assert {"everything", "anchors", "random for label words"} < {*names}
