"""Architectures: supported families pass, the others are refused by name and reason."""

from typing import Any

import pytest
from transformers import AutoConfig

from anchorflow.config.errors import InputError
from anchorflow.model.architectures import check_architecture
from tiny_families import tiny_config
from tiny_models import FAMILIES, HYBRIDS, KINDS


@pytest.mark.parametrize("family", [*FAMILIES, *KINDS, *HYBRIDS])
def test_supported_families_are_accepted(family: str) -> None:
    kind, settings = {**FAMILIES, **KINDS, **HYBRIDS}[family]
    check_architecture("mine", tiny_config(kind, **settings))


NO_INTERFACE = "does not run through transformers' attention interface"
REASONS = {
    NO_INTERFACE: ("openai-gpt",),
    "has no attention layers": ("mamba",),
    "shares one attention block between layers": ("zamba2",),
    "attends in both directions": (
        "bert",
        "roberta",
        "xlm-roberta",
        "electra",
        "camembert",
        "bert-generation",
    ),
    "attends to an encoder": ("blenderbot", "marian"),
    "subtracts one attention from another": ("diffllama",),
    "adds a position bias inside its attention": ("inkling_text",),
    "does not keep as many layers in a list as it counts": ("longcat_flash",),
    "has layers that attend to images alone": ("mllama",),
}
CASES = [(kind, {}, reason) for reason, kinds in REASONS.items() for kind in kinds] + [
    (
        "falcon",
        {"alibi": True},
        "adds ALiBi biases that transformers' two attentions don't agree on",
    ),
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
