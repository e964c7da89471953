"""The bibliography has every work that is cited, and no other."""

import re

import yaml

import anchorflow
from anchorflow.command.citations import bibtex, works
from anchorflow.config.configuration import read_schema
from anchorflow.config.places import REPOSITORY, WORKFLOW
from anchorflow.config.stages import PRESENTED

NAME = "[A-Z][a-z]+"
CITED = re.compile(  # not a date, as in 26 Jul 2024
    rf"(?<!\w)(?<!\d )((?:{NAME}, )*{NAME}(?: et al\.,?| and {NAME})?) \(?((?:1[89]|20)\d\d)\b"
)
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "config/*",
    "data/README.md",
    "workflow/**/*",
    "tools/**/*",
)
NOT_CITING = ("docs/reference/bibliography.md", "workflow/anchorflow/command/works.yaml")


def test_works_are_cited_by_analyses_that_there_are() -> None:
    used = {name for work in works() for name in work.get("analyses", ())}
    assert {name.partition(".")[0] for name in used} <= PRESENTED.keys() | {"controls"}
    schema = read_schema(WORKFLOW / "schemas/config.schema.yaml")
    for section, key in (name.split(".")[:2] for name in used if "." in name):
        assert key in schema["properties"][section]["properties"]


def test_bibtex_has_the_software_the_papers_and_what_the_run_uses() -> None:
    gpt = {"source": "hub", "repository": "openai-community/gpt2", "revision": "abc"}
    sources = [("gpt2", gpt), ("mine", {"source": "local"})]
    config = {"retrieval": {"choices": ["nearest"]}, "controls": {"shuffled_labels": True}}
    printed = bibtex(["flow", "retrieval"], sources, config)
    keys = re.findall(r"^@\w+\{(.*),$", printed, re.MULTILINE)
    assert keys == [
        "anchorflow",
        *("Agresti1998", "Cameron2011", "Han2025", "Liu2022", "Min2022", "Satterthwaite1946"),
        "Wang2023",
        "gpt2",
    ]
    assert f"note = {{Version {anchorflow.__version__}}}" in printed
    assert "author = {Chi Han and Ziqi Wang and Han Zhao and Heng Ji}" in printed
    assert "url = {https://huggingface.co/openai-community/gpt2}" in printed
    assert printed.count("{") == printed.count("}")
    wang = printed.partition("{Wang2023,")[2].partition("}\n\n")[0]
    assert "@inproceedings{Wang2023," in printed
    assert "booktitle = {EMNLP 2023},\n  pages = {9840--9855}," in wang
    assert "doi = {10.18653/v1/2023.emnlp-main.609}," in wang
    assert "journal = {Biometrics Bulletin}," in printed
    # A choice that the run does not make is not cited.
    config = {"retrieval": {"choices": ["outlying"]}, "controls": {"shuffled_labels": False}}
    fewer = bibtex(["flow", "retrieval"], sources, config)
    assert "Liu2022" not in fewer and "Min2022" not in fewer


def test_a_model_and_a_task_of_one_name_are_both_cited() -> None:
    sources = [
        ("trec", {"source": "hub", "repository": f"owner/{kind}", "revision": "abc"})
        for kind in ("model", "texts")
    ]
    printed = bibtex([], sources, {})
    assert "@misc{trec,\n  title = {{owner/model}}" in printed
    assert "@misc{trec_texts,\n  title = {{owner/texts}}" in printed


def test_names_of_the_hub_are_titles_in_latex() -> None:
    mine = {"source": "hub", "repository": "me/my_set&50%", "revision": "abc"}
    assert r"title = {{me/my\_set\&50\%}}," in bibtex([], [("mine", mine)], {})


def test_every_work_that_is_cited_has_its_row() -> None:
    files = {file for pages in PAGES for file in REPOSITORY.glob(pages) if file.is_file()}
    texts = (
        " ".join(file.read_text(encoding="utf-8").split())  # a name and a year on two lines
        for file in files - {REPOSITORY / name for name in NOT_CITING}
        if file.suffix in (".md", ".py", ".yaml", ".rst", ".smk")
    )
    cited = {
        f"{names.removesuffix(',')} {year}" for text in texts for names, year in CITED.findall(text)
    }
    rows = [work["work"] for work in works()]
    assert len(rows) == len(set(rows))
    assert set(rows) == cited


def test_the_citation_file_cites_the_papers_as_runs_do() -> None:
    file = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    known = {work["title"]: work for work in works()}
    assert len(file["references"]) == 2
    for paper in file["references"]:
        work = known[paper["title"]]
        families = [author["family-names"] for author in paper["authors"]]
        assert work["authors"].replace(" and ", ", ").count(", ") == len(families) - 1
        assert all(family in work["authors"] for family in families)
        assert work["work"].endswith(str(paper["year"]))
        doi = paper.get("doi")
        assert work["url"] == (f"https://doi.org/{doi}" if doi else paper["url"])
