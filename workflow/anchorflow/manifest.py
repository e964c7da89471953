"""results/manifest.json: every artifact of a run with its checksum, and the check against it.

``python -m anchorflow.manifest`` names artifacts that are missing, damaged or no longer those of
the run, and says how to rebuild them.
"""

import importlib.metadata
import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorflow.checksums import read_json, sha256_of, write_json
from anchorflow.data_dictionary import FILES
from anchorflow.errors import InputError
from anchorflow.tables import read_metadata, replacing, software_versions

MANIFEST = Path("results/manifest.json")

# Artifacts that are directories; Snakemake knows them by these names.
_FOLDERS = (
    "results/models/{model}",
    "results/tokenizers/{model}",
    "results/flow_page/{model}/{task}/{seed}",
    "results/figures/comparison",
)
# What a run leaves out without several models, other label words or pages: the stages, and the one
# whose figures tell that they are not left out.
_OPTIONAL = {
    "comparison": "comparison",
    "label_words": "label_words",
    "flow_page": "flow_page",
    "token_saliency": "flow_page",
    "shown_prompts": "flow_page",
}
_OF_FIRST_SEED = {"timing", "flow_page", "token_saliency", "shown_prompts"}
# Stages whose numbers include measured time, which no two runs share.
_TIMED = {"timing", "claims", "comparison"}
_MODEL_CARD = "model.json"


def write_manifest(
    finished: Iterable[str], run: Mapping[str, Sequence[str]], path: str | Path
) -> None:
    """List all artifacts of a run with size (bytes), SHA-256, table and schema version.

    ``repeatable`` says whether another run on the same machine gives the same bytes. Logs and
    benchmarks are no artifacts.

    Parameters
    ----------
    finished : paths
        Figures and tables that the run ends in, files or folders.
    run : mapping
        Names of its ``model``, ``task`` and ``seed``, in their order; what lies in ``results`` of
        others is left out.

    Raises
    ------
    InputError
        If a Parquet file is damaged.
    """
    sums = _sums_of_weights(Path("results/models"), run["model"])
    files = {file: _entry(file, sums) for file in sorted(_artifacts(finished, run))}
    software = {
        **software_versions(),
        "snakemake": importlib.metadata.version("snakemake"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    with replacing(path) as temporary:
        write_json(temporary, {"software": software, "files": files})


def _artifacts(finished: Iterable[str], run: Mapping[str, Sequence[str]]) -> set[str]:
    """Files that the run ends in, and what is there of the tables that they are made from."""
    found = {file for path in finished for file in _files_in(Path(path))}
    finished_stages = {_stage_of(file) for file in found}
    absent = {stage for stage, shown in _OPTIONAL.items() if shown not in finished_stages}
    patterns = [pattern for patterns in FILES.values() for pattern in patterns]
    patterns += [f"{folder}/{{file}}" for folder in _FOLDERS]
    first = {**run, "seed": run["seed"][:1]}
    expressions = [
        _expression(pattern, first if _stage_of(pattern) in _OF_FIRST_SEED else run)
        for pattern in patterns
    ]
    for file in _files_in(Path("results")):
        known = any(expression.fullmatch(file) for expression in expressions)
        if known and _stage_of(file) not in absent:
            found.add(file)
    return found


def _files_in(path: Path) -> Iterator[str]:
    """A file itself, or all files in a folder but hidden ones, which are nobody's artifacts."""
    if path.is_file():
        yield path.as_posix()
    for inner in path.rglob("*"):
        if inner.is_file() and not any(part.startswith(".") for part in inner.parts):
            yield inner.as_posix()


def _expression(pattern: str, run: Mapping[str, Collection[str]]) -> re.Pattern[str]:
    """A path pattern such as results/flow/{model}.parquet that takes the run's names only."""

    def names(match: re.Match[str]) -> str:
        known = run.get(match[1])
        return "[^/]+" if known is None else "(?:" + "|".join(map(re.escape, known)) + ")"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", names, re.escape(pattern)))


def _entry(file: str, sums: Mapping[str, str]) -> dict[str, Any]:
    path = Path(file)
    entry: dict[str, Any] = {
        "size": path.stat().st_size,
        "sha256": sums.get(file) or sha256_of(path),
        "repeatable": _stage_of(file) not in _TIMED,
    }
    if path.suffix == ".parquet":
        metadata = read_metadata(path)
        entry["table"] = metadata[b"table"].decode()
        entry["schema_version"] = int(metadata[b"schema_version"])
    return entry


def _stage_of(file: str) -> str:
    _, stage, *inner = file.split("/")
    return Path(inner[0]).stem if stage in ("figures", "tables") else stage


def _sums_of_weights(folder: Path, models: Collection[str]) -> dict[str, str]:
    """SHA-256 of resolved models' files as their cards have it: gigabytes are not read again."""
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
    """An artifact that is not what the run wrote."""

    path: Path  # as Snakemake knows it: a file, or the folder that it lies in
    sentence: str


def check_manifest() -> list[Fault]:
    """Compare every artifact with the manifest, and every model's weights with its card.

    Raises
    ------
    InputError
        If the manifest is missing or damaged.
    """
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
    """Weights that a card points to, outside of results."""
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
    """What to name to Snakemake for this file: itself, or the folder that a rule makes."""
    for folder in _FOLDERS:
        match = re.match(_expression(folder, {}).pattern + "(?=/)", file)
        if match:
            return Path(match[0])
    return Path(file)


def main() -> int:
    """Print a sentence per fault and how to rebuild; returns the exit code, 0 without faults."""
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
            "with --configfile, if the run had one, after that."
        )
        return 1
    print(f"{MANIFEST}: all artifacts are what the run wrote.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
