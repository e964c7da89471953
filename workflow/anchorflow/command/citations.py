"""BibTeX of the works, models and data sets that a run uses."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from anchorflow import __version__

_DOI, _NUMBER = "https://doi.org/", re.compile("[0-9]")


def works() -> list[dict[str, Any]]:
    """All works that the project cites, by name."""
    file = Path(__file__).with_name("works.yaml")
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def in_proceedings(venue: str) -> bool:
    """Whether a venue is a conference, whose name has a year or a number."""
    return bool(_NUMBER.search(venue))


def bibtex(
    analyses: Collection[str],
    sources: Iterable[tuple[str, Mapping[str, Any]]],
    config: Mapping[str, Any],
) -> str:
    """BibTeX of this software, of the works behind some analyses, and of models and data sets.

    ``sources`` are entries of ``models`` and ``tasks``, of which those from the Hub are cited. Of
    works on single choices of an analysis, ``config`` says whether they are made.
    """
    software = {
        "author": "{The anchorflow authors}",
        "title": "{anchorflow}",
        "note": f"Version {__version__}",
    }
    entries = [_entry("software", "anchorflow", software)]
    for work in works():
        used = work.get("analyses", ())
        if not used or any(_is_used(name, analyses, config) for name in used):
            entries.append(_entry_of(work))
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


def _entry_of(work: Mapping[str, Any]) -> str:
    url = work["url"]
    venue, _, pages = work.get("venue", "").partition(", pages ")
    kind, place = ("article", "journal")
    if in_proceedings(work.get("venue", "")):
        kind, place = ("inproceedings", "booktitle")
    first, *_, year = work["work"].split()  # as in "Han et al. 2025"
    fields = {
        "author": re.sub(r", | and ", " and ", work["authors"]),
        "title": _title(work["title"]),
        place: venue,
        "pages": pages.replace("–", "--"),
        "year": year,
        "doi": url.removeprefix(_DOI) if url.startswith(_DOI) else "",
        "url": url,
    }
    return _entry(kind if venue else "misc", first.rstrip(",") + year, fields)


def _title(text: str) -> str:
    """A title whose capitals stay, with what LaTeX would interpret escaped."""
    escaped = re.sub(r"[_&%#$]", r"\\\g<0>", text)
    return f"{{{escaped}}}"


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}", ""])
