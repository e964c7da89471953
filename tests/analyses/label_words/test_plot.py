"""The figure of other label words."""

from pathlib import Path

from anchorflow.analyses.label_words.plot import plot_label_words
from constructed.label_words import WORDS, summary
from figure_style import STYLE


def test_the_figure_takes_any_number_of_words(tmp_path: Path) -> None:
    plot_label_words(summary(), WORDS, STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
