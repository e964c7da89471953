"""Predictions for perturbed texts against full prompts, and what is skipped."""

import logging

import polars as pl
import pytest
import torch

from anchorflow.analyses.perturbations import PERTURBATIONS
from anchorflow.analyses.perturbations.measure import cost, measure_perturbations
from anchorflow.model.size import Cost, Prompts
from anchorflow.schemas.frames import frame_schema
from constructed.corpus import perturbed_prompts, untouched_predictions
from tiny_models import tiny_model
from whole_vocabulary import assert_predicted, logits_in_full
from worded_prompts import WORDS, eager, plain_word_scores, with_word_tokens, with_words

QUERIES = [5, 17, 9]
KINDS = ["untouched", "typos", "case"]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "gpt-neox"])
def test_predictions_equal_those_of_plain_full_prompts(family: str) -> None:
    prompts, untouched = perturbed_prompts(QUERIES), untouched_predictions([0, 1, 2])
    measured = measure_perturbations(tiny_model(family), prompts, untouched, 40)
    assert measured.schema == frame_schema(PERTURBATIONS)
    assert measured["perturbation"].to_list() == KINDS * 3
    assert measured["example"].to_list() == [0] * 3 + [1] * 3 + [2] * 3
    columns = ["example", "label", "prediction", "probabilities", "label_mass", "in_labels"]
    assert measured.filter(perturbation="untouched").select(columns).equals(untouched[columns])
    label_tokens = prompts["label_tokens"][0].to_list()
    for kind in KINDS[1:]:
        logits = logits_in_full(tiny_model(family, eager=True), prompts.filter(demonstrations=kind))
        rows = measured.filter(perturbation=kind)
        assert_predicted(rows, logits, label_tokens)
        assert rows["label"].to_list() == [0, 1, 2]
        assert rows["prediction"].to_list() == logits[:, label_tokens].argmax(1).tolist()


@pytest.mark.parametrize("score", ["sum", "mean"])
def test_whole_words_are_scored_as_in_full_prompts(score: str) -> None:
    prompts = with_word_tokens(with_words(perturbed_prompts(QUERIES), [2, 2, 3]))
    scoring = {"scoring": "whole_word", "word_score": score}
    untouched = untouched_predictions([0, 1, 2])
    measured = measure_perturbations(tiny_model("llama"), prompts, untouched, 40, scoring=scoring)
    plain = eager(tiny_model("llama", eager=True))
    for kind in KINDS[1:]:
        ours = measured.filter(perturbation=kind)["probabilities"].to_list()
        chosen = prompts.filter(pl.col("demonstrations") == kind)
        for row, ids in zip(ours, chosen["token_ids"], strict=True):
            scores = plain_word_scores(plain, ids, WORDS, mean=score == "mean")
            torch.testing.assert_close(torch.tensor(row), scores.softmax(-1), rtol=0, atol=1e-4)


def test_prompts_that_exceed_the_context_are_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = (pl.col("demonstrations") == "typos") & (pl.col("example") == 1)
    prompts = perturbed_prompts(QUERIES).with_columns(
        skipped=pl.when(long).then(pl.lit("too long"))
    )
    with caplog.at_level(logging.WARNING):
        measured = measure_perturbations(
            tiny_model("llama"), prompts, untouched_predictions([0, 2]), 60
        )
    run = measured.group_by("perturbation").agg("example").sort("perturbation")
    assert run.rows() == [("case", [0, 1, 2]), ("typos", [0, 2]), ("untouched", [0, 2])]
    assert "1 of 6 prompts with perturbed texts are skipped" in caplog.text
    none = prompts.with_columns(skipped=pl.lit("too long"))
    left = measure_perturbations(tiny_model("llama"), none, untouched_predictions([]), 60)
    assert left.is_empty()
    assert left.schema == frame_schema(PERTURBATIONS)


def test_texts_are_run_once_for_everything_that_is_varied() -> None:
    assert cost(Prompts(10, 40, 10, 1), {"kinds": ["typos", "rare_words"]}, 3) == Cost(2 * 140)
