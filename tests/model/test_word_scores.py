"""Scores of whole label words: by hand, and against eager runs with each word written out."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.attention.measure import measure_attention
from anchorflow.analyses.compression.measure import ANCHOR, FULL, measure_compression
from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.retrieval.measure import measure_retrieval
from anchorflow.analyses.reweighting.measure import measure_reweighting
from anchorflow.kept_positions import METHODS
from anchorflow.model.attention_function import Intervention, intervene
from anchorflow.model.batches import Budget
from anchorflow.model.beta_fit import Descent, beta_of
from anchorflow.model.last_tokens import FIRST_TOKEN, Ended, Words, keep_together, leave_room
from anchorflow.model.layers import recompute_activations
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.random_draws import generator
from tiny_models import (
    EVERY_FAMILY,
    PREFIX,
    PlainCompression,
    random_beta,
    shared_prompts,
    tiny_model,
)
from whole_vocabulary import assert_in_vocabulary
from worded_prompts import (
    WORDS,
    Logits,
    eager,
    eager_compressed_logits,
    eagerly_weighted,
    plain_word_scores,
    with_word_tokens,
    with_words,
)

SUM = {"scoring": "whole_word", "word_score": "sum"}
MEAN = {"scoring": "whole_word", "word_score": "mean"}
QUERIES = [5, 17, 9]
SHOWN = [7, 9, 17, 19, 26, 29]  # starts and ends of the demonstrations' label words
FIT = {"learning_rates": [0.1], "further_rates": [], "epochs": 2, "batch_size": 0}
SPEC = {"methods": ["text_anchor", "hidden_anchor", "label_only"], "shares": [], "draws": 1}


class Decoder:
    """A tokenizer that writes token ids as numbers."""

    def decode(self, token_ids: list[int], **_: object) -> str:
        return str(token_ids[0])


def prompts(**columns: Any) -> pl.DataFrame:
    """Prompts whose demonstrations have label words of two, two and three tokens."""
    table = with_word_tokens(with_words(shared_prompts(QUERIES), [2, 2, 3]))
    return table.with_columns(**{name: pl.lit(value) for name, value in columns.items()})


def found(rows: pl.DataFrame, **which: Any) -> Tensor:
    """Label probabilities of some rows, [T, C]."""
    return torch.tensor(rows.filter(**which).sort("example")["probabilities"].to_list())


FIRSTS = [word[0] for word in WORDS]


def last_logits(plain: Logits, table: pl.DataFrame) -> Tensor:
    """Logits after each prompt, [T, V]."""
    return torch.stack([plain(ids)[-1] for ids in table["token_ids"].to_list()])


def plain_probabilities(
    plain: Logits, prompts: Iterable[Sequence[int]], mean: bool = False
) -> Tensor:
    """Label probabilities of plain runs, [T, C]."""
    return torch.stack([plain_word_scores(plain, ids, WORDS, mean) for ids in prompts]).softmax(-1)


def assert_close(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-6)
    assert ours.min() < ours.max()


class _KnownWords(Ended):
    """Prompts after which a word's further tokens have known probabilities."""

    def __init__(self) -> None:
        self.runs: list[list[tuple[int, ...]]] = []

    def log_probabilities(
        self,
        model: PreTrainedModel,
        words: Sequence[Sequence[int]],
        interventions: Sequence[Intervention],
    ) -> list[Tensor]:
        self.runs.append([tuple(word) for word in words])
        known = {(2, 3): [0.25], (2, 0): [0.5], (0, 1, 1): [0.5, 0.8]}
        return [torch.tensor([known[tuple(word)]]).log() for word in words]


@pytest.mark.parametrize(
    ("mean", "weights"),
    [(False, [0.2, 0.4 * 0.25, 0.1 * 0.5 * 0.8]), (True, [0.2, 0.1**0.5, 0.04 ** (1 / 3)])],
)
def test_a_label_is_as_likely_as_its_tokens_or_as_their_geometric_mean(
    mean: bool, weights: list[float]
) -> None:
    logits = torch.tensor([[0.1, 0.2, 0.4, 0.3]]).log() + 7  # of four tokens, plus any constant
    words = Words(((1,), (2, 3), (0, 1, 1)), mean)
    scores = words.scores(tiny_model("gpt2"), _KnownWords(), logits)
    assert scores.softmax(-1)[0].tolist() == pytest.approx(np.divide(weights, sum(weights)))


def test_words_that_differ_in_their_last_token_alone_are_run_together() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.4, 0.3]]).log()
    known = _KnownWords()
    words = Words(((2, 3), (1,), (0, 1, 1), (2, 0)), False)
    scores = words.scores(tiny_model("gpt2"), known, logits)
    assert known.runs == [[(0, 1, 1)], [(2, 0), (2, 3)]]
    expected = [0.4 * 0.25, 0.2, 0.1 * 0.5 * 0.8, 0.4 * 0.5]
    assert scores[0].exp().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_predictions_equal_eager_runs_with_each_word_after_the_whole_prompt(family: str) -> None:
    table, model = prompts(), tiny_model(family)
    plain = eager(tiny_model(family, eager=True))
    for scoring in (SUM, MEAN):
        _, rows = measure_attention(model, Decoder(), table, 40, None, scoring)
        expected = plain_probabilities(plain, table["token_ids"], scoring is MEAN)
        assert_close(found(rows), expected)
        assert rows["prediction"].to_list() == expected.argmax(-1).tolist()
        assert_in_vocabulary(rows, last_logits(plain, table), FIRSTS)
    first = measure_attention(model, Decoder(), table, 40)[1]
    same = ["top_tokens", "top_texts", "top_probabilities", "label_mass", "in_labels"]
    assert first.select(same).equals(rows.select(same))
    assert (found(first) - found(rows)).abs().max() > 1e-2


@pytest.mark.parametrize("family", ["gemma3", "gptj"])
def test_retrieved_demonstrations_are_followed_by_whole_words_too(family: str) -> None:
    table = prompts(demonstrations="nearest")
    shown = table.select(pl.col("demonstrations").alias("choice"), "example").with_columns(
        similarity=pl.lit(0.5), same_label=pl.lit(0.5)
    )
    random = measure_attention(tiny_model(family), Decoder(), prompts(), 40, None, SUM)[1]
    rows = measure_retrieval(tiny_model(family), table, random, shown, 60, SUM)
    plain = eager(tiny_model(family, eager=True))
    assert_close(found(rows, choice="nearest"), plain_probabilities(plain, table["token_ids"]))
    nearest = rows.filter(choice="nearest").sort("example")
    assert_in_vocabulary(nearest, last_logits(plain, table), FIRSTS)


def factors(beta: Tensor, target: int, tokens: int) -> Tensor:
    """Exp β where the target and the tokens after it attend to label words, [L, 1, H, T, T]."""
    layers, heads, _ = beta.shape
    rows = []
    column = torch.zeros(layers, heads, tokens)
    for k, (start, end) in enumerate(zip(SHOWN[::2], SHOWN[1::2], strict=True)):
        inside = torch.zeros(tokens)
        inside[start:end] = 1
        column = column + beta[:, :, k, None] * inside
    for row in range(tokens):
        rows.append(column.exp() if row >= target else torch.ones_like(column))
    return torch.stack(rows, 2)[:, None]


def plainly_weighted(model: PreTrainedModel, prompt: Sequence[int], beta: Tensor) -> Tensor:
    """Scores of ``WORDS`` [C] in eager runs of the whole prompt with re-weighted attention."""
    return plain_word_scores(weighted_by(model, beta, len(prompt)), prompt, WORDS)


def weighted_by(model: PreTrainedModel, beta: Tensor, prompt: int | None = None) -> Logits:
    """Eager runs with re-weighted attention from the end of a prompt on, or in a prompt alone."""

    def logits_of(token_ids: list[int]) -> Tensor:
        with eagerly_weighted(model, factors(beta, (prompt or len(token_ids)) - 1, len(token_ids))):
            return eager(model)(token_ids)

    return logits_of


@pytest.mark.parametrize(
    ("family", "recompute"),
    [
        ("gpt2", False),
        ("qwen3", True),
        pytest.param("granite-hybrid", True, marks=pytest.mark.long),
        pytest.param("jamba", False, marks=pytest.mark.long),
    ],
)
def test_weights_are_fitted_to_whole_words_as_in_eager_full_prompts(
    family: str, recompute: bool
) -> None:
    table, model = prompts(), tiny_model(family)
    if recompute:
        recompute_activations(model)
    plain_model = tiny_model(family, eager=True)
    prefix = compute_prefix(model, shared_token_ids(table))
    tokens = keep_together(model, table, prefix, Budget(1000))
    words = Words.scored(table, SUM)
    random = generator(0, "news", "reweighting")
    beta, steps = Descent(0.1, 2, 0).fit(model, tokens, random, words)
    plain_beta = torch.nn.Parameter(torch.zeros_like(beta))
    optimizer = torch.optim.Adam([plain_beta], lr=0.1)
    for step in steps:
        scores = [plainly_weighted(plain_model, ids, plain_beta) for ids in table["token_ids"]]
        loss = torch.nn.functional.cross_entropy(
            torch.stack(scores), torch.tensor(table["label"].to_list())
        )
        optimizer.zero_grad()
        loss.backward()
        assert step.loss == pytest.approx(loss.item(), rel=1e-4)
        optimizer.step()
    torch.testing.assert_close(beta, plain_beta.detach(), rtol=1e-3, atol=1e-4)


def test_re_weighting_and_its_baselines_score_whole_words() -> None:
    kinds = {"fixed": 4, "training": 6, "calibrated": 3, "domain_calibrated": 3, "many": 4}
    rows = [(kind, example) for kind, count in kinds.items() for example in range(count)]
    table = with_words(shared_prompts([5 + row % 7 for row in range(len(rows))]), [2, 2, 3])
    table = with_word_tokens(table).with_columns(
        pl.Series("demonstrations", [kind for kind, _ in rows]),
        pl.Series("example", [example for _, example in rows], dtype=pl.Int32),
        pl.Series("label", [example % 3 for _, example in rows], dtype=pl.Int32),
    )
    baselines = ["calibrated", "domain_calibrated", "batch_calibrated"]
    measured = measure_reweighting(
        tiny_model("llama"), table, [" a", " b", " c"], {**FIT, "baselines": baselines}, 40, SUM
    )
    model = tiny_model("llama", eager=True)
    own, beta = eager(model), beta_of(measured.beta)
    test, inputs, words_alone, many = (
        plain_probabilities(own, table.filter(demonstrations=kind)["token_ids"])
        for kind in ("fixed", "calibrated", "domain_calibrated", "many")
    )
    fixed = table.filter(demonstrations="fixed")
    weighted = [plainly_weighted(model, ids, beta) for ids in fixed["token_ids"]]
    for method, expected in {
        "vanilla": test,
        "reweighted": torch.stack(weighted).softmax(-1),
        "calibrated": test / inputs.mean(0),
        "domain_calibrated": test / words_alone.mean(0),
        "batch_calibrated": test / test.mean(0),
        "many": many,
    }.items():
        normalized = expected / expected.sum(1, keepdim=True)
        assert_close(found(measured.predictions, method=method), normalized)
    for method, each in (("vanilla", beta * 0), ("reweighted", beta)):
        rows = measured.predictions.filter(method=method).sort("example")
        assert_in_vocabulary(rows, last_logits(weighted_by(model, each), fixed), FIRSTS)


@pytest.mark.parametrize(("family", "positions"), [("gpt2", "original"), ("llama", "zero")])
def test_words_after_compressed_demonstrations_equal_eager_runs(
    family: str, positions: str
) -> None:
    table, model = prompts(), tiny_model(family)
    plain = tiny_model(family, eager=True)
    spec = {**SPEC, "positions": positions}
    rows = measure_compression(model, table, {}, spec, 40, None, SUM)
    formats = [p for p in table["format_positions"][0] if p < PREFIX]
    labels = [p for start, end in ((7, 9), (17, 19), (26, 29)) for p in range(start, end)]
    anchors = sorted({*formats, *labels})
    kept_of = {"full": [*range(PREFIX)], "hidden_anchor": anchors, "label_only": labels}
    for method, kept in kept_of.items():

        def logits_of(token_ids: list[int], kept: list[int] = kept, method: str = method) -> Tensor:
            places = torch.arange(len(token_ids))[None]
            if positions == "zero" and method != "full":
                places = torch.where(places < PREFIX, places, places - PREFIX)
            return eager_compressed_logits(plain, token_ids, PREFIX, kept, places)

        expected = plain_probabilities(logits_of, table["token_ids"])
        assert_close(found(rows, method=method), expected)
        of_method = rows.filter(method=method).sort("example")
        assert_in_vocabulary(of_method, last_logits(logits_of, table), FIRSTS)
    written = [[*(ids[p] for p in anchors), *ids[PREFIX:]] for ids in table["token_ids"]]
    assert_close(found(rows, method="text_anchor"), plain_probabilities(eager(plain), written))


@pytest.mark.parametrize("family", ["gemma3", "gpt-neo"])
def test_words_after_what_is_kept_of_each_head_equal_whole_attention_matrices(family: str) -> None:
    table, model = prompts(), tiny_model(family)
    methods = ["hidden_anchor", "key_norm", "snapkv"]
    spec = {**SPEC, "methods": methods, "positions": "original"}
    rows = measure_compression(model, table, {}, spec, 40, None, MEAN)
    shown = observe(model, shared_token_ids(table), table.row(0, named=True))
    for method in methods:
        kept = dict(METHODS[method](shown, len(shown.anchors()), 0))
        with intervene(PlainCompression(kept)):
            expected = plain_probabilities(eager(model), table["token_ids"], True)
        assert_close(found(rows, method=method), expected)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_compressed_and_re_weighted_words_equal_eager_runs(family: str) -> None:
    table, model = prompts(), tiny_model(family)
    plain, beta = tiny_model(family, eager=True), random_beta(model)
    training = prompts(demonstrations="training")
    spec = {**SPEC, "positions": "original"}
    both = pl.concat([table, training])
    reweighting = {**FIT, "baselines": []}
    fits = measure_reweighting(model, both, [" a", " b", " c"], reweighting, 40, SUM, "original")
    betas = {FULL: beta, ANCHOR: beta_of(fits.beta_anchor)}
    rows = measure_compression(model, both, betas, spec, 40, None, SUM)
    expected = [plainly_weighted(plain, ids, beta).softmax(-1) for ids in table["token_ids"]]
    assert_close(found(rows, method="reweighted"), torch.stack(expected))

    labels = [p for start, end in ((7, 9), (17, 19), (26, 29)) for p in range(start, end)]
    kept = sorted({*(p for p in table["format_positions"][0] if p < PREFIX), *labels})
    prefix = compute_prefix(model, shared_token_ids(table))
    cache = prefix.keep(dict.fromkeys(prefix.layers, torch.tensor(kept)[None]))
    learned = keep_together(model, training, cache, Budget(40))
    random = generator(0, "news", "reweighting")
    fitted, _ = Descent(0.1, 2, 0).fit(model, learned, random, Words.scored(table, SUM))
    scores = []
    for prompt in table["token_ids"]:

        def logits_of(token_ids: list[int], prompt: Sequence[int] = prompt) -> Tensor:
            weights = factors(fitted, len(prompt) - 1, len(token_ids))
            with eagerly_weighted(plain, weights):
                return eager_compressed_logits(plain, token_ids, PREFIX, kept)

        scores.append(plain_word_scores(logits_of, prompt, WORDS))
    assert_close(found(rows, method="reweighted_anchor"), torch.stack(scores).softmax(-1))


def test_words_of_one_token_give_the_numbers_of_first_tokens() -> None:
    table, model = shared_prompts(QUERIES), tiny_model("gemma3")
    training = table.with_columns(demonstrations=pl.lit("training"))
    both = pl.concat([table, training])
    spec = {**SPEC, "positions": "original"}
    reweighting = {**FIT, "baselines": ["batch_calibrated"]}
    names = [" a", " b", " c"]
    beta = torch.ones(3, 4, 3)
    shown = table.select(pl.lit("fixed").alias("choice"), "example").with_columns(
        similarity=pl.lit(0.5), same_label=pl.lit(0.5)
    )
    first, *whole = (
        [
            *measure_attention(model, Decoder(), table, 40, None, scoring),
            *measure_reweighting(model, both, names, reweighting, 40, scoring, "original"),
            measure_compression(model, both, {FULL: beta}, spec, 40, None, scoring),
            measure_retrieval(
                model, table, measure_attention(model, Decoder(), table, 40)[1], shown, 40, scoring
            ),
        ]
        for scoring in (FIRST_TOKEN, SUM, MEAN)
    )
    for tables in whole:
        for ours, theirs in zip(tables, first, strict=True):
            assert ours.equals(theirs)
            # Nothing is routed, and this baseline has no inputs.
            assert ours.is_empty() == bool({"baseline", "part"} & {*ours.columns})


def test_prompts_after_which_no_word_fits_are_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = prompts(context=PREFIX + 17 + 1).with_columns(pl.col("context").cast(pl.Int32))
    words = Words.scored(table, SUM)
    with caplog.at_level(logging.WARNING):
        left = leave_room(table, words)
    assert left["skipped"].is_null().to_list() == [True, False, True]
    assert "1 of 3 prompts are left out: the longest label word after them exceeds" in caplog.text
    _, rows = measure_attention(tiny_model("gpt2"), Decoder(), table, 40, None, SUM)
    assert rows["example"].to_list() == [0, 2]
    assert leave_room(table, None) is table
    roomy = table.with_columns(context=pl.lit(PREFIX + 17 + 2))  # the last token is not run
    assert leave_room(roomy, words)["skipped"].null_count() == 3
    assert words is not None
    assert leave_room(roomy, replace(words, tokens=((1, 2, 3, 4), (2,))))["skipped"][1] is not None
