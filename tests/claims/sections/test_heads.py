"""Claims on attention heads: where each holds, and where it fails."""

import polars as pl
import pytest

from anchorflow.claims.claim import NotMeasured, Run, Sampled
from anchorflow.claims.effects import minus
from anchorflow.claims.summarize import load_claims
from constructed.heads import ablation, beta, heads
from constructed.kernel import kernel, predictions

CLAIMS = {claim.name: claim for claim in load_claims()}
INTACT, ALONE = [1, 1, 1, 1], [0, 1, 0, 1]
SHARES = (0.1, 0.2)


def effect(name: str, **tables: object) -> float:
    run = Run("news", tables, "mask", 1.0)  # type: ignore[arg-type]
    return float(CLAIMS[name].measure(run).effect.values[0])


def taken(score: str, heads_of: list[int], random: list[int]) -> dict[tuple, list[int]]:
    both = ((False, heads_of), (True, random))
    return {(score, control, 0, share): right for share in SHARES for control, right in both}


def test_heads_are_needed_if_random_ones_are_not() -> None:
    name, score = "label_copy_is_needed", "label_copy"
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


@pytest.mark.parametrize(
    ("name", "score", "instead"),
    [
        (
            "function_vectors_over_induction",
            "function_vector without prefix_matching",
            "prefix_matching without function_vector",
        ),
        ("learning_chooses_labels", "task_learning_share", "task_recognition_share"),
        ("recognition_keeps_labels", "task_recognition_share", "task_learning_share"),
    ],
)
def test_two_kinds_of_heads_are_compared_beyond_random_heads_of_their_layers(
    name: str, score: str, instead: str
) -> None:
    of_both = taken(score, [0, 0, 0, 0], INTACT) | taken(instead, [0, 1, 0, 1], INTACT)
    table = ablation(of_both, INTACT, ALONE)
    assert effect(name, ablation=table) == pytest.approx(0.5)
    # The layers of the first kind matter, whichever heads are taken away there.
    deep = taken(score, [0, 0, 0, 0], [0, 1, 0, 0]) | taken(instead, [0, 1, 0, 1], INTACT)
    assert effect(name, ablation=ablation(deep, INTACT, ALONE)) == pytest.approx(-0.25)
    one = ablation(taken(score, [0, 0, 0, 0], INTACT), INTACT, ALONE)
    with pytest.raises(NotMeasured, match=f"highest {instead}"):
        effect(name, ablation=one)


PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]


ZERO = {"label_copy": 0.0, "prefix_matching": 0.0}


def copied(*values: float) -> dict[str, dict[tuple[int, int], list[float]]]:
    return {"label_copy": dict(zip(PLACES, ([value] * 4 for value in values), strict=True))}


def test_heads_that_write_against_labels_are_compared_with_those_against_matched_tokens() -> None:
    """The lowest of many heads is below 0 in any network, so their share is what counts."""
    table = heads(copied(1, -3, 0, -2), ZERO).with_columns(control=pl.col("head") - 0.25)
    assert effect("cancelling_heads_exist", heads=table) == pytest.approx(2 / 4 - 2 / 4)
    alike = table.with_columns(control=pl.col("value"))
    assert effect("cancelling_heads_exist", heads=alike) == 0
    fewer = table.with_columns(control=pl.col("layer") + 1.0)
    assert effect("cancelling_heads_exist", heads=fewer) == pytest.approx(2 / 4)
    # A head without a value counts on neither side.
    gone = pl.when(pl.col("head") == 1).then(None).otherwise(pl.col("value"))
    assert effect("cancelling_heads_exist", heads=fewer.with_columns(value=gone)) == 0


def test_weights_are_compared_with_label_copy_over_heads_of_the_same_layer() -> None:
    tables = {"heads": heads(copied(1, 2, 3, 4), ZERO)}
    rising = beta(dict(zip(PLACES, (0.1, 0.2, 0.3, 0.4), strict=True)))
    assert effect("beta_where_copied", **tables, reweighting_beta=rising) == pytest.approx(1)
    falling = beta(dict(zip(PLACES, (0.4, 0.3, 0.2, 0.1), strict=True)))
    assert effect("beta_where_copied", **tables, reweighting_beta=falling) == pytest.approx(-1)
    # Both are higher in the second layer, and opposed within layers.
    deep = beta(dict(zip(PLACES, (0.2, 0.1, 0.4, 0.3), strict=True)))
    assert effect("beta_where_copied", **tables, reweighting_beta=deep) == pytest.approx(-1)
    with pytest.raises(NotMeasured, match="does not score heads by label_copy"):
        effect(
            "beta_where_copied",
            heads=heads({"direct": copied(1, 2, 3, 4)["label_copy"]}),
            reweighting_beta=rising,
        )


def test_the_control_of_weights_is_compared_although_it_has_sequences_and_no_texts() -> None:
    """Two sequences of random tokens, of which none has the number of a text."""
    texts = heads(copied(1, 2, 3, 4), ZERO).with_columns(pl.col("example") + 1000)
    opposed = {"prefix_matching": dict(zip(PLACES, ([v, v] for v in (4, 3, 2, 1)), strict=True))}
    table = pl.concat([texts, heads(opposed, ZERO)])
    rising = beta(dict(zip(PLACES, (0.1, 0.2, 0.3, 0.4), strict=True)))
    run = Run("news", {"heads": table, "reweighting_beta": rising}, "mask", 1.0)
    claim = CLAIMS["beta_where_copied"]
    assert claim.control.measure is not None
    of_claim, of_control = claim.measure(run), claim.control.measure(run)
    assert isinstance(of_claim, Sampled)
    assert of_control.effect.values[0] == pytest.approx(-1)
    assert minus(of_claim, of_control).effect.values[0] == pytest.approx(2)


def test_heads_that_kernel_regression_finds_are_those_that_copy_or_not() -> None:
    regressions = {  # of four texts, how many are predicted as the model does: 1, 3, 2, 4
        place: [0] * alike + [1] * (4 - alike)
        for place, alike in zip(PLACES, (1, 3, 2, 4), strict=True)
    }
    tables = {
        "kernel": pl.concat(kernel(regressions, seed=seed) for seed in range(3)),
        "kernel_predictions": pl.concat(
            predictions([0, 0, 0, 0], [0, 1, 0, 1], seed=seed) for seed in range(3)
        ),
    }
    found = effect("reading_heads_write", heads=heads(copied(1, 2, 3, 4), ZERO), **tables)
    assert found == pytest.approx(1)
    against = effect("reading_heads_write", heads=heads(copied(2, 1, 4, 3), ZERO), **tables)
    assert against == pytest.approx(-1)
