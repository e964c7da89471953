"""Architectures: supported families pass, the others are refused by name and reason."""

from typing import Any

import pytest
from transformers import AutoConfig, PretrainedConfig

from anchorflow.config.errors import InputError
from anchorflow.model.architectures import check_architecture
from tiny_models import FAMILIES


def configuration(kind: str, **settings: Any) -> PretrainedConfig:
    return AutoConfig.for_model(kind, **settings)


def refused(kind: str, **settings: Any) -> str:
    """The sentence with which a model called "mine" is refused."""
    with pytest.raises(InputError) as error:
        check_architecture("mine", configuration(kind, **settings))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_supported_families_are_accepted(family: str) -> None:
    kind, settings = FAMILIES[family]
    config = configuration(kind, **settings)
    check_architecture("mine", config)
    assert config.model_type == kind


@pytest.mark.parametrize("kind", ["bloom", "mpt"])
def test_models_with_alibi_are_refused(kind: str) -> None:
    assert refused(kind) == (
        f"models.mine: the architecture {kind} adds ALiBi biases inside its attention, which is "
        "not supported; choose a model such as GPT-2, GPT-J, Pythia, OPT, Llama, Mistral, Qwen, "
        "Gemma, Phi-3 or OLMo 2."
    )


def test_falcon_is_refused_with_and_without_alibi() -> None:
    assert "the architecture falcon adds ALiBi biases" in refused("falcon", alibi=True)
    assert "the architecture falcon does not run through" in refused("falcon", alibi=False)


def test_mamba_is_refused_since_it_has_no_attention_to_follow() -> None:
    assert refused("mamba").startswith(
        "models.mine: the architecture mamba does not run through transformers' attention interface"
    )


@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "xlm-roberta", "electra", "camembert", "bert-generation"]
)
def test_models_that_attend_in_both_directions_are_refused(kind: str) -> None:
    assert refused(kind).startswith(
        f"models.mine: the architecture {kind} attends in both directions, which is not supported;"
    )


@pytest.mark.parametrize("kind", ["t5", "vit", "distilbert"])
def test_models_that_predict_no_next_token_are_refused(kind: str) -> None:
    assert refused(kind) == (
        f"models.mine: {kind} is not a causal language model of transformers; choose one that is."
    )


def test_gpt2_with_attention_in_mixed_precision_is_refused() -> None:
    sentence = refused("gpt2", reorder_and_upcast_attn=True)
    assert "the architecture gpt2 computes attention in its own mixed precision" in sentence


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("llama4_text", "attends in chunks"),
        ("recurrent_gemma", "mixes attention with recurrent layers"),
        ("ctrl", "computes attention outside transformers' attention interface"),
        ("deepseek_v32", "selects keys by a sparse indexer"),
        ("glm_moe_dsa", "selects keys by a sparse indexer"),
    ],
)
def test_models_that_are_not_adapted_are_refused_by_their_configuration(
    kind: str, reason: str
) -> None:
    with pytest.raises(InputError, match=f"models.m: the architecture {kind} {reason}"):
        check_architecture("m", AutoConfig.for_model(kind))
