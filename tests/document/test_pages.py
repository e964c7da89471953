"""Every generated page is what the code makes, of the schemas, or of what is kept of a run."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from anchorflow.claims.decision import NOT_SUPPORTED, SUPPORTED, UNDECIDED
from anchorflow.statistics.by_task import AVERAGE
from tools.document import DOCS, __main__
from tools.document.published_across import page_across
from tools.document.published_run import page_of
from tools.document.results import results_page
from tools.document.runs import KeptRun

PUBLISHED = sorted(file.parent for file in DOCS.glob("published/*/run.json"))
PAGES: Mapping[str, Callable[[], str]] = {
    **__main__.PAGES,
    "results.md": lambda: results_page(KeptRun.read(DOCS / "results")),
    "published/README.md": lambda: page_across(DOCS / "published"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_makes(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/{name} is behind; run make docs."


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_s_page_is_what_its_files_yield(folder: Path) -> None:
    assert (folder / "README.md").read_text(encoding="utf-8") == page_of(KeptRun.read(folder))


@pytest.mark.parametrize("template", ["results.md", "learnt.md", "contested.md"])
def test_prose_has_no_number_with_decimals_of_its_own(template: str) -> None:
    text = Path(__main__.__file__).with_name(template).read_text(encoding="utf-8")
    prose = re.sub(r"\{\{.+?\}\}", "", text, flags=re.DOTALL)
    models = re.compile(r"Qwen2\.5-Coder-1\.5B")
    assert not re.findall(r".*\d\.\d.*", models.sub("", prose))


def test_the_text_on_disputes_says_what_the_claims_decide() -> None:
    second = {folder.name: KeptRun.read(folder).disputes for folder in PUBLISHED}
    claims = {
        model: {row["claim"]: row for row in run.rows("claims", task=AVERAGE).to_dicts()}
        for model, run in second.items()
        if run
    }

    def those(holds: Callable[[Mapping[str, Any]], bool], claim: str) -> set[str]:
        return {model for model, rows in claims.items() if holds(rows[claim])}

    every, qwen = {*claims}, "qwen2.5-coder-1.5b"
    for claim in ("flow_early", "flow_from_label_words"):
        assert those(lambda row: row["verdict"] == SUPPORTED, claim) == every
        assert those(lambda row: row["null_effect"] <= 0, claim) == every  # without training
    assert those(lambda row: row["verdict"] == SUPPORTED, "gim_orders_layers") == set()
    override = "demonstrations_override"
    assert those(lambda row: row["verdict"] == NOT_SUPPORTED, override) == {qwen}
    assert those(lambda row: row["verdict"] == SUPPORTED, override) == set()
    assert those(lambda row: row["verdict"] == UNDECIDED, "task_vector_recovers") == every
    local = "local_vectors_over_task_vector"
    assert those(lambda row: row["verdict"] == NOT_SUPPORTED, local) == {"gemma-3-270m"}
    for claim in ("positions_carry_together", "reweighting_over_vanilla"):
        assert those(lambda row: row["over_control_low"] > 0, claim) == set()
    number = {"task": AVERAGE, "vector": "none", "measure": "probability"}
    means = {
        model: dict(run.rows("vectors", **number).select("number", "mean").iter_rows())
        for model, run in second.items()
        if run
    }
    assert {model for model, of in means.items() if of[-1] > of[0]} == {qwen}


def test_without_a_run_the_other_pages_are_written_and_the_page_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reference").mkdir()
    shutil.copy(DOCS / "results.md", tmp_path)
    __main__.main(tmp_path, tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    assert written == {"results.md", *__main__.PAGES}
    assert (tmp_path / "results.md").read_bytes() == (DOCS / "results.md").read_bytes()
    assert capsys.readouterr().out == (
        f"docs/results.md was left as it is. {tmp_path / 'results' / 'manifest.json'}: missing or "
        "damaged; finish the run to have its results.\n"
    )
