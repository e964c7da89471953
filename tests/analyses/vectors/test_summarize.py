"""What vectors recover, worked out by hand, and the figure over depth."""

import polars as pl
import pytest

from anchorflow.analyses.vectors import NO_LAYER, VECTORS_SUMMARY
from anchorflow.analyses.vectors.plot import plot_vectors
from anchorflow.analyses.vectors.summarize import summarize_vectors
from anchorflow.schemas.frames import frame_schema
from constructed.interventions import prompts
from constructed.vectors import FULL, ONE, RANDOM_TEXTS, RECIPIENT, answers, put, similarity
from figure_style import figure_of

TEXTS = 8
ONES = [1.0] * TEXTS
LOW, HIGH = [0.25] * TEXTS, [0.75] * (TEXTS - 1) + [0.25]
PART = [0.75, 0.75, 0.5, *LOW[3:]]
PLAIN = {RECIPIENT: LOW, FULL: HIGH, ONE: LOW}
NOTHING = similarity({})


def means(table: pl.DataFrame, vector: str, source: str, layer: int) -> dict[str, float | None]:
    rows = table.filter(task="news", vector=vector, source=source, layer=layer)
    return dict(rows.select("measure", "mean").iter_rows())


def test_recovery_is_the_share_of_what_all_demonstrations_add() -> None:
    known = {**PLAIN, put("task"): PART, put("task", layer=4): LOW}
    table = summarize_vectors(answers(known), NOTHING, prompts(), 0.9)
    assert table.schema == frame_schema(VECTORS_SUMMARY)
    # Of 8 texts, 7 become right with demonstrations, and 3 with the vector; their probabilities
    # rise by 7 · .5, and by .5 + .5 + .25.
    expected = {
        "accuracy": 3 / 8,
        "probability": (0.75 + 0.75 + 0.5 + 5 * 0.25) / 8,
        "recovery": 3 / 7,
        "recovered_probability": 1.25 / 3.5,
    }
    for layer in (2, NO_LAYER):  # where the second one is chosen
        assert means(table, "task", "own", layer) == pytest.approx(expected)
    assert means(table, "task", "own", 4)["recovery"] == 0
    # By which the shares are defined.
    plain = table.filter(task="news", vector="none", measure="recovery").sort("number")
    assert plain.select("number", "mean").rows() == [(-1, None), (0, None), (1, 0.0)]


def test_what_local_vectors_recover_starts_at_random_texts_with_label_words() -> None:
    known = {**PLAIN, put("local"): PART, RANDOM_TEXTS: [0.5, *LOW[1:]]}
    table = summarize_vectors(answers(known), NOTHING, prompts(), 0.9)
    found = means(table, "local", "own", 2)
    # Of 7 right texts and 3.5 of probability, random texts bring 1 and .25, and vectors 3 and 1.25.
    assert found["recovery"] == pytest.approx(2 / 6)
    assert found["recovered_probability"] == pytest.approx(1 / 3.25)
    itself = means(table, "local", "none", NO_LAYER)
    assert itself["recovery"] is itself["recovered_probability"] is None
    # Random texts that tell as much as the real ones leave nothing to recover.
    known[RANDOM_TEXTS] = HIGH
    found = means(summarize_vectors(answers(known), NOTHING, prompts(), 0.9), "local", "own", 2)
    assert found["recovery"] is found["recovered_probability"] is None


def test_demonstrations_of_seeds_are_told_apart_by_the_seeds_order() -> None:
    seeds = pl.concat(
        similarity({2: [value, value]}, 1).with_columns(seed=pl.lit(seed, pl.Int32), example=0)
        for seed, value in ((3, 0.25), (3 + 2**20, 0.75))
    ).with_columns(pl.col("example").cast(pl.Int32))
    table = summarize_vectors(answers(PLAIN), seeds, prompts(), 0.9)
    row = table.filter(task="news", measure="similarity", source="own").row(0, named=True)
    assert (row["mean"], row["examples"]) == (pytest.approx(0.5), 4)


def test_recovery_is_undefined_where_demonstrations_may_add_nothing() -> None:
    """Probabilities rise for sure, and accuracies of a single text."""
    once = [0.75, *[0.4] * (TEXTS - 1)]
    known = {RECIPIENT: LOW, FULL: once, put("task"): once}
    table = summarize_vectors(answers(known), NOTHING, prompts(), 0.9)
    found = means(table, "task", "own", 2)
    assert found["recovery"] is None
    assert found["recovered_probability"] == pytest.approx(1)
    assert found["accuracy"] == pytest.approx(1 / 8)
    worse = {RECIPIENT: HIGH, FULL: LOW, put("task"): LOW}
    found = means(summarize_vectors(answers(worse), NOTHING, prompts(), 0.9), "task", "own", 2)
    assert found["recovery"] is None
    assert found["recovered_probability"] is None


def test_tasks_without_an_effect_are_not_in_the_average() -> None:
    some = answers({**PLAIN, put("task"): PART})
    none = answers({RECIPIENT: LOW, FULL: LOW, ONE: LOW, put("task"): LOW}, task="poems")
    both = pl.concat([some, none])
    table = summarize_vectors(both, NOTHING, prompts(("news", "poems")), 0.9)
    of = table.filter(vector="task", layer=2)
    recovered = dict(of.filter(measure="recovery").select("task", "mean").iter_rows())
    assert recovered == pytest.approx({"news": 3 / 7, "poems": None, "average": 3 / 7})
    right = dict(of.filter(measure="accuracy").select("task", "mean").iter_rows())
    assert right["average"] == pytest.approx(3 / 16)


def test_all_rows_are_of_the_texts_and_tasks_that_have_all_kinds_of_vectors() -> None:
    every = {**PLAIN, put("task"): PART, put("local"): PART, RANDOM_TEXTS: LOW}
    news = answers(every).filter(~((pl.col("vector") == "task") & (pl.col("example") == 0)))
    poems = answers({**PLAIN, put("task"): PART}, task="poems")
    both = pl.concat([news, poems])
    table = summarize_vectors(both, NOTHING, prompts(("news", "poems")), 0.9)
    texts = table.filter(task="news", measure="accuracy")["texts"].unique().to_list()
    assert texts == [TEXTS - 1]
    plain = means(table, "none", "none", NO_LAYER)
    assert plain["accuracy"] is not None
    averages = table.filter(task="average", measure="accuracy", layer=2, source="own")
    known = dict(averages.select("vector", pl.col("mean").is_not_null()).iter_rows())
    assert known == {"task": True, "local": False}  # poems have no local vectors
    missing = table.filter(task="poems", vector="local", measure="accuracy")
    assert missing.select("examples", "texts", "seeds").unique().rows() == [(0, 0, 0)]


def test_cosines_are_means_over_demonstrations_beside_their_control() -> None:
    cosines = similarity({2: [0.25, 0.75], 5: [0.5, 0.5]})
    table = summarize_vectors(answers(PLAIN), cosines, prompts(), 0.9)
    for source, share in (("own", 1.0), ("random", 0.5)):
        for layer in (2, 5):
            found = means(table, "local", source, layer)
            assert found == pytest.approx({"similarity": share / 2, "to_task": share})


def test_every_panel_has_a_vector_its_controls_and_how_many_demonstrations_it_is_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {
        put(vector, source, layer): values
        for vector in ("task", "local")
        for source, values in (("own", PART), ("deranged", LOW))
        for layer in (2, 5)
    }
    table = answers({**PLAIN, RANDOM_TEXTS: LOW, **known})
    figure = figure_of(monkeypatch, plot_vectors, summarize_vectors(table, NOTHING, prompts(), 0.9))
    panels = figure.axes
    assert [panel.get_title().partition("\n")[0] for panel in panels] == [
        "task vector",
        "local vectors at label words,",
        *["", ""],
    ]
    lines = {line.get_label(): line for line in panels[0].lines}
    assert list(lines["from the task's own prompts"].get_xdata()) == [2, 5]
    assert list(lines["from the task's own prompts"].get_ydata()) == [3 / 8, 3 / 8]
    assert list(lines["from prompts with wrong label words"].get_ydata()) == [0, 0]
    assert "no vector, random texts" in {line.get_label() for line in panels[1].lines}
    # Dotted lines of no, one, and all demonstrations.
    dotted = [line for line in panels[0].lines if line.get_linestyle() == ":"]
    assert sorted(line.get_ydata()[0] for line in dotted) == [0, 0, 7 / 8]
    words = {text.get_text() for text in panels[1].texts}
    assert words == {"0, 1", "all"}  # whose lines lie on one another
    # Shares of local vectors start at random texts, not at no demonstrations.
    of_local = [line for line in panels[3].lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[0] for line in of_local] == [1]
    assert {text.get_text() for text in panels[3].texts} == {"all"}
