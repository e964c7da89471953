"""Works that the project cites: docs/reference/bibliography.md, and BibTeX of what a run used."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from anchorflow import __version__
from anchorflow.document import ROOT
from anchorflow.document.markdown import markdown_table

BIBLIOGRAPHY_FILE = ROOT / "docs" / "reference" / "bibliography.md"
_DOI, _YEAR = "https://doi.org/", re.compile("[0-9]")  # a number in a venue means proceedings
_HEAD = """\
# Bibliography

<!-- Made from workflow/anchorflow/document/works.yaml by `make docs`. -->

Works that the documentation, the configuration, and the code cite. `anchorflow cite` prints
those of a run as BibTeX.

"""


def works() -> list[dict[str, Any]]:
    """All works, by name."""
    file = Path(__file__).with_name("works.yaml")
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def bibliography() -> str:
    """The text of docs/reference/bibliography.md."""
    rows = [[work["work"], work["used"], _reference(work)] for work in works()]
    return _HEAD + markdown_table(["work", "used for", "reference"], rows) + "\n"


def write() -> None:
    """Write docs/reference/bibliography.md."""
    BIBLIOGRAPHY_FILE.write_text(bibliography(), encoding="utf-8")


def bibtex(
    analyses: Collection[str],
    sources: Iterable[tuple[str, Mapping[str, Any]]],
    config: Mapping[str, Any],
) -> str:
    """BibTeX of this software, of the works behind some analyses, and of models and data sets.

    Parameters
    ----------
    sources : iterable of (name, settings)
        Entries of ``models`` and ``tasks``; those from the Hub are cited.
    config : mapping
        The whole configuration, for works on single choices of an analysis.
    """
    software = {
        "author": "{The anchorflow authors}",
        "title": "{anchorflow}",
        "note": f"Version {__version__}",
    }
    entries = [_entry("software", "anchorflow", software)]
    for work in works():
        used = work.get("analyses", ())
        if used and not any(_is_used(name, analyses, config) for name in used):
            continue
        venue, url = work.get("venue", ""), work["url"]
        kind, place = (
            ("inproceedings", "booktitle") if _YEAR.search(venue) else ("article", "journal")
        )
        fields = {
            "author": re.sub(r", | and ", " and ", work["authors"]),
            "title": _title(work["title"]),
            place: venue.partition(", pages ")[0],
            "pages": venue.partition(", pages ")[2].replace("–", "--"),
            "year": work["work"].rpartition(" ")[2],
            "doi": url.removeprefix(_DOI) if url.startswith(_DOI) else "",
            "url": url,
        }
        entries.append(_entry(kind if venue else "misc", _key(work["work"]), fields))
    names = set()
    for name, source in sources:
        if source["source"] == "hub":
            fields = {
                "title": _title(source["repository"]),
                "note": f"Revision {source['revision']}",
                "url": f"https://huggingface.co/{source['repository']}",
            }
            # A model and a task may have one name, and BibTeX takes a key only once.
            entries.append(_entry("misc", f"{name}_texts" if name in names else name, fields))
            names.add(name)
    return "\n".join(entries)


def _is_used(name: str, analyses: Collection[str], config: Mapping[str, Any]) -> bool:
    """Whether a run has an analysis, or a choice such as ``compression.methods.snapkv``."""
    section, *key = name.split(".")
    if section not in (*analyses, "controls"):
        return False
    values = config.get(section, {})
    return not key or (bool(values.get(key[0])) if len(key) == 1 else key[1] in values[key[0]])


def _title(text: str) -> str:
    """A title whose capitals stay, with what LaTeX would interpret escaped."""
    escaped = re.sub(r"[_&%#$]", r"\\\g<0>", text)
    return f"{{{escaped}}}"


def _key(work: str) -> str:
    """The first author and the year, as in Han2025."""
    names = work.split()
    return names[0].rstrip(",") + names[-1]


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}", ""])


def _reference(work: Mapping[str, Any]) -> str:
    venue = work.get("venue", "")
    if venue:
        venue = f" {'In ' if _YEAR.search(venue) else ''}*{venue}*."
    end = "" if work["title"].endswith("?") else "."
    return f"{work['authors']}. {work['title']}{end}{venue} <{work['url']}>"
