"""Isolation against attention written out in full, and what it must and must not change."""

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
from anchorflow.prepare.positions import non_label_positions
from constructed.wordy import bare_prompt, wordy_prompts
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    PlainCut,
    depth_of,
    full_attention,
    shared_prompts,
    tiny_model,
)
from whole_vocabulary import assert_predicted, logits_in_full
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


VARIANTS = [*((family, "mask") for family in FAMILIES), ("gpt2", "zero"), ("gemma3", "zero")]
VARIANTS += [("jamba", "mask")]
VARIANTS += [pytest.param(f, "mask", marks=pytest.mark.long) for f in HYBRIDS if f != "jamba"]


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_every_setting_equals_isolation_in_full_attention_matrices(
    family: str, variant: str
) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    depth = depth_of(model)
    settings = settings_of([variant], sorted({1, 2, depth}), 2, depth, "tiny", EVERY)
    measured = measure_isolation(model, table, settings, 4, 50)
    prompt = table.row(0, named=True)
    for setting in settings:
        positions = isolated_positions(setting, prompt, 24)
        plain = PlainIsolation(positions, setting.isolated_layers(depth), variant)
        rows, logits = measured.filter(**setting._asdict()), logits_in_full(model, table, plain)
        assert_predicted(rows, logits, prompt["label_tokens"])


def test_isolation_in_the_last_layer_alone_changes_nothing() -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17])
    measured = measure_isolation(model, table, settings_of(["mask"], [1], 1, 3, "m"), 4, 50)
    untouched = measured.filter(positions="none")["probabilities"].to_list()
    for positions in ("label", "random"):
        last, first = (
            measured.filter(positions=positions, side=side) for side in ("last", "first")
        )
        assert last["probabilities"].to_list() == untouched
        assert first["probabilities"].to_list() != untouched


def test_isolated_label_words_attend_only_to_themselves() -> None:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, 6, 4, generator=random) for _ in range(3))
    call = AttentionCall(0, query, key, value, 0.5)

    def seen(layer: int, variant: str) -> Tensor:
        intervention = Isolate(torch.tensor([4]), [layer], variant)
        return intervention.attend(call, lambda call: torch.zeros_like(call.query))

    torch.testing.assert_close(seen(0, "mask")[:, :, 4], value[:, :, 4])
    assert seen(0, "mask")[:, :, :4].count_nonzero() == seen(1, "mask").count_nonzero() == 0
    weight = ((query[:, :, 4:5] @ key[:, :, :5].transpose(-1, -2)) * 0.5).softmax(-1)[..., 4]
    torch.testing.assert_close(seen(0, "zero")[:, :, 4], weight * value[:, :, 4])


def test_random_positions_are_as_many_never_label_words_and_new_in_each_draw() -> None:
    prompt = shared_prompts([5]).row(0, named=True)
    assert non_label_positions(prompt) == [t for t in range(30) if t not in (8, 18, 28)]
    wordy = {**prompt, "label_positions": [7, 17, 27]}  # label words of two tokens
    assert {8, 18, 28}.isdisjoint(non_label_positions(wordy))
    settings = [s for s in settings_of(["mask"], [1], 3, 3, "m", EVERY) if s.side == "first"]
    drawn = [isolated_positions(s, prompt, 30) for s in settings if s.positions == "random"]
    assert drawn == [[11, 22, 23], [5, 19, 22], [0, 15, 17]]  # as in earlier versions
    for setting in settings:
        if setting.positions == "random":
            assert max(isolated_positions(setting, prompt, 20)) < 20


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


def parted(at: int) -> pl.DataFrame:
    """Two prompts that differ from this token on."""
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][at] = (ids[1][at] + 1) % 97
    return table.with_columns(pl.Series("token_ids", ids))


def test_a_token_after_the_last_label_word_that_prompts_do_not_share_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = parted(29)
    settings = settings_of(["mask"], [1], 1, 3, "m", EVERY)
    without = [setting for setting in settings if setting.positions != "after"]
    expected = measure_isolation(tiny_model("llama"), apart, without, 4, 50)
    assert not caplog.messages
    assert measure_isolation(tiny_model("llama"), apart, settings, 4, 50).equals(expected)
    assert len(expected) == 2 * (1 + 1 + 4 * 2)  # whole, without demonstrations, isolated
    assert "Not isolated: after. A demonstration of task news" in caplog.text


def test_layers_are_those_that_the_model_has() -> None:
    with pytest.raises(InputError, match=r"isolation.layers: 4 is more than the 3 layers of model"):
        settings_of(["mask"], [1, 4], 1, 3, "m")
    assert {s.layers for s in settings_of(["mask"], None, 1, 6, "m")} == {1, 3, 5}


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    settings = settings_of(["mask"], [1], 1, 3, "m")
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_isolation(tiny_model("llama"), parted(20), settings, 4, 50)


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
        prompt = table.row(0, named=True)
        shared, end, tokens = prompt["query_start"], prompt["instruction_end"] or 1, table["tokens"]
        hidden = torch.zeros(1, tokens.max(), tokens.max(), dtype=torch.bool)
        hidden[:, shared:, end:shared] = True
        logits = logits_in_full(tiny_model(family), table, PlainCut(hidden, range(99), "mask"))
        assert_predicted(measured.filter(positions="hidden"), logits, prompt["label_tokens"])


@pytest.mark.parametrize("family", [pytest.param(f, marks=pytest.mark.long) for f in HYBRIDS])
def test_without_demonstrations_a_state_is_that_of_the_first_token_and_the_instruction_too(
    family: str,
) -> None:
    for table in (shared_prompts([5, 17]), with_instruction(shared_prompts([5, 17]))):
        model = tiny_model(family, eager=True)
        measured = measure_isolation(tiny_model(family), table, [], 4, 50)
        prompt = table.row(0, named=True)
        shared, end = prompt["query_start"], prompt["instruction_end"] or 1
        logits = []
        for ids in table["token_ids"].to_list():
            places = [*range(end), *range(shared, len(ids))]  # queries keep their position ids
            some = torch.tensor([[ids[place] for place in places]])
            # With a mask, so that the gap between position ids does not begin another sequence.
            how = {"position_ids": torch.tensor([places]), "attention_mask": torch.ones_like(some)}
            output = model(some, **how, use_cache=False)
            logits.append(output.logits[0, -1])
        rows = measured.filter(positions="hidden")
        assert_predicted(rows, torch.stack(logits), prompt["label_tokens"])
