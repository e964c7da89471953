"""Answers with deranged label words: against plain full prompts, and as re-weighting has them."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.compression.measure import measure_compression
from anchorflow.analyses.override.measure import deranged, measure_override
from anchorflow.analyses.reweighting.measure import measure_reweighting
from tiny_cells import TABLE, called
from tiny_models import plain_attentions, single, tiny_model, whole_batch

WORDS = [" a", " b", " c"]
FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0, "examples_per_label": 1}
WAYS = ["full", "hidden_anchor", "reweighted", "reweighted_anchor"]


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_every_class_has_the_word_of_another_one_by_a_draw_per_task_and_seed(labels: int) -> None:
    words = [f" {letter}" for letter in "abcdef"[:labels]]
    drawn = [deranged(words, "news", seed) for seed in range(20)]
    for given in drawn:
        assert sorted(given) == words
        assert all(own != other for own, other in zip(words, given, strict=True))
    assert deranged(words, "news", 3) == drawn[3]
    assert len({*map(tuple, drawn)}) > 1 or labels == 2


def probabilities(rows: pl.DataFrame, method: str) -> np.ndarray:
    return np.array(rows.filter(method=method).sort("example")["probabilities"].to_list())


def test_ways_are_those_of_plain_prompts_of_compression_and_of_re_weighting() -> None:
    model, prompts = tiny_model("llama"), called(TABLE, "fixed", "training")
    spec = {"ways": WAYS, "fit": FIT, "positions": "original"}
    found = measure_override(model, prompts, WORDS, spec, 1000)
    assert found["method"].unique().sort().to_list() == sorted(["first_only", *WAYS])
    full, eager = whole_batch(TABLE), tiny_model("llama", eager=True)
    rows = [full.examples.index(example) for example in sorted(full.examples)]
    plain = [plain_attentions(eager, single(full, row))[0] for row in rows]
    expected = [logits[full.label_tokens].softmax(-1).numpy() for logits in plain]
    np.testing.assert_allclose(probabilities(found, "full"), expected, rtol=1e-4)
    of = {"methods": ["hidden_anchor"], "shares": [], "draws": 1, "positions": "original"}
    compressed = measure_compression(model, prompts, {}, of, 1000)
    for method in ("first_only", "hidden_anchor"):
        same = probabilities(compressed, method)
        np.testing.assert_allclose(probabilities(found, method), same, rtol=1e-5)
    fitted = {**FIT, "further_rates": [], "baselines": []}
    weighted = measure_reweighting(model, prompts, WORDS, fitted, 1000, anchors="original")
    same = probabilities(weighted.predictions, "reweighted")
    np.testing.assert_allclose(probabilities(found, "reweighted"), same, rtol=1e-4)
    assert np.abs(same - expected).max() > 1e-3
    anchored = probabilities(found, "reweighted_anchor")
    assert np.abs(anchored - probabilities(found, "hidden_anchor")).max() > 1e-3


def test_what_is_not_asked_for_is_neither_fitted_nor_reported() -> None:
    found = measure_override(tiny_model("llama"), TABLE, WORDS, {"ways": ["full"]}, 1000)
    assert found["method"].unique().sort().to_list() == ["first_only", "full"]
    long = TABLE.with_columns(skipped=pl.lit("too long"))
    assert measure_override(tiny_model("llama"), long, WORDS, {"ways": WAYS}, 1000).is_empty()


@pytest.mark.parametrize("family", ["granite-hybrid"])
def test_models_that_carry_a_state_answer_from_text_alone(family: str) -> None:
    spec = {"ways": WAYS[:2], "positions": "original"}
    found = measure_override(tiny_model(family), TABLE, WORDS, spec, 1000)
    assert found["method"].unique().sort().to_list() == ["first_only", "full"]
