"""Agreement of estimates with cutting, worked out by hand, and the figure of it."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.faithfulness import FAITHFULNESS_SUMMARY
from anchorflow.analyses.faithfulness.plot import plot_faithfulness
from anchorflow.analyses.faithfulness.summarize import summarize_faithfulness
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.estimates import rank_correlations
from constructed.interventions import cuts, faithfulness, knockout, prompts
from figure_style import figure_of

TOLD = {
    "saliency": [1.0, 2.0, 3.0],
    "gradient": [1.0, -1.0, 2.0],
    "integrated": [0.0, 0.0, 1.0],
    "gim": [1.0, 2.0, -3.0],
    "attention": [0.5, 0.5, 0.5],
}
ONE_ORDER = np.corrcoef([1.5, 1.5, 3], [1, 2, 3])[0, 1]  # with the first two alike


def means(table: pl.DataFrame) -> dict[tuple[str, str], float]:
    rows = table.filter(pl.col("task") == "news").select("estimate", "measure", "mean")
    return {(estimate, measure): mean for estimate, measure, mean in rows.iter_rows()}


def test_ranks_signs_and_slopes_are_those_over_layers_within_prompts() -> None:
    table = summarize_faithfulness(faithfulness(TOLD), cuts([0.5, -1.0, 4.0]), prompts(), 0.95)
    assert table.schema == frame_schema(FAITHFULNESS_SUMMARY)
    assert means(table) == {
        ("saliency", "rank"): pytest.approx(1),
        ("saliency", "slope"): pytest.approx((0.5 + 2 + 12) / 14),
        ("saliency", "rank_difference"): None,  # attention does not vary
        ("gradient", "rank"): pytest.approx(ONE_ORDER),
        ("gradient", "sign"): pytest.approx(1),
        ("gradient", "slope"): pytest.approx((0.5 + 1 + 8) / 6),
        ("integrated", "rank"): pytest.approx(ONE_ORDER),
        ("integrated", "rank_difference"): pytest.approx(0, abs=1e-12),
        ("integrated", "sign"): pytest.approx(1 / 3),
        ("integrated", "slope"): pytest.approx(4),
        ("gim", "rank"): pytest.approx(1),
        ("gim", "rank_difference"): pytest.approx(1 - ONE_ORDER),
        ("gim", "sign"): pytest.approx(1 / 3),
        ("gim", "slope"): pytest.approx((0.5 - 2 - 12) / 14),
        ("attention", "rank"): None,
        ("attention", "slope"): pytest.approx(0.5 * 5.5 / 0.75),
    }


def test_layers_in_which_nothing_changes_have_no_sign() -> None:
    table = summarize_faithfulness(faithfulness(TOLD), cuts([0.5, 0.0, -4.0]), prompts(), 0.95)
    assert means(table)["gradient", "sign"] == pytest.approx(1 / 2)


def test_an_estimate_with_every_layer_in_order_but_the_size_wrong_has_that_slope() -> None:
    told = {name: [0.1, 0.2, 0.3] for name in TOLD}
    table = summarize_faithfulness(faithfulness(told), cuts([0.3, 0.6, 0.9]), prompts(), 0.95)
    slopes = [mean for (_, measure), mean in means(table).items() if measure == "slope"]
    assert slopes == pytest.approx([3] * len(TOLD))


def test_ranks_that_do_not_vary_have_no_correlation() -> None:
    found = rank_correlations(
        np.array([[1.0, 2, 3], [1, 1, 1]]), np.array([[3.0, 2, 1], [1, 2, 3]])
    )
    np.testing.assert_allclose(found, [-1, np.nan])


def test_a_donor_s_keys_have_only_the_estimates_that_there_are_of_them() -> None:
    edges, none = faithfulness(TOLD), pl.lit(None, pl.Float64)
    changed = edges.with_columns(
        edges=pl.lit("label_transplanted"),
        change=pl.col("layer").replace_strict([0, 1, 2], [0.5, -1.0, 4.0]),
        **dict.fromkeys(("saliency", "integrated", "attention"), none),
    )
    told = pl.concat([edges, changed])
    table = summarize_faithfulness(told, cuts([0.5, -1.0, 4.0]), prompts(), 0.95)
    exchanged = table.filter(edges="label_transplanted")
    assert exchanged["estimate"].unique(maintain_order=True).to_list() == ["gradient", "gim"]
    assert means(exchanged)["gradient", "rank"] == pytest.approx(ONE_ORDER)
    alone = summarize_faithfulness(edges, cuts([0.5, -1.0, 4.0]), prompts(), 0.95)
    assert table.filter(edges="label_to_target").equals(alone)


def test_runs_without_single_layers_are_refused() -> None:
    cut = knockout({("label_to_target", False, 0): [0.5]}, [0.5])
    with pytest.raises(InputError, match="add single"):
        summarize_faithfulness(faithfulness(TOLD), cut, prompts(), 0.95)


@pytest.mark.parametrize("integrated", [[0.1, 0.2, 0.3], [None, None, None]])
def test_what_was_not_integrated_is_left_out_and_slopes_are_shown_of_estimates_with_a_sign_alone(
    integrated: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {name: [0.1, 0.3, 0.2] for name in ("saliency", "gradient", "gim", "attention")}
    told["integrated"] = integrated
    summary = summarize_faithfulness(faithfulness(told), cuts([1.0, 2.0, 3.0]), prompts(), 0.95)
    assert ("integrated" in summary["estimate"]) == (integrated[0] is not None)
    figure = figure_of(monkeypatch, plot_faithfulness, summary)
    shown = [sum(len(c.lines[0].get_xdata()) for c in axes.containers) for axes in figure.axes]
    assert shown == ([5, 3, 3] if integrated[0] else [4, 2, 2])
