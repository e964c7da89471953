"""Claims on attention heads: where each holds, and where it fails."""

import numpy as np
import polars as pl
import pytest

from anchorflow.claims.claim import NotMeasured, Run
from anchorflow.claims.sections import heads as section
from constructed.heads import ablation, beta, heads

CLAIMS = {claim.name: claim for claim in section.CLAIMS}
INTACT, ALONE = [1, 1, 1, 1], [0, 1, 0, 1]
SHARES = (0.1, 0.2)


def effect(name: str, **tables: object) -> float:
    run = Run("news", tables, "mask", 1.0)  # type: ignore[arg-type]
    return float(CLAIMS[name].measure(run).effect.values[0])


def taken(score: str, heads_of: list[int], random: list[int]) -> dict[tuple, list[int]]:
    both = ((False, heads_of), (True, random))
    return {(score, control, 0, share): right for share in SHARES for control, right in both}


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("label_copy_is_needed", "label_copy"),
        ("learning_chooses_labels", "task_learning_share"),
        ("recognition_keeps_labels", "task_recognition_share"),
    ],
)
def test_heads_are_needed_if_random_ones_are_not(name: str, score: str) -> None:
    needed = ablation(taken(score, [0, 0, 0, 1], INTACT), INTACT, ALONE)
    assert effect(name, ablation=needed) == pytest.approx(0.75)
    alike = ablation(taken(score, [0, 0, 1, 1], [1, 1, 0, 0]), INTACT, ALONE)
    assert effect(name, ablation=alike) == pytest.approx(0)
    other = ablation(taken("direct", INTACT, INTACT), INTACT, ALONE)
    with pytest.raises(NotMeasured, match=f"does not take away the heads of the highest {score}"):
        effect(name, ablation=other)


def test_where_demonstrations_do_not_help_nothing_is_said() -> None:
    table = ablation(taken("label_copy", [0, 0, 0, 1], INTACT), INTACT, INTACT)
    with pytest.raises(NotMeasured, match="demonstrations do not raise accuracy in this task"):
        effect("label_copy_is_needed", ablation=table)
    # Nor do they in an untrained network, which is what the effect has to exceed all the same.
    twin = table.with_columns(model=pl.lit("tiny+initialized-0"))
    assert effect("label_copy_is_needed", ablation=twin) == pytest.approx(0.75)


def test_function_vectors_are_compared_with_induction_heads_and_not_with_random_ones() -> None:
    of_both = taken("function_vector", [0, 0, 0, 0], INTACT)
    of_both |= taken("prefix_matching", [0, 1, 0, 1], INTACT)
    table = ablation(of_both, INTACT, ALONE)
    assert effect("function_vectors_over_induction", ablation=table) == pytest.approx(0.5)
    one = ablation(taken("function_vector", [0, 0, 0, 0], INTACT), INTACT, ALONE)
    with pytest.raises(NotMeasured, match="highest prefix_matching"):
        effect("function_vectors_over_induction", ablation=one)


PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def copied(*values: float) -> dict[str, dict[tuple[int, int], list[float]]]:
    of_heads = dict(zip(PLACES, ([value] * 4 for value in values), strict=True))
    return {"label_copy": of_heads, "prefix_matching": of_heads}


def test_a_cancelling_head_is_one_on_other_texts_too() -> None:
    assert effect("cancelling_heads_exist", heads=heads(copied(1, -3, 0, 2))) == pytest.approx(3)
    assert effect("cancelling_heads_exist", heads=heads(copied(1, 3, 0.5, 2))) < 0
    # Noise: the lowest head of one half is not the lowest of the other.
    random = np.random.default_rng(0)
    noise = {"label_copy": {place: random.normal(size=40).tolist() for place in PLACES}}
    assert abs(effect("cancelling_heads_exist", heads=heads(noise))) < 0.3


def test_weights_are_compared_with_label_copy_over_heads() -> None:
    tables = {"heads": heads(copied(1, 2, 3, 4))}
    rising = beta(dict(zip(PLACES, (0.1, 0.2, 0.3, 0.4), strict=True)))
    assert effect("beta_where_copied", **tables, reweighting_beta=rising) == pytest.approx(1)
    falling = beta(dict(zip(PLACES, (0.4, 0.3, 0.2, 0.1), strict=True)))
    assert effect("beta_where_copied", **tables, reweighting_beta=falling) == pytest.approx(-1)
    with pytest.raises(NotMeasured, match="does not score heads by label_copy"):
        effect(
            "beta_where_copied",
            heads=heads({"direct": copied(1, 2, 3, 4)["label_copy"]}),
            reweighting_beta=rising,
        )
