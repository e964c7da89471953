"""Timings: every way is run as often as said, in turns, and described by what it keeps."""

import polars as pl
import pytest

from anchorflow.analyses.timing import TIMING
from anchorflow.analyses.timing import measure as timing
from anchorflow.analyses.timing.measure import measure_timing
from anchorflow.schemas.frames import frame_schema
from constructed.timing import WAYS
from tiny_models import PREFIX, shared_prompts, tiny_model
from worded_prompts import with_words


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
    model, table = tiny_model("gemma3"), with_words(shared_prompts([5, 17, 9]), [2, 1, 3])
    spec = {"queries": 2, "repetitions": 2, "batch_size": 1}
    timings = measure_timing(model, table, spec)
    assert timings.schema == frame_schema(TIMING)
    assert timings["way"].to_list() == WAYS
    kept = dict(timings.select("way", "kept").iter_rows())
    anchors = len({0, 9, 10, 19, 20, 29}) + 6
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


def test_other_work_is_what_the_machine_does_beyond_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In 10 seconds on 4 cores, 25 of 40 CPU seconds are spent, 5 of them here."""
    for name, values in {"perf_counter": [0.0, 10.0], "process_time": [1.0, 6.0]}.items():
        monkeypatch.setattr(timing.time, name, lambda values=values: values.pop(0))
    spent = [100.0, 125.0]
    monkeypatch.setattr(timing, "_busy_seconds", lambda: spent.pop(0))
    monkeypatch.setattr(timing.os, "cpu_count", lambda: 4)
    assert timing.OtherWork().share() == 0.5
    monkeypatch.undo()
    monkeypatch.setattr(timing, "_busy_seconds", lambda: None)  # where the system does not say
    assert timing.OtherWork().share() is None
