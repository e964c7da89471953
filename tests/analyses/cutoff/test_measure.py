"""Demonstrations hidden from some layer on, against whole attention matrices."""

import polars as pl
import pytest
import torch

from anchorflow.analyses.cutoff import measure as cutoff
from anchorflow.analyses.cutoff.measure import Setting, measure_cutoff, seen_positions, settings_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.logits import target_logits
from constructed.wordy import wordy_prompts
from tiny_models import FAMILIES, PlainCompression, tiny_model, whole_batch
from whole_vocabulary import assert_in_vocabulary, assert_same_but_for_rounding

SEES = ("first", "label", "random")
SHARED = 24


def rows_of(measured: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return measured.filter(pl.col(name) == value for name, value in setting._asdict().items()).sort(
        "example"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_equals_whole_matrices_without_what_is_not_seen(family: str) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    depth = model.config.num_hidden_layers
    settings = settings_of(SEES, 2, 1, depth)
    measured = measure_cutoff(model, table, settings, 4, 50)
    full, prompt = whole_batch(table), table.row(0, named=True)
    order = torch.tensor(full.examples).argsort()
    assert len(measured) == 3 * len(settings)
    for setting in settings:
        every = torch.arange(SHARED)[None]
        seen = torch.tensor(seen_positions(setting, prompt, SHARED))[None]
        kept = {layer: every if layer < setting.layer else seen for layer in range(depth)}
        with intervene(PlainCompression(kept, SHARED)):
            logits = target_logits(model, full)[order]
        rows = rows_of(measured, setting)
        torch.testing.assert_close(
            torch.tensor(rows["probabilities"].to_list()),
            logits[:, full.label_tokens].softmax(-1),
            rtol=1e-4,
            atol=1e-6,
        )
        assert rows["top_tokens"].to_list() == logits.topk(4).indices.tolist()
        assert_in_vocabulary(rows, logits, full.label_tokens.tolist())


def test_from_the_last_layer_on_nothing_is_left_out_and_no_bit_changes() -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 17], "fixed")
    measured = measure_cutoff(model, table, settings_of(SEES, 1, 2, 3), 4, 500)
    untouched = [rows_of(measured, Setting(sees, 0, 3))["probabilities"] for sees in SEES]
    assert all(each.equals(untouched[0]) for each in untouched)
    last = rows_of(measured, Setting("first", 0, 2))["probabilities"]
    assert not last.equals(untouched[0])
    assert sorted(set(measured["layer"])) == [0, 2, 3]


def test_without_any_layer_the_demonstrations_do_not_matter() -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 17], "fixed")
    others = table.with_columns(
        pl.Series(
            "token_ids",
            [
                [*row[:1], *((t + 5) % 97 for t in row[1:SHARED]), *row[SHARED:]]
                for row in table["token_ids"].to_list()
            ],
        )
    )
    answers = [
        measure_cutoff(model, each, settings_of(("first",), 1, 3, 3), 4, 500)
        for each in (table, others)
    ]
    found = [
        torch.tensor(rows_of(each, Setting("first", 0, 0))["probabilities"].to_list())
        for each in answers
    ]
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)
    whole = [rows_of(each, Setting("first", 0, 3))["probabilities"] for each in answers]
    assert not whole[0].equals(whole[1])


def test_the_first_token_and_the_instruction_are_always_seen() -> None:
    prompt = wordy_prompts([5], "fixed").row(0, named=True)
    labels = [4, 11, 12, 13, 21, 22]
    assert seen_positions(Setting("first", 0, 0), prompt, SHARED) == [0]
    assert seen_positions(Setting("label", 0, 0), prompt, SHARED) == [0, *labels]
    draws = [seen_positions(Setting("random", draw, 0), prompt, SHARED) for draw in range(3)]
    assert len(set(map(tuple, draws))) == 3
    for drawn in draws:
        assert len(drawn) == 1 + len(labels)
        assert drawn[0] == 0
        assert set(drawn).isdisjoint(labels)


def test_leaving_everything_out_without_any_effect_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cutoff, "without_demonstrations", lambda prefix, *_: prefix)
    with pytest.raises(InputError, match="cutoff: leaving the demonstrations of task news out"):
        measure_cutoff(
            tiny_model("llama"),
            wordy_prompts([5], "fixed"),
            settings_of(("first",), 1, 1, 3),
            4,
            500,
        )


@pytest.mark.parametrize("batch_tokens", [1, 60])
def test_batches_and_shards_of_texts_change_no_number(batch_tokens: int) -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 17, 9], "fixed")
    settings = settings_of(SEES, 4, 1, 3)
    whole = measure_cutoff(model, table, settings, 4, 500)
    parts = [measure_cutoff(model, table, settings, 4, batch_tokens, e) for e in ([0], [1, 2])]
    together = pl.concat(parts)
    assert_same_but_for_rounding(together, whole)


def test_prompts_that_are_too_long_are_left_out() -> None:
    table = wordy_prompts([5], "fixed").with_columns(skipped=pl.Series(["exceeds the context"]))
    assert measure_cutoff(tiny_model("llama"), table, [], 4, 500).is_empty()


def test_more_tokens_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(InputError, match=r"cutoff.top_tokens: 98 is more than the 97 tokens"):
        measure_cutoff(tiny_model("llama"), wordy_prompts([5], "fixed"), [], 98, 50)
