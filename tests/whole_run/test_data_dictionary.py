"""The data dictionary and the documented queries against every file of a finished run."""

import re
from collections import defaultdict
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from anchorflow.config.stages import STAGES, files_of_tables
from anchorflow.store.all_tables import TABLES
from checkout import Checkout
from documentation import python_examples, run_examples
from job_messages import OPTIONAL, by_default

FILES = files_of_tables()
# The small run has no other label words or checkpoints, and asks for nothing that is not there by
# default.
ABSENT = {
    pattern
    for stage in STAGES.values()
    if not by_default(stage.asked_for)
    or stage.name.removeprefix("summaries/") in {*OPTIONAL, "training"}
    for _, _, pattern in stage.files()
} | {f"results/tables/{name}.csv" for name in OPTIONAL}


def pattern_of(path: Path) -> tuple[str, str]:
    """The one table and path pattern that a file's path matches."""
    matches = [
        (table, pattern)
        for table, patterns in FILES.items()
        for pattern in patterns
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(pattern)), path.as_posix())
    ]
    assert len(matches) == 1, path
    return matches[0]


def test_every_parquet_file_of_a_run_is_described_and_its_keys_tell_its_rows_apart(
    shared_run: Checkout,
) -> None:
    found: dict[tuple[str, str], list[pl.DataFrame]] = defaultdict(list)
    for file in sorted((shared_run.folder / "results").rglob("*.parquet")):
        table, pattern = pattern_of(file.relative_to(shared_run.folder))
        assert pq.read_schema(file).metadata[b"table"].decode() == table, file
        found[table, pattern].append(pl.read_parquet(file))
    for (table, pattern), frames in found.items():
        keys = pl.concat(frames).select(TABLES[table].keys)
        assert keys.is_unique().all(), (pattern, keys.filter(keys.is_duplicated()))
    described = {p for patterns in FILES.values() for p in patterns if p.endswith(".parquet")}
    assert {pattern for _, pattern in found} == described - ABSENT


def test_every_csv_file_of_a_run_is_described_and_has_its_table_s_columns(
    shared_run: Checkout,
) -> None:
    found = set()
    for file in (shared_run.folder / "results/tables").glob("*.csv"):
        table, pattern = pattern_of(file.relative_to(shared_run.folder))
        assert pl.read_csv(file, n_rows=0).columns == TABLES[table].names
        found.add(pattern)
    described = {p for patterns in FILES.values() for p in patterns if p.endswith(".csv")}
    assert found == described - ABSENT


def test_the_documented_queries_answer_what_they_say(
    shared_run: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared_run.folder)
    names = run_examples(*python_examples("docs/how_to/query.md"))

    rows = pq.read_table("results/summaries/flow/tiny.parquet").to_pylist()
    wanted = {"task": "average", "flow": "s_wp", "scale": "proportion"}
    shares = [r["mean"] for r in rows if wanted.items() <= r.items()]
    assert names["share"]["layer"].to_list() == [0, 1, 2]
    assert names["share"]["mean"].to_list() == shares

    by_seed = {(task, seed): accuracy for _, task, seed, accuracy in names["by_seed"].rows()}
    assert len(by_seed) == 4
    for (task, seed), accuracy in by_seed.items():
        cell = pq.read_table(
            f"results/attention/tiny/{task}/{seed}/predictions.parquet"
        ).to_pylist()
        assert accuracy == sum(r["prediction"] == r["label"] for r in cell) / 6

    rows = pq.read_table("results/summaries/kernel/tiny.parquet").to_pylist()
    wanted = {"task": "average", "measure": "agreement", "weights": "max"}
    agreements = sorted((r["mean"] for r in rows if wanted.items() <= r.items()), reverse=True)
    assert len(agreements) == 3 * 4
    assert names["best"]["mean"].to_list() == agreements[:5]

    verdicts = pl.read_csv("results/tables/claims.csv").filter(task="average")
    supported = verdicts.filter(verdict="supported")["claim"].to_list()
    assert names["supported"]["claim"].to_list() == supported

    flows = pl.concat(map(pl.read_parquet, Path("results/flow").rglob("*.parquet")))
    of_layer = pl.col("s_wp") / pl.sum_horizontal("s_wp", "s_pq", "s_ww")
    means = flows.group_by("model", "layer").agg(of_layer.mean()).sort("model", "layer")
    assert_frame_equal(names["by_layer"], means)
