"""Run the workflow again and again, kill it at random moments, and count what is lost.

    python tests/whole_run/soak/soak.py --runs 10 --kills 3 --cores 2 --folder soak

Every run starts from nothing in a fresh copy of the checkout. At random moments, everything, one
of its processes or Snakemake alone is killed (SIGKILL, so that nothing can clean up); then the run
is taken up again, until it completes. An artifact is lost if it is missing at the end, or differs
from that of an undisturbed run by a byte.

The folder keeps the configuration, the undisturbed run, and a record of all others; the same
command goes on from there.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anchorflow.store.checksums import sha256_of
from anchorflow.store.replacing import replacing

ROOT = Path(__file__).parents[3]
COPIED = ("Snakefile", "workflow", "profiles", "data", "config")
RECORD = "record.json"
VICTIMS = ("everything", "one process", "snakemake alone")


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to that nobody kills."""

    seconds: float
    jobs: int


@dataclass(frozen=True)
class Disturbed:
    """What a run with kills came to."""

    killed: list[str]
    seconds: float
    starts: int
    jobs: int
    artifacts: int
    lost: list[str]
    left_over: list[str]


@dataclass(frozen=True)
class Settings:
    """What has to stay the same from one sitting to the next."""

    kills: int  # at most so many per run
    cores: str
    seed: int


@dataclass(frozen=True)
class Record:
    """All that was done in one folder."""

    settings: Settings
    undisturbed: Undisturbed
    made: list[Disturbed]


class Workflow:
    """One copy of a checkout and the workflow running in it."""

    def __init__(self, folder: Path, arguments: list[str], checkout: Path = ROOT) -> None:
        folder.mkdir(parents=True)
        for name in COPIED:
            copy = shutil.copytree if (checkout / name).is_dir() else shutil.copy2
            copy(checkout / name, folder / name)
        self.folder = folder
        self.arguments = arguments
        self.starts = 0
        self.jobs = 0

    def start(self) -> "subprocess.Popen[bytes]":
        """Start, or take up, the run in a session of its own."""
        self.starts += 1
        with self._output.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "snakemake", *self.arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(self.folder / "workflow")},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def unlock(self) -> None:
        """What Snakemake says to do after a kill."""
        command = [sys.executable, "-m", "snakemake", *self.arguments, "--unlock"]
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}
        subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, check=True)

    def count_jobs(self) -> None:
        """Add the jobs that the last start finished."""
        self.jobs += self._output.read_text(errors="replace").count("\nFinished jobid: ")

    def output(self) -> str:
        """The last lines that the last start printed."""
        return self._output.read_text(errors="replace")[-3000:]

    @property
    def _output(self) -> Path:
        return self.folder / f"start_{self.starts}.txt"

    def lost(self, expected: dict[str, str | None]) -> list[str]:
        """Which of these files are missing or have other bytes."""
        return [
            path
            for path, digest in expected.items()
            if not (self.folder / path).is_file()
            or (digest and digest != sha256_of(self.folder / path))
        ]

    def left_over(self) -> list[str]:
        """Files that an undisturbed run leaves none of: half-written ones, and shards."""
        results = self.folder / "results"
        return [str(path) for path in (*results.rglob(".*.part"), *results.glob("shards/*"))]


def manifest(folder: Path) -> dict[str, str | None]:
    """What a run made: SHA-256 by path, None where another run has other bytes."""
    content = json.loads((folder / "results/manifest.json").read_text(encoding="utf-8"))
    files: dict[str, dict[str, Any]] = content["files"]
    return {path: e["sha256"] if e["repeatable"] else None for path, e in files.items()}


def processes(session: int) -> list[int]:
    """The ids of a session's processes."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


def kill(session: int, victim: str, chance: random.Random) -> None:
    """SIGKILL to everything, one process of the run, or Snakemake itself."""
    alive = processes(session)
    chosen = {
        "everything": alive,
        "one process": [chance.choice(alive)] if alive else [],
        "snakemake alone": [session],
    }[victim]
    for process in chosen:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def disturbed(
    workflow: Workflow, kills: int, seconds: float, chance: random.Random
) -> Iterator[str]:
    """Run to the end, killing on the way; yields what was killed.

    Raises
    ------
    RuntimeError
        If the run does not complete although nothing is killed any more.
    """
    for _ in range(kills):
        running = workflow.start()
        try:
            if running.wait(chance.uniform(1, seconds / kills)):
                raise RuntimeError(
                    f"a start fails although nothing is killed:\n{workflow.output()}"
                )
        except subprocess.TimeoutExpired:
            victim = chance.choice(VICTIMS)
            kill(running.pid, victim, chance)
            running.wait()
            if victim == "snakemake alone":
                time.sleep(chance.uniform(0, 10))  # its jobs go on meanwhile, and are then killed
            kill(running.pid, "everything", chance)
            yield victim
        workflow.count_jobs()
        workflow.unlock()
    last = workflow.start()
    if last.wait():
        raise RuntimeError(f"the run does not complete after its kills:\n{workflow.output()}")
    workflow.count_jobs()


def run_undisturbed(folder: Path, arguments: list[str]) -> Undisturbed:
    """The run that all others are compared with."""
    shutil.rmtree(folder / "undisturbed", ignore_errors=True)
    workflow = Workflow(folder / "undisturbed", arguments)
    began = time.monotonic()
    if workflow.start().wait():
        raise RuntimeError(f"the undisturbed run fails:\n{workflow.output()}")
    seconds = time.monotonic() - began
    workflow.count_jobs()
    return Undisturbed(seconds, workflow.jobs)


def run_disturbed(
    number: int, settings: Settings, arguments: list[str], folder: Path, undisturbed: Undisturbed
) -> Disturbed:
    """A run with kills, of the undisturbed run's code, compared with it and then deleted."""
    expected = manifest(folder / "undisturbed")
    place = folder / f"run_{number}"
    shutil.rmtree(place, ignore_errors=True)
    workflow = Workflow(place, arguments, checkout=folder / "undisturbed")
    began = time.monotonic()
    chance = random.Random(f"{settings.seed} {number}")
    killed = list(disturbed(workflow, settings.kills, undisturbed.seconds, chance))
    came_to = Disturbed(
        killed=killed,
        seconds=time.monotonic() - began,
        starts=workflow.starts,
        jobs=workflow.jobs,
        artifacts=len(expected),
        lost=workflow.lost(expected),
        left_over=workflow.left_over(),
    )
    shutil.rmtree(place)
    return came_to


def read_record(folder: Path, settings: Settings) -> Record | None:
    """What the folder has of earlier sittings; None if the undisturbed run is not finished.

    Raises
    ------
    SystemExit
        If those had other settings.
    """
    if not (folder / RECORD).exists():
        return None
    content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if content["settings"] != asdict(settings):
        sys.exit(f"{folder}: begun with {content['settings']}; go on with these, or elsewhere.")
    made = [Disturbed(**run) for run in content["made"]]
    return Record(settings, Undisturbed(**content["undisturbed"]), made)


def write_record(folder: Path, record: Record) -> None:
    """Keep what there is for the next sitting."""
    with replacing(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def soak(runs: int, settings: Settings, configuration: Path, folder: Path) -> Record:
    """One undisturbed run and so many disturbed ones; those on record are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    record = read_record(folder, settings)
    own = folder / "configuration.yaml"
    arguments = ["--cores", settings.cores, "--configfile", str(own)]
    if record is None:
        shutil.copy(configuration, own)
        record = Record(settings, run_undisturbed(folder, arguments), [])
        write_record(folder, record)
    for number in range(len(record.made), runs):
        came_to = run_disturbed(number, settings, arguments, folder, record.undisturbed)
        record.made.append(came_to)
        write_record(folder, record)
        print(json.dumps(asdict(came_to)), flush=True)
    return record


def figures(record: Record) -> dict[str, int]:
    """What the runs came to together."""
    made, undisturbed = record.made, record.undisturbed
    return {
        "runs": len(made),
        "kills": sum(len(run.killed) for run in made),
        "reruns_needed": sum(run.starts - 1 for run in made),
        "jobs": sum(run.jobs for run in made),
        "jobs_undisturbed": undisturbed.jobs * len(made),
        "seconds": round(sum(run.seconds for run in made)),
        "seconds_undisturbed": round(undisturbed.seconds * len(made)),
        "artifacts": sum(run.artifacts for run in made),
        "artifacts_lost": sum(len(run.lost) for run in made),
        "files_left_over": sum(len(run.left_over) for run in made),
    }


def main() -> None:
    """Parse the command line, run, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=3, help="at most so many per run")
    parser.add_argument("--cores", default="all")
    parser.add_argument("--configfile", type=Path, default=ROOT / "config/config.yaml")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to run; a temporary folder by default")
    options = parser.parse_args()
    settings = Settings(options.kills, options.cores, options.seed)
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="soak."))).resolve()
    total = figures(soak(options.runs, settings, options.configfile, folder))
    print(json.dumps(total, indent=2))
    sys.exit(1 if total["artifacts_lost"] or total["files_left_over"] else 0)


if __name__ == "__main__":
    main()
