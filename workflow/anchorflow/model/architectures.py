"""Which architectures are supported, determined from a model's configuration alone."""

from typing import Any

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoModelForCausalLM,
    PretrainedConfig,
)

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import BIAS, arguments_of, attending, names_in
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import decoder_layers

# What only a name can tell.
NOT_ADAPTED = {
    "deepseek_v4": "attends to compressed keys besides those of tokens",
    "diffllama": "subtracts one attention from another",
    "doge": "adds a bias to its attention that it computes from its values",
    "hrm_text": "runs its layers several times",
    "zaya": "mixes neighboring tokens into its queries and keys",
    "zamba": "shares one attention block between layers",
    "zamba2": "shares one attention block between layers",
}

# Attend in both directions, but are not in transformers' list of masked language models.
ENCODERS = ("bert-generation",)


def check_architecture(name: str, config: PretrainedConfig) -> None:
    """Reject, by its configuration alone, a model whose attention is not supported."""
    if not _predicts_text(config):
        raise InputError(
            f"models.{name}: {config.model_type} is not a causal language model of transformers; "
            "choose one that is."
        )
    reason = _reason_against(config)
    if reason is not None:
        raise InputError(
            f"models.{name}: the architecture {config.model_type} {reason}, which is not "
            "supported; choose a model such as GPT-2, GPT-J, Pythia, OPT, Llama, Mistral, Qwen, "
            "Gemma, Phi-3 or OLMo 2."
        )


def _predicts_text(config: PretrainedConfig) -> bool:
    """Whether transformers has a causal language model of such a configuration.

    Of some models, transformers lists only a configuration that holds this one. As it builds the
    model from this one, it is told so, and then also opens what such a model saves.
    """
    kind = type(config)
    if kind in MODEL_FOR_CAUSAL_LM_MAPPING:
        return True
    for whole in MODEL_FOR_CAUSAL_LM_MAPPING:
        if (getattr(whole, "sub_configs", None) or {}).get("text_config") is kind:
            model = MODEL_FOR_CAUSAL_LM_MAPPING[whole]
            if getattr(model, "config_class", None) is kind:
                AutoModelForCausalLM.register(kind, model, exist_ok=True)
                return True
    return False


def _reason_against(config: Any) -> str | None:
    if config.model_type in NOT_ADAPTED:
        return NOT_ADAPTED[config.model_type]
    if getattr(type(config), "is_encoder_decoder", False):  # also where only the decoder is left
        return "attends to an encoder"
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING or config.model_type in ENCODERS:
        return "attends in both directions"
    if getattr(config, "reorder_and_upcast_attn", False):
        return "computes attention in its own mixed precision (reorder_and_upcast_attn)"
    if getattr(config, "alibi", False):  # Falcon; transformers' eager attention adds them twice
        return "adds ALiBi biases that transformers' two attentions don't agree on"
    if hasattr(config, "backbone_hidden_size"):
        return "drafts for another model"
    try:
        if not attention_layers(config):
            return "has no attention layers"
        with torch.device("meta"):  # without weights
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    except Exception as error:  # of any kind, since each class builds itself
        why = str(error).strip().splitlines() or [type(error).__name__]
        return f"can't be built from its configuration ({why[0].strip()})"
    modules = attending(model)
    if not modules:
        return "does not run through transformers' attention interface"
    if any(BIAS in arguments_of(module) for module in modules):
        return "adds a position bias inside its attention"
    text = config.get_text_config()
    windowed = getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True)
    masked = any("create_sliding_window_causal_mask" in names_in(part) for part in model.modules())
    if windowed and masked and not any("sliding_window" in arguments_of(m) for m in modules):
        return "applies its sliding window in its mask alone"
    if getattr(text, "cross_attention_layers", None):
        return "has layers that attend to images alone"
    try:
        decoder_layers(model)
    except InputError:
        return "does not keep as many layers in a list as it counts"
    return None
