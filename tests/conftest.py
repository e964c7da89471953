"""Fixtures for all tests: tiny models, copies of the checkout, a finished run and a browser."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from tokenizers import Tokenizer, models, pre_tokenizers

from browser import open_browser
from checkout import ROOT, Checkout, copy_sources, fresh_checkout, small_configuration, state
from resolved_models import resolve
from tiny_encoder import tiny_encoder

torch.set_num_threads(1)

_KEPT = 3600  # seconds that a folder shared by tests of other code is kept
_SHARED = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the code's state once per session; processes of pytest-xdist are told of it."""
    told = getattr(config, "workerinput", {}).get("shared")
    config.stash[_SHARED] = Path(told) if told else _shared_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what is long first, so that no process ends with one of them while the others wait.

    Of the others, one that needs the finished run is the first, so that a process makes it while
    the others have what does not need it.
    """
    kinds: dict[str, list[pytest.Item]] = {"long": [], "run": [], "other": []}
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        kind = "run" if names & {"shared_run", "finished_run"} else "other"
        kinds["long" if item.get_closest_marker("long") else kind].append(item)
    first, *rest = kinds["run"] or [None]
    items[:] = [*kinds["long"], *([first] if first else []), *kinds["other"], *rest]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["shared"] = str(node.config.stash[_SHARED])


def _shared_folder() -> Path:
    """The folder of the code as it is now, with a copy of it that later edits do not reach.

    Its name is a digest of all that the workflow and its small run consist of.
    """
    place = ROOT / ".pytest_cache" / "shared"
    place.mkdir(parents=True, exist_ok=True)
    sources = Path(tempfile.mkdtemp(prefix="unfinished-", dir=place))
    copy_sources(ROOT, sources)
    folder = place / state(sources, also=[Path(__file__)])
    with FileLock(place / "lock"):
        if folder.exists():
            shutil.rmtree(sources)
        else:
            folder.mkdir()
            sources.rename(folder / "sources")
        os.utime(folder)  # in use, and not to be removed
        for other in place.iterdir():
            if other.is_dir() and time.time() - other.stat().st_mtime > _KEPT:
                shutil.rmtree(other, ignore_errors=True)
    return folder


@pytest.fixture(scope="session")
def shared_folder(pytestconfig: pytest.Config) -> Path:
    """A folder that all processes of tests, and later ones of the same code, have in common."""
    return pytestconfig.stash[_SHARED]


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that the first process to ask for it makes, while the others wait.

    It is made in its place, since what a run resolves names where the model lies.
    """
    made = folder.with_name(f"{folder.name}.made")
    with FileLock(f"{folder}.lock"):
        os.utime(folder.parent)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            made.touch()
    return folder


@pytest.fixture(scope="session")
def tiny_model_directory(shared_folder: Path) -> Path:
    """A random Llama with a byte-level tokenizer trained on the built-in texts."""
    made_once(shared_folder / "encoder", tiny_encoder)  # which the small configuration names
    return made_once(shared_folder / "tiny", _make_tiny_model)


def _make_tiny_model(folder: Path) -> None:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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


@pytest.fixture(scope="session")
def resolved(tmp_path_factory: pytest.TempPathFactory, tiny_model_directory: Path) -> Path:
    """A folder with a tokenizer, and with a model whose weights lie in ``source``."""
    folder = tmp_path_factory.mktemp("resolved")
    shutil.copytree(tiny_model_directory, folder / "source")
    resolve(folder)
    return folder


@pytest.fixture(scope="session")
def words() -> Tokenizer:
    """A tokenizer that has one word for each of the tiny models' tokens."""
    vocabulary = {f"w{token}": token for token in range(97)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser; tests that ask for it are skipped where there is none."""
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def copy_checkout(
    tmp_path: Path, shared_folder: Path, tiny_model_directory: Path
) -> Callable[[], Checkout]:
    """Make a fresh copy of the project, without results."""

    def make() -> Checkout:
        sources = shared_folder / "sources"
        return fresh_checkout(tmp_path / "checkout", sources, tiny_model_directory)

    return make


@pytest.fixture(scope="session")
def shared_run(shared_folder: Path, tiny_model_directory: Path) -> Checkout:
    """A finished small run for tests that only read it, without Snakemake."""

    def run(folder: Path) -> None:
        checkout = fresh_checkout(folder, shared_folder / "sources", tiny_model_directory)
        checkout.snakemake("--cores", "2")

    folder = made_once(shared_folder / "finished", run)
    return Checkout(folder, small_configuration(Path("models") / tiny_model_directory.name))


@pytest.fixture
def finished_run(shared_run: Checkout, tmp_path: Path) -> Checkout:
    """A private copy of the finished run, with everything Snakemake remembers of it."""
    return shared_run.copy(tmp_path / "finished")


@pytest.fixture(scope="session")
def wheel_contents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which a wheel of this repository is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("*.whl")
    target = folder / "installed"
    command = [*pip, "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True)
    return target
