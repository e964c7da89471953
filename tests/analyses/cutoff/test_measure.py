"""Demonstrations hidden from some layer on, against whole attention matrices."""

import polars as pl
import pytest
import torch

from anchorflow.analyses.cutoff import measure as cutoff
from anchorflow.analyses.cutoff.measure import Setting, measure_cutoff, seen_positions, settings_of
from anchorflow.config.errors import InputError
from constructed.wordy import wordy_prompts
from tiny_models import EVERY_FAMILY, PlainCompression, depth_of, tiny_model
from whole_vocabulary import assert_predicted, logits_in_full

SEES = ("first", "label", "random")
SHARED = 24


def rows_of(measured: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return measured.filter(**setting._asdict()).sort("example")


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_layer_equals_whole_matrices_without_what_is_not_seen(family: str) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    depth = depth_of(model)
    settings = settings_of(SEES, 2, 1, depth)
    measured = measure_cutoff(model, table, settings, 4, 50)
    prompt = table.row(0, named=True)
    assert len(measured) == 3 * len(settings)
    for setting in settings:
        every = torch.arange(SHARED)[None]
        seen = torch.tensor(seen_positions(setting, prompt, SHARED))[None]
        kept = {layer: every if layer < setting.layer else seen for layer in range(depth)}
        logits = logits_in_full(model, table, PlainCompression(kept, SHARED))
        assert_predicted(rows_of(measured, setting), logits, prompt["label_tokens"])


def test_from_the_last_layer_on_nothing_is_left_out_and_no_bit_changes() -> None:
    model, table = tiny_model("llama"), wordy_prompts([5, 17], "fixed")
    measured = measure_cutoff(model, table, settings_of(SEES, 1, 2, 3), 4, 500)
    untouched = [rows_of(measured, Setting(sees, 0, 3))["probabilities"] for sees in SEES]
    assert all(each.equals(untouched[0]) for each in untouched)
    last = rows_of(measured, Setting("first", 0, 2))["probabilities"]
    assert not last.equals(untouched[0])
    assert sorted(set(measured["layer"])) == [0, 2, 3]


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
        settings = settings_of(("first",), 1, 1, 3)
        measure_cutoff(tiny_model("llama"), wordy_prompts([5], "fixed"), settings, 4, 500)
