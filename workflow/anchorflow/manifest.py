"""The check of a finished run against its manifest: ``python -m anchorflow.manifest``."""

import sys

from anchorflow.config.printing import to_reader
from anchorflow.store.manifest import main

if __name__ == "__main__":
    with to_reader():
        sys.exit(main())
