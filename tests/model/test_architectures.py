"""Architectures: supported families pass, the others are refused by name and reason."""

from typing import Any

import pytest
from transformers import AutoConfig

from anchorflow.config.errors import InputError
from anchorflow.model.architectures import check_architecture
from tiny_families import tiny_config
from tiny_models import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_supported_families_are_accepted(family: str) -> None:
    kind, settings = FAMILIES[family]
    check_architecture("mine", tiny_config(kind, **settings))


NO_INTERFACE = "does not run through transformers' attention interface"
REASONS = {
    "adds ALiBi biases inside its attention": ("bloom", "mpt"),
    NO_INTERFACE: ("falcon", "mamba"),  # mamba has no attention to follow
    "attends in both directions": (
        "bert",
        "roberta",
        "xlm-roberta",
        "electra",
        "camembert",
        "bert-generation",
    ),
    "attends in chunks, with scaled queries": ("llama4_text",),
    "mixes attention with recurrent layers": ("recurrent_gemma",),
    "computes attention outside transformers' attention interface": ("ctrl",),
    "selects keys by a sparse indexer": ("deepseek_v32", "glm_moe_dsa"),
}
CASES = [(kind, {}, reason) for reason, kinds in REASONS.items() for kind in kinds] + [
    ("falcon", {"alibi": True}, "adds ALiBi biases inside its attention"),
    ("gpt2", {"reorder_and_upcast_attn": True}, "computes attention in its own mixed precision"),
]


@pytest.mark.parametrize(("kind", "settings", "reason"), CASES)
def test_others_are_refused_by_their_configuration(
    kind: str, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError) as error:
        check_architecture("mine", AutoConfig.for_model(kind, **settings))
    assert str(error.value).startswith(f"models.mine: the architecture {kind} {reason}")
    assert ", which is not supported; choose a model such as GPT-2, " in str(error.value)


@pytest.mark.parametrize("kind", ["t5", "vit", "distilbert"])
def test_models_that_predict_no_next_token_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match=f"^models.mine: {kind} is not a causal language model of"):
        check_architecture("mine", AutoConfig.for_model(kind))
