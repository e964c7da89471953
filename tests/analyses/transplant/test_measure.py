"""Transplants between prompts against full prompts in which the same is exchanged by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.transplant import check
from anchorflow.analyses.transplant import measure as transplant
from anchorflow.analyses.transplant.measure import (
    OTHER_TASK,
    OTHER_TEXTS,
    UNTOUCHED,
    Setting,
    bands_at,
    donor_texts,
    donor_words,
    measure_transplant,
    own_answer,
    places_of,
    settings_of,
    texts_of_other_task,
)
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall
from anchorflow.model.layers import attending_layers
from constructed.wordy import wordy_prompts
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    KINDS,
    PREFIX,
    depth_of,
    full_attention,
    shared_prompts,
    tiny_model,
    whole_batch,
)
from whole_vocabulary import assert_predicted, logits_in_full

PLACES = ("label", "one_label", "text", "template", "demonstrations", "rest")
WHAT = ("keys_values", "residual")
OTHERS = (OTHER_TEXTS,)
SPANS = ((0, 6), (6, 15), (15, 24))  # demonstrations of wordy_prompts


class Recorded:
    """Keys and values of every layer."""

    def __init__(self) -> None:
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        self.layers[call.layer] = (call.key, call.value)
        return attention(call)


class PlainExchange:
    """Whole attention matrices in which queries see other keys and values at some places."""

    def __init__(
        self, donor: Recorded, at: list[int], layers: range, parts: list[bool], softmax: bool
    ) -> None:
        self._donor, self._at, self._layers, self._parts = donor, at, layers, parts
        self._softmax = softmax  # else sinks, biases, or a choice of keys

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        own = self._output(call, attention)
        if call.layer not in self._layers:
            return own
        key, value = call.key.clone(), call.value.clone()
        other = self._donor.layers[call.layer]
        for own_part, taken, wanted in zip((key, value), other, self._parts, strict=True):
            if wanted:
                own_part[:, :, self._at] = taken[:, :, self._at]
        exchanged = self._output(replace(call, key=key, value=value), attention)
        return torch.cat([own[:, :, :PREFIX], exchanged[:, :, PREFIX:]], 2)

    def _output(self, call: AttentionCall, attention: Attention) -> Tensor:
        if not self._softmax:
            return attention(call)
        scores, hidden, value = full_attention(call)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value


def two_words_of_each(queries: list[int]) -> pl.DataFrame:
    """Prompts of one-token label words, the third demonstration of the first one's class."""
    table = shared_prompts(queries)
    ids = [[*row[:28], row[8], *row[29:]] for row in table["token_ids"].to_list()]
    labels = [[0, 1, 0]] * len(queries)
    return table.with_columns(
        pl.Series("token_ids", ids), pl.Series("demonstration_labels", labels)
    )


def donor_of(table: pl.DataFrame, setting: Setting, runs: transplant._Runs) -> pl.DataFrame:
    """The donor in full, for every query."""
    donor = runs._donors[setting.donor, setting.draw]
    assert donor is not None
    shared = len(donor.token_ids)
    ids = [[*donor.token_ids, *row[shared:]] for row in table["token_ids"].to_list()]
    return table.with_columns(pl.Series("token_ids", ids))


def residual_exchanged(
    model: Any, table: pl.DataFrame, donor: pl.DataFrame, layer: int, at: list[int] | None
) -> Tensor:
    """Logits of prompts in which a layer's output is the donor's at some places.

    These are the targets, by default.
    """
    targets = whole_batch(table).target_positions
    kept: list[Tensor] = []

    def forward(_: Any, __: Any, output: Any) -> Any:
        hidden = output[0] if isinstance(output, tuple) else output
        if kept:
            hidden = hidden.clone()
            of_tokens, taken = (
                t.movedim(2, 1) if hidden.shape[0] == 4 else t for t in (hidden, kept[0])
            )  # [streams, B, T, hidden], or tokens behind examples
            if at is None:
                rows = torch.arange(len(targets))
                where = (slice(None), targets, rows) if hidden.shape[0] == 4 else (rows, targets)
                of_tokens[where] = taken[where]
            else:
                of_tokens[:, at] = taken[:, at]
        kept.append(hidden)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    handle = attending_layers(model)[layer].register_forward_hook(forward)
    _, logits = (logits_in_full(model, each) for each in (donor, table))
    handle.remove()
    return logits


SAMPLE = ("gpt2", "llama", "gemma3")
OTHER_FAMILIES = [family for family in (*FAMILIES, *HYBRIDS) if family not in SAMPLE]


@pytest.mark.parametrize(
    "family", [*SAMPLE, *(pytest.param(name, marks=pytest.mark.long) for name in OTHER_FAMILIES)]
)
def test_every_transplant_equals_the_same_exchange_in_full_prompts(family: str) -> None:
    model, table = tiny_model(family), two_words_of_each([5, 17, 9])
    depth = depth_of(model)
    three = pl.Series("demonstration_labels", [[0, 1, 2]] * 3)  # whose texts can be exchanged
    several = family == "llama"  # others differ in their vectors, not in their places
    places = (PLACES, ("permuted", "drawn")) if several else (PLACES[::3], ("permuted",))
    words = settings_of(*places, WHAT, depth, 1, depth)
    compare_with_full_prompts(model, table, words)
    texts = settings_of(("label", "text"), OTHERS, WHAT, 2, 1, depth)
    compare_with_full_prompts(model, table.with_columns(three), texts)


KEYS_SHARED = "keys shared by layers"
OTHER_KINDS = [family for family in (*KINDS, *HYBRIDS) if family != KEYS_SHARED]


@pytest.mark.parametrize(
    "family",
    ["gemma3", KEYS_SHARED, *(pytest.param(name, marks=pytest.mark.long) for name in OTHER_KINDS)],
)
def test_windows_keys_alone_targets_and_other_tasks_equal_full_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17, 9])
    depth, what = depth_of(model), ("keys", "values", "residual")
    settings = settings_of(("label", "target"), (OTHER_TASK,), what, 2, 1, depth, window=1)
    compare_with_full_prompts(model, table, settings, other_task(), softmax=family == "gemma3")
    sides = {setting.side for setting in settings if setting.what == "keys"}
    assert sides == {"all", "window"}


def other_task() -> pl.DataFrame:
    """Prompts of another task, whose labels are in another order, with other texts."""
    table = shared_prompts([4, 6])
    ids = [[(token + 20) % 97 for token in row] for row in table["token_ids"].to_list()]
    labels, words = pl.Series([[0, 2, 1]] * 2), pl.Series([[[5], [23], [11]]] * 2)
    return table.with_columns(
        task=pl.lit("poems"),
        token_ids=pl.Series(ids),
        demonstration_labels=labels,
        word_tokens=words,
    )


def test_texts_of_another_task_stand_before_the_same_label_words() -> None:
    prompt, other = shared_prompts([5]).row(0, named=True), other_task().row(0, named=True)
    other |= {"field_names": ["first", "second"]}
    other["field_starts"] = [1, 3, 11, 14, 21, 24, 31, 32]
    other["field_ends"] = [3, 5, 14, 14, 24, 25, 32, 33]
    ids = other["token_ids"]
    found = texts_of_other_task(prompt, other, np.random.default_rng(0))
    # Word 0 is that of the other's first demonstration, and so on: its two fields, again and again.
    of = [ids[1:5], ids[11:14], ids[21:25]]
    texts = [(text * 3)[:7] for text in of]
    assert found == {
        start + n: token
        for start, text in zip((1, 11, 21), texts, strict=True)
        for n, token in enumerate(text)
    }
    lacking = {**other, "word_tokens": [[5], [23], [12]]}
    assert texts_of_other_task(prompt, lacking, np.random.default_rng(0)) is None
    lacking = {**other, "field_ends": [1, 3, *other["field_ends"][2:]]}
    assert texts_of_other_task(prompt, lacking, np.random.default_rng(0)) is None


def compare_with_full_prompts(
    model: PreTrainedModel,
    table: pl.DataFrame,
    settings: list[Setting],
    other: pl.DataFrame | None = None,
    softmax: bool = True,
) -> None:
    measured = measure_transplant(model, table, settings, 50, other=other)
    runs = transplant._Runs(model, table, settings, other)
    assert len(measured) == 3 * (1 + len(settings))
    for setting in [UNTOUCHED, *settings]:
        if setting == UNTOUCHED:
            logits = logits_in_full(model, table)
        else:
            donor = donor_of(table, setting, runs)
            places = runs._places.get((setting.donor, setting.places, setting.draw))
            if setting.what == "prompt":
                logits = logits_in_full(model, donor)
            elif setting.what == "residual":
                logits = residual_exchanged(model, table, donor, setting.layer, places)
            else:
                recorded = Recorded()
                logits_in_full(model, donor, recorded)
                layers = range(setting.layer, setting.layer + setting.layers)
                parts = [setting.what != other for other in ("values", "keys")]
                exchange = PlainExchange(recorded, places, layers, parts, softmax)
                logits = logits_in_full(model, table, exchange)
        rows = measured.filter(**setting._asdict())
        assert_predicted(rows, logits, table["label_tokens"][0].to_list())


def probabilities(measured: pl.DataFrame, setting: Setting) -> list[list[float]]:
    return measured.filter(**setting._asdict()).sort("example")["probabilities"].to_list()


def test_all_keys_and_values_of_the_demonstrations_give_the_donor_s_answer_bit_for_bit() -> None:
    model, table = tiny_model("llama"), two_words_of_each([5, 17])
    whole = Setting("permuted", "keys_values", "demonstrations", 0, "all", 0, 3)
    settings = [own_answer("permuted", 0), whole]
    measured = measure_transplant(model, table, settings, 500)
    own = probabilities(measured, own_answer("permuted", 0))
    assert probabilities(measured, whole) == own
    assert probabilities(measured, UNTOUCHED) != own


def test_what_is_taken_from_the_prompt_itself_changes_no_bit_and_is_refused_at_label_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, table = tiny_model("llama"), two_words_of_each([5, 17])
    word = table["token_ids"][0][8]
    monkeypatch.setattr(transplant, "donor_words", lambda *_: {0: [word]})
    settings = settings_of(PLACES, ("permuted",), WHAT, 3, 1, 3)
    with pytest.raises(InputError, match="transplant: keys_values at label words of model tiny"):
        measure_transplant(model, table, settings, 500)
    first = settings_of(("label",), ("permuted",), ("keys_values",), 2, 1, 2)
    with pytest.raises(InputError, match="in task news, layer 1; transplants"):  # which attends
        measure_transplant(tiny_model("lfm2"), table, first, 500)
    monkeypatch.setattr(transplant._Runs, "_check_differs", lambda *_: None)
    measured = measure_transplant(model, table, settings, 500)
    untouched = probabilities(measured, UNTOUCHED)
    for setting in settings:
        assert probabilities(measured, setting) == untouched, setting


def test_donors_have_words_of_other_classes_with_as_many_tokens() -> None:
    prompt = two_words_of_each([5]).row(0, named=True)
    first, second = prompt["token_ids"][8], prompt["token_ids"][18]
    assert donor_words(prompt, "permuted", np.random.default_rng(0)) == {
        0: [second],
        1: [first],
        2: [second],
    }
    drawn = [donor_words(prompt, "drawn", np.random.default_rng(n)) for n in range(20)]
    # The other word is that of the first or of the last demonstration then.
    ways = [{0: [second], 1: [first]}, {1: [first], 2: [second]}]
    assert all(each in ways for each in drawn)
    assert all(way in drawn for way in ways)


def test_other_texts_are_those_of_another_class_cut_or_repeated_to_as_many_tokens() -> None:
    prompt = wordy_prompts([5], "fixed").row(0, named=True)  # texts of 2, 3 and 4 tokens
    spans = [[1, 2], [7, 8, 9], [16, 17, 18, 19]]
    prompt["token_ids"] = [100 + token for token in range(prompt["tokens"])]
    of = [[100 + token for token in span] for span in spans]
    found = [donor_texts(prompt, np.random.default_rng(n)) for n in range(9)]
    ways = [
        {k: (of[other] * 2)[: len(of[k])] for k, other in enumerate(others)}
        for others in ([1, 2, 0], [2, 0, 1])
    ]
    for replaced in found:
        assert replaced is not None
        assert set(replaced) == {token for span in spans for token in span}
        assert {k: [replaced[t] for t in span] for k, span in enumerate(spans)} in ways
    assert len({tuple(sorted(replaced.items())) for replaced in found if replaced}) == 2


def test_tokens_that_are_merged_with_the_template_stay_and_fields_stay_apart() -> None:
    prompt = wordy_prompts([5], "fixed").row(0, named=True)
    prompt["token_ids"] = list(range(prompt["tokens"]))
    # Two fields: (1) and (2); (7) and (8, 9); (16, 17) and (18, 19), whose last is merged.
    prompt |= {"field_names": ["first", "second"], "merged_positions": [19]}
    prompt["field_starts"] = [1, 2, 7, 8, 16, 18, 25, 26]
    prompt["field_ends"] = [2, 3, 8, 10, 18, 20, 26, 27]
    for draw in range(9):
        replaced = donor_texts(prompt, np.random.default_rng(draw))
        assert replaced is not None
        assert 19 not in replaced
        assert {replaced[t] for t in (1, 7, 16, 17)} <= {1, 7, 16, 17}
        assert {replaced[t] for t in (2, 8, 9, 18)} <= {2, 8, 9, 18}
    alone = {**prompt, "merged_positions": [7, 19]}  # nothing else of a first field
    assert donor_texts(alone, np.random.default_rng(0)) is None
    more_than_half = {**prompt, "demonstration_labels": [0, 1, 1]}
    assert donor_texts(more_than_half, np.random.default_rng(0)) is None


def test_vectors_differ_from_where_their_tokens_do() -> None:
    """Texts' embeddings are the same before other label words, and label words' after texts."""
    model, table = tiny_model("llama"), two_words_of_each([5])
    table = table.with_columns(demonstration_labels=pl.Series([[0, 1, 2]]))
    for donor, places in (("permuted", "text"), (OTHER_TEXTS, "label")):
        settings = settings_of((places,), (donor,), ("keys_values",), 3, 1, 3)
        measured = measure_transplant(model, table, settings, 500)
        for setting in settings[1:]:
            same = probabilities(measured, setting) == probabilities(measured, UNTOUCHED)
            assert same == ((setting.side, setting.layers) == ("first", 1)), setting


@pytest.mark.parametrize(
    ("donor", "warning"),
    [
        (OTHER_TEXTS, "No transplants from other_texts: a label has more than half of the demonst"),
        ("permuted", "No transplants from permuted label words: no two label words of task news "),
        (OTHER_TASK, "No transplants from other_task: no other task of the run that fits the cont"),
    ],
)
def test_without_a_donor_that_differs_nothing_is_taken(
    donor: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Words of 1, 3, and 2 tokens.
    table = two_words_of_each([5]) if donor == OTHER_TEXTS else wordy_prompts([5], "fixed")
    settings = settings_of(("label",), (donor,), WHAT, 2, 1, 3)
    measured = measure_transplant(tiny_model("llama"), table, settings, 500)
    assert measured["donor"].to_list() == ["none"]
    (message,) = caplog.messages
    assert message.startswith(warning)


def test_places_are_label_words_or_as_many_other_tokens() -> None:
    prompt = wordy_prompts([5], "fixed").row(0, named=True)

    def places(name: str, draw: int = 0) -> list[int]:
        return places_of(prompt, name, [1, 2], 24, np.random.default_rng(draw))

    labels = [4, 11, 12, 13, 21, 22]
    assert places("label") == labels
    assert {tuple(places("one_label", draw)) for draw in range(9)} == {(11, 12, 13), (21, 22)}
    assert places("demonstrations") == list(range(24))
    assert places("rest") == [token for token in range(24) if token not in labels]
    for draw in range(9):
        text, template = places("text", draw), places("template", draw)
        for drawn in (text, template):
            of_demonstrations = [sum(a <= t < b for t in drawn) for a, b in SPANS]
            assert of_demonstrations == [1, 3, 2]
        assert set(text) <= {1, 2, 7, 8, 9, 16, 17, 18, 19}
        assert set(template) <= {3, 5, 6, 10, 14, 15, 20, 23}


def test_places_that_a_demonstration_lacks_are_left_out_with_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = two_words_of_each([5]).with_columns(format_positions=pl.Series([[0, 10, 29, 30]]))
    settings = settings_of(("label", "template"), ("permuted",), ("keys_values",), 2, 1, 3)
    measured = measure_transplant(tiny_model("llama"), table, settings, 500)
    assert set(measured["places"]) == {"none", "label"}
    (message,) = caplog.messages
    assert message.startswith("No transplants at template tokens: a demonstration of task news has")


def test_depths_are_evenly_spaced_and_the_whole_is_taken_once() -> None:
    assert bands_at("keys_values", 3, 18) == [
        ("all", 0, 18),
        ("middle", 6, 6),
        ("first", 0, 6),
        ("first", 0, 12),
        ("last", 12, 6),
        ("last", 6, 12),
    ]
    assert bands_at("residual", 6, 18) == [("at", layer, 1) for layer in (2, 5, 8, 11, 14)]
    # Windows from the first to the last one, in place of the other bands.
    windows = [("window", start, 3) for start in (0, 5, 10, 15)]
    assert bands_at("values", 4, 18, 3) == [("all", 0, 18), *windows]
    assert bands_at("keys", 4, 3, 3) == [("all", 0, 3)]
    assert bands_at("residual", 6, 18, 3) == bands_at("residual", 6, 18)
    # The thirds are taken without windows, which claims compare.
    assert bands_at("keys_values", 1, 2) == [("all", 0, 2), ("first", 0, 1), ("last", 1, 1)]
    assert {(side, n) for side, _, n in bands_at("keys_values", 2, 17)} >= {
        ("first", 5),
        ("last", 5),
    }


def test_donors_that_no_task_has_and_targets_without_outputs_are_refused() -> None:
    spec = {
        "places": ["target"],
        "donors": [OTHER_TASK],
        "what": ["residual"],
        "window": 0,
        "depths": 2,
    }
    tasks = {"news": {"labels": [" A", " B"]}, "poems": {"labels": [" C", " D"]}}
    with pytest.raises(InputError, match=r"transplant\.donors: other_task needs two tasks"):
        check({"transplant": spec, "tasks": tasks})
    check({"transplant": {**spec, "places": []}, "tasks": tasks})
    tasks["poems"]["label_words"] = {"news": [" B", " A"]}
    check({"transplant": spec, "tasks": tasks})
    with pytest.raises(InputError, match=r"transplant\.places: at the target, only outputs of"):
        check({"transplant": {**spec, "what": ["keys_values"]}, "tasks": tasks})


def test_whole_words_after_a_changed_target_are_refused_where_a_state_is_carried() -> None:
    settings = settings_of(("target",), ("permuted",), ("residual",), 2, 1, 2)
    with pytest.raises(InputError, match=r"transplant\.places: at the target of a model that carr"):
        measure_transplant(
            tiny_model("lfm2"),
            two_words_of_each([5]),
            settings,
            50,
            scoring={"scoring": "whole_word", "word_score": "sum"},
        )


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    table = table.with_columns(pl.Series("token_ids", ids))
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_transplant(tiny_model("llama"), table, [], 50)


def test_a_window_as_large_as_the_model_is_named(caplog: pytest.LogCaptureFixture) -> None:
    # Else, only all layers would be exchanged, and the figure would lack windows without a word.
    spec = {"places": ["label"], "donors": ["permuted"], "what": ["keys"], "depths": 2}
    for window, warned in ((3, True), (2, False)):
        caplog.clear()
        given: Any = SimpleNamespace(
            spec={**spec, "window": window, "draws": 1},
            depth=3,
            card={"name": "tiny"},
            input={},
            measure=lambda *_: None,
        )
        transplant.measure(given)
        assert ("transplant.window is 3" in caplog.text) == warned
