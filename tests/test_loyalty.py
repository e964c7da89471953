"""Loyalty: the four measures and their averages, worked out by hand."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from anchorflow.errors import InputError
from anchorflow.loyalty import MEASURES, loyalty_measures, mean_over_draws, summarize_loyalty
from anchorflow.loyalty_figure import draw_loyalty
from anchorflow.tables import ISOLATION, LOYALTY, PROMPTS, frame_schema
from anchorflow.tabulate import tabulate_loyalty

# (seed, example, positions, draw, side): true label, prediction, probabilities, likeliest tokens.
KNOWN = {
    (0, 3, "none", 0, "none"): (1, 1, [0.25, 0.75], [1, 2, 3, 4, 5]),
    (0, 3, "label", 0, "first"): (1, 0, [0.5, 0.5], [3, 4, 5, 6, 7]),
    (0, 3, "random", 0, "first"): (1, 1, [0.25, 0.75], [1, 2, 3, 4, 5]),
    (0, 3, "random", 1, "first"): (1, 0, [1.0, 0.0], [6, 7, 8, 9, 10]),
    (1, 4, "none", 0, "none"): (0, 1, [0.5, 0.5], [1, 2, 3, 4, 5]),
    (1, 4, "label", 0, "first"): (0, 1, [0.5, 0.5], [5, 4, 3, 2, 1]),
    (1, 4, "random", 0, "first"): (0, 1, [0.5, 0.5], [1, 2, 3, 4, 5]),
    (1, 4, "random", 1, "first"): (0, 0, [0.5, 0.5], [1, 2, 3, 4, 9]),
}


def isolation(task: str = "news") -> pl.DataFrame:
    rows = []
    for (seed, example, positions, draw, side), values in KNOWN.items():
        variant, layers = ("none", 0) if positions == "none" else ("mask", 2)
        setting = (variant, positions, draw, side, layers)
        rows.append(("tiny", task, seed, example, *setting, *values))
    return pl.DataFrame(rows[::-1], schema=frame_schema(ISOLATION), orient="row")


def prompts() -> pl.DataFrame:
    """Prompts of the examples above, and of a task whose prompts are too long."""
    run = [(task, seed, None) for task in ("news", "reviews") for seed in (0, 1)]
    rows = [
        {"task": task, "seed": seed, "demonstrations": "fixed", "skipped": reason}
        for task, seed, reason in [*run, ("poems", 0, "99 tokens exceed the context of 16")]
    ]
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


def test_measures_compare_each_prediction_with_the_untouched_one() -> None:
    measured = loyalty_measures(isolation()).sort("seed", "positions", "draw")
    assert measured["positions"].to_list() == ["label", "random", "random"] * 2
    assert measured["label_loyalty"].to_list() == [0, 1, 0, 1, 1, 0]
    assert measured["word_loyalty"].to_list() == [3 / 7, 1, 0, 1, 1, 4 / 6]
    assert measured["accuracy"].to_list() == [0, 1, 0, 0, 0, 1]
    divergence = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert measured["divergence"][0] == pytest.approx(divergence)
    assert measured["divergence"][1] == 0
    assert measured["divergence"][2] > 10  # a class that was likely has no probability left
    assert np.isfinite(measured["divergence"].to_numpy()).all()


def test_summaries_average_draws_examples_seeds_and_tasks() -> None:
    both = pl.concat([isolation("news"), isolation("reviews")])
    summary = summarize_loyalty(both, prompts(), 200, 0.95)
    assert summary.schema == frame_schema(LOYALTY)
    assert summary["task"].unique(maintain_order=True).to_list() == [
        "news",
        "reviews",
        "poems",
        "average",
    ]
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
    random = values["news", "random", "label_loyalty"]
    assert random["low"] <= random["mean"] <= random["high"]
    assert random["low"] < random["high"]
    assert values["poems", "label", "accuracy"]["mean"] is None
    assert values["poems", "label", "accuracy"]["skipped"] == 1
    assert values["average", "label", "accuracy"]["skipped"] == 1


def test_the_table_has_a_row_per_way_to_isolate() -> None:
    table = tabulate_loyalty(summarize_loyalty(isolation(), prompts(), 100, 0.95))
    assert table.columns == ["model", "variant", "layers", "side", "positions", *MEASURES]
    assert table["positions"].to_list() == ["label", "random"]
    assert table["label_loyalty"][0].startswith("0.50 [")


def test_the_interval_covers_the_spread_between_draws() -> None:
    values = np.array([[[0.0], [0.0]], [[1.0], [1.0]]])  # two draws, two examples that agree
    statistic = mean_over_draws(values, 500, np.random.default_rng(0))
    assert statistic(np.ones((1, 2))).tolist() == [[0.5]]
    replicates = statistic(np.ones((500, 2)))[:, 0]
    assert set(replicates) == {0.0, 0.5, 1.0}
    assert 0.2 < (replicates == 0).mean() < 0.3


def test_nothing_to_summarize_is_said() -> None:
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize_loyalty(isolation().clear(), prompts(), 100, 0.95)


def heights(tmp_path: Path, counts: list[int]) -> int:
    """Pixels from top to bottom of the figure with these numbers of isolated layers."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "variant": "mask",
            "positions": positions,
            "side": side,
            "layers": layers,
            "measure": measure,
            "mean": 0.5,
            "low": 0.4,
            "high": 0.6,
            "examples": 6,
            "seeds": 2,
            "draws": 1,
            "skipped": 0,
        }
        for task in ("news", "average")
        for positions in ("label", "random")
        for side in ("first", "last")
        for layers in counts
        for measure in MEASURES
    ]
    style = {
        "panel_width": 2.0,
        "font_size": 8,
        "resolution": 50,
        "colors": ["#0072B2", "#D55E00", "#595959"],
    }
    path = tmp_path / f"{len(counts)}.png"
    draw_loyalty(pl.DataFrame(rows, schema=frame_schema(LOYALTY)), style, 0.95, {"png": path})
    with Image.open(path) as image:
        return image.height


def test_one_number_of_layers_is_drawn_without_a_sweep_over_it(tmp_path: Path) -> None:
    assert heights(tmp_path, [5]) < 0.7 * heights(tmp_path, [1, 5])
