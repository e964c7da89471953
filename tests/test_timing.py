"""Timings: every way is run as often as said, in turns, and little else depends on them."""

import polars as pl
import pytest
from conftest import Checkout

from anchorflow import timing
from anchorflow.errors import InputError
from anchorflow.tables import RETENTION, TIMING, frame_schema
from anchorflow.tabulate import tabulate_timing
from anchorflow.timing import measure_timing
from anchorflow.timing_figure import accuracy_and_time, draw_timing
from tiny_models import PREFIX, shared_prompts, tiny_model

WAYS = [
    "full_prompt",
    "full",
    "text_anchor",
    "hidden_anchor",
    "reweighted",
    "reweighted_anchor",
]


def test_ways_take_turns_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(
        timing.Way, "run", lambda way, model, number: seen.append((way.name, number))
    )
    spec = {"queries": 4, "repetitions": 2, "batch_size": 2}
    table = measure_timing(tiny_model("llama"), shared_prompts([5, 17, 9, 6, 8]), spec)
    warm = seen[: 2 * len(WAYS)]
    assert sorted(warm) == sorted((name, number) for name in WAYS for number in (0, 1))
    assert seen[2 * len(WAYS) :] == [(name, number) for number in (0, 1) for name in WAYS] * 2
    assert set(table["runs"]) == {4}
    assert set(table["batch_size"]) == {2}


def test_fewer_prompts_than_a_batch_are_one_batch_of_their_size() -> None:
    spec = {"queries": 8, "repetitions": 1, "batch_size": 4}
    table = measure_timing(tiny_model("llama"), shared_prompts([5, 17, 9]), spec)
    assert set(table["batch_size"]) == {3}
    assert set(table["runs"]) == {1}


def test_every_way_is_described_by_what_it_keeps() -> None:
    model, table = tiny_model("gemma3"), shared_prompts([5, 17, 9])
    spec = {"queries": 2, "repetitions": 2, "batch_size": 1}
    timings = measure_timing(model, table, spec)
    assert timings.schema == frame_schema(TIMING)
    assert timings["way"].to_list() == WAYS
    kept = dict(timings.select("way", "kept").iter_rows())
    anchors = len({0, 8, 9, 10, 18, 19, 20, 28, 29})
    assert kept == dict(zip(WAYS, (0, PREFIX, anchors, anchors, PREFIX, anchors), strict=True))
    one_token = 3 * 2 * 2 * 8 * 4  # layers, keys and values, key heads, head size, bytes
    sizes = dict(timings.select("way", "kept_bytes").iter_rows())
    assert sizes["full"] == PREFIX * one_token
    assert sizes["hidden_anchor"] == sizes["text_anchor"] == anchors * one_token
    unbuilt = timings.filter(pl.col("build").is_null())["way"].to_list()
    assert unbuilt == ["full_prompt", "reweighted", "reweighted_anchor"]
    assert timings["device"].unique().to_list() == ["cpu"]


def test_break_even_is_the_build_time_over_what_a_query_saves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = iter(range(1, 10_000))
    monkeypatch.setattr(timing, "seconds", lambda run: next(took) / 1000)
    spec = {"queries": 1, "repetitions": 1, "batch_size": 1}
    timings = measure_timing(tiny_model("llama"), shared_prompts([5, 17]), spec)
    assert timings["milliseconds"].to_list() == pytest.approx([1, 2, 3, 4, 5, 6])
    assert timings["break_even"].null_count() == len(WAYS)  # each way took longer than full prompts
    falling = iter(range(10_000, 1, -1))
    monkeypatch.setattr(timing, "seconds", lambda run: next(falling) / 1000)
    timings = measure_timing(tiny_model("llama"), shared_prompts([5, 17]), spec)
    built = timings.filter(pl.col("build").is_not_null())
    assert built["way"].to_list() == ["full", "text_anchor", "hidden_anchor"]
    for row in built.iter_rows(named=True):
        saved = timings["milliseconds"][0] - row["milliseconds"]
        assert row["break_even"] == pytest.approx(row["build"] / saved)


def timings_of(task: str, milliseconds: float) -> pl.DataFrame:
    constants = {
        "model": "m",
        "task": task,
        "seed": 0,
        "batch_size": 1,
        "runs": 3,
        "build": 30.0,
        "break_even": 4.2,
        "prompt_tokens": 99.6,
        "kept": 7,
        "kept_bytes": 2_500_000,
        "device": "cpu",
        "threads": 2,
    }
    rows = [
        {
            **constants,
            "way": way,
            "milliseconds": milliseconds / (place + 1),
            "low": 1.0,
            "high": 50.0,
        }
        for place, way in enumerate(WAYS)
    ]
    return pl.DataFrame(rows, schema=frame_schema(TIMING))


def retention_of(tasks: list[str]) -> pl.DataFrame:
    rows = [
        {
            "model": "m",
            "task": task,
            "method": method,
            "share": share,
            "measure": measure,
            "mean": 0.5 if method == "full" else 0.75,
            "low": 0.4,
            "high": 0.9,
            "examples": 6,
            "seeds": 2,
            "draws": 1,
            "skipped": 0,
            "published": None,
        }
        for task in [*tasks, "average"]
        for method in WAYS[1:]
        for share in (None, 0.5)
        for measure in ("accuracy", "label_loyalty")
    ]
    return pl.DataFrame(rows, schema=frame_schema(RETENTION))


def test_full_prompts_are_as_accurate_as_everything_cached() -> None:
    timing_rows = pl.concat([timings_of("news", 10), timings_of("mine", 30)])
    points = accuracy_and_time(timing_rows, retention_of(["news", "mine"]))
    assert points.height == 3 * len(WAYS)
    plain = points.filter(pl.col("task") == "average", pl.col("way") == "full_prompt")
    assert plain.select("milliseconds", "mean").row(0) == (20, 0.5)
    assert plain["low_time"].to_list() == [None]  # an average of quartiles would be none
    anchors = points.filter(pl.col("task") == "mine", pl.col("way") == "hidden_anchor")
    assert anchors.select("milliseconds", "mean").row(0) == (30 / 4, 0.75)


def test_the_table_says_how_many_times_as_fast_as_full_prompts() -> None:
    timing_rows = pl.concat([timings_of("news", 10), timings_of("mine", 30)])
    table = tabulate_timing(timing_rows, retention_of(["news", "mine"]))
    assert table["times as fast"].to_list() == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"] * 2
    assert table["break-even (queries)"][0] == "5"
    assert table["ms"][0] == "10 [1, 50]"
    assert table["ms"][2] == "3.33 [1, 50]"
    assert table["accuracy"][0] == "0.50 [0.40, 0.90]"
    assert table["accuracy"][3] == "0.75 [0.40, 0.90]"


def test_timings_are_taken_for_the_first_seed_and_rebuild_nothing_else(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder / "results/timing/tiny/news"
    assert [path.name for path in folder.iterdir()] == ["0.parquet"]
    target = "results/timing/tiny/news/0.parquet"
    (finished_run.folder / target).unlink()
    assert finished_run.planned() == set()
    timing_job = "Timing queries of news with compressed demonstrations in tiny"
    assert finished_run.planned(target) == {timing_job}
    finished_run.snakemake("--cores", "2", target)
    assert finished_run.planned() == {
        "Drawing accuracy against time per query in tiny",
        "Tabulating accuracy and time per query of all models",
        "Summarizing which claims hold for tiny",
        "Drawing which claims hold for tiny",
        "Tabulating which claims hold for all models",
    }


def test_nothing_timed_is_told() -> None:
    empty = pl.DataFrame(schema=frame_schema(TIMING))
    with pytest.raises(InputError, match="no prompt of the first seed fits"):
        draw_timing(empty, retention_of(["news"]), {}, 0.9, {})
