"""What a job needs, counted without reading weights, what there is, and what is said of either."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from transformers import AutoConfig

from anchorflow.config.errors import InputError
from anchorflow.model.opening import open_for_job
from anchorflow.model.size import (
    HEAP,
    Batch,
    Cost,
    Prompts,
    Size,
    available_bytes,
    batches,
    check_job,
    left_in_control_groups,
    read_bytes,
    weight_bytes,
    work_bytes,
)
from anchorflow.store.checksums import fingerprints, write_json
from sizes import SIZE
from tiny_models import (
    EVERY_FAMILY,
    FAMILIES,
    GIANT,
    PREFIX,
    VOCABULARY,
    depth_of,
    shared_prompts,
    tiny_model,
)


def test_a_token_is_multiplied_with_the_layers_and_looked_up_in_embeddings() -> None:
    model = tiny_model("llama")
    table, every = VOCABULARY * 32, sum(p.numel() for p in model.parameters())
    # Without embeddings, head, and the norm before it. Two groups of keys and values of 8 numbers.
    multiplied = every - 2 * table - 32
    assert Size.of(model.config, torch.bfloat16) == Size(
        3, 32, 2 * 2 * 8, multiplied // 3, multiplied, every, table, table, 2, attending=3
    )


def test_embeddings_that_are_the_head_too_are_read() -> None:
    size = Size.of(tiny_model("gpt2").config, torch.float32)
    assert (size.looked_up, size.head) == (256 * 32, VOCABULARY * 32)  # positions alone


def test_a_token_is_multiplied_with_the_experts_that_it_is_given_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {**FAMILIES["llama"][1], "num_local_experts": 8, "num_experts_per_tok": 2}
    monkeypatch.setitem(FAMILIES, "mixtral", ("mixtral", settings))
    size = Size.of(tiny_model("mixtral").config, torch.float32)
    # In each of 3 layers, 6 of 8 experts, with three matrices of 32 · 48 each, are left out.
    left_out = 3 * 6 * 3 * 32 * 48
    assert size.multiplied + left_out + size.looked_up + size.head + 32 == size.parameters


def test_the_largest_layer_counts_where_layers_differ() -> None:
    config: Any = AutoConfig.for_model("gemma4_text", num_hidden_layers=6)
    size = Size.of(config, torch.bfloat16)
    assert size.layer > size.multiplied / 6


def test_layers_of_any_class_are_found_in_the_list_that_attends() -> None:
    config: Any = AutoConfig.for_model("ctrl", n_layer=2, n_embd=32, n_head=4, dff=48)
    size = Size.of(config, torch.float32)
    # Four projections of 32 · 32 and two of 32 · 48 with biases, and two norms.
    layer = 4 * (32 * 32 + 32) + 2 * 32 * 48 + 48 + 32 + 4 * 32
    assert (size.layers, size.layer, size.multiplied) == (2, layer, 2 * layer)


def test_prompts_are_averaged_and_those_that_are_too_long_left_out() -> None:
    prompts = shared_prompts([10, 20])
    assert Prompts.of(prompts) == Prompts(2, PREFIX, 15, 3)
    assert Prompts.of(prompts.with_columns(skipped=prompts["task"])).texts == 0
    assert Prompts(2, 30, 15, 3)[:3] == (2, 30, 15)
    assert (Prompts(2, 30, 15, 3).once, Prompts(2, 30, 15, 3).whole) == (60, 90)


def test_whole_words_add_the_tokens_that_each_beginning_of_them_runs() -> None:
    words = [[1, 2], [1, 3], [4, 5, 6]]  # the first two run token 1, the third 4 and 5
    prompts = shared_prompts([10, 20]).with_columns(
        word_tokens=pl.Series([words] * 2, dtype=pl.List(pl.List(pl.Int32)))
    )
    found = Prompts.of(prompts, {"scoring": "whole_word", "word_score": "sum"})
    assert found == Prompts(2, PREFIX, 15, 3, 1 + 2)
    assert found.asked == 2 * (15 + 3)
    assert Prompts.of(prompts, {"scoring": "first_token"}).further == 0


AVAILABLE = "anchorflow.model.size.available_bytes"
COMPUTE: dict[str, Any] = {"device": "cpu", "batch_tokens": 512, "recompute": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A resolved tiny model."""
    model = tiny_model("llama")
    model.save_pretrained(tmp_path)
    card = {"name": "tiny", "dtype": "float32", "files": fingerprints(tmp_path.glob("*.*"))}
    write_json(tmp_path / "model.json", card)
    return tmp_path


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_weights_are_counted_as_they_are_stored(family: str) -> None:
    model = tiny_model(family)
    stored = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters()}
    assert weight_bytes(model.config, torch.float32) == sum(stored.values())
    assert weight_bytes(model.config, torch.bfloat16) == sum(stored.values()) // 2


FORWARD, BACKWARD = Cost(1), Cost(1, 1, whole=True)
GPT2_XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 4096}
GPT_J_6B = {"n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 4096}
LLAMA_8B = {
    **{"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
    **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
}


# Of the table in docs/reference/performance.md: 8 prompts of 96 tokens, of which 24 are the query,
# in bfloat16 and batches of 512 tokens; isolation keeps the demonstrations' keys and values again
# for the first and the last 5 layers, of label words and of one draw.
@pytest.mark.parametrize(
    ("kind", "settings", "flow", "isolation"),
    [
        ("gpt2", GPT2_XL, 4881e6, 3234e6),
        ("gptj", GPT_J_6B, 14109e6, 11748e6),
        ("llama", LLAMA_8B, 16212e6, 14851e6),
    ],
)
def test_large_models_take_what_was_planned(
    kind: str, settings: dict[str, int], flow: float, isolation: float
) -> None:
    size = Size.of(AutoConfig.for_model(kind, **settings), torch.bfloat16)
    copies = Cost(1, copies=1 + 2 * (1 + 5 / size.layers))
    for cost, batch, measured in (
        (BACKWARD, Batch(512 // 96, 96, 0), flow),
        (copies, Batch(8, 24, 72), isolation),
    ):
        planned = read_bytes(size, cost) + HEAP * work_bytes(size, batch, cost, recompute=False)
        assert planned == pytest.approx(measured, rel=0.1)


def test_a_batch_takes_the_largest_layer_s_activations_and_what_is_kept() -> None:
    # 2 prompts of 10 tokens. A layer has 500 weights: of a token, 500 / 4 numbers and six hidden
    # states of 4.
    layer = 20 * (500 / 4 + 6 * 4)
    batch = Batch(2, 10, 30)
    # Two layers keep 8 numbers of keys and values of 20 tokens, and of 30 shared ones 3 times.
    kept = 2 * 8 * (20 + 3 * 30)
    assert work_bytes(SIZE, batch, Cost(1, copies=3), False) == 4 * (layer + kept)
    assert work_bytes(SIZE, batch, BACKWARD, False) == 4 * (layer + 2 * layer)
    assert work_bytes(SIZE, batch, BACKWARD, True) == 4 * (layer + layer + 2 * 20 * 4)


def test_weights_that_a_job_does_not_read_take_no_memory() -> None:
    assert read_bytes(SIZE, FORWARD) == 4 * (2000 - 500)
    assert read_bytes(SIZE, BACKWARD) == 4 * (2000 - 500 - 500)


def test_batches_are_of_queries_or_of_whole_prompts() -> None:
    prompts = shared_prompts([5, 7])
    assert batches(prompts, False, 20) == (Batch(1, 7, PREFIX), Batch(2, 7, PREFIX))
    assert batches(prompts, True, 20) == (Batch(1, PREFIX + 7, 0), Batch(1, PREFIX + 7, 0))
    assert batches(prompts.clear(), False, 20) == (Batch(1, 1, 0), Batch(1, 1, 0))


def group(folder: Path, **files: str) -> None:
    """Write the files of one control group; two underscores stand for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def test_the_tightest_control_group_counts_without_file_caches(tmp_path: Path) -> None:
    groups, root = tmp_path / "groups", tmp_path / "root"
    groups.write_text("0::/job/step\n", encoding="utf-8")
    caches = "anon 40\nactive_file 7\ninactive_file 13\n"
    group(root / "job", memory__max="100\n", memory__current="60\n", memory__stat=caches)
    group(root / "job/step", memory__max="max\n", memory__current="60\n", memory__stat=caches)
    assert list(left_in_control_groups(groups, root)) == [100 - 60 + 20]
    group(root / "job/step", memory__max="50\n")
    assert sorted(left_in_control_groups(groups, root)) == [10, 60]


def test_control_groups_of_the_first_version_count_too(tmp_path: Path) -> None:
    groups, root = tmp_path / "groups", tmp_path / "root"
    groups.write_text("5:cpu,cpuacct:/\n4:memory:/job\n0::/\n", encoding="utf-8")
    group(
        root / "memory/job",
        memory__limit_in_bytes="100\n",
        memory__usage_in_bytes="130\n",
        memory__stat="total_active_file 3\ntotal_inactive_file 4\nactive_file 100\n",
    )
    assert list(left_in_control_groups(groups, root)) == [0]


def test_without_control_groups_the_computer_alone_limits(tmp_path: Path) -> None:
    assert list(left_in_control_groups(tmp_path / "none", tmp_path)) == []
    groups = tmp_path / "groups"
    groups.write_text("0::/outside/of/this/container\n", encoding="utf-8")
    assert list(left_in_control_groups(groups, tmp_path)) == []
    assert available_bytes(torch.device("cpu")) > 0


def test_a_job_says_what_it_needs_and_what_there_is(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def large(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
        return Cost(1e12)

    with caplog.at_level(logging.INFO):
        model = open_for_job(folder, COMPUTE, 1, shared_prompts([5, 17]))
        open_for_job(folder, COMPUTE, 1, shared_prompts([5, 17]), large)
    assert depth_of(model) == 3
    small, planned, time = caplog.messages
    assert small[:40] == planned[:40]  # what is available may differ by now
    assert planned.startswith("Memory: 0.00 GiB planned, 0.00 GiB of weights and 0.00 GiB for 2 ")
    assert "2 prompts of up to 47 tokens; " in planned
    assert planned.endswith("GiB are available in main memory.")
    assert time.startswith("Time: about ")


def test_batches_that_will_not_fit_are_told_but_not_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, many = {**COMPUTE, "batch_tokens": 2**40}, pl.concat([shared_prompts([5])] * 99)
    monkeypatch.setattr(AVAILABLE, lambda *_: 2**20)
    with caplog.at_level(logging.WARNING):
        open_for_job(folder, compute, 1, many)
    (told,) = caplog.messages
    assert told.endswith("lower compute.batch_tokens if memory runs out.")


def test_a_prompt_that_can_not_fit_is_refused_with_figures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AVAILABLE, lambda *_: 2**20)
    prompts = shared_prompts([5, 6]).with_columns(tokens=2**14)
    refused = (
        r"0\.00 GiB of weights .* for a prompt of 16384 tokens .* in main memory; choose a smal"
    )
    with pytest.raises(InputError, match=refused):
        open_for_job(folder, COMPUTE, 1, prompts)
    open_for_job(folder, COMPUTE, 1, prompts.with_columns(skipped=prompts["task"]))


def test_a_model_that_is_too_large_is_refused_before_its_weights_are_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    AutoConfig.for_model("llama", num_attention_heads=64, **GIANT).save_pretrained(folder)
    with pytest.raises(InputError, match=r"models\.tiny: [0-9]{4,}\.[0-9]{2} GiB of weights in"):
        open_for_job(folder, COMPUTE, 1, shared_prompts([5]))


def test_on_a_gpu_all_weights_count_and_a_chunk_of_attention(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    card, gpu = {"name": "tiny", "dtype": "float32"}, torch.device("cuda")
    prompts = shared_prompts([5])
    monkeypatch.setattr(AVAILABLE, lambda *_: 2**30)
    with caplog.at_level(logging.INFO):
        check_job(card, SIZE, torch.float32, gpu, COMPUTE, prompts, Cost(1))
    assert "0.09 GiB for 1 prompts of up to 35 tokens" in caplog.messages[0]  # at most an eighth
    monkeypatch.setattr(AVAILABLE, lambda *_: 4 * SIZE.parameters - 1)
    with pytest.raises(InputError, match="are available on the GPU; "):
        check_job(card, SIZE, torch.float32, gpu, COMPUTE, prompts, Cost(1))
