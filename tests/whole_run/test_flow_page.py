"""Information-flow pages of a finished run, in a browser."""

from typing import Any

from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.parquet import read_table
from browser import complaints
from checkout import Checkout
from flow_pages import drawn


def test_the_workflow_writes_pages_and_their_index(shared_run: Checkout, browser: Any) -> None:
    results = shared_run.folder / "results"
    for task in ("reviews", "news"):
        prompts = read_table(results / f"prompts/tiny/{task}/0.parquet", PROMPTS)
        first = prompts["example"].min()
        folder = results / f"figures/flow_page/tiny/{task}/0"
        assert [path.name for path in folder.iterdir() if path.suffix] == [f"{first}.html"]
        assert not (folder.parent / "1").exists()
    browser.get((results / "figures/flow_page/tiny/index.html").as_uri())
    for link in [link.get_attribute("href") for link in browser.find_elements("tag name", "a")]:
        browser.get(link)
        assert len(browser.find_elements("css selector", ".token")) > 20
        assert drawn(browser)
    assert complaints(browser) == []
