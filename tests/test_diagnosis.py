"""Key distances by hand and from eager queries and keys, and confusion told from probabilities."""

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from conftest import Checkout
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from torch import Tensor

from anchorflow.attention_function import Attention, AttentionCall, intervene
from anchorflow.confusion import rank_correlations, summarize_confusion
from anchorflow.confusion_figure import draw_confusion, pair_matrix
from anchorflow.diagnosis import key_distances, measure_diagnosis
from anchorflow.errors import InputError
from anchorflow.statistics import pairwise_auc
from anchorflow.tables import CONFUSION, DIAGNOSIS, PREDICTIONS, PROMPTS, frame_schema
from anchorflow.tabulate import tabulate_confusion
from tiny_models import FAMILIES, full_attention, shared_prompts, tiny_model, whole_batch


def test_distances_count_only_directions_in_which_queries_vary() -> None:
    queries = np.zeros((4, 1, 3))
    queries[:, 0, 0] = [1, -1, 3, -3]  # one principal component, along the first axis
    queries[:, 0, 2] = 7  # all alike there
    keys = np.array([[[0.0, 5, 1], [1, 9, 2], [4, 0, 3]]])  # one key head, three label words
    distances = key_distances(queries, keys, [0, 1, 2], 3)
    np.testing.assert_allclose(distances[PAIRS], [1 / 4, 4 / 4, 3 / 4])
    assert np.isnan(np.diagonal(distances)).all()


def test_distances_are_those_along_scaled_principal_components() -> None:
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(9, 4, 6)), random.normal(size=(2, 3, 6))
    plain = np.zeros((3, 3))
    for head in range(4):
        centered = queries[:, head] - queries[:, head].mean(0)
        _, singular, components = np.linalg.svd(centered, full_matrices=False)
        projected = keys[head // 2] @ components.T * singular
        for a, b in combinations(range(3), 2):
            plain[a, b] += ((projected[a] - projected[b]) ** 2).sum()
    plain = np.sqrt(plain[PAIRS])
    np.testing.assert_allclose(
        key_distances(queries, keys, [0, 1, 2], 3)[PAIRS], plain / plain.max()
    )


def test_several_demonstrations_of_a_label_count_by_their_mean_distance() -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    keys = np.array([[[0.0], [1.0], [2.0], [4.0]]])
    distances = key_distances(queries, keys, [0, 1, 0, 2], 3)
    np.testing.assert_allclose(distances[0, 1] / distances[0, 2], ((1 + 1) / 2) / ((4 + 2) / 2))


def test_a_label_without_demonstration_has_no_distance() -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    distances = key_distances(queries, np.array([[[0.0], [1.0], [3.0]]]), [0, 2, 3], 5)
    assert np.isnan(distances[[1, 4]]).all()
    np.testing.assert_allclose(distances[0, [2, 3]], [1 / 3, 1])


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_keys_that_no_query_tells_apart_have_no_distance(shift: float) -> None:
    queries = np.ones((3, 1, 2)) + shift * np.arange(3)[:, None, None]
    assert np.isnan(key_distances(queries, np.eye(2)[None], [0, 1], 2)).all()


PAIRS = np.triu_indices(3, 1)


class Collect:
    """Queries of the last tokens and keys of the label words, from full prompts."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self.queries: dict[int, Tensor] = {}
        self.keys: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        self.queries[call.layer] = call.query[torch.arange(len(self._rows)), :, self._rows]
        self.keys[call.layer] = call.key[0][:, [8, 18, 28]]
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value


@pytest.mark.parametrize("family", FAMILIES)
def test_distances_equal_those_of_full_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17, 9, 6])
    measured = measure_diagnosis(model, table, 20)
    assert measured.schema == frame_schema(DIAGNOSIS)
    full = whole_batch(table)
    plain = Collect(full.target_rows)
    with torch.no_grad(), intervene(plain):
        model(full.input_ids, use_cache=False)
    for layer in range(model.config.num_hidden_layers):
        expected = key_distances(
            plain.queries[layer].double().numpy(), plain.keys[layer].double().numpy(), [0, 1, 2], 3
        )
        rows = measured.filter(pl.col("layer") == layer)
        ours = pair_matrix(rows.rename({"distance": "mean"}), 3)
        np.testing.assert_allclose(ours[PAIRS], expected[PAIRS], rtol=1e-4)


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_diagnosis(tiny_model("llama"), table.with_columns(token_ids=pl.Series(ids)), 50)


def test_pairwise_auc_is_that_of_the_ratio_of_probabilities() -> None:
    random = np.random.default_rng(1)
    scores, labels = random.normal(size=(30, 3)), np.tile([0, 1, 2], 10)
    weights = random.multinomial(30, np.full(30, 1 / 30), 5).astype(float)
    aucs = pairwise_auc(scores, labels)(weights)
    for place, (a, b) in enumerate(combinations(range(3), 2)):
        pair = np.isin(labels, (a, b))
        for weight, auc in zip(weights, aucs[:, place], strict=True):
            plain = roc_auc_score(
                labels[pair] == a, (scores[:, a] - scores[:, b])[pair], sample_weight=weight[pair]
            )
            assert auc == pytest.approx(plain)
    assert np.isnan(pairwise_auc(scores[:2], labels[:2])(np.ones((1, 2)))[0]).tolist() == [
        False,
        True,
        True,
    ]


def test_rank_correlations_are_spearman_s_where_defined() -> None:
    random = np.random.default_rng(2)
    first, second = random.normal(size=(5, 8)).round(1), random.normal(size=(3, 8)).round(1)
    first[1, [2, 5]] = first[3, 0] = second[2, 7] = np.nan
    correlations = rank_correlations(first, second)
    for row in range(5):
        for layer in range(3):
            kept = ~np.isnan(first[row]) & ~np.isnan(second[layer])
            plain = spearmanr(first[row][kept], second[layer][kept]).statistic
            assert correlations[row, layer] == pytest.approx(plain)
    assert np.isnan(rank_correlations(np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]]))).all()
    assert np.isnan(rank_correlations(np.ones((1, 4)), np.arange(4.0)[None])).all()


def cell(task: str, seed: int, classes: int, far: list[float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Predictions in which pairs are told apart as far as their keys, with two layers of them."""
    pairs = list(combinations(range(classes), 2))
    rows = []
    random = np.random.default_rng(seed)
    for example in range(classes * 40):
        label = example % classes
        scores = np.zeros(classes)
        for (a, b), distance in zip(pairs, far, strict=True):
            if label in (a, b):
                sign = 1 if label == a else -1
                scores[a] += sign * distance
                scores[b] -= sign * distance
        probabilities = np.exp(scores + random.normal(size=classes))
        rows.append(
            {
                "model": "m",
                "task": task,
                "seed": seed,
                "example": example,
                "label": label,
                "prediction": int(probabilities.argmax()),
                "probabilities": (probabilities / probabilities.sum()).tolist(),
                "top_tokens": [],
                "top_texts": [],
                "top_probabilities": [],
            }
        )
    distances = [
        {
            "model": "m",
            "task": task,
            "seed": seed,
            "layer": layer,
            "label": a,
            "other": b,
            "distance": distance if layer == 0 else 1 - distance,
        }
        for layer in (0, 1)
        for (a, b), distance in zip(pairs, far, strict=True)
    ]
    return (
        pl.DataFrame(rows, schema=frame_schema(PREDICTIONS)),
        pl.DataFrame(distances, schema=frame_schema(DIAGNOSIS)),
    )


def prompts_of(predictions: pl.DataFrame) -> pl.DataFrame:
    names = list(frame_schema(PROMPTS))
    frame = predictions.select("model", "task", "seed", "example").with_columns(
        demonstrations=pl.lit("fixed"), skipped=pl.lit(None, pl.String)
    )
    missing = [pl.lit(None).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(missing).select(names)


def test_where_close_keys_are_confused_the_correlation_is_high_and_where_not_low() -> None:
    far = [0.1, 0.9, 0.5, 0.3, 1.0, 0.2]
    cells = [cell("mine", seed, 4, far) for seed in (0, 1)]
    cells += [cell("two", seed, 2, [1.0]) for seed in (0, 1)]
    predictions = pl.concat([first for first, _ in cells])
    diagnosis = pl.concat([second for _, second in cells])
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 100, 0.9)
    assert summary.schema == frame_schema(CONFUSION)
    correlation = summary.filter(pl.col("measure") == "correlation").sort("task", "layer")
    mine = correlation.filter(pl.col("task") == "mine")
    assert mine["mean"][0] > 0.5
    assert mine["mean"][1] == pytest.approx(-mine["mean"][0])
    assert mine["low"][0] < mine["mean"][0] < mine["high"][0]
    two = correlation.filter(pl.col("task") == "two")
    assert two["mean"].to_list() == [None, None]  # one pair only
    average = correlation.filter(pl.col("task") == "average")
    assert average["mean"].to_list() == pytest.approx(mine["mean"].to_list())
    auc = summary.filter(pl.col("measure") == "auc", pl.col("task") == "mine")
    assert auc.select("label", "other").rows() == list(combinations(range(4), 2))
    assert auc["layer"].null_count() == 6
    distance = summary.filter(pl.col("measure") == "distance", pl.col("task") == "mine")
    assert distance.filter(pl.col("layer") == 0)["mean"].to_list() == pytest.approx(far)


def test_a_run_without_three_labels_has_no_correlation_and_still_a_table_and_figure(
    tmp_path: Path,
) -> None:
    predictions, diagnosis = cell("two", 0, 2, [1.0])
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 100, 0.9)
    assert summary.filter(measure="correlation")["mean"].null_count() == 4
    table = tabulate_confusion(summary)
    assert table["average"].to_list() == ["–", "–"]
    style = {"panel_width": 2, "font_size": 8, "resolution": 50, "colors": ["#000000"] * 3}
    draw_confusion(summary, {"two": ["a", "b"]}, style, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_label_words_that_mean_something_to_a_figure_are_drawn_as_they_are(tmp_path: Path) -> None:
    predictions, diagnosis = cell("many", 0, 4, [1.0] * 6)
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 100, 0.9)
    words = [" $\\frac$", " {model} $5", " two\nlines <b>|", " long" * 1000]
    style = {"panel_width": 2, "font_size": 8, "resolution": 50, "colors": ["#000000"] * 3}
    paths = {kind: tmp_path / f"figure.{kind}" for kind in ("svg", "png", "pdf")}
    draw_confusion(summary, {"many": words}, style, 0.9, paths)
    drawn = paths["svg"].read_text(encoding="utf-8")
    for shown in (
        "$\\frac$",
        "{model} $5",
        "two lines &lt;b&gt;|",
        "long long long long long long…",
    ):
        assert f"<!-- {shown}" in drawn


def test_a_task_that_was_skipped_whole_keeps_a_row_and_its_count() -> None:
    predictions, diagnosis = cell("mine", 0, 3, [0.2, 0.6, 1.0])
    prompts = prompts_of(predictions)
    skipped = prompts[:5].with_columns(task=pl.lit("long"), skipped=pl.lit("too long"))
    both = pl.concat([prompts, skipped])
    summary = summarize_confusion(predictions, diagnosis, both, 100, 0.9)
    long = summary.filter(pl.col("task") == "long")
    assert long["mean"].null_count() == len(long) == 2
    assert set(long["skipped"]) == {5}
    assert set(summary.filter(pl.col("task") == "average")["examples"]) == {120}


def test_a_label_that_no_example_has_leaves_out_its_pairs() -> None:
    predictions, diagnosis = cell("mine", 0, 4, [0.1, 0.9, 0.5, 0.3, 1.0, 0.2])
    some = predictions.filter(pl.col("label") != 3)
    summary = summarize_confusion(some, diagnosis, prompts_of(some), 100, 0.9)
    auc = summary.filter(measure="auc")
    assert auc.filter(pl.col("other") == 3)["mean"].null_count() == 3
    assert summary.filter(measure="correlation", task="mine")["mean"].null_count() == 0


def test_an_artifact_holds_every_layer_and_pair(finished_run: Checkout) -> None:
    rows = pl.read_parquet(finished_run.folder / "results/diagnosis/tiny/news/0.parquet")
    assert rows.select("layer", "label", "other").is_unique().all()
    assert rows.shape[0] == 3 * 6
    assert rows.group_by("layer").agg(pl.col("distance").max())["distance"].to_list() == [1, 1, 1]
    summary = pl.read_parquet(finished_run.folder / "results/confusion/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
