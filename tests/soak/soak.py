"""Run the workflow again and again, kill it at random moments, and count what is lost.

    python tests/soak/soak.py --runs 10 --kills 3 --cores 2 --configfile config/config.yaml

Every run starts from nothing in a fresh copy of the checkout. At random moments, everything, one
of its processes or Snakemake alone is killed (SIGKILL, so that nothing can clean up); then the run
is taken up again, until it completes. An artifact is lost if it is missing at the end, or differs
from that of an undisturbed run by a byte.
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

from anchorflow.checksums import sha256_of

ROOT = Path(__file__).parent.parent.parent
COPIED = ("Snakefile", "workflow", "profiles", "data", "config")
VICTIMS = ("everything", "one process", "snakemake alone")


@dataclass
class Figures:
    """What the runs came to."""

    runs: int = 0
    kills: int = 0
    starts: int = 0
    jobs: int = 0
    jobs_undisturbed: int = 0
    artifacts: int = 0
    lost: int = 0
    left_over: int = 0


class Workflow:
    """One copy of the checkout and the workflow running in it."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        folder.mkdir(parents=True)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy(ROOT / name, folder / name)
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

    def expected(self) -> dict[str, str | None]:
        """What the manifest lists: SHA-256 by path, None where another run has other bytes."""
        manifest = json.loads((self.folder / "results/manifest.json").read_text(encoding="utf-8"))
        files: dict[str, dict[str, Any]] = manifest["files"]
        return {path: e["sha256"] if e["repeatable"] else None for path, e in files.items()}

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


def soak(runs: int, kills: int, arguments: list[str], folder: Path, seed: int) -> Figures:
    """One undisturbed run and so many disturbed ones; see the module's docstring."""
    chance = random.Random(seed)
    figures = Figures()
    reference = Workflow(folder / "undisturbed", arguments)
    began = time.monotonic()
    if reference.start().wait():
        raise RuntimeError(f"the undisturbed run fails:\n{reference.output()}")
    seconds = time.monotonic() - began
    reference.count_jobs()
    expected = reference.expected()
    for number in range(runs):
        workflow = Workflow(folder / f"run_{number}", arguments)
        killed = list(disturbed(workflow, kills, seconds, chance))
        lost = workflow.lost(expected)
        figures.runs += 1
        figures.kills += len(killed)
        figures.starts += workflow.starts
        figures.jobs += workflow.jobs
        figures.jobs_undisturbed += reference.jobs
        figures.artifacts += len(expected)
        figures.lost += len(lost)
        figures.left_over += len(workflow.left_over())
        print(json.dumps({"run": number, "killed": killed, "lost": lost}), flush=True)
        shutil.rmtree(workflow.folder)
    return figures


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
    arguments = ["--cores", options.cores, "--configfile", str(options.configfile.resolve())]
    folder = options.folder or Path(tempfile.mkdtemp(prefix="soak."))
    figures = soak(options.runs, options.kills, arguments, folder, options.seed)
    print(json.dumps(asdict(figures), indent=2))
    sys.exit(1 if figures.lost or figures.left_over else 0)


if __name__ == "__main__":
    main()
