"""The Python API against the workflow: the same tables, summaries and figures."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import polars.testing
import pytest
from matplotlib.image import imread
from transformers import AutoTokenizer

from anchorflow import InContextClassifier, Run
from anchorflow.classifier import Names
from anchorflow.config.errors import InputError
from anchorflow.measurement import Measurement
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.parquet import read_table
from checkout import ROOT, Checkout, fresh_checkout
from documentation import python_examples, run_examples
from tiny_models import tiny_model

pytestmark = pytest.mark.xdist_group("python")  # one process has the run
FAMILIES = ("gpt2", "qwen3", "gemma3")
SECTIONS: dict[str, dict[str, Any]] = {
    "flow": {"demonstrations": "fixed"},
    "isolation": {"layers": [2], "draws": 1},
    "knockout": {"classes": ["label_to_target"], "layers": ["all"]},
    "transplant": {"places": ["label", "text"], "what": ["keys_values"], "depths": 2},
}
TABLES = {
    "flow": "0",
    "attention": "0/attention",
    "isolation": "0",
    "knockout": "0",
    "transplant": "0",
}


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, shared_folder: Path, tiny_model_directory: Path
) -> Checkout:
    """A run of three families on one task, as far as what Python measures too."""
    folder = tmp_path_factory.mktemp("python")
    checkout = fresh_checkout(folder / "run", shared_folder / "sources", tiny_model_directory)
    words = {key: checkout.config["tasks"]["reviews"][key] for key in ("template", "labels")}
    checkout.config |= {**SECTIONS, "seeds": [0], "models": {}}
    # All of its test texts, so that these have the numbers that Python gives them.
    texts = pl.read_csv(ROOT / "data" / "reviews_test.csv").group_by("label").head(3)
    texts.write_csv(folder / "test.csv")
    of_task = {"source": "local", "train": str(ROOT / "data" / "reviews_train.csv")}
    checkout.config["tasks"] = {"mine": {**of_task, "test": str(folder / "test.csv"), **words}}
    for family in FAMILIES:
        model = tiny_model(family, eager=True, vocabulary=1200)
        model.save_pretrained(folder / family)
        AutoTokenizer.from_pretrained(tiny_model_directory).save_pretrained(folder / family)
        checkout.config["models"][family] = {"source": "local", "path": str(folder / family)}
    targets = [
        f"results/{analysis}/{family}/mine/{file}.parquet"
        for analysis, file in TABLES.items()
        for family in FAMILIES
    ]
    checkout.snakemake("--cores", "2", "--", *targets)
    return checkout


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_python_measures_what_the_workflow_does(run: Checkout, family: str) -> None:
    task = run.config["tasks"]["mine"]
    samples = read_table(run.folder / "results/samples/mine/0.parquet", SAMPLES)
    rows = samples.filter(demonstrations="fixed").sort("example")
    shown = rows.select("demonstration_texts", "demonstration_labels").row(0)
    classifier = InContextClassifier(
        tiny_model(family, vocabulary=1200),
        AutoTokenizer.from_pretrained(run.config["models"][family]["path"]),
        task["template"],
        task["labels"],
        list(zip(*shown, strict=True)),
        names=Names(family, "mine", 0),
    )
    texts, labels = rows["text"].to_list(), rows["label"].to_list()
    isolation, cut = SECTIONS["isolation"], SECTIONS["knockout"]
    found: dict[str, Measurement] = {
        "flow": classifier.flow(texts, labels),
        "attention": classifier.attention(texts, labels),
        "isolation": classifier.isolate(texts, labels, layers=2, draws=isolation["draws"]),
        "knockout": classifier.knockout(texts, labels, cut["classes"], layers=cut["layers"]),
        "transplant": classifier.transplant(texts, labels, **SECTIONS["transplant"]),
    }
    results = Run(run.folder / "results")
    assert rows["example"].to_list() == list(range(6))
    for analysis, measurement in found.items():
        file = "attention" if analysis == "attention" else ""
        measured = results.table(analysis, file).filter(model=family)
        polars.testing.assert_frame_equal(
            measurement.rows, measured, check_row_order=False, abs_tol=1e-6, rel_tol=1e-5
        )


def test_a_measurement_has_a_summary_and_a_figure(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    demonstrations = [("A bore.", 0), ("A delight.", 1)]
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)
    classifier = InContextClassifier(
        tiny_model("qwen3", vocabulary=1200),
        tokenizer,
        "Review: {text}\nSentiment:{label}",
        [" Negative", " Positive"],
        demonstrations,
    )
    first = classifier.isolate(["It drags.", "Lovely."], [0, 1], layers=1, side="first")
    assert set(first.rows["side"]) == {"none", "first"}  # none: undisturbed
    flow = classifier.flow(["It drags.", "Lovely."], [0, 1])
    assert flow.summary().filter(task="average")["examples"].unique().to_list() == [2]
    flow.plot(tmp_path / "flow.png", resolution=60)
    assert (tmp_path / "flow.png").stat().st_size > 1000
    assert flow._repr_png_().startswith(b"\x89PNG")


def test_the_results_of_a_run_are_read_without_untrained_networks(
    shared_run: Checkout, tmp_path: Path
) -> None:
    results = Run(shared_run.folder / "results", shared_run.folder / "small.yaml")
    assert set(results.table("flow")["model"]) == {"tiny"}
    assert set(results.claims()["task"]) == {"average"}
    examples = results.examples()
    assert examples.height == 2 * 2 * shared_run.config["test_examples"]
    first = examples.filter(task="news", seed=1).row(0, named=True)
    assert first["text"] and len(first["demonstration_texts"]) == 4
    words = shared_run.config["tasks"]["news"]["labels"]
    assert first["label_word"] == words[first["label"]]
    assert first["predicted_word"] == words[first["prediction"]]
    assert results.table("samples").height == results.table("samples").unique().height > 0
    assert set(results.table("texts")["task"]) == set(shared_run.config["tasks"])
    accuracy = results.summary("accuracy").filter(task="news", measure="accuracy")["mean"].item()
    assert examples.filter(task="news")["correct"].mean() == pytest.approx(accuracy)
    results.figure("flow", tmp_path / "flow.pdf", font_size=7)
    results.figure("flow", tmp_path / "narrow.png", width=3.3, resolution=100)
    assert imread(tmp_path / "narrow.png").shape[1] == 330
    with pytest.raises(InputError, match="accuracy has no figure that is drawn from its summary"):
        results.figure("accuracy", tmp_path / "accuracy.pdf")
    assert (tmp_path / "flow.pdf").read_bytes().startswith(b"%PDF")
    results.figure("flow", tmp_path / "same.pdf")  # with untrained networks, as in the run
    of_run = shared_run.folder / "results" / "figures" / "flow" / "tiny.pdf"
    assert (tmp_path / "same.pdf").read_bytes() == of_run.read_bytes()


def test_the_documentation_s_example_reads_a_run(
    finished_run: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished_run.folder)
    (finished_run.folder / "small.yaml").replace(finished_run.folder / "config" / "config.yaml")
    run_examples(python_examples("docs/reference/python.md")[-1])
    assert (finished_run.folder / "flow.pdf").is_file()
    (finished_run.folder / "study").symlink_to(finished_run.folder)
    names = run_examples(*python_examples("docs/tutorials/own_texts.md"))
    assert len(names["samples"]["demonstration_texts"][0]) == 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda run: run.table("cutoff"), "cutoff: no results; the run has not measured this"),
        (lambda run: run.table("attention"), "no table ''; its tables are attention, predictions"),
        (lambda run: run.table("flows"), "flows has no tables; choose one of texts, samples, pro"),
        (lambda run: run.summary("flows"), "flows: no results"),
        (lambda run: run.figure("flow", "x.png", model="other"), "no model other, only tiny"),
        (lambda run: run.figure("flow", "x.png"), r"config\.yaml: no such file; name the run"),
    ],
)
def test_what_a_run_lacks_is_said_in_one_sentence(
    call: Any, said: str, shared_run: Checkout, tmp_path: Path
) -> None:
    shutil.copytree(shared_run.folder / "results", tmp_path / "results")  # not its configuration
    with pytest.raises(InputError, match=said):
        call(Run(tmp_path / "results"))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder; run the workflow first"):
        Run(tmp_path / "results")
