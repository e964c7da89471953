"""Every tensor of a checkpoint is used, once; those that older files hold in vain are known."""

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from anchorflow.config.errors import InputError
from anchorflow.prepare.checkpoint import (
    Stored,
    check_gguf_tensors,
    check_tensors,
    check_tied,
    model_directory,
    stored_tensors,
)
from tiny_models import EVERY_FAMILY, tiny_model

Headers = dict[str, Stored]
UP = "model.layers.1.mlp.up_proj.weight"
HERE = Path("here")


def headers(family: str, folder: Path) -> Headers:
    """What a family's file holds, under the names that transformers gives it in files."""
    tiny_model(family, eager=True).save_pretrained(folder)
    return stored_tensors("tiny", folder)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_whatever_a_file_of_the_family_holds_is_used(family: str, tmp_path: Path) -> None:
    model = tiny_model(family, eager=True)
    tensors = headers(family, tmp_path)
    check_tensors("tiny", model.config, tensors, HERE)
    left_out = next(name for name, stored in tensors.items() if len(stored.shape) == 2)
    del tensors[left_out]
    with pytest.raises(InputError, match=r"^models\.tiny: here lacks the weights .*random; repl"):
        check_tensors("tiny", model.config, tensors, HERE)


def with_and_without_prefix(tensors: Headers) -> None:
    tensors[UP.removeprefix("model.")] = tensors[UP]


def renamed(tensors: Headers) -> None:
    tensors["model.layers.1.mlp.upper_proj.weight"] = tensors.pop(UP)


ONE, BIAS = Stored("F32", (1,)), Stored("F32", (32,))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"model.layers.1.mlp.up_proj.scale": ONE},
            "here has the tensor model.layers.1.mlp.up_proj.scale, which LlamaForCausalLM does not "
            "use, so it may be quantized or of another architecture; name a checkpoint all of",
        ),
        ({"v_head.summary.weight": ONE}, "here has the tensor v_head.summary.weight, which Llama"),
        (renamed, f"here lacks the weights {UP}, which would be random; replace it with a comp"),
        (with_and_without_prefix, f"here has both {UP.removeprefix('model.')} and {UP}, which are"),
        ({UP.replace("1", "3"): ONE}, "here has weights of layers that its configuration does not"),
        ({UP: Stored("F32", (32, 48))}, "the weights in here can't be read (their sizes differ fr"),
        # It has the name of a mask, but not its shape.
        ({"model.layers.1.attn.bias": BIAS}, "here has the tensor model.layers.1.attn.bias, which"),
    ],
)
def test_tensors_that_do_not_match_the_model_are_named(
    tmp_path: Path, change: Headers | Callable[[Headers], None], sentence: str
) -> None:
    tensors = headers("llama", tmp_path)
    if callable(change):
        change(tensors)
    else:
        tensors |= change
    with pytest.raises(InputError) as error:
        check_tensors("tiny", tiny_model("llama").config, tensors, HERE)
    assert str(error.value).startswith(f"models.tiny: {sentence}")
    assert "\n" not in str(error.value)


def masks(prefix: str, attention: str) -> Headers:
    """The causal mask of each layer, in bytes, and the score where it hides."""
    held = {"bias": Stored("U8", (1, 1, 256, 256)), "masked_bias": Stored("F32", ())}
    return {f"{prefix}.{n}.{attention}.{name}": held[name] for n in range(3) for name in held}


@pytest.mark.parametrize(
    ("family", "held"),
    [
        ("gpt2", {"lm_head.weight": Stored("F32", (97, 32))}),  # tied, and stored all the same
        ("gpt2", masks("h", "attn")),
        ("gptj", masks("transformer.h", "attn")),
        ("gpt-neo", masks("transformer.h", "attn.attention")),
        ("gpt-neox", masks("gpt_neox.layers", "attention")),
        ("llama", {"model.layers.0.self_attn.rotary_emb.inv_freq": Stored("F32", (4,))}),
        ("opt", {"model.decoder.position_ids": Stored("I64", (1, 256))}),
    ],
)
def test_what_older_files_hold_in_vain_is_left_out(
    tmp_path: Path, family: str, held: Headers
) -> None:
    tensors = headers(family, tmp_path)
    assert not tensors.keys() & held.keys()
    check_tensors("tiny", tiny_model(family, eager=True).config, {**tensors, **held}, HERE)


def test_files_of_a_model_without_its_head_may_leave_out_its_prefix(tmp_path: Path) -> None:
    """As GPT-2's own."""
    tensors = headers("gpt2", tmp_path)
    bare = {name.removeprefix("transformer."): stored for name, stored in tensors.items()}
    assert "wte.weight" in bare
    check_tensors("tiny", tiny_model("gpt2").config, bare, HERE)


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": {"a": 1}}', '{"weight_map": []}'])
def test_an_index_that_names_no_files_is_told(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(InputError, match=r"can't be read \(model.safetensors.index.json does not"):
        stored_tensors("tiny", tmp_path)


def test_a_tensor_in_two_files_of_an_index_is_told(tmp_path: Path) -> None:
    """Which one transformers takes depends on the files' order."""
    tensors = {UP: torch.ones(48, 32)}
    for file in ("first", "second"):
        save_file(tensors, tmp_path / f"{file}.safetensors")
    index = {"weight_map": {UP: "first.safetensors", "lm_head.weight": "second.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(InputError, match=rf"has the tensor {UP} in several files; replace it"):
        stored_tensors("tiny", tmp_path)
    save_file(tensors, tmp_path / "model.safetensors")  # which then is the only one to be read
    assert stored_tensors("tiny", tmp_path) == {UP: Stored("F32", (48, 32))}


def test_adapters_beside_the_weights_are_told(tmp_path: Path) -> None:
    """Only where peft is installed, transformers would add them."""
    headers("llama", tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"has adapters \(adapter_config\.json\), which are not"):
        stored_tensors("tiny", tmp_path)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_another_head_than_the_tied_one_is_told(family: str, tmp_path: Path) -> None:
    model = tiny_model(family)
    model.config.tie_word_embeddings = True
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights["lm_head.weight"] = model.get_input_embeddings().weight.detach().clone()
    save_file(weights, tmp_path / "model.safetensors")
    check_tied("tiny", model.config, tmp_path, tmp_path)
    weights["lm_head.weight"] += 1
    save_file(weights, tmp_path / "model.safetensors")
    said = 'stores another head, lm_head.weight; write "tie_word_embeddings": false into'
    with pytest.raises(InputError, match=said):
        check_tied("tiny", model.config, tmp_path, tmp_path)
    model.config.tie_word_embeddings = False
    check_tied("tiny", model.config, tmp_path, tmp_path)


NAMES = (
    *(("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")),
    *(("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")),
    *(("self_attn.o_proj", "attn_output"), ("self_attn.", "attn_"), ("mlp.", "ffn_")),
    *(("_proj", ""), ("model.layers", "blk")),
)


def test_tensors_of_a_gguf_file_that_are_passed_over_are_named(tmp_path: Path) -> None:
    """Llama 3 in GGUF holds the scaling of its rotary frequencies in a tensor."""
    tiny_model("llama").save_pretrained(tmp_path)
    tensors = {}
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        for theirs, own in NAMES:
            name = name.replace(theirs, own)
        tensors[name] = tensor.numpy()
    assert "blk.2.ffn_up.weight" in tensors

    def check(further: dict[str, np.ndarray]) -> None:
        writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
        for name, tensor in {**tensors, **further}.items():
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        check_gguf_tensors("tiny", tiny_model("llama"), tmp_path / "model.gguf")

    check({})
    with pytest.raises(InputError, match=r"^models\.tiny: its GGUF file has rope_freqs\.weight, w"):
        check({"rope_freqs.weight": np.ones(4, np.float32)})


def test_a_gguf_file_without_a_checksum_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    settings = {"source": "gguf", "files": [str(tmp_path / "m.gguf")]}
    with model_directory("tiny", settings, weights=False) as (folder, more):
        assert (folder / more["gguf_file"]).read_bytes() == b"GGUF"
    settings["sha256"] = "0" * 64
    with (
        pytest.raises(InputError, match=r"models\.tiny\.sha256: the GGUF file has the checksum "),
        model_directory("tiny", settings, weights=False),
    ):
        pass


def test_an_adapter_of_the_hub_without_its_model_is_told_with_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = '{"base_model_name_or_path": "org/base"}'
    (tmp_path / "adapter_config.json").write_text(described, encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: tmp_path)
    settings = {"source": "hub", "repository": "org/lora", "revision": "a" * 40}
    with (
        pytest.raises(InputError, match=r"\{repository: org/base, adapter: org/lora\}\}\.$"),
        model_directory("tiny", settings, weights=False),
    ):
        pass
