"""The live page in a browser: what is typed, cut, and changed, and what is kept."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from anchorflow.explore.task import OpenedTask
from anchorflow.one_prompt.asked import Cut
from browser import complaints
from opened_tasks import prepared, running
from resolved_models import resolve
from tiny_models import tiny_model

pytest.importorskip("uvicorn")  # the extra "explore"

HOSTILE = "</script><img src=x onerror=alert(1)> \u202eright to left\u2066 <!--"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, resolved: Path) -> OpenedTask:
    return prepared(tmp_path_factory.mktemp("results"), resolved)


@pytest.fixture(scope="module")
def address(task: OpenedTask) -> Iterator[str]:
    with running(task, "secret") as port:
        yield f"http://127.0.0.1:{port}/"


Answered = Callable[[], dict[str, Any]]


@pytest.fixture
def answered(browser: Any, address: str) -> Iterator[Answered]:
    """Opens the page, and gives its facts once what it asked is answered."""
    browser.get("about:blank")
    browser.get(f"{address}?token=secret")
    _answer(browser)
    yield lambda: _answer(browser)
    assert complaints(browser) == []


def _answer(browser: Any) -> dict[str, Any]:
    from selenium.webdriver.support.ui import WebDriverWait

    script = (
        "return asked.settled === asked.number && !asked.timer && Boolean(data.texts) && data.facts"
    )
    found: dict[str, Any] = WebDriverWait(browser, 60).until(
        lambda opened: opened.execute_script(script)
    )
    return found


def fields(browser: Any) -> list[Any]:
    """The text areas of demonstrations and query."""
    return browser.find_elements("css selector", "#demonstrations textarea, #query textarea")


@pytest.mark.long
def test_typing_cutting_and_flipping_change_the_answer_and_a_reload_restores_it(
    task: OpenedTask, browser: Any, answered: Answered
) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    assert browser.current_url.partition("#")[0].endswith("/")  # without the token
    query = fields(browser)[-1]
    query.clear()
    query.send_keys("a fine film")
    Select(browser.find_element("css selector", "#demonstrations select")).select_by_visible_text(
        "Positive"
    )
    answered()
    asked = task.ask(
        task.drawn.__class__(
            *(task.drawn.template, task.drawn.labels),
            tuple((text, 1) for text, _ in task.drawn.demonstrations),
            ("a fine film",),
        )
    )
    assert browser.execute_script("return data.texts") == asked.tokens
    browser.find_element("css selector", "#changes input[value=label_words]").click()
    first = browser.find_element("id", "first-layer")
    first.clear()
    first.send_keys("1")
    browser.execute_script("tokens[3].click()")
    browser.execute_script(
        "byId('beta').value = 1; byId('beta').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    facts = answered()
    plain = asked.page_data(cut=Cut(["label_words", 3], layers=[1, 2]), factor=2.718281828459045)
    assert facts == plain["facts"]
    marked = browser.execute_script(
        "return [...document.querySelectorAll('.token.cut')]"
        ".map((token) => Number(token.dataset.token))"
    )
    assert marked == plain["cut_tokens"]
    assert browser.find_element("css selector", "#details .answer").text == facts["probabilities"]
    browser.find_element("css selector", "input[value=deep]").click()
    browser.find_element("id", "count").send_keys(Keys.ARROW_LEFT)
    browser.refresh()
    assert answered() == facts
    assert browser.execute_script("return [state.view, state.count]") == ["deep", 39]
    assert browser.find_element("css selector", "input[value=deep]").is_selected()
    assert fields(browser)[-1].get_attribute("value") == "a fine film"
    assert browser.find_element("id", "first-layer").get_attribute("value") == "1"
    browser.find_element("id", "nothing").click()
    assert "cut" not in answered()
    browser.find_element("id", "reset").click()
    answered()
    assert browser.execute_script("return data.texts") == task.ask(task.drawn).tokens


@pytest.mark.long
def test_a_head_of_a_hybrid_model_has_its_layer_s_place_and_is_cut_there(
    tmp_path: Path, tiny_model_directory: Path, browser: Any
) -> None:
    tiny_model("lfm2", eager=True, vocabulary=1200).save_pretrained(tmp_path / "source")
    AutoTokenizer.from_pretrained(tiny_model_directory).save_pretrained(tmp_path / "source")
    resolve(tmp_path)
    (tmp_path / "results").mkdir()
    with running(prepared(tmp_path / "results", tmp_path), "hybrid") as port:
        browser.get("about:blank")
        browser.get(f"http://127.0.0.1:{port}/?token=hybrid")
        _answer(browser)
        browser.find_elements("css selector", "#heads g")[-1].click()
        (layer, head) = browser.execute_script("return [state.layer, state.head]")
        assert (layer, browser.execute_script("return data.numbers")) == (1, [1, 3])
        button = browser.find_element("id", "chosen-head")
        assert button.text == f"in head 3.{head} only"
        button.click()
        assert _answer(browser)["cut"].endswith(f"layer 3, head {head}")
        assert complaints(browser) == []


@pytest.mark.long
def test_the_keyboard_alone_suffices(browser: Any, answered: Answered) -> None:
    from selenium.webdriver.common.keys import Keys

    def focused() -> Any:
        return browser.switch_to.active_element

    browser.execute_script("byId('add').focus()")
    focused().send_keys(Keys.ENTER)
    focused().send_keys("warm")  # in the new demonstration
    focused().send_keys(Keys.TAB)
    focused().send_keys(Keys.ARROW_DOWN)  # its label
    answered()
    assert browser.execute_script("return data.label_positions.length") == 3
    browser.execute_script("tokens[0].focus()")
    focused().send_keys(Keys.ARROW_RIGHT)
    focused().send_keys(Keys.ENTER)
    answered()
    assert browser.execute_script("return data.cut_tokens") == [1]
    assert focused().get_attribute("aria-label").endswith(", cut")  # focus stays
    focused().send_keys(Keys.SPACE)
    answered()
    assert browser.execute_script("return data.cut_tokens") == []
    browser.find_element("css selector", ".block h2 button").send_keys(Keys.ENTER)
    assert "attention from the target to" in answered()["cut"]
    browser.find_element("css selector", "#heads g").send_keys(Keys.ENTER)
    browser.find_element("id", "chosen-head").send_keys(Keys.ENTER)
    assert answered()["cut"].endswith("layer 0, head 0")
    remove = browser.find_elements("css selector", "#demonstrations button")
    remove[0].send_keys(Keys.ENTER)
    assert "cut" not in answered()  # another demonstration is the first now
    assert focused().get_attribute("aria-label") == "remove demonstration 1"


@pytest.mark.long
def test_texts_are_never_markup_also_in_what_is_saved(
    browser: Any, answered: Answered, tmp_path: Path
) -> None:
    browser.execute_script(
        "fields = document.querySelectorAll('#demonstrations textarea, #query textarea');"
        "for (const field of fields) { field.value = arguments[0];"
        " field.dispatchEvent(new Event('input')); }",
        HOSTILE,
    )
    answered()
    texts = "return tokens.map((token) => token.textContent).join('')"
    seen = browser.execute_script(texts)
    assert "</script><img" in seen and "\u202e" not in seen
    assert browser.find_elements("css selector", "img") == []
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    browser.find_element("id", "save").click()
    answered()
    page = tmp_path / "information_flow.html"
    _wait_for(page)
    html = page.read_text(encoding="utf-8")
    assert html.count("<script") == html.count("</script>") == 2
    browser.get(page.as_uri())
    assert browser.execute_script(texts) == seen
    assert browser.find_elements("css selector", "img, #wording") == []


def _wait_for(file: Path) -> None:
    import time

    for _ in range(200):
        if file.is_file():
            return
        time.sleep(0.05)
    raise AssertionError(f"{file} was not written")


@pytest.mark.long
def test_what_can_t_be_asked_is_told_and_two_tabs_do_not_mix(
    browser: Any, answered: Answered, address: str
) -> None:
    template = browser.find_element("id", "template")
    template.clear()
    template.send_keys("nothing")
    first = browser.current_window_handle
    _told(browser, "must contain {text} exactly once")
    browser.switch_to.new_window("tab")
    browser.get(address)  # the cookie suffices
    facts = answered()
    assert browser.find_element("id", "problem").text == ""
    browser.close()
    browser.switch_to.window(first)
    assert "must contain" in browser.find_element("id", "problem").text
    template.clear()
    template.send_keys("Review: {text}\nSentiment:{label}")
    assert answered() == facts
    assert complaints(browser) != []  # the status 422
    assert browser.find_element("id", "problem").text == ""


@pytest.mark.long
def test_a_field_of_layers_or_heads_that_is_no_number_is_told_and_nothing_is_answered(
    browser: Any, answered: Answered
) -> None:
    browser.find_element("css selector", "#changes input[value=label_words]").click()
    facts = answered()
    for field, wrong, right, told in [
        ("cut-heads", "0-3", " 0 ,3 ", "heads: “0-3” is no list of numbers"),
        ("cut-heads", "abc", "", "heads: “abc” is no list of numbers"),
        ("cut-heads", "0,", "1", "heads: “0,” is no list of numbers"),
        ("first-layer", "", "1", "layers: give two whole numbers from 0 to 2"),
        ("last-layer", "", "2", "layers: give two whole numbers from 0 to 2"),
        ("last-layer", "1.5", "1", "layers: give two whole numbers from 0 to 2"),
        ("first-layer", "-1", "0", "layers: give two whole numbers from 0 to 2"),
    ]:
        type_into = (
            "const field = byId(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input', {bubbles: true}))"
        )
        browser.execute_script(type_into, field, wrong)
        _told(browser, told)
        assert answered() == facts  # as before
        assert browser.find_element("id", field).get_attribute("value") == wrong
        browser.execute_script(type_into, field, right)
        facts = answered()
        assert browser.find_element("id", "problem").text == ""
    assert facts["cut"].endswith("layers 0, 1, head 1")


def _told(browser: Any, sentence: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 60).until(
        lambda opened: sentence in opened.find_element("id", "problem").text
    )


@pytest.mark.long
def test_a_phone_s_width_suffices(browser: Any, answered: Answered) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        answered()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_s_script_has_no_name_of_the_one_that_draws() -> None:
    """Both share one scope, in which the second of two constants would end the script."""
    from importlib.resources import files

    drawing = (files("anchorflow.analyses.flow_page") / "plot.js").read_text(encoding="utf-8")
    asking = (files("anchorflow.explore") / "page.js").read_text(encoding="utf-8")
    names = [
        set(re.findall(r"^(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE))
        for script in (drawing, asking)
    ]
    assert names[0] & names[1] == set()
