"""Predictions without heads, against hooks on full prompts, and which heads are taken away."""

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.ablation.measure import (
    Chooser,
    Setting,
    highest,
    measure_ablation,
    random_like,
    settings_of,
)
from anchorflow.config.errors import InputError
from anchorflow.model.layers import decoder_layers
from anchorflow.model.target_attention import means_over_classes
from anchorflow.random_draws import generator, halves
from plain_heads import heads_replaced, projection_of
from tiny_models import (
    FAMILIES,
    depth_of,
    plain_attentions,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)

QUERIES = [5, 17, 9, 8]
SPEC = {"scores": ["label_copy"], "shares": [0.25], "draws": 1, "where": ["target"]}
SPEC |= {"by": ["mean", "zero", "other"]}


def scored(layers: int, heads: int, examples: int = 4, first: int = 0) -> pl.DataFrame:
    """Scores that grow with the head's number; of the layer ``first`` highest."""
    return pl.DataFrame(
        [
            {
                "model": "tiny", "task": "news", "seed": 0, "score": "label_copy",
                "example": example, "layer": layer, "head": head,
                "value": float(head - 10 * ((layer - first) % layers)), "control": 0.0,
            }
            for example in range(examples)
            for layer in range(layers)
            for head in range(heads)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("family", "layer"), [*((family, 1) for family in FAMILIES), ("llama", 0)])
def test_predictions_equal_those_with_outputs_replaced_by_hooks_in_full_prompts(
    family: str, layer: int
) -> None:
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    table, depth = shared_prompts(QUERIES), depth_of(model)
    heads = 4
    scores = scored(depth, heads, first=layer)
    found = measure_ablation(model, table, scores, settings_of(SPEC), 100)
    (number,) = set(found.filter(by="zero", control=False)["heads"])
    taken = [heads - 1 - k for k in range(number)]  # all of one layer, highest first
    assert number <= heads
    whole = whole_batch(table)
    one = {example: single(whole, whole.examples.index(example)) for example in range(4)}
    before, outputs = {}, []
    for example in range(4):
        with heads_replaced(eager, layer, [], 1, None) as seen:
            before[example] = plain_attentions(eager, one[example])[0].log_softmax(-1)
        outputs.append(seen[0][0, -1].unflatten(-1, (heads, -1)))
    stacked = torch.stack(outputs)  # [examples, H, D], at the target of the layer
    order = whole.examples  # the next prompt is that of the batch
    labels = [whole.labels[order.index(example)].item() for example in range(4)]
    for row in found.filter(control=False, score="label_copy").iter_rows(named=True):
        example = row["example"]
        following = order[(order.index(example) + 1) % 4]
        instead = {
            "mean": _balanced(stacked, labels, example),
            "zero": torch.zeros_like(stacked[0]),
            "other": stacked[following],
        }[row["by"]][None, taken]
        with heads_replaced(eager, layer, taken, stacked.shape[2], instead):
            logits, _ = plain_attentions(eager, one[example])
        probabilities = logits[one[example].label_tokens].softmax(-1)
        np.testing.assert_allclose(row["probabilities"], probabilities, atol=1e-5)
        after = logits.log_softmax(-1)
        divergence = (before[example].exp() * (before[example] - after)).sum()
        assert row["divergence"] == pytest.approx(divergence.item(), abs=1e-4)
        assert row["label_mass"] == pytest.approx(
            logits.softmax(-1)[one[example].label_tokens].sum().item(), abs=1e-5
        )
    alone = found.filter(score="alone")
    for row in alone.iter_rows(named=True):
        ids = one[row["example"]].input_ids
        without = torch.cat([ids[:, :1], ids[:, 30:]], 1)
        with torch.no_grad():
            logits = eager(input_ids=without, use_cache=False).logits[0, -1]
        probabilities = logits[[5, 11, 23]].softmax(-1)
        np.testing.assert_allclose(row["probabilities"], probabilities, atol=1e-5)


def _balanced(outputs: torch.Tensor, labels: list[int], example: int) -> torch.Tensor:
    """The mean over labels of mean outputs, without the example's unless alone of its label."""
    means = []
    for label in sorted(set(labels)):
        members = [k for k, of in enumerate(labels) if of == label and k != example]
        means.append(outputs[members or [example]].mean(0))
    return torch.stack(means).mean(0)


def test_a_head_that_writes_for_its_prompt_s_class_becomes_neutral() -> None:
    labels = torch.tensor([0, 1, 2, 1, 1, 0])
    outputs = torch.eye(3)[labels]
    torch.testing.assert_close(means_over_classes(outputs, labels), torch.full((6, 3), 1 / 3))
    numbers = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0, 5.0])[:, None]
    # Of the fourth: class 0 (1 + 5) / 2, class 1 without itself (2 + 6) / 2, class 2 alone, 3.
    assert means_over_classes(numbers, labels)[3].item() == pytest.approx((3 + 4 + 3) / 3)
    # Of the third, itself, since it is the only one of its class.
    assert means_over_classes(numbers, labels)[2].item() == pytest.approx((3 + 4 + 3) / 3)
    assert torch.isnan(means_over_classes(numbers[:1], labels[:1])).all()


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3"])
def test_everywhere_equals_outputs_replaced_at_all_tokens(family: str) -> None:
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    table, depth = shared_prompts(QUERIES), depth_of(model)
    spec = {**SPEC, "where": ["everywhere"], "by": ["zero", "mean"]}
    found = measure_ablation(model, table, scored(depth, 4), settings_of(spec), 100)
    taken = [3, 2, 1][: found.filter(by="zero")["heads"][0]]
    whole = whole_batch(table)
    projection = projection_of(decoder_layers(eager)[0])
    seen: list[torch.Tensor] = []
    hook = projection.register_forward_pre_hook(lambda _, args: seen.append(args[0][0]))
    for example in range(4):
        plain_attentions(eager, single(whole, whole.examples.index(example)))
    hook.remove()
    tokens = torch.cat([seen[0][:30], *(of[30:] for of in seen)])  # demonstrations count once
    mean = tokens.mean(0).unflatten(0, (4, -1))
    for by, instead in (("zero", torch.zeros_like(mean)), ("mean", mean)):

        def replace(_: object, args: tuple[torch.Tensor], instead=instead) -> tuple[torch.Tensor]:
            changed = args[0].clone().unflatten(-1, (4, -1))
            changed[:, :, taken] = instead[taken]
            return (changed.flatten(-2),)

        hook = projection.register_forward_pre_hook(replace)
        for row in found.filter(by=by, control=False, score="label_copy").iter_rows(named=True):
            one = single(whole, whole.examples.index(row["example"]))
            logits, _ = plain_attentions(eager, one)
            wanted = logits[one.label_tokens].softmax(-1)
            np.testing.assert_allclose(row["probabilities"], wanted, atol=1e-4)
        hook.remove()


def test_the_intact_run_is_that_without_heads_taken_away() -> None:
    table, model = shared_prompts(QUERIES), tiny_model("llama")
    rows = measure_ablation(model, table, scored(3, 4), [], 100)
    assert set(rows["score"]) == {"none", "alone"}
    intact = rows.filter(score="none")
    assert (intact["divergence"] == 0).all() and (intact["heads"] == 0).all()


def test_the_highest_heads_by_sign_and_never_undefined_ones() -> None:
    scores = np.array([[0.1, -5.0, np.nan], [2.0, 0.3, 0.2]])
    assert highest(scores, 0.01) == [(1, 0)]
    assert highest(scores, 0.5) == [(1, 0), (1, 1), (1, 2)]
    assert highest(np.full((2, 2), np.nan), 1.0) == []


def test_random_heads_are_others_of_the_same_layers_as_far_as_there_are() -> None:
    drawn = random_like([(0, 1), (0, 2), (3, 0)], 4, generator(0, "test"))
    assert sorted(drawn)[:2] == [(0, 0), (0, 3)]
    assert [layer for layer, _ in drawn] == [0, 0, 3]
    assert drawn[2][1] != 0
    for draw in range(8):  # head 2 belongs to the kind that the chosen ones are without
        assert random_like([(0, 1)], 3, generator(draw, "test"), [(0, 2), (1, 0)]) == [(0, 0)]
    most = random_like([(0, 0), (0, 1), (0, 2)], 4, generator(0, "test"))
    assert len(set(most)) == 3 and (0, 3) in most


def test_heads_are_chosen_on_the_other_half_of_the_texts() -> None:
    """Head 0 is highest on the texts of half 0, head 1 on those of half 1."""
    half_of = halves(pl.Series("example", range(4), dtype=pl.Int32), 0)
    rows = scored(1, 2).cast({"example": pl.Int32}).join(half_of, on="example")
    rows = rows.with_columns(value=(pl.col("head") == pl.col("half")).cast(pl.Float64))
    chooser = Chooser(rows.drop("half"), half_of)
    setting = Setting("label_copy", False, 0, "target", "mean", 0.5)
    assert chooser.heads(setting, 0) == {0: [1]}
    assert chooser.heads(setting, 1) == {0: [0]}
    with pytest.raises(InputError, match="no head has a direct; add its group to heads"):
        chooser.heads(setting._replace(score="direct"), 0)


def test_heads_of_one_score_without_those_of_another() -> None:
    """Of four heads, copying is highest in 3, 2 and matching in 3, 0; a quarter is one head."""
    copying = scored(1, 4).cast({"example": pl.Int32})
    matching = copying.with_columns(
        score=pl.lit("prefix_matching"),
        value=pl.col("head").replace_strict({0: 5.0, 1: 1.0, 2: 2.0, 3: 9.0}),
    )
    half_of = halves(pl.Series("example", range(4), dtype=pl.Int32), 0)
    chooser = Chooser(pl.concat([copying, matching]), half_of)
    quarter = Setting("label_copy without prefix_matching", False, 0, "target", "mean", 0.25)
    assert chooser.heads(quarter, 0) == {0: [2]}
    half = quarter._replace(score="prefix_matching without label_copy", share=0.5)
    assert chooser.heads(half, 0) == {0: [0, 1]}


def test_settings_are_all_combinations_but_others_everywhere() -> None:
    spec = {**SPEC, "where": ["target", "everywhere"], "shares": [0.1, 0.2], "draws": 2}
    settings = settings_of(spec)
    assert len(settings) == (3 + 2) * 2 * 3
    assert not any(s.where == "everywhere" and s.by == "other" for s in settings)
    assert len(set(settings)) == len(settings)
