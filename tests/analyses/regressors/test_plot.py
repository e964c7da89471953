"""The figure of in-context learning compared with regressions."""

from pathlib import Path

from anchorflow.analyses.regressors.plot import plot_regressors
from constructed.kernel import regressors_summary as summary
from figure_style import STYLE, labels_of


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_regressors(summary(), labels_of(summary()), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_further_encoders_have_a_line_each(tmp_path: Path) -> None:
    table = summary(further={"bert": 0.05, "other": 0.1})
    plot_regressors(table, labels_of(table), STYLE, 0.9, {"svg": tmp_path / "a.svg"})
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<!-- bert, kernel regression" in drawn
    assert "<!-- other, kernel regression" in drawn
