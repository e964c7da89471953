"""What a model needs in memory, what there is, and what is said where that is too little."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.measure.saliency import FlowSums, batch_saliency
from anchorflow.model import memory
from anchorflow.model.attention_function import gpu_chunk_bytes, intervene
from anchorflow.model.batches import batches_of
from anchorflow.model.language_model import decoder_layers, open_for_job, target_logits
from anchorflow.model.memory import (
    Shape,
    _Counted,
    available_bytes,
    check_job,
    left_in_control_groups,
    planned_bytes,
    read_bytes,
    shapes,
    weight_bytes,
    without_numbers,
    work_bytes,
)
from anchorflow.model.prefix import KeepKeys, compute_prefix, shared_token_ids
from anchorflow.store.checksums import fingerprints, write_json
from tiny_models import (
    FAMILIES,
    GIANT,
    PREFIX,
    VOCABULARY,
    random_batch,
    shared_prompts,
    tiny_model,
)

COMPUTE: dict[str, Any] = {"device": "cpu", "batch_tokens": 512, "recompute": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A resolved tiny model."""
    model = tiny_model("llama")
    model.save_pretrained(tmp_path)
    card = {"name": "tiny", "dtype": "float32", "files": fingerprints(tmp_path.glob("*.*"))}
    write_json(tmp_path / "model.json", card)
    return tmp_path


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_counted_as_they_are_stored(family: str) -> None:
    model = tiny_model(family)
    stored = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters()}
    assert weight_bytes(model.config, torch.float32) == sum(stored.values())
    assert weight_bytes(model.config, torch.bfloat16) == sum(stored.values()) // 2


def counted(model: PreTrainedModel, run: Callable[[], object]) -> int:
    """The most bytes that live at once while something real runs, weights aside."""
    counting = _Counted([*model.parameters(), *model.buffers()])
    with counting:
        run()
    return counting.most


def deepened(bare: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The model, said to have so many layers."""
    bare.config.num_hidden_layers = layers
    return bare


@pytest.mark.parametrize("family", FAMILIES)
def test_saliency_takes_what_was_planned(family: str) -> None:
    model, batch = tiny_model(family), random_batch([120, 120, 120])
    taken = counted(model, lambda: batch_saliency(model, batch, FlowSums(batch)))
    bare = without_numbers(model.config, torch.float32)
    assert work_bytes(bare, Shape(3, 120), gradients=True) == pytest.approx(taken, rel=0.1)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "gemma3"])
def test_each_layer_adds_what_its_backward_pass_keeps(family: str) -> None:
    """Counted by autograd itself: the tensors that one layer saves."""
    model, batch = tiny_model(family), random_batch([200])
    layers = decoder_layers(model)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: list[dict[int, int]] = []
    held: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held.append(tensor)  # so that no address is given out twice
        seen = weights.union(*kept[:-1])
        if kept and storage.data_ptr() not in seen:
            kept[-1][storage.data_ptr()] = storage.nbytes()
        return tensor

    for layer in layers:
        layer.register_forward_pre_hook(lambda *_: kept.append({}))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        batch_saliency(model, batch, FlowSums(batch))
    second = sum(kept[1].values())
    bare, shape = without_numbers(model.config, torch.float32), Shape(1, 200)
    shallow, deep = (work_bytes(deepened(bare, depth), shape, True) for depth in (7, 9))
    assert (deep - shallow) / 2 == pytest.approx(second, rel=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_and_values_take_what_was_planned(family: str) -> None:
    model, prompts = tiny_model(family), shared_prompts([40, 40, 40, 40])

    def run() -> None:
        prefix = compute_prefix(model, shared_token_ids(prompts))
        (batch,) = batches_of(prompts, 1000, model.device, prefix.tokens)
        kept = KeepKeys()
        with intervene(kept, prefix):
            target_logits(model, batch)

    planned = work_bytes(without_numbers(model.config, torch.float32), Shape(4, 40, PREFIX))
    assert planned == pytest.approx(counted(model, run), rel=0.1)


LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
UNUSUAL: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 8, **EXPERTS},
    # Values have other sizes than keys, and the first layer has no experts.
    "deepseek_v3": {
        **{"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
        **{"q_lora_rank": 16, "num_key_value_heads": 4, **LATENT, **EXPERTS},
    },
    # Every sixth layer has larger heads.
    "gemma4_text": {
        **{"num_hidden_layers": 6, "num_kv_shared_layers": 0, "sliding_window": 12},
        **{"head_dim": 8, "global_head_dim": 16, "hidden_size_per_layer_input": 8},
    },
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_experts_and_layers_that_differ_take_what_was_planned(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, kind, (kind, {**FAMILIES["llama"][1], **UNUSUAL[kind]}))
    if kind not in CONFIG_MAPPING:
        pytest.skip("unknown to this version of transformers")
    model, prompts = tiny_model(kind).to(dtype), shared_prompts([40, 40, 40, 40])
    batch = random_batch([120, 120, 120])

    def run() -> None:
        prefix = compute_prefix(model, shared_token_ids(prompts))
        (queries,) = batches_of(prompts, 1000, model.device, prefix.tokens)
        with intervene(KeepKeys(), prefix):
            target_logits(model, queries)

    bare = without_numbers(model.config, dtype)
    forward, backward = (
        work_bytes(bare, Shape(4, 40, PREFIX)),
        work_bytes(bare, Shape(3, 120), True),
    )
    assert forward == pytest.approx(counted(model, run), rel=0.1)
    taken = counted(model, lambda: batch_saliency(model, batch, FlowSums(batch)))
    assert backward == pytest.approx(taken, rel=0.1)


def test_every_setting_of_isolation_keeps_the_demonstrations_again() -> None:
    model = tiny_model("llama")
    prefix = compute_prefix(model, list(range(1, 65)))
    bare = without_numbers(model.config, torch.float32)
    one, three = (work_bytes(bare, Shape(2, 5, 64, copies)) for copies in (1, 3))
    assert three - one == 2 * prefix.bytes
    spec = {"variants": ["mask"], "positions": ["label"], "draws": 1, "layers": [1]}
    _, batch = shapes("isolation", spec, shared_prompts([5, 7]), 3, 20)
    assert batch[:3] == (2, 7, PREFIX)
    assert batch.copies == pytest.approx(1 + 1 + 1 / 3)  # from the first layer on, and the last


def test_recomputed_activations_take_less_and_leave_the_layers_as_they_were() -> None:
    bare = deepened(without_numbers(tiny_model("llama").config, torch.float32), 12)
    kept, recomputed, again = (
        work_bytes(bare, Shape(1, 90), gradients=True, recompute=how)
        for how in (False, True, False)
    )
    assert recomputed < kept / 2
    assert again == kept
    assert len(decoder_layers(deepened(bare, 3))) == 3


def test_weights_that_a_job_does_not_read_take_no_memory() -> None:
    def bytes_of(family: str) -> tuple[int, int, int]:
        bare = without_numbers(tiny_model(family).config, torch.float32)
        every = sum(parameter.nbytes for parameter in bare.parameters())
        return every, read_bytes(bare, gradients=False), read_bytes(bare, gradients=True)

    table = VOCABULARY * 32 * 4
    every, forward, backward = bytes_of("gptj")
    assert every - forward == table
    assert forward - backward == table  # of its head, the bias is read
    every, forward, backward = bytes_of("gpt2")  # its head is the embeddings of its tokens
    positions = 256 * 32 * 4
    assert (every - forward, forward - backward) == (positions, table)


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
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO):
        model = open_for_job(folder, COMPUTE, 1, shared_prompts([5, 17]))
        monkeypatch.setattr(memory, "WORTH_TELLING", 1000)
        open_for_job(folder, COMPUTE, 1, shared_prompts([5, 17]))
    assert model.config.num_hidden_layers == 3
    small, planned, needed = (record.getMessage() for record in caplog.records)
    assert small[:40] == planned[:40]  # what is available may differ by now
    assert planned.startswith("Memory: 0.00 GiB planned, 0.00 GiB of weights and 0.00 GiB for 2 ")
    assert "2 prompts of up to 47 tokens; " in planned
    assert planned.endswith("GiB are available in main memory.")
    assert needed.startswith("Time: 2 prompts of 41 tokens, 0.00 teraoperations in 2 passes: about")
    assert needed.endswith(" GB of weights per second.")


def test_batches_that_will_not_fit_are_told_but_not_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, many = {**COMPUTE, "batch_tokens": 2**40}, pl.concat([shared_prompts([5])] * 99)
    monkeypatch.setattr(memory, "available_bytes", lambda *_: 2**20)
    with caplog.at_level(logging.WARNING):
        open_for_job(folder, compute, 1, many)
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.endswith("lower compute.batch_tokens if memory runs out.")


def test_weights_that_are_open_on_a_gpu_need_no_memory_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, prompts = AutoConfig.from_pretrained(folder), shared_prompts([5])
    weights = weight_bytes(config, torch.float32)
    job = ("tiny", config, "float32", torch.device("cuda"), COMPUTE, prompts, "attention", {})
    monkeypatch.setattr(memory, "available_bytes", lambda *_: weights + 2**16)
    monkeypatch.setattr(memory, "planned_bytes", lambda *_: 2**15)
    check_job(*job)
    monkeypatch.setattr(memory, "available_bytes", lambda *_: 2**16)
    with pytest.raises(InputError, match="do not fit into the"):
        check_job(*job)
    check_job(*job, opened=True)


def test_without_a_plan_for_prompts_the_weights_alone_count(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JetMoE's experts, for example, need to know how many tokens each of them gets."""

    def fail(*_: Any) -> int:
        raise NotImplementedError("no data!")

    monkeypatch.setattr(memory, "planned_bytes", fail)
    with caplog.at_level(logging.INFO):
        open_for_job(folder, COMPUTE, 1, shared_prompts([5]))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "Memory: weights alone are planned, since tiny needs numbers: no data!"
    assert "0.00 GiB for 1 prompts of up to 35 tokens" in second
    monkeypatch.setattr(memory, "available_bytes", lambda *_: 1000)
    with pytest.raises(InputError, match=r"do not fit into the 0\.00 GiB"):
        open_for_job(folder, COMPUTE, 1, shared_prompts([5]))


def test_saliency_between_tokens_is_planned_for_one_prompt_at_a_time() -> None:
    prompts = shared_prompts([5, 17]).with_columns(demonstrations=pl.lit("per_example"))
    one, batch = shapes("token_saliency", {}, prompts, 3, 1000)
    assert one == batch == Shape(1, PREFIX + 17)
    assert shapes("saliency", {}, prompts, 3, 1000)[1].prompts == 2


def test_few_scores_take_less_of_a_gpu_than_its_largest_chunk() -> None:
    bare = without_numbers(tiny_model("llama").config, torch.float32)
    free, scores = 2**36, 2 * 4 * 10 * (30 + 10)  # prompts, heads, queries, keys
    small, large = Shape(2, 10, 30), Shape(64, 100, 2000)
    planned = [planned_bytes(bare, "attention", free, False, each) for each in (small, large)]
    # At most six float32 matrices of them at once.
    assert planned[0] - work_bytes(bare, small) == scores * 24
    assert planned[1] - work_bytes(bare, large) == gpu_chunk_bytes(free)


def test_a_prompt_that_can_not_fit_is_refused_with_figures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda *_: 2**20)
    prompts = shared_prompts([5, 6]).with_columns(tokens=2**14)
    refused = (
        r"models\.tiny: 0\.00 GiB of weights in float32 and 0\.[0-9]{2} GiB for a prompt of 16384 "
        r"tokens do not fit into the 0\.00 GiB that are available in main memory; "
        r'choose a smaller model, "dtype: bfloat16"'
    )
    with pytest.raises(InputError, match=refused):
        open_for_job(folder, COMPUTE, 1, prompts)
    open_for_job(folder, COMPUTE, 1, prompts.with_columns(skipped=prompts["task"]))


def test_a_model_that_is_too_large_is_refused_before_its_weights_are_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    AutoConfig.for_model("llama", num_attention_heads=64, **GIANT).save_pretrained(folder)
    with pytest.raises(InputError, match=r"models\.tiny: [0-9]{4,}\.[0-9]{2} GiB of weights in"):
        open_for_job(folder, COMPUTE, 1, shared_prompts([5]))
