"""LoRA adapters are merged as peft merges them, or refused by what is not merged."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from anchorflow.config.errors import InputError
from anchorflow.config.named_models import write_out
from anchorflow.model.opening import open_model, read_card
from anchorflow.prepare.adapter import read_adapter
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.tokenizer import resolve_tokenizer
from quantized_models import FP8, rewritten, to_fp8
from tiny_models import tiny_model

LAYER, OTHER = "model.layers.1.self_attn.q_proj", "model.layers.2.mlp.down_proj"  # 32x32, 32x48
PLAIN = {
    **{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 6, "bias": "none"},
    **{"target_modules": [LAYER, OTHER], "rank_pattern": {"down_proj": 2}, "use_dora": False},
    **{"alpha_pattern": {r"layers\.1\.self_attn\.q_proj": 3}, "lora_dropout": 0.1},
}


def of_layers() -> dict[str, torch.Tensor]:
    """Factors of two layers, of rank 4 and 2."""
    torch.manual_seed(1)
    shapes = {LAYER: (4, 32, 32), OTHER: (2, 48, 32)}
    found = {}
    for layer, (rank, inputs, outputs) in shapes.items():
        found[f"base_model.model.{layer}.lora_A.weight"] = torch.randn(rank, inputs) / 8
        found[f"base_model.model.{layer}.lora_B.weight"] = torch.randn(outputs, rank) / 8
    return found


def adapter(folder: Path, tensors: dict[str, torch.Tensor] | None = None, **told: Any) -> Path:
    """An adapter in ``folder/adapter``; None leaves a key out."""
    (folder / "adapter").mkdir(parents=True)
    described = {key: value for key, value in {**PLAIN, **told}.items() if value is not None}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(described), encoding="utf-8")
    save_file(of_layers() if tensors is None else tensors, folder / "adapter" / WEIGHTS)
    return folder


WEIGHTS = "adapter_model.safetensors"


def resolve(model: Path, folder: Path, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """Prepare a model with the folder's adapter; its card."""
    settings = {"path": str(model), "adapter": str(folder / "adapter"), "dtype": dtype, **more}
    write_out(models := {"tiny": settings})
    resolve_tokenizer("tiny", models["tiny"], folder / "tokenizer")
    resolve_model("tiny", models["tiny"], folder / "tokenizer", folder / "model")
    return read_card(folder / "model")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scaled_products_are_added_to_the_weights(
    tiny_model_directory: Path, tmp_path: Path, dtype: str
) -> None:
    card = resolve(tiny_model_directory, adapter(tmp_path), dtype)
    merged = dict(open_model(tmp_path / "model", torch.device("cpu")).named_parameters())
    plain = AutoModelForCausalLM.from_pretrained(tiny_model_directory, dtype=getattr(torch, dtype))
    factors, expected = of_layers(), dict(plain.named_parameters())
    # lora_alpha / r: 3 / 4 where a pattern says 3, and 6 / 2 where another one says rank 2.
    for layer, scale in ((LAYER, 0.75), (OTHER, 3.0)):
        a, b = (factors[f"base_model.model.{layer}.lora_{part}.weight"] for part in "AB")
        whole = expected[f"{layer}.weight"].float() + scale * (b @ a)
        expected[f"{layer}.weight"] = whole.to(getattr(torch, dtype))
    assert merged.keys() == expected.keys()
    for name, weight in merged.items():
        assert torch.allclose(weight, expected[name], atol=1e-6), name
    assert card["adapter"]["directory"] == str((tmp_path / "adapter").resolve())
    assert set(card["adapter"]["files"]) == {"adapter_config.json", WEIGHTS}
    assert "model.safetensors" in card["files"] and "directory" not in card
    assert card["base"]["directory"] == str(tiny_model_directory.resolve())
    assert not (tmp_path / "model" / "base").exists()


def test_the_root_of_the_rank_scales_with_rslora(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    resolve(tiny_model_directory, adapter(tmp_path, use_rslora=True))
    merged = load_file(tmp_path / "model" / "model.safetensors")[f"{OTHER}.weight"]
    plain = load_file(tiny_model_directory / "model.safetensors")[f"{OTHER}.weight"]
    a, b = (of_layers()[f"base_model.model.{OTHER}.lora_{part}.weight"] for part in "AB")
    assert torch.allclose(merged, plain + 6 / math.sqrt(2) * (b @ a), atol=1e-6)


def test_an_adapter_of_a_quantized_model_is_added_to_what_it_stands_for(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    source = rewritten(tiny_model_directory, tmp_path, to_fp8(16), quantization_config=FP8)
    card = resolve(source / "source", adapter(tmp_path))
    assert card["dequantized"]["format"] == "fp8"
    quantized = load_file(source / "source" / "model.safetensors")
    name = f"{OTHER}.weight"
    scale = quantized[f"{name}_scale_inv"].repeat_interleave(16, 0).repeat_interleave(16, 1)
    a, b = (of_layers()[f"base_model.model.{OTHER}.lora_{part}.weight"] for part in "AB")
    expected = quantized[name].float() * scale + 3 * (b @ a)
    merged = load_file(tmp_path / "model" / "model.safetensors")[name]
    assert torch.allclose(merged, expected, atol=1e-6)
    assert {path.name for path in (tmp_path / "model").iterdir()} >= {"model.safetensors"}
    assert not (tmp_path / "model" / "base").exists()


def test_whole_tensors_take_the_place_of_the_model_s(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    head = torch.randn(1200, 32)
    tensors = {**of_layers(), "base_model.model.lm_head.weight": head}
    resolve(tiny_model_directory, adapter(tmp_path, tensors, modules_to_save=["lm_head"]))
    assert load_file(tmp_path / "model" / "model.safetensors")["lm_head.weight"].equal(head)


A = f"base_model.model.{LAYER}.lora_A.weight"


def renamed(old: str, new: str) -> dict[str, torch.Tensor]:
    return {name.replace(old, new): values for name, values in of_layers().items()}


def without_other() -> dict[str, torch.Tensor]:
    return {name: values for name, values in of_layers().items() if OTHER not in name}


def with_tensor(name: str, *shape: int) -> dict[str, torch.Tensor]:
    return {**of_layers(), f"base_model.model.{name}": torch.ones(*shape)}


@pytest.mark.parametrize(
    ("tensors", "told", "sentence"),
    [
        (None, {"peft_type": "IA3"}, "an adapter of the kind IA3, and only LORA is merged"),
        (None, {"peft_type": None}, "an adapter of the kind None, and only LORA"),
        (None, {"use_dora": True}, "use_dora in .* is true, and only plain LoRA is merged"),
        (None, {"loftq_config": {"loftq_bits": 4}}, "loftq_config in .* is {"),
        (None, {"init_lora_weights": "pissa"}, 'init_lora_weights in .* is "pissa", and only'),
        (None, {"target_parameters": ["experts"]}, r"target_parameters in .* is \[\"experts"),
        (None, {"of_tomorrow": 1}, "of_tomorrow in .* is 1, and only plain LoRA"),
        (None, {"r": 0}, "r in .* is no positive number"),
        (None, {"lora_alpha": "x"}, "lora_alpha in .* is no positive number"),
        (None, {"rank_pattern": {"(": 2}}, "'\\(' in .* is no regular expression"),
        (None, {"rank_pattern": ["q_proj"]}, "rank_pattern in .* does not give a positive number"),
        (None, {"alpha_pattern": {"q_proj": "16"}}, "alpha_pattern in .* does not give a positive"),
        (None, {"r": 8}, f"lora_A of {LAYER} has rank 4, and adapter_config.json says 8"),
        (renamed("base_model.model.", ""), {}, "has the tensor .*, for which the model has no p"),
        (renamed("q_proj", "w_proj"), {}, "w_proj.lora_A.weight, for which the model has no pla"),
        (renamed("lora_A", "lora_embedding_A"), {}, "lora_embedding_A.weight"),
        (with_tensor(f"{LAYER}.lora_magnitude_vector.weight", 32), {}, "lora_magnitude_vector.w"),
        (with_tensor(f"{LAYER}.lora_B.bias", 32), {}, "it has lora_A.weight, lora_B.bias, lora_B"),
        (with_tensor(f"{LAYER}.lora_B.bias", 32), {"lora_bias": True}, "it has lora_A|has a bias"),
        (with_tensor("lm_head.weight", 1300, 32), {}, "its lm_head.weight is .1300, 32. and the m"),
        (without_other(), {}, f"lacks the tensors of {OTHER}"),
        (None, {"target_modules": ["q_proj"]}, "lacks the tensors of model.layers.0.self_attn.q_p"),
        (None, {"modules_to_save": ["lm_head"]}, "lacks the tensors of lm_head"),
        ({}, {"target_modules": None}, "lacks the tensors of any layer"),
        ({**of_layers(), A: torch.ones(4, 31)}, {}, r"are \[32, 4\] and \[4, 31\], and its weight"),
    ],
)
def test_what_is_no_plain_lora_of_the_model_is_refused(
    tiny_model_directory: Path, tmp_path: Path, tensors: Any, told: Any, sentence: str
) -> None:
    adapter(tmp_path, tensors, **told)
    with pytest.raises(InputError, match=rf"^models\.tiny\.adapter: .*{sentence}"):
        resolve(tiny_model_directory, tmp_path)
    assert not (tmp_path / "model").exists()


def test_what_would_change_embedding_and_head_is_refused(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    def tie(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["lm_head.weight"]

    source = rewritten(tiny_model_directory, tmp_path, tie, tie_word_embeddings=True) / "source"
    same = load_file(source / "model.safetensors")["model.embed_tokens.weight"]
    embedding = "base_model.model.model.embed_tokens.weight"
    tensors = {**of_layers(), embedding: same}
    resolve(source, adapter(tmp_path / "same", tensors))  # peft writes it along
    adapter(tmp_path / "other", {**tensors, embedding: same + 1})
    with pytest.raises(InputError, match=r"it changes model\.embed_tokens.weight, which the model"):
        resolve(source, tmp_path / "other")
    factors = {"lora_A": torch.ones(4, 32), "lora_B": torch.ones(1200, 4)}
    head = {f"base_model.model.lm_head.{part}.weight": values for part, values in factors.items()}
    adapter(tmp_path / "head", head, target_modules=["lm_head"])
    with pytest.raises(
        InputError, match=r"it changes lm_head\.weight, which the model has as embe"
    ):
        resolve(source, tmp_path / "head")


def test_an_adapter_of_another_model_of_the_hub_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = adapter(tmp_path, base_model_name_or_path="org/Base") / "adapter"
    hub: dict[str, Any] = {"source": "hub", "repository": "org/base"}
    read_adapter("m", hub, folder)
    read_adapter("m", {"source": "local", "path": "copies/base"}, folder)
    assert not caplog.records
    read_adapter("m", {"source": "local", "path": "copies/another"}, folder)
    assert "it was trained on org/Base; the model is copies/another" in caplog.text
    with pytest.raises(InputError, match=r"it was trained on org/Base, says .*, and the model"):
        read_adapter("m", {**hub, "repository": "org/other"}, folder)


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("llama", {"target_modules": "all-linear", "r": 3, "lora_alpha": 5}),
        ("gpt2", {"target_modules": ["c_attn", "c_proj"], "lora_bias": True, "bias": "all"}),
        ("qwen2", {"target_modules": ["q_proj"], "bias": "lora_only", "use_rslora": True}),
        (
            "llama",
            {
                **{"target_modules": ["q_proj", "up_proj"], "modules_to_save": ["lm_head"]},
                **{"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"layers.0.mlp.up_proj": 1}},
            },
        ),
    ],
)
def test_merged_weights_are_those_of_peft(tmp_path: Path, family: str, told: Any) -> None:
    peft = pytest.importorskip("peft")
    from anchorflow.prepare.adapter import merge

    torch.manual_seed(0)
    made = peft.get_peft_model(
        tiny_model(family), peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **told)
    )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.requires_grad and "lora_" not in name:
                parameter += torch.randn_like(parameter) / 8  # as training changes them
    made.save_pretrained(tmp_path)
    model = tiny_model(family)
    if family == "llama":
        assert not model.config.tie_word_embeddings
    settings = {"source": "local", "path": "m", "adapter": {"source": "local"}}
    merge("m", settings, tmp_path, model)
    expected = dict(made.merge_and_unload().named_parameters())
    changed = dict(tiny_model(family).named_parameters())
    for name, weight in model.named_parameters():
        assert torch.allclose(weight, expected[name], atol=1e-6), name
    assert any(not weight.equal(changed[name]) for name, weight in model.named_parameters())
