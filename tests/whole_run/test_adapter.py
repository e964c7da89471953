"""A model with an adapter in a run: merged once, and anew if the adapter changes."""

import json
from collections.abc import Callable

import pytest
import torch
from safetensors.torch import save_file

from checkout import Checkout

LAYER = "model.layers.0.self_attn.v_proj"
SAID = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": [LAYER]}


@pytest.mark.long
def test_another_adapter_of_the_same_size_is_merged_anew(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    folder = checkout.folder / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(SAID), encoding="utf-8")

    def write(value: float) -> None:
        factors = {"A": torch.full((2, 32), value), "B": torch.ones(16, 2)}
        save_file(
            {f"base_model.model.{LAYER}.lora_{part}.weight": f for part, f in factors.items()},
            folder / "adapter_model.safetensors",
        )

    write(0.1)
    checkout.config["models"]["tiny"]["adapter"] = "adapter"
    checkout.snakemake("--cores", "2", "results/models/tiny")
    card = json.loads((checkout.folder / "results/models/tiny/model.json").read_text("utf-8"))
    assert set(card["adapter"]["files"]) == {"adapter_config.json", "adapter_model.safetensors"}
    assert not checkout.planned("results/models/tiny")
    write(0.2)
    planned = checkout.planned("results/models/tiny")
    assert any(message.startswith("Resolving the weights of tiny") for message in planned)
