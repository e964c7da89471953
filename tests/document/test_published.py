"""Pages of published runs: beside the papers' numbers, and renewed from what they quote."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from anchorflow.config.errors import InputError
from anchorflow.document.published import PUBLISHED, page_across, page_of, publish
from anchorflow.document.results import quoted_files, read_quoted
from anchorflow.store.checksums import sha256_of, write_json

TASKS = ("sst2", "trec", "agnews", "emoc")
SOFTWARE = ("torch", "transformers", "python", "machine")
ESTIMATE = {"mean": "0.5", "low": "0.25", "high": "0.75"}
CONFIGURATIONS = ["config/published/files.yaml", "config/published/gemma.yaml"]


def claim(name: str, verdict: str, mark: str = "holds") -> dict[str, str]:
    marks = {"effect_mark": mark, "control_mark": "none", "null_mark": mark}
    numbers = {"effect": "0.5", "low": "0.25", "high": "0.75", "control_effect": ""}
    return {"task": "average", "claim": name, **numbers, "null_effect": "0.1", **marks} | {
        "verdict": verdict
    }


def run_of(folder: Path, model: str, claims: Sequence[Mapping[str, str]]) -> Path:
    """A folder as a finished run leaves it, of which only what is quoted is there."""
    tables = {
        "accuracy": [{"model": model}],
        "reweighting": [
            {"task": task, "method": "vanilla", "measure": "accuracy", **ESTIMATE}
            for task in (*TASKS, "average")
        ],
        "claims": claims,
    }
    results = folder / "results"
    (results / "tables").mkdir(parents=True)
    for name, rows in tables.items():
        with open(results / "tables" / f"{name}.csv", "w", encoding="utf-8", newline="") as text:
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    (results / "summary.md").write_text("# Summary of the run\n")
    figure = results / "figures" / "flow" / f"{model}.png"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"a figure")
    files = {
        file.relative_to(folder).as_posix(): {"sha256": sha256_of(file)}
        for file in results.rglob("*")
        if file.is_file()
    }
    software = dict.fromkeys(SOFTWARE, "1.0")
    write_json(results / "manifest.json", {"software": software, "files": files})
    return folder


def behind(folder: Path) -> list[str]:
    """The files of published runs that are not what their quoted tables yield."""
    differ = []
    for of_run in sorted(file.parent for file in folder.glob("*/run.json")):
        text, quoted = page_of(read_quoted(of_run))
        wanted = {"README.md": text, **quoted_files(quoted)}
        differ += [
            f"{of_run.name}/{name}"
            for name, content in wanted.items()
            if (of_run / name).read_text(encoding="utf-8") != content
        ]
    across = folder / "README.md"
    if across.exists() and across.read_text(encoding="utf-8") != page_across(folder):
        differ.append("README.md")
    return differ


def test_published_pages_are_what_their_tables_yield() -> None:
    assert behind(PUBLISHED) == []


def test_a_run_is_published_beside_the_papers_numbers(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "tiny", [claim("flow_early", "supported")])
    folder = publish(run, CONFIGURATIONS, tmp_path / "published")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert f"--configfile {' '.join(CONFIGURATIONS)}" in text
    assert "| vanilla | 0.50 [0.25, 0.75] | 0.50 [0.25, 0.75] |" in text
    # Wang et al. 2023, Tables 1 and 2; nothing is compared with what was not measured.
    assert "| vanilla | 0.61 | 0.58 | 0.73 | 0.15 | 0.52 |" in text
    assert "Table 2" not in text
    assert sorted(file.name for file in folder.iterdir()) == [
        *("README.md", "claims.csv", "flow.png", "reweighting.csv", "run.json", "summary.md"),
    ]
    assert behind(tmp_path / "published") == []
    (folder / "claims.csv").write_text(
        (folder / "claims.csv").read_text(encoding="utf-8").replace("0.5,", "0.6,"),
        encoding="utf-8",
    )
    assert behind(tmp_path / "published") == ["tiny/README.md", "README.md"]


def test_the_page_across_runs_has_what_holds_in_most_models_first(tmp_path: Path) -> None:
    early, late = claim("flow_early", "undecided", "unclear"), claim("flow_late", "supported")
    unknown = {**early, "effect": "", "low": "", "high": ""}
    for name, claims in {"one": [early, late], "other": [unknown, late]}.items():
        publish(run_of(tmp_path / name, name, claims), CONFIGURATIONS, tmp_path / "published")
    lines = (tmp_path / "published" / "README.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert table[0] == "| claim | source | one | other |"
    assert table[2].startswith("| In late layers, more information flows from the label words to")
    assert table[2].endswith("| ✓ – ✓ 0.50 [0.25, 0.75] | ✓ – ✓ 0.50 [0.25, 0.75] |")
    assert table[3].endswith("| ? – ? 0.50 [0.25, 0.75] | – |")


@pytest.mark.parametrize("name", ["tables/claims.csv", "summary.md", "figures/flow/tiny.png"])
def test_a_file_that_the_run_did_not_write_is_refused(name: str, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "tiny", [claim("flow_early", "supported")])
    file = run / "results" / name
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(InputError, match=f"{re.escape(name)}: not what the run wrote"):
        publish(run, CONFIGURATIONS, tmp_path / "published")
    assert not (tmp_path / "published").exists()
