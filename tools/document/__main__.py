"""All generated pages of the documentation: ``make docs``, or ``python -m tools.document``."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from tools.document import DOCS
from tools.document.bibliography import bibliography
from tools.document.configuration import configuration_page
from tools.document.data_dictionary import data_dictionary
from tools.document.models import models_page
from tools.document.results import write_results

# Pages that the code yields alone, by their place in the documentation.
PAGES: Mapping[str, Callable[[], str]] = {
    "reference/bibliography.md": bibliography,
    "reference/configuration.md": configuration_page,
    "reference/data_dictionary.md": data_dictionary,
    "reference/models.md": models_page,
}


def main(run: Path, docs: Path = DOCS) -> None:
    """Write all pages; docs/results.md only if ``run`` has a finished default or extended run."""
    for name, text in PAGES.items():
        (docs / name).write_text(text(), encoding="utf-8")
    try:
        write_results(run, docs)
    except InputError as error:
        print(f"docs/results.md was left as it is. {error}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.document", description=__doc__)
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        default=REPOSITORY,
        help="folder of the default or extended run, if not here",
    )
    main(parser.parse_args().run)
