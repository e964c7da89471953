"""The manifest: it lists what belongs to the run, and the check finds what no longer does."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.analyses.timing import TIMING
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.checksums import fingerprints, sha256_of, write_json
from anchorflow.store.manifest import check_manifest, main, write_manifest
from anchorflow.store.parquet import SCHEMA_VERSION, write_frame

MANIFEST = Path("results/manifest.json")
RUN = {
    "stage": {
        **dict.fromkeys(("models", "prompts", "flow", "isolation", "summaries/flow"), 2),
        "timing": 1,
    },
    "model": ["tiny", "tiny.2"],
    "task": ["news", "news+symbols"],
    "seed": ["0", "1"],
}
NULLS = [
    {**RUN, "stage": {"models": 2, "prompts": 2, "flow": 1}, "model": ["tiny+initialized-0"]},
    {**RUN, "stage": {"prompts": 2, "flow": 2}, "task": ["news+shuffled"]},
]
FINISHED = [
    "results/tables/flow.md",
    "results/figures/timing/tiny.png",
    "results/figures/comparison",
]
LISTED = [
    "results/figures/comparison/claim.png",
    "results/figures/timing/tiny.png",
    "results/flow/tiny+initialized-0/news/0.parquet",
    "results/flow/tiny/news+shuffled/0.parquet",
    "results/models/tiny+initialized-0/config.json",
    "results/models/tiny/config.json",
    "results/models/tiny/model.json",
    "results/summaries/flow/tiny.2.parquet",
    "results/summaries/flow/tiny.parquet",
    "results/tables/flow.md",
    "results/timing/tiny/news+symbols/0.parquet",
]
UNLISTED = [
    "results/summaries/flow/other.parquet",  # another model
    "results/summaries/flow/tiny2.parquet",  # whose name only looks like tiny.2
    "results/timing/tiny/reviews/0.parquet",
    "results/timing/tiny/news/1.parquet",  # only the first seed is timed
    "results/figures/flow_page/tiny/news/0/5.html",  # the run has no pages
    "results/flow_page/tiny/news/0/saliency.parquet",
    "results/timing/tiny/.news/0.parquet",
    "results/summaries/flow/.tiny.parquet.12ab34cd.part",
    "results/benchmarks/measure_timing/tiny/news/0.tsv",
    "results/models/tiny/.snakemake_timestamp",
    "results/models/tiny+initialized-1/config.json",  # a draw that the run does not have
    "results/flow/tiny+initialized-0/news/1.parquet",  # twins are measured for the first seed
    "results/isolation/tiny+initialized-0/news/0.parquet",  # which is not measured of twins
    "results/isolation/tiny/news+shuffled/0.parquet",
    "results/summaries/flow/tiny+initialized-0.parquet",
    "results/flow/tiny+initialized-0/news+shuffled/0.parquet",
    "results/figures/flow/tiny.png",  # no figure of this run
]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the artifacts of a run, and some of others, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    for name in (*LISTED, *UNLISTED):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = TIMING if "/timing/" in name else FLOW_SUMMARY
        if path.suffix == ".parquet":
            write_frame(path, schema, pl.DataFrame(schema=frame_schema(schema)), {"of": name})
        else:
            path.write_text(name, encoding="utf-8")
    describe_model()
    return tmp_path


def describe_model() -> None:
    folder, weights = Path("results/models/tiny"), Path("weights")
    weights.mkdir(exist_ok=True)
    (weights / "model.safetensors").write_bytes(b"weights")
    card = {
        "directory": str(weights.resolve()),
        "weights": fingerprints(weights.iterdir()),
        "files": fingerprints([folder / "config.json"]),
    }
    write_json(folder / "model.json", card)


def written() -> dict[str, Any]:
    write_manifest(FINISHED, RUN, NULLS, MANIFEST)
    manifest: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return manifest


def sentences() -> list[str]:
    return [fault.sentence for fault in check_manifest()]


def test_it_lists_the_run_s_artifacts_in_order_and_nothing_else(results: Path) -> None:
    manifest = written()
    files, software, before = manifest["files"], manifest["software"], MANIFEST.read_bytes()
    assert list(files) == LISTED
    for name, entry in files.items():
        assert (entry["size"], entry["sha256"]) == (Path(name).stat().st_size, sha256_of(name))
    flow = files["results/summaries/flow/tiny.parquet"]
    assert (flow["table"], flow["schema_version"]) == ("flow_summary", SCHEMA_VERSION)
    assert files["results/timing/tiny/news+symbols/0.parquet"]["table"] == "timing"
    assert "table" not in files["results/tables/flow.md"]
    # What measured time enters.
    assert [name for name, entry in files.items() if not entry["repeatable"]] == [
        "results/figures/comparison/claim.png",
        "results/figures/timing/tiny.png",
        "results/timing/tiny/news+symbols/0.parquet",
    ]
    assert {"anchorflow", "torch", "python", "snakemake", "machine"} <= software.keys()
    assert all(software.values())
    written()
    assert MANIFEST.read_bytes() == before


def test_a_damaged_table_is_not_listed_but_told(results: Path) -> None:
    path = Path("results/summaries/flow/tiny.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        InputError, match=r"results/summaries/flow/tiny\.parquet: damaged, or not a table"
    ):
        written()
    assert not MANIFEST.exists()


def test_an_untouched_run_has_no_faults(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written()
    assert main() == 0
    assert capsys.readouterr().out == (
        "results/manifest.json: all artifacts are what the run wrote.\n"
    )


@pytest.mark.parametrize("name", LISTED)
def test_a_missing_and_a_changed_artifact_are_named(results: Path, name: str) -> None:
    written()
    path = Path(name)
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert sentences() == [f"{name}: not what the run wrote; delete it."]
    path.unlink()
    assert sentences() == [f"{name}: missing."]


def test_weights_outside_of_results_are_read_through(results: Path) -> None:
    written()
    weights = Path("weights/model.safetensors").resolve()
    weights.write_bytes(b"Weights")
    sentence = (
        f"{weights}: missing or not what it was when the model was resolved; put it back, or "
        "delete results/models/tiny."
    )
    assert sentences() == [sentence]
    weights.unlink()
    assert sentences() == [sentence]


def test_the_commands_that_rebuild_name_folders_that_one_job_makes(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written()
    summary = "results/summaries/flow/tiny.parquet"
    for name in (LISTED[0], "results/models/tiny/config.json", summary):
        Path(name).write_text("damaged", encoding="utf-8")
    assert main() == 1
    paths = "results/figures/comparison results/models/tiny results/summaries/flow/tiny.parquet"
    assert capsys.readouterr().out.endswith(
        f"To rebuild:\nrm -rf {paths}\nsnakemake --cores all {paths} {MANIFEST}\n"
        "Add --configfile if the run had one.\n"
    )


@pytest.mark.parametrize("content", [None, "", "{}", '{"files": {}}'])
def test_a_missing_or_damaged_manifest_is_told_in_one_sentence(
    results: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        MANIFEST.write_text(content, encoding="utf-8")
    assert main() == 1
    assert capsys.readouterr().err == (
        "ERROR: results/manifest.json: missing or damaged; delete it and run again to write it.\n"
    )
