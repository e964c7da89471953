"""Print the summary of the run in the current folder."""

import sys
from pathlib import Path

from anchorflow.config.errors import InputError
from anchorflow.config.printing import to_reader
from anchorflow.summary.page import page_of

if __name__ == "__main__":
    try:
        with to_reader():
            print(page_of(Path()))
    except InputError as error:
        sys.exit(f"ERROR: {error}")
