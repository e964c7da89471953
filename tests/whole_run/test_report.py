"""The report of a finished run, made without network and looked at in a browser."""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from anchorflow.config.analysis import WORLDS
from anchorflow.config.configuration import read_schema
from anchorflow.config.stages import PRESENTED
from browser import complaints, open_browser
from checkout import Checkout
from job_messages import OPTIONAL
from tools.document import SCHEMA_FILE

CATEGORIES = [
    "1 Claims",
    "2 Label words as anchors",
    "3 Anchors put to use",
    "4 Kernel regression",
    "5 Accuracy",
]
SUMMARY = "results/summary.html"
MODELS = ("tiny", "twin")
COMPARED = "comparison/flow_early.png"  # a figure of both
# Figures and tables of a model that the rules put into the report, with their categories.
SHOWN = {
    kind: {name: a.category for name, a in PRESENTED.items() if getattr(a, kind)}
    for kind in ("figure", "table")
}
# Figures of random worlds, which are of no model.
ALONE = {name for name, analysis in PRESENTED.items() if analysis.path == WORLDS}
# What only the report of two models has, whose configuration asks for it.
FURTHER = [name for name in PRESENTED if name in OPTIONAL]
# Snakemake's page brings its style sheet's compiler along, which says so on the console.
KNOWN = ("cdn.tailwindcss.com should not be used in production",)
SENT = "Network.requestWillBeSent"

pytestmark = pytest.mark.xdist_group("report")  # one process makes the reports


def least_of(section: str, key: str) -> Any:
    """What may be listed at a key: a number that is not refused, or the first choice."""
    part = read_schema(SCHEMA_FILE)["properties"][section]["properties"][key]
    return 2 if part["type"] == "integer" else part["items"]["enum"][:1]


def without_network(patch: pytest.MonkeyPatch) -> None:
    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        for name in (proxy, proxy.upper()):
            patch.setenv(name, "http://127.0.0.1:9")  # nobody listens: fetching would fail


@pytest.fixture(scope="module")
def reports(
    shared_run: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """The report of one model in a folder, and that of two with all there is in one file.

    The second model's figures, those of both, and all that the first report lacks are copies:
    the report reads no table.
    """
    folder = tmp_path_factory.mktemp("report") / "run"
    run = shared_run.copy(folder)
    with pytest.MonkeyPatch.context() as patch:
        without_network(patch)
        run.snakemake("--report", "one.zip")
        with zipfile.ZipFile(folder / "one.zip") as archive:
            archive.extractall(folder)
        run.config["models"]["twin"] = run.config["models"]["tiny"]
        run.config["tasks"]["reviews"]["label_words"] = {"symbols": [" A", " B"]}
        results = folder / "results"
        for key in {PRESENTED[name].asked_for for name in FURTHER} - {""}:
            section, _, asks = key.partition(".")
            run.config[section] = {asks: least_of(section, asks)}
        for copy in (*(f"{name}/tiny.png" for name in FURTHER), COMPARED):
            (results / "figures" / copy).parent.mkdir()
            shutil.copy(results / "figures/flow/tiny.png", results / "figures" / copy)
        for name in FURTHER:
            shutil.copy(results / "tables/flow.html", results / f"tables/{name}.html")
        for figure in (results / "figures").glob("*/tiny.png"):
            shutil.copy(figure, figure.with_name("twin.png"))
        run.snakemake("--report", "two.html")
    yield {"one": folder / "one" / "report.html", "two": folder / "two.html"}


def results_of(page: Path) -> dict[str, Any]:
    """What a report's page knows of its results, by path."""
    (line,) = re.findall(r"var results = (\{.*\});", page.read_text(encoding="utf-8"))
    results: dict[str, Any] = json.loads(line)
    return results


def test_processes_of_tests_keep_this_group_together(request: pytest.FixtureRequest) -> None:
    grouping = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@report") == grouping


@pytest.mark.long
def test_every_figure_and_table_of_the_run_is_in_the_report(reports: dict[str, Path]) -> None:
    run = reports["two"].parent
    drawn = {str(path.relative_to(run)) for path in run.glob("results/figures/*/*.png")}
    tables = {str(path.relative_to(run)) for path in run.glob("results/tables/*.html")}
    files = {name: ["worlds"] if name in ALONE else MODELS for name in SHOWN["figure"]}
    figures = {f"results/figures/{name}/{file}.png" for name in files for file in files[name]}
    assert drawn == figures | {f"results/figures/{COMPARED}"}
    assert tables == {f"results/tables/{name}.html" for name in SHOWN["table"]}
    assert set(results_of(reports["two"])) == drawn | tables | {SUMMARY}
    copied = {p for p in drawn | tables if re.search("|".join(["twin", "comparison", *FURTHER]), p)}
    assert set(results_of(reports["one"])) == (drawn | tables | {SUMMARY}) - copied


@pytest.mark.long
def test_captions_name_models_and_tasks_and_where_counts_are(reports: dict[str, Path]) -> None:
    for path, result in results_of(reports["two"]).items():
        if ALONE & set(Path(path).with_suffix("").parts):
            assert "Random worlds: 3, with 24 prompts each" in result["caption"]
            continue
        text = re.sub(r"\s+", " ", re.sub(r"<(?!/?tt)[^>]+>", " ", result["caption"]))
        text = re.sub(r"<[^>]+>", "", text)
        models = Path(path).stem if Path(path).stem in MODELS else "tiny, twin"
        assert re.search(f"Models?: {models} Tasks: news, reviews ", text), path
        assert re.search(r"skipped|too long|not to test texts|how many texts", text), path
        assert "system-message" not in result["caption"], path  # what docutils does not understand


class Reader:
    """Someone who reads a report in a browser that has no network."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        self.driver.get(page.as_uri())
        self.wait("#app li")

    def wait(self, selector: str) -> Any:
        """The first element that a CSS selector finds, as soon as it does."""
        return WebDriverWait(self.driver, 60).until(
            lambda driver: next(iter(driver.find_elements(By.CSS_SELECTOR, selector)), None)
        )

    def items(self) -> list[str]:
        return [item.text for item in self.driver.find_elements(By.CSS_SELECTOR, "#app li")]

    def choose(self, *names: str) -> None:
        """Click entries of the menu, one after the other."""
        for name in names:
            path = f"//div[@id='app']//li//a[span[text()='{name}']]"
            WebDriverWait(self.driver, 60).until(
                lambda driver, path=path: next(iter(driver.find_elements(By.XPATH, path)), None)
            ).click()

    def click(self, row: str, button: int) -> None:
        """Click a button of a result's row: 0 shows the result, 1 its caption."""
        path = f"//tr[td[text()='{row}']]//td[last()]//a"
        self.driver.find_elements(By.XPATH, path)[button].click()

    def image(self) -> str:
        """The source of the figure that is shown, once it has loaded."""
        WebDriverWait(self.driver, 60).until(
            lambda driver: driver.execute_script(
                "let i = document.querySelector('.grow > .p-3 > img');"
                "return i !== null && i.complete && i.naturalWidth > 100;"
            )
        )
        source: str = self.wait(".grow > .p-3 > img").get_attribute("src")
        return source

    def table(self) -> list[list[str]]:
        """The rows of the table that is shown, its header first."""
        self.driver.switch_to.frame(self.wait("iframe"))
        try:
            self.wait("tbody td")
            rows = self.driver.find_elements(By.TAG_NAME, "tr")
            return [
                [cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in rows
            ]
        finally:
            self.driver.switch_to.default_content()

    def complaints(self) -> list[str]:
        """What the console says, but for what is known."""
        return [m for m in complaints(self.driver) if not any(known in m for known in KNOWN)]

    def requested(self) -> set[str]:
        """All addresses off the machine that the browser asked for."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == SENT]
        addresses = [params["request"]["url"] for params in sent]
        assert any(address.startswith("file:") for address in addresses)
        own = ("file:", "data:", "chrome:", "chrome-untrusted:", "about:")
        return {a for a in addresses if not a.startswith(own)}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with open_browser(tmp_path / "profile") as driver:
        yield Reader(driver)


@pytest.mark.long
def test_figures_tables_and_captions_can_be_read(reports: dict[str, Path], reader: Reader) -> None:
    reader.open(reports["one"])
    assert [item for item in reader.items() if item[:1].isdigit()] == ["0 Summary", *CATEGORIES]
    described = reader.wait(".prose").text
    assert "Models: tiny" in described and "Test texts per task and seed: up to 6." in described

    reader.choose(CATEGORIES[1], "Figures")
    reader.wait("tbody tr")
    reader.click("Information flow over the layers (Fig. 3 of [A])", 0)
    assert reader.image()
    reader.click("Information flow over the layers (Fig. 3 of [A])", 1)
    assert "S_wp" in reader.wait("li.prose").text

    reader.open(reports["one"])
    reader.choose(CATEGORIES[4])  # all of it are tables
    reader.wait("tbody tr")
    reader.click("Accuracy of in-context learning", 0)
    head, *rows = reader.table()
    assert head[:5] == ["model", "task", "examples", "texts", "seeds"]
    assert [row[:3] + row[4:6] for row in rows] == [
        ["tiny", "news", "12", "2", "0"],
        ["tiny", "reviews", "12", "2", "0"],
        ["tiny", "average", "24", "2", "0"],
    ]
    assert reader.complaints() == []
    assert reader.requested() == set()


@pytest.mark.long
def test_with_two_models_a_switch_turns_every_figure_to_the_other_one(
    reports: dict[str, Path], reader: Reader
) -> None:
    reader.open(reports["two"])
    reader.choose(CATEGORIES[3], "Figures")
    reader.wait("tbody tr")
    switch = reader.wait("fieldset")
    assert [label.text for label in switch.find_elements(By.TAG_NAME, "label")] == ["tiny", "twin"]
    of_category = [name for name, category in SHOWN["figure"].items() if category == CATEGORIES[3]]
    shown = len(set(of_category) - ALONE)
    assert len(reader.driver.find_elements(By.CSS_SELECTOR, "tbody tr")) == shown
    reader.click("Where attention lands (Fig. 2 of [K])", 0)
    reader.image()
    switch.find_elements(By.TAG_NAME, "label")[1].click()
    assert reader.image()
    path = reader.driver.execute_script("return app.state.resultPath;")
    assert path == "results/figures/landing/twin.png"
    assert reader.complaints() == []
    assert reader.requested() == set()
