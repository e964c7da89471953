"""A headless Chromium for tests of pages, where Chromium and its driver are installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1500,1000",
)


def _first(*names: str) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def open_browser(profile: Path) -> Iterator[Any]:
    """A selenium driver with a fresh profile in ``profile``; skips the test if there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium = _first("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    driver = _first("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("pages are tested in a browser where chromium and chromedriver are installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        yield opened
    finally:
        opened.quit()


def complaints(browser: Any) -> list[str]:
    """What the page wrote to the console since the last call, violations of its policy included."""
    return [entry["message"] for entry in browser.get_log("browser")]
