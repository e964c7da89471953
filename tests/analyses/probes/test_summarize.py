"""What probes decode, averaged, and gained over their control."""

import polars as pl
import pytest

from anchorflow.analyses.probes import PROBES, PROBES_SUMMARY
from anchorflow.analyses.probes.measure import measure_probes
from anchorflow.analyses.probes.plot import plot_probes
from anchorflow.analyses.probes.summarize import summarize_probes
from anchorflow.analyses.probes.tabulate import tabulate_probes
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE
from constructed.kernel import probes_summary as summary
from constructed.kernel import prompts, samples, states, summary_of_nothing
from constructed.rows import frame
from figure_style import figure_of


def test_summary_averages_and_gains_over_chance() -> None:
    table = summary()
    assert table.schema == frame_schema(PROBES_SUMMARY)
    assert len(table) == 3 * 2 * 2 * 2 * 3  # tasks, offsets, sources, targets, measures
    rows = table.filter(task=AVERAGE, offset=0, source="value", target="label")
    values = dict(rows.select("measure", "mean").iter_rows())
    assert values["accuracy"] == 1.0
    assert values["gain"] == pytest.approx(1.0 - values["shuffled"])
    assert rows["decoded"].to_list() == [48] * 3


def test_demonstrations_missing_at_an_offset_do_not_count_there() -> None:
    last_gone = states().filter((pl.col("offset") == -1) | (pl.col("demonstration") < 11))
    shown = samples({0: range(12)})
    table = summarize_probes(measure_probes(last_gone, 0.01), prompts(("news",)), shown, 0.9)
    rows = table.filter(task="news", offset=0, source="value", target="label", measure="accuracy")
    assert rows["mean"].to_list() == [1.0]
    assert rows["decoded"].to_list() == [11]


def decoded(hits: dict[int, list[bool]]) -> pl.DataFrame:
    """Whether one head's probe decodes each demonstration, by seed; never with shuffled targets."""
    same = {"layer": 0, "head": 0, "offset": 0, "source": "value", "target": "label"}
    rows = [
        {"seed": seed, "demonstration": demonstration, "correct": correct, "shuffled": 0.0}
        for seed, of_seed in hits.items()
        for demonstration, correct in enumerate(of_seed)
    ]
    return frame(rows[::-1], PROBES, **same)


@pytest.mark.parametrize(
    ("second", "confidence", "half"),
    # Both seeds .5 with a variance of .25 over two demonstrations: together .25 / 2, with 2 degrees
    # of freedom, at an error rate of 40 % for a lower bound: t is 1.060660. The same two texts in
    # another order agree in neither seed; in the same order, they add a covariance of .25 with one
    # degree of freedom at 60 %: t is 0.726543. At .9, both would reach beyond a difference of 1.
    [
        ([7, 9], 0.8, 1.060660 * 0.125**0.5),
        ([2, 5], 0.4, 0.726543 * 0.25**0.5),
        ([5, 2], 0.8, 1.060660 * 0.125**0.5),
        ([7, 9], 0.9, 0.5),
        ([2, 5], 0.9, 0.5),
    ],
)
def test_demonstrations_that_seeds_share_are_the_same_texts(
    second: list[int], confidence: float, half: float
) -> None:
    shown = samples({0: [2, 5], 1: second})
    probed = decoded({0: [True, False], 1: [True, False]})
    table = summarize_probes(probed, prompts(("news",)), shown, confidence)
    (gain,) = table.filter(task="news", measure="gain").to_dicts()
    assert gain["mean"] == 0.5
    assert gain["high"] == pytest.approx(0.5 + half, rel=1e-6)
    assert (gain["decoded"], gain["seeds"]) == (4, 2)


def test_nothing_to_decode_leaves_no_rows_and_a_figure_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = summary_of_nothing()
    assert nothing.is_empty()
    assert tabulate_probes(nothing).table.is_empty()
    figure = figure_of(monkeypatch, plot_probes, nothing)
    assert "no task has two demonstrations" in figure.get_suptitle()


def test_a_single_target_has_keys_and_values_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    both = figure_of(monkeypatch, plot_probes, summary())
    one = figure_of(monkeypatch, plot_probes, summary().filter(target="label"))
    assert (len(both.axes), len(one.axes)) == (4, 2)
    assert len({panel.get_position().y0 for panel in one.axes}) == 1


def test_the_table_has_the_layer_of_largest_gain_of_every_offset() -> None:
    earlier = summary().with_columns(pl.col("mean", "low", "high") - 0.25)
    rows = tabulate_probes(pl.concat([earlier, summary().with_columns(layer=pl.lit(1, pl.Int32))]))
    assert rows.table["offset"].unique().sort().to_list() == [-1, 0]
    assert rows.table["layer"].to_list() == [1] * (2 * 2 * 2)
