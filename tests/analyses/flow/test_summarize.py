"""Flow: means, shares and averages of a constructed saliency table, by hand."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.flow import FLOW, FLOW_SUMMARY
from anchorflow.analyses.flow.summarize import FLOWS, measures, summarize_flow
from anchorflow.analyses.flow.tabulate import tabulate_flow
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS

Values = dict[tuple[str, int, int], list[tuple[float, float, float]]]

# (task, seed, example): one (S_wp, S_pq, S_ww) per layer.
KNOWN: Values = {
    ("news", 0, 0): [(1.0, 2.0, 1.0), (4.0, 0.0, 4.0)],
    ("news", 0, 5): [(3.0, 2.0, 5.0), (2.0, 6.0, 0.0)],
    ("news", 1, 2): [(6.0, 3.0, 3.0), (0.0, 0.0, 0.0)],
    ("reviews", 0, 0): [(8.0, 8.0, 0.0), (1.0, 1.0, 8.0)],
    ("reviews", 1, 0): [(8.0, 8.0, 0.0), (1.0, 1.0, 8.0)],
}


def saliency(values: Values = KNOWN) -> pl.DataFrame:
    """A saliency table with rows in an order that no stage may rely on."""
    rows = [
        dict(zip(FLOW.names, ("tiny", task, seed, example, layer, *flows), strict=False))
        for (task, seed, example), layers in values.items()
        for layer, flows in enumerate(layers)
    ]
    return pl.DataFrame(rows[::-1], schema=frame_schema(FLOW))


def prompts(values: Values = KNOWN) -> pl.DataFrame:
    """Prompts of both protocols; one of each for news, and two for poems, are too long."""
    reason = "99 tokens exceed the context of 16"
    run = [(*key, None) for key in values]
    skipped = [("news", 1, 3, reason), ("poems", 0, 0, reason), ("poems", 1, 0, reason)]
    return pl.DataFrame(
        [
            {
                **{"model": "tiny", "task": task, "seed": seed, "example": example},
                **{"demonstrations": protocol, "skipped": why},
            }
            for protocol in ("per_example", "fixed")
            for task, seed, example, why in run + skipped
        ],
        schema=frame_schema(PROMPTS),
    )


def summarize(values: Values = KNOWN, confidence: float = 0.95) -> pl.DataFrame:
    return summarize_flow(saliency(values), prompts(values), "per_example", confidence)


def means(summary: pl.DataFrame, task: str, scale: str) -> list[list[float]]:
    """Means as [layer][S_wp, S_pq, S_ww]."""
    paper = pl.col("flow").is_in(FLOWS)
    chosen = summary.filter(paper, task=task, scale=scale)
    assert chosen["flow"].to_list() == ["s_wp", "s_pq", "s_ww"] * 2
    assert chosen["layer"].to_list() == [0, 0, 0, 1, 1, 1]
    values = chosen["mean"].to_list()
    return [values[:3], values[3:]]


def test_the_summary_has_a_row_per_task_layer_flow_and_scale() -> None:
    summary = summarize()
    assert summary.schema == frame_schema(FLOW_SUMMARY)
    assert len(summary) == 4 * 2 * len(measures())
    assert len(summary.filter(pl.col("flow").is_in(FLOWS))) == 4 * 2 * 3 * 2
    assert summary.select("task", "layer", "flow", "scale").is_unique().all()
    controls = summary.filter(~pl.col("flow").is_in(FLOWS))  # which no example has here
    assert controls["mean"].is_null().all()
    narrow, wide = (summarize(confidence=confidence) for confidence in (0.5, 0.99))
    assert (narrow["high"] - narrow["low"]).sum() < (wide["high"] - wide["low"]).sum()


def test_means_are_over_examples_and_then_over_seeds_and_tasks() -> None:
    summary = summarize()
    # Layer 0, seed 0: (2, 2, 3); seed 1: (6, 3, 3). Layer 1, seed 0: (3, 3, 2); seed 1: zeros.
    assert means(summary, "news", "absolute") == [[4.0, 2.5, 3.0], [1.5, 1.5, 1.0]]
    # With reviews, (8, 8, 0) and (1, 1, 8); tasks weigh equally, however many examples they have.
    assert means(summary, "average", "absolute") == [[6.0, 5.25, 1.5], [1.25, 1.25, 4.5]]


def test_proportions_are_taken_example_by_example() -> None:
    # Layer 0: (1, 2, 1) / 4, (3, 2, 5) / 10 and (6, 3, 3) / 12;
    # layer 1: (4, 0, 4) / 8, (2, 6, 0) / 8 and zeros, which stay zeros.
    first = [((0.25 + 0.3) / 2 + 0.5) / 2, ((0.5 + 0.2) / 2 + 0.25) / 2]
    expected = [[*first, ((0.25 + 0.5) / 2 + 0.25) / 2], [(0.5 + 0.25) / 4, 0.75 / 4, 0.5 / 4]]
    found = np.array(means(summarize(), "news", "proportion"))
    assert found == pytest.approx(np.array(expected), rel=1e-12)


def test_examples_seeds_and_skipped_prompts_are_counted_once() -> None:
    counts = summarize().select("task", "examples", "seeds", "skipped").unique().sort("task")
    rows = [("average", 5, 2, 3), ("news", 3, 2, 1), ("poems", 0, 0, 2), ("reviews", 2, 2, 0)]
    assert counts.rows() == rows
    assert summarize().filter(task="poems")["mean"].is_null().all()


def test_equal_examples_have_the_interval_of_a_rare_difference_for_shares_alone() -> None:
    rows = summarize().filter(pl.col("flow").is_in(FLOWS), pl.col("task") == "reviews")
    absolute, share = (rows.filter(scale=scale) for scale in ("absolute", "proportion"))
    assert absolute.select(pl.col("low", "high").is_null().all()).row(0) == (True, True)
    assert (share["high"] - share["low"]).min() > 0.5


def interval(values: Values, scale: str) -> list[float]:
    """Both ends for S_wp in layer 0 of news."""
    rows = summarize(values).filter(task="news", scale=scale, flow="s_wp", layer=0)
    ((low, high),) = rows.select("low", "high").rows()
    return [low, high]


def test_seeds_that_differ_have_student_s_t_interval_around_the_mean() -> None:
    # Means 2 and 6, so s / √2 = 2; t at .975 with one degree of freedom is 12.7062.
    half = 2 * 12.706205
    assert interval(KNOWN, "absolute") == pytest.approx([4 - half, 4 + half], rel=1e-6)
    # .275 and .5, so the interval of the share would reach beyond 0 and 1.
    assert interval(KNOWN, "proportion") == [0, 1]


def test_test_texts_that_seeds_share_widen_the_interval() -> None:
    def values(*texts: int) -> Values:
        """S_wp of 1 and 3 with one seed, of 2 and 6 with the other."""
        cells = zip([(0, 0), (0, 1), *((1, text) for text in texts)], [1, 3, 2, 6], strict=True)
        return {("news", *cell): [(float(flow), 0.0, 0.0)] for cell, flow in cells}

    # Means 2 and 4: s² / 2 = 1. If shared, their covariance of 4 / 2 is added.
    others, same = (interval(values(*texts), "absolute") for texts in ((2, 3), (0, 1)))
    assert others == pytest.approx([3 - 12.706205, 3 + 12.706205], rel=1e-6)
    half = 12.706205 * 3**0.5
    assert same == pytest.approx([3 - half, 3 + half], rel=1e-6)


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = saliency().sort("task", maintain_order=True).sample(fraction=1, shuffle=True, seed=1)
    keys = ["task", "layer", "flow", "scale"]
    first, second = (
        summarize_flow(frame, prompts(), "fixed", 0.95).sort(keys)
        for frame in (saliency(), shuffled)
    )
    assert first.equals(second)


def test_another_task_leaves_a_task_s_interval_as_it_is() -> None:
    alone = {key: layers for key, layers in KNOWN.items() if key[0] == "news"}
    both, one = (summarize(values).filter(task="news") for values in (KNOWN, alone))
    assert both.equals(one)


# One layer of two examples. What is left out is 0.
FIRST = {"s_wp": 4.0, "s_pq": 2.0, "s_ww": 2.0}
FIRST |= {"s_wp_text": 1.0, "s_pq_text": 1.0, "s_ww_text": 2.0}
FIRST |= {"s_wp_after": 3.0, "s_pq_after": 1.0}
FIRST |= {"target_label": 3.0, "target_template": 2.0, "target_text": 1.0, "target_first": 7.0}
FIRST |= {"wp_text": 1.0, "wp_template": 2.0, "wp_labels": 0.5, "wp_first": 0.5}
FIRST |= {"into_label": 9.0, "into_text": 1.0}
SECOND = {"s_pq": 1.0, "target_label": 4.0, "target_template": 1.0, "s_pq_text": 1.0}
ABSENT = ("s_wp_after", "s_pq_after", "s_ww_after", "target_query")  # of the second example


def controls() -> pl.DataFrame:
    """The summary of these two examples."""
    zeros = dict.fromkeys(FLOW.names[5:], 0.0)
    keys = {"model": "tiny", "task": "news", "seed": 0, "layer": 0}
    rows = [
        {**keys, "example": 0, **zeros, **FIRST},
        {**keys, "example": 1, **zeros, **SECOND, **dict.fromkeys(ABSENT)},
    ]
    table = pl.DataFrame(rows, schema=frame_schema(FLOW))
    shown = prompts({("news", 0, 0): [], ("news", 0, 1): []}).filter(task="news")
    return summarize_flow(table, shown, "per_example", 0.95).filter(task="news")


@pytest.mark.parametrize(
    ("flow", "scale", "mean"),
    [
        ("s_wp_text", "proportion", (1 / 4 + 0) / 2),
        ("s_pq_text", "proportion", (1 / 4 + 1) / 2),
        ("s_wp_after", "absolute", 3.0),  # the second example has no such tokens
        ("s_wp_after", "proportion", 3 / 4),
        ("s_wp_before", "proportion", 0.0),  # as shares of flows that are all 0
        ("target_first", "absolute", (7 + 0) / 2),
        ("target_query", "absolute", 0.0),
        ("target_share_text", "proportion", (3 / 4 + 4 / 4) / 2),
        ("target_share_template", "proportion", (3 / 5 + 4 / 5) / 2),
        ("into_share", "proportion", 9 / 10),  # nothing flows into the second's tokens
        ("wp_template", "absolute", (2 + 0) / 2),
        ("wp_template", "proportion", 2 / 4),  # and the second's S_wp has no parts
    ],
)
def test_controls_are_means_of_what_is_defined(flow: str, scale: str, mean: float) -> None:
    (value,) = controls().filter(flow=flow, scale=scale)["mean"]
    assert value == pytest.approx(mean, rel=1e-12)


def test_the_table_has_proportions_only_and_controls_in_tables_of_their_own() -> None:
    paper, further = {"s_wp": 0.25, "s_pq": 0.5}, {"into_share": 0.75, "s_wp_before": 0.2}
    further["wp_text"] = 1.0
    rows = [
        ("a", "news", layer, flow, scale, mean, None, None, 10, 5, 2, 3)
        for layer in range(2)
        for flow, value in {**paper, **further}.items()
        for scale, mean in (("absolute", 9.0), ("proportion", value))
    ]
    page = tabulate_flow(pl.DataFrame(rows, schema=frame_schema(FLOW_SUMMARY), orient="row"))
    index = ["model", "task", "examples", "texts", "skipped", "layer"]
    assert page.table.columns == [*index, *paper]
    assert page.table.rows() == [("a", "news", 10, 5, 3, at, "0.25", "0.50") for at in range(2)]
    for (name, value), table in zip(further.items(), page.further.values(), strict=True):
        assert table.columns == [*index, name]
        assert table[name].to_list() == [f"{value:.2f}"] * 2
