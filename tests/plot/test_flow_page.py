"""Information-flow pages: what they show, and their texts never as markup."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tokenizers import Tokenizer

from anchorflow.plot.flow_page import (
    ARCS,
    flow_masks,
    flow_pages,
    page_data,
    saliency_matrices,
)
from anchorflow.plot.flow_page_index import index_page
from browser import complaints
from flow_pages import drawn, shown_tables
from worded_prompts import with_words

COLORS = ["#0072B2", "#D55E00", "#595959"]
LABELS = [" World", " Sports", " <b>Business</b>"]
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "{{7*7}}${7*7}$title",
    "&lt;b&gt;",
    "\u202eright to left\u2066",
    " 👩\u200d🚀",
    "nul\x00byte",
    "\u2028\u2029",
    "\n",
    "  ",
    "",
    "\ufffd",
    "'\"`\\",
]


def data_of(html: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    parsed: dict[str, Any] = json.loads(data)
    return parsed


def test_what_a_page_shows_of_a_small_matrix_equals_values_worked_out_by_hand() -> None:
    matrices = np.array([[[0.0, 0, 0, 0], [1, 0, 0, 0], [2, 4, 0, 0], [3, 5, 7, 0]]])
    matrices = np.concatenate([matrices, 3 * matrices, np.zeros((1, 4, 4))])
    prompt = {
        "tokens": 4,
        "target_position": 3,
        "label_positions": [1],
        "label_ends": [2],
        "demonstration_starts": [0],
        "query_start": 2,
        "instruction_end": None,
        "field_names": ["premise", "hypothesis"],
        "field_starts": [0, 1, 2, 2],
        "field_ends": [1, 1, 2, 3],
        "demonstrations": "per_example",
        "label": 0,
        "prediction": 2,
        "probabilities": [0.25, 0.25, 0.5],
        "texts": list("abcd"),
        "format_positions": [0],
    }
    data = page_data(prompt, matrices, LABELS, COLORS)
    assert (data["fields"], data["instruction_end"]) == (["premise", "hypothesis"], None)
    assert (data["field_starts"], data["field_ends"]) == ([0, 1, 2, 2], [1, 1, 2, 3])
    assert [flow["pairs"] for flow in data["flows"]] == [1, 1, 4]
    first = data["layers"][0]
    assert first["means"] == [1, 5, 4]  # (1, 0); (3, 1); (2, 0), (2, 1), (3, 0), (3, 2)
    assert first["arcs"] == [[[0, 1, 1]], [[1, 3, 5]], [[2, 3, 7], [1, 2, 4], [0, 3, 3], [0, 2, 2]]]
    assert first["received"] == [0, 1, 6, 15]
    assert first["sent"] == [6, 9, 7, 0]
    assert data["layers"][2]["arcs"] == [[], [], []]
    averages = data["averages"]
    assert {name: view["means"] for name, view in averages.items()} == {
        "shallow": [1, 5, 4],
        "deep": [0, 0, 0],
        "all": [1.333, 6.667, 5.333],
    }
    assert averages["deep"]["name"] == "last layer"
    assert data["facts"]["prediction"] == "<b>Business</b>, with probability 0.50"
    # The label word has the second token, too: (1, 0), (2, 0), (2, 1); (3, 1), (3, 2); (3, 0).
    longer = page_data({**prompt, "label_ends": [3]}, matrices, LABELS, COLORS)
    assert (longer["label_positions"], longer["label_ends"]) == ([1], [3])
    assert [flow["pairs"] for flow in longer["flows"]] == [3, 2, 1]
    assert longer["layers"][0]["means"] == [2.333, 6, 3]


def test_no_more_than_the_strongest_arcs_of_each_flow_are_kept(words: Tokenizer) -> None:
    saliency, shown, prompts = shown_tables(words, 1)
    ((_, html),) = flow_pages(saliency, shown, prompts, LABELS, COLORS)
    (matrix, *_) = saliency_matrices(saliency)
    (prompt,) = prompts.head(1).to_dicts()
    others = np.sort(matrix[flow_masks(prompt)[2]])[::-1]
    arcs = data_of(html)["layers"][0]["arcs"]
    assert len(others) > ARCS == len(arcs[2])
    assert [arc[2] for arc in arcs[2]] == pytest.approx(others[:ARCS].tolist(), rel=1e-3)


def hostile_page(words: Tokenizer) -> str:
    """A page whose first tokens are hostile texts."""
    saliency, shown, prompts = shown_tables(words, 1)
    (texts,) = shown["texts"].to_list()
    texts[: len(HOSTILE)] = HOSTILE
    shown = shown.with_columns(pl.Series("texts", [texts]))
    ((name, html),) = flow_pages(saliency, shown, prompts, LABELS, COLORS)
    assert name == "0.html"
    return html


def test_hostile_texts_stay_data(words: Tokenizer) -> None:
    html = hostile_page(words)
    assert data_of(html)["texts"][: len(HOSTILE)] == HOSTILE
    assert html.count("<script") == html.count("</script") == 2
    assert "<img" not in html
    assert "<b>" not in html
    assert "\u2028" not in html
    assert "\x00" not in html


def test_a_page_refers_to_nothing_outside_itself(words: Tokenizer) -> None:
    ((_, html),) = flow_pages(*shown_tables(words, 1), LABELS, COLORS)
    markup = html.replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
    assert not re.search(r"\b(src|href|action|url|import)\s*[=(]|https?:|//[a-z]", markup)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_index_links_every_page_and_escapes_names(words: Tokenizer) -> None:
    _, shown, _ = shown_tables(words, 3)
    html = index_page("tiny", shown, {"news": LABELS})
    links = re.findall(r'href="(.*?)"', html)
    assert links == ["news/0/0.html", "news/0/1.html", "news/0/2.html"]
    assert "<b>" not in html
    assert "&lt;b&gt;Business" in html
    empty = index_page("tiny", shown.clear(), {"news": LABELS})
    assert "No prompt is short enough" in empty


def opened(browser: Any, folder: Path, html: str) -> dict[str, Any]:
    """Open a page in the browser; returns its data."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    browser.get(path.as_uri())
    return data_of(html)


def numbers(browser: Any) -> list[float]:
    """The three means that the page shows."""
    return browser.execute_script(
        "return [...document.querySelectorAll('.mean')].map((cell) => Number(cell.textContent))"
    )


def strongest(view: dict[str, Any], count: int, flows: tuple[int, ...] = (0, 1, 2)) -> list[Any]:
    every = [arc for flow in flows for arc in view["arcs"][flow]]
    return [arc[:2] for arc in sorted(every, key=lambda arc: -arc[2])[:count]]


def test_sliders_and_flows_choose_the_arcs_and_numbers_of_the_table(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    from selenium.webdriver.common.keys import Keys

    saliency, shown, prompts = shown_tables(words, 1)
    ((_, html),) = flow_pages(saliency, shown, prompts, LABELS, COLORS)
    data = opened(browser, tmp_path, html)
    (prompt,) = prompts.head(1).to_dicts()
    masks, matrices = flow_masks(prompt), saliency_matrices(saliency)
    slider = browser.find_element("id", "layer")
    for layer in range(3):
        means = [matrices[layer][mask].mean() for mask in masks]
        assert numbers(browser) == pytest.approx(means, rel=6e-3)
        assert drawn(browser) == strongest(data["layers"][layer], 40)
        slider.send_keys(Keys.ARROW_RIGHT)
    for key, layers in (("shallow", slice(1)), ("deep", slice(2, 3)), ("all", slice(3))):
        browser.find_element("css selector", f"input[value={key}]").send_keys(Keys.SPACE)
        means = [matrices[layers].mean(0)[mask].mean() for mask in masks]
        assert numbers(browser) == pytest.approx(means, rel=6e-3)
        assert drawn(browser) == strongest(data["averages"][key], 40)
    browser.find_element("id", "count").send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    assert drawn(browser) == strongest(data["averages"]["all"], 2)
    browser.find_element("id", "count").send_keys(Keys.END)
    for box in browser.find_elements("css selector", "#flows input")[::2]:
        box.send_keys(Keys.SPACE)
    assert drawn(browser) == strongest(data["averages"]["all"], 200, (1,))
    slider.send_keys(Keys.ARROW_LEFT)
    assert drawn(browser) == strongest(data["layers"][1], 200, (1,))
    dashes = browser.execute_script(
        "return [...document.querySelectorAll('#flows path')]"
        ".map((line) => [line.getAttribute('stroke'), line.getAttribute('stroke-dasharray')])"
    )
    assert [color for color, _ in dashes] == COLORS
    assert len({dash for _, dash in dashes}) == 3
    assert complaints(browser) == []


def test_focus_and_pointer_tell_a_token_s_numbers(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    saliency, shown, prompts = shown_tables(words, 1)
    ((_, html),) = flow_pages(saliency, shown, prompts, LABELS, COLORS)
    opened(browser, tmp_path, html)
    matrix = saliency_matrices(saliency)[0]
    tokens = browser.find_elements("css selector", ".token")
    details = browser.find_element("id", "details")
    assert len(tokens) == 47
    browser.execute_script("tokens[0].focus()")
    for key, token in (
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_DOWN, 8),
        (Keys.ARROW_DOWN, 18),
        (Keys.END, 46),
        (Keys.ARROW_RIGHT, 46),
        (Keys.ARROW_UP, 28),
        (Keys.HOME, 0),
    ):
        browser.switch_to.active_element.send_keys(key)
        assert browser.switch_to.active_element == tokens[token]
        received, sent = re.findall(r"(?:receives|sends) (\S+) nats", details.text)
        assert float(received) == pytest.approx(matrix[token].sum(), rel=6e-3)
        assert float(sent) == pytest.approx(matrix[:, token].sum(), rel=6e-3)
    ActionChains(browser).move_to_element(tokens[18]).perform()
    assert "label word of demonstration 2" in details.text
    assert browser.find_element("css selector", ".token.active") == tokens[18]
    marked = browser.find_elements("css selector", ".token.label")
    assert marked == [tokens[position] for position in (8, 18, 28)]
    assert browser.find_elements("css selector", ".token.target") == [tokens[46]]
    assert complaints(browser) == []


def test_every_token_of_a_label_word_is_marked(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    saliency, shown, prompts = shown_tables(words, 1)
    ((_, html),) = flow_pages(saliency, shown, with_words(prompts, [1, 3, 2]), LABELS, COLORS)
    opened(browser, tmp_path, html)
    tokens = browser.find_elements("css selector", ".token")
    marked = browser.find_elements("css selector", ".token.label")
    assert marked == [tokens[position] for position in (8, 16, 17, 18, 27, 28)]
    for position, number in ((8, 1), (16, 2), (18, 2), (27, 3)):
        role = tokens[position].get_attribute("aria-label")
        assert role.endswith(f"(label word of demonstration {number})")
    assert complaints(browser) == []


def test_the_instruction_and_every_field_are_named(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    saliency, shown, prompts = shown_tables(words, 1)
    paired = prompts.with_columns(
        pl.lit(8, pl.Int32).alias("instruction_end"),  # in place of the first demonstration
        pl.Series("demonstration_starts", [[8, 10, 20]] * len(prompts)),
        pl.Series("field_names", [["premise", "hypothesis"]] * len(prompts)),
        pl.Series("field_starts", [[8, 8, 11, 14, 21, 25, 31, 33]] * len(prompts)),
        pl.Series("field_ends", [[8, 8, 14, 18, 25, 28, 33, 36]] * len(prompts)),
    )
    ((_, html),) = flow_pages(saliency, shown, paired, LABELS, COLORS)
    opened(browser, tmp_path, html)
    tokens = browser.find_elements("css selector", ".token")
    roles = {0: "formatting", 1: "instruction", 12: "premise", 14: "hypothesis"}
    roles |= {26: "hypothesis", 32: "premise", 33: "hypothesis"}
    for position, role in roles.items():
        assert tokens[position].get_attribute("aria-label").endswith(f"({role})"), position
    blocks = browser.execute_script(
        "return [...document.querySelectorAll('.block h2')].map((each) => each.textContent)"
    )
    assert blocks == ["instruction", *(f"demonstration {k}" for k in (1, 2, 3)), "query"]
    assert complaints(browser) == []


def test_hostile_texts_are_seen_as_text_and_run_nothing(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    opened(browser, tmp_path, hostile_page(words))
    seen = browser.execute_script("return tokens.map((token) => token.textContent)")
    assert seen[: len(HOSTILE)] == [
        "</script><img src=x onerror=alert(1)>",
        "<!--<script>",
        "{{7*7}}${7*7}$title",
        "&lt;b&gt;",
        "[U+202E]right to left[U+2066]",
        "👩[U+200D]🚀",
        "nul␀byte",
        "[U+2028][U+2029]",
        "↵",
        "␣␣",
        "␣",
        "\ufffd",
        "'\"`\\",
    ]
    assert browser.find_elements("css selector", "img, b, #prompt script") == []
    assert complaints(browser) == []


def test_the_policy_stops_what_a_page_does_not_bring(
    browser: Any, tmp_path: Path, words: Tokenizer
) -> None:
    opened(browser, tmp_path, hostile_page(words))
    ran = browser.execute_script(
        "const script = document.body.appendChild(document.createElement('script'));"
        "script.textContent = 'window.ran = true';"
        "document.body.append(script);"
        "document.body.appendChild(document.createElement('img')).src = 'missing.png';"
        "return window.ran"
    )
    assert ran is None
    stopped = " ".join(complaints(browser))
    assert "script-src" in stopped
    assert "default-src 'none'" in stopped
