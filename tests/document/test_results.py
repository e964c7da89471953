"""docs/results.md against the results that it quotes, and the functions that quote them."""

import csv
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from snakemake.utils import update_config

from anchorflow.config.errors import InputError
from anchorflow.document import ROOT, __main__, bibliography, configuration, results, tables
from anchorflow.document.results import (
    DOCS,
    Quoting,
    QuotingError,
    Results,
    quoted_files,
    read_quoted,
    read_run,
    results_page,
    write,
)
from anchorflow.store.checksums import sha256_of, write_json

TEMPLATE = ROOT / "workflow" / "anchorflow" / "document" / "results.md"
QUOTED = sorted(path.name for path in (DOCS / "results").iterdir())


def disagreements(docs: Path) -> list[str]:
    """The page and the quoted files that are not what template and quoted files yield."""
    page, quoted = results_page(read_quoted(docs / "results"))
    wanted = {f"results/{name}": text for name, text in quoted_files(quoted).items()}
    wanted["results.md"] = page
    there = {f"results/{path.name}" for path in (docs / "results").iterdir()} | {"results.md"}
    differ = {name for name in wanted if (docs / name).read_bytes() != wanted[name].encode()}
    return sorted(differ | (there - wanted.keys()))


def quoted_figures() -> dict[str, str]:
    facts = json.loads((DOCS / "results" / "run.json").read_text(encoding="utf-8"))
    return {
        key.removeprefix("figures."): value for key, value in facts.items() if "figures." in key
    }


def test_the_page_is_what_the_quoted_results_yield() -> None:
    assert disagreements(DOCS) == [], "docs/results.md is behind; run make docs."


def test_the_figures_are_those_of_the_quoted_run() -> None:
    assert set(quoted_figures()) == {"flow", "kernel", "isolation", "compression", "transplant"}
    for name, known in quoted_figures().items():
        assert sha256_of(DOCS / f"{name}.png") == known, name


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy of the page and of what it quotes."""
    shutil.copytree(DOCS / "results", tmp_path / "docs" / "results")
    shutil.copy(DOCS / "results.md", tmp_path / "docs")
    return tmp_path / "docs"


def test_every_altered_number_of_the_page_is_found(docs: Path) -> None:
    page = (docs / "results.md").read_text(encoding="utf-8")
    numbers = list(re.finditer(r"\d\.\d\d", page))
    assert len(numbers) > 100
    for number in numbers:
        altered = f"{(float(number[0]) + 0.01) % 10:.2f}"
        (docs / "results.md").write_text(page[: number.start()] + altered + page[number.end() :])
        assert disagreements(docs) == ["results.md"], number


@pytest.mark.parametrize("file", [name for name in QUOTED if name.endswith(".csv")])
def test_every_altered_cell_of_a_quoted_table_is_found(file: str, docs: Path) -> None:
    path = docs / "results" / file
    names, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    for row in rows:
        for column, known in enumerate(row):
            # In a number, only the last of up to 17 digits, which the page does not show.
            row[column] = known[:-1] + ("1" if known[-1:] != "1" else "2")
            with open(path, "w", encoding="utf-8", newline="") as text:
                csv.writer(text, lineterminator="\n").writerows([names, *rows])
            try:
                assert "results.md" in disagreements(docs), (names[column], known)
            except QuotingError as error:
                assert file.removesuffix(".csv") in str(error)
            row[column] = known


def test_an_altered_fact_or_a_row_too_many_is_found(docs: Path) -> None:
    path = docs / "results" / "run.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    for key, known in facts.items():
        altered = json.dumps({**facts, key: [known]}, indent=2, sort_keys=True)
        path.write_text(altered + "\n", encoding="utf-8")
        assert disagreements(docs) == ["results.md"], key
    path.write_text(json.dumps({**facts, "more": 1}, indent=2, sort_keys=True) + "\n")
    assert disagreements(docs) == ["results/run.json"]

    shutil.copy(DOCS / "results" / "run.json", path)
    with open(docs / "results" / "isolation.csv", "a", encoding="utf-8") as text:
        text.write("average,zero,label,first,5,label_loyalty,0.6,0.5,0.7\n")
    assert disagreements(docs) == ["results/isolation.csv"]


def test_the_prose_has_no_number_with_decimals_of_its_own() -> None:
    prose = re.sub(r"\{\{.+?\}\}", "", TEMPLATE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(r".*\d\.\d.*", prose)


def row(task: str, measure: str, mean: str, low: str = "0.5", high: str = "0.75") -> dict[str, str]:
    return {"task": task, "measure": measure, "mean": mean, "low": low, "high": high, "seeds": "3"}


RUN = Results(
    {
        "accuracy": [
            row("news", "accuracy", "0.61803398"),
            row("average", "accuracy", "-0.004", "-0.25", "0.25"),
            row("average", "f1", "0.5", "", ""),
            row("", "f1", "", "", ""),
        ],
        "claims": [
            {"claim": "a", "effect": "0.25", "low": "0.2", "high": "0.3", "verdict": "supported"},
            {"claim": "b", "effect": "1.5", "low": "", "high": "", "verdict": ""},
        ],
        "timing": [{"way": "full", "milliseconds": "150.5"}],
    },
    {"seeds": [0, 1], "statistics.confidence": 0.95, "figures.flow": "ab12"},
)


@pytest.mark.parametrize(
    ("function", "arguments", "conditions", "text"),
    [
        ("interval", ["accuracy"], {"task": "news"}, "0.62 [0.50, 0.75]"),
        (
            "interval",
            ["accuracy"],
            {"task": "average", "measure": "accuracy"},
            "0.00 [-0.25, 0.25]",
        ),
        ("interval", ["accuracy"], {"task": "average", "measure": "f1"}, "0.50"),
        ("interval", ["accuracy"], {"task": ""}, "–"),
        ("interval", ["claims"], {"claim": "b"}, "1.50"),
        ("value", ["accuracy", "mean"], {"task": "news"}, "0.62"),
        ("value", ["accuracy", "seeds"], {"task": "news"}, "3"),
        ("value", ["timing", "way"], {"milliseconds": 150.5}, "full"),
        ("count", ["accuracy"], {"measure": "f1"}, "2"),
        ("count", ["accuracy"], {"measure": ["f1", "accuracy"], "task": ["news", ""]}, "2"),
        ("count", ["accuracy"], {}, "4"),
        (
            "rows",
            ["claims", "claim", "effect", "verdict"],
            {},
            "| claim | effect | verdict |\n|---|---|---|\n"
            "| a | 0.25 [0.20, 0.30] | supported |\n| b | 1.50 | – |",
        ),
        (
            "crossed",
            ["accuracy", "measure", "low"],
            {},
            "| measure | 0.5 | -0.25 |  |\n|---|---|---|---|\n| accuracy | 1 | 1 | 0 |\n"
            "| f1 | 0 | 0 | 2 |",
        ),
        ("fact", ["seeds"], {}, "0, 1"),
        ("fact", ["statistics.confidence"], {}, "0.95"),
        ("figure", ["flow"], {}, "flow.png"),
    ],
)
def test_a_call_becomes_what_it_quotes(
    function: str, arguments: list[str], conditions: dict[str, object], text: str
) -> None:
    quoting = Quoting(RUN)
    assert quoting.functions()[function](*arguments, **conditions) == text
    again = Quoting(quoting.quoted())  # without the run
    assert again.functions()[function](*arguments, **conditions) == text
    assert again.quoted() == quoting.quoted()


def test_rows_and_columns_that_are_not_quoted_are_left_out() -> None:
    quoting = Quoting(RUN)
    quoting.interval("claims", claim="a")
    quoting.value("accuracy", "seeds", task="news")
    quoting.count("accuracy", measure="f1")
    assert quoted_files(quoting.quoted()) == {
        "accuracy.csv": "task,measure,seeds\nnews,accuracy,3\naverage,f1,3\n,f1,3\n",
        "claims.csv": "claim,effect,low,high\na,0.25,0.2,0.3\n",
        "run.json": "{}\n",
    }


@pytest.mark.parametrize(
    ("function", "arguments", "conditions", "sentence"),
    [
        ("interval", ["accuracy"], {"task": "reviews"}, "0 rows of accuracy have task=reviews."),
        ("count", ["accuracy"], {"task": "reviews"}, "0 rows of accuracy have task=reviews."),
        ("interval", ["accuracy"], {"task": "average"}, "2 rows of accuracy have task=average."),
        ("value", ["accuracy", "seeds"], {"task": "average"}, "2 rows of accuracy have"),
        ("interval", ["accuracy"], {"method": "many"}, "accuracy has no column method."),
        ("interval", ["timing"], {"way": "full"}, "timing has no column high, low, mean."),
        ("value", ["accuracy", "median"], {"task": "news"}, "accuracy has no column median."),
        ("interval", ["flow"], {"task": "average"}, "there is no table flow."),
        ("fact", ["threads"], {}, "the run has no fact threads."),
        ("figure", ["kernel"], {}, "the run has no fact figures.kernel."),
    ],
)
def test_what_can_not_be_quoted_is_named(
    function: str, arguments: list[str], conditions: dict[str, str], sentence: str
) -> None:
    with pytest.raises(QuotingError, match=re.escape(sentence)):
        Quoting(RUN).functions()[function](*arguments, **conditions)


@pytest.fixture
def finished_default_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the default run leaves it, of which only what is quoted is there.

    The figure of flows, which is plotted from a summary, is taken from the documentation.
    """
    monkeypatch.setattr(
        results, "plot_average", lambda run, path: shutil.copy(DOCS / "flow.png", path)
    )
    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    (model,) = config["models"]
    run, folder = tmp_path / "run", tmp_path / "run" / "results"
    shutil.copytree(DOCS / "results", folder / "tables")
    (folder / "tables" / "extended.csv").unlink()
    write_accuracy(run, config)
    for name in quoted_figures():
        (folder / "figures" / name).mkdir(parents=True)
        shutil.copy(DOCS / f"{name}.png", folder / "figures" / name / f"{model}.png")
    (folder / "tables" / "run.json").unlink()
    write_manifest(run)
    return run


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
    facts: Mapping[str, str] = json.loads((DOCS / "results" / "run.json").read_text("utf-8"))
    software = {
        key.removeprefix("software."): value
        for key, value in facts.items()
        if key.startswith("software.")
    }
    files = {
        path.relative_to(run).as_posix(): {"sha256": sha256_of(path)}
        for path in run.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    write_json(run / "results" / "manifest.json", {"software": software, "files": files})


def test_a_finished_default_run_is_quoted(finished_default_run: Path, docs: Path) -> None:
    (docs / "results.md").write_text("")
    (docs / "results" / "timing.csv").write_text("no longer quoted\n")
    write(finished_default_run, docs)
    assert (docs / "results.md").read_bytes() == (DOCS / "results.md").read_bytes()
    assert disagreements(docs) == []
    assert sorted(path.name for path in (docs / "results").iterdir()) == QUOTED
    for name in quoted_figures():
        assert (docs / f"{name}.png").read_bytes() == (DOCS / f"{name}.png").read_bytes()


def test_the_claims_of_an_extended_run_are_quoted_beside_those_of_the_default_run(
    finished_default_run: Path, docs: Path
) -> None:
    config: dict[str, Any] = {}
    for name in ("config.yaml", "full.yaml"):
        text = (ROOT / "config" / name).read_text(encoding="utf-8")
        update_config(config, yaml.safe_load(text))
    write_accuracy(finished_default_run, config)
    claims = finished_default_run / "results" / "tables" / "claims.csv"
    rows = pl.read_csv(claims, infer_schema=False)
    rows.with_columns(reason=pl.lit("of the extended run")).write_csv(claims)
    write_manifest(finished_default_run)
    before = read_quoted(docs / "results")
    write(finished_default_run, docs)
    after = read_quoted(docs / "results")
    assert {row["reason"] for row in after.tables["extended"]} == {"of the extended run"}
    assert after.facts["extended.tasks"] == list(config["tasks"])
    unchanged = before.tables.keys() - {"extended"}
    assert {name: after.tables[name] for name in unchanged} == {
        name: before.tables[name] for name in unchanged
    }
    assert not list(docs.glob("*.png"))  # those of the default run stay


def test_without_claims_of_an_extended_run_the_page_is_left(
    finished_default_run: Path, docs: Path
) -> None:
    (docs / "results" / "extended.csv").unlink()
    before = (docs / "results.md").read_bytes()
    with pytest.raises(InputError, match="after `make full`, write them by `make docs`"):
        write(finished_default_run, docs)
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
            read_run(finished_default_run)
        write_manifest(finished_default_run)
        with pytest.raises(InputError, match=r"not a run of config/config\.yaml"):
            write(finished_default_run, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_without_a_run_the_other_pages_are_written_and_the_page_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bibliography, "BIBLIOGRAPHY_FILE", tmp_path / "bibliography.md")
    monkeypatch.setattr(configuration, "PAGE_FILE", tmp_path / "configuration.md")
    monkeypatch.setattr(tables, "DICTIONARY_FILE", tmp_path / "data_dictionary.md")
    before = (DOCS / "results.md").stat().st_mtime_ns
    __main__.main(tmp_path)
    written = {"bibliography.md", "configuration.md", "data_dictionary.md"}
    assert {path.name for path in tmp_path.iterdir()} == written
    assert (DOCS / "results.md").stat().st_mtime_ns == before
    assert capsys.readouterr().out == (
        f"docs/results.md was left as it is. {tmp_path / 'results' / 'manifest.json'}: missing or "
        "damaged; finish the run to have its results.\n"
    )
