"""Configurations that no run can be made of, given to Snakemake: a sentence, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml

from checkout import Checkout


def dry_run(checkout: Checkout, text: str | None = None) -> tuple[int, str]:
    """A dry run with this configuration file, word for word."""
    text = yaml.safe_dump(checkout.config) if text is None else text
    (checkout.folder / "c.yaml").write_text(text, encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--configfile", "c.yaml"],
        cwd=checkout.folder,
        env={**os.environ, "PYTHONPATH": "workflow"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return finished.returncode, finished.stdout


def everything(folder: Path) -> set[Path]:
    """All files that are there, without Snakemake's own and Python's."""
    own = (".snakemake", "__pycache__")
    return {path for path in folder.rglob("*") if not any(part in own for part in path.parts)}


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("a: !!python/object/apply:os.system ['touch hacked']\n", "is not valid JSON or YAML"),
        ("- 1\n#", "with keys at top level"),
        ("test_examples: 5\n", '"test_examples" appears twice in one mapping (line'),
        ("models: {../../x: {source: local, path: m}}\n#", "'../../x' can't be a name"),
    ],
    ids=["tag", "list", "twice", "path"],
)
def test_a_hostile_configuration_file_is_told_in_a_sentence_and_leaves_nothing(
    copy_checkout: Callable[[], Checkout], before: str, told: str
) -> None:
    checkout = copy_checkout()
    text = yaml.safe_dump(checkout.config)
    text = before + text.replace("\n", "\n#") if before.endswith("#") else before + text
    there = everything(checkout.folder.parent)
    failed, printed = dry_run(checkout, text)
    assert failed == 1
    assert told in printed
    assert "Traceback" not in printed
    assert everything(checkout.folder.parent) - there == {checkout.folder / "c.yaml"}


def test_braces_blanks_quotes_and_shell_words_are_planned_and_read_as_they_stand(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    task = checkout.config["tasks"]["news"]
    del task["corpus"]
    path = 'data//it\'s "a" $(touch hacked); `touch hacked` & | > *[1].csv'
    labels = [" {model}", " {wildcards.seed}", " %s {0}", " $x$ | <b>"]
    rows = {"text": [f"a {{task}} {i}" for i in range(32)], "label": [0, 1, 2, 3] * 8}
    pl.DataFrame(rows).write_csv(checkout.folder / path)
    template = "{model} $(touch hacked) {{text}} %s {0} ={label}"
    task |= {"source": "local", "train": path, "test": path, "labels": labels, "template": template}
    checkout.snakemake("--cores", "1", "results/samples/news/0.parquet")
    samples = pl.read_parquet(checkout.folder / "results/samples/news/0.parquet")
    shown = samples["demonstration_texts"].explode().unique().to_list()
    assert set(shown) <= set(rows["text"])
    assert not list(checkout.folder.rglob("hacked*"))
    failed, printed = dry_run(checkout)
    assert not failed, printed[-3000:]
