"""Where the command ``anchorflow`` begins, without libraries that may be missing."""

import sys

from anchorflow.config.errors import InputError
from anchorflow.config.printing import to_reader


def main() -> None:
    """Run the command, or say in one sentence what it lacks."""
    try:
        from anchorflow.command.app import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("anchorflow"):
            raise
        print(
            f"ERROR: the command needs {error.name}, which is not installed; run "
            "pip install 'anchorflow[workflow]'.",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    except InputError as error:  # what another package brings along can't be read
        print(f"ERROR: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    with to_reader():
        run()
