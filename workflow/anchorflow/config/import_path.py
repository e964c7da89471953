"""What jobs learn from their run by the environment: where this package is, and which run it is."""

import os
import sys
import time
from pathlib import Path

RUN = "ANCHORFLOW_RUN"  # the process of the run, whose jobs share what they import
PLANNED = "ANCHORFLOW_PLANNED"  # the time before the code was read that jobs are recorded with
ALONE = "ANCHORFLOW_ALONE"  # a user's wish: every job imports for itself


def share_with_jobs(folder: Path) -> None:
    """Put a folder first on the import path of job processes, and name them this process and time.

    Another installed copy of the package would not be the code that the rules track. A Snakemake
    that another one has started on a cluster does one job, or a few. These import for themselves: a
    process to share would only take memory, of which the cluster grants what a job needs.
    """
    known = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(folder), *known]))
    if " --mode remote" in " ".join(sys.argv):
        os.environ.pop(RUN, None)
    else:
        os.environ[RUN] = str(os.getpid())
    os.environ[PLANNED] = str(time.time())
