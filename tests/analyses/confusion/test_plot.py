"""The figure of confused labels, whatever their words mean to a figure."""

from pathlib import Path

import numpy as np

from anchorflow.analyses.confusion.plot import most_confused, plot_confusion
from anchorflow.analyses.confusion.summarize import summarize_confusion
from constructed.confusion import cell, of_two_labels, prompts_of
from figure_style import STYLE


def test_a_run_without_three_labels_still_has_a_figure(tmp_path: Path) -> None:
    paths = {"png": tmp_path / "figure.png"}
    plot_confusion(of_two_labels(), {"two": ["a", "b"]}, STYLE, 0.9, paths)
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_of_many_labels_those_of_the_least_separate_pairs_are_shown() -> None:
    auc = np.array(
        [
            [np.nan, 0.9, 0.6, np.nan],
            [0.9, np.nan, 0.8, 0.95],
            [0.6, 0.8, np.nan, 0.7],
            [np.nan, 0.95, 0.7, np.nan],
        ]
    )
    assert most_confused(auc, 2) == [0, 2]
    assert most_confused(auc, 3) == [0, 2, 3]
    assert most_confused(auc, 9) == [0, 1, 2, 3]


def test_label_words_that_mean_something_to_a_figure_are_drawn_as_they_are(tmp_path: Path) -> None:
    predictions, diagnosis = cell("many", 0, 4, [1.0] * 6)
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 0.9)
    words = [" $\\frac$", " {model} $5", " two\nlines <b>|", " long" * 1000]
    paths = {kind: tmp_path / f"figure.{kind}" for kind in ("svg", "png", "pdf")}
    plot_confusion(summary, {"many": words}, STYLE, 0.9, paths)
    drawn = paths["svg"].read_text(encoding="utf-8")
    for shown in (
        "$\\frac$",
        "{model} $5",
        "two lines &lt;b&gt;|",
        "long long long long long long…",
    ):
        assert f"<!-- {shown}" in drawn
