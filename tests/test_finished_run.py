"""What is read of the folder of a run; tests/whole_run/test_python.py reads a whole run."""

from pathlib import Path

import polars as pl
import pytest

from anchorflow import Run
from anchorflow.analyses.reweighting import REWEIGHTING_SUMMARY
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.all_tables import TABLES
from anchorflow.store.checksums import write_json
from anchorflow.store.parquet import write_frame
from constructed.rows import frame

ROW = {
    "method": "vanilla",
    "measure": "accuracy",
    "mean": 0.5,
    "examples": 10,
    "texts": 5,
    "seeds": 2,
}


def test_what_is_no_longer_in_the_run_is_not_read(tmp_path: Path) -> None:
    for model in ("old", "tiny"):
        table = frame([ROW], REWEIGHTING_SUMMARY, model=model)
        file = tmp_path / "summaries" / "reweighting" / f"{model}.parquet"
        write_frame(file, REWEIGHTING_SUMMARY, table, {})
    run = Run(tmp_path)
    assert set(run.summary("reweighting")["model"]) == {"old", "tiny"}  # it has not finished
    listed = {"results/summaries/reweighting/tiny.parquet": {}}
    write_json(tmp_path / "manifest.json", {"files": listed})
    assert set(run.summary("reweighting")["model"]) == {"tiny"}
    write_json(tmp_path / "manifest.json", {"files": {}})
    with pytest.raises(InputError, match="reweighting: no results; the run has not measured this"):
        run.summary("reweighting")


def test_tables_of_tasks_seeds_and_random_worlds_are_found_where_they_are(tmp_path: Path) -> None:
    places = {
        "texts": "mine",
        "samples": "mine/0",
        "embeddings": "mine",
        "theory": "worlds",
        "flow": "tiny/mine/0",
    }
    for name, place in places.items():
        write_frame(
            tmp_path / name / f"{place}.parquet",
            TABLES[name],
            pl.DataFrame(schema=frame_schema(TABLES[name])),
            {},
        )
        assert Run(tmp_path).table(name).columns == TABLES[name].names
