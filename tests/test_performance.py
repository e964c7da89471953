"""Table 1: paired gains over vanilla, prompts that only one method could run, published figures."""

import numpy as np
import polars as pl
import pytest

from anchorflow.performance import MEASURES, METHODS, performance_measures, summarize_performance
from anchorflow.published import table_1
from anchorflow.tables import PERFORMANCE, PROMPTS, REWEIGHTING, frame_schema
from anchorflow.tabulate import tabulate_performance

TRUTH = [0, 0, 1, 1]
ANSWERS = {
    "vanilla": [0, 1, 0, 1],
    "many": [0, 0, 0, 1],
    "calibrated": [1, 1, 0, 0],
    "attention_regression": [0, 1, 0, 1],
    "reweighted": [0, 0, 1, 1],
}


def predictions_of(model: str, task: str, seeds: int, left_out: int | None = None) -> pl.DataFrame:
    """The answers above for every seed, without the ``left_out`` example of ``many``."""
    rows = [
        {
            "model": model,
            "task": task,
            "seed": seed,
            "example": example,
            "method": method,
            "label": TRUTH[example],
            "prediction": prediction,
            "probabilities": [1.0 - prediction, float(prediction)],
        }
        for seed in range(seeds)
        for method, answers in ANSWERS.items()
        for example, prediction in enumerate(answers)
        if not (method == "many" and example == left_out)
    ]
    return pl.DataFrame(rows, schema=frame_schema(REWEIGHTING))


def prompts_of(model: str, task: str, seeds: int, left_out: int | None = None) -> pl.DataFrame:
    rows = [
        {
            "model": model,
            "task": task,
            "seed": seed,
            "demonstrations": protocol,
            "example": example,
            "skipped": "too long" if protocol == "many" and example == left_out else None,
        }
        for seed in range(seeds)
        for protocol in ("fixed", "many", "training")
        for example in range(4)
    ]
    schema = frame_schema(PROMPTS)
    frame = pl.DataFrame(rows, schema_overrides={"skipped": pl.String})
    missing = [name for name in schema if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in missing).select(schema.names())


def means(summary: pl.DataFrame, task: str, method: str) -> dict[str, float]:
    rows = summary.filter(pl.col("task") == task, pl.col("method") == method)
    return dict(rows.select("measure", "mean").iter_rows())


def test_gains_are_differences_from_vanilla_on_the_same_examples() -> None:
    summary = summarize_performance(
        predictions_of("m", "news", 2), prompts_of("m", "news", 2), 200, 0.9
    )
    assert summary.schema == frame_schema(PERFORMANCE)
    assert means(summary, "news", "vanilla") == {
        "accuracy": 0.5,
        "macro_f1": 0.5,
    }
    assert means(summary, "news", "reweighted") == {
        "accuracy": 1,
        "macro_f1": 1,
        "accuracy_gain": 0.5,
        "macro_f1_gain": 0.5,
    }
    assert means(summary, "news", "calibrated")["accuracy_gain"] == -0.5
    assert means(summary, "average", "many")["accuracy_gain"] == 0.25


def test_the_gain_s_interval_is_that_of_paired_differences() -> None:
    summary = summarize_performance(
        predictions_of("m", "news", 1), prompts_of("m", "news", 1), 400, 0.9
    )
    row = summary.filter(
        pl.col("task") == "news", pl.col("method") == "attention_regression"
    ).filter(pl.col("measure") == "accuracy_gain")
    assert row.select("low", "high").row(0) == (0, 0)  # the same answers as vanilla, every time
    assert row["seeds"].item() == 1
    random = np.random.default_rng(0)
    weights = random.multinomial(4, [0.25] * 4, 2000).astype(float)
    statistic, size = performance_measures(
        predictions_of("m", "news", 1).drop("seed"), "reweighted", 2
    )
    assert size == 4
    gain = statistic(weights)[:, MEASURES.index("accuracy_gain")]
    wrong = weights @ (np.array(ANSWERS["vanilla"]) != np.array(TRUTH)) / 4
    np.testing.assert_allclose(gain, wrong)


def test_examples_that_were_too_long_with_many_demonstrations_are_left_out_of_its_pairs() -> None:
    summary = summarize_performance(
        predictions_of("m", "news", 2, left_out=2), prompts_of("m", "news", 2, left_out=2), 100, 0.9
    )
    many = summary.filter(pl.col("method") == "many", pl.col("task") == "news")
    assert set(many["examples"]) == {6}
    assert set(many["skipped"]) == {2}
    assert means(summary, "news", "many")["accuracy"] == 1
    # Without example 2, vanilla is right in 2 of 3.
    assert means(summary, "news", "many")["accuracy_gain"] == pytest.approx(1 - 2 / 3)
    vanilla = summary.filter(pl.col("method") == "vanilla", pl.col("task") == "news")
    assert set(vanilla["skipped"]) == {0}
    assert set(vanilla["examples"]) == {8}


def test_a_method_that_could_run_nowhere_has_no_figures() -> None:
    predictions = predictions_of("m", "news", 1).filter(pl.col("method") != "many")
    summary = summarize_performance(predictions, prompts_of("m", "news", 1), 100, 0.9)
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
    prompts = pl.concat([prompts_of("m", "news", 1), prompts_of("m", "mine", 1)])
    summary = summarize_performance(predictions, prompts, 100, 0.9)
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
    assert set(whole["method"]) <= set(METHODS)
    summary = summarize_performance(
        predictions_of("gpt2-xl", "sst2", 1), prompts_of("gpt2-xl", "sst2", 1), 100, 0.9
    )
    assert summary.filter(method="reweighted", task="sst2", measure="accuracy")[
        "published"
    ].to_list() == [0.9007]
    table = tabulate_performance(summary)
    ours = [f"{method} (published)" for method in ("vanilla", "many", "reweighted")]
    assert table["method"][:8].to_list() == [*METHODS, *ours]
    assert table.filter(pl.col("method") == "reweighted (published)")["sst2"][0] == "0.90"


def test_skipped_prompts_stand_behind_the_accuracy() -> None:
    summary = summarize_performance(
        predictions_of("m", "news", 2, left_out=2), prompts_of("m", "news", 2, left_out=2), 100, 0.9
    )
    table = tabulate_performance(summary).filter(pl.col("method") == "many")
    accuracy = table.filter(pl.col("measure") == "accuracy")["news"].item()
    assert accuracy == "1.00 [1.00, 1.00] (2 skipped)"
    assert "skipped" not in table.filter(pl.col("measure") == "macro_f1")["news"].item()
