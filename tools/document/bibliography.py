"""docs/reference/bibliography.md: the works that the project cites."""

from collections.abc import Mapping
from typing import Any

from anchorflow.command.citations import in_proceedings, works
from tools.document.markdown import markdown_table

_HEAD = """\
# Bibliography

<!-- Made from workflow/anchorflow/command/works.yaml by `make docs`. -->

Works that the documentation, the configuration, and the code cite. `anchorflow cite` prints
those of a run as BibTeX.

"""


def bibliography() -> str:
    """The text of the page."""
    rows = [[work["work"], work["used"], _reference(work)] for work in works()]
    return _HEAD + markdown_table(["work", "used for", "reference"], rows) + "\n"


def _reference(work: Mapping[str, Any]) -> str:
    venue = work.get("venue", "")
    if venue:
        venue = f" {'In ' if in_proceedings(venue) else ''}*{venue}*."
    end = "" if work["title"].endswith("?") else "."
    return f"{work['authors']}. {work['title']}{end}{venue} <{work['url']}>"
