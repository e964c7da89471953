"""Heads scored and taken away in a whole run: figures, tables, the atlas, and claims."""

import json

import polars as pl
import pytest

from checkout import Checkout

SCORES = ["prefix_matching", "writing", "task", "gathering", "function_vector"]


@pytest.mark.long
def test_heads_are_scored_taken_away_and_judged(finished_run: Checkout) -> None:
    finished_run.config["heads"] = {"scores": SCORES, "sequences": 2}
    finished_run.config["ablation"] = {
        "scores": ["label_copy", "function_vector", "prefix_matching"],
        "shares": [0.1, 0.3],
        "draws": 2,
        "where": ["target", "everywhere"],
        "by": ["mean", "zero", "other"],
    }
    finished_run.config["controls"] = {"stages": ["heads"], "seeds": 2}
    targets = ["heads", "ablation", "results/atlas/tiny.json", "results/tables/claims.csv"]
    finished_run.snakemake("--cores", "2", *targets)
    results = finished_run.folder / "results"
    for name in ("heads", "ablation"):
        assert (results / f"figures/{name}/tiny.png").stat().st_size > 10_000
        assert (results / f"tables/{name}.md").is_file()
    read = json.loads((results / "atlas/tiny.json").read_text(encoding="utf-8"))
    assert {"label_copy", "function_vector", "gradient"} <= read["scores"].keys()
    matrix = read["scores"]["label_copy"]["difference"]["mean"]
    assert [len(row) for row in matrix] == [4, 4, 4]
    claims = pl.read_csv(results / "tables/claims.csv", infer_schema_length=None)
    of_heads = claims.filter(pl.col("family").str.starts_with("[H]"), task="average")
    assert of_heads.height == 7
    cancels = of_heads.filter(claim="cancelling_heads_exist").row(0, named=True)
    assert cancels["effect"] is not None and cancels["null_effect"] is not None
    # Neither network is trained: none of these claims may hold.
    assert "supported" not in of_heads["verdict"].to_list()
    assert "not measured" in of_heads.filter(claim="recognition_keeps_labels")["verdict"].to_list()
