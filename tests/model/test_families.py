"""Families of models against plain eager attention: one of each kind, and all in the long tests."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from anchorflow.model import attention_function
from anchorflow.model.attention_function import AttentionCall, adopt
from anchorflow.model.logits import target_logits
from family_checks import COMPARED, EXACT, Pair, check_runs, difference
from family_sweep import FILE, outcome_of
from plain_softmax import plain_logits
from tiny_families import KINDS, LAYERS, tiny_family
from tiny_models import random_batch, single

FOUND: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
ROWS = {row["family"]: row for row in FOUND["families"]}


def of_each_kind() -> list[str]:
    """Few accepted families that have every kind of attention among them."""
    kinds = {name: set(row["attention"]) for name, row in ROWS.items() if "attention" in row}
    left, chosen = set().union(*kinds.values()), []
    while left:
        most = max(kinds, key=lambda name: len(kinds[name] & left))
        chosen.append(most)
        left -= kinds[most]
    return chosen


BRIEFLY = of_each_kind()
OTHERS = [pytest.param(kind, marks=pytest.mark.long) for kind in KINDS if kind not in BRIEFLY]


def outcome(row: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on rounding."""
    return {name: value for name, value in row.items() if name != "difference"}


def test_the_documentation_has_the_families_of_this_version() -> None:
    assert FOUND["transformers"] == transformers.__version__, "run make families"
    assert tuple(ROWS) == KINDS


@pytest.mark.parametrize("kind", [*BRIEFLY, *OTHERS])
def test_every_family_is_as_the_documentation_says(kind: str) -> None:
    """Exact, limited, or refused by its configuration, never by an error or after loading."""
    found = outcome_of(kind)
    assert outcome(found) == outcome(ROWS[kind])
    assert "late" not in found
    if "attention" in found:
        check_runs(kind)


def other_scale(call: AttentionCall) -> AttentionCall:
    return replace(call, scaling=call.scaling * (1.02 if call.layer == 1 else 1))


def wider_window(call: AttentionCall) -> AttentionCall:
    window = call.sliding_window
    return call if window is None else replace(call, sliding_window=window + 1)


@pytest.fixture(scope="module")
def windowed() -> Pair:
    return Pair("gemma2")


@pytest.mark.parametrize("change", [other_scale, wider_window])
@pytest.mark.parametrize("name", COMPARED)
def test_every_comparison_finds_another_scale_and_another_window(
    windowed: Pair,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[AttentionCall], AttentionCall],
) -> None:
    right = attention_function._call
    assert COMPARED[name](windowed) < EXACT
    monkeypatch.setattr(attention_function, "_call", lambda *a, **k: change(right(*a, **k)))
    assert COMPARED[name](windowed) > 10 * EXACT


def test_the_reference_is_transformers_own_attention_unless_it_is_changed() -> None:
    model = tiny_family("gemma2")
    ids = random_batch([40]).input_ids
    plain = model(input_ids=ids, use_cache=False, output_attentions=True)
    logits, softmax = plain_logits(model, ids[0].tolist())
    assert torch.equal(logits, plain.logits[0, -1])
    assert len(softmax.weights) == LAYERS
    for ours, theirs in zip(softmax.weights, plain.attentions, strict=True):
        assert torch.equal(ours, theirs[0])

    def first_key(_: int, heads: int) -> Tensor:
        return (torch.arange(40) == 0).expand(heads, 40, 40) & (torch.arange(40) == 39)[:, None]

    _, without = plain_logits(model, ids[0].tolist(), hidden=first_key)
    full, left = softmax.weights[1][:, -1], without.weights[1][:, -1]
    assert left[:, 0].count_nonzero() == 0 < full[:, 0].count_nonzero()
    assert difference(left.sum(-1), torch.ones(4)) < 1e-6


@pytest.mark.parametrize(
    "kind",
    [kind for kind in ("mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss") if "model" in ROWS[kind]],
)
def test_experts_of_a_prompt_are_those_that_it_has_alone(kind: str) -> None:
    """Other prompts and padding in the batch change its logits by rounding alone."""
    model, batch = tiny_family(kind), random_batch([23, 41, 19, 30])
    adopt(model)
    with torch.no_grad():
        together = target_logits(model, batch)
        for row in range(batch.size):
            alone = target_logits(model, single(batch, row))[0]
            assert difference(together[row], alone) < 1e-5
