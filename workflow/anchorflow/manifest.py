"""The check of a finished run against its manifest: ``python -m anchorflow.manifest``."""

import sys

from anchorflow.store.manifest import main

if __name__ == "__main__":
    sys.exit(main())
