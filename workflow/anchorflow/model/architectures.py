"""Which architectures are supported, determined from a model's configuration alone."""

from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING, PretrainedConfig

from anchorflow.config.errors import InputError
from anchorflow.model.layer_kinds import attention_layers, carries_state

# Compute attention outside transformers' attention interface; we adapt them to ours.
ADAPTED = ("gptj", "gpt_neo")

# Have attention that is not adapted yet, for which our attention function is wrong or fails.
NOT_ADAPTED = {
    "llama4": "attends in chunks, with scaled queries",
    "llama4_text": "attends in chunks, with scaled queries",
    "zamba": "shares one attention block between layers",
    "zamba2": "shares one attention block between layers",
    "ctrl": "computes attention outside transformers' attention interface",
}

# Attend in both directions, but are not in transformers' list of masked language models.
ENCODERS = ("bert-generation",)


def check_architecture(name: str, config: PretrainedConfig) -> None:
    """Reject, by its configuration alone, a model whose attention is not supported."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise InputError(
            f"models.{name}: {config.model_type} is not a causal language model of transformers; "
            "choose one that is."
        )
    model_class: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    reason = None
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        reason = "adds ALiBi biases inside its attention"
    elif config.model_type in ADAPTED:
        pass
    elif type(config) in MODEL_FOR_MASKED_LM_MAPPING or config.model_type in ENCODERS:
        reason = "attends in both directions"
    elif config.model_type in NOT_ADAPTED:
        reason = NOT_ADAPTED[config.model_type]
    elif getattr(config.get_text_config(), "index_topk", None):
        reason = "selects keys by a sparse indexer"
    elif getattr(config, "reorder_and_upcast_attn", False):
        reason = "computes attention in its own mixed precision (reorder_and_upcast_attn)"
    elif not attention_layers(config):
        reason = "has no attention layers"
    elif not (getattr(model_class, "is_backend_compatible", bool)() or carries_state(config)):
        reason = "does not run through transformers' attention interface"
    if reason is not None:
        raise InputError(
            f"models.{name}: the architecture {config.model_type} {reason}, which is not "
            "supported; choose a model such as GPT-2, GPT-J, Pythia, OPT, Llama, Mistral, Qwen, "
            "Gemma, Phi-3 or OLMo 2."
        )
