"""A whole run of a hybrid model: what is measured, and the numbers of its layers."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from anchorflow.finished_run import Run
from checkout import fresh_checkout
from tiny_models import tiny_model

REQUESTED = {
    "knockout": {"classes": ["label_to_target"], "layers": ["single"]},
    "cutoff": {"sees": ["first"], "every": 1},
}


@pytest.mark.long
def test_tables_have_the_places_of_layers_that_attend_and_no_analysis_breaks_the_run(
    tmp_path: Path, shared_folder: Path, tiny_model_directory: Path
) -> None:
    checkout = fresh_checkout(tmp_path / "run", shared_folder / "sources", tiny_model_directory)
    folder = tmp_path / "hybrid"
    tiny_model("lfm2", eager=True, vocabulary=1200).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_directory).save_pretrained(folder)
    checkout.config |= {"models": {"hybrid": {"source": "local", "path": str(folder)}}, **REQUESTED}
    checkout.config["tasks"].pop("news")
    checkout.config["seeds"] = [0]
    checkout.snakemake("--cores", "2")
    card = json.loads((checkout.folder / "results/models/hybrid/model.json").read_text("utf-8"))
    assert (card["layers"], card["attention_layers"]) == (4, [1, 3])
    results = Run(checkout.folder / "results")
    tables = {"flow": "", "attention": "attention", "kernel": "states"}
    for analysis, file in tables.items():
        assert set(results.table(analysis, file)["layer"]) == {1, 3}
    assert set(results.table("knockout")["layer"]) == {-1, 1, 3}
    assert set(results.table("cutoff")["layer"]) == {1, 3, 4}  # 4: nothing is left out
    compressed, timed = results.table("compression"), results.table("timing")
    assert {*compressed["method"]} == {"full", "first_only", "text_anchor", "reweighted"}
    assert {*timed["way"]} == {"full_prompt", "text_anchor"}
