"""What commands print for readers that may stop reading, as ``head`` does."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def to_reader() -> Iterator[None]:
    """Print in a block, which ends with code 1, without a traceback, once nobody reads on."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, and not when Python ends, which could only report it
    except BrokenPipeError:
        # Python writes what is left once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
