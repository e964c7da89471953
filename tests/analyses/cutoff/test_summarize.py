"""How many layers need the demonstrations, worked out by hand, and the figure of it."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.cutoff import CUTOFF_SUMMARY
from anchorflow.analyses.cutoff.claims import late_cutoffs
from anchorflow.analyses.cutoff.plot import plot_cutoff
from anchorflow.analyses.cutoff.summarize import layers_needed, summarize_cutoff
from anchorflow.model.layer_kinds import by_place
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.change import CHANGES
from constructed.interventions import cutoff, prompts
from figure_style import figure_of, labels_of, level_of_chance

# Of the plain 1 1 0 0: nothing is kept from layer 0 on; one of four changes from 1 on; all as ever.
PREDICTED = {"first": [[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 0, 0]]}
PLAIN = [1, 1, 0, 0]


def test_accuracy_and_loyalty_are_compared_with_the_unmodified_run() -> None:
    table = summarize_cutoff(cutoff(PREDICTED, PLAIN), prompts(), 0.95)
    assert table.schema == frame_schema(CUTOFF_SUMMARY)
    rows = table.filter(pl.col("task") == "news").select("layer", "measure", "mean")
    means = {(layer, measure): mean for layer, measure, mean in rows.iter_rows()}
    assert means == pytest.approx(
        {
            (0, "accuracy"): 1 / 2,
            (0, "label_loyalty"): 0,
            (0, "word_loyalty"): 1 / 3,
            (1, "accuracy"): 3 / 4,
            (1, "label_loyalty"): 3 / 4,
            (1, "word_loyalty"): 5 / 6,
            **{(layer, "accuracy"): 1 / 2 for layer in (2, 3)},
            **{(layer, "label_loyalty"): 1 for layer in (2, 3)},
            **{(layer, "word_loyalty"): 1 for layer in (2, 3)},
            # Of the first two texts, which become wrong, the likeliest token begins no label word.
            **{(0, name): mean for name, mean in zip(CHANGES, [0, -1 / 2, 1 / 2], strict=True)},
            **{(1, name): mean for name, mean in zip(CHANGES, [1 / 4, 0, 1 / 4], strict=True)},
            **{(layer, name): 0 for layer in (2, 3) for name in CHANGES},
            **{(layer, "label_mass"): 1 / 2 for layer in range(4)},
            (0, "in_labels"): 1 / 2,
            **{(layer, "in_labels"): 1 for layer in (1, 2, 3)},
            # Predictions are certain, and all of them change if no layer sees demonstrations.
            **{(layer, "retained"): share for layer, share in enumerate((0, 3 / 4, 1, 1))},
            (-1, "needed"): 2,
        }
    )


def test_a_hybrid_has_the_same_numbers_at_the_places_of_its_attending_layers() -> None:
    dense, places = cutoff(PREDICTED, PLAIN), [1, 4, 5]
    expected = by_place(summarize_cutoff(dense, prompts(), 0.95), places, 8)
    found = summarize_cutoff(by_place(dense, places, 8), prompts(), 0.95)
    of_each, of_all = (pl.col("measure") != "needed", pl.col("measure") == "needed")
    assert found.filter(of_each).equals(expected.filter(of_each))
    assert found.filter(of_all)["mean"].to_list() == [5, 5]  # the third attending layer


@pytest.mark.parametrize(
    ("cutoffs", "late"),
    [
        ([*range(7), 7], [5, 6]),
        ([0, 4, 8, 12], [8]),  # every fourth of 12 layers
        ([0, 6, 12], []),
        ([0, 12], []),
        ([0, 1], [0]),
        ([2, 4, 7, 8, 9, 10, 12], [9, 10]),  # six layers of 12 attend
        ([3, 12], [3]),
    ],
)
def test_late_cutoffs_are_in_the_last_third_of_the_layers_that_attend(
    cutoffs: list[int], late: list[int]
) -> None:
    assert late_cutoffs(cutoffs) == late


def test_layers_are_needed_until_both_stay_at_95_percent() -> None:
    layers = np.array([0.0, 2, 4, 6])
    accuracy = np.array([[1, 0.2, 1, 0.8], [0.5, 0.76, 0.76, 0.8], [0.9, 0.9, 0.9, 0.8]])
    loyalty = np.array([[1, 1, 1, 1], [1, 1, 0.94, 1], [0.96, 0.95, 0.99, 1]])
    np.testing.assert_allclose(layers_needed(accuracy, loyalty, layers), [4, 6, 0])
    undefined = layers_needed(accuracy * np.nan, loyalty, layers)
    assert np.isnan(undefined).all()


def test_tasks_without_predictions_are_undefined() -> None:
    table = summarize_cutoff(cutoff(PREDICTED, PLAIN), prompts(("news", "poems")), 0.95)
    assert table.filter(pl.col("task") == "poems")["mean"].is_null().all()


def test_every_measure_has_a_line_for_what_is_seen_and_one_for_what_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"first": [[0, 0, 1, 1], PLAIN, PLAIN], "label": [PLAIN] * 3}
    summary = summarize_cutoff(cutoff(seen, PLAIN), prompts(), 0.95)
    figure = figure_of(monkeypatch, plot_cutoff, summary, labels_of(summary))
    assert len(figure.axes) == 4
    for axes in figure.axes:
        lines = [line for line in axes.lines if line.get_label() != "chance"]
        curves, needed = lines[::2], lines[1::2]
        assert [len(line.get_xdata()) for line in curves] == [4, 4]
        assert [line.get_xdata()[0] for line in needed] == [1, 0]
    assert level_of_chance(figure, 0) == 0.5  # two labels
