"""Files that are damaged or replaced are refused by name; the head, run once after several runs."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from safetensors.torch import load_file, save_file
from torch import Tensor

from anchorflow.config.errors import InputError, is_out_of_memory
from anchorflow.model.attention_function import adopt, intervene
from anchorflow.model.batches import Budget, batches_of
from anchorflow.model.language_model import (
    Answers,
    answers_after,
    open_model,
    target_label_logits,
    target_logits,
    target_states,
    with_same_weights,
)
from anchorflow.model.last_tokens import keep_together
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.tokenizer import open_tokenizer
from out_of_memory import run_out
from resolved_models import resolve, with_own_weights
from table_files import flipped
from tiny_models import FAMILIES, random_batch, shared_prompts, tiny_model

CPU = torch.device("cpu")


@pytest.fixture
def copied(resolved: Path, tmp_path: Path) -> Path:
    """A private copy of the resolved model, with its weights inside as converted ones are."""
    shutil.copytree(resolved, tmp_path / "copy")
    return with_own_weights(tmp_path / "copy")


@pytest.mark.parametrize(
    "file",
    [
        "tokenizer/tokenizer.json",
        "tokenizer/config.json",
        "tokenizer/architecture.json",
        "model/config.json",
        "model/model.json",
        "model/model.safetensors",
    ],
)
@pytest.mark.parametrize("fault", ["flipped", "truncated", "missing"])
def test_a_damaged_file_of_a_model_is_named_with_the_remedy(
    copied: Path, file: str, fault: str
) -> None:
    path = copied / file
    content = path.read_bytes()
    brace = content.index(b"e") * 8  # within a name or a number, not white space
    for bit in [brace, *random.Random(0).sample(range(8 * len(content)), 7)]:
        if fault == "missing":
            path.unlink()
        else:
            path.write_bytes(flipped(content, bit) if fault == "flipped" else content[: bit // 8])
        try:
            open_tokenizer(copied / "tokenizer") if "tokenizer" in file else open_model(
                copied / "model", CPU
            )
        except InputError as error:
            told = f"{path}: missing or damaged; delete {path.parent} and run again"
            assert str(error).startswith(told)
        else:
            # What a card says is the same if only white space is not.
            assert json.loads(path.read_bytes()) == json.loads(content)
            assert bit != brace
        path.write_bytes(content)


def test_weights_replaced_under_the_same_name_are_refused_even_if_no_newer(
    resolved: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolved, folder)
    resolve(folder)
    weights = folder / "source" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    tensors = load_file(weights)
    tensors["model.norm.weight"] += 1
    save_file(tensors, weights, metadata={"format": "pt"})
    os.utime(weights, ns=(before, before))
    with pytest.raises(InputError) as error:
        open_model(folder / "model", CPU)
    assert str(error.value) == (
        f"models.tiny: {weights} is missing or not what it was when the model was resolved; put it "
        f"back, or delete {folder / 'model'} and run again with the new weights."
    )
    shutil.rmtree(folder / "model")
    resolve(folder)
    assert open_model(folder / "model", CPU).model.norm.weight[0] == 2


def close(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_every_run_by_itself(family: str) -> None:
    model = tiny_model(family)
    runs = [random_batch([23, 31], seed=seed) for seed in range(2)]
    states = [target_states(model, batch) for batch in runs]
    answers = answers_after(model, states, runs[0].label_tokens, 4)
    for batch, ours in zip(runs, answers, strict=True):
        plain = target_logits(model, batch)
        assert plain.std() > 0
        close(ours.label_logits, plain[:, batch.label_tokens])
        assert ours.top_tokens.equal(plain.argsort(descending=True)[:, :4])
        close(ours.largest, torch.maximum(plain.max(1).values, -plain.min(1).values))
        close(target_label_logits(model, batch), plain[:, batch.label_tokens])


@pytest.mark.parametrize(
    ("fitting", "passes"), [(7, [7, 7, 1]), (4, [7, 3, 3, 3, 3, 3]), (1, [7, 3] + 15 * [1])]
)
def test_many_rows_are_split_into_passes_that_fit_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, fitting: int, passes: list[int]
) -> None:
    model, batch = tiny_model("gemma2"), random_batch([23, 31, 19])
    plain, run = target_logits(model, batch), list[int]()
    runs = [target_states(model, batch) * scale for scale in (1, 2, 1, 2, 1)]

    def limited(_: object, inputs: tuple[torch.Tensor], __: object) -> None:
        run.append(len(inputs[0]))
        if run[-1] > fitting:
            run_out()

    model.get_output_embeddings().register_forward_hook(limited)
    monkeypatch.setattr("anchorflow.model.language_model._HEAD_ROWS", 7)
    every = torch.arange(plain.shape[1])
    logits = [each.label_logits for each in answers_after(model, runs, every, 1)]
    assert run == passes
    for ours in logits[::2]:
        close(ours, plain)
    close(logits[1], logits[3])
    assert (logits[1] - plain).abs().max() > 1e-3
    assert answers_after(model, [], every, 1) == []


def test_a_head_that_does_not_fit_for_one_prompt_is_an_error() -> None:
    model, batch = tiny_model("llama"), random_batch([23, 31])
    states = [target_states(model, batch)]
    model.get_output_embeddings().register_forward_hook(lambda *_: run_out())
    with pytest.raises(RuntimeError) as caught:
        answers_after(model, states, batch.label_tokens, 1)
    assert is_out_of_memory(caught.value)


def test_logits_that_are_not_finite_show_in_the_largest() -> None:
    logits = torch.zeros(3, 9)
    logits[0, 5], logits[1, 2] = float("nan"), -float("inf")
    finite = Answers.of(logits, torch.tensor([0, 1]), 2).largest.isfinite()
    assert finite.tolist() == [False, False, True]


@pytest.mark.parametrize("family", ["gemma2", "gpt2"])
def test_last_tokens_have_the_states_of_their_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    prefix = compute_prefix(model, shared_token_ids(table))
    tokens = keep_together(model, table, prefix, Budget(10_000))
    with intervene(tokens):
        every = torch.arange(model.get_output_embeddings().weight.shape[0])
        ((ours, *_),) = answers_after(model, [tokens.states(model)], every, 1)
        plain = tokens.vocabulary_logits(model)
    close(ours, plain)
    (batch,) = batches_of(table, 10_000, torch.device("cpu"))
    order = [batch.examples.index(example) for example in tokens.examples]
    close(ours, target_logits(model, batch)[order])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_with_the_same_weights_computes_the_same_and_has_hooks_of_its_own(
    family: str,
) -> None:
    model, batch = tiny_model(family), random_batch([20, 31])
    hooks = [len(each._forward_pre_hooks) for each in model.modules()]
    copied = with_same_weights(model)
    adopt(copied)
    embeddings, heads = copied.get_input_embeddings(), copied.get_output_embeddings()
    assert (embeddings.weight is heads.weight) == bool(model.config.tie_word_embeddings)
    for ours, theirs in zip(copied.parameters(), model.parameters(), strict=True):
        assert ours is not theirs  # so that another dtype, say, is the copy's own
        assert ours.data_ptr() == theirs.data_ptr()
    for ours, theirs in zip(copied.buffers(), model.buffers(), strict=True):
        assert ours is not theirs
    assert torch.equal(target_logits(copied, batch), target_logits(model, batch))
    heads.register_forward_hook(lambda *given: 0 * given[-1])
    assert not target_logits(copied, batch).any()
    assert target_logits(model, batch).any()
    assert hooks == [len(each._forward_pre_hooks) for each in model.modules()]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_of_a_model_that_is_spread_has_hooks_of_its_own(family: str) -> None:
    model, batch = tiny_model(family), random_batch([20, 31])
    expected = target_logits(model, batch)
    for module in model.modules():  # as accelerate does to bring a layer's inputs to its GPU
        add_hook_to_module(module, AlignDevicesHook("cpu", io_same_device=True))
    copied = with_same_weights(model)
    for module in copied.modules():
        assert module.forward.args == (module,)
        assert module._old_forward.__self__ is module
    assert torch.equal(target_logits(copied, batch), expected)
