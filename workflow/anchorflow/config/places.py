"""Where the files of the workflow are, and whether a run can use the places that it is given.

In a clone, the workflow's files are beside the package; in a wheel, inside it. The rules import
this module, so it needs no library.
"""

import errno
import os
from pathlib import Path

from anchorflow.config.errors import InputError, disk_is_full, full_disk_sentence

PACKAGE = Path(__file__).parents[1]
_IN_CLONE = (PACKAGE.parent / "Snakefile").is_file()

# With the Snakefile and the folders workflow, profiles, config, and data.
REPOSITORY = PACKAGE.parents[1] if _IN_CLONE else PACKAGE / "repository"
WORKFLOW = REPOSITORY / "workflow"


def make_writable(folder: Path) -> None:
    """Create a folder unless it exists."""
    reason, remedy = "it is read-only", "make the folder writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        effective = os.access in os.supports_effective_ids
        if os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            return
    except PermissionError as error:
        reason = str(error.strerror)
    except (FileExistsError, NotADirectoryError):
        reason, remedy = "a file is where a folder should be", "move it away"
    except OSError as error:
        if disk_is_full(error):
            raise InputError(full_disk_sentence(folder)) from None
        if error.errno != errno.EROFS:
            raise
    raise InputError(
        f"{folder}: nothing can be written there ({reason}); {remedy}, or run in another folder."
    )


def check_interpreter(executable: str) -> None:
    """Raise InputError if Snakemake can't run scripts with a Python, since its path has blanks."""
    if len(executable.split()) > 1:
        raise InputError(
            f"{executable}: Snakemake runs no scripts with a Python whose path has blanks; install "
            "anchorflow into an environment elsewhere, as in python3 -m venv ~/anchorflow."
        )
