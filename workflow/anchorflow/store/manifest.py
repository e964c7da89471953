"""results/manifest.json: every artifact of a run with its checksum, and the check against it.

``python -m anchorflow.manifest`` lists artifacts that are missing, damaged or changed since the
run, and how to rebuild them.
"""

import importlib.metadata
import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.stages import STAGES, files_of_tables, stage_of
from anchorflow.store.checksums import read_json, sha256_of, write_json
from anchorflow.store.parquet import read_metadata, software_versions
from anchorflow.store.replacing import replacing

MANIFEST = Path("results/manifest.json")

# Artifacts that are directories, by their names in Snakemake.
_FOLDERS = (
    *(f"results/{stage.name}/{stage.path}" for stage in STAGES.values() if stage.is_folder),
    "results/figures/flow_page/{model}/{task}/{seed}",
    "results/figures/comparison",
)
# Analyses with measured times, which differ between runs, and those with claims about times.
_TIMED = {
    "comparison",
    "costs",
    "summary.md",
    "summary.html",
    *(s.name.removeprefix("summaries/") for s in STAGES.values() if not s.repeatable),
}
_MODEL_CARD = "model.json"

Names = Mapping[str, Any]  # of models, tasks and seeds, and the number of seeds by stage


def write_manifest(
    finished: Iterable[str], run: Names, nulls: Sequence[Names], path: str | Path
) -> None:
    """List all artifacts of a run with size (bytes), SHA-256, table and schema version.

    ``repeatable`` states whether another run on the same machine gives the same bytes. Logs and
    benchmarks are not artifacts.

    ``run`` has the names of the run's ``model``, ``task`` and ``seed``, in order, and by ``stage``
    the number of seeds; ``nulls`` has the same for untrained twins and for shuffled labels. Files
    of others in ``results`` are left out.
    """
    models = {model for names in (run, *nulls) for model in names["model"]}
    sums = _sums_of_weights(Path("results/models"), models)
    files = {file: _entry(file, sums) for file in sorted(_artifacts(finished, run, nulls))}
    software = {
        **software_versions(),
        "snakemake": importlib.metadata.version("snakemake"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    with replacing(path) as temporary:
        write_json(temporary, {"software": software, "files": files})


def _artifacts(finished: Iterable[str], run: Names, nulls: Sequence[Names]) -> set[str]:
    """The run's final files, and the existing tables that they are made from."""
    found = {file for path in finished for file in _files_in(Path(path))}
    patterns = [pattern for patterns in files_of_tables().values() for pattern in patterns]
    patterns += [f"{folder}/{{file}}" for folder in _FOLDERS if "figures" not in folder]
    expressions = [
        _expression(pattern, {**names, "seed": names["seed"][: names["stage"][stage_of(pattern)]]})
        for names in (run, *nulls)
        for pattern in patterns
        if stage_of(pattern) in names["stage"]
    ]
    for file in _files_in(Path("results")):
        if any(expression.fullmatch(file) for expression in expressions):
            found.add(file)
    return found


def _files_in(path: Path) -> Iterator[str]:
    """A file itself, or all files in a folder except hidden ones, which are not artifacts."""
    if path.is_file():
        yield path.as_posix()
    for inner in path.rglob("*"):
        if inner.is_file() and not any(part.startswith(".") for part in inner.parts):
            yield inner.as_posix()


def _expression(pattern: str, run: Names) -> re.Pattern[str]:
    """A path pattern such as results/texts/{task}.parquet that matches only the run's names."""

    def names(match: re.Match[str]) -> str:
        known = run.get(match[1])
        return "[^/]+" if known is None else "(?:" + "|".join(map(re.escape, known)) + ")"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", names, re.escape(pattern)))


def _entry(file: str, sums: Mapping[str, str]) -> dict[str, Any]:
    path = Path(file)
    entry: dict[str, Any] = {
        "size": path.stat().st_size,
        "sha256": sums.get(file) or sha256_of(path),
        "repeatable": _analysis_of(file) not in _TIMED,
    }
    if path.suffix == ".parquet":
        metadata = read_metadata(path)
        entry["table"] = metadata[b"table"].decode()
        entry["schema_version"] = int(metadata[b"schema_version"])
    return entry


def _analysis_of(file: str) -> str:
    _, folder, *inner = file.split("/")
    return Path(inner[0]).stem if folder in ("summaries", "figures", "tables") else folder


def _sums_of_weights(folder: Path, models: Collection[str]) -> dict[str, str]:
    """SHA-256 of resolved models' files from their cards, so gigabytes are not read again."""
    sums = {}
    for card in (folder / model / _MODEL_CARD for model in models):
        if not card.is_file():
            continue
        for name, known in _read_card(card)["files"].items():
            sums[(card.parent / name).as_posix()] = known["sha256"]
    return sums


def _read_card(card: Path) -> dict[str, Any]:
    return read_json(card, remedy=f"delete {card.parent} and run again to rebuild it")


@dataclass(frozen=True)
class Fault:
    """An artifact that differs from what the run wrote."""

    path: Path  # as in Snakemake: a file, or the folder that contains it
    sentence: str


def check_manifest() -> list[Fault]:
    """Compare every artifact with the manifest, and every model's weights with its card."""
    files = read_json(MANIFEST, remedy="delete it and run again to write it")["files"]
    faults = []
    for file, entry in files.items():
        path = Path(file)
        if not path.is_file():
            faults.append(Fault(_target(file), f"{file}: missing."))
        elif path.stat().st_size != entry["size"] or sha256_of(path) != entry["sha256"]:
            faults.append(Fault(_target(file), f"{file}: not what the run wrote; delete it."))
        elif path.name == _MODEL_CARD:
            faults += _check_weights(path)
    return faults


def _check_weights(card: Path) -> Iterator[Fault]:
    """Check the weights outside of results that a card points to."""
    described = _read_card(card)
    for name, known in described.get("weights", {}).items():
        path = Path(described["directory"]) / name
        if not path.is_file() or sha256_of(path) != known["sha256"]:
            yield Fault(
                card.parent,
                f"{path}: missing or not what it was when the model was resolved; put it back, or "
                f"delete {card.parent}.",
            )


def _target(file: str) -> Path:
    """The Snakemake target of this file: itself, or the folder that a rule makes."""
    for folder in _FOLDERS:
        match = re.match(_expression(folder, {}).pattern + "(?=/)", file)
        if match:
            return Path(match[0])
    return Path(file)


def main() -> int:
    """Print a sentence per fault and how to rebuild; return the exit code, 0 without faults."""
    try:
        faults = check_manifest()
    except InputError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    for fault in faults:
        print(fault.sentence)
    if faults:
        paths = " ".join(sorted({str(fault.path) for fault in faults}))
        print(
            f"To rebuild:\nrm -rf {paths}\nsnakemake --cores all {paths} {MANIFEST}\n"
            "Add --configfile if the run had one."
        )
        return 1
    print(f"{MANIFEST}: all artifacts are what the run wrote.")
    return 0
