"""Loyalty: the four measures and their averages, worked out by hand, and the figure of these."""

from math import log

import polars as pl
import pytest

from anchorflow.analyses.isolation import ISOLATION_SUMMARY
from anchorflow.analyses.isolation.plot import plot_isolation
from anchorflow.analyses.isolation.summarize import loyalty_measures, summarize_isolation
from anchorflow.present.style import thin
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics import change
from constructed.interventions import isolation
from constructed.interventions import isolation_prompts as prompts
from figure_style import figure_of, level_of_chance

# With label words isolated, the first text's probabilities go from (1/4, 3/4) to (1/2, 1/2), and
# without demonstrations to (1, 0): the divergences are those from the means of two distributions.
LOST = 0.25 * log(2 / 3) + 0.75 * log(6 / 5) + 0.5 * log(4 / 3) + 0.5 * log(4 / 5)
WHOLE = 0.25 * log(2 / 5) + 0.75 * log(2) + log(8 / 5)
RETAINED = 1 - LOST / WHOLE
# Of the second text, nothing is lost; without demonstrations, it goes from (1/2, 1/2) to (1, 0).
OTHER_WHOLE = 0.5 * log(2 / 3) + 0.5 * log(2) + log(4 / 3)


def test_measures_compare_each_prediction_with_the_untouched_one() -> None:
    measured = loyalty_measures(isolation()).sort("seed", "positions", "draw")
    hidden = measured.filter(positions="hidden")
    measured = measured.filter(pl.col("positions") != "hidden")
    assert hidden["retained"].to_list() == [0, 0]  # as much as there is to lose
    assert measured["positions"].to_list() == ["label", "random", "random"] * 2
    assert measured["label_loyalty"].to_list() == [0, 1, 0, 1, 1, 0]
    assert measured["word_loyalty"].to_list() == [3 / 7, 1, 0, 1, 1, 4 / 6]
    assert measured["accuracy"].to_list() == [0, 1, 0, 0, 0, 1]
    # The isolated label words let the first text become wrong and its likeliest token no label
    # word's; after the second draws, one text becomes wrong and one right among label words.
    assert measured["accuracy_change"].to_list() == [-1, 0, -1, 0, 0, 1]
    assert measured["accuracy_change_losing_task"].to_list() == [-1, 0, 0, 0, 0, 0]
    assert measured["accuracy_change_other_label"].to_list() == [0, 0, -1, 0, 0, 1]
    parts = (measured["retained"] / measured["retained_whole"]).to_list()
    assert parts == pytest.approx([RETAINED, 1, 0, 1, 1, 1])


def test_summaries_average_draws_examples_seeds_and_tasks() -> None:
    both = pl.concat([isolation("news"), isolation("reviews")])
    summary = summarize_isolation(both, prompts(), 0.95)
    assert summary.schema == frame_schema(ISOLATION_SUMMARY)
    tasks = summary["task"].unique(maintain_order=True).to_list()
    assert tasks == ["news", "reviews", "poems", "average"]
    values = {
        (row["task"], row["positions"], row["measure"]): row
        for row in summary.iter_rows(named=True)
    }
    assert values["news", "label", "label_loyalty"]["mean"] == 0.5
    assert values["news", "random", "label_loyalty"]["mean"] == 0.5
    assert values["news", "random", "word_loyalty"]["mean"] == pytest.approx((0.5 + 5 / 6) / 2)
    assert values["average", "label", "word_loyalty"]["mean"] == pytest.approx(5 / 7)
    assert values["news", "label", "accuracy"]["draws"] == 1
    assert values["news", "random", "accuracy"]["draws"] == 2
    assert values["news", "random", "accuracy"]["examples"] == 2
    assert values["news", "random", "accuracy"]["seeds"] == 2
    # 0.5 in both seeds, whose draws are averaged first, of two texts; and what is retained of both
    # seeds' wholes together. Without the one seed, all is; without the other, RETAINED.
    loyalty, retained = (
        values["news", *key] for key in (("random", "label_loyalty"), ("label", "retained"))
    )
    assert (loyalty["low"], loyalty["high"]) == (0, 1)
    assert retained["mean"] == pytest.approx(1 - LOST / (WHOLE + OTHER_WHOLE))
    half = 12.706205 * (1 - RETAINED) / 2
    assert retained["low"] == pytest.approx(retained["mean"] - half, rel=1e-6)
    assert retained["high"] == 1
    assert values["news", "hidden", "retained"]["mean"] == 0
    # 0.5 and 5/6: the interval of a share stays between 0 and 1.
    words = values["news", "random", "word_loyalty"]
    assert (words["low"], words["high"]) == (0, 1)
    assert [values["news", "label", name]["mean"] for name in change.CHANGES] == [-0.5, -0.5, 0]
    # -1/2 and 1/2, as one of two draws: a change of accuracy stays between -1 and 1.
    of_random = [values["news", "random", name] for name in change.CHANGES]
    assert [(row["low"], row["mean"], row["high"]) for row in of_random] == [
        (-1, 0, 1),
        (-1, 0, 1),  # of two texts that do not differ
        (-1, 0, 1),
    ]
    vocabulary = [values["news", "label", name]["mean"] for name in change.VOCABULARY]
    assert vocabulary == [0.25, 0]
    assert values["poems", "label", "accuracy"]["mean"] is None
    assert values["poems", "label", "accuracy"]["skipped"] == 1
    assert values["average", "label", "accuracy"]["skipped"] == 1


LABELS = {"news": [" a", " b", " c", " d"]}


def loyalty(counts: list[int], isolated: tuple[str, ...] = ("label", "random")) -> pl.DataFrame:
    """The table with these numbers of isolated layers."""
    rows = [
        {"model": "tiny", "task": task, "variant": "mask", "positions": positions, "side": side}
        | {"layers": layers, "measure": measure, "mean": 0.5, "low": 0.4, "high": 0.6}
        | {"examples": 6, "texts": 3, "seeds": 2, "draws": 1, "skipped": 0}
        for task in ("news", "average")
        for positions in isolated
        for side in ("first", "last")
        for layers in counts
        for measure in ISOLATION_SUMMARY.measured
    ]
    return pl.DataFrame(rows, schema=frame_schema(ISOLATION_SUMMARY))


@pytest.mark.parametrize("counts", [[5], [1, 5]])
def test_neighbors_are_thin_lines_named_after_the_paper_s_positions(
    counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [
        figure_of(monkeypatch, plot_isolation, loyalty(counts, isolated), LABELS)
        for isolated in (("label", "random"), ("after", "before", "label", "random"))
    ]
    assert len(figures[0].axes) == 4 * len(counts)  # a single number has no sweep below the bars
    without, beside = (
        [text.get_text() for text in figure.legends[0].get_texts()] for figure in figures
    )
    assert beside == [*without[:2], "token before", "token after", *without[2:]]
    widths = [line.get_linewidth() for line in figures[1].axes[0].get_lines()]
    assert widths.count(thin(0)["linewidth"]) == 4  # two neighbors, in the first and last layers


def test_over_numbers_of_layers_only_the_paper_s_positions_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The neighbors would be six more lines per panel, and are in the bars and the table."""
    isolated = ("after", "before", "label", "random", "text")
    figure = figure_of(monkeypatch, plot_isolation, loyalty([1, 5], isolated), LABELS)
    assert [len(panel.containers) for panel in figure.axes[4:]] == [4] * 4  # two in first and last
    assert all(len(panel.lines) == 4 for panel in (figure.axes[4], figure.axes[5]))


def test_accuracy_stands_beside_that_of_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, plot_isolation, loyalty([1, 5]), LABELS)
    assert [level_of_chance(figure, panel) for panel in (2, 6)] == [0.25, 0.25]  # of four labels
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "chance"
