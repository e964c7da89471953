"""Copies of the checkout in which the workflow runs, with a small configuration."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from forked_snakemake import run_snakemake

ROOT = Path(__file__).parents[2]
COPIED = ("Snakefile", "workflow", "profiles", "data", "config")
# What the bytes of a small run depend on, the workflow aside.
LIBRARIES = (
    "snakemake",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "polars",
    "pyarrow",
    "datasets",
)
TOOLS = (Path(__file__), Path(__file__).with_name("tiny_encoder.py"))
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def messages(printed: str) -> set[str]:
    """What a dry run says about each of its jobs, those in groups included."""
    return set(re.findall(r"^ *Job \d+: (.*)$", printed, re.M))


@dataclass
class Checkout:
    """A copy of the project in which the workflow runs."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)

    def copy(self, folder: Path) -> "Checkout":
        """The same in another folder, with a configuration of its own."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Checkout(folder, deepcopy(self.config))

    def snakemake(self, *arguments: str, ok: bool = True, **environment: str) -> str:
        """Run snakemake here and return all that it prints; fails the test unless as expected.

        A run and its jobs are forks, unless they are given an environment of their own, other
        than where modules are found.
        """
        (self.folder / "small.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")
        given = ["--configfile", "small.yaml", *arguments]
        # With bytecode, which the jobs of a run, and of copies of it, share.
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        whole = {**inherited, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", **environment}
        if environment.keys() <= {"PYTHONPATH"} and not self._begins_with_code(whole):
            code, printed = run_snakemake(given, self.folder, whole)
        else:
            finished = subprocess.run(
                [sys.executable, "-m", "snakemake", *given],
                cwd=self.folder,
                env=whole,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=900,
            )
            code, printed = finished.returncode, finished.stdout
        if (code == 0) != ok:
            pytest.fail(printed[-8000:])
        return printed

    def _begins_with_code(self, environment: dict[str, str]) -> bool:
        """Whether a Python would run a module of ours when it starts, which forks do not."""
        places = environment["PYTHONPATH"].split(os.pathsep)
        return any((self.folder / place / "sitecustomize.py").is_file() for place in places)

    def planned(self, *targets: str) -> set[str]:
        """Messages of the jobs that snakemake would run now.

        Without the target rules, and without the manifest, which follows whatever runs.
        """
        printed = self.snakemake("--dry-run", "--cores", "2", *targets)
        return messages(printed) - {
            "Listing all artifacts with their checksums",
            "Summarizing the run",  # after everything else too
        }

    def change_code(self, file: str) -> None:
        """Add a statement to a file of the package, so that what it computes may be another."""
        path = self.folder / "workflow" / "anchorflow" / file
        path.write_text(f"{path.read_text(encoding='utf-8')}\nEDITED = 1\n", encoding="utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a piece of one file; fails if it is not there."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


def small_configuration(model: Path) -> dict[str, Any]:
    """Two built-in tasks with a tiny local model, two seeds, a handful of examples.

    The encoder is taken to lie next to the model.
    """
    full = yaml.safe_load((ROOT / "config" / "full.yaml").read_text(encoding="utf-8"))
    tasks = {name: full["tasks"][name] for name in ("reviews", "news")}
    for key in ("label_words", "random_words"):  # tests/whole_run/test_on_request.py adds some
        tasks["reviews"].pop(key, None)
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
        "reweighting": {"epochs": 2},
        "timing": {"queries": 2, "repetitions": 1},
        "kernel": {"demonstration_tokens": 500},
        "encoder": {"path": str(model.parent / "encoder")},
        "controls": {"untrained": ["shuffled"], "stages": ["flow", "compression"]},
        "theory": {
            "worlds": 3,
            "states": 6,
            "observations": 5,
            "tasks": 2,
            "length": 2,
            "demonstrations": [1, 2, 4],
            "samples": 20,
        },
        "figures": {"resolution": 60},
    }


def copy_sources(root: Path, folder: Path) -> None:
    """Copy what a run needs of a project to another folder."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=_NOT_COPIED)
        else:
            shutil.copy2(root / name, folder / name)


def state(sources: Path, also: Iterable[Path] = ()) -> str:
    """A digest of copied sources, and of all else that a small run consists of."""
    digest = hashlib.sha256(f"python {platform.python_version()} ".encode())
    for library in LIBRARIES:
        digest.update(f"{library} {version(library)} ".encode())
    for file in (*sorted(path for path in sources.rglob("*") if path.is_file()), *TOOLS, *also):
        place = file.relative_to(sources) if file.is_relative_to(sources) else file.name
        content = file.read_bytes()
        digest.update(f"{place} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def fresh_checkout(folder: Path, sources: Path, model: Path) -> Checkout:
    """Copy what a run needs to a new folder, with a tiny model and the encoder next to it."""
    folder.mkdir()
    copy_sources(sources, folder)
    for part in (model, model.parent / "encoder"):
        shutil.copytree(part, folder / "models" / part.name)
    return Checkout(folder, small_configuration(Path("models") / model.name))
