"""What orders and draws change, worked out by hand."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.orders import ORDERS_SUMMARY
from anchorflow.analyses.orders.plot import plot_orders
from anchorflow.analyses.orders.summarize import (
    order_statistic,
    pairs_that_differ,
    summarize_orders,
)
from anchorflow.config.errors import InputError
from anchorflow.random_draws import halves
from anchorflow.schemas.frames import frame_schema
from constructed.orders import TOLD, summary, tables_of, with_a_task_skipped_whole
from figure_style import figure_of


def values(table: pl.DataFrame, arrangement: str, task: str = "news") -> dict[str, float]:
    rows = table.filter(task=task, arrangement=arrangement)
    return dict(rows.select("measure", "mean").iter_rows())


def test_pairs_that_differ_are_counted_once() -> None:
    told = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 2]])
    np.testing.assert_allclose(pairs_that_differ(told), [0, 2 / 3, 1, 2 / 3])


def test_orders_and_draws_are_compared_by_spread_and_by_changed_predictions() -> None:
    table = summary()
    assert table.schema == frame_schema(ORDERS_SUMMARY)
    # Orders: accuracies 1, .75, .5; of three pairs, two differ for each of the last two texts.
    # Draws: accuracies 1, .5, 0; two pairs differ for every text.
    orders, draws = values(table, "order"), values(table, "draw")
    assert draws == pytest.approx(
        {"accuracy": 0.5, "spread": 0.5, "range": 1.0, "changed": 2 / 3}
        | {"head_agreement": 1.0, "head_changed": 2 / 3}
    )
    assert orders == pytest.approx(
        {"accuracy": 0.75, "spread": 0.25, "range": 0.5, "changed": 1 / 3}
        | {"accuracy_difference": 0.25, "spread_difference": -0.25, "changed_difference": -1 / 3}
        | {"head_agreement": 1.0, "head_changed": 1 / 3}
    )
    assert set(table["examples"]) == {8}


@pytest.mark.parametrize("chosen_on", [0.5, 0.75])
def test_a_head_is_scored_on_texts_that_it_was_not_chosen_on(chosen_on: float) -> None:
    tables = tables_of("news", 2)
    part = halves(pl.Series(range(4)), 0, chosen_on)["half"].to_list()
    # The first head agrees with the model, and changes as it does, in the first part alone; in the
    # other one it never agrees. The second head always says 0.
    never = pl.concat_list(pl.lit(7, pl.Int32), pl.lit(0, pl.Int32))
    there = pl.col("example").is_in([example for example in range(4) if part[example]])
    heads = pl.when(there).then(never).otherwise("heads")
    rows = tables["predictions"].with_columns(heads=heads)
    found = values(summarize_orders(rows, tables["prompts"], chosen_on, 0.9), "order")
    # The first part chooses the first head, which never agrees in the other one; that one chooses
    # the second head, which agrees in the first part where the model says 0.
    says_0 = [
        np.mean([told[example] == 0 for told in TOLD["order"]])
        for example in range(4)
        if not part[example]
    ]
    expected = float(np.mean(says_0)) / 2 if chosen_on == 0.5 else 0.0
    assert found["head_agreement"] == pytest.approx(expected)
    assert found["head_changed"] == 0.0


def test_the_spread_is_that_of_the_weighed_texts() -> None:
    rows = tables_of("news", 1)["predictions"]
    statistic, texts = order_statistic(rows)
    assert texts.tolist() == [0, 1, 2, 3]
    # The first two texts alone: always right in all orders; 1, 1, and 0 in draws.
    found = statistic(np.array([[1.0, 1, 0, 0], [1, 1, 1, 1]]))
    np.testing.assert_allclose(found[0, :4], [1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found[0, 4:8], [2 / 3, 3**-0.5, 1, 2 / 3])
    np.testing.assert_allclose(found[0, 8:], [1 / 3, -(3**-0.5), -2 / 3])
    np.testing.assert_allclose(found[1, 1], 0.25)


def test_a_text_without_one_of_the_prompts_is_left_out_of_all_and_counted() -> None:
    table = summary(("draw-1", 3))
    assert set(table["examples"]) == {6}
    assert set(table["skipped"]) == {2}
    # Without the last text, right in 3, 3, and 2 of three.
    assert values(table, "order")["accuracy"] == pytest.approx(8 / 9)


def test_a_task_skipped_whole_has_no_values_and_nothing_at_all_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = with_a_task_skipped_whole()
    assert len(figure_of(monkeypatch, plot_orders, table).axes) == 4
    assert table.filter(task="long")["mean"].null_count() == 15
    assert set(table.filter(task="long")["skipped"]) == {4}
    with pytest.raises(InputError, match=r"^orders.count: .* lower kernel.demonstration_tokens"):
        summarize_orders(**tables_of("long", 1, ("order-1", -1)), chosen_on=0.5, confidence=0.9)
