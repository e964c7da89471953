"""All generated pages of the documentation: ``make docs``, or ``python -m anchorflow.document``."""

import argparse
from pathlib import Path

from anchorflow.config.errors import InputError
from anchorflow.document import ROOT, bibliography, configuration, results, tables


def main(run: Path) -> None:
    """Write all pages; docs/results.md only if ``run`` has a finished default or extended run."""
    bibliography.write()
    configuration.write()
    tables.write()
    try:
        results.write(run)
    except InputError as error:
        print(f"docs/results.md was left as it is. {error}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m anchorflow.document", description=__doc__)
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        default=ROOT,
        help="folder of the default or extended run, if not here",
    )
    main(parser.parse_args().run)
