"""What a model needs in memory, what there is, and what is said where that is too little."""

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig

from anchorflow.config.errors import InputError
from anchorflow.measure.saliency import FlowSums, batch_saliency
from anchorflow.model.language_model import open_for_job
from anchorflow.model.memory import (
    available_bytes,
    left_in_control_groups,
    weight_bytes,
    work_bytes,
)
from anchorflow.model.prefix import compute_prefix
from anchorflow.store.checksums import fingerprints, write_json
from tiny_models import FAMILIES, GIANT, random_batch, shared_prompts, tiny_model

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


# The tiny GPT-NeoX's configuration names key-value heads that this architecture does not have.
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "gpt-neox"])
def test_every_layer_adds_its_keys_and_values_to_the_work(family: str) -> None:
    model = tiny_model(family)
    prefix = compute_prefix(model, list(range(1, 65)))
    deeper = copy.deepcopy(model.config)
    deeper.num_hidden_layers *= 2
    work, more = (work_bytes(config, torch.float32, 64) for config in (model.config, deeper))
    assert more - work == prefix.bytes


@pytest.mark.parametrize("family", FAMILIES)
def test_work_with_gradients_is_no_more_than_what_backward_passes_keep(family: str) -> None:
    model, batch = tiny_model(family), random_batch([200])
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}
    held: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held.append(tensor)  # so that no address is given out twice
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        batch_saliency(model, batch, FlowSums(batch))
    one_layer = work_bytes(model.config, torch.float32, 200)
    work = work_bytes(model.config, torch.float32, 200, gradients=True)
    assert sum(kept.values()) / 4 < work < sum(kept.values()) + one_layer


def test_recomputed_activations_take_less() -> None:
    config = tiny_model("llama").config
    kept, recomputed = (
        work_bytes(config, torch.float32, 9, gradients=True, recompute=again)
        for again in (False, True)
    )
    assert recomputed < kept / 2


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
    with caplog.at_level(logging.INFO):
        model = open_for_job(folder, COMPUTE, 1, shared_prompts([5, 17]))
    assert model.config.num_hidden_layers == 3
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith("Memory: 0.00 GiB of weights, and at least 0.00 GiB for the longest")
    assert "(47 tokens) or 0.00 GiB for a batch of 512 tokens; " in told
    assert told.endswith("GiB are available in main memory.")


def test_batches_that_will_not_fit_are_told_but_not_refused(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compute = {**COMPUTE, "batch_tokens": 2**40}
    with caplog.at_level(logging.WARNING):
        open_for_job(folder, compute, 1, shared_prompts([5]))
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.endswith("lower compute.batch_tokens if memory runs out.")


def test_a_prompt_that_can_not_fit_is_refused_with_figures(folder: Path) -> None:
    prompts = shared_prompts([5, 6]).with_columns(tokens=2**40)
    refused = (
        r"models\.tiny: 0\.00 GiB of weights in float32 and at least [0-9]{5,}\.[0-9]{2} GiB for a "
        r"prompt of 1099511627776 tokens do not fit into the [0-9.]+ GiB that are available in "
        r'main memory; choose a smaller model, "dtype: bfloat16"'
    )
    with pytest.raises(InputError, match=refused):
        open_for_job(folder, COMPUTE, 1, prompts)
    open_for_job(folder, COMPUTE, 1, prompts.with_columns(skipped=prompts["task"]))


def test_a_model_that_is_too_large_is_refused_before_its_weights_are_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    AutoConfig.for_model("llama", num_attention_heads=64, **GIANT).save_pretrained(folder)
    with pytest.raises(InputError, match=r"models\.tiny: [0-9]{4,}\.[0-9]{2} GiB of weights in"):
        open_for_job(folder, COMPUTE, 1, shared_prompts([5]))
