"""Table 1 and the figure of weights: paired gains over vanilla, and published ones."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from anchorflow.analyses.reweighting import INPUT_ANSWERS, REWEIGHTING_SUMMARY, ROUTING
from anchorflow.analyses.reweighting.plot import agreement_of_seeds, mean_factors
from anchorflow.analyses.reweighting.summarize import (
    MEASURES,
    performance_measures,
    summarize_reweighting,
    table_1,
)
from anchorflow.analyses.reweighting.tabulate import tabulate_reweighting
from anchorflow.schemas.beta import BETA
from anchorflow.schemas.frames import frame_schema
from constructed.reweighting import ANSWERS, BASELINES, TRUTH, predictions_of, prompts_of
from constructed.rows import frame


def summary_of(model: str = "m", task: str = "news", seeds: int = 2, **left: int) -> pl.DataFrame:
    predictions = predictions_of(model, task, seeds, **left)
    return summarize_reweighting(
        predictions, *prompts_of(model, task, seeds, **left), 0.9, BASELINES
    )


def means(summary: pl.DataFrame, task: str, method: str) -> dict[str, float]:
    rows = summary.filter(pl.col("task") == task, pl.col("method") == method)
    return dict(rows.select("measure", "mean").iter_rows())


def test_gains_are_differences_from_vanilla_on_the_same_examples() -> None:
    summary = summary_of()
    assert summary.schema == frame_schema(REWEIGHTING_SUMMARY)
    assert means(summary, "news", "vanilla") == {
        "accuracy": 0.5,
        "macro_f1": 0.5,
        "label_mass": 0.625,
        "in_labels": 1,
        # Every answer has the probability 1, and half of them are right.
        "ece": 0.5,
        "ece_excess": 0.5,
    }
    assert means(summary, "news", "reweighted") == {
        "accuracy": 1,
        "macro_f1": 1,
        "accuracy_gain": 0.5,
        "macro_f1_gain": 0.5,
        # Of the two texts that become right, one's likeliest token begins no label word.
        "accuracy_gain_losing_task": 0.25,
        "accuracy_gain_other_label": 0.25,
        "label_mass": 0.625,
        "in_labels": 0.75,
        "ece": 0,
        "ece_excess": 0,
    }
    some = ["accuracy", "macro_f1", "accuracy_gain", "macro_f1_gain", "ece", "ece_excess"]
    assert [*means(summary, "news", "calibrated")] == some  # without the whole vocabulary
    assert means(summary, "news", "calibrated")["accuracy_gain"] == -0.5
    assert means(summary, "average", "many")["accuracy_gain"] == 0.25


def test_a_prompt_s_bias_is_that_of_its_answers_to_inputs_without_content() -> None:
    predictions, (prompts, auxiliary) = predictions_of("m", "news", 2), prompts_of("m", "news", 2)
    # Of the seed 0, the mean is 3/4 and 1/4: 1 - H = 1 - 2 + 3/4 log2 3; the seed 1 has no bias.
    rows = [
        {"seed": seed, "baseline": "calibrated", "example": example, "method": "reweighted"}
        | {"probabilities": probabilities}
        for seed, of_seed in enumerate([([1.0, 0.0], [0.5, 0.5]), ([1.0, 0.0], [0.0, 1.0])])
        for example, probabilities in enumerate(of_seed)
    ]
    inputs = frame(rows, INPUT_ANSWERS, model="m", task="news")
    summary = summarize_reweighting(predictions, prompts, auxiliary, 0.9, BASELINES, inputs)
    bias = summary.filter(measure="contextual_bias")
    assert bias["method"].unique().to_list() == ["reweighted"]
    assert bias["mean"].to_list() == pytest.approx([(0.75 * np.log2(3) - 1) / 2] * 2)
    assert bias["low"][0] < bias["mean"][0] < bias["high"][0]
    assert summary.filter(measure="domain_bias").is_empty()


def test_methods_that_are_fitted_tell_how_many_numbers_are() -> None:
    predictions, (prompts, auxiliary) = predictions_of("m", "news", 2), prompts_of("m", "news", 2)
    routed = predictions.filter(method="reweighted").with_columns(method=pl.lit("routed"))
    tables = {
        name: frame([{"seed": seed} for seed in range(2) for _ in range(count)], table, task="news")
        for name, table, count in (("beta", BETA, 24), ("routing", ROUTING, 10))
    }
    summary = summarize_reweighting(
        pl.concat([predictions, routed]), prompts, auxiliary, 0.9, BASELINES, **tables
    )
    fitted = summary.filter(measure="parameters")
    assert fitted.select("method", "task", "mean", "low").rows() == [
        (method, task, count, None)
        for method, count in (("reweighted", 24), ("routed", 10))
        for task in ("news", "average")
    ]
    shown = tabulate_reweighting(summary).table.filter(method="routed", measure="parameters")
    assert shown["news"].item() == "10"


def test_the_gain_s_interval_is_that_of_paired_differences() -> None:
    summary = summarize_reweighting(
        predictions_of("m", "news", 1), *prompts_of("m", "news", 1), 0.6, BASELINES
    )
    row = summary.filter(task="news", method="attention_regression", measure="accuracy_gain")
    half = stats.t.isf(0.2, 3) / (4 + 2)  # the same answers as vanilla, in each of four texts
    assert row.select("low", "high").row(0) == pytest.approx((-half, half))
    assert row["seeds"].item() == 1
    random = np.random.default_rng(0)
    weights = random.multinomial(4, [0.25] * 4, 2000).astype(float)
    statistic, texts = performance_measures(
        predictions_of("m", "news", 1).drop("seed"), "reweighted"
    )
    assert texts.tolist() == [0, 1, 2, 3]
    gain = statistic(weights)[:, MEASURES.index("accuracy_gain")]  # before those of calibration
    wrong = weights @ (np.array(ANSWERS["vanilla"]) != np.array(TRUTH)) / 4
    np.testing.assert_allclose(gain, wrong)
    # Gains 0, 1, 1, 0: mean .5, s² = 1/3; t at .8 with 3 degrees of freedom is 0.978472.
    row = summary.filter(task="news", method="reweighted", measure="accuracy_gain")
    half = 0.978472 / 12**0.5
    assert row.select("low", "high").row(0) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)


def test_examples_that_were_too_long_with_many_demonstrations_are_left_out_of_its_pairs() -> None:
    summary = summary_of(left_out=2)
    many = summary.filter(pl.col("method") == "many", pl.col("task") == "news")
    assert set(many["examples"]) == {6}
    assert set(many["skipped"]) == {2}
    assert means(summary, "news", "many")["accuracy"] == 1
    # Without example 2, vanilla is right in 2 of 3.
    assert means(summary, "news", "many")["accuracy_gain"] == pytest.approx(1 - 2 / 3)
    vanilla = summary.filter(pl.col("method") == "vanilla", pl.col("task") == "news")
    assert set(vanilla["skipped"]) == {0}
    assert set(vanilla["examples"]) == {8}
    shown = tabulate_reweighting(summary).table.filter(method="many")
    shown = dict(shown.select("measure", "news").iter_rows())
    assert shown["accuracy"] == "1.00 [0.00, 1.00] (2 skipped)"
    assert "skipped" not in shown["macro_f1"]


def test_a_method_that_could_run_nowhere_has_no_figures() -> None:
    predictions = predictions_of("m", "news", 1).filter(pl.col("method") != "many")
    summary = summarize_reweighting(predictions, *prompts_of("m", "news", 1), 0.9, BASELINES)
    many = summary.filter(pl.col("method") == "many")
    assert many["mean"].null_count() == len(many)
    assert set(many["examples"]) == {0}


def test_a_method_that_could_not_run_a_whole_task_is_not_averaged_over_the_others() -> None:
    predictions = pl.concat(
        [
            predictions_of("m", "news", 1),
            predictions_of("m", "mine", 1).filter(pl.col("method") != "many"),
        ]
    )
    cells = zip(prompts_of("m", "news", 1), prompts_of("m", "mine", 1), strict=True)
    prompts, auxiliary = (pl.concat(parts) for parts in cells)
    summary = summarize_reweighting(predictions, prompts, auxiliary, 0.9, BASELINES)
    assert means(summary, "news", "many")["accuracy"] == 0.75
    assert set(means(summary, "average", "many").values()) == {None}
    assert means(summary, "average", "reweighted")["accuracy"] == 1


def test_published_figures_stand_beside_the_paper_s_model_and_tasks_only() -> None:
    assert table_1("gemma", ["sst2"]).is_empty()
    one = table_1("gpt2-xl", ["sst2", "mine"])
    assert set(one["task"]) == {"sst2"}
    whole = table_1("gpt2-xl", ["emoc", "agnews", "trec", "sst2"])
    value = whole.filter(task="average", method="reweighted", measure="accuracy_gain")
    assert value["published"].item() == pytest.approx(0.6864 - 0.5190)
    assert set(whole["method"]) <= set(ANSWERS)
    summary = summary_of("gpt2-xl", "sst2", 1)
    accuracy = summary.filter(method="reweighted", task="sst2", measure="accuracy")
    assert accuracy["published"].to_list() == [0.9007]
    table = tabulate_reweighting(summary).table
    published = [f"{method} (published)" for method in ("vanilla", "many", "reweighted")]
    assert table["method"][:9].to_list() == [*ANSWERS, *published]
    assert table.filter(method="reweighted (published)")["sst2"][0] == "0.90"


def test_fits_with_rates_of_their_own_follow_from_the_largest_to_the_smallest() -> None:
    predictions, method = predictions_of("m", "news", 2), pl.col("method")
    further = [
        predictions.filter(method == answers).with_columns(method=pl.lit(name))
        for name, answers in (("reweighted_0.01", "vanilla"), ("reweighted_0.1", "reweighted"))
    ]
    summary = summarize_reweighting(
        pl.concat([predictions, *further]), *prompts_of("m", "news", 2), 0.9, BASELINES
    )
    shown = summary["method"].unique(maintain_order=True).to_list()
    assert shown[-3:] == ["reweighted", "reweighted_0.1", "reweighted_0.01"]
    assert means(summary, "news", "reweighted_0.1")["accuracy_gain"] == 0.5
    assert means(summary, "news", "reweighted_0.01")["accuracy_gain"] == 0


def test_the_figure_shows_the_geometric_mean_over_demonstrations_and_seeds() -> None:
    rows = [
        {"seed": seed, "layer": layer, "head": head, "demonstration": k, "beta": beta + seed}
        for seed in (0, 1)
        for layer in (0, 1)
        for head in range(11)
        for k, beta in enumerate((10.0 * layer, head - 1.0))
    ]
    factors = mean_factors(pl.DataFrame(rows).sample(fraction=1, shuffle=True, seed=0))
    assert factors.shape == (2, 11)
    for layer in (0, 1):
        for head in range(11):
            expected = np.exp((10 * layer + head - 1) / 2 + 0.5)
            assert factors[layer, head] == pytest.approx(expected)


def test_seeds_agree_as_their_factors_correlate_over_layers_and_heads() -> None:
    def of(*seeds: list[float]) -> pl.DataFrame:
        rows = [
            {"seed": seed, "layer": 0, "head": head, "demonstration": 0, "beta": beta}
            for seed, values in enumerate(seeds)
            for head, beta in enumerate(values)
        ]
        return pl.DataFrame(rows)

    up, down = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    assert agreement_of_seeds(of(up, up)) == pytest.approx(1)
    assert agreement_of_seeds(of(up, up, down)) == pytest.approx(-1 / 3)  # 1, -1 and -1
    assert np.isnan(agreement_of_seeds(of(up)))
