"""The subcommands of ``anchorflow``, which call Snakemake with the workflow of this package.

They end with 0 if all is well, with 2 if the input is at fault, and with 1 if something else fails.
"""

import io
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from anchorflow import __version__
from anchorflow.command.citations import bibtex
from anchorflow.command.configure import (
    CONFIGURATION,
    TEMPLATE,
    Texts,
    model_settings,
    name_of,
    packaged,
    task_settings,
    write_configuration,
)
from anchorflow.config.analysis import WORLDS
from anchorflow.config.as_written import read_configuration
from anchorflow.config.configuration import asked, complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY, WORKFLOW
from anchorflow.config.stages import PRESENTED
from anchorflow.store.pinned_revisions import pin
from anchorflow.store.replacing import replacing
from anchorflow.summary.page import for_terminal

if TYPE_CHECKING:
    from anchorflow.explore.task import OpenedTask

_DRY = {"-n", "--dry-run", "--dryrun"}

app = typer.Typer(
    help="How a language model learns from the examples in its prompt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Folder = Annotated[
    Path, typer.Option("--folder", "-d", help="The run's folder, which has a config.yaml.")
]
Print = Annotated[bool, typer.Option("--print", help="Print the command line instead.")]
Only = Annotated[
    str | None, typer.Option(help="Analyses, separated by commas, such as flow,isolation.")
]
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_PAGE = "flow.html"
_WRITTEN = (_PAGE, "results", "logs", ".snakemake", "report.html")
_MARKS = (".snakemake", "results/manifest.json")  # one of which every run writes
# Parts of jobs' sentences that are not about the input.
_OF_THE_MACHINE = ("no space left on the device", "memory ran out", "fit into ")
# What Snakemake says of itself, and an estimate of all analyses, which check gives itself.
_CHATTER = re.compile(
    r"Using (workflow specific profile|shell)|Assuming unrestricted|Building DAG|Conda environments"
    r"|Select jobs|Execute \d+ jobs|Nothing to be done|Complete log|Elapsed time|\s*$"
    r"|\S+: (\d+ jobs take about|how long a run takes)"
)


def _print_version(asked_for: bool) -> None:
    if asked_for:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder for the run.")] = Path("study"),
    model: Annotated[
        str | None,
        typer.Option(
            help="A folder that save_pretrained wrote, a GGUF file, or owner/name on the Hub."
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="A commit, tag or branch of a model of the Hub.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="A file of labeled texts.")] = None,
    test: Annotated[
        Path | None, typer.Option(help="Another one for tests; otherwise, a fifth of the first.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help=f"With {{text}} and {{label}}; by default, {TEMPLATE!r}.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Label words, by commas, in the order of the sorted labels.")
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="The texts' column.")] = None,
    label_column: Annotated[str | None, typer.Option(help="The labels' column.")] = None,
    quoting: Annotated[
        str | None, typer.Option(help="Of CSV and TSV files: double or none, as in the task's key.")
    ] = None,
) -> None:
    """Write a configuration: of your model or a small one, on your texts or on movie reviews."""
    if revision is not None and model is None:
        raise InputError("--revision goes with --model; name the model.")
    of_texts = {
        "--test": test,
        "--template": template,
        "--labels": labels,
        "--text-column": text_column,
        "--label-column": label_column,
        "--quoting": quoting,
    }
    if train is None and (without := [name for name, given in of_texts.items() if given]):
        raise InputError(f"{without[0]} goes with --train; name the file of training texts.")
    models = {"gemma-3-270m": packaged("models", "gemma-3-270m")}
    if model is not None:
        name = name_of(Path(model).resolve().name.removesuffix(".gguf"), "model")
        models = {name: model_settings(model, revision, folder)}
    tasks = {"reviews": packaged("tasks", "reviews")}
    parts: dict[str, pl.DataFrame] = {}
    if train is not None:
        if quoting not in (None, "double", "none"):
            raise InputError(f"--quoting: {quoting} is neither double nor none; write one of them.")
        texts = Texts(train, test, text_column or "text", label_column or "label", quoting)
        words = None if labels is None else labels.split(",")
        pattern = (template or TEMPLATE).replace("\\n", "\n")  # as one types it in a shell
        settings, parts = task_settings(texts, pattern, words, folder)
        tasks = {name_of(train.name.partition(".")[0], "texts"): settings}
    path = write_configuration(folder, models, tasks, parts)
    for task in tasks.values():
        for value, word in zip(task.get("values", ()), task["labels"], strict=False):
            print(f"The label {value} has the label word {word!r}.")
    there = shlex.quote(str(folder))
    print(f"Written: {path}. Next: anchorflow check -d {there}; anchorflow run -d {there}.")


@app.command(context_settings=_PASSED_ON)
def check(
    context: typer.Context, folder: Folder = Path(), only: Only = None, just_print: Print = False
) -> None:
    """Check configuration, texts and prompts, say how they are read, and what a run takes."""
    config = _enter(folder)
    names = _names(only, config)
    arguments = ["--cores", "1", "--quiet", "rules", "progress", "host", *context.args]
    _snakemake([*arguments, "--", "prompts"], just_print, quiet=not context.args)
    if _DRY & {*context.args}:
        return  # there are no prompts to estimate from
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    from anchorflow.command.estimate import log_estimates, log_texts  # import torch, so late

    log_texts(config)
    log_estimates(config, names)


@app.command(context_settings=_PASSED_ON)
def run(
    context: typer.Context,
    folder: Folder = Path(),
    only: Only = None,
    cores: Annotated[str, typer.Option(help="CPU cores.")] = "all",
    profile: Annotated[
        str | None, typer.Option(help="slurm, gpu, or a folder of your own.")
    ] = None,
    just_print: Print = False,
) -> None:
    """Run the workflow; further arguments are Snakemake's."""
    known = None if profile is None else _folder_of_profile(profile)
    config = _enter(folder)
    names = _names(only, config)
    arguments = ["--cores", cores, *context.args]
    if known is not None:
        arguments += ["--profile", str(known)]
    _snakemake([*arguments, *(["--", *names] if names else [])], just_print)
    if context.args:
        return
    if names:
        for file in _presented(config, names):
            print(f"Written: {folder / file}")
    elif Path("results/summary.md").is_file():
        print(for_terminal(Path("results/summary.md").read_text(encoding="utf-8")))


@app.command()
def show(
    folder: Folder = Path(),
    text: Annotated[
        list[str] | None, typer.Option(help="The text, by field; by default, a test text.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Of the run; by default, its first.")] = None,
    task: Annotated[str | None, typer.Option(help="Of the run; by default, its first.")] = None,
    page: Annotated[
        Path | None, typer.Option(help=f"The page to write; by default, {_PAGE} in the folder.")
    ] = None,
) -> None:
    """Write the page of one text's information flow, after the run's first demonstrations."""
    there = folder / _PAGE if page is None else page
    file = there.resolve()  # before the folder becomes the current one
    if file.is_dir() or not file.parent.is_dir():
        raise InputError(f"--page: {there} is no file that can be written; name another.")
    opened = _opened_task(folder, model, task)
    given = opened.drawn.query if text is None else tuple(text)
    if len(given) != len(opened.fields):
        raise InputError(
            f"--text: give one for each field of {opened.task} ({', '.join(opened.fields)}), in "
            "this order."
        )
    prompt = opened.ask(replace(opened.drawn, query=given))
    title = f"Information flow: {opened.name}, {opened.task}"
    with replacing(file) as temporary:
        prompt.show(title=title).save(temporary)
    print(f"Written: {there}")


@app.command()
def explore(
    folder: Annotated[
        Path | None,
        typer.Option("--folder", "-d", help="A run's folder; by default, a small model's own."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Of the run; without one, a folder that save_pretrained wrote."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Of the run; by default, its first.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8899,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a page on which to type a prompt, see its information flow, and cut it."""
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise InputError(
            f"{' and '.join(missing)}: not installed; run pip install 'anchorflow[explore]'."
        )
    from anchorflow.explore.server import listen, serve

    with listen(port) as listening:
        if folder is None:
            folder, model = _own_folder(model), None
        serve(_opened_task(folder, model, task), listening, browser)


@app.command(context_settings=_PASSED_ON)
def report(context: typer.Context, folder: Folder = Path(), just_print: Print = False) -> None:
    """Collect figures and tables of the finished run in report.html."""
    _enter(folder)
    _snakemake(["--report", "report.html", *context.args], just_print)


@app.command()
def summary(folder: Folder = Path()) -> None:
    """Print the answers of the finished run, and where its figures and tables are."""
    config = _enter(folder)
    there = [str(folder / file) for file in _presented(config, PRESENTED)]
    page = Path("results/summary.md")
    if not page.is_file():
        so_far = f" So far, there are {', '.join(there)}." if there else ""
        raise InputError(f"{folder / page}: no such file; finish the run first.{so_far}")
    print(for_terminal(page.read_text(encoding="utf-8")))
    print("\n".join(["FIGURES AND TABLES", *there]))


@app.command()
def cite(folder: Folder = Path()) -> None:
    """Print BibTeX of this software and of the works, models, and data sets that a run uses."""
    config = _enter(folder)
    pin(config)
    used = [name for name, shown in PRESENTED.items() if _is_asked_for(shown.asked_for, config)]
    print(bibtex(used, [*config["models"].items(), *config["tasks"].items()], config))


@app.command()
def clean(
    folder: Folder = Path(), yes: Annotated[bool, typer.Option(help="Delete them.")] = False
) -> None:
    """Delete all that the run wrote, but not its configuration and texts."""
    _move_to(folder)
    there = [name for name in _WRITTEN if Path(name).exists()]
    if not yes:
        print(f"To be deleted: {', '.join(there) or 'nothing'}. Confirm with --yes.")
        return
    if there and not any(Path(mark).exists() for mark in _MARKS):
        raise InputError(
            f"{folder}: no run has begun here; delete {' and '.join(there)} yourself if you want."
        )
    for name in there:
        if Path(name).is_dir() and not Path(name).is_symlink():
            shutil.rmtree(name)
        else:
            Path(name).unlink()


def _folder_of_profile(name: str) -> Path:
    """A folder of one's own, or one that comes with the workflow."""
    profiles = REPOSITORY / "profiles"
    for folder in (Path(name), profiles / name):
        if folder.is_dir():
            return folder.resolve()
    there = ", ".join(sorted(folder.name for folder in profiles.iterdir()))
    raise InputError(f"--profile: {name} is neither a folder nor one of {there}; correct it.")


def _names(only: str | None, config: Mapping[str, Any]) -> list[str]:
    """The analyses that ``--only`` names, which the configuration asks for."""
    names = [name.strip() for name in only.split(",")] if only else []
    if unknown := set(names) - PRESENTED.keys():
        raise InputError(
            f"--only: no analysis {', '.join(sorted(unknown))}; there are {', '.join(PRESENTED)}."
        )
    for key in filter(None, (PRESENTED[name].asked_for for name in names)):
        asked(key, config)
    return names


def _presented(config: Mapping[str, Any], names: Iterable[str]) -> Iterator[Path]:
    """The figures and tables of some analyses that are there."""
    files = ("figures/{}/{}.png", "figures/{}/{}/index.html")
    for name in names:
        for model in (*config["models"], WORLDS):
            yield from filter(Path.is_file, (Path("results", f.format(name, model)) for f in files))
        yield from filter(Path.is_file, [Path(f"results/tables/{name}.html")])


def _own_folder(model: str | None) -> Path:
    """A folder of explore's own, with the default configuration of a model."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anchorflow"
    if model is None:
        name, folder = "gemma-3-270m", cache / "gemma-3-270m"
        settings = packaged("models", name)
    else:
        where = Path(model).resolve()
        if not where.is_dir():
            raise InputError(
                f"--model: {model} is no folder; name one that save_pretrained wrote, or write a "
                "configuration with anchorflow init, and name its folder with -d."
            )
        name = name_of(where.name, "model")
        folder = cache / f"{name}-{sha256(str(where).encode()).hexdigest()[:8]}"
        settings = model_settings(str(where), None, folder)
    try:
        (folder / CONFIGURATION).unlink(missing_ok=True)  # an earlier version may have written it
        write_configuration(folder, {name: settings}, {"reviews": packaged("tasks", "reviews")})
    except OSError as error:
        raise InputError(
            f"{folder}: can't be written ({error.strerror}); set XDG_CACHE_HOME to a folder that "
            "can, or name a run's folder with -d."
        ) from None
    return folder


def _opened_task(folder: Path, model: str | None, task: str | None) -> "OpenedTask":
    """A run's model and task, the first unless they are named, after preparing what they need."""
    config = _enter(folder)
    chosen: list[str] = []
    for what, name in (("model", model), ("task", task)):
        known = config[f"{what}s"]
        if name is not None and name not in known:
            raise InputError(f"--{what}: {name} is none of the run's: {', '.join(known)}.")
        chosen.append(next(iter(known)) if name is None else name)
    from anchorflow.explore.task import OpenedTask, targets  # imports torch, so late

    quiet = ["--quiet", "rules", "progress", "host"]
    _snakemake(["--cores", "all", *quiet, "--", *targets(config, *chosen)], False, quiet=True)
    return OpenedTask(config, chosen[0], chosen[1], Path("results"))


def _is_asked_for(key: str, config: Mapping[str, Any]) -> bool:
    section, _, asked_key = key.partition(".")
    return not key or bool(config[section][asked_key])


def _move_to(folder: Path) -> None:
    """Make a run's folder the current one."""
    if not (folder / CONFIGURATION).is_file():
        raise InputError(f"{folder / CONFIGURATION}: no such file; write one with anchorflow init.")
    os.chdir(folder)


def _enter(folder: Path) -> dict[str, Any]:
    """Make a run's folder the current one, and check its configuration."""
    _move_to(folder)
    config = read_configuration(CONFIGURATION)
    complete_configuration(config, WORKFLOW / "schemas" / "config.schema.yaml")
    return config


def _snakemake(arguments: list[str], just_print: bool, quiet: bool = False) -> None:
    """Run Snakemake with these arguments, or print its command line; exit if it fails.

    If ``quiet``, what it says of itself is left out, and what jobs say remains.
    """
    if sys.platform == "win32":
        raise InputError(
            "the workflow runs on Linux and macOS; on Windows, use it in WSL, or the Python API."
        )
    if find_spec("snakemake") is None:
        raise InputError("Snakemake is not installed; run pip install 'anchorflow[workflow]'.")
    named = ["--snakefile", str(REPOSITORY / "Snakefile"), "--configfile", CONFIGURATION]
    command = [sys.executable, "-m", "snakemake", *named, *arguments]
    if just_print:
        print(shlex.join(["cd", str(Path.cwd())]), "&&", shlex.join(command))
        raise typer.Exit
    started = time.time() - 0.1  # the times of files lag behind the clock by up to a tick
    if _call(command, quiet):
        if not {"--unlock", *_DRY} & {*arguments}:  # which take no lock
            _check_lock()
        raise typer.Exit(2 if _input_is_at_fault(started) else 1)


def _call(command: list[str], quiet: bool) -> int:
    """Run a command and return its code; if ``quiet``, without Snakemake's chatter."""
    if not quiet:
        return subprocess.run(command, check=False, env=_environment()).returncode
    with subprocess.Popen(command, env=_environment(), stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        # Progress bars end their lines with a carriage return.
        for line in io.TextIOWrapper(running.stderr, "utf-8", errors="replace", newline=""):
            if not _CHATTER.match(line):
                print(line, end="", file=sys.stderr, flush=True)
    return running.returncode


def _check_lock() -> None:
    """Raise InputError if a lock is there after Snakemake failed, which removes its own."""
    locks = Path(".snakemake/locks")
    if locks.is_dir() and any(locks.iterdir()):
        there = shlex.quote(str(Path.cwd()))
        raise InputError(
            f"{there}: another run is active in this folder, or a killed one left its lock; wait "
            "for it, and only if none is active, remove the lock: "
            f"anchorflow run -d {there} --unlock."
        )


def _environment() -> dict[str, str]:
    """The environment for Snakemake, with a folder for its cache if there is none in HOME."""
    known = os.environ.get("XDG_CACHE_HOME")
    cache = Path(known) if known else Path(os.path.expanduser("~")) / ".cache"
    try:
        (cache / "snakemake").mkdir(parents=True, exist_ok=True)
        if os.access(cache / "snakemake", os.W_OK):
            return dict(os.environ)
    except OSError:
        pass
    moved = {**os.environ, "XDG_CACHE_HOME": str(Path.cwd() / ".snakemake" / "cache")}
    if os.path.isdir(cache / "huggingface"):  # what was downloaded stays where it is
        moved.setdefault("HF_HOME", str(cache / "huggingface"))
    return moved


def _input_is_at_fault(since: float) -> bool:
    """Whether a job since then ended with a sentence on its input in its log."""
    logs = (log for log in Path("logs").rglob("*.log") if log.stat().st_mtime >= since)
    lines = (line for log in logs for line in log.read_text("utf-8", "replace").splitlines())
    sentences = [line for line in lines if line.startswith("ERROR: ")]
    return any(not any(part in line for part in _OF_THE_MACHINE) for line in sentences)


def main() -> None:
    """Run a subcommand, and report bad input in one sentence."""
    try:
        app()
    except InputError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        sys.exit(2)
