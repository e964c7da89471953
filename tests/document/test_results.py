"""docs/results.md from a finished run, and what it quotes."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from snakemake.utils import update_config

from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.store.checksums import sha256_of, write_json
from tools.document import DOCS, results
from tools.document.results import FIGURES, quote, write_results
from tools.document.runs import KeptRun

KEPT = KeptRun.read(DOCS / "results")
ACCURACY = {
    "task": ["news", "average", "average", None],
    "measure": ["accuracy", "accuracy", "f1", "f1"],
    "mean": [0.61803398, -0.004, 0.5, None],
    "low": [0.5, -0.25, None, None],
    "high": [0.75, 0.25, None, None],
    "seeds": [3, 3, 3, 3],
}
CLAIM = {"claim": "a", "effect": 0.25, "low": 0.2, "high": 0.3, "verdict": "mixed"}
RUN = KeptRun({}, {"accuracy": pl.DataFrame(ACCURACY), "claims": pl.DataFrame([CLAIM])})


@pytest.mark.parametrize(
    ("name", "column", "conditions", "text"),
    [
        ("accuracy", "", {"task": "news"}, "0.62 [0.50, 0.75]"),
        ("accuracy", "", {"task": "average", "measure": "accuracy"}, "0.00 [-0.25, 0.25]"),
        ("accuracy", "", {"task": "average", "measure": "f1"}, "0.50"),
        ("accuracy", "", {"task": None}, "–"),
        ("accuracy", "mean", {"task": "news"}, "0.62"),
        ("accuracy", "seeds", {"task": "news"}, "3"),
        ("claims", "", {"claim": "a"}, "0.25 [0.20, 0.30]"),
        ("claims", "verdict", {"claim": "a"}, "mixed"),
    ],
)
def test_an_estimate_or_a_column_of_one_row_is_quoted(
    name: str, column: str, conditions: dict[str, Any], text: str
) -> None:
    assert quote(RUN, name, column, **conditions) == text


def test_a_quote_of_no_row_or_of_several_is_refused() -> None:
    for task, found in (("reviews", 0), ("average", 2)):
        with pytest.raises(ValueError, match=f"{found} rows of accuracy have {{'task': '{task}'}}"):
            quote(RUN, "accuracy", task=task)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy of the page and of what it is made from."""
    shutil.copytree(DOCS / "results", tmp_path / "docs" / "results")
    shutil.copy(DOCS / "results.md", tmp_path / "docs")
    return tmp_path / "docs"


@pytest.fixture
def finished_default_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the default run leaves it, of which only what the page shows is there.

    The figure of flows, which is plotted from a summary, is taken from the documentation.
    """
    monkeypatch.setattr(
        results, "plot_average", lambda run, path: shutil.copy(DOCS / "flow.png", path)
    )
    run, folder = tmp_path / "run", tmp_path / "run" / "results"
    shutil.copytree(DOCS / "results", folder / "tables")
    (folder / "tables" / "extended.csv").unlink()
    (folder / "tables" / "run.json").unlink()
    with open(folder / "tables" / "isolation.csv", "a", encoding="utf-8") as text:
        text.write("forms,zero,label,first,5,label_loyalty,0.6,0.5,0.7\n")  # is not kept
    config = read_configurations("config.yaml")
    write_accuracy(run, config)
    (model,) = config["models"]
    for name in FIGURES:
        (folder / "figures" / name).mkdir(parents=True)
        shutil.copy(DOCS / f"{name}.png", folder / "figures" / name / f"{model}.png")
    write_manifest(run)
    return run


def read_configurations(*names: str) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name in names:
        text = (REPOSITORY / "config" / name).read_text(encoding="utf-8")
        update_config(config, yaml.safe_load(text))
    return config


def write_accuracy(run: Path, config: Mapping[str, Any]) -> None:
    """The table by which the models, tasks and counts of a run are known."""
    (model,), tasks, seeds = config["models"], list(config["tasks"]), len(config["seeds"])
    count = seeds * config["test_examples"]
    examples = {**dict.fromkeys(tasks, count), "average": count * len(tasks)}
    accuracy = [f"{model},{task},accuracy,{seeds},{texts}\n" for task, texts in examples.items()]
    (run / "results" / "tables" / "accuracy.csv").write_text(
        "".join(["model,task,measure,seeds,examples\n", *accuracy]), encoding="utf-8"
    )


def write_manifest(run: Path) -> None:
    files = {
        path.relative_to(run).as_posix(): {"sha256": sha256_of(path)}
        for path in run.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    contents = {"software": KEPT.facts["software"], "files": files}
    write_json(run / "results" / "manifest.json", contents)


def test_a_finished_default_run_is_quoted(finished_default_run: Path, docs: Path) -> None:
    (docs / "results.md").write_text("")
    (docs / "results" / "timing.csv").write_text("a\nno longer quoted\n")
    write_results(finished_default_run, docs)
    assert (docs / "results.md").read_bytes() == (DOCS / "results.md").read_bytes()
    names = {path.name for path in (DOCS / "results").iterdir()}
    assert {path.name for path in (docs / "results").iterdir()} == names
    for name in names - {"accuracy.csv"}:  # which has more columns here
        assert (docs / "results" / name).read_bytes() == (DOCS / "results" / name).read_bytes()
    for name in (*FIGURES, "flow"):
        assert (docs / f"{name}.png").read_bytes() == (DOCS / f"{name}.png").read_bytes()


def test_the_claims_of_an_extended_run_are_quoted_beside_those_of_the_default_run(
    finished_default_run: Path, docs: Path
) -> None:
    config = read_configurations("config.yaml", "full.yaml")
    write_accuracy(finished_default_run, config)
    claims = finished_default_run / "results" / "tables" / "claims.csv"
    rows = pl.read_csv(claims, infer_schema=False)
    rows.with_columns(reason=pl.lit("of the extended run")).write_csv(claims)
    write_manifest(finished_default_run)
    write_results(finished_default_run, docs)
    after = KeptRun.read(docs / "results")
    assert set(after.tables["extended"]["reason"]) == {"of the extended run"}
    assert after.facts["extended_tasks"] == list(config["tasks"])
    for name in KEPT.tables.keys() - {"extended"}:
        assert after.tables[name].equals(KEPT.tables[name])
    assert not list(docs.glob("*.png"))  # those of the default run stay


def test_without_claims_of_an_extended_run_the_page_is_left(
    finished_default_run: Path, docs: Path
) -> None:
    (docs / "results" / "extended.csv").unlink()
    before = (docs / "results.md").read_bytes()
    with pytest.raises(InputError, match="after `make full`, write them by `make docs`"):
        write_results(finished_default_run, docs)
    assert (docs / "results.md").read_bytes() == before


def test_the_figure_of_flows_has_the_average_alone_and_a_page_s_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results" / "summaries" / "flow"
    folder.mkdir(parents=True)
    pl.DataFrame({"task": ["news", "average"]}).write_parquet(folder / "m.parquet")
    for model in ("m", "m+initialized-0", "m+initialized-1"):
        measured = tmp_path / "results" / "flow" / model / "news"
        measured.mkdir(parents=True)
        pl.DataFrame({"model": [model]}).write_parquet(measured / "0.parquet")
    plotted: list[Any] = []
    monkeypatch.setattr(results, "plot_flow", lambda *arguments: plotted.extend(arguments))
    results.plot_average(tmp_path, tmp_path / "flow.png")
    own, style, confidence, paths, untrained = plotted
    assert own.rows() == [("average",)]
    assert untrained["model"].to_list() == ["m+initialized-0", "m+initialized-1"]
    assert (style["panel_width"], confidence) == (6.8, 0.95)
    assert paths == {"png": tmp_path / "flow.png"}
    assert (DOCS / "flow.png").stat().st_size < 2**20


def test_a_run_that_changed_since_or_is_another_one_is_not_quoted(
    finished_default_run: Path, tmp_path: Path
) -> None:
    path = finished_default_run / "results" / "tables" / "accuracy.csv"
    text = path.read_text(encoding="utf-8")
    for altered in (text.replace("forms", "dialogues"), text.rstrip("\n") + "00\n"):
        path.write_text(altered, encoding="utf-8")
        with pytest.raises(InputError, match=r"accuracy\.csv: not what the run wrote"):
            write_results(finished_default_run, tmp_path / "docs")
        write_manifest(finished_default_run)
        with pytest.raises(InputError, match=r"not a run of config/config\.yaml"):
            write_results(finished_default_run, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()
