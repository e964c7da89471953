"""Whether saliency's order of layers is told from attention's."""

import pytest

from anchorflow.summarize.claims._claim import NotTested, Run
from anchorflow.summarize.claims.saliency_orders_layers import CLAIMS, rank_of
from constructed.faithfulness import cuts, faithfulness

(CLAIM,) = CLAIMS
RIGHT, WRONG = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]


def run_of(saliency: list[float], attention: list[float]) -> Run:
    told = {
        "saliency": saliency,
        "gradient": saliency,
        "integrated": saliency,
        "attention": attention,
    }
    tables = {"faithfulness": faithfulness(told), "knockout": cuts([0.1, -0.2, 0.3])}
    return Run("news", tables, "mask", 1.0)


def values(run: Run) -> tuple[float, float]:
    control = CLAIM.control.measure
    assert control is not None
    return tuple(float(measure(run).effect.values[0]) for measure in (CLAIM.measure, control))


def test_it_holds_where_saliency_alone_has_the_order() -> None:
    assert values(run_of(RIGHT, WRONG)) == pytest.approx((1, -1))


def test_it_does_not_exceed_attention_that_has_the_same_order_and_fails_with_the_reverse() -> None:
    assert values(run_of(RIGHT, RIGHT)) == pytest.approx((1, 1))
    assert values(run_of(WRONG, RIGHT)) == pytest.approx((-1, 1))


def test_it_is_not_tested_without_label_words() -> None:
    run = run_of(RIGHT, WRONG)
    other = {name: rows.filter(rows["edges"] == "none") for name, rows in run.tables.items()}
    with pytest.raises(NotTested):
        rank_of(Run("news", other, "mask", 1.0))
