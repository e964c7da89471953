"""Scores of heads against eager attention, brute force on full prompts, and weights set by hand."""

import copy

import numpy as np
import polars as pl
import pytest
import scipy.stats
import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from anchorflow.analyses.heads.function_vectors import log_odds
from anchorflow.analyses.heads.measure import SCORES, Classes, measure_heads, random_sequences
from anchorflow.analyses.heads.summarize import summarize_heads, with_difference
from anchorflow.analyses.transplant.measure import donor_words
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, adopt, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.layers import decoder_layers
from anchorflow.model.logits import target_logits
from anchorflow.model.target_attention import find_writes
from anchorflow.random_draws import generator
from plain_heads import heads_replaced, projection_of
from tiny_models import (
    FAMILIES,
    GATED,
    VOCABULARY,
    families,
    plain_attentions,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)

QUERIES = [5, 17, 9]


class RecordOutputsAt:
    """Heads' outputs at one row of each example, [B, H, D] by layer."""

    def __init__(self, rows: torch.Tensor) -> None:
        self._rows = rows
        self.found: dict[int, torch.Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> torch.Tensor:
        output = attention(call)
        self.found[call.layer] = output[torch.arange(len(self._rows)), :, self._rows].float()
        return output


def words(size: int = VOCABULARY) -> Tokenizer:
    """A token per number."""
    return Tokenizer(models.WordLevel({str(i): i for i in range(size)}, unk_token="0"))


def measured(model: PreTrainedModel, table: pl.DataFrame, *scores: str) -> pl.DataFrame:
    return measure_heads(model, words(), table, scores, 4, 100)


def values(rows: pl.DataFrame, score: str, column: str = "value") -> np.ndarray:
    """[examples, L, H]."""
    ordered = rows.filter(score=score).sort("example", "layer", "head")
    shape = [ordered[name].n_unique() for name in ("example", "layer", "head")]
    return ordered[column].to_numpy().reshape(shape)


def alone(table: pl.DataFrame, example: int) -> Batch:
    batch = whole_batch(table)
    return single(batch, batch.examples.index(example))


# Qwen 3-Next gates heads' outputs before their projection.
@pytest.mark.parametrize("family", families("qwen3-next"))
def test_function_vectors_equal_outputs_replaced_by_hooks_in_full_prompts(family: str) -> None:
    table = shared_prompts(QUERIES)
    rows = measured(tiny_model(family), table, "function_vector")
    prompt, eager = table.row(0, named=True), tiny_model(family, eager=True)
    random = generator(0, "news", "heads", "permuted")
    changed = donor_words(prompt, "drawn", random)
    assert changed
    ids = [list(row) for row in table["token_ids"].to_list()]
    for row in ids:
        for k, word in changed.items():
            row[prompt["label_positions"][k]] = word[0]
    permuted = table.with_columns(pl.Series("token_ids", ids))
    found, control = values(rows, "function_vector"), values(rows, "function_vector", "control")
    probability = values(rows, "function_vector_probability")
    _, depth, heads = found.shape
    for layer in (0, depth - 1):
        outputs = {}  # at the target, by kind of prompt: [examples, H · D]
        for kind, prompts in (("intact", table), ("permuted", permuted)):
            of_prompts = []
            for example in range(3):
                with heads_replaced(eager, layer, [], 1, None) as seen:
                    plain_attentions(eager, alone(prompts, example))
                of_prompts.append(seen[0][0, -1])
            outputs[kind] = torch.stack(of_prompts)
        size = outputs["intact"].shape[1] // heads
        for kind, effects in (("intact", found), ("permuted", control)):
            for example in range(3):
                # All three prompts differ in their label, so that each is the mean of its class.
                mean = outputs[kind].mean(0).unflatten(0, (heads, size))
                one, label = alone(permuted, example), torch.tensor([example % 3])
                plain, _ = plain_attentions(eager, one)
                for head in range(heads):
                    instead = mean[None, [head]]
                    with heads_replaced(eager, layer, [head], size, instead):
                        logits, _ = plain_attentions(eager, one)
                    both = [side[None, one.label_tokens] for side in (logits, plain)]
                    after, before = (log_odds(side, label) for side in both)
                    wanted = (after - before).item()
                    # Two differences of log odds; rounding reached 1.0e-5 on another processor.
                    assert effects[example, layer, head] == pytest.approx(wanted, abs=5e-5)
                    if kind == "intact":
                        of_label = [side.softmax(-1)[0, example % 3].item() for side in both]
                        assert probability[example, layer, head] == pytest.approx(
                            of_label[0] - of_label[1], abs=1e-5
                        )


def test_the_gradient_is_the_limit_of_the_effect() -> None:
    """Outputs that matter little: with a small output projection, effects become linear."""
    model = tiny_model("llama").double()
    for layer in decoder_layers(model):
        projection_of(layer).weight.data *= 1e-4
    rows = measured(model, shared_prompts(QUERIES), "function_vector")
    gradient, effect = values(rows, "gradient"), values(rows, "function_vector")
    assert np.abs(effect).max() > 1e-6
    np.testing.assert_allclose(gradient, effect, rtol=0.02, atol=1e-3 * np.abs(effect).max())


def test_function_vectors_of_a_single_text_are_undefined_and_can_be_summarized() -> None:
    table = shared_prompts(QUERIES)
    rows = measure_heads(tiny_model("llama"), words(), table, ["function_vector"], 4, 100, [1])
    assert set(rows["score"]) == {"function_vector", "function_vector_probability", "gradient"}
    assert rows["value"].is_null().all()
    summary = summarize_heads(rows, table, 0.95)
    assert summary.filter(measure="agreement")["mean"].is_null().all()


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3", "qwen3"])
def test_attention_scores_equal_those_of_eager_attention(family: str) -> None:
    table = shared_prompts(QUERIES)
    rows = measured(tiny_model(family), table, "gathering")
    eager = tiny_model(family, eager=True)
    gathers, before = values(rows, "gathers"), values(rows, "before")
    to_right = values(rows, "to_right")
    for example in range(3):
        _, attention = plain_attentions(eager, alone(table, example))  # [L, H, T, T]
        to_labels = attention[:, :, -1, [8, 18, 28]]
        share = to_labels[..., example % 3] / to_labels.sum(-1)
        np.testing.assert_allclose(to_right[example], share, atol=1e-5)
        for k, (start, label) in enumerate([(1, 8), (11, 18), (21, 28)]):
            text = slice(start, label)
            of_label = attention[:, :, label, text].sum(-1)
            np.testing.assert_allclose(gathers[k], of_label, atol=1e-5)
            of_before = attention[:, :, label - 1, text].sum(-1)
            np.testing.assert_allclose(before[k], of_before, atol=1e-5)
    assert values(rows, "to_right", "control") == pytest.approx(1 / 3)


def induction_model(tokens: int = 64, positions: int = 128) -> PreTrainedModel:
    """Attention alone: head 0.0 looks one token back, head 1.0 at what followed the same token.

    A residual vector has the token, its position, and in 0.0's output the token before.
    """
    size, heads = 128, 3
    config = GPT2Config(
        vocab_size=tokens, n_positions=positions, n_embd=size * heads, n_layer=2, n_head=heads,
        n_inner=8, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        parameter.data.zero_()
    for name, parameter in model.named_parameters():
        if "ln" in name and name.endswith("weight"):
            parameter.data.fill_(1)
    first, second = model.transformer.h[0].attn, model.transformer.h[1].attn
    token, place, earlier = 0, size, 2 * size  # where they begin in a residual vector
    model.transformer.wte.weight.data[:, token : token + tokens] = torch.eye(tokens)
    model.transformer.wpe.weight.data[:, place : place + positions] = torch.eye(positions)
    query, key, value = 0, size * heads, 2 * size * heads  # of head 0, in c_attn
    strong = 60.0
    for at in range(positions):
        first.c_attn.weight.data[place + at, query + at] = strong
        if at + 1 < positions:
            first.c_attn.weight.data[place + at, key + at + 1] = 1
    for at in range(tokens):
        first.c_attn.weight.data[token + at, value + at] = 1
        first.c_proj.weight.data[at, earlier + at] = 1
        second.c_attn.weight.data[token + at, query + at] = strong
        second.c_attn.weight.data[earlier + at, key + at] = 1
    adopt(model)
    return model.requires_grad_(False).eval()


def test_an_induction_head_set_by_hand_is_the_only_one_with_prefix_matching() -> None:
    table = shared_prompts(QUERIES).with_columns(pl.col("token_ids").list.eval(pl.element() % 60))
    of = (["prefix_matching"], 6, 1000)
    assert measure_heads(induction_model(), words(64), table.clear(), *of).is_empty()
    rows = measure_heads(induction_model(), words(64), table, *of)
    matching = values(rows, "prefix_matching").mean(0)
    assert matching[1, 0] > 0.95
    others = np.delete(matching.ravel(), 3)
    assert others.max() < 0.05
    assert values(rows, "prefix_matching", "control").mean(0).max() < 0.05
    previous = values(rows, "previous").mean(0)
    assert previous[0, 0] > 0.95
    assert np.delete(previous.ravel(), 0).max() < 0.05


def test_random_sequences_repeat_ordinary_tokens_behind_one_bos() -> None:
    tokenizer = words()
    tokenizer.add_special_tokens(["7", "9"])
    model = tiny_model("llama")
    model.config.bos_token_id = 3
    draws = lambda *purpose: generator(0, *purpose)  # noqa: E731
    intact, permuted = random_sequences(model, tokenizer, 5, 4, draws)
    half = (intact.shape[1] - 1) // 2
    assert half == 47 or half == 50
    for ids, other in zip(intact, permuted, strict=True):
        assert ids[0] == other[0] == 3
        assert len(set(ids[1 : half + 1])) == half
        assert not {7, 9} & set(ids[1:].tolist())
        assert (ids[1 : half + 1] == ids[half + 1 :]).all()
        assert (other[1 : half + 1] == ids[1 : half + 1]).all()
        assert sorted(other[half + 1 :]) == sorted(ids[half + 1 :])
        assert (other[half + 1 :] != ids[half + 1 :]).any()
    model.config.bos_token_id = None
    assert (random_sequences(model, tokenizer, 5, 1, draws)[0][:, 0] == 5).all()


@pytest.mark.parametrize("family", families(*GATED))
def test_parts_add_up_to_what_whole_prompts_give_and_keep_their_sign(family: str) -> None:
    """Parts are measured behind shared demonstrations; the whole from o and W_O, without them."""
    model, table = tiny_model(family), shared_prompts(QUERIES)
    rows = measured(model, table, "writing")
    names = ("right", "wrong", "text", "template", "instruction", "first", "query")
    parts = sum(values(rows, f"writes_{name}") for name in names)
    writing, whole = find_writes(model), whole_batch(table)
    unembedding = model.get_output_embeddings().weight[whole.label_tokens].float()
    for example in range(3):
        one, label = alone(table, example), example % 3
        recorded = RecordOutputsAt(one.target_rows)
        with intervene(recorded), writing.observed_scales(one.target_rows) as scales:
            target_logits(model, one)
        other = (unembedding.sum(0) - unembedding[label]) / (len(unembedding) - 1)
        towards = (unembedding[label] - other)[None]
        for layer, outputs in recorded.found.items():
            direction = writing.directions(layer, towards)[..., 0]  # [H, D]
            wanted = (outputs[0] * direction).sum(-1) * scales.before_logits(layer)
            np.testing.assert_allclose(parts[example, layer], wanted, rtol=1e-4, atol=1e-5)
    for name in ("direct", "label_copy"):  # heads that write against the label are seen as such
        assert values(rows, name).min() < 0 < values(rows, name).max()


def test_without_training_a_head_writes_into_any_directions_alike() -> None:
    """TR / |a| is near the square root of labels over dimensions, for label words and others."""
    shares, controls = [], []
    for family in ("gpt2", "llama", "qwen2", "gptj"):
        rows = measured(tiny_model(family), shared_prompts(QUERIES), "task")
        shares.append(values(rows, "task_recognition_share").mean())
        controls.append(values(rows, "task_recognition_share", "control").mean())
    assert np.mean(shares) == pytest.approx(np.sqrt(3 / 32), abs=0.05)
    assert np.mean(shares) == pytest.approx(np.mean(controls), abs=0.06)


def test_what_is_recognized_is_what_unembeddings_read_behind_the_final_norm() -> None:
    """Towards the true label, a head writes its direct effect, up to the norm's scale of a text."""
    model, table = copy.deepcopy(tiny_model("llama")), shared_prompts(QUERIES)
    with torch.no_grad():
        gains = torch.rand(32, generator=torch.Generator().manual_seed(0))
        model.model.norm.weight.copy_(gains)
    rows = measured(model, table, "task")
    towards = values(rows, "task_recognition") * values(rows, "task_learning")
    direct = values(measured(model, table, "writing"), "direct")
    ratio = (towards / direct).reshape(len(direct), -1)
    np.testing.assert_allclose(ratio, ratio[:, :1].repeat(ratio.shape[1], 1), rtol=1e-3)


def test_what_all_unembeddings_share_is_no_recognition_of_labels() -> None:
    """It changes no probability, and rare tokens have more of it than label words."""
    model, table = copy.deepcopy(tiny_model("llama")), shared_prompts(QUERIES)
    assert not model.config.tie_word_embeddings
    before = measured(model, table, "task").filter(score="task_recognition_share")
    with torch.no_grad():
        weight = model.get_output_embeddings().weight
        weight += 5 * torch.randn(weight.shape[1], generator=torch.Generator().manual_seed(0))
    after = measured(model, table, "task").filter(score="task_recognition_share")
    for column in ("value", "control"):
        assert after[column].to_list() == pytest.approx(before[column].to_list(), abs=1e-4)


@pytest.mark.parametrize(
    "score", ["prefix_matching", "duplicate", "label_copy", "task_recognition_share", "to_right"]
)
def test_without_training_scores_do_not_exceed_their_controls(
    untrained: pl.DataFrame, score: str
) -> None:
    """Of one network of every family, the mean over heads; a 99 % interval contains 0."""
    rows = with_difference(untrained.filter(score=score))
    of_family = rows.group_by("family").agg(pl.col("difference").mean())["difference"]
    low, high = scipy.stats.t.interval(
        0.99, len(of_family) - 1, of_family.mean(), scipy.stats.sem(of_family)
    )
    assert low < 0 < high
    assert of_family.std() > 0


@pytest.fixture(scope="module")
def untrained() -> pl.DataFrame:
    scores = ["prefix_matching", "writing", "task", "gathering"]
    table = shared_prompts(QUERIES)
    return pl.concat(
        measured(tiny_model(family), table, *scores).with_columns(family=pl.lit(family))
        for family in FAMILIES
    )


def test_labels_that_begin_alike_are_one_class_and_one_class_is_refused() -> None:
    classes = Classes.of([5, 11, 5])
    assert classes.tokens == [5, 11]
    assert classes.number == [0, 1, 0]
    prompt = shared_prompts([5]).row(0, named=True)
    members = classes.members(prompt, [2, 12, 22])
    assert members[:, 0].nonzero().ravel().tolist() == [8, 28]  # label words of the first class
    assert members[:, 1].nonzero().ravel().tolist() == [18]
    assert members[:, 2].nonzero().ravel().tolist() == [2, 22]  # tokens of its texts
    everything = members[:, [0, 1, 4, 5, 6, 7, 8]].sum(1)
    assert (everything == 1).all()
    with pytest.raises(InputError, match="begin with the same token"):
        Classes.of([5, 5])


def test_batches_and_texts_left_out_change_nothing() -> None:
    model, table = tiny_model("llama").double(), shared_prompts(QUERIES)
    scores = [score for score in SCORES if score != "function_vector"]
    whole = measure_heads(model, words(), table, scores, 2, 1000)
    small = measure_heads(model, words(), table, scores, 2, 10)
    np.testing.assert_allclose(whole["value"], small["value"], atol=1e-5)
    some = measure_heads(model, words(), table, ["writing"], 2, 1000, [1])
    kept = whole.filter(pl.col("example") == 1, pl.col("score").is_in(set(some["score"])))
    np.testing.assert_allclose(some["value"], kept["value"], atol=1e-5)
