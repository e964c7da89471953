"""The bibliography has every work that is cited, and no other."""

import re

from anchorflow.document import ROOT

CITED = re.compile(r"[A-Z][a-z]+ et al\.,? \d{4}")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "config/*",
    "data/README.md",
    "workflow/**/*",
)


def test_every_work_that_is_cited_has_its_row() -> None:
    bibliography = ROOT / "docs" / "reference" / "bibliography.md"
    files = {file for pages in PAGES for file in ROOT.glob(pages) if file.is_file()}
    texts = (
        file.read_text(encoding="utf-8")
        for file in files - {bibliography}
        if file.suffix in (".md", ".py", ".yaml", ".rst", ".smk")
    )
    cited = {found.replace(",", "") for text in texts for found in CITED.findall(text)}
    rows = re.findall(r"^\| (.* et al\. \d{4}) \|", bibliography.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == cited
