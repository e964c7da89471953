"""Where the files of the workflow are: beside the package in a clone, inside it in a wheel."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_IN_CLONE = (PACKAGE.parent / "Snakefile").is_file()

# With the Snakefile and the folders workflow, profiles, config, and data.
REPOSITORY = PACKAGE.parents[1] if _IN_CLONE else PACKAGE / "repository"
WORKFLOW = REPOSITORY / "workflow"
