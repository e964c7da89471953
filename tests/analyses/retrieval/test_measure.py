"""Predictions with chosen demonstrations against full prompts, and how these are described."""

import logging

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.retrieval import RETRIEVAL
from anchorflow.analyses.retrieval.measure import cost, describe_demonstrations, measure_retrieval
from anchorflow.analyses.retrieval.samples import choose_demonstrations
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template
from anchorflow.schemas.frames import frame_schema
from constructed.corpus import (
    LABELS,
    TEST,
    cell_prompts,
    corpus,
    described,
    fixed_samples,
    random_predictions,
)
from stub_tokenizers import StubTokenizer
from tiny_models import plain_attentions, single, tiny_model, whole_batch
from whole_vocabulary import assert_in_vocabulary

EVERY_CHOICE = [
    "nearest",
    "nearest_per_label",
    "representative",
    "outlying",
    "other_task",
    "random_labels",
]
# Another task's texts, at 30° and 120°.
OTHER, OF_OTHER = corpus([("left", 30, 0), ("right", 120, 0)], [], "other")


def chosen(choices: list[str], labels: list[int]) -> pl.DataFrame:
    texts, embeddings = corpus()
    return choose_demonstrations(texts, fixed_samples(labels), embeddings, choices, LABELS, OTHER)


def test_demonstrations_are_described_by_mean_cosine_and_share_of_the_true_label() -> None:
    _, embeddings = corpus()
    samples = pl.concat([fixed_samples([0, 1]), chosen(["nearest"], [0, 1])])
    shown = describe_demonstrations(samples, embeddings)
    expected = [
        ("random", 0, (1 + 1 / 2) / 2, 1 / 2),  # east and steep from 0°
        ("random", 1, (0 + np.cos(np.pi / 6)) / 2, 1 / 2),  # from 90°
        ("nearest", 0, (1 + np.cos(np.pi / 18)) / 2, 1.0),  # east and flat
        ("nearest", 1, (np.cos(np.pi / 4) + np.cos(np.pi / 6)) / 2, 1 / 2),  # middle and steep
    ]
    for row, (choice, example, similarity, same) in zip(shown.rows(), expected, strict=True):
        assert row[:2] == (choice, example)
        assert row[2:] == pytest.approx((similarity, same), abs=1e-6)


def test_texts_of_another_task_are_described_by_its_own_embeddings() -> None:
    _, embeddings = corpus()
    samples = chosen(["other_task", "random_labels"], [0, 1])
    shown = describe_demonstrations(samples, embeddings, OF_OTHER)
    by_choice = {key: rows["similarity"].to_list() for (key,), rows in shown.group_by("choice")}
    cosines = [np.cos(np.deg2rad([30, 120])).mean(), np.sin(np.deg2rad([30, 120])).mean()]
    assert by_choice["other_task"] == pytest.approx(cosines, abs=1e-6)
    # As the random ones: east and steep from 0° and from 90°.
    assert by_choice["random_labels"] == pytest.approx([3 / 4, 3**0.5 / 4], abs=1e-6)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_predictions_equal_those_of_plain_full_prompts(family: str) -> None:
    prompts = cell_prompts([5, 17, 9])
    random = random_predictions([0, 1, 2])
    shown = described(prompts, [0, 1, 2])
    measured = measure_retrieval(tiny_model(family), prompts, random, shown, 60)
    assert measured.schema == frame_schema(RETRIEVAL)
    assert measured["choice"].to_list() == ["random", "nearest", "nearest_per_label"] * 3
    assert measured["example"].to_list() == [0] * 3 + [1] * 3 + [2] * 3
    assert measured["similarity"].to_list() == [0, 0.3, 0.6, 0.1, 0.4, 0.7, 0.2, 0.5, 0.8]
    columns = ["label", "prediction", "label_mass", "in_labels"]
    kept = measured.filter(pl.col("choice") == "random").select(columns)
    assert kept.equals(random.select(columns))
    eager = tiny_model(family, eager=True)
    for choice in ("nearest", "nearest_per_label"):
        full = whole_batch(prompts.filter(pl.col("demonstrations") == choice))
        rows = measured.filter(pl.col("choice") == choice)
        for place, example in enumerate(full.examples):
            logits, _ = plain_attentions(eager, single(full, place))
            plain = logits[full.label_tokens].softmax(-1)
            row = rows.row(example, named=True)
            torch.testing.assert_close(torch.tensor(row["probabilities"]), plain, rtol=0, atol=1e-4)
            assert (row["label"], row["prediction"]) == (example % 3, int(plain.argmax()))
            assert_in_vocabulary(rows[example], logits[None], full.label_tokens.tolist())


def test_predictions_with_every_choice_equal_those_of_plain_full_prompts() -> None:
    samples = chosen(EVERY_CHOICE, [0, 1])
    wording = Template.parse("{text}:{label}")
    prompts = build_prompts(samples, StubTokenizer(r"(?s)."), wording, LABELS, "tiny", 256)
    shown = describe_demonstrations(samples, corpus()[1], OF_OTHER)
    llama, eager = (tiny_model("llama", eager=each, vocabulary=256) for each in (False, True))
    measured = measure_retrieval(llama, prompts, random_predictions([0, 1]), shown, 60)
    rows = measured.filter(pl.col("choice") != "random")
    assert rows["choice"].to_list() == EVERY_CHOICE * len(TEST)
    assert rows.select("similarity", "same_label").null_count().row(0) == (0, 0)
    for choice, example, ids, of_label in prompts.select(
        "demonstrations", "example", "token_ids", "label_tokens"
    ).iter_rows():
        with torch.no_grad():
            logits = eager(torch.tensor([ids]), use_cache=False).logits[0, -1]
        row = rows.row(
            by_predicate=(pl.col("choice") == choice) & (pl.col("example") == example), named=True
        )
        plain = logits[of_label].softmax(-1)
        torch.testing.assert_close(torch.tensor(row["probabilities"]), plain, rtol=0, atol=1e-4)


def test_prompts_that_exceed_the_context_are_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = (pl.col("demonstrations") == "nearest") & (pl.col("example") == 1)
    prompts = cell_prompts([5, 17, 9]).with_columns(
        skipped=pl.when(long).then(pl.lit("too long")).otherwise(None)
    )
    shown = described(prompts, [0, 2])
    with caplog.at_level(logging.WARNING):
        measured = measure_retrieval(
            tiny_model("llama"), prompts, random_predictions([0, 2]), shown, 60
        )
    run = measured.group_by("choice").agg("example").sort("choice")
    assert run["example"].to_list() == [[0, 2], [0, 1, 2], [0, 2]]
    assert "1 of 6 prompts with chosen demonstrations are skipped" in caplog.text
    none = prompts.with_columns(skipped=pl.lit("too long"))
    left = measure_retrieval(tiny_model("llama"), none, random_predictions([]), shown, 60)
    assert left.is_empty()


def test_texts_are_run_once_for_everything_that_is_varied() -> None:
    assert cost(Prompts(10, 40, 10, 1), {"choices": ["nearest"]}, 3) == Cost(10 * 50, whole=True)
