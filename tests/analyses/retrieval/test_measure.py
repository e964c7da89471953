"""Predictions with chosen demonstrations against full prompts, and how these are described."""

import logging

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.retrieval import RETRIEVAL
from anchorflow.analyses.retrieval.measure import cost, describe_demonstrations, measure_retrieval
from anchorflow.analyses.retrieval.samples import choose_demonstrations
from anchorflow.analyses.retrieval.summarize import CHOICES
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
from tiny_models import tiny_model
from whole_vocabulary import assert_predicted, logits_in_full

# Another task's texts, at 30° and 120°.
OTHER, OF_OTHER = corpus([("left", 30, 0), ("right", 120, 0)], [], "other")


def chosen(choices: list[str], labels: list[int]) -> pl.DataFrame:
    texts, embeddings = corpus()
    return choose_demonstrations(texts, fixed_samples(labels), embeddings, choices, LABELS, OTHER)


def test_demonstrations_are_described_by_mean_cosine_and_share_of_the_true_label() -> None:
    _, embeddings = corpus()
    samples = pl.concat(
        [fixed_samples([0, 1]), chosen(["nearest", "other_task", "random_labels"], [0, 1])]
    )
    shown = describe_demonstrations(samples, embeddings, OF_OTHER)
    across, along = (of(np.deg2rad([30, 120])).mean() for of in (np.cos, np.sin))
    expected = {
        ("random", 0): ((1 + 1 / 2) / 2, 1 / 2),  # east and steep from 0°
        ("random", 1): ((0 + np.cos(np.pi / 6)) / 2, 1 / 2),  # from 90°
        ("nearest", 0): ((1 + np.cos(np.pi / 18)) / 2, 1.0),  # east and flat
        ("nearest", 1): ((np.cos(np.pi / 4) + np.cos(np.pi / 6)) / 2, 1 / 2),  # middle and steep
        ("other_task", 0): (across, 1 / 2),  # by that task's own embeddings
        ("other_task", 1): (along, 1 / 2),
        ("random_labels", 0): (3 / 4, 1 / 2),
        ("random_labels", 1): (3**0.5 / 4, 1 / 2),
    }
    found = {row[:2]: row[2:] for row in shown.rows()}
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, abs=1e-6), key


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
    for choice in ("nearest", "nearest_per_label"):
        logits = logits_in_full(
            tiny_model(family, eager=True), prompts.filter(demonstrations=choice)
        )
        rows = measured.filter(choice=choice)
        assert_predicted(rows, logits, prompts["label_tokens"][0].to_list())
        assert rows["label"].to_list() == [0, 1, 2]
        told = logits[:, prompts["label_tokens"][0].to_list()].argmax(1)
        assert rows["prediction"].to_list() == told.tolist()


def test_predictions_with_every_choice_equal_those_of_plain_full_prompts() -> None:
    samples = chosen(list(CHOICES[1:]), [0, 1])
    wording = Template.parse("{text}:{label}")
    prompts = build_prompts(samples, StubTokenizer(r"(?s)."), wording, LABELS, "tiny", 256)
    shown = describe_demonstrations(samples, corpus()[1], OF_OTHER)
    llama, eager = (tiny_model("llama", eager=each, vocabulary=256) for each in (False, True))
    measured = measure_retrieval(llama, prompts, random_predictions([0, 1]), shown, 60)
    rows = measured.filter(pl.col("choice") != "random")
    assert rows["choice"].to_list() == list(CHOICES[1:]) * len(TEST)
    assert rows.select("similarity", "same_label").null_count().row(0) == (0, 0)
    for (choice,), of_choice in prompts.group_by("demonstrations"):
        logits = logits_in_full(eager, of_choice)
        assert_predicted(rows.filter(choice=choice), logits, prompts["label_tokens"][0].to_list())


def test_prompts_that_exceed_the_context_are_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = (pl.col("demonstrations") == "nearest") & (pl.col("example") == 1)
    prompts = cell_prompts([5, 17, 9]).with_columns(skipped=pl.when(long).then(pl.lit("too long")))
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
