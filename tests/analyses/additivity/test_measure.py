"""Parts of heads' outputs against full eager prompts, and what is composed of single ones."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.additivity import measure
from anchorflow.analyses.additivity.measure import (
    RecordParts,
    _Cell,
    _likeness,
    composed,
    measure_additivity,
)
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Budget
from tiny_models import HYBRIDS, KINDS, PREFIX, shared_prompts, tiny_model, whole_batch
from whole_vocabulary import logits_in_full

CONTROLS = ("other_query", "deranged")
SPANS = ((0, 10), (10, 20), (20, 30))  # demonstrations, whose first token counts in none
LENGTHS = [5, 17, 9]


def eager_parts(
    model: PreTrainedModel, ids: Sequence[int], spans: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Parts [L, H, S, D] and shares [L, H, S] at the last token, by transformers' own attention."""
    values: list[Tensor] = []
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(lambda _, __, output: values.append(output))
        for layer in model.model.layers
    ]
    with torch.no_grad():
        rows = model(torch.tensor([ids]), output_attentions=True, use_cache=False).attentions
    for hook in hooks:
        hook.remove()
    parts, shares = [], []
    for row, value in zip(rows, values, strict=True):
        weights = row[0, :, -1]  # [H, T]
        groups = value.shape[-1] // model.config.head_dim
        by_head = value[0].unflatten(-1, (groups, -1)).movedim(1, 0)
        by_head = by_head.repeat_interleave(len(weights) // groups, 0)  # [H, T, D]
        at = [slice(max(1, start), end) for start, end in spans]
        parts.append(
            torch.stack([torch.einsum("ht,htd->hd", weights[:, s], by_head[:, s]) for s in at], 1)
        )
        shares.append(torch.stack([weights[:, s].sum(1) for s in at], 1))
    return torch.stack(parts), torch.stack(shares)


def cell_of(model: PreTrainedModel, table: pl.DataFrame) -> _Cell:
    return _Cell(model, table, table, Budget(60))


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@torch.no_grad()
def test_parts_of_demonstrations_are_those_of_full_eager_prompts(family: str) -> None:
    eager, table = tiny_model(family, eager=True), shared_prompts(LENGTHS)
    of_cell = cell_of(tiny_model(family), table)
    tokens, recorded, _ = of_cell.whole()
    eager.set_attn_implementation("eager")
    alone, _ = of_cell.alone(of_cell.token_ids)
    ids = dict(table.select("example", "token_ids").iter_rows())
    for row, example in enumerate(tokens.examples):
        parts, shares = eager_parts(eager, ids[example], SPANS)
        singles = [
            eager_parts(eager, ids[example][start:end] + ids[example][PREFIX:], [(0, 10)])
            for start, end in SPANS
        ]
        for layer in range(len(parts)):
            found = recorded.parts[layer][row], recorded.shares[layer][row]
            for one, other in zip(found, (parts[layer], shares[layer]), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
            left = [1 - single[1][layer] for single in singles]
            whole = 1 + sum((1 - each) / each for each in left)
            expected = sum(
                single[0][layer] / each[..., None] / whole[..., None]
                for single, each in zip(singles, left, strict=True)
            )
            of_layer = alone[layer].demonstrations[row]
            torch.testing.assert_close(of_layer, expected[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "family",
    [
        "latent",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("gpt2", *KINDS)
            if name != "latent"
        ),
    ],
)
@torch.no_grad()
def test_parts_are_those_of_whole_prompts_and_add_up_to_the_output(family: str) -> None:
    model, table = tiny_model(family), shared_prompts(LENGTHS)
    try:
        tokens, recorded, _ = cell_of(model, table).whole()
    except InputError as error:  # what selects its keys among a whole prompt
        assert "selects by itself" in str(error)
        return
    for row, example in enumerate(tokens.examples):
        (ids,) = table.filter(example=example)["token_ids"].to_list()
        members = torch.zeros(5, len(ids))
        for group, (start, end) in enumerate([*SPANS, (PREFIX, len(ids))]):
            members[group, max(1, start) : end] = 1
        members[4, 0] = 1
        whole = RecordParts(members)
        with intervene(whole):
            model(torch.tensor([ids]), use_cache=False)
        for layer, parts in whole.parts.items():
            found = recorded.parts[layer][row]
            torch.testing.assert_close(found, parts[0, :, :3], rtol=0, atol=1e-5)
            added = parts[0].sum(1)
            torch.testing.assert_close(added, whole.outputs[layer][0], rtol=0, atol=1e-5)


def test_without_any_dependence_single_demonstrations_compose_the_whole() -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 4, 9, generator=random)  # [B, H, T]: three demonstrations, and a rest
    values = torch.randn(2, 4, 9, 5, generator=random)
    groups = [slice(0, 2), slice(2, 4), slice(4, 7)]

    def run(at: list[int]) -> tuple[Tensor, Tensor]:  # weights [B, H, K] and output
        weights = scores[..., at].softmax(-1)
        return weights, torch.einsum("bhk,bhkd->bhd", weights, values[..., at, :])

    parts, shares, outputs = [], [], []
    for group in groups:
        of_group = [*range(group.start, group.stop)]
        weights, output = run([*of_group, 7, 8])
        own = weights[..., : len(of_group)]
        parts.append(torch.einsum("bhk,bhkd->bhd", own, values[..., of_group, :]))
        shares.append(own.sum(-1))
        outputs.append(output)
    found = composed(torch.stack(parts), torch.stack(shares), torch.stack(outputs))
    weights, output = run([*range(9)])
    demonstrations = torch.einsum("bhk,bhkd->bhd", weights[..., :7], values[..., :7, :])
    torch.testing.assert_close(found.demonstrations, demonstrations)
    torch.testing.assert_close(found.demonstrations + found.rest, output)


class PlainReplacement:
    """Other outputs of all heads at one row per example, in whole prompts."""

    def __init__(self, outputs: dict[int, Tensor], rows: Tensor) -> None:
        self._outputs, self._rows = outputs, rows

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call).clone()
        output[torch.arange(len(output)), :, self._rows] = self._outputs[call.layer]
        return output


@torch.no_grad()
def test_answers_are_those_of_full_prompts_with_composed_outputs_at_the_target() -> None:
    model, table = tiny_model("gemma3"), shared_prompts([9, 9, 9])
    measured = measure_additivity(model, table, CONTROLS, 60)
    assert set(measured["kind"]) == {"composed", "one", "whole", "deranged", "other_query"}
    of_cell, words = cell_of(model, table), table["label_tokens"][0].to_list()
    own, _ = of_cell.alone(of_cell.token_ids)
    tokens, recorded, _ = of_cell.whole()
    assert tokens.examples == whole_batch(table).examples
    instead = {n: of.demonstrations + of.rest for n, of in own.items()}
    replaced = PlainReplacement(instead, torch.full((3,), PREFIX + 8))
    ids = table["token_ids"].to_list()
    singles = [
        shorter(table, [row[start:end] + row[PREFIX:] for row in ids]) for start, end in SPANS
    ]
    expected = {
        "whole": [logits_in_full(model, table)],
        "composed": [logits_in_full(model, table, replaced)],
        "one": [logits_in_full(model, single) for single in singles],
    }
    labels = torch.tensor(table["label"].to_list())[:, None]
    for kind, runs in expected.items():
        chances = [run[:, words].softmax(-1).gather(1, labels)[:, 0] for run in runs]
        odds = torch.stack([chance.logit() for chance in chances]).mean(0)
        rows = measured.filter(kind=kind, layer=-1).sort("example")
        assert rows["log_odds"].to_list() == pytest.approx(odds.tolist(), abs=1e-4)
        right = [run[:, words].argmax(-1) == labels[:, 0] for run in runs]
        assert rows["accuracy"].to_list() == pytest.approx(
            torch.stack(right).float().mean(0).tolist()
        )
    for kind, other in (("composed", 0), ("other_query", -1)):
        like = _likeness(recorded.parts[1].sum(2), own[1].demonstrations.roll(other, 0))
        rows = measured.filter(kind=kind, layer=1)
        assert rows["example"].to_list() == sorted(tokens.examples)
        found = dict(rows.select("example", "explained").iter_rows())
        assert [found[n] for n in tokens.examples] == pytest.approx(like["explained"].tolist())


def shorter(table: pl.DataFrame, ids: list[list[int]]) -> pl.DataFrame:
    lengths = [len(row) for row in ids]
    return table.with_columns(
        token_ids=pl.Series(ids),
        tokens=pl.Series(lengths, dtype=pl.Int64),
        target_position=pl.Series([length - 1 for length in lengths]),
    )


def test_a_last_token_that_queries_have_is_the_query_s_after_every_demonstration() -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][PREFIX - 1] = (ids[1][PREFIX - 1] + 1) % 97
    of_cell = cell_of(tiny_model("llama"), table.with_columns(token_ids=pl.Series(ids)))
    assert of_cell._spans == [(0, 9), (10, 19), (20, 29)]


def test_likeness_by_hand() -> None:
    whole, found = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[3.0, 0.0]]])
    like = _likeness(whole, found)
    assert like["explained"].tolist() == pytest.approx([1 - 16 / 25])
    assert like["cosine"].tolist() == pytest.approx([3 / 5])


def test_deranged_words_change_what_is_composed_and_words_alike_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 6])
    found = measure_additivity(model, table, ("deranged",), 60).filter(layer=0)
    own, deranged = (
        found.filter(kind=kind)["cosine"].to_list() for kind in ("composed", "deranged")
    )
    assert own != deranged
    ids = [[*row[:8], 5, *row[9:18], 5, *row[19:28], 5, *row[29:]] for row in table["token_ids"]]
    alike = table.with_columns(token_ids=pl.Series(ids))
    found = measure_additivity(model, alike, CONTROLS, 60)
    assert set(found["kind"]) == {"composed", "one", "whole", "other_query"}
    assert caplog.messages[0].startswith("No deranged demonstrations: no two label words of task")


def test_demonstrations_that_keep_their_words_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "donor_words", lambda *_: {1: [5]})
    measure_additivity(tiny_model("llama"), shared_prompts([5, 6]), ("deranged",), 60)
    assert caplog.messages[0].startswith("2 of 3 demonstrations of task news keep their label")


def test_what_cannot_be_composed_is_refused_or_has_no_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(InputError, match="additivity: this model carries a state"):
        measure_additivity(tiny_model([*HYBRIDS][2]), shared_prompts([5]), CONTROLS, 60)
    table = shared_prompts([5])
    single: dict[str, Any] = {"demonstration_labels": [0], "label_ends": [9]}
    single |= {"label_positions": [8], "demonstration_starts": [0], "demonstration_ends": [30]}
    alone = table.with_columns(**{name: pl.Series([value]) for name, value in single.items()})
    assert measure_additivity(tiny_model("llama"), alone, CONTROLS, 60).is_empty()
    assert caplog.messages == [
        "No additivity: task news has a single demonstration, which is the whole."
    ]
    begins = shared_prompts([5, 5])
    ids = begins["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        cell_of(tiny_model("llama"), begins.with_columns(token_ids=pl.Series(ids)))
