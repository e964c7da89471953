"""Other label words in a finished run: their own cells, and nothing of the others."""

import polars as pl
import pytest

from anchorflow.store.parquet import read_settings
from checkout import Checkout
from job_messages import (
    MEASURE,
    PROMPT,
    cells,
    presented,
)

SUMMARY = presented("label_words", "claims")


@pytest.mark.long
def test_label_words_compute_their_own_cells_and_nothing_of_the_others(
    finished_run: Checkout,
) -> None:
    task = finished_run.config["tasks"]["reviews"]
    task["label_words"] = {"permuted": task["labels"][::-1]}
    stages = [PROMPT, MEASURE["attention"], MEASURE["flow"], MEASURE["isolation"]]
    permuted = cells(stages, ["reviews+permuted"], [0, 1])
    assert finished_run.planned() == permuted | SUMMARY
    finished_run.snakemake("--cores", "2", "all")
    assert finished_run.planned() == set()
    folder = finished_run.folder / "results"
    rows = pl.read_parquet(folder / "summaries/label_words/tiny.parquet")
    assert set(rows["task"]) == {"reviews", "average"}
    assert set(rows["words"]) == {"words", "permuted"}
    assert (
        read_settings(folder / "summaries/label_words/tiny.parquet")["label_words"]["variant"]
        == "mask"
    )
    own, other = (
        pl.read_parquet(folder / f"prompts/tiny/{cell}/0.parquet")
        for cell in ("reviews", "reviews+permuted")
    )
    assert other.select("example", "demonstrations", "demonstration_labels").equals(
        own.select("example", "demonstrations", "demonstration_labels")
    )

    task["label_words"] = {"symbols": [" A", " B"], **task["label_words"]}
    symbols = cells(stages, ["reviews+symbols"], [0, 1])
    assert finished_run.planned() == symbols | SUMMARY
    task["label_words"] = {"permuted": [" Good", " Bad"]}
    assert finished_run.planned() == permuted | SUMMARY
    task["label_words"] = {"permuted": task["labels"][::-1]}
    task["random_words"] = ["random"]
    assert finished_run.planned() == cells(stages, ["reviews+random"], [0, 1]) | SUMMARY
    task["random_words"].append("again")
    drawn = ["reviews+random", "reviews+again"]
    assert finished_run.planned() == cells(stages, drawn, [0, 1]) | SUMMARY
    del task["random_words"]
    finished_run.config["tasks"]["news"]["label_words"] = {"symbols": [" A", " B", " C", " D"]}
    assert finished_run.planned() == cells(stages, ["news+symbols"], [0, 1]) | SUMMARY
    del task["label_words"], finished_run.config["tasks"]["news"]["label_words"]
    assert finished_run.planned() == presented("claims")  # which have read other words
    said = finished_run.snakemake("-n", "results/summaries/label_words/tiny.parquet", ok=False)
    assert "none has label_words to compare with its own labels" in said
    said = finished_run.snakemake("-n", "results/prompts/tiny/news+symbols/0.parquet", ok=False)
    assert 'tasks.news.label_words: "symbols" is not in the configuration; it has none.' in said
    said = finished_run.snakemake("-n", "results/texts/reviews+permuted.parquet", ok=False)
    assert "MissingRuleException" in said
