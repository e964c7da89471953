"""A small complete run of the workflow, in a copy of the checkout, for the tests of a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from browser import open_browser
from tiny_encoder import tiny_encoder

ROOT = Path(__file__).parent.parent
COPIED = ("Snakefile", "workflow", "profiles", "data", "config")

torch.set_num_threads(1)


@dataclass
class Checkout:
    """A copy of the project in which the workflow runs."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)

    def snakemake(self, *arguments: str, ok: bool = True, **environment: str) -> str:
        """Run snakemake here and return all that it prints; fails the test unless as expected."""
        (self.folder / "small.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")
        finished = subprocess.run(
            [sys.executable, "-m", "snakemake", "--configfile", "small.yaml", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": "workflow", "HF_HUB_OFFLINE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        if (finished.returncode == 0) != ok:
            pytest.fail(finished.stdout[-8000:])
        return finished.stdout

    def planned(self, *targets: str) -> set[str]:
        """Messages of the jobs that snakemake would run now.

        Without the target rules, and without the manifest, which follows whatever runs.
        """
        lines = self.snakemake("--dry-run", "--cores", "2", *targets).splitlines()
        return {
            line.partition(": ")[2]
            for line in lines
            if line.startswith("Job ") and line.split(":")[0].removeprefix("Job ").isdigit()
        } - {"Listing all artifacts with their checksums"}

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a piece of one file; fails if it is not there."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


def small_configuration(model: Path) -> dict[str, Any]:
    """Two built-in tasks with a tiny local model, two seeds, a handful of examples."""
    default = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    tasks = {name: default["tasks"][name] for name in ("reviews", "news")}
    tasks["reviews"].pop("label_words")  # tests/test_label_words.py adds some
    return {
        "models": {"tiny": {"source": "local", "path": str(model)}},
        "tasks": tasks,
        "seeds": [0, 1],
        "test_examples": 6,
        "isolation": {"layers": [1, 2]},
        "compression": {
            "methods": ["hidden_anchor", "text_anchor", "hidden_random", "recent", "snapkv"],
            "draws": 2,
            "shares": [0.5],
        },
        "timing": {"queries": 2, "repetitions": 1},
        "kernel": {"demonstration_tokens": 500},
        "encoder": {"path": str(tiny_encoder(model.parent / "encoder"))},
        "statistics": {"replicates": 100},
        "figures": {"resolution": 60},
    }


@pytest.fixture(scope="session")
def tiny_model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a byte-level tokenizer trained on the built-in texts."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny"
    trained = ByteLevelBPETokenizer()
    trained.train(
        [str(path) for path in sorted((ROOT / "data").glob("*_train.csv"))],
        vocab_size=1200,
        show_progress=False,
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1200,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser; tests that ask for it are skipped where there is none."""
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def copy_checkout(tmp_path: Path, tiny_model_directory: Path) -> Callable[[], Checkout]:
    """Make a fresh copy of the project, without results."""

    def make() -> Checkout:
        return _copied(tmp_path / "checkout", tiny_model_directory)

    return make


def _copied(folder: Path, model: Path) -> Checkout:
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return Checkout(folder, small_configuration(model))


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory, tiny_model_directory: Path) -> Checkout:
    checkout = _copied(tmp_path_factory.mktemp("run") / "checkout", tiny_model_directory)
    checkout.snakemake("--cores", "2")
    return checkout


@pytest.fixture
def finished_run(_finished: Checkout, tmp_path: Path) -> Checkout:
    """A private copy of a finished small run, with everything Snakemake remembers of it."""
    folder = tmp_path / "finished"
    shutil.copytree(_finished.folder, folder, symlinks=True)
    return Checkout(folder, yaml.safe_load(yaml.safe_dump(_finished.config)))
