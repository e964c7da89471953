"""A whole run of a hybrid model beside one whose layers all attend."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from anchorflow.finished_run import Run
from checkout import fresh_checkout
from tiny_models import tiny_model


@pytest.mark.long
def test_attention_layers_have_their_numbers_and_nothing_else_of_the_run_breaks(
    tmp_path: Path, shared_folder: Path, tiny_model_directory: Path
) -> None:
    checkout = fresh_checkout(tmp_path / "run", shared_folder / "sources", tiny_model_directory)
    folder = tmp_path / "hybrid"
    tiny_model("lfm2", eager=True, vocabulary=1200).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_directory).save_pretrained(folder)
    checkout.config["models"]["hybrid"] = {"source": "local", "path": str(folder)}
    checkout.config["tasks"].pop("news")
    checkout.snakemake("--cores", "2")
    card = json.loads((checkout.folder / "results/models/hybrid/model.json").read_text("utf-8"))
    assert (card["layers"], card["attention_layers"]) == (4, [1, 3])
    other = json.loads((checkout.folder / "results/models/tiny/model.json").read_text("utf-8"))
    assert "attention_layers" not in other
    results = Run(checkout.folder / "results")
    for analysis in ("flow", "attention", "knockout", "cutoff", "kernel"):
        table = results.table(analysis).filter(model="hybrid")
        assert {1, 3} <= set(table["layer"]) <= {-1, 1, 3, 4}
    compressed = results.table("compression").filter(model="hybrid")
    assert {*compressed["method"]} == {"full", "first_only", "text_anchor"}
