"""Quantized weights are what they stand for, or refused by the name of their format."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, Mxfp4Config

from anchorflow.config.errors import InputError
from anchorflow.model.opening import open_model, read_card
from anchorflow.prepare.checkpoint import ENTRIES
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.quantized_weights import Quantization, dequantize, quantization_of
from anchorflow.prepare.untrained import make_untrained
from quantized_models import (
    FP8,
    WITH_PARTS,
    Tensors,
    from_fp8,
    linear,
    rewritten,
    to_4_bits,
    to_8_bits,
    to_fp8,
)
from resolved_models import resolve

CPU = torch.device("cpu")
UP = "model.layers.1.mlp.up_proj.weight"


def logits(folder: Path) -> torch.Tensor:
    """After the last of 40 random tokens, [V]."""
    tokens = torch.randint(0, 1200, (1, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        output: torch.Tensor = open_model(folder / "model", CPU)(tokens).logits[0, -1]
    return output


@pytest.mark.parametrize(("block", "dtype"), [(16, "float32"), (None, "bfloat16")])
def test_fp8_weights_give_the_numbers_of_a_plain_checkpoint_of_what_they_stand_for(
    tiny_model_directory: Path, tmp_path: Path, block: int | None, dtype: str
) -> None:
    told = {"quantization_config": {**FP8, "weight_block_size": block and [block, block]}}
    quantized, plain = (
        rewritten(tiny_model_directory, tmp_path / "quantized", to_fp8(block), **told),
        rewritten(tiny_model_directory, tmp_path / "plain", from_fp8(block)),
    )
    for folder in (quantized, plain):
        resolve(folder, dtype)
    assert logits(quantized).equal(logits(plain))
    found, expected = (
        dict(open_model(folder / "model", CPU).named_parameters()) for folder in (quantized, plain)
    )
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)
    card = read_card(quantized / "model")
    assert card["dequantized"]["format"] == "fp8"
    assert "model.safetensors" in card["files"]  # the numbers no longer depend on the source


@pytest.mark.parametrize("form", WITH_PARTS)
def test_every_format_gives_the_numbers_that_its_integers_stand_for(
    tiny_model_directory: Path, tmp_path: Path, form: str
) -> None:
    parts = WITH_PARTS[form]
    quantized = rewritten(
        tiny_model_directory, tmp_path, parts.quantize, quantization_config=parts.said
    )
    said = Quantization(parts.said["quant_method"], parts.said)
    dequantize("tiny", said, quantized / "source", torch.float32, tmp_path / "plain")
    expected = load_file(tiny_model_directory / "model.safetensors")
    parts.plain(expected)
    found = load_file(tmp_path / "plain" / "model.safetensors")
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].equal(expected[name]), name
    if form == "gptq":
        resolve(quantized, "bfloat16")
        stored = load_file(quantized / "model" / "model.safetensors")
        assert stored[UP].equal(expected[UP].bfloat16())
        assert read_card(quantized / "model")["dequantized"]["format"] == "gptq"


def groups_of(size: Any) -> dict[str, Any]:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": size}
    return {"config_groups": {"0": {"weights": weights}}}


SECOND = {"1": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 8}}}
TWO_KINDS = {"config_groups": {**WITH_PARTS["packed"].said["config_groups"], **SECOND}}


@pytest.mark.parametrize(
    ("form", "said", "reason"),
    [
        ("gptq", {"bits": 3}, "says gptq with bits 3, which is not dequantized here; name a"),
        ("gptq", {"checkpoint_format": "marlin"}, "with the format marlin"),
        ("gptq", {"format": "gptq_v2"}, "with the format gptq and gptq_v2"),
        ("gptq", {"is_marlin_format": True}, "with is_marlin_format True"),
        ("gptq", {"pack_dtype": "int16"}, "with pack_dtype int16"),
        ("gptq", {"group_size": None}, "with group_size None"),
        ("gptq", {"dynamic": {"layers.1": {"bits": 8}}}, "with dynamic, settings that differ"),
        ("awq", {"version": "GEMV"}, "with the format gemv"),
        ("awq", {"format": "gemv"}, "with the format gemv"),
        ("awq", {"checkpoint_format": "gemv_fast"}, "with the format gemv_fast"),
        ("awq", {"backend": "llm-awq"}, "with backend llm-awq"),
        ("awq", {"desc_act": True}, "with desc_act True"),
        ("awq", {"bits": 8}, "with bits 8"),
        ("packed", {"format": "marlin-24"}, "compressed-tensors with format marlin-24"),
        ("packed", {"transform_config": {"a": 1}}, "with transform_config"),
        ("packed", {"sparsity_config": {"format": "sparse-bitmask"}}, "with sparsity_config spars"),
        ("packed", {"config_groups": {}}, "with 0 kinds of weights"),
        ("packed", {"config_groups": [1]}, r"with config_groups [1]"),
        ("packed", {"config_groups": {"0": {"weights": 1}}}, "with config_groups {"),
        ("packed", {"format": ["pack-quantized"]}, "with format ['pack-quantized']"),
        ("packed", {"sparsity_config": [1]}, "with sparsity_config [1]"),
        ("packed", groups_of("16"), "with group_size 16"),
        ("packed", TWO_KINDS, "with 2 kinds of weights"),
    ],
)
def test_settings_that_are_not_followed_are_refused_before_weights_are_looked_for(
    tiny_model_directory: Path, tmp_path: Path, form: str, said: Any, reason: str
) -> None:
    whole = {**WITH_PARTS[form].said, **said}
    rewritten(tiny_model_directory, tmp_path, quantization_config=whole)
    (tmp_path / "source" / "model.safetensors").unlink()
    assert reason in refused(tmp_path)
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize(
    ("form", "ending", "tensor", "sentence"),
    [
        ("gptq", "scales", None, "qweight is stored as I32 without model.layers.1.mlp.up_proj.sca"),
        ("gptq", "g_idx", torch.full((32,), 2), "(g_idx names a group that there is not)"),
        ("gptq", "qzeros", torch.ones(1, 6).int(), "(there are not as many scales and zeros as gr"),
        ("gptq", "scales", torch.ones(2, 48).int(), "(torch.int32 is not one of torch.float32"),
        ("gptq", "weight", torch.ones(48, 32), f"has {UP} twice, plain and quantized"),
        ("awq", "qweight", torch.ones(16, 6).int(), "(there are not as many scales and zeros as g"),
        ("awq", "g_idx", torch.ones(32).int(), "up_proj.g_idx is stored as I32, so it is quantiz"),
        ("bitsandbytes-8", "SCB", None, "are no weight in the format bitsandbytes (there is no sc"),
        ("bitsandbytes-8", "weight_format", torch.tensor(1).byte(), "(weight_format 1 is not by r"),
        ("bitsandbytes-4", "weight.absmax", torch.ones(95), "(its quant_state says shape [48, 32]"),
        ("bitsandbytes-4", "weight", torch.ones(768, 1).char(), "(torch.int8 is not one of torch."),
        ("packed", "weight_shape", None, "(there is no weight_shape)"),
        ("packed", "weight_zero_point", None, "no weight_zero_point, which symmetric: false needs"),
        ("packed", "weight_shape", torch.tensor([48, 99]), "(weight_shape says [48, 99])"),
        ("packed", "weight_g_idx", torch.ones(32).int(), "weight_g_idx is stored as I32, so it i"),
        ("integers", "weight_scale", torch.ones(24, 1), "(there are not as many scales as blocks)"),
        ("integers", "weight_scale", torch.ones(1, 48), "(there are not as many scales as blocks)"),
    ],
)
def test_parts_of_a_weight_that_do_not_fit_are_refused(
    tiny_model_directory: Path, tmp_path: Path, form: str, ending: str, tensor: Any, sentence: str
) -> None:
    parts = WITH_PARTS[form]
    change = then(parts.quantize, **{ending: tensor})
    rewritten(tiny_model_directory, tmp_path, change, quantization_config=parts.said)
    assert sentence in refused(tmp_path)


def test_quantized_weights_that_may_be_transposed_are_refused(tmp_path: Path) -> None:
    said = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    config = AutoConfig.for_model("gpt2", n_embd=32, n_layer=1, n_head=2, quantization_config=said)
    with pytest.raises(InputError, match=r"GPT2LMHeadModel has layers \(Conv1D\) whose quantized"):
        quantization_of("tiny", config)


def test_blocks_of_gpt_oss_are_what_transformers_dequantizes(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 3}
    config = AutoConfig.for_model("gpt_oss", vocab_size=90, **sizes)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "whole")
    said = {"quantization_config": {"quant_method": "mxfp4"}}

    def to_mxfp4(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.endswith(("up_proj", "down_proj"))]:
            experts, inputs, outputs = tensors.pop(name).shape
            shape = (experts, outputs, inputs // 32)
            tensors[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
            tensors[f"{name}_scales"] = torch.randint(110, 126, shape, dtype=torch.uint8)

    source = rewritten(tmp_path / "whole", tmp_path, to_mxfp4, **said) / "source"
    for dtype in (torch.float32, torch.bfloat16):
        target = tmp_path / str(dtype)
        dequantize("tiny", Quantization("mxfp4", {}), source, dtype, target)
        expected = AutoModelForCausalLM.from_pretrained(
            source, quantization_config=Mxfp4Config(dequantize=True), dtype=dtype
        ).state_dict()
        found = load_file(target / "model.safetensors")
        assert found.keys() == expected.keys()
        assert all(found[name].to(dtype).equal(expected[name]) for name in expected)


def test_large_checkpoints_are_written_in_several_files_with_an_index(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anchorflow.prepare.quantized_weights._FILE", 20_000)
    rewritten(tiny_model_directory, tmp_path, to_fp8(16), quantization_config=FP8)
    resolve(tmp_path)
    parts = sorted(path.name for path in (tmp_path / "model").glob("*.safetensors"))
    assert len(parts) > 2 and parts[0] == "model-00001.safetensors"
    from_fp8(16)(expected := load_file(tiny_model_directory / "model.safetensors"))
    found = dict(open_model(tmp_path / "model", CPU).named_parameters())
    assert all(found[name].equal(expected[name]) for name in expected)


def test_a_full_disk_is_not_taken_for_damaged_weights(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError("No space left on device (os error 28)")

    monkeypatch.setattr("anchorflow.prepare.quantized_weights.save_file", full)
    rewritten(tiny_model_directory, tmp_path, to_fp8(16), quantization_config=FP8)
    with pytest.raises(InputError, match=r"model: no space left on the device; free some space"):
        resolve(tmp_path)
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_cut_off_is_told(tiny_model_directory: Path, tmp_path: Path) -> None:
    rewritten(tiny_model_directory, tmp_path, to_fp8(16), quantization_config=FP8)
    file = tmp_path / "source" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert "can't be read" in refused(tmp_path)


def test_experts_in_fp8_are_dequantized_before_they_are_joined(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    """In a file, experts are apart; transformers keeps them in one tensor per layer."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "qwen3_moe",
        **{"vocab_size": 1200, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8},
        **{"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    )
    for kind, change, told in (
        ("quantized", to_fp8(16), {"quantization_config": FP8}),
        ("plain", from_fp8(16), {}),
    ):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "experts")
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (tmp_path / "experts" / file).write_bytes((tiny_model_directory / file).read_bytes())
        resolve(rewritten(tmp_path / "experts", tmp_path / kind, change, **told))
    assert "model.layers.0.mlp.experts.3.up_proj.weight_scale_inv" in load_file(
        tmp_path / "quantized" / "source" / "model.safetensors"
    )
    assert logits(tmp_path / "quantized").equal(logits(tmp_path / "plain"))


@pytest.mark.parametrize("kind", ["initialized", "shuffled"])
def test_an_untrained_twin_of_a_quantized_model_is_not_quantized(
    tiny_model_directory: Path, tmp_path: Path, kind: str
) -> None:
    rewritten(tiny_model_directory, tmp_path, to_fp8(16), quantization_config=FP8)
    resolve(tmp_path)
    make_untrained(kind, 0, tmp_path / "model", tmp_path / "tokenizer", tmp_path / "twin")
    for folder in ("tokenizer", "model", "twin"):
        described = json.loads((tmp_path / folder / "config.json").read_text(encoding="utf-8"))
        assert not described.keys() & set(ENTRIES), folder
    tensors = load_file(tmp_path / "twin" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert not any("scale" in name for name in tensors)


def refused(folder: Path) -> str:
    """The sentence with which the folder's model is refused; nothing of it is left."""
    before = set(os.listdir(folder))
    with pytest.raises(InputError) as error:
        resolve(folder)
    assert set(os.listdir(folder)) - before <= {"tokenizer"}
    sentence = str(error.value)
    assert sentence.startswith("models.tiny: ")
    assert "\n" not in sentence
    return sentence


METHODS = (
    *("torchao", "hqq", "quanto", "auto-round", "quark", "fbgemm_fp8", "aqlm", "of tomorrow"),
)
NAMELESS = "a format without a name (quant_method)"


@pytest.mark.parametrize(
    ("entry", "described", "told"),
    [
        *(("quantization_config", {"quant_method": m}, f"the format {m}") for m in METHODS),
        ("quantization_config", {"bits": 4}, NAMELESS),
        ("quantization_config", {"quant_method": ["gptq"]}, "the format ['gptq']"),
        ("compression_config", {"format": "int-quantized"}, NAMELESS),
        ("quantization", {"group_size": 64, "bits": 4}, NAMELESS),
    ],
)
def test_other_formats_are_refused_by_name_before_weights_are_looked_for(
    tiny_model_directory: Path, tmp_path: Path, entry: str, described: Any, told: str
) -> None:
    rewritten(tiny_model_directory, tmp_path, **{entry: described})
    (tmp_path / "source" / "model.safetensors").unlink()
    sentence = refused(tmp_path)
    assert sentence.startswith(f"models.tiny: {entry} in its config.json says that its weights are")
    assert f" quantized in {told}, and only fp8, mxfp4, gptq, awq, " in sentence
    assert sentence.endswith(f", or delete {entry} if the weights are not quantized.")
    assert os.listdir(tmp_path) == ["source"]


def test_weights_that_become_quantized_after_the_tokenizer_was_resolved_are_refused(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    resolve(rewritten(tiny_model_directory, tmp_path / "before"))
    rewritten(tiny_model_directory, tmp_path, quantization_config={"quant_method": "hqq"})
    settings = {"source": "local", "path": str(tmp_path / "source"), "dtype": "float32"}
    with pytest.raises(InputError, match="quantized in the format hqq"):
        resolve_model("tiny", settings, tmp_path / "before" / "tokenizer", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("block", [0, [16], [16, 0], [16, "x"], [1, 2, 3]])
def test_blocks_that_make_no_sense_are_refused(
    tiny_model_directory: Path, tmp_path: Path, block: Any
) -> None:
    said = {**FP8, "weight_block_size": block}
    rewritten(tiny_model_directory, tmp_path, quantization_config=said)
    assert "neither two positive whole numbers nor null, which is not" in refused(tmp_path)


Change = Callable[[Tensors], None]


def then(quantize: Change, **tensors: torch.Tensor | None) -> Change:
    """Quantize, and put other tensors beside one weight; None removes them."""

    def change(all_tensors: Tensors) -> None:
        quantize(all_tensors)
        for ending, tensor in tensors.items():
            name = UP.removesuffix("weight") + ending
            if tensor is None:
                del all_tensors[name]
            else:
                all_tensors[name] = tensor

    return change


def nothing(_: Tensors) -> None:
    pass


def with_other_names(tensors: Tensors) -> None:
    """As other tools call the scales, also of inputs."""
    to_fp8(None)(tensors)
    for name in linear(tensors):
        tensors[f"{name}_scale"] = tensors.pop(f"{name}_scale_inv")


SCALES, PLAIN = torch.ones(3, 2), torch.ones(48, 32)
IN_FP8 = PLAIN.to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("change", "side", "sentence"),
    [
        (nothing, 16, "says fp8, but none of its tensors is; delete quantization_config if"),
        (to_8_bits, 16, "down_proj.weight is stored as I8 without model.layers.0.mlp.down_proj"),
        (
            then(to_fp8(16), weight_scale_inv=None),
            16,
            f"{UP} is stored as F8_E4M3 without {UP}_scale_inv; replace",
        ),
        # Each is multiplied by its scale in transformers, also if it is plain.
        (then(to_fp8(16), weight=PLAIN), 16, f"has the tensor {UP}_scale_inv, which Llama"),
        (
            then(nothing, weight=IN_FP8, weight_scale_inv=torch.ones(2, 2)),
            32,
            f"{UP} [48, 32], {UP}_scale_inv [2, 2] are no weight in the format fp8 (there are not",
        ),
        (
            then(to_fp8(16), weight_scale_inv=SCALES.to(torch.uint8)),
            16,
            f"{UP}_scale_inv [3, 2] are no weight in the format fp8 (torch.uint8 is not one of ",
        ),
        (with_other_names, 16, "down_proj.weight is stored as F8_E4M3 without model.la"),
        # Another name by which transformers also looks for it; it would not say which one.
        (then(to_fp8(16), scale=SCALES), 16, "has the tensor model.layers.1.mlp.up_proj.scale, wh"),
        # Without a configuration.
        (to_fp8(16), None, "proj.weight is stored as F8_E4M3, so it is quantized, and nothing in"),
        (to_8_bits, None, "proj.weight is stored as I8, so it is quantized, and nothing in its c"),
        (to_4_bits, None, "proj.g_idx is stored as I32, so it is quantized, and nothing in its c"),
        (then(nothing, weight_scale_inv=SCALES), None, f"has the tensor {UP}_scale_inv, which Ll"),
    ],
)
def test_weights_that_are_not_what_is_said_of_them_are_refused(
    tiny_model_directory: Path, tmp_path: Path, change: Change, side: int | None, sentence: str
) -> None:
    blocks = {"quantization_config": {**FP8, "weight_block_size": [side, side]}} if side else {}
    assert sentence in refused(rewritten(tiny_model_directory, tmp_path, change, **blocks))


def test_scales_in_a_file_of_their_own_count_too(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    """In an index, transformers reads all tensors of every file."""
    source = rewritten(tiny_model_directory, tmp_path) / "source"
    (source / "model.safetensors").rename(source / "first.safetensors")
    save_file({f"{UP}_scale_inv": torch.ones(3, 2)}, source / "second.safetensors")
    files = dict.fromkeys(load_file(source / "first.safetensors"), "first.safetensors")
    index = {"metadata": {}, "weight_map": {**files, f"{UP}_scale_inv": "second.safetensors"}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert f"has the tensor {UP}_scale_inv, which LlamaForCausalLM does not" in refused(tmp_path)
