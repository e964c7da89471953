"""Isolation against attention written out in full, and what it must and must not change."""

from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.analyses.isolation.measure import (
    Isolate,
    Setting,
    isolated_positions,
    measure_isolation,
    settings_of,
)
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.layers import recompute_activations
from anchorflow.model.logits import target_logits
from anchorflow.prepare.positions import non_label_positions
from constructed.wordy import bare_prompt, wordy_prompts
from tiny_models import FAMILIES, PlainCut, full_attention, shared_prompts, tiny_model, whole_batch
from whole_vocabulary import assert_in_vocabulary
from worded_prompts import with_instruction

EVERY = ("label", "random", "before", "after", "text")


class PlainIsolation:
    """Whole attention matrices, with the isolated rows cut off as the paper or the code does."""

    def __init__(self, positions: list[int], layers: range, variant: str) -> None:
        self._positions, self._layers, self._variant = positions, layers, variant

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        tokens = len(hidden)
        row, column = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
        isolated = torch.zeros(tokens, tokens, dtype=torch.bool)
        if call.layer in self._layers:
            isolated[self._positions] = (column < row)[self._positions]
        if self._variant == "mask":
            return scores.masked_fill(hidden | isolated, -torch.inf).softmax(-1) @ value
        return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(isolated, 0) @ value


@pytest.mark.parametrize("variant", ["mask", "zero"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_equals_isolation_in_full_attention_matrices(
    family: str, variant: str
) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    depth = model.config.num_hidden_layers
    settings = settings_of([variant], [1, 2, depth], 2, depth, "tiny", EVERY)
    measured = measure_isolation(model, table, settings, 4, 50)
    full = whole_batch(table)
    for setting in settings:
        positions = isolated_positions(setting, table.row(0, named=True), 24)
        plain = PlainIsolation(positions, setting.isolated_layers(depth), variant)
        with intervene(plain):
            logits = target_logits(model, full)
        probabilities = logits[:, full.label_tokens].softmax(-1)
        chosen = measured.filter(
            pl.col(name) == value for name, value in setting._asdict().items()
        ).sort("example")
        order = torch.tensor(full.examples).argsort()
        torch.testing.assert_close(
            torch.tensor(chosen["probabilities"].to_list()),
            probabilities[order],
            rtol=1e-4,
            atol=1e-6,
        )
        assert chosen["top_tokens"].to_list() == logits[order].topk(4).indices.tolist()
        assert_in_vocabulary(chosen, logits[order], full.label_tokens.tolist())


@pytest.mark.parametrize("variant", ["mask", "zero"])
def test_isolation_in_the_last_layer_alone_changes_nothing(variant: str) -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17])
    measured = measure_isolation(model, table, settings_of([variant], [1], 1, 3, "m"), 4, 50)
    untouched = measured.filter(pl.col("positions") == "none")["probabilities"].to_list()
    for positions in ("label", "random"):
        chosen = measured.filter(pl.col("positions") == positions)
        assert chosen.filter(pl.col("side") == "last")["probabilities"].to_list() == untouched
        assert chosen.filter(pl.col("side") == "first")["probabilities"].to_list() != untouched


def test_isolated_label_words_attend_only_to_themselves() -> None:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, 6, 4, generator=random) for _ in range(3))
    call = AttentionCall(0, query, key, value, 0.5)
    seen = Isolate(torch.tensor([4]), [0], "mask").attend(call, lambda c: torch.zeros_like(c.query))
    torch.testing.assert_close(seen[:, :, 4], value[:, :, 4])
    assert seen[:, :, :4].count_nonzero() == 0
    elsewhere = Isolate(torch.tensor([4]), [1], "mask")
    assert elsewhere.attend(call, lambda c: torch.zeros_like(c.query)).count_nonzero() == 0
    zero = Isolate(torch.tensor([4]), [0], "zero")
    weight = ((query[:, :, 4:5] @ key[:, :, :5].transpose(-1, -2)) * 0.5).softmax(-1)[..., 4]
    torch.testing.assert_close(
        zero.attend(replace(call), lambda c: torch.zeros_like(c.query))[:, :, 4],
        weight * value[:, :, 4],
    )


def test_random_positions_are_as_many_never_label_words_and_new_in_each_draw() -> None:
    prompt = shared_prompts([5]).row(0, named=True)
    assert non_label_positions(prompt) == [t for t in range(30) if t not in (8, 18, 28)]
    wordy = {**prompt, "label_positions": [7, 17, 27]}  # label words of two tokens
    assert {8, 18, 28}.isdisjoint(non_label_positions(wordy))
    settings = settings_of(["mask"], [1], 5, 3, "m")
    draws = {
        s.draw: tuple(isolated_positions(s, prompt, 26))
        for s in settings
        if s.positions == "random"
    }
    assert len(set(draws.values())) == 5
    for positions in draws.values():
        assert len(set(positions)) == 3
        assert set(positions) <= set(non_label_positions(prompt))
        assert max(positions) < 26


def test_whole_label_words_their_neighbors_and_text_tokens_are_isolated() -> None:
    prompt = wordy_prompts([6], "fixed").row(0, named=True)
    isolated: dict[str, list[list[int]]] = {}
    for setting in settings_of(["mask"], [1], 4, 3, "m", EVERY):
        if setting.side == "first":
            here = isolated.setdefault(setting.positions, [])
            here.append(isolated_positions(setting, prompt, 24))
    assert isolated["label"] == [[4, 11, 12, 13, 21, 22]]
    assert isolated["before"] == [[3, 10, 20]]
    assert isolated["after"] == [[5, 14, 23]]
    texts = {1, 2, 7, 8, 9, 16, 17, 18, 19}
    assert len(isolated["text"]) == len(isolated["random"]) == 4
    for drawn in isolated["text"]:
        assert [sum(a <= t < b for t in drawn) for a, b in ((0, 6), (6, 15), (15, 24))] == [1, 3, 2]
        assert set(drawn) <= texts
    assert len(set(map(str, isolated["text"]))) > 1
    for drawn in isolated["random"]:
        assert len(set(drawn)) == 6
        assert set(drawn).isdisjoint(isolated["label"][0])


def test_random_positions_are_those_drawn_before_neighbors_could_be_isolated() -> None:
    prompt = shared_prompts([5]).row(0, named=True)
    drawn = [
        isolated_positions(setting, prompt, 30)
        for setting in settings_of(["mask"], [1], 3, 3, "m", EVERY)
        if setting.positions == "random" and setting.side == "first"
    ]
    assert drawn == [[11, 22, 23], [5, 19, 22], [0, 15, 17]]


@pytest.mark.parametrize(
    ("which", "changes"),
    [("text", {"format_positions": [0, 1, 2, 5]}), ("after", {"target_position": 7})],
)
def test_prompts_without_neighbors_of_label_words_have_none_to_isolate(
    which: str, changes: dict[str, list[int]]
) -> None:
    setting = next(s for s in settings_of(["mask"], [1], 1, 3, "m", EVERY) if s.positions == which)
    assert isolated_positions(setting, bare_prompt(), 9) is not None
    assert isolated_positions(setting, bare_prompt() | changes, 9) is None


def test_prompts_with_too_few_tokens_to_draw_random_ones_are_refused() -> None:
    prompt = bare_prompt() | {"model": "m", "label_positions": [1, 4], "format_positions": [0]}
    setting = Setting("mask", "random", 0, "first", 1)
    with pytest.raises(InputError, match="have 0 tokens besides the 6 of their label words"):
        isolated_positions(setting, prompt, 4)


def test_a_token_after_the_last_label_word_that_prompts_do_not_share_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][29] = (ids[1][29] + 1) % 97
    apart = table.with_columns(pl.Series("token_ids", ids))
    settings = settings_of(["mask"], [1], 1, 3, "m", EVERY)
    without = [setting for setting in settings if setting.positions != "after"]
    expected = measure_isolation(tiny_model("llama"), apart, without, 4, 50)
    assert not caplog.messages
    assert measure_isolation(tiny_model("llama"), apart, settings, 4, 50).equals(expected)
    assert len(expected) == 2 * (1 + 1 + 4 * 2)  # whole, without demonstrations, isolated
    assert "Not isolated: after. A demonstration of task news" in caplog.text


def test_more_layers_than_the_model_has_are_refused() -> None:
    with pytest.raises(InputError, match=r"isolation.layers: 4 is more than the 3 layers of model"):
        settings_of(["mask"], [1, 4], 1, 3, "m")


def test_without_layers_those_of_the_default_that_the_model_has_are_isolated() -> None:
    assert {s.layers for s in settings_of(["mask"], None, 1, 6, "m")} == {1, 3, 5}


def test_more_tokens_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(InputError, match=r"isolation.top_tokens: 98 is more than the 97 tokens"):
        measure_isolation(tiny_model("llama"), shared_prompts([5]), [], 98, 50)


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    apart = table.with_columns(pl.Series("token_ids", ids))
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_isolation(tiny_model("llama"), apart, settings_of(["mask"], [1], 1, 3, "m"), 4, 50)


@pytest.mark.parametrize("recompute", [False, True])
def test_what_isolation_does_not_reach_is_run_only_once(recompute: bool) -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17])
    settings = settings_of(["mask"], [1, 2], 1, 3, "m")
    expected = measure_isolation(model, table, settings, 4, 500)
    if recompute:
        recompute_activations(model)
    seen: dict[tuple[str, int], int] = {}

    class Count:
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            key = ("queries" if len(call.query) > 1 else "prefix", call.layer)
            seen[key] = seen.get(key, 0) + 1
            return attention(call)

    with intervene(Count()):
        assert measure_isolation(model, table, settings, 4, 500).equals(expected)
    # Untouched once, and queries once without demonstrations; label and random in the first 1 and 2
    # layers and the last 1 and 2.
    assert [seen["prefix", layer] for layer in range(3)] == [1 + 4, 1 + 4 + 2, 1 + 4 + 2 + 2]
    assert [seen["queries", layer] for layer in range(3)] == [2, 2 + 4, 2 + 4 + 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_without_demonstrations_queries_see_the_first_token_and_the_instruction(
    family: str,
) -> None:
    for table in (shared_prompts([5, 17]), with_instruction(shared_prompts([5, 17]))):
        measured = measure_isolation(tiny_model(family), table, [], 4, 50)
        for row in table.iter_rows(named=True):
            shared, end = row["query_start"], row["instruction_end"] or 1
            hidden = torch.zeros(1, row["tokens"], row["tokens"], dtype=torch.bool)
            hidden[:, shared:, end:shared] = True
            with intervene(PlainCut(hidden, range(99), "mask")), torch.no_grad():
                plain = tiny_model(family)(torch.tensor([row["token_ids"]]), use_cache=False)
            expected = plain.logits[0, -1, row["label_tokens"]].softmax(-1).tolist()
            found = measured.filter(positions="hidden", example=row["example"])
            assert found["probabilities"].to_list()[0] == pytest.approx(expected, rel=1e-4)
