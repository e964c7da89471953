"""Saliency between single tokens against plain references, and the tokens' texts."""

import numpy as np
import polars as pl
import pytest
import torch
from tokenizers import Tokenizer, decoders, models

from anchorflow.analyses.flow.measure import measure_flow
from anchorflow.analyses.flow_page import (
    SHOWN_HEADS,
    SHOWN_KNOCKOUTS,
    SHOWN_PROMPTS,
    TOKEN_SALIENCY,
)
from anchorflow.analyses.flow_page import measure as flow_page
from anchorflow.analyses.flow_page.measure import CUTS, measure_flow_page, token_texts
from anchorflow.analyses.flow_page.plot import flow_masks, saliency_matrices
from anchorflow.analyses.heads.measure import measure_heads
from anchorflow.analyses.knockout.measure import Cut, as_heavy
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import batches_of
from anchorflow.model.logits import target_label_logits
from anchorflow.prepare.positions import AS_HEAVY, edges_of, random_ranks
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from flow_pages import shown_tables
from tiny_models import (
    EVERY_FAMILY,
    GATED,
    PREFIX,
    PlainCut,
    depth_of,
    families,
    plain_attentions,
    plain_saliency,
    shared_prompts,
    tiny_model,
)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_entry_equals_autograd_on_eager_attention(family: str, words: Tokenizer) -> None:
    prompts = shared_prompts([9, 5])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    saliency, *_ = measure_flow_page(model, words, prompts, 2, "fixed")
    assert saliency.schema == frame_schema(TOKEN_SALIENCY)
    for batch in batches_of(prompts, 1, torch.device("cpu")):
        own = saliency.filter(example=batch.examples[0])
        plain = plain_saliency(eager, batch).tril(-1).numpy()
        assert plain.max() > 0
        assert np.abs(saliency_matrices(own) - plain).max() <= 1e-4 * plain.max()


@pytest.mark.parametrize("protocol", ["per_example", "fixed"])
def test_means_of_the_matrices_are_those_of_stage_saliency(protocol: str, words: Tokenizer) -> None:
    saliency, shown, *_, prompts = shown_tables(words, 2, protocol)
    table = measure_flow(tiny_model("llama"), prompts, 1000, protocol)
    assert shown["example"].to_list() == [0, 1]
    for prompt in prompts.head(2).iter_rows(named=True):
        matrices = saliency_matrices(saliency.filter(example=prompt["example"]))
        masks = flow_masks(prompt)
        stage = table.filter(example=prompt["example"]).sort("layer")
        for mask, name in zip(masks, ("s_wp", "s_pq", "s_ww"), strict=True):
            ours = [matrix[mask].mean() for matrix in matrices]
            assert ours == pytest.approx(stage[name].to_list(), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_cutting_a_flow_in_a_layer_equals_whole_matrices_without_it(
    family: str, words: Tokenizer
) -> None:
    prompts, model = shared_prompts([9, 5]), tiny_model(family)
    eager = tiny_model(family, eager=True)
    _, _, cuts, _ = measure_flow_page(model, words, prompts, 2, "fixed")
    assert cuts.schema == frame_schema(SHOWN_KNOCKOUTS)
    assert len(cuts) == 2 * len(CUTS) * depth_of(model)
    heavy = 0
    for row in cuts.iter_rows(named=True):
        (prompt,) = prompts.filter(example=row["example"]).to_dicts()
        (batch,) = batches_of(pl.DataFrame([prompt]), 1, torch.device("cpu"))
        if row["edges"] == AS_HEAVY:
            edges = edges_of(prompt, "label_to_target")
            random = generator(0, "news", "flow_page", AS_HEAVY, row["example"])
            ranks = torch.from_numpy(random_ranks(edges, random))[None]
            attention = plain_attentions(eager, batch)[1][[row["layer"]]]
            edges = as_heavy(attention, torch.from_numpy(edges)[None], ranks)
            heavy += int(edges.sum())
        else:
            edges = torch.from_numpy(edges_of(prompt, row["edges"]))[None]
        with intervene(PlainCut(edges, range(row["layer"], row["layer"] + 1), "mask")):
            logits = target_label_logits(model, batch)[0].double()
        plain = target_label_logits(model, batch)[0].double()
        label = prompt["label"]
        change = logits.logsumexp(0) - logits[label] - (plain.logsumexp(0) - plain[label])
        assert row["loss_change"] == pytest.approx(change.item(), rel=1e-3, abs=2e-5)
        expected = logits.softmax(0).tolist()
        assert row["probabilities"] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert heavy > 0


@pytest.mark.parametrize("family", families(*GATED))
def test_what_heads_read_equals_eager_attention_and_what_they_write_adds_up_to_direct_effects(
    family: str, words: Tokenizer
) -> None:
    prompts, model = shared_prompts([9, 5]), tiny_model(family)
    *_, heads = measure_flow_page(model, words, prompts, 2, "fixed")
    assert heads.schema == frame_schema(SHOWN_HEADS)
    direct = measure_heads(model, words, prompts, ["writing"], 1, 100).filter(score="direct")
    eager = tiny_model(family, eager=True)
    for batch in batches_of(prompts, 1, torch.device("cpu")):
        example, label = batch.examples[0], int(batch.labels[0])
        rows = heads.filter(example=example)
        target = int(batch.target_rows[0])
        plain = plain_attentions(eager, batch)[1][:, :, target, : target + 1]
        assert rows["attention"].to_numpy() == pytest.approx(plain.flatten().numpy(), abs=1e-5)
        sums = rows.with_columns(pl.col("writes").list.get(label)).group_by(
            "layer", "head", maintain_order=True
        )
        expected = direct.filter(example=example).sort("layer", "head")["value"].to_list()
        assert sums.agg(pl.col("writes").sum())["writes"].to_list() == pytest.approx(
            expected, rel=1e-4, abs=1e-5
        )


def test_an_architecture_whose_heads_are_not_followed_has_pages_without_them(
    words: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise InputError("not known")

    monkeypatch.setattr(flow_page, "find_writes", refuse)
    prompts = shared_prompts([9])
    saliency, *_, heads = measure_flow_page(tiny_model("llama"), words, prompts, 1, "fixed")
    assert not saliency.is_empty()
    assert heads.is_empty()


@pytest.mark.parametrize(("family", "first"), [("llama", 0), ("lfm2", 1)])  # attending layers
def test_a_cut_that_changes_nothing_is_an_error(
    family: str, first: int, words: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cut, "attend", lambda _, call, attention: attention(call))
    said = f"flow_page: cutting attention in layer {first} changed nothing"
    with pytest.raises(InputError, match=said):
        measure_flow_page(tiny_model(family), words, shared_prompts([9]), 1, "fixed")


def test_the_query_and_the_layers_of_strongest_flow_are_told(words: Tokenizer) -> None:
    saliency, shown, *_, prompts = shown_tables(words, 2)
    for prompt, row in zip(
        prompts.iter_rows(named=True), shown.iter_rows(named=True), strict=False
    ):
        matrices = saliency_matrices(saliency.filter(example=prompt["example"]))
        to_words, to_target, _ = flow_masks(prompt)
        assert row["strongest_wp"] == np.argmax([matrix[to_words].mean() for matrix in matrices])
        assert row["strongest_pq"] == np.argmax([matrix[to_target].mean() for matrix in matrices])
        assert row["query"].split() == [f"w{t}" for t in prompt["token_ids"][PREFIX:]]


def test_the_first_prompts_by_row_that_can_be_run_are_shown(words: Tokenizer) -> None:
    prompts = shared_prompts([17, 5, 9])
    long = pl.when(pl.col("example") == 0).then(pl.lit("too long"))
    prompts = prompts.with_columns(long.alias("skipped")).reverse()
    model = tiny_model("llama")
    saliency, shown, *_ = measure_flow_page(model, words, prompts, 1, "fixed")
    assert shown["example"].to_list() == saliency["example"].unique().to_list() == [1]
    assert shown.schema == frame_schema(SHOWN_PROMPTS)
    (row,) = shown.to_dicts()
    assert sum(row["probabilities"]) == pytest.approx(1)
    assert row["prediction"] == int(np.argmax(row["probabilities"]))
    token_ids = prompts.filter(example=1)["token_ids"].item().to_list()
    assert [text.strip() for text in row["texts"]] == [f"w{token}" for token in token_ids]
    for examples, rows in ((0, 0), (9, 2)):
        measured = measure_flow_page(model, words, prompts, examples, "fixed")
        assert len(measured[1]) == rows
        assert measured[0].schema == frame_schema(TOKEN_SALIENCY)


def test_rightly_answered_prompts_are_shown_and_then_the_first_others(words: Tokenizer) -> None:
    prompts, model = shared_prompts([17, 5, 9, 11]), tiny_model("llama")
    _, shown, *_ = measure_flow_page(model, words, prompts, 4, "fixed")
    answers = dict(shown.select("example", "prediction").iter_rows())
    labels = [(answers[k] + (k in (0, 3))) % 3 for k in range(4)]  # wrong: the first and the last
    prompts = prompts.with_columns(label=pl.Series(labels, dtype=prompts.schema["label"]))
    for examples, expected in ((1, [1]), (2, [1, 2]), (3, [0, 1, 2])):
        _, shown, *_ = measure_flow_page(model, words, prompts, examples, "fixed")
        assert shown["example"].to_list() == expected


def test_tokens_keep_their_leading_blank_and_bytes_that_are_no_text_are_seen() -> None:
    tokenizer = Tokenizer(models.WordLevel({"▁a": 0, "b": 1, "<0xF0>": 2, "<s>": 3}))
    tokenizer.add_special_tokens(["<s>"])
    strip = decoders.Strip(" ", 1, 0)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip]
    )
    texts = token_texts(tokenizer, [3, 0, 1, 2])
    kept = [text.strip(" ") if text != " a" else text for text in texts]
    assert kept == ["<s>", " a", "b", "\ufffd"]
