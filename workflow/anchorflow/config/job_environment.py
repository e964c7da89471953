"""Environment variables from a run to its jobs: where this package is, and which run it is."""

import os
import sys
import sysconfig
import time
from pathlib import Path

RUN = "ANCHORFLOW_RUN"  # the process of the run, whose jobs share what they import
PINNED = "ANCHORFLOW_PINNED"  # the commits of the run's models, by what they are asked for with
PLANNED = "ANCHORFLOW_PLANNED"  # the time before the code was read that jobs are recorded with
ALONE = "ANCHORFLOW_ALONE"  # set by users: every job imports for itself


def share_with_jobs(folder: Path) -> None:
    """Put a folder first on the import path of jobs, and pass them this process's id and the time.

    Another installed copy of the package would not be the code that the rules track. The folder of
    all installed packages stays where it is: they would come before Python's own modules, and in
    other programs that jobs start. On a cluster, a Snakemake process that another one started runs
    one job or a few. These import for themselves, since a server would take memory beyond what the
    cluster grants a job.
    """
    if folder.resolve() != Path(sysconfig.get_path("purelib")).resolve():
        known = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(folder), *known]))
    if " --mode remote" in " ".join(sys.argv):
        os.environ.pop(RUN, None)
    else:
        os.environ[RUN] = str(os.getpid())
    os.environ[PLANNED] = str(time.time())


def is_job() -> bool:
    """Whether this process of Snakemake was started by another one, to run its jobs."""
    return " --mode " in " ".join(sys.argv)
