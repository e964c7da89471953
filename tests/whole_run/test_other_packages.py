"""An analysis and a method of compression that another package brings along, in a small run."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from anchorflow.config import registry
from checkout import Checkout, messages

PACKAGE = Path(__file__).parents[1] / "tools" / "sink_package"
TARGETS = (
    *("results/figures/sink/tiny.png", "results/tables/sink.csv"),
    *("results/summaries/claims/tiny.parquet", "results/summaries/compression/tiny.parquet"),
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder into which the package is installed, in no environment of its own."""
    source = shutil.copytree(PACKAGE, tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(tmp_path / "installed")]
    subprocess.run([*pip, *options, str(source)], check=True)
    return tmp_path / "installed"


def planned(run: Checkout, installed: Path) -> set[str]:
    given = ("--dry-run", "--cores", "2", *TARGETS)
    return messages(run.snakemake(*given, PYTHONPATH=str(installed)))


@pytest.mark.long
def test_its_analysis_runs_from_configuration_to_figure_and_claim(
    finished_run: Checkout, installed: Path
) -> None:
    run = finished_run
    run.config["sink"], run.config["controls"]["stages"] = {"tokens": 2}, ["sink"]
    run.config["compression"]["methods"] = ["hidden_anchor", "first_and_recent"]
    run.snakemake("--cores", "2", *TARGETS, PYTHONPATH=str(installed))

    results = run.folder / "results"
    measured = pl.read_parquet(results / "sink/tiny/news/0.parquet")
    prompts = pl.read_parquet(results / "prompts/tiny/news/0.parquet")
    lengths = prompts.filter(demonstrations="fixed").select("example", "tokens")
    even = measured.join(lengths, on="example").select(pl.col("even") - 2 / pl.col("tokens"))
    assert even["even"].abs().max() < 1e-6
    assert measured["attention"].is_between(0, 1).all()
    summary = pl.read_csv(results / "tables/sink.csv")
    assert set(summary["measure"]) == {"attention", "even"}
    assert (results / "figures/sink/tiny.png").stat().st_size > 5000
    methods = pl.read_parquet(results / "summaries/compression/tiny.parquet")["method"]
    assert "first_and_recent" in set(methods)
    claims = pl.read_parquet(results / "summaries/claims/tiny.parquet")
    (claim,) = claims.filter(claim="first_token_draws_attention", task="average").iter_rows(
        named=True
    )
    assert claim["effect"] is not None and claim["over_null"] is not None

    # An edit of its code reruns this analysis and what reads it, and an edit of a word nothing.
    assert planned(run, installed) == set()
    folder = installed / "anchorflow_sink" / "sink"
    words = (folder / "__init__.py").read_text(encoding="utf-8")
    edited = words.replace("mean over heads", "averaged over heads")
    assert edited != words
    (folder / "__init__.py").write_text(edited, encoding="utf-8")
    assert planned(run, installed) == set()
    code = (folder / "measure.py").read_text(encoding="utf-8")
    (folder / "measure.py").write_text(f"{code}\nEDITED = 1\n", encoding="utf-8")
    rerun = planned(run, installed)
    assert any("Attention to the first tokens" in message for message in rerun)
    assert any("Judging" in message or "claims" in message.lower() for message in rerun)
    assert not any("ompress" in message for message in rerun)


@pytest.mark.parametrize(
    ("folder", "name", "sentence"),
    [
        ("analyses", "flow", "other.it: there is another flow among anchorflow.analyses"),
        (registry.METHODS, "snapkv", "other.it: there is another snapkv among anchorflow.compr"),
        ("analyses", "a-b", "other.it: 'a-b' can't be the name of an entry"),
        ("analyses", "A", "other.it: 'A' can't be the name of an entry"),
    ],
)
def test_a_name_that_is_taken_or_no_name_is_refused(
    folder: str, name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = SimpleNamespace(name=name, value="other.it")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    registry.installed.cache_clear()
    try:
        with pytest.raises(registry.InputError, match=re.escape(sentence)):
            registry.installed(folder)
    finally:
        registry.installed.cache_clear()


@pytest.mark.parametrize(
    ("name", "files", "sentence"),
    [
        ("sink", {}, "(No module named 'lost')"),
        ("sink", {"sink.py": "import nothing_there\n"}, "(No module named 'nothing_there')"),
        ("sink", {"sink.py": "ANALYSIS = 1\n"}, "(ANALYSIS is not an anchorflow.config.ana"),
        ("tasks", {"tasks.py": ""}, "(tasks is the name of something else in a run)"),
        ("sink", {"sink/__init__.py": "DECLARED"}, "(its folder has no measure.py, which its"),
    ],
)
def test_a_package_that_cannot_be_read_is_named(
    name: str,
    files: dict[str, str],
    sentence: str,
    copy_checkout: Callable[[], Checkout],
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken"
    (broken / "lost-1.dist-info").mkdir(parents=True)
    (broken / "lost-1.dist-info/METADATA").write_text("Name: lost\nVersion: 1\n", encoding="utf-8")
    points = f"[anchorflow.analyses]\n{name} = lost.{name}\n"
    (broken / "lost-1.dist-info/entry_points.txt").write_text(points, encoding="utf-8")
    declared = (PACKAGE / "anchorflow_sink/sink/__init__.py").read_text(encoding="utf-8")
    for file, text in {"__init__.py": "", **files}.items() if files else ():
        (broken / "lost" / file).parent.mkdir(parents=True, exist_ok=True)
        (broken / "lost" / file).write_text(text.replace("DECLARED", declared), encoding="utf-8")
    printed = copy_checkout().snakemake("--dry-run", ok=False, PYTHONPATH=str(broken))
    assert f"lost.{name}: this analysis of another package can't be read {sentence}" in printed
