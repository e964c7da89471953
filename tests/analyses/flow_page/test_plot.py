"""Information-flow pages: what they show, and their texts never as markup."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tokenizers import Tokenizer

from anchorflow.analyses.flow_page.index import index_page
from anchorflow.analyses.flow_page.plot import (
    ARCS,
    _strongest,
    flow_masks,
    flow_pages,
    heads_data,
    page_data,
    saliency_matrices,
    words_of_groups,
)
from anchorflow.model.layer_kinds import by_place
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


Tables = list[pl.DataFrame]  # of one page, in the order of ``flow_pages``
Open = Callable[[str], dict[str, Any]]


@pytest.fixture
def tables(words: Tokenizer) -> Tables:
    return [*shown_tables(words, 1)]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page in the browser, returns its data, and allows no complaints of the browser."""

    def open_page(html: str) -> dict[str, Any]:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.get(path.as_uri())
        return data_of(html) if 'id="data"' in html else {}

    yield open_page
    assert complaints(browser) == []


def page_of(tables: Tables) -> str:
    ((_, html),) = flow_pages(*tables, LABELS, COLORS)
    return html


def data_of(html: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    parsed: dict[str, Any] = json.loads(data)
    return parsed


def test_what_a_page_shows_of_a_small_matrix_equals_values_worked_out_by_hand() -> None:
    matrices = np.array([[[0.0, 0, 0, 0], [1, 0, 0, 0], [2, 4, 0, 0], [3, 5, 7, 0]]])
    matrices = np.concatenate([matrices, 3 * matrices, np.zeros((1, 4, 4))])
    fields = {"field_starts": [0, 1, 2, 2], "field_ends": [1, 1, 2, 3]}
    prompt = {
        **{"tokens": 4, "target_position": 3, "label_positions": [1], "label_ends": [2]},
        **{"demonstration_starts": [0], "query_start": 2, "instruction_end": None, **fields},
        **{"field_names": ["premise", "hypothesis"], "demonstrations": "per_example"},
        **{"label": 0, "prediction": 2, "token_groups": [0, 1, 2], "texts": list("abcd")},
        **{"probabilities": [0.25, 0.25, 0.5], "format_positions": [0], "strongest_pq": 1},
    }
    rows = [("before_to_label", 0, 0.123456, 2), ("label_to_target", 0, -0.5, 2)]
    rows.append(("label_to_target", 2, 2.0, 1))
    columns = ["edges", "layer", "loss_change", "prediction"]
    cuts = pl.DataFrame(rows, schema=columns, orient="row")
    data = page_data(prompt, matrices, LABELS, COLORS, cuts, range(len(matrices)))
    assert data["opens"] == 1
    assert (data["fields"], data["instruction_end"]) == (["premise", "hypothesis"], None)
    assert {name: data[name] for name in fields} == fields
    assert [flow["pairs"] for flow in data["flows"]] == [1, 1, 4]
    first = data["layers"][0]
    assert first["means"] == [1, 5, 4]  # (1, 0); (3, 1); (2, 0), (2, 1), (3, 0), (3, 2)
    assert first["arcs"] == [[[0, 1, 1]], [[1, 3, 5]], [[2, 3, 7], [1, 2, 4], [0, 3, 3], [0, 2, 2]]]
    assert first["received"] == [0, 1, 6, 15]
    assert first["sent"] == [6, 9, 7, 0]
    assert data["layers"][2]["arcs"] == [[], [], []]
    # The prediction, 2, is named where a cut changes it; the second layer was not cut.
    assert data["cuts"] == [
        [[0.1235, None], None, None],
        [[-0.5, None], None, [2, "Sports"]],
        [None, None, None],
        [None, None, None],
    ]
    averages = data["averages"]
    assert {name: view["means"] for name, view in averages.items()} == {
        "shallow": [1, 5, 4],
        "deep": [0, 0, 0],
        "all": [1.333, 6.667, 5.333],
    }
    assert averages["deep"]["name"] == "last layer"
    assert data["facts"]["prediction"] == "<b>Business</b>, with probability 0.50"
    # The label word has the second token, too: (1, 0), (2, 0), (2, 1); (3, 1), (3, 2); (3, 0).
    longer = page_data(
        {**prompt, "label_ends": [3]}, matrices, LABELS, COLORS, cuts, range(len(matrices))
    )
    assert (longer["label_positions"], longer["label_ends"]) == ([1], [3])
    assert [flow["pairs"] for flow in longer["flows"]] == [3, 2, 1]
    assert longer["layers"][0]["means"] == [2.333, 6, 3]


def test_no_more_than_the_strongest_arcs_of_each_flow_are_kept(tables: Tables) -> None:
    (matrix, *_), prompt = saliency_matrices(tables[0]), tables[4].row(0, named=True)
    others = np.sort(matrix[flow_masks(prompt)[2]])[::-1]
    arcs = data_of(page_of(tables))["layers"][0]["arcs"]
    assert len(others) > ARCS == len(arcs[2])
    assert [arc[2] for arc in arcs[2]] == pytest.approx(others[:ARCS].tolist(), rel=1e-3)


@pytest.mark.parametrize("tokens", [30, 450])
def test_the_strongest_arcs_are_those_of_all_entries_sorted(tokens: int) -> None:
    random = np.random.default_rng(0)
    matrix = np.tril(random.integers(0, 40, (tokens, tokens)), -1) / 8  # with many ties
    matrix[tokens // 2 :] *= random.random((tokens - tokens // 2, 1)) < 0.1  # and empty rows
    order = np.argsort(-matrix, axis=None, kind="stable")[:ARCS]
    plain = [[place % tokens, place // tokens, matrix.flat[place]] for place in order.tolist()]
    assert _strongest(matrix) == [arc for arc in plain if arc[2] > 0] != []
    assert _strongest(np.zeros((tokens, tokens))) == []


@pytest.fixture
def hostile(tables: Tables) -> str:
    """A page whose first tokens are hostile texts."""
    (texts,) = tables[1]["texts"].to_list()
    texts[: len(HOSTILE)] = HOSTILE
    changed = tables[1].with_columns(pl.Series("texts", [texts]))
    return page_of([tables[0], changed, *tables[2:]])


def test_labels_that_saliency_takes_together_are_named_together() -> None:
    words = words_of_groups([" Fire place", " Water", " Fire work"], [0, 1, 0])
    assert words == ["Fire place or Fire work", "Water", "Fire place or Fire work"]


def test_hostile_texts_stay_data(hostile: str) -> None:
    assert data_of(hostile)["texts"][: len(HOSTILE)] == HOSTILE
    assert hostile.count("<script") == hostile.count("</script") == 2
    for markup in ("<img", "<b>", "\u2028", "\x00"):
        assert markup not in hostile


def test_a_page_refers_to_nothing_outside_itself(tables: Tables) -> None:
    ((name, html),) = flow_pages(*tables, LABELS, COLORS)
    assert name == "0.html"
    markup = html.replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
    assert not re.search(r"\b(src|href|action|url|import)\s*[=(]|https?:|//[a-z]", markup)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_index_links_every_page_and_escapes_names(words: Tokenizer) -> None:
    _, shown, *_ = shown_tables(words, 3)
    html = index_page("tiny", shown, {"news": LABELS})
    links = re.findall(r'href="(.*?)"', html)
    assert links == ["news/0/0.html", "news/0/1.html", "news/0/2.html"]
    assert "<b>" not in html
    assert "&lt;b&gt;Business" in html
    hostile = shown.with_columns(query=pl.lit("\u202e<script>alert(1)</script>\x00"))
    html = index_page("tiny", hostile, {"news": LABELS})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.count("<script>") == 1
    assert "\u202e" not in html
    assert "\x00" not in html
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert "unsafe" not in policy
    empty = index_page("tiny", shown.clear(), {"news": LABELS})
    assert "No prompt is short enough" in empty


def test_the_index_has_wrong_predictions_last_and_says_where_flow_is_strongest(
    words: Tokenizer,
) -> None:
    _, shown, *_ = shown_tables(words, 2)
    shown = shown.with_columns(
        label=pl.Series([1, 0], dtype=pl.Int32),
        prediction=pl.Series([2, 0], dtype=pl.Int32),
        query=pl.Series(["Article: goals", "Article: rain\nAnswer:"]),
        strongest_pq=pl.Series([1, 2], dtype=pl.Int32),
        strongest_wp=pl.Series([0, 0], dtype=pl.Int32),
    )
    html = index_page("tiny", shown, {"news": LABELS})
    rows = re.findall(r"<tr>(<td>.*?)</tr>", html, re.DOTALL)
    cells = [
        [re.sub("<.*?>", "", c) for c in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)]
        for row in rows
    ]
    assert [row[1] for row in cells] == ["Article: rain\nAnswer:", "Article: goals"]
    assert [row[3] for row in cells] == ["World", "&lt;b&gt;Business&lt;/b&gt; (wrong)"]
    assert [row[5:] for row in cells] == [["2", "0"], ["1", "0"]]


def test_typing_keeps_the_rows_in_which_every_word_occurs(
    words: Tokenizer, browser: Any, opened: Open
) -> None:
    _, shown, *_ = shown_tables(words, 3)
    queries = pl.Series(["rain in June", "a goal in June", "shares fell"])
    opened(index_page("tiny", shown.with_columns(query=queries), {"news": LABELS}))

    def left(typed: str) -> tuple[list[int], str]:
        browser.execute_script(
            "search.value = arguments[0]; search.dispatchEvent(new Event('input'))", typed
        )
        visible = browser.execute_script(
            "return rows.flatMap((row, k) => (row.offsetHeight ? [k] : []))"
        )
        return visible, browser.execute_script("return document.getElementById('found').value")

    assert left("") == ([0, 1, 2], "3 prompts")
    assert left("JUNE in") == ([0, 1], "2 of 3 prompts")
    assert left("june goal") == ([1], "1 of 3 prompts")
    assert left("text 2") == ([2], "1 of 3 prompts")
    assert left("nothing like it") == ([], "0 of 3 prompts")


def test_a_bar_chooses_its_layer_and_the_table_says_what_the_cut_did(
    tables: Tables, browser: Any, opened: Open
) -> None:
    data = opened(page_of(tables))
    assert len(browser.execute_script("return [...document.querySelectorAll('#cuts g')]")) == 12

    def told() -> list[str]:
        return browser.execute_script(
            "return [...document.querySelectorAll('td.cut')].map((cell) => cell.textContent)"
        )

    browser.execute_script(
        "document.querySelectorAll('#cuts g')[5].dispatchEvent(new Event('click'))"
    )
    assert browser.execute_script("return [state.view, state.layer]") == ["layer", 2]
    change, other = data["cuts"][1][2]
    assert told()[1].startswith(f"loss {'+' if change > 0 else '−'}")
    assert ("same answer" in told()[1]) == (other is None)
    assert browser.execute_script("return document.querySelectorAll('#cuts g.here').length") == 4
    browser.execute_script("control({ target: document.querySelector('input[value=all]') })")
    assert told() == ["–", "–", "–"]


def test_heads_of_a_page_equal_values_worked_out_by_hand() -> None:
    # One layer of two heads; labels 0 and 2 begin alike, so there are two classes.
    heads = pl.DataFrame(
        {
            "layer": [0] * 6,
            "head": [0, 0, 0, 1, 1, 1],
            "token": [0, 1, 2] * 2,
            "attention": [0.2, 0.5, 0.3, 1.0, 0.0, 0.0],
            "writes": [[1.0, -1.0], [2.0, -2.0], [-4.0, 4.0], [0.5, -0.5], [0.0, 0.0], [0.0, 0.0]],
        }
    )
    prompt = {"token_groups": [0, 1, 0], "label": 2}
    found = heads_data(prompt, heads, ["A", "B", "C"])
    assert found == {
        "words": ["A or C", "B"],
        "label": 0,
        "totals": [[[-1, 1], [0.5, -0.5]]],
        "read": [
            [
                [[1, 0.5, [2, -2]], [2, 0.3, [-4, 4]], [0, 0.2, [1, -1]]],
                [[0, 1, [0.5, -0.5]], [1, 0, [0, 0]], [2, 0, [0, 0]]],
            ]
        ],
    }
    assert heads_data(prompt, heads.clear(), ["A", "B", "C"]) is None


def test_a_head_s_square_draws_what_it_attends_to_and_tells_what_it_writes(
    tables: Tables, browser: Any, opened: Open
) -> None:
    numbers = [1, 3, 6]  # of the layers that attend, in a hybrid model
    frames = [by_place(table, numbers, 8) for table in tables]
    of_layers = pl.col("strongest_wp", "strongest_pq").replace(dict(enumerate(numbers)))
    frames[1] = frames[1].with_columns(of_layers)
    data = opened(page_of(frames))
    heads, target = data["heads"], data["target"]
    squares = browser.find_elements("css selector", "#heads g")
    assert len(squares) == len(heads["totals"]) * len(heads["totals"][0])
    squares[-1].click()
    (layer, head) = browser.execute_script("return [state.layer, state.head]")
    assert (layer, head) == (len(heads["totals"]) - 1, len(heads["totals"][0]) - 1)
    read = [row for row in heads["read"][layer][head] if row[0] != target and row[1] > 0]
    assert drawn(browser) == [[token, target] for token, _, _ in read]
    details = browser.find_element("id", "details").text
    named = f"layer {numbers[layer]}, head {head}"
    assert f"{named}\n" in details
    assert browser.find_element("id", "scale").text.startswith(f"{named}: ")
    assert squares[-1].get_attribute("aria-label").startswith(f"head {numbers[layer]}.{head}: ")
    notes = browser.find_element("css selector", "#heads .bars .note").text
    assert notes.startswith("layers 1, 3, 6; up to")
    assert f"(token {read[0][0]}): attention {float(f'{read[0][1]:.3g}'):g}"[:-1] in details
    browser.execute_script("control({ target: document.querySelector('input[value=all]') })")
    assert drawn(browser) == strongest(data["averages"]["all"], 40)


def numbers(browser: Any) -> list[float]:
    """The three means that the page shows."""
    return browser.execute_script(
        "return [...document.querySelectorAll('.mean')].map((cell) => Number(cell.textContent))"
    )


def strongest(view: dict[str, Any], count: int, flows: tuple[int, ...] = (0, 1, 2)) -> list[Any]:
    every = [arc for flow in flows for arc in view["arcs"][flow]]
    return [arc[:2] for arc in sorted(every, key=lambda arc: -arc[2])[:count]]


def test_sliders_and_flows_choose_the_arcs_and_numbers_of_the_table(
    tables: Tables, browser: Any, opened: Open
) -> None:
    from selenium.webdriver.common.keys import Keys

    data = opened(page_of(tables))
    masks, matrices = flow_masks(tables[4].row(0, named=True)), saliency_matrices(tables[0])
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


def test_focus_and_pointer_tell_a_token_s_numbers(
    tables: Tables, browser: Any, opened: Open
) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(page_of(tables))
    matrix = saliency_matrices(tables[0])[0]
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


def test_every_token_of_a_label_word_is_marked(tables: Tables, browser: Any, opened: Open) -> None:
    opened(page_of([*tables[:4], with_words(tables[4], [1, 3, 2])]))
    tokens = browser.find_elements("css selector", ".token")
    marked = browser.find_elements("css selector", ".token.label")
    assert marked == [tokens[position] for position in (8, 16, 17, 18, 27, 28)]
    for position, number in ((8, 1), (16, 2), (18, 2), (27, 3)):
        role = tokens[position].get_attribute("aria-label")
        assert role.endswith(f"(label word of demonstration {number})")


def test_the_instruction_and_every_field_are_named(
    tables: Tables, browser: Any, opened: Open
) -> None:
    *others, prompts = tables
    paired = prompts.with_columns(
        pl.lit(8, pl.Int32).alias("instruction_end"),  # in place of the first demonstration
        pl.Series("demonstration_starts", [[8, 10, 20]] * len(prompts)),
        pl.Series("field_names", [["premise", "hypothesis"]] * len(prompts)),
        pl.Series("field_starts", [[8, 8, 11, 14, 21, 25, 31, 33]] * len(prompts)),
        pl.Series("field_ends", [[8, 8, 14, 18, 25, 28, 33, 36]] * len(prompts)),
    )
    opened(page_of([*others, paired]))
    tokens = browser.find_elements("css selector", ".token")
    roles = {0: "formatting", 1: "instruction", 12: "premise", 14: "hypothesis"}
    roles |= {26: "hypothesis", 32: "premise", 33: "hypothesis"}
    for position, role in roles.items():
        assert tokens[position].get_attribute("aria-label").endswith(f"({role})"), position
    blocks = browser.execute_script(
        "return [...document.querySelectorAll('.block h2')].map((each) => each.textContent)"
    )
    assert blocks == ["instruction", *(f"demonstration {k}" for k in (1, 2, 3)), "query"]


def test_hostile_texts_are_seen_as_text_and_run_nothing(
    hostile: str, browser: Any, opened: Open
) -> None:
    opened(hostile)
    seen = browser.execute_script("return tokens.map((token) => token.textContent)")
    invisible = ["[U+202E]right to left[U+2066]", "👩[U+200D]🚀", "nul␀byte", "[U+2028][U+2029]"]
    blank = ["↵", "␣␣", "␣"]
    assert seen[: len(HOSTILE)] == [*HOSTILE[:4], *invisible, *blank, *HOSTILE[-2:]]
    assert browser.find_elements("css selector", "img, b, #prompt script") == []


def test_the_policy_stops_what_a_page_does_not_bring(
    hostile: str, browser: Any, opened: Open
) -> None:
    opened(hostile)
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
