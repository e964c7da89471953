"""What jobs learn from their run by the environment: where this package is, and which run it is."""

import os
from pathlib import Path

RUN = "ANCHORFLOW_RUN"  # the process of the run, whose jobs share what they import
ALONE = "ANCHORFLOW_ALONE"  # a user's wish: every job imports for itself
KEEP = "ANCHORFLOW_KEEP"  # models stay open between jobs on a processor too, as tests do

_SERVES = "ANCHORFLOW_SERVES_STEPS"  # tells the run that serves steps from any other process


def share_with_jobs(folder: Path) -> None:
    """Put a folder first on the import path of job processes, and name them the run.

    Another installed copy of the package would not be the code that the rules track. The run is
    this process. But where one job of a SLURM cluster does a group of ours, each in a Snakemake of
    its own, it is the one that has started these.
    """
    known = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(folder), *known]))
    if not in_served_step():
        os.environ[RUN] = str(os.getpid())
        os.environ.pop(_SERVES, None)


def serve_steps() -> None:
    """Let Snakemakes that this process starts in the same SLURM job name it as their run."""
    os.environ[_SERVES] = _identity(os.environ[RUN])


def in_served_step() -> bool:
    """Whether this is a step of a SLURM job whose run is an earlier process of the same job."""
    known = os.environ.get(_SERVES)
    return bool(
        known and "SLURM_JOB_ID" in os.environ and known == _identity(os.environ.get(RUN, ""))
    )


def _identity(process: str) -> str:
    """What tells a process from any other, here and elsewhere, and SLURM's job; "" if unknown."""
    try:
        fields = Path("/proc", process, "stat").read_text(encoding="utf-8").rpartition(")")[2]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    started = fields.split()[19]  # field 22, counted from 1, of proc(5)
    return f"{boot} {process} {started} {os.environ.get('SLURM_JOB_ID')}"
