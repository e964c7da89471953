"""Let jobs import this package from the checkout of their rules, installed or not."""

import os
from pathlib import Path


def share_with_jobs(folder: Path) -> None:
    """Put a folder first on the import path of job processes.

    Another installed copy of the package would not be the code that the rules track.
    """
    known = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(folder), *known]))
