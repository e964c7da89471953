"""Tiny random models of every family of causal language models that transformers knows.

A family's own default configuration is made small by the names of its sizes. Keys are grouped,
sliding windows are shorter than the tests' prompts, and layers of all kinds that the family has
take turns. Only what names don't tell stands in ``_OWN``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

KINDS: tuple[str, ...] = tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
VOCABULARY = 97
LAYERS = 4
WINDOW = 12  # tokens that a sliding window or a chunk has
_LARGEST = 20_000_000  # parameters; with more, a size has kept its default

_SIZES: Mapping[str, int] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), LAYERS),
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "emb_dim", "word_embed_proj_dim"),
        32,
    ),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"), 48),
    **dict.fromkeys(
        ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 16
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "kv_heads", "kv_n_heads"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 256),
    **dict.fromkeys(("sliding_window", "attention_window", "window_size"), WINDOW),
    **dict.fromkeys(("local_attention_window_len", "attention_window_size"), WINDOW),
    **dict.fromkeys(("attention_chunk_size",), WINDOW),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group"), 1),
    **dict.fromkeys(("first_k_dense_replace", "n_shared_experts"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "index_topk", "mamba_d_head"), 16),
    **dict.fromkeys(("mamba_head_dim",), 16),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("hidden_size_per_layer_input", "chunk_size"), 8),
    **dict.fromkeys(("mamba_d_state", "ssm_state_size", "mamba_chunk_size"), 8),
    **dict.fromkeys(("linear_head_dim", "linear_key_head_dim", "linear_value_head_dim"), 8),
    **dict.fromkeys(("rotary_dim", "linear_num_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("linear_num_key_heads", "zero_expert_num"), 2),
    # With few heads, many scores would be 0, and the choice among their keys arbitrary.
    **dict.fromkeys(("index_n_heads", "index_head_dim"), 16),
}
# Sizes that a family derives from others unless they are given.
_DERIVED = ("intermediate_size", "n_inner", "head_dim", "num_key_value_heads", "q_lora_rank")
_ALTERNATING = {"layer_types": ["linear_attention", "full_attention"] * (LAYERS // 2)}
_WINDOWED = {"use_sliding_window": True, "max_window_layers": LAYERS // 2}
_ASSISTING = {
    "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
}  # without which it has no default

# What the names of a family's sizes don't tell.
_OWN: Mapping[str, Mapping[str, Any]] = {
    "bamba": {"attn_layer_indices": [1, 3]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8}},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": None,
        },
    },
    "dots3_note_audio_encoder": {"adapter_input_size": 32, "adapter_out_dim": 32},
    "dots3_note_vision_encoder": {
        "mlp_layer_types": ["dense"] * LAYERS,
        **{f"adapter_{way}_dim": 32 for way in ("in", "out")},
    },
    "dots3_note_text": {
        **{"head_dim": 16, "shared_experts_intermediate_size": 16},
        "layer_types": ["indexed_attention", "sliding_attention"] * (LAYERS // 2),
        **{f"swa_{name}": 16 for name in ("head_dim", "q_lora_rank", "kv_lora_rank")},
        **{f"swa_{name}": 4 for name in ("num_attention_heads", "num_key_value_heads")},
        **{f"swa_{name}": 8 for name in ("qk_nope_head_dim", "v_head_dim")},
    },
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {"num_kv_shared_layers": 2, "intermediate_size": 48, "laurel_rank": 4},
    "gemma4_text": {"num_kv_shared_layers": 2},
    "gemma4_unified_text": {"num_kv_shared_layers": 2},
    "gemma4_assistant": _ASSISTING,
    "gpt_neo": {"attention_types": [[["global", "local"], LAYERS // 2]], "window_size": WINDOW},
    "granitemoehybrid": _ALTERNATING,
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "longcat_flash": {"head_dim": 8},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", *["minimax_m3_sparse"] * (LAYERS - 1)],
        **{"index_block_size": 4, "index_topk_blocks": 4, "index_local_blocks": 1},
        **{"index_n_heads": 2, "index_head_dim": 8},
    },
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "full_attention", "moe", "full_attention"],
        "n_groups": 2,
    },
    "qwen2": _WINDOWED,
    "qwen3": _WINDOWED,
    "qwen4_exp_text": {
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8},
        **{"indexer_budget": 16, "indexer_compress_ratio": 2},
    },
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * (LAYERS // 2)},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * (LAYERS // 2)},
    "zaya": {"num_experts_per_tok": 1},
}


def tiny_config(kind: str, **changes: Any) -> PretrainedConfig:
    """The family's default configuration with tiny sizes, and with these changes."""
    default = AutoConfig.for_model(kind, **(_ASSISTING if kind == "gemma4_assistant" else {}))
    settings = {**_tiny_sizes(default), **changes}
    if "layer_types" in settings:
        kinds, layers = settings["layer_types"], settings["num_hidden_layers"]
        settings["layer_types"] = [kinds[layer % len(kinds)] for layer in range(layers)]
    return AutoConfig.for_model(kind, **settings)


def tiny_family(kind: str, **changes: Any) -> PreTrainedModel:
    """A random float32 model of the family with eager attention; the same in every call.

    Weights are far larger than initial ones, so that attention is uneven, and sinks take much.
    """
    config = tiny_config(kind, **changes)
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    size = sum(parameter.numel() for parameter in whole.parameters())
    if size > _LARGEST:
        raise ValueError(f"{kind} has {size} parameters; name the size that is left in _OWN.")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.25)
        elif name.endswith(("sinks", "sink_bias")):
            parameter.data.normal_(3, 1)
    model.requires_grad_(False)
    return model.eval()


def _tiny_sizes(default: PretrainedConfig) -> dict[str, Any]:
    given = default.to_dict()
    sizes: dict[str, Any] = {
        name: size
        for name, size in _SIZES.items()
        if type(given.get(name)) is int
        or (name in given and given[name] is None and name not in _DERIVED)
    }
    if "kv_lora_rank" in given:  # every head has keys of its own, of the two parts
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
        sizes.pop("head_dim", None)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if type(given.get(name)) is int and given[name] >= VOCABULARY:
            sizes[name] = 0
    if len(distinct := list(dict.fromkeys(given.get("layer_types") or ()))) > 1:
        sizes["layer_types"] = [distinct[layer % len(distinct)] for layer in range(LAYERS)]
    for name, part in vars(default).items():
        if isinstance(part, PretrainedConfig):
            sizes[name] = {**_tiny_sizes(part), "model_type": part.model_type}
    return sizes | dict(_OWN.get(default.model_type, {}))
