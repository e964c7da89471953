"""Run the workflow again and again, kill it at random moments, and count what is lost.

    python tests/whole_run/soak/soak.py --runs 10 --kills 3 --cores 2

A tool for the night, no test. Every run starts from nothing in a fresh copy of the checkout. At
random moments, everything, one of its processes or Snakemake alone is killed (SIGKILL, so that
nothing can clean up); then the run is taken up again, until it completes. An artifact is lost if it
is missing at the end, or differs from that of an undisturbed run by a byte.
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
from pathlib import Path

from anchorflow.store.checksums import sha256_of

ROOT = Path(__file__).parents[3]
COPIED = ("Snakefile", "workflow", "profiles", "data", "config")
VICTIMS = ("everything", "one process", "snakemake alone")


class Workflow:
    """One copy of a checkout and the workflow running in it."""

    def __init__(self, folder: Path, arguments: list[str], checkout: Path = ROOT) -> None:
        folder.mkdir(parents=True)
        for name in COPIED:
            copy = shutil.copytree if (checkout / name).is_dir() else shutil.copy2
            copy(checkout / name, folder / name)
        self.folder = folder
        self._command = [sys.executable, "-m", "snakemake", *arguments]
        self._environment = {**os.environ, "PYTHONPATH": str(folder / "workflow")}

    def start(self) -> "subprocess.Popen[bytes]":
        """Start, or take up, the run in a session of its own."""
        with (self.folder / "printed.txt").open("wb") as printed:
            return subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, running: "subprocess.Popen[bytes]", seconds: float | None = None) -> None:
        """Wait for the end of a run, which has to be a good one."""
        if running.wait(seconds):
            printed = (self.folder / "printed.txt").read_text(errors="replace")
            sys.exit(f"{self.folder}: fails although nothing is killed:\n{printed[-3000:]}")

    def unlock(self) -> None:
        """What Snakemake says to do after a kill."""
        command = [*self._command, "--unlock"]
        subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, check=True
        )

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
    return {p: e["sha256"] if e["repeatable"] else None for p, e in content["files"].items()}


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
    """Run to the end, killing on the way; yields what was killed."""
    for _ in range(kills):
        running = workflow.start()
        try:
            workflow.finish(running, chance.uniform(1, seconds / kills))
        except subprocess.TimeoutExpired:
            victim = chance.choice(VICTIMS)
            kill(running.pid, victim, chance)
            running.wait()
            if victim == "snakemake alone":
                time.sleep(chance.uniform(0, 10))  # its jobs go on meanwhile, and are then killed
            kill(running.pid, "everything", chance)
            yield victim
        workflow.unlock()
    workflow.finish(workflow.start())


def main() -> None:
    """Run without kills, then with them; prints a line of JSON for every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=3, help="at most so many per run")
    parser.add_argument("--cores", default="all")
    parser.add_argument("--configfile", type=Path, default=ROOT / "config/config.yaml")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    arguments = ["--cores", options.cores, "--configfile", str(options.configfile.resolve())]
    bad = False
    with tempfile.TemporaryDirectory(prefix="soak.") as folder:
        undisturbed = Workflow(Path(folder, "undisturbed"), arguments)
        began = time.monotonic()
        undisturbed.finish(undisturbed.start())
        seconds = time.monotonic() - began
        expected = manifest(undisturbed.folder)
        for number in range(options.runs):
            # Of the same code, whatever is edited meanwhile.
            run = Workflow(Path(folder, f"run_{number}"), arguments, undisturbed.folder)
            chance = random.Random(f"{options.seed} {number}")
            killed = list(disturbed(run, options.kills, seconds, chance))
            lost, left_over = run.lost(expected), run.left_over()
            told = {"killed": killed, "artifacts": len(expected), "lost": lost}
            print(json.dumps({**told, "left_over": left_over}), flush=True)
            bad = bad or bool(lost or left_over)
            shutil.rmtree(run.folder)
    sys.exit(bad)


if __name__ == "__main__":
    main()
